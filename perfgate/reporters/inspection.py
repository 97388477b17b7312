"""The runs that `perfgate inspect` read, as a table and as JSON (`perfgate.inspect/1`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from perfgate.core import Key
from perfgate.core.coverage import joined_coverage
from perfgate.core.file_mappings import MappingSuggestion
from perfgate.core.runs import Location
from perfgate.core.summaries import Portion, RunSummary, SeriesSummary, TraceView
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

_BARS = "▁▂▃▄▅▆▇█"
_ASCII_BARS = ".:-=+*#@"
#: The most runs that are named beside a problem that they share.
_MOST_NAMED = 4
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


def render_text(runs: Sequence[RunSummary], *, ascii_only: bool = False, verbose: bool = False) -> str:
    """Return a table per run: each series with its statistics in a readable unit, and a small histogram.

    With `verbose`, a file of an unknown format is followed by what was searched for in it, and all kernels are shown
    with their whole names.
    """
    texts = [_table(run, said, ascii_only, verbose=verbose) for run, said in zip(runs, _problems(runs), strict=True)]
    details = dict.fromkeys(problem.details for run in runs for problem in run.problems if problem.details)
    if details and not verbose:
        texts.append("--verbose lists the formats that were searched for\n")
    return without_commands("\n".join([*texts, *(f"{text}\n" for text in details if verbose and text)]))


def _problems(runs: Sequence[RunSummary]) -> list[list[str]]:
    """Return the problems that each run is shown with: a problem of several runs is shown once, with their names."""
    having: dict[tuple[str, str], dict[str, set[Location]]] = {}
    for run in runs:
        for one in run.problems:
            having.setdefault((one.severity, one.message), {}).setdefault(_name(run), set()).add(one.at)
    found: list[list[str]] = []
    for run in runs:
        lines = dict[str, None]()
        for one in run.problems:
            # The first run with the problem shows it, and names the others.
            (first, own), *others = having[one.severity, one.message].items()
            if first != _name(run):
                continue
            elsewhere = [name for name, places in others if not places <= own]  # else it is one problem of a file
            more = f" (the same in {listed(elsewhere, _MOST_NAMED)})" if elsewhere else ""
            lines[one_line(f"{one}{more}")] = None
        found.append([*lines])
    return found


def _name(run: RunSummary) -> str:
    return run.source + ("" if run.part is None else f" (run {run.part})")


def _table(run: RunSummary, problems: Sequence[str], ascii_only: bool, *, verbose: bool) -> str:
    """Return the text of a run: its facts, its series, its trace, its problems, and how much was read."""
    facts = ", ".join(f"{name} {value}" for name, value in run.environment.items())
    title = f"{_name(run)}: {run.format}" + (f", {run.recognised_by}" if run.recognised_by else "")
    lines = [one_line(title), *([one_line(f"environment: {facts}")] if facts else [])]
    # A metric of many ranks has one row in `_spread_lines` instead of one for each rank.
    spread = {(one.key, one.unit) for one in run.spreads}
    series = [
        one for one in run.series if _is_listed(run, one.key) and (one.key.without_members(), one.unit) not in spread
    ]
    # A file of Nsight Compute has hundreds of metrics of each kernel: a short table per kernel replaces the whole one.
    kernels = {} if verbose or run.format != "ncu" else _main_of_kernels(series)
    for kernel, main in kernels.items():
        lines += ["", one_line(clip(kernel, _LONGEST_KERNEL)), *_rows(main, ascii_only)]
    shown = series if verbose else _largest(series)
    lines += ["", *_rows(shown, ascii_only)] if series and not kernels else []
    if kernels or shown != series:  # metrics are left out, or names are clipped
        lines += ["", f"--verbose shows all {len(series)} metrics, with the whole names of kernels"]
    lines += _spread_lines(run)
    if run.trace:
        lines += _trace_lines(run.trace, ascii_only=ascii_only)
    lines += ["", *problems] if problems else []
    lines += ["", coverage_line(run.coverage)] if run.coverage and run.series else []
    return "\n".join(lines) + "\n"


def _rows(series: Sequence[SeriesSummary], ascii_only: bool) -> list[str]:
    """Return the table of some series, a row each."""
    shown = [name for name in _COLUMNS if any(name in one.statistics for one in series if name != "total")]
    shown += ["total"] if any("total" in one.statistics and _has_total(one) for one in series) else []
    warms_up = any(summary.warmup_steps for summary in series)
    rows = [["metric", "n", *shown, *(["warm-up"] if warms_up else []), "distribution"]]
    for one in series:
        unit = printed_base(one.key.metric, one.unit)
        known = {s for s in shown if s in one.statistics and (s != "total" or _has_total(one))}
        cells = [format_value(one.statistics[s], unit) if s in known else "-" for s in shown]
        if warms_up:
            time = "" if one.warmup_time is None else f" ({format_value(one.warmup_time, 's')})"
            cells.append("-" if one.warmup_steps is None else f"{one.warmup_steps}{time}")
        drawn = sparkline(one.histogram, _ASCII_BARS if ascii_only else _BARS)
        rows.append([_full_name(one), "-" if one.n is None else str(one.n), *cells, drawn])
    return aligned(rows)


def _full_name(one: SeriesSummary) -> str:
    """Return the name of a series, with the printed name and the other names."""
    names = [f" ({one.printed_as})"] if one.printed_as else []
    names += [f" (also {', '.join(other)})"] if (other := synonyms(one.key.metric)) else []
    return one_line(series_name(one.key.metric, one.key.labels) + "".join(names))


def _has_total(one: SeriesSummary) -> bool:
    """Return True if the sum of the values means something (not of levels, shares, rates), or if the source has it."""
    is_level = one.unit in ("1", "W", "°C") or "/" in one.unit or _GAUGES.match(one.key.metric)
    return not (one.kind == "samples" and is_level)


def _main_of_kernels(series: Sequence[SeriesSummary]) -> dict[str, list[SeriesSummary]]:
    """Return the main metrics of each kernel, named without it, in their usual order; nothing if there are few."""
    found: dict[str, dict[str, SeriesSummary]] = {}
    for one in series:
        ends = (name for name in _OF_NCU if one.key.metric.endswith(f".{name}"))
        if main := next(ends, None):
            found.setdefault(one.key.metric.removesuffix(f".{main}"), {})[main] = one
    if len(series) < _MANY * len(found):
        return {}
    return {
        kernel: [replace(rows[name], key=Key.of(name)) for name in _OF_NCU if name in rows]
        for kernel, rows in found.items()
    }


def _largest(series: Sequence[SeriesSummary]) -> list[SeriesSummary]:
    """Return the series; of many kernels and calls, only those with the most time. Their long names are clipped."""
    calls = [one for one in series if one.key.metric.startswith(_FAMILIES)]
    if len(calls) > _MANY_CALLS:
        calls.sort(key=lambda one: -one.statistics.get("total", 0.0))
        series = [one for one in series if one not in calls[_MOST_CALLS:]]
    return [
        replace(one, key=replace(one.key, metric=shortened(short_call(one.key.metric), _LONGEST_NAME)))
        if one in calls
        else one
        for one in series
    ]


def _is_listed(run: RunSummary, key: Key) -> bool:
    """Return whether a series has a row; of a trace, those of single kernels and operators have none."""
    return run.trace is None or not key.metric.startswith(_FAMILIES)


def _spread_lines(run: RunSummary) -> list[str]:
    """Return the metrics of many ranks, a row each, with the slowest and the fastest rank by name."""
    shown = [one for one in run.spreads if _is_listed(run, one.key)]
    if not shown:
        return []
    rows = [["metric", "ranks", "of each rank", "median rank", "slowest", "", "fastest", "", "spread"]]
    for one in shown:
        unit = printed_base(one.key.metric, one.unit)
        apart = f"{format_number(100 * abs(one.slowest / one.fastest - 1), 3)}%" if one.fastest else "-"
        rows.append(
            [
                *(one_line(series_name(one.key.metric, one.key.labels)), str(one.ranks), one.statistic),
                format_value(one.median, unit),
                *(format_value(one.slowest, unit), one_line(one.slowest_rank)),
                *(format_value(one.fastest, unit), one_line(one.fastest_rank), apart),
            ]
        )
    return ["", *aligned(rows), "", "--each-rank shows a row for each rank"]


def sparkline(counts: Sequence[int], bars: str = _BARS) -> str:
    """Return counts as a row of bars. Heights are rounded up, so that only a count of zero is a blank."""
    highest = max(counts, default=0)
    return "".join(" " if not count else bars[(count * (len(bars) - 1) + highest - 1) // highest] for count in counts)


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
    if view.stragglers:
        is_known = any(one.waited is not None for one in view.stragglers)
        by = "the time that other ranks waited for them in collectives" if is_known else "the time of their steps"
        lines += ["", f"slowest ranks, by {by}"]
        rows = []
        for one in view.stragglers:
            waited = "" if one.waited is None else f"others waited {format_value(one.waited, 's')}"
            busy = f"busy {format_value(one.own, 's')}"
            rows.append([f"  step {one.step}", f"rank {one_line(one.rank)}", busy, waited])
        lines += aligned(rows)
    return lines


def _portion_rows(shares: Iterable[Portion], full: str) -> list[str]:
    rows = []
    for one in shares:
        count = [] if one.count is None else [f"{one.count}x"]
        percent = f"{format_number(100 * one.share, 3)}%"
        name, drawn = one_line(clip(one.name, _LONGEST_NAME)), full * round(_LONGEST_BAR * one.share)
        rows.append([f"  {name}", *count, format_value(one.seconds, "s"), percent, drawn])
    return aligned(rows)


#: The most problems that are shown.
_MOST = 5


def render_suggestions(found: Sequence[MappingSuggestion]) -> str:
    """Return YAML with a comment for each file: how much the mapping reads of it, and with which problems."""
    lines = [f"# Write this to rules/{MAPPING_FILE}, check names, units and labels, and try it: perfgate inspect FILE"]
    lines.append("mappings:")
    written: set[tuple[str, ...]] = set()
    for one in found:
        runs = f" in {plural(one.runs, 'run')}" if one.runs > 1 else ""
        lines.append(one_line(f"  # {one.file}: {plural(one.metrics, 'metric')}, {plural(one.values, 'value')}{runs}"))
        # Each run has the coverage of the whole file.
        coverage = joined_coverage(part for run in one.read[:1] for part in run.coverage)
        lines += [one_line(f"  #   {coverage_line(coverage)}")] if coverage and coverage.unread else []
        lines += [one_line(f"  #   {problem}") for problem in one.problems[:_MOST]]
        if more := len(one.problems) - _MOST:
            lines += [f"  #   and {plural(more, 'more problem')}"] if more > 0 else []
        lines += [] if one.lines in written else one.lines  # files that are alike have one mapping
        written.add(one.lines)
    return "\n".join(lines) + "\n"
