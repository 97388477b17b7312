"""The files of one directory -> one run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from perfgate.core import Fact, Key, Location, Problem, Run, Series
from perfgate.readers.source import rank_in_name


def join_runs(name: str, runs: Sequence[Run]) -> Run:
    """One run of the files of a directory, one per rank, say; `name` is the directory's.

    Series that occur in several files get the label rank from the file names; where those tell none, the first counts
    and the others are an error. So is a file that holds several runs, for no run of it belongs to the others.
    """
    problems = [problem for run in runs for problem in run.problems]
    parts = {run.source for run in runs if run.part is not None}
    several = "a file of several runs cannot be one of the files of a run"
    problems += [Problem("error", several, Location(source)) for source in sorted(parts)]
    whole = [run for run in runs if run.source not in parts]
    joined, facts, commit = (
        _series(_traces(whole, problems), problems),
        _facts(whole, problems),
        _commit(whole, problems),
    )
    return Run(
        source=name,
        format="+".join(sorted({run.format for run in runs})),
        series=joined,
        problems=tuple(problems),
        environment=facts,
        files=tuple(file for run in runs for file in run.files),
        commit=commit,
    )


def with_missing_ranks(run: Run) -> Run:
    """The run, with a warning where ranks of its job are missing, as far as traces say how many there were."""
    if "torch-trace" not in run.format:
        return run
    from perfgate.readers.torch_trace.ranks import missing_ranks

    return replace(run, problems=(*run.problems, *missing_ranks(run)))


def _traces(runs: Sequence[Run], problems: list[Problem]) -> list[Run]:
    """The runs, of which traces of one rank have become one."""
    traces = [run for run in runs if run.format == "torch-trace"]
    if not traces:
        return list(runs)
    from perfgate.readers.torch_trace.ranks import join_traces

    joined, found = join_traces(traces)
    problems += found
    return [*(run for run in runs if run.format != "torch-trace"), *joined]


def _series(runs: Sequence[Run], problems: list[Problem]) -> tuple[Series, ...]:
    times = Counter(series.key for run in runs for series in run.series)
    joined: dict[Key, tuple[Series, str]] = {}
    for run in runs:
        for series in run.series:
            named = _ranked(series, run.source) if times[series.key] > 1 else series
            if named.key in joined:
                message = f"{named.key} stands in {joined[named.key][1]} and in {run.source}; the first is used"
                problems.append(Problem("error", message, Location(run.source), named.key))
            else:
                joined[named.key] = (named, run.source)
    return tuple(series for series, _ in joined.values())


def _ranked(series: Series, source: str) -> Series:
    """The series with the rank in its file's name, unless it has one."""
    rank = rank_in_name(source)
    if rank is None or series.key.label("rank") is not None:
        return series
    labels = {**dict(series.key.labels), "rank": rank}
    return replace(series, key=Key.of(series.key.metric, **labels))


def _facts(runs: Sequence[Run], problems: list[Problem]) -> MappingProxyType[str, Fact]:
    facts: dict[str, Fact] = {}
    for run in runs:
        for fact, value in run.environment.items():
            known = facts.setdefault(fact, value)
            if known != value:
                message = f"{fact} is {value} here and {known} in another file; {known} is used"
                problems.append(Problem("warning", message, Location(run.source)))
    return MappingProxyType(dict(sorted(facts.items())))


def _commit(runs: Sequence[Run], problems: list[Problem]) -> str | None:
    commits = [(run.commit, run.source) for run in runs if run.commit]
    for commit, source in commits:
        if commit != commits[0][0]:
            message = f"commit is {commit} here and {commits[0][0]} in another file"
            problems.append(Problem("warning", message, Location(source)))
    return commits[0][0] if commits else None
