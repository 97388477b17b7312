"""The files of the error ledger, beside the history: what rules answered on main, and what later showed the truth.

    _history/_ledger/SUITE/2026-11/TIME-ID.json    one check, or one piece of evidence
    _history/_ledger/SUITE/2026-11-HASH.json       those of a month

Nothing is rewritten, as in the history: `compact` writes a month as one file, and removes the others after it read all
of their entries there. Two entries with the same id count once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from perfgate.baselines.places import HISTORY, LEDGER, MONTH_FILE
from perfgate.baselines.stores import Store, WritableStore, each_file, write_file
from perfgate.core import Problem, SourceFile, Verdict
from perfgate.core.history_events import LedgerAnswer, LedgerEntry, RuleAnswer
from perfgate.core.wording import plural
from perfgate.documents.structs import SignedFile
from perfgate.version import __version__
from perfgate.workspace.surroundings import now


class LedgerFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a file of the ledger."""

    schema: str
    tool: str
    suite: str
    entries: list[LedgerEntry]
    content_sha256: str = ""


LEDGER_FILE = SignedFile(
    "perfgate.ledger/1", LedgerFile, lambda file: None, "remove it: its entries are then forgotten", ("entries",)
)


def has_history(store: Store, suite: str) -> bool:
    """Return whether main is remembered: only then its checks are recorded."""
    return any(store.paths(f"{HISTORY}/{suite}")[0])


def record_check(
    store: WritableStore,
    suite: str,
    place: str | None,
    commit: str | None,
    files: Iterable[SourceFile],
    verdicts: Sequence[Verdict],
) -> str | None:
    """Record what each rule answered; returns the path, or None if these runs were recorded. Raises Refused.

    `place`: the level that the runs were compared with, SUITE/ENVIRONMENT/LEVEL. `files`: the runs. The same runs
    judged again are not recorded again.
    """
    answers = [
        RuleAnswer(rule, _answer(own), sorted({one.metric for one in own}))
        for rule in dict.fromkeys(one.rule for one in verdicts)
        if (own := [one for one in verdicts if one.rule == rule and one.outcome != "skipped"])
    ]
    environment, commits = place.split("/")[1] if place else "", [commit] if commit else []
    entry = LedgerEntry("check", commits, environment=environment, answers=answers)
    return (
        _write(store, suite, entry, [environment, commits, sorted(file.sha256 for file in files)]) if answers else None
    )


def _answer(verdicts: Sequence[Verdict]) -> LedgerAnswer:
    if any(one.outcome == "fail" for one in verdicts):
        return "red"
    return "green" if all(one.outcome == "pass" for one in verdicts) else "open"


def record_evidence(store: WritableStore, suite: str, found: LedgerEntry) -> str | None:
    """Record what showed the truth about checks; returns the path, or None if it is known or there are no checks.

    Raises Refused.
    """
    if not any(store.paths(f"{LEDGER}/{suite}")[0]):
        return None
    known = [found.kind, found.environment, found.commits or f"{now():%Y-%m-%dT%H:%M:%SZ}", found.metrics]
    return _write(store, suite, found, known)


def _write(store: WritableStore, suite: str, entry: LedgerEntry, known: Sequence[object]) -> str | None:
    """Write an entry with its time, and an id of what makes it the same; None if it is there."""
    entry = replace(
        entry, time=f"{now():%Y-%m-%dT%H:%M:%SZ}", id=hashlib.sha256(json.dumps(known).encode()).hexdigest()[:16]
    )
    if any(entry.id in path for path in store.paths(f"{LEDGER}/{suite}")[0]):
        return None
    stamp = entry.time.replace("-", "").replace(":", "")
    path = f"{LEDGER}/{suite}/{entry.time[:7]}/{stamp}-{entry.id}.json"
    write_file(store, path, _data(suite, [entry]))
    return path


def _data(suite: str, entries: Sequence[LedgerEntry]) -> bytes:
    return LEDGER_FILE.encode(LedgerFile(LEDGER_FILE.schema, f"perfgate {__version__}", suite, [*entries]))


def read_ledger(store: Store, suite: str) -> tuple[tuple[LedgerEntry, ...], list[Problem]]:
    """Return the entries of a suite, and the files that cannot be used; `ledger_of` counts them."""
    paths, problems = store.paths(f"{LEDGER}/{suite}")
    return tuple(_entries(store, paths, problems).values()), problems


def _entries(store: Store, paths: Iterable[str], problems: list[Problem]) -> dict[str, LedgerEntry]:
    found: dict[str, LedgerEntry] = {}
    for path, data in each_file(store, paths, "history", problems):
        file, wrong = LEDGER_FILE.decode(str(store.location(path)), data)
        problems += wrong
        for entry in file.entries if file else ():
            if entry.id not in found or entry.time < found[entry.id].time:
                found[entry.id] = entry
    return found


def suites_of_ledger(store: Store) -> list[str]:
    """Return the suites that have a ledger."""
    return sorted({path.split("/")[2] for path in store.paths(LEDGER)[0]})


def compact_ledger(store: WritableStore, before: str | None = None) -> tuple[list[str], list[Problem]]:
    """Write the entries of each month as one file; returns a line a month, and what is wrong. Raises Refused.

    `before`: the first month that is left alone, `YYYY-MM`; None for all months.
    """
    months: dict[tuple[str, str], list[str]] = {}
    lines, problems = list[str](), list[Problem]()
    for path in store.paths(LEDGER)[0]:
        _, _, suite, name = path.split("/")[:4]
        months.setdefault((suite, name[:7]), []).append(path)
    for (suite, month), paths in sorted(months.items()):
        if (before is not None and month >= before) or (len(paths) == 1 and MONTH_FILE.search(paths[0])):
            continue
        damaged: list[Problem] = []
        entries = _entries(store, paths, damaged)
        data = _data(suite, sorted(entries.values(), key=lambda one: (one.time, one.id)))
        target = f"{LEDGER}/{suite}/{month}-{hashlib.sha256(data).hexdigest()[:16]}.json"
        if not damaged and target not in paths:
            write_file(store, target, data)
        problems += damaged
        if not damaged and _entries(store, [target], problems).keys() == entries.keys():
            for path in paths:
                if path != target:
                    store.remove(path)
            lines.append(f"ledger of {suite}, {month}: {plural(len(entries), 'record')} in one file")
    return lines, problems
