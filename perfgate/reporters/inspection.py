"""The runs that `perfgate inspect` read, as a table and as JSON (`perfgate.inspect/1`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from perfgate.core import Key
from perfgate.core.coverage import joined_coverage
from perfgate.core.file_mappings import MappingSuggestion
from perfgate.core.runs import Location
from perfgate.core.summaries import Portion, RunSummary, SeriesSummary, Straggler, TraceView
from perfgate.core.units import format_number, format_value, printed_base
from perfgate.core.wording import (
    MAPPING_FILE,
    aligned,
    clip,
    listed,
    one_line,
    plural,
    series_name,
    short_call,
    shortened,
    synonyms,
    without_commands,
)
from perfgate.words.beside import coverage_line

_BARS, _ASCII_BARS = "▁▂▃▄▅▆▇█", ".:-=+*#@"
#: The places of each problem (its severity and message), by the names of the runs that have it.
_Places: TypeAlias = dict[tuple[str, str], dict[str, set[Location]]]
#: The most runs that are named beside a problem that they share, and the most problems of a mapping.
_MOST_NAMED, _MOST_PROBLEMS = 4, 5
#: Gauges: their sum has no meaning.
_GAUGES = re.compile(r"(?:machine|memory|clock|power|gpu)\.|.*\blaunch__")
#: The metrics of Nsight Compute that are shown of a kernel; a raw page has hundreds.
_OF_NCU = (
    "gpu__time_duration.sum",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__bytes.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "l1tex__t_sector_hit_rate.pct",
    "lts__t_sector_hit_rate.pct",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__maximum_warps_per_active_cycle_pct",
    "sm__inst_executed.avg.per_cycle_active",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "launch__grid_size",
    "launch__block_size",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block",
    "launch__waves_per_multiprocessor",
)
#: A file of Nsight Compute with fewer metrics of a kernel is shown whole: somebody chose them.
_MANY = 60
_COLUMNS = ("value", "median", "mean", "p95", "p99", "min", "max", "total")
#: In characters: a bar, a name in a row, and the name of a kernel above its rows.
_LONGEST_BAR, _LONGEST_NAME, _LONGEST_KERNEL = 30, 70, 120
#: With more kernels and calls than this, only those with the most time are shown.
_MANY_CALLS, _MOST_CALLS = 40, 20
_TITLES = {
    "kernel": "kernels by share of all kernel time",
    "op": "operators with their children by share of all step time",
    "range": "ranges by share of all step time",
}
#: Prefixes of metrics that the table of series leaves out: there are hundreds, and the top lists show the largest.
_FAMILIES = tuple(f"{family}." for family in _TITLES)


def render_text(runs: Sequence[RunSummary], *, ascii_only: bool = False, verbose: bool = False) -> str:
    """Return a table per run: each series with its statistics in a readable unit, and a small histogram.

    `verbose`: show what was searched for in a file of an unknown format, and all kernels with their whole names.
    """
    places: _Places = {}
    for run in runs:
        for problem in run.problems:
            of_message = places.setdefault((problem.severity, problem.message), {})
            of_message.setdefault(_name(run), set()).add(problem.at)
    texts = [_table(run, list(dict.fromkeys(_problems(run, places))), ascii_only, verbose=verbose) for run in runs]
    details = dict.fromkeys(problem.details for run in runs for problem in run.problems if problem.details)
    if verbose:
        texts += [f"{text}\n" for text in details]
    elif details:
        texts.append("--verbose lists the formats that were searched for\n")
    return without_commands("\n".join(texts))


def _problems(run: RunSummary, places: _Places) -> Iterator[str]:
    """Yield the problems that a run is shown with: the first run with a problem names the others that have it."""
    for problem in run.problems:
        (first, here), *others = places[problem.severity, problem.message].items()
        if first == _name(run):
            # A run with no other place than the first one is of the same file, and has the same problem.
            elsewhere = [name for name, there in others if not there <= here]
            more = f" (the same in {listed(elsewhere, _MOST_NAMED)})" if elsewhere else ""
            yield one_line(f"{problem}{more}")


def _name(run: RunSummary) -> str:
    return run.source + ("" if run.part is None else f" (run {run.part})")


def _table(run: RunSummary, problems: Sequence[str], ascii_only: bool, *, verbose: bool) -> str:
    """Return the text of a run: its facts, its series, its trace, its problems, and how much was read."""
    title = f"{_name(run)}: {run.format}" + (f", {run.recognised_by}" if run.recognised_by else "")
    lines = [one_line(title)]
    if run.environment:
        facts = ", ".join(f"{name} {value}" for name, value in run.environment.items())
        lines.append(one_line(f"environment: {facts}"))
    lines += _metric_lines(run, _ASCII_BARS if ascii_only else _BARS, verbose=verbose)
    lines += _spread_lines(run)
    if run.trace:
        lines += _trace_lines(run.trace, ascii_only=ascii_only)
    if problems:
        lines += ["", *problems]
    if run.coverage and run.series:
        lines += ["", coverage_line(run.coverage)]
    return "\n".join(lines) + "\n"


def _metric_lines(run: RunSummary, bars: str, *, verbose: bool) -> Iterator[str]:
    """Yield the table of the series of a run, without those that have a row elsewhere."""
    spread = {(row.key, row.unit) for row in run.spreads}  # of many ranks: see `_spread_lines`
    series = [summary for summary in run.series if _is_listed(run, summary.key)]
    series = [summary for summary in series if (summary.key.without_members(), summary.unit) not in spread]
    shown = series if verbose else _largest(series)
    # A file of Nsight Compute has hundreds of metrics of each kernel: a short table per kernel replaces the whole one.
    kernels = _main_of_kernels(series) if run.format == "ncu" and not verbose else {}
    for kernel, main in kernels.items():
        yield from ("", one_line(clip(kernel, _LONGEST_KERNEL)), *_rows(main, bars))
    if series and not kernels:
        yield from ("", *_rows(shown, bars))
    if kernels or shown != series:  # metrics are left out, or names are clipped
        yield from ("", f"--verbose shows all {len(series)} metrics, with the whole names of kernels")


def _rows(series: Sequence[SeriesSummary], bars: str) -> list[str]:
    """Return the table of some series, a row each."""
    statistics = list(map(_statistics, series))
    shown = [name for name in _COLUMNS if any(name in known for known in statistics)]
    rows = [["metric", "n", *shown, "warm-up", "distribution"]]
    for summary, known in zip(series, statistics, strict=True):
        unit = printed_base(summary.key.metric, summary.unit)
        cells = [format_value(known[name], unit) if name in known else "-" for name in shown]
        count = "-" if summary.n is None else str(summary.n)
        rows.append([_full_name(summary), count, *cells, _warm_up(summary), sparkline(summary.histogram, bars)])
    if not any(summary.warmup_steps for summary in series):
        rows = [[*row[:-2], row[-1]] for row in rows]
    return aligned(rows)


def _warm_up(summary: SeriesSummary) -> str:
    time = "" if summary.warmup_time is None else f" ({format_value(summary.warmup_time, 's')})"
    return "-" if summary.warmup_steps is None else f"{summary.warmup_steps}{time}"


def _full_name(summary: SeriesSummary) -> str:
    """Return the name of a series, with the printed name and the other names."""
    printed = f" ({summary.printed_as})" if summary.printed_as else ""
    others = synonyms(summary.key.metric)
    also = f" (also {', '.join(others)})" if others else ""
    return one_line(series_name(summary.key.metric, summary.key.labels) + printed + also)


def _statistics(summary: SeriesSummary) -> Mapping[str, float]:
    """Return the statistics of a series, without a total of levels, shares or rates, unless the source has it."""
    is_level = summary.unit in ("1", "W", "°C") or "/" in summary.unit or _GAUGES.match(summary.key.metric)
    if summary.kind == "samples" and is_level:
        return {name: value for name, value in summary.statistics.items() if name != "total"}
    return summary.statistics


def _main_of_kernels(series: Sequence[SeriesSummary]) -> dict[str, list[SeriesSummary]]:
    """Return the main metrics of each kernel, named without it, in their usual order; nothing if there are few."""
    kernels: dict[str, dict[str, SeriesSummary]] = {}
    for summary in series:
        for name in _OF_NCU:
            kernel = summary.key.metric.removesuffix(f".{name}")
            if kernel != summary.key.metric:
                kernels.setdefault(kernel, {})[name] = replace(summary, key=Key.of(name))
    if len(series) < _MANY * len(kernels):
        return {}
    return {kernel: [rows[name] for name in _OF_NCU if name in rows] for kernel, rows in kernels.items()}


def _largest(series: Sequence[SeriesSummary]) -> list[SeriesSummary]:
    """Return the series; of many kernels and calls, only those with the most time. Their long names are clipped."""
    calls = [summary for summary in series if summary.key.metric.startswith(_FAMILIES)]
    if len(calls) > _MANY_CALLS:
        calls.sort(key=lambda summary: -summary.statistics.get("total", 0.0))
        series = [summary for summary in series if summary not in calls[_MOST_CALLS:]]
    shown = []
    for summary in series:
        name = shortened(short_call(summary.key.metric), _LONGEST_NAME)
        shown.append(replace(summary, key=replace(summary.key, metric=name)) if summary in calls else summary)
    return shown


def _is_listed(run: RunSummary, key: Key) -> bool:
    """Return whether a series has a row; of a trace, those of single kernels and operators have none."""
    return run.trace is None or not key.metric.startswith(_FAMILIES)


def _spread_lines(run: RunSummary) -> list[str]:
    """Return the metrics of many ranks, a row each, with the slowest and the fastest rank by name."""
    shown = [spread for spread in run.spreads if _is_listed(run, spread.key)]
    if not shown:
        return []
    rows = [["metric", "ranks", "of each rank", "median rank", "slowest", "", "fastest", "", "spread"]]
    for spread in shown:
        unit = printed_base(spread.key.metric, spread.unit)
        name = one_line(series_name(spread.key.metric, spread.key.labels))
        slowest = [format_value(spread.slowest, unit), one_line(spread.slowest_rank)]
        fastest = [format_value(spread.fastest, unit), one_line(spread.fastest_rank)]
        apart = f"{format_number(100 * abs(spread.slowest / spread.fastest - 1), 3)}%" if spread.fastest else "-"
        median = [str(spread.ranks), spread.statistic, format_value(spread.median, unit)]
        rows.append([name, *median, *slowest, *fastest, apart])
    return ["", *aligned(rows), "", "--each-rank shows a row for each rank"]


def sparkline(counts: Sequence[int], bars: str = _BARS) -> str:
    """Return counts as a row of bars. Heights are rounded up, so that only a count of zero is a blank."""
    highest = max(counts, default=0)
    return "".join(" " if not count else bars[(count * (len(bars) - 1) + highest - 1) // highest] for count in counts)


def _trace_lines(view: TraceView, *, ascii_only: bool) -> list[str]:
    """Return the parts of a step, the names with the largest times, and the slowest ranks."""
    full = "#" if ascii_only else "█"
    lines: list[str] = []
    if view.parts:
        ranks = f" of {plural(view.ranks, 'rank')}" if view.ranks > 1 else ""
        lines += ["", f"time of a step (trace mode {view.mode}, mean of {plural(view.steps, 'step')}{ranks})"]
        lines += _portion_rows(view.parts, full)
    for family, (shares, names) in view.top.items():
        if shares:
            lines += ["", f"top {_TITLES[family]}: {len(shares)} of {plural(names, 'name')} (in rules: {family}.NAME)"]
            lines += _portion_rows(shares, full)
    return lines + _straggler_lines(view.stragglers)


def _straggler_lines(stragglers: Sequence[Straggler]) -> list[str]:
    """Return the slowest rank of each step; nothing without any."""
    if not stragglers:
        return []
    by, rows = "the time of their steps", []
    for straggler in stragglers:
        waited = ""
        if straggler.waited is not None:
            by = "the time that other ranks waited for them in collectives"
            waited = f"others waited {format_value(straggler.waited, 's')}"
        busy = f"busy {format_value(straggler.own, 's')}"
        rows.append([f"  step {straggler.step}", f"rank {one_line(straggler.rank)}", busy, waited])
    return ["", f"slowest ranks, by {by}", *aligned(rows)]


def _portion_rows(shares: Iterable[Portion], full: str) -> list[str]:
    rows = []
    for portion in shares:
        count = [] if portion.count is None else [f"{portion.count}x"]
        percent = f"{format_number(100 * portion.share, 3)}%"
        name, drawn = one_line(clip(portion.name, _LONGEST_NAME)), full * round(_LONGEST_BAR * portion.share)
        rows.append([f"  {name}", *count, format_value(portion.seconds, "s"), percent, drawn])
    return aligned(rows)


def render_suggestions(found: Sequence[MappingSuggestion]) -> str:
    """Return YAML with a comment for each file: how much the mapping reads of it, and with which problems."""
    lines = [f"# Write this to rules/{MAPPING_FILE}, check names, units and labels, and try it: perfgate inspect FILE"]
    lines.append("mappings:")
    written: set[tuple[str, ...]] = set()
    for suggestion in found:
        lines += [f"  # {one_line(comment)}" for comment in _comments(suggestion)]
        if suggestion.lines not in written:  # files that are alike have one mapping
            lines += suggestion.lines
        written.add(suggestion.lines)
    return "\n".join(lines) + "\n"


def _comments(suggestion: MappingSuggestion) -> Iterator[str]:
    """Yield how much a mapping reads of its file, and with which problems."""
    metrics, values = plural(suggestion.metrics, "metric"), plural(suggestion.values, "value")
    runs = f" in {plural(suggestion.runs, 'run')}" if suggestion.runs > 1 else ""
    yield f"{suggestion.file}: {metrics}, {values}{runs}"
    # Each run has the coverage of the whole file.
    coverage = joined_coverage(part for run in suggestion.read[:1] for part in run.coverage)
    if coverage and coverage.unread:
        yield f"  {coverage_line(coverage)}"
    for problem in suggestion.problems[:_MOST_PROBLEMS]:
        yield f"  {problem}"
    if len(suggestion.problems) > _MOST_PROBLEMS:
        yield f"  and {plural(len(suggestion.problems) - _MOST_PROBLEMS, 'more problem')}"
