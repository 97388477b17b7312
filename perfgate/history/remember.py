"""Remember measured runs: `perfgate history add`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from perfgate.baselines.candidates import read_measured
from perfgate.baselines.places import identity_of
from perfgate.baselines.stores import open_store
from perfgate.core import Fact, Run
from perfgate.core.remembered_runs import HistoryRecord, HistoryRun
from perfgate.core.wording import plural, utf8_text
from perfgate.history.records import id_of_files, refuse_line_breaks, values_of
from perfgate.history.store import add
from perfgate.rules.ruleset import Ruleset
from perfgate.workspace import surroundings
from perfgate.workspace.input_files import opened
from perfgate.workspace.options import CommandOptions, Refused, shown_path
from perfgate.workspace.rule_source import WORKING_TREE, no_rules, read_ruleset
from perfgate.workspace.surroundings import git


class Measured(Struct, frozen=True):
    """The time and the place of a measurement. Fields that are None are found out."""

    #: UTC, `YYYY-MM-DDTHH:MM:SSZ`; the default is the clock.
    time: str | None = None
    ref: str | None = None
    tags: tuple[str, ...] = ()


_NOW_AND_HERE = Measured()


def remember(options: CommandOptions, measured: Measured = _NOW_AND_HERE) -> list[str]:
    """Add runs to the history; returns the lines to print. Raises Refused for runs that cannot be read."""
    ruleset = rules_or_none(options)
    try:
        runs, facts, noticed = read_measured(options, ruleset, purpose="be remembered")
    except Refused as refused:
        raise _kept_by_another_tool(options.runs) or refused from None
    store = open_store(options.baselines)
    lines = [*map(str, noticed)]
    for run in runs:
        record, left_out = record_of(run, facts, ruleset, options, measured)
        if not record.values:
            raise Refused(f"{run.name} has no numbers to remember: see `perfgate inspect {run.source}`", 3)
        refuse_line_breaks(record, run.name)
        path = add(store, record, left_out)
        if path is None:
            lines.append(f"{run.name} is in the history already")
            continue
        lines.append(f"remembered {run.name}: {plural(len(record.values), 'number')} in {store.location(path)}")
        if left_out:
            lines.append(f"  left out, because there is no room: {plural(left_out, 'metric')}; name one in a rule")
    return lines


def _kept_by_another_tool(paths: Sequence[str]) -> Refused | None:
    """Return the advice for files that are histories; None if no file is one, or none can be read."""
    from perfgate.history.imports import HEAD, importer_of

    lines = []
    for path in (path for path in paths if Path(path).is_file()):
        head = b""
        with suppress(OSError), opened(path)[0] as file:
            head = file.read(HEAD)  # the file may be large
        importer = importer_of(path, head.decode("utf-8", "replace"))
        if importer is not None and importer.is_history:
            lines.append(f"{shown_path(path)} is a history, not one run: perfgate history import {shlex.quote(path)}")
    return Refused("\n".join(lines), 3) if lines else None


def rules_or_none(options: CommandOptions) -> Ruleset:
    """Return the rules, or none if the default folder does not exist. Raises Refused."""
    if options.rules == ("rules",) and not Path("rules").exists():
        return Ruleset(options.suite or "default", (), {})
    if not WORKING_TREE.has_rules(options.rules):
        return no_rules(options.suite or "default", options.rules)
    return read_ruleset(WORKING_TREE, options.rules, options.suite)


def record_of(
    run: Run, facts: dict[str, Fact], ruleset: Ruleset, options: CommandOptions, measured: Measured
) -> tuple[HistoryRecord, int]:
    """Return what is remembered of a run, and the number of metrics that did not fit."""
    identity = identity_of(facts, ruleset.identity)
    values, left_out = values_of(run, ruleset.rules, ruleset.metrics, ruleset.better)
    commit = utf8_text(options.head or run.commit or surroundings.head_commit() or "") or None
    about = HistoryRun(
        id=id_of_files((file.sha256 for file in run.files), run.part),
        time=measured.time or f"{surroundings.now():%Y-%m-%dT%H:%M:%SZ}",
        commit=commit,
        ref=measured.ref or surroundings.branch(),
        tags=measured.tags or _tags(commit),
        context={name: facts[name] for name in sorted(facts) if name not in identity},
    )
    return HistoryRecord(ruleset.suite, identity, about, values), left_out


def _tags(commit: str | None) -> tuple[str, ...]:
    if commit is None:
        return ()
    try:
        return tuple(git("tag", "--points-at", commit, what="tags").decode("utf-8", "replace").split())
    except Refused:
        return ()
