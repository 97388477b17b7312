"""The names in a store, and the identity of environments.

    SUITE/ENVIRONMENT/LEVEL/RUN.json     one stored run
    SUITE/ENVIRONMENT/prior.json         the measured noise between runs in this environment
    SUITE/ENVIRONMENT/prior-in-turn.json the measured noise between pairs, one file for each way to make pairs
    SUITE/_allowances/NAME.json          the size of a regression that one commit may cause
    _history/SUITE/ENVIRONMENT/...       every run of main, in short; see `perfgate.history`
    _history/_ledger/SUITE/...           the answers of rules on main, and evidence about them; see `ledger`
    _machines/HOST/TIME.json             the state of a runner when it qualified; see `runners`

The name of a suite, an environment or a level never begins with `_`, so the kinds cannot be confused.

Runs may be compared if their environments have the same identity: a short list of stable facts, equal one by one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

from perfgate.core import Fact, fact_text

ALLOWANCES = "_allowances"
#: The history is outside of the folders of suites, so that no other command reads or lists it.
HISTORY = "_history"
MACHINES = "_machines"
#: Beside the suites of the history; no suite has a name with `_` first.
LEDGER = f"{HISTORY}/_ledger"
#: A safe name of a suite, an environment, a level or a run: it cannot lead out of the folder.
SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
#: The judge learns the noise from this many remembered runs; older ones show little about the machines of today.
NEWEST_RUNS = 100
#: The file of a month of the history: the month, and the beginning of the hash of its bytes.
MONTH_FILE = re.compile(r"(?:^|/)(\d{4}-\d\d)-([0-9a-f]+)\.json$")
#: The newest runs are looked for in the files of this many months.
_MONTHS = 3
#: The name of the file of a prior, with the way in which pairs were made.
_PRIOR = re.compile(r"prior(?:-([a-z-]+))?\.json")
#: The facts that identify an environment; None for a fact that is not known.
Identity = Mapping[str, Fact | None]


class UnsafeName(ValueError):
    """A name that could lead out of the folder."""


#: A path in a store, and the bytes of the file or the reason why they cannot be read.
FileOrError: TypeAlias = tuple[str, bytes | OSError | UnsafeName]


def check_path(path: str) -> Iterator[str]:
    """Yield the parts of a path, each of them a safe name, or `_` and a safe name. Raises UnsafeName."""
    for part in path.split("/"):
        if not SAFE_NAME.fullmatch(part.removeprefix("_")):
            raise UnsafeName(
                f"{part!r} is not a name for a baseline: use letters, digits, dots, dashes and underscores"
            )
        yield part


@lru_cache(maxsize=1024)
def _is_safe(folders: tuple[str, ...]) -> bool:
    return all(SAFE_NAME.fullmatch(part) for part in folders)


def kind_of(path: str) -> Literal["run", "prior", "allowance", "history", "machine"] | None:
    """Return the kind of file that a path names; None if no command reads it."""
    *folders, name = path.split("/")
    if not name.endswith(".json"):
        return None
    if folders[:1] == [HISTORY]:
        # a file of one run is in the folder of its month, beside the files of whole months
        return "history" if len(folders) in (3, 4) else None
    if folders[:1] == [MACHINES]:
        return "machine" if len(folders) == 2 else None
    if folders[1:] == [ALLOWANCES]:
        return "allowance"
    if not _is_safe(tuple(folders)):
        return None
    if len(folders) == 3:
        return "run"
    return "prior" if len(folders) == 2 and _PRIOR.fullmatch(name) else None


def prior_path(suite: str, environment: str, pairing: str | None = None) -> str:
    """Return the path of the noise between runs, or between pairs that are made in one way."""
    return f"{suite}/{environment}/prior{f'-{pairing}' if pairing else ''}.json"


def pairing_of(path: str) -> str | None:
    """Return the way to make pairs that the path of a prior names; None for single runs."""
    found = _PRIOR.fullmatch(path.rsplit("/", 1)[-1])
    return found[1] if found else None


def folder_of(path: str, depth: int) -> str:
    """Return the first parts of a path: two are the environment, three the level."""
    return "/".join(path.split("/")[:depth])


def identity_of(facts: Mapping[str, Fact], names: Sequence[str]) -> dict[str, Fact | None]:
    """Return the facts that identify an environment; None for a fact that is not known."""
    return {name: facts.get(name) for name in names}


def environment_name(identity: Identity) -> str:
    """Return the folder name of an environment: readable, safe, and unique because of a hash of all facts."""
    facts = {name: None if value is None else fact_text(value) for name, value in identity.items()}
    # one word or number gets the name of its fact; `NVIDIA H200` needs none
    words = [f"{name} {text}" if text.isalnum() else text for name, text in facts.items() if text is not None]
    slugs = [re.sub(r"[^a-z0-9.]+", "-", word.lower()).strip("-.") for word in words]
    text = "-".join(filter(None, slugs))[:60].strip("-") or "unknown"
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return f"{text}-{digest[:8]}"


def differences(stored: Identity, seen: Identity) -> list[str]:
    """Return a sentence for each fact that differs; a fact that only one side knows differs, too."""
    old, new = (
        {name: fact_text(value) for name, value in side.items() if value is not None} for side in (stored, seen)
    )
    return [
        f"{name} is {new.get(name, 'unknown')}, in the baseline {old.get(name, 'unknown')}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]


def newest_history(paths: Sequence[str], runs: int = NEWEST_RUNS) -> list[str]:
    """Return the paths of files with at least the newest `runs` runs, or with fewer if the newest months have fewer.

    They are `runs` files of one run each; if there are fewer, all of these and the files of the newest months. So
    runs with a file of their own are taken to be newer than those in a file of a month.
    """
    # the name of a file of one run begins with its time
    single = sorted((path for path in paths if not MONTH_FILE.search(path)), key=lambda path: path.rpartition("/")[2])
    if len(single) >= runs:
        return single[-runs:]
    months = sorted({found[1] for path in paths if (found := MONTH_FILE.search(path))})[-_MONTHS:]
    return [*single, *(path for path in paths if (found := MONTH_FILE.search(path)) and found[1] in months)]


def one_by_one(read: Callable[[str], bytes], paths: Iterable[str]) -> Iterator[FileOrError]:
    """Yield what `read` returns or raises for each path."""
    for path in paths:
        try:
            yield path, read(path)
        except (OSError, UnsafeName) as error:
            yield path, error
