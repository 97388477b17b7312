"""How much of an input is read: limits that no honest file meets, and that keep a hostile one from taking a machine.

Whatever goes beyond a limit is an error that names it, says its value, and how to raise it:

    PERFGATE_LIMITS="series=50000,inflated_bytes=8GiB"

A limit is a whole number, of bytes also with a unit of `perfgate.core.units`. Nothing beyond a limit is left out in
silence: reading stops, and the error keeps every rule from passing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches

from perfgate.core import Problem
from perfgate.core.units import UNITS

VARIABLE = "PERFGATE_LIMITS"


@dataclass(frozen=True, slots=True)
class Limits:
    """Every limit by the name that users write; those of bytes end in `_bytes`."""

    #: A document that means something only as a whole, such as JSON.
    document_bytes: int = 64 << 20
    #: What a compressed file inflates to. No report of a training run is larger.
    inflated_bytes: int = 4 << 30
    #: How many times its own size a compressed file inflates to, from 64 MiB on: logs and traces stay below 50.
    inflation: int = 100
    #: A piece of a line that has no end; a longer line is read in pieces.
    line_bytes: int = 1 << 20
    #: A printed Python object: taking it apart needs some hundred times the memory of its text.
    printed_bytes: int = 512 << 10
    #: How deep lists and objects are nested.
    depth: int = 64
    #: Lists and objects in one JSON document, each of which takes some hundred bytes.
    containers: int = 1_000_000
    #: Series in one file: metrics times ranks and other labels.
    series: int = 20_000
    #: Runs in one file.
    runs: int = 1_000
    #: Problems of one file; those of one series beyond the first twenty are only counted.
    problems: int = 5_000
    #: The name of a series with its labels, a fact, or what is said of them: names of kernels take some kilobytes.
    name_bytes: int = 64 << 10
    #: Environment facts of one run.
    facts: int = 1_000
    #: Verdicts of one check: rules times the metrics and labels that they match.
    verdicts: int = 5_000
    #: One rule file.
    rule_bytes: int = 1 << 20
    #: Values in one rule file, each of which may be a mistake that is explained.
    rule_values: int = 100_000
    #: How deep a rule file is nested.
    rule_depth: int = 32
    #: One stored baseline.
    baseline_bytes: int = 16 << 20

    def beyond(self, name: str, what: str) -> str:
        """What to say of something (`what`: "more series") beyond a limit, and how to raise it."""
        value = getattr(self, name)
        raised = f"{VARIABLE}={name}={_shown(name, 2 * value)}"
        return f"{what} than the limit {name}={_shown(name, value)} allows; if this is meant, set {raised}"


#: What a run of perfgate has that raises none.
DEFAULT = Limits()


class OverLimit(Exception):
    """Reading stops: `problem` says at which limit, `before` what had been found wrong until there."""

    def __init__(self, problem: Problem, before: Sequence[Problem] = ()) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.before = tuple(before)


def parse_limits(text: str) -> Limits:
    """The limits with those raised or lowered that `NAME=NUMBER,NAME=NUMBER` names. Raises ValueError."""
    known = [field.name for field in fields(Limits)]
    given: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise ValueError(f"there is no limit {name!r}; {hint}")
        if name in given:
            raise ValueError(f"the limit {name!r} is given twice")
        given[name] = _parsed(name, value)
    return replace(DEFAULT, **given)


def _parsed(name: str, text: str) -> int:
    digits = text.rstrip("KMGTiB") if name.endswith("_bytes") else text
    unit = UNITS.get(text[len(digits) :] or "B")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 16) or unit is None:
        example = "64MiB" if name.endswith("_bytes") else "50000"
        raise ValueError(f"{name}={text}: a limit is a whole number, such as {name}={example}")
    return int(digits) * int(unit.factor)


def _shown(name: str, value: int) -> str:
    """A value as a user would write it."""
    for unit in ("GiB", "MiB", "KiB") if name.endswith("_bytes") else ():
        if value and value % int(UNITS[unit].factor) == 0:
            return f"{value // int(UNITS[unit].factor)}{unit}"
    return str(value)
