"""`perfgate inspect`: show what was read, before any rule is applied, and propose mappings for unknown files."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce
from time import perf_counter

import click
from msgspec import Struct
from msgspec.structs import replace

from perfgate.cli.printing import progress, screen, write_document
from perfgate.cli.shared import RUNS, command_options, format_option, rules_option, trace_mode_option
from perfgate.core import Run, Series
from perfgate.core.conditions import by_load
from perfgate.core.coverage import joined_coverage
from perfgate.core.file_mappings import FileMapping, MappingSuggestion
from perfgate.core.summaries import Portion, RunSummary, Straggler, TraceView
from perfgate.core.units import format_number
from perfgate.core.wording import aligned
from perfgate.judge.derived import warmup_cost
from perfgate.judge.series_summary import rank_spreads, summary
from perfgate.reporters.inspection import render_text
from perfgate.reporters.plain_json import render_json
from perfgate.workspace import surroundings
from perfgate.workspace.input_files import CHUNK, nearest_file, opened, parts_of
from perfgate.workspace.inputs import read_runs
from perfgate.workspace.options import CommandOptions, Refused, shown_path
from perfgate.workspace.rule_source import read_mapping_files

#: The parts of a step's time, and the families of names in a trace, as the reader of traces names them.
_PARTS = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec", "other")
_FAMILIES = ("kernel", "op", "range")
#: The most names of a family, and the most stragglers.
_TOP = 10
_VERBOSE = "All metrics of Nsight Compute; what was searched for in a file of an unknown format."
_NOTHING = (
    "no mapping can be proposed: there are no named numbers in records, or in lines that are alike; write the mapping"
    " by hand (`perfgate schema mappings` describes it), or write the numbers as perfgate.results/1"
)


@click.command("inspect")
@command_options(*RUNS, rules_option, format_option, trace_mode_option)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (perfgate.inspect/1).")
@click.option("--values", is_flag=True, help="With --json: print the values, too.")
@click.option("--each-rank", is_flag=True, help="A row for each rank, also if there are more than 8.")
@click.option("-v", "--verbose", is_flag=True, help=_VERBOSE)
@click.option("--timings", is_flag=True, help="Show instead how long each reader takes, stage by stage.")
@click.option("--suggest", is_flag=True, help="Propose a mapping (rules/perfgate.yaml) for files of an unknown format.")
def command(
    options: CommandOptions, as_json: bool, values: bool, each_rank: bool, verbose: bool, timings: bool, suggest: bool
) -> int:
    """Show what was read: every metric with its statistics, and every problem.

    \b
    Example: perfgate inspect train.log
    """
    if suggest:
        from perfgate.reporters.inspection import render_suggestions

        proposed, code = suggestions(options)
        write_document(render_suggestions(proposed))
        return code
    if timings:
        write_document(_table(times_of_readers(options)))
        return 0
    with progress():
        found, code = inspect(options, with_values=values and as_json, each_rank=each_rank)
    if as_json:
        write_document(render_json(found))
    else:
        click.echo(render_text(found, ascii_only=screen().ascii_only, verbose=verbose), nl=False)
    return code


def inspect(
    options: CommandOptions, *, with_values: bool = False, each_rank: bool = False
) -> tuple[list[RunSummary], int]:
    """Return a summary of every run, and the exit code: 3 if a run has no metrics, or a problem that is an error.

    A metric of many ranks gets one row, unless `each_rank`.
    """
    mappings = read_mapping_files(options.rules).mappings
    runs = read_runs(
        options.runs, options.format, options.trace_mode, as_given=True, with_calls=False, mappings=mappings
    )
    bad = any(not run.series or any(problem.severity == "error" for problem in run.problems) for run in runs)
    found = []
    for run in runs:
        rows = []
        for one in sorted(run.series, key=lambda one: by_load(one.key)):
            row = summary(one, with_values=with_values)
            # A trace has no warm-up, because the schedule of the profiler skips it.
            warmup = None if "torch-trace" in run.format else warmup_cost(one)
            rows.append(replace(row, warmup_steps=warmup.steps, warmup_time=warmup.seconds) if warmup else row)
        facts, coverage = dict(sorted(run.environment.items())), joined_coverage(run.coverage)
        about = (run.source, run.part, run.format, run.recognised_by, facts, tuple(rows), run.problems, trace_view(run))
        found.append(RunSummary(*about, spreads=() if each_rank else rank_spreads(tuple(rows)), coverage=coverage))
    return found, 3 if bad else 0


def trace_view(run: Run) -> TraceView | None:
    """Return the parts of a step's time, the names with the largest times, and the stragglers; None without a trace."""
    if "torch-trace" not in run.format or not run.series:
        return None
    of = defaultdict(list)  # the series by metric
    for series in run.series:
        of[series.key.metric].append(series)
    mode = run.environment.get("trace_mode")
    times = of["step.time"]
    return TraceView(
        mode=None if mode is None else str(mode),
        steps=sum(len(series.values) for series in times),
        ranks=len(times),
        parts=tuple(_parts(of)),
        top={family: _top(run.series, family, 0.0 if family == "kernel" else _total(times)) for family in _FAMILIES},
        stragglers=_stragglers(times, of["comm.wait"]),
    )


def _parts(of: Mapping[str, list[Series]]) -> Iterable[Portion]:
    """Yield the mean of each part over all steps of all ranks; the last one is the step itself."""
    whole = _mean(of["step.time"])
    for name in (*_PARTS, "time"):
        if f"step.{name}" in of and whole > 0:
            part = _mean(of[f"step.{name}"])
            yield Portion(f"step.{name}", part, part / whole)


def _mean(parts: list[Series]) -> float:
    count = sum(len(series.values) for series in parts)
    return _total(parts) / count if count else 0.0


def _total(parts: Iterable[Series]) -> float:
    return sum(float(series.values.sum()) for series in parts)


def _top(series: Iterable[Series], family: str, whole: float) -> tuple[tuple[Portion, ...], int]:
    """Return the names with the most time over all ranks, and the number of names.

    Shares are relative to `whole`, or to the sum of all names if that is 0: operators are nested, kernels are not.
    """
    totals: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
    for one in series:
        name = one.key.metric.removeprefix(f"{family}.")
        if name != one.key.metric:
            totals[name][0] += float(one.values.sum())
            totals[name][1] += len(one.values)
    whole = whole or sum(total for total, _ in totals.values())
    ordered = sorted(totals.items(), key=lambda item: (-item[1][0], item[0]))
    shares = [Portion(name, total, total / whole if whole else 0.0, int(n)) for name, (total, n) in ordered[:_TOP]]
    return tuple(shares), len(totals)


def _stragglers(times: list[Series], waits: list[Series]) -> tuple[Straggler, ...]:
    """Return the slowest rank of the steps with the longest waits (or times); steps with one rank do not count."""
    own, waited = _by_step(times), _by_step(waits)
    found = []
    for step, ranks in own.items():
        if len(ranks) > 1:
            wait = waited.get(step, {})
            work = {rank: seconds - wait.get(rank, 0.0) for rank, seconds in ranks.items()}  # without waiting
            rank = max(sorted(work), key=lambda name: work[name])
            others = sum(seconds for name, seconds in wait.items() if name != rank) if wait else None
            found.append(Straggler(step, rank, work[rank], others))
    found.sort(key=lambda one: (-(one.waited or 0.0), -one.own, one.step))
    return tuple(found[:_TOP])


def _by_step(series: Iterable[Series]) -> dict[int, dict[str, float]]:
    """Return the value of each rank by step."""
    found: dict[int, dict[str, float]] = defaultdict(dict)
    for one in series:
        rank = one.key.label("rank")
        if rank is not None and one.steps is not None:
            for step, value in zip(one.steps.tolist(), one.values.tolist(), strict=True):
                found[step][rank] = value
    return found


def suggestions(options: CommandOptions) -> tuple[list[MappingSuggestion], int]:
    """Return a proposed mapping for each file, and the exit code: 3 if reading a file by its mapping gives errors.

    Raises Refused for a file that perfgate reads already, and for one without numbers.
    """
    found: list[MappingSuggestion] = []
    for path in options.runs:
        found.append(_with_own_name(_suggestion(path, options.rules), found))
    wrong = any(problem.severity == "error" for one in found for problem in one.problems)
    return found, 3 if wrong else 0


def _suggestion(path: str, rules: Sequence[str]) -> MappingSuggestion:
    """Return a proposed mapping for a file. Raises Refused."""
    from perfgate.mappings.suggest import suggest

    limits = surroundings.limits()
    if path == "-" or os.path.isdir(path):
        raise Refused(f"{path}: --suggest needs a file, because a mapping is for a name of files")
    if "://" in path:
        raise Refused(f"{shown_path(path)}: --suggest needs a file of this machine: copy it here first")
    if not os.path.exists(path):
        raise Refused(f"{path}: cannot be read: file not found{nearest_file(path)}")
    mappings = read_mapping_files(rules, may_be_empty=True).mappings
    known = read_runs((path,), as_given=True, with_calls=False, mappings=mappings)[0]
    if known.format not in ("unknown", "command"):  # `command`: only its time was measured
        raise Refused(f"{path} needs no mapping: perfgate reads it as {known.format} ({known.recognised_by})")
    file, first = opened(path)
    with file:
        data = first + file.read(limits.document_bytes + 1)
    if len(data) > limits.document_bytes:
        raise Refused(f"{path}: {limits.beyond('document_bytes', 'this file is larger')}", 3)
    suggestion = suggest(path, data, limits)
    if suggestion is None or not suggestion.metrics:
        raise Refused(f"{path}: {_NOTHING}", 3)
    return suggestion


def _with_own_name(one: MappingSuggestion, others: Sequence[MappingSuggestion]) -> MappingSuggestion:
    """Return a proposal with a name that no other one has. Equal proposals share a name, because one is written."""
    taken = {other.name for other in others}
    if one.name not in taken or any(other.lines == one.lines for other in others):
        return one
    suffix = os.path.splitext(one.file)[1].lstrip(".") or "file"
    names = (f"{one.name}-{suffix}{number}" for number in ("", *map(str, range(2, len(others) + 3))))
    named = (replace(one, name=name, lines=(one.lines[0], f"    name: {name}", *one.lines[1:])) for name in names)
    return next(new for new in named if new.name not in taken or any(other.lines == new.lines for other in others))


class Timing(Struct, frozen=True):
    """The files of one reader: their bytes as stored, and the seconds of each stage in this process."""

    format: str
    files: int = 0
    size: int = 0
    #: To get the bytes from the disk.
    load: float = 0.0
    #: To decompress, recognise and read them.
    read: float = 0.0
    #: To compute the statistics of all series.
    summarise: float = 0.0

    def plus(self, other: Timing) -> Timing:
        """Return the sums of both."""
        files, size, load = self.files + other.files, self.size + other.size, self.load + other.load
        return Timing(self.format, files, size, load, self.read + other.read, self.summarise + other.summarise)


def times_of_readers(options: CommandOptions) -> list[Timing]:
    """Return the times of each reader, the longest `read` first. Raises Refused for input that cannot be read twice."""
    mappings = read_mapping_files(options.rules).mappings
    timings: dict[str, Timing] = {}
    for path in options.runs:
        if path == "-" or "://" in path:
            raise Refused(f"{path}: --timings reads each file twice; save it as a file")
        for part in parts_of(path, path) or [(path, path)]:
            if not isinstance(part, Run):  # a run here only says why its file is not read
                timing = _timing(part[0], options, mappings)
                before = timings.get(timing.format, Timing(timing.format))
                timings[timing.format] = before.plus(timing)
    return sorted(timings.values(), key=lambda timing: -timing.read)


def _timing(path: str, options: CommandOptions, mappings: Sequence[FileMapping]) -> Timing:
    """Read a file stage by stage, and return the time of each. Raises Refused."""
    began = perf_counter()
    try:
        file, first = opened(path)
        with file:
            size = len(first) + sum(map(len, iter(partial(file.read, CHUNK), b"")))
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror or error}", 3) from None
    loaded = perf_counter()
    runs = read_runs((path,), options.format, options.trace_mode, with_calls=False, mappings=mappings)
    ended = perf_counter()
    for run in runs:
        for series in run.series:
            summary(series)
    return Timing(runs[0].format, 1, size, loaded - began, ended - loaded, perf_counter() - ended)


def _table(timings: Sequence[Timing]) -> str:
    """Return a table with a row for each reader, and the sum of several."""
    rows = [["reader", "files", "MB", "load", "read", "summarise", "MB/s read"]]
    whole = reduce(Timing.plus, timings, Timing("all"))
    for one in (*timings, whole) if len(timings) > 1 else timings:
        seconds = (f"{format_number(time, 3)} s" for time in (one.load, one.read, one.summarise))
        rate = one.size / 1e6 / one.read if one.read else 0.0
        rows.append([one.format, str(one.files), format_number(one.size / 1e6, 3), *seconds, format_number(rate, 3)])
    return "\n".join(aligned(rows)) + "\n"
