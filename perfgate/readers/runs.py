"""Separate the runs in one file, which are never merged, and join the files of one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np
from msgspec.structs import replace

from perfgate.core import Fact, Key, Location, Problem, Run, Series
from perfgate.core.call_trees import joined_trees
from perfgate.core.conditions import Labels, conditions_of
from perfgate.core.outlines import joined_outlines
from perfgate.core.wording import plural
from perfgate.readers.builder import RunBuilder
from perfgate.readers.coverage import JsonSource
from perfgate.readers.digit_runs import Floats
from perfgate.readers.line_blocks import rank_in_name
from perfgate.readers.text import InputFile
from perfgate.readers.unlabelled import OF_LOAD, as_sweep, differences, mixed, unlabelled_fields

#: How many starts of runs a message names.
_STARTS_NAMED = 20
AnyBuilder = TypeVar("AnyBuilder", bound=RunBuilder)


class Runs(Generic[AnyBuilder]):
    """The run that is being read, and the runs before it in the same file: restarts that were appended to a log."""

    def __init__(self, make: Callable[[], AnyBuilder]) -> None:
        self._make = make
        #: Every run so far, with the line on which it begins.
        self._begun: list[tuple[AnyBuilder, int]] = []
        self._begin(1)

    def _begin(self, line: int) -> None:
        self.run = self._make()
        self.run.file.count("runs", line, before=self._begun[0][0].problems if self._begun else ())
        self._begun.append((self.run, line))
        self._counters: dict[str, float] = {}
        if self.run.file.alike:
            self.run.file.alike.forget()  # how lines are read many at once: into series of the run before

    def banner(self, line: int) -> None:
        """A launcher starts here: begin a new run, unless this one has measured nothing yet."""
        if self.run.has_measured:
            self._begin(line)

    def count(self, counter: str, value: int, line: int, fraction: float = 1.0) -> None:
        """Take a printed step counter: below `fraction` of its last value it begins a new run, with the same facts.

        A run without measurements goes on. `fraction`: below 1 if ranks that are some steps apart print the counter.
        """
        if value < self._counters.get(counter, 0) * fraction and self.run.has_measured:
            facts = self.run.facts
            self._begin(line)
            self.run.facts = dict(facts)
        self._counters[counter] = value

    def follow(self, counter: str, values: Floats) -> Callable[[], None] | None:
        """Do what `count` does with many values, when the returned function is called: it keeps the last value.

        Return None if one of the values may begin a new run: then the lines are read one by one.
        """
        if values[0] < self._counters.get(counter, 0) or (np.diff(values) < 0).any():
            return None
        return partial(self._counters.__setitem__, counter, float(values[-1]))

    def finish(self) -> tuple[Run, ...]:
        """Return the finished runs. A start without measurements after it is not a run, but is reported."""
        while len(self._begun) > 1 and not self.run.has_measured:
            empty, line = self._begun.pop()
            self.run = self._begun[-1][0]
            self.run.problems += empty.problems
            self.run.say("warning", "a start without a measurement after it", line)
        settings, starts = Counter[Any](), list[int]()  # runs of different settings are joined: see `as_sweep`
        for run, line in self._begun:
            settings[own := tuple(sorted(run.unlabelled.items()))] += 1
            starts += [line] if settings[own] > len(starts) else []
        self._say_starts(starts[1:])
        found = [run.run(part if len(self._begun) > 1 else None) for part, (run, _) in enumerate(self._begun, 1)]
        return as_sweep(found, self.run.file.source.conditions)

    def _say_starts(self, starts: Sequence[int]) -> None:
        more = f" and {len(starts) - _STARTS_NAMED} more" if len(starts) > _STARTS_NAMED else ""
        lines = ", ".join(map(str, starts[:_STARTS_NAMED])) + more
        message = f"this file has {len(starts) + 1} runs; new runs begin at line {lines}"
        for run, _ in self._begun if starts else ():
            run.say("warning", message, starts[0])  # the same in each run, so that a check says it once


def labels_of(file: InputFile, format_name: str, record: Mapping[str, Any]) -> Labels:
    """Return the conditions in a record, which are labels of its metrics; the heading above it may be one."""
    more = file.source.conditions  # the names that the rule files add
    record = {"heading": file.heading(), **record} if "heading" in more else record
    return tuple(sorted(conditions_of(record, format_name, more).items()))


class RecordRuns:
    """The runs of a file while its records are read.

    A record is given by its conditions, the settings of a benchmark. Records with equal conditions are repetitions: the
    n-th of them belongs to the n-th run. So a sweep over seven loads is one run with seven series of each metric, and a
    sweep that was made twice is two runs.
    """

    def __init__(self, file: InputFile, format_name: str) -> None:
        self._file, self._format = file, format_name
        self._runs: list[tuple[RunBuilder, set[Hashable]]] = []  # each with the conditions of its records
        #: For each set of conditions, the fields of the first record with them.
        self._first: dict[Hashable, dict[str, str]] = {}

    def run_of(
        self, record: Hashable, json: JsonSource | None = None, fields: Mapping[str, Any] | None = None
    ) -> RunBuilder:
        """Return the run that this record belongs to. A record that cannot be read (None) begins a new run.

        Records with equal conditions may still differ from the first of them in `fields` that may be conditions, or in
        a text by the heading above them: then the later one is an error. `json`: the document that the record is in.
        """
        run = self._run_of(record, json)
        labels = self._file.source.conditions  # the names that the rule files add
        own = {name: value for name, value in unlabelled_fields(fields or {}) if name not in labels}
        if not json and "heading" not in labels and (heading := self._file.heading()):
            own["heading"] = heading
        if not own:
            return run
        first = self._first.setdefault(record, own)
        if names := differences(first, own):
            problem = mixed(names[0], first[names[0]], own[names[0]], "a record before", self._file.name)
            if problem.message not in {one.message for one in run.problems}:
                run.report(problem.severity, problem.message, None)
        # runs of other files are compared by these fields (`with_mixed_refused`): in a sweep, load by load
        about = f"{OF_LOAD}{record}" if record else ""
        run.unlabelled |= {f"{name}{about}": value for name, value in own.items()}
        return run

    def _run_of(self, record: Hashable, json: JsonSource | None) -> RunBuilder:
        """Return the first run that has no record with these conditions, or a new one."""
        for run, known in self._runs:
            if record is not None and record not in known:
                known.add(record)
                run.json = json
                return run
        self._file.count("runs", before=self._runs[0][0].problems if self._runs else ())
        run = RunBuilder(self._file, self._format, json)
        self._runs.append((run, {record}))
        return run

    @property
    def first(self) -> RunBuilder:
        """The first run, which also gets the problems that belong to no record."""
        if not self._runs:
            self._runs.append((RunBuilder(self._file, self._format), set()))
        return self._runs[0][0]

    def finish(self) -> tuple[Run, ...]:
        """Return the finished runs; a run without some records of another is `partial`: they are not missed in it."""
        every = {record for _, known in self._runs for record in known if record is not None}
        several = len(self._runs) > 1
        return tuple(
            replace(run.run(part if several else None), partial=several and not every <= known)
            for part, (run, known) in enumerate(self._runs, 1)
        )


def are_apart(runs: Sequence[Run]) -> bool:
    """Return whether the files of a folder can be joined although some are outlines: traces without most values.

    They cannot if two traces are of one rank, because joining needs their values, or if another file has an outlined
    metric.
    """
    outlined = [run for run in runs if run.outlines is not None]
    ranks = Counter(rank for run in outlined if run.outlines for rank in run.outlines.fingerprints)
    names = {name for run in outlined if run.outlines for name in run.outlines.metrics}
    whole = [run for run in runs if run.outlines is None]
    is_one_rank = any(count > 1 for count in ranks.values())
    return not is_one_rank and not any(series.key.metric in names for run in whole for series in run.series)


def join_runs(name: str, runs: Sequence[Run]) -> Run:
    """Return one run from the files of a directory, for example one file per rank.

    Series that occur in several files get the label rank from the file names. If a name has no rank, the first series
    counts and the others are errors (warnings, in a trace beside other files). A folder of several whole runs is one
    error, and has no series. A file with several runs is an error, because the other files could belong to any of them.
    """
    problems = [problem for run in runs for problem in run.problems]
    parts = {run.source for run in runs if run.part is not None}
    several = "a file with several runs cannot be one of the files of a run"
    problems += [Problem("error", several, Location(source)) for source in sorted(parts)]
    whole = [run for run in runs if run.source not in parts]
    if repeats := _repeats(whole):
        message = f"a folder is the ranks of one run, but {len(repeats)} files here are runs of their own"
        ranks = "or, if they are ranks, write the rank in each name: rank0.log"
        problems.append(Problem("error", f"{message}: did you mean {_glob(name, repeats)}? {ranks}", Location(name)))
        whole = [replace(run, series=(), call_trees=(), outlines=None) for run in whole]
    joined = _with_joined_traces(whole, problems)
    series = _series(joined, problems)
    with_trees = [run.call_trees for run in joined if len(run.call_trees)]
    trees = joined_trees(with_trees) if with_trees else ()
    outlined = [run.outlines for run in joined if run.outlines is not None]
    outlines = joined_outlines(outlined) if outlined else None
    facts, commit = _facts(whole, problems), _commit(whole, problems)
    files = tuple(file for run in runs for file in run.files)
    formats = "+".join(sorted({run.format for run in runs}))
    return Run(
        name, formats, series, tuple(problems), facts, files=files, commit=commit, call_trees=trees, outlines=outlines
    )


def _commit(runs: Sequence[Run], problems: list[Problem]) -> str | None:
    """Return the first commit that a file names, with a warning for each file that names another one."""
    first = next((run.commit for run in runs if run.commit), None)
    for run in (one for one in runs if one.commit and one.commit != first):
        message = f"the commit is {run.commit} here and {first} in another file"
        problems.append(Problem("warning", message, Location(run.source)))
    return first


def with_missing_ranks(run: Run) -> Run:
    """Return the run of a trace, with a warning if ranks are missing and the traces say how many there are."""
    from perfgate.readers.torch_trace.ranks import missing_ranks

    return replace(run, problems=(*run.problems, *missing_ranks(run)))


def _with_joined_traces(runs: Sequence[Run], problems: list[Problem]) -> list[Run]:
    """Return the runs, with the traces of each rank joined and behind the others; `problems` gets what is wrong."""
    traces = [run for run in runs if run.format == "torch-trace"]
    if not traces:
        return list(runs)
    from perfgate.readers.torch_trace.ranks import join_traces

    joined, found = join_traces(traces)
    problems += found
    return [*(run for run in runs if run.format != "torch-trace"), *joined]


def _series(runs: Sequence[Run], problems: list[Problem]) -> tuple[Series, ...]:
    """Return the series of all files; one that occurs again has the rank of its file as label, or is a problem."""
    every = [(run, series) for run in runs for series in run.series]
    times = Counter(series.key for _, series in every)
    joined: dict[Key, tuple[Series, Run]] = {}
    for run, series in every:
        key = series.key
        if times[key] > 1 and key.label("rank") is None and (rank := rank_in_name(run.source)) is not None:
            key = Key.of(key.metric, **dict(key.labels), rank=rank)
        if key in joined:
            problems.append(_occurs_again(key, joined[key][1], run))
        else:
            joined[key] = (replace(series, key=key), run)
    return tuple(series for series, _ in joined.values())


def _occurs_again(key: Key, first: Run, other: Run) -> Problem:
    """Return the problem of a series that two files have: a warning if the other is a trace, which is slowed."""
    is_profiled = other.format == "torch-trace" and first.format != "torch-trace"
    used = f"{first.source}, which is not profiled" if is_profiled else "the first"
    message = f"{key} is in both {first.source} and {other.source}; using {used}"
    return Problem("warning" if is_profiled else "error", message, Location(other.source), key)


def _repeats(runs: Sequence[Run]) -> list[str]:
    """Return the files of a folder that are whole runs: all metrics repeat, and no name has a rank."""
    alike: dict[tuple[Key, ...], list[str]] = {}
    for run in runs:
        if run.series and run.format != "torch-trace" and rank_in_name(run.source) is None:
            alike.setdefault(tuple(sorted(series.key for series in run.series)), []).append(run.source)
    return [source for sources in alike.values() if len(sources) > 1 for source in sources]


def _glob(folder: str, files: Sequence[str]) -> str:
    """Return a pattern that matches these files of a folder."""
    endings = {PurePosixPath(file).suffix for file in files}
    below = "*" if all(PurePosixPath(file).parent == PurePosixPath(folder) for file in files) else "**/*"
    return f"{folder}/{below}{endings.pop() if len(endings) == 1 else ''}"


def _facts(runs: Sequence[Run], problems: list[Problem]) -> MappingProxyType[str, Fact]:
    """Return the facts of all files, the first of each name, with one warning for each fact that differs."""
    facts: dict[str, Fact] = {}
    others: dict[str, list[tuple[Fact, str]]] = {}
    for run in runs:
        for fact, value in run.environment.items():
            if facts.setdefault(fact, value) != value:
                others.setdefault(fact, []).append((value, run.source))
    for fact, found in others.items():
        value, source = found[0]
        more = f", and different in {plural(len(found) - 1, 'more file')}" if len(found) > 1 else ""
        message = f"{fact} is {value} here{more}, and {facts[fact]} in the first file; using {facts[fact]}"
        if fact == "rank":
            message += '; write the rank as a label of each series: `"labels": {"rank": "1"}`'
        problems.append(Problem("warning", message, Location(source)))
    return MappingProxyType(dict(sorted(facts.items())))
