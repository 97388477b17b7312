"""Write to a history: add measured or imported runs, and compact the files of each month into one.

A file is removed only after its runs were read in the new file of the month, as the store lists it then.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from perfgate.baselines.candidates import read_measured
from perfgate.baselines.ledger import compact_ledger
from perfgate.baselines.places import HISTORY, MONTH_FILE, environment_name, identity_of
from perfgate.baselines.stores import Store, WritableStore, open_store
from perfgate.core import Fact, Problem, Run
from perfgate.core.remembered_runs import HistoryRecord, HistoryRun, SeriesName
from perfgate.core.wording import plural, utf8_text
from perfgate.history.files import month_file, records_of
from perfgate.history.records import id_of_files, refuse_line_breaks, values_of
from perfgate.history.store import add, known_ids, listed, read_file, remembered_already, short_commit, tool, write_new
from perfgate.rules.ruleset import Ruleset
from perfgate.workspace import surroundings
from perfgate.workspace.input_files import opened
from perfgate.workspace.options import CommandOptions, Refused, shown_path
from perfgate.workspace.rule_source import WORKING_TREE, no_rules, read_ruleset
from perfgate.workspace.surroundings import git

#: A file of a month has at most this many numbers, about ten megabytes; a month may have several files.
MOST_NUMBERS = 250_000
#: Imported runs are written at the end of a month if they have more numbers than this.
_NUMBERS_OF_PART = 20_000
#: A suite, an environment, and a month as `YYYY-MM`.
Month: TypeAlias = tuple[str, str, str]
_INCOMPLETE = "the file of this month was written, but the store does not have all its runs"


def write_months(store: WritableStore, records: Iterable[HistoryRecord]) -> list[str]:
    """Write runs as files of months; returns the paths. Raises Refused."""
    months: dict[Month, list[HistoryRecord]] = {}
    for record in records:
        months.setdefault((record.suite, environment_name(record.identity), record.run.time[:7]), []).append(record)
    written = []
    for month, own in sorted(months.items()):
        written += _write(store, month, own)
        if not _are_in(own, _numbers_of(store, month)):
            place = store.location("/".join((HISTORY, *month)))
            raise Refused(f"{place}: {_INCOMPLETE}: import them again", 3)
    return written


def add_imported(store: WritableStore, records: Iterable[HistoryRecord]) -> list[str]:
    """Add the runs that a store does not have; returns the lines to print. Raises Refused.

    `records` are in the order of time. They are written in parts of whole months, so that few are in memory at once.
    """
    known: dict[str, set[str]] = {}  # by place, a suite and environment: the ids of the runs that the store has
    added: dict[str, tuple[list[str], set[str]]] = {}  # by place: the times and the metrics of the new runs
    part: list[HistoryRecord] = []
    already, numbers, month = 0, 0, ""
    for record in records:
        if numbers > _NUMBERS_OF_PART and record.run.time[:7] != month:
            write_months(store, part)
            part, numbers = [], 0
        month, numbers = record.run.time[:7], numbers + len(record.values)
        environment = environment_name(record.identity)
        place = f"{record.suite}/{environment}"
        if place not in known:
            known[place] = known_ids(store, record.suite, environment)
        if record.run.id in known[place]:
            already += 1
            continue
        refuse_line_breaks(record, f"run of {record.run.time}")
        known[place].add(record.run.id)
        times, metrics = added.setdefault(place, ([], set()))
        times.append(record.run.time)
        metrics.update(value.name.key.metric for value in record.values)
        part.append(record)
    write_months(store, part)
    lines = [
        f"imported {plural(len(times), 'run')} with {plural(len(metrics), 'metric')}, {times[0][:10]} to "
        f"{times[-1][:10]}: {store.location(f'{HISTORY}/{place}')}"
        for place, (times, metrics) in sorted(added.items())
    ]
    lines += [f"{plural(already, 'run')} in the history already"] if already else []
    return lines or ["nothing to import"]


def compact(store: WritableStore, before: str | None = None) -> tuple[list[str], list[Problem]]:
    """Write the runs of each month as one file (several if they have more than MOST_NUMBERS), and remove their files.

    Returns a line for each month in which files were replaced, and problems. Raises Refused.

    `before`: the first month that is not compacted, `YYYY-MM`; None to compact all months.
    """
    lines: list[str] = []
    paths, problems = listed(store, HISTORY)
    months: dict[Month, list[str]] = {}
    for path in paths:
        # `name`: a month or the file of one, `2026-11` or `2026-11-HASH.json`; empty for a file above those
        _, suite, environment, name, *_ = (*path.split("/"), "", "")
        if name and not suite.startswith("_"):  # not the ledger
            months.setdefault((suite, environment, name[:7]), []).append(path)
    for month, own in sorted(months.items()):
        if before is None or month[2] < before:
            done, wrong = _compact(store, month, own)
            lines += done
            problems += wrong
    done, wrong = compact_ledger(store, before)
    return [*lines, *done], [*problems, *wrong]


def _compact(store: WritableStore, month: Month, paths: Sequence[str]) -> tuple[list[str], list[Problem]]:
    """Compact one month of one environment; returns a line if a file was replaced, and problems. Raises Refused."""
    if len(paths) == 1 and MONTH_FILE.search(paths[0]):
        return [], []
    runs, problems = _read_files(store, paths)
    records: dict[str, HistoryRecord] = {}  # by id of the run
    for record in chain.from_iterable(runs.values()):
        known = records.get(record.run.id)
        records[record.run.id] = record if known is None else _joined(known, record)
    if not records:
        return [], problems
    written = _write(store, month, records.values())
    replaced = {path: own for path, own in runs.items() if path not in written}
    kept = _numbers_of(store, month, replaced)
    gone = [path for path, own in replaced.items() if _are_in(own, kept)]
    for path in gone:
        with suppress(OSError):  # another compaction was faster
            store.remove(path)
    if len(gone) < len(replaced):
        message = f"{_INCOMPLETE}; the files of these runs stay: run the command again"
        problems.append(Problem("error", message, store.location("/".join((HISTORY, *month)))))
    line = f"{'/'.join(month)}: {len(records)} runs in {plural(len(written), 'file')}, {len(gone)} removed"
    return [line] if replaced else [], problems


def _read_files(store: Store, paths: Sequence[str]) -> tuple[dict[str, list[HistoryRecord]], list[Problem]]:
    """Return the runs in each file, by its path, and the problems of files."""
    runs: dict[str, list[HistoryRecord]] = {}
    problems: list[Problem] = []
    for path in paths:
        with suppress(FileNotFoundError):  # another compaction has written its runs elsewhere
            file, wrong = read_file(store, path, None)
            problems += wrong
            if file is not None:
                runs[path] = records_of(file)
    return runs, problems


def _numbers_of(store: Store, month: Month, without: Collection[str] = ()) -> dict[str, set[SeriesName]]:
    """Return the numbers in the files of a month, which are listed and read now: by id of the run, their names.

    `without`: the paths of files that do not count, because they are to be removed.
    """
    suite, environment, name = month
    found: dict[str, set[SeriesName]] = {}
    for path in listed(store, f"{HISTORY}/{suite}/{environment}")[0]:
        known = MONTH_FILE.search(path)
        if known and known[1] == name and path not in without:
            with suppress(FileNotFoundError):  # another compaction has written its runs elsewhere
                file, _ = read_file(store, path, None)
                for record in records_of(file) if file else ():
                    found.setdefault(record.run.id, set()).update(one.name for one in record.values)
    return found


def _are_in(records: Iterable[HistoryRecord], kept: Mapping[str, set[SeriesName]]) -> bool:
    """Return whether `kept` has all numbers of each run; see `_numbers_of`."""
    return all(
        one.run.id in kept and kept[one.run.id].issuperset(value.name for value in one.values) for one in records
    )


def _joined(one: HistoryRecord, other: HistoryRecord) -> HistoryRecord:
    """Return one record with the numbers of two records of one run; if both have a number, the earlier one counts."""
    first, second = sorted((one, other), key=lambda record: record.run.time)
    values = {value.name: value for value in (*second.values, *first.values)}
    return replace(first, values=tuple(values.values()))


def _write(store: WritableStore, month: Month, records: Iterable[HistoryRecord]) -> list[str]:
    """Write the files of a month, named by their content; returns their paths. Raises Refused."""
    parts: list[list[HistoryRecord]] = []
    count = 0
    for record in sorted(records, key=lambda record: (record.run.time, record.run.id)):
        count += len(record.values)
        if not parts or count > MOST_NUMBERS:
            parts.append([])
            count = len(record.values)
        parts[-1].append(record)
    written = []
    for part in parts:
        data = month_file(part, tool())
        written.append(f"{HISTORY}/{'/'.join(month)}-{hashlib.sha256(data).hexdigest()[:16]}.json")
        write_new(store, written[-1], data)
    return written


class Measured(Struct, frozen=True):
    """The time and the place of a measurement. Fields that are None or empty are detected."""

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
        path = None if _is_known(store, run.name, record) else add(store, record, left_out)
        if path is None:
            lines.append(f"{run.name} is in the history already")
            continue
        lines.append(f"remembered {run.name}: {plural(len(record.values), 'number')} in {store.location(path)}")
        if left_out:
            lines.append(f"  left out, because there is no room: {plural(left_out, 'metric')}; name one in a rule")
    return lines


def _is_known(store: Store, name: str, record: HistoryRecord) -> bool:
    """Return whether a run has its own file in the history. Raises Refused if the file has another commit or none."""
    known, own = remembered_already(store, record), short_commit(record.run.commit)
    same = {one for one in known if one.startswith(own) or own.startswith(one)}  # a user may name fewer digits
    if own != "none" and (others := sorted({*known} - same - {"none"})):  # `none` is an unknown commit
        step = "name the commit that it measured: --head SHA"
        raise Refused(f"{name} is in the history already, as a run of commit {others[0]}; {step}", 3)
    if "none" in known and not same:
        step = f"remove {store.location(known['none'])}, then add it again"
        raise Refused(f"{name} is in the history already, without its commit: {step}", 3)
    return bool(same)


def _kept_by_another_tool(paths: Sequence[str]) -> Refused | None:
    """Return the advice to import files that are histories of other tools; None if no readable file is one."""
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
    """Return the rules; none if the default folder does not exist, or the paths have only mappings. Raises Refused."""
    if options.rules == ("rules",) and not Path("rules").exists():
        return Ruleset(options.suite or "default", (), {})
    if not WORKING_TREE.has_rules(options.rules):
        return no_rules(options.suite or "default", options.rules)
    return read_ruleset(WORKING_TREE, options.rules, options.suite)


def record_of(
    run: Run, facts: dict[str, Fact], ruleset: Ruleset, options: CommandOptions, measured: Measured
) -> tuple[HistoryRecord, int]:
    """Return the record of a run, and the number of metrics that did not fit."""
    identity = identity_of(facts, ruleset.identity)
    values, left_out = values_of(run, ruleset.rules, ruleset.metrics, ruleset.better)
    commit = utf8_text(options.head or run.commit or surroundings.head_commit() or "") or None
    tags = measured.tags
    if commit and not tags:
        with suppress(Refused):
            tags = tuple(git("tag", "--points-at", commit, what="tags").decode("utf-8", "replace").split())
    about = HistoryRun(
        id=id_of_files((file.sha256 for file in run.files), run.part),
        time=measured.time or f"{surroundings.now():%Y-%m-%dT%H:%M:%SZ}",
        commit=commit,
        ref=measured.ref or surroundings.branch(),
        tags=tags,
        context={name: facts[name] for name in sorted(facts) if name not in identity},
    )
    return HistoryRecord(ruleset.suite, identity, about, values), left_out
