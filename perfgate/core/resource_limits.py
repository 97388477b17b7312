"""Limits on the size of inputs, so that a hostile file cannot use up a machine; normal files stay far below them.

Input beyond a limit is an error with the name and value of the limit, and how to raise it:

    PERFGATE_LIMITS="series=50000,inflated_bytes=8GiB"

A limit is a whole number; a limit of bytes may have a unit of `perfgate.core.units`. Reading stops at a limit, and the
error prevents every rule from passing.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Problem
from perfgate.core.units import UNITS

VARIABLE = "PERFGATE_LIMITS"


class Limits(Struct, frozen=True):
    """Every limit by the name that users write; limits of bytes end in `_bytes`."""

    #: A document that must be read as a whole, such as JSON; in `perfgate.results/1`, values and steps do not count.
    document_bytes: int = 64 << 20
    #: The decompressed size of a file, and the size of a binary log. No report of a training run is larger.
    inflated_bytes: int = 4 << 30
    #: The compression ratio of a file, from 64 MiB on: logs and traces stay below 50.
    inflation: int = 100
    #: A part of a line; a longer line is read in parts.
    line_bytes: int = 1 << 20
    #: A printed Python object: parsing it needs about a hundred times the memory of its text.
    printed_bytes: int = 512 << 10
    #: The nesting of lists and objects.
    depth: int = 64
    #: Lists and objects in one JSON document; each takes some hundred bytes.
    containers: int = 1_000_000
    #: Series in one file: metrics times ranks and other labels.
    series: int = 20_000
    #: Runs in one file.
    runs: int = 1_000
    #: Problems of one file; of one series, only the first twenty are listed.
    problems: int = 5_000
    #: The name of a series with its labels, a fact, or a text about them: names of kernels have some kilobytes.
    name_bytes: int = 64 << 10
    #: Environment facts of one run.
    facts: int = 1_000
    #: Verdicts of one check: rules times matching metrics and labels.
    verdicts: int = 5_000
    #: One rule file.
    rule_bytes: int = 1 << 20
    #: Values in one rule file; each may be a mistake with a message.
    rule_values: int = 100_000
    #: The nesting of a rule file.
    rule_depth: int = 32
    #: One stored baseline.
    baseline_bytes: int = 16 << 20

    def beyond(self, name: str, what: str) -> str:
        """Return the message that something (`what`: "more series") is beyond a limit, and how to raise it."""
        value = getattr(self, name)
        raised = f"{VARIABLE}={name}={_shown(name, 2 * value)}"
        return f"{what} than the limit {name}={_shown(name, value)} allows; to raise the limit, set {raised}"


#: The limits without changes by the user.
DEFAULT = Limits()


class OverLimit(Exception):
    """Reading stops at a limit: `problem` describes it, and `before` are the problems found until then."""

    def __init__(self, problem: Problem, before: Sequence[Problem] = ()) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.before = tuple(before)


def parse_limits(text: str) -> Limits:
    """Return the limits with the changes in `NAME=NUMBER,NAME=NUMBER`. Raises ValueError."""
    known = list(Limits.__struct_fields__)
    given: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known limits are {', '.join(known)}"
            raise ValueError(f"there is no limit {name!r}; {hint}")
        if name in given:
            raise ValueError(f"the limit {name!r} is given twice")
        given[name] = _number(name, value)
    return replace(DEFAULT, **given)


def _number(name: str, value: str) -> int:
    """Return the value of a limit, such as 50000, or 64MiB for a number of bytes. Raises ValueError."""
    is_bytes = name.endswith("_bytes")
    digits = value.rstrip("KMGTPiB") if is_bytes else value
    unit = UNITS.get(value[len(digits) :] or "B")
    is_whole = digits.isascii() and digits.isdigit()
    # 16 digits are beyond any machine, and thousands would be an error of int().
    if not is_whole or len(digits) >= 16 or unit is None:
        example = "64MiB" if is_bytes else "50000"
        raise ValueError(f"{name}={value}: a limit must be a whole number, such as {name}={example}")
    return int(digits) * int(unit.factor)


def _shown(name: str, value: int) -> str:
    """Return a value as a user would write it."""
    for unit in ("GiB", "MiB", "KiB") if name.endswith("_bytes") else ():
        if value and value % int(UNITS[unit].factor) == 0:
            return f"{value // int(UNITS[unit].factor)}{unit}"
    return str(value)
