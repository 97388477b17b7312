"""The parts of the page: its verdicts, the environment, and the time of a step. Nothing is computed from values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import OUTCOMES, Fact, Report, Verdict
from perfgate.core.details import LevelDetails, MachineChannel, Part, RunDetails, VerdictDetails
from perfgate.core.units import Unit, display_unit, format_value
from perfgate.core.wording import is_machine_metric, member_name
from perfgate.reporters.html import plots
from perfgate.reporters.html.machine_strips import MachinePlots, machine_plots
from perfgate.words import answer, cause_words, numbers

#: The largest number of verdicts with pictures, the worst first; more would take minutes to draw.
MOST_DRAWN = 60
#: The largest number of verdicts in the head of the page.
MOST_NAMED = 5
#: The largest number of verdicts that are unfolded, the worst first.
MOST_OPEN = 10
#: The largest number of verdicts with plots of the machine under their step plot, the worst first.
MOST_WITH_MACHINE = 3
#: The largest number of rules in the overview.
MOST_RULES = 50
#: A rule with this many verdicts is a group that can be folded: a glob, or a rule for each rank.
_SMALLEST_GROUP = 4


class VerdictSection(Struct, frozen=True):
    """A verdict, its index in the report, and its pictures as SVG; empty if there is nothing to draw."""

    verdict: Verdict
    index: int
    details: VerdictDetails | None
    interval: str = ""
    runs: str = ""
    timeline: str = ""
    #: The channels of the machine, on the axis of the step plot.
    machine: MachinePlots | None = None
    #: True if the picture of the runs marks where one level ends and another begins.
    has_breaks: bool = False
    #: True if the section is unfolded: the worst verdicts that need attention.
    is_open: bool = False
    #: The number of the cause that the verdict follows from, or 0.
    follows: int = 0

    @property
    def needs_attention(self) -> bool:
        """True if the verdict is neither a pass nor skipped."""
        return answer.needs_attention(self.verdict)

    @property
    def judged(self) -> list[RunDetails]:
        """The runs in order, each with its judged rank."""
        return [run for run in self.details.runs if run.judged] if self.details else []

    def unit_for(self, value: float) -> Unit:
        """Return the unit for an estimate. A verdict with an error may have no unit of its own."""
        unit = self.verdict.unit or (self.details.unit if self.details else None)
        return numbers.unit_for(value, replace(self.verdict, unit=unit))

    @property
    def new(self) -> list[RunDetails]:
        """The new runs and their ranks."""
        return [run for run in self.details.runs if run.standing == "new"] if self.details else []


class RuleSection(Struct, frozen=True):
    """The verdicts of one rule, the most important first."""

    rule: str
    verdicts: Sequence[VerdictSection]
    #: The verdicts that passed or were skipped.
    passed: Sequence[VerdictSection]
    #: The number of verdicts that block, and of those that need attention but do not block.
    blocking: int
    warnings: int
    #: The number of verdicts with each outcome in words, the worst first.
    tally: str
    #: The verdicts that an open group shows, and those that stay folded in it, in parts with the words that count them.
    listed: Sequence[VerdictSection]
    rest: Sequence[tuple[str, Sequence[VerdictSection]]]

    @property
    def is_folded(self) -> bool:
        """True if the verdicts are a group that can be folded."""
        return len(self.verdicts) >= _SMALLEST_GROUP


def verdicts(report: Report) -> list[VerdictSection]:
    """Return a section per verdict: blocking ones first, then by outcome, and then by the size of the change."""
    details = {found.verdict: found for found in report.details.verdicts}
    explained = {id(verdict): group.number for group in cause_words.groups(report) for verdict in group.verdicts}
    sections = [
        VerdictSection(verdict, i, details.get(i), follows=explained.get(id(verdict), 0))
        for i, verdict in enumerate(report.verdicts)
    ]
    sections.sort(key=lambda section: _importance(section.verdict))
    first, rest = sections[:MOST_DRAWN], sections[MOST_DRAWN:]
    opened = [section.index for section in first if section.needs_attention][:MOST_OPEN]
    drawn = [replace(_drawn(section, report.details.levels), is_open=section.index in opened) for section in first]
    return [*_with_machine(drawn, report.details.machine), *rest]


def _importance(verdict: Verdict) -> tuple[bool, int, float]:
    """Return the key that sorts verdicts: those that block first, then by outcome, then the largest first."""
    size = 0.0
    if verdict.kind == "change":
        size = abs(verdict.change.estimate or 0.0) if verdict.change else 0.0
    elif verdict.new is not None and verdict.new.estimate is not None and verdict.bound is not None:
        size = abs(verdict.new.estimate - verdict.bound) / (abs(verdict.bound) or 1.0)
    return verdict.exit_code == 0, OUTCOMES.index(verdict.outcome), -size


def _with_machine(sections: list[VerdictSection], channels: Sequence[MachineChannel]) -> list[VerdictSection]:
    """Return the sections; the first ones with a step plot get plots of the machine on the same axis."""
    found, left = [], MOST_WITH_MACHINE if channels else 0
    for section in sections:
        # The plot of a metric of the machine is by time, and not by step.
        details = section.details if section.timeline and not is_machine_metric(section.verdict.metric) else None
        if details is not None and left > 0:
            found.append(replace(section, machine=machine_plots(channels, plots.step_ends(details.runs))))
            left -= 1
        else:
            found.append(section)
    return found


def machine_alone(report: Report, sections: Iterable[VerdictSection]) -> MachinePlots | None:
    """Return the plots of the machine, if no verdict shows them."""
    if not report.details.machine or any(one.machine for one in sections):
        return None
    return machine_plots(report.details.machine)


def groups(sections: Iterable[VerdictSection]) -> list[RuleSection]:
    """Return the sections by rule, in the order of their first verdicts."""
    found: dict[object, list[VerdictSection]] = {}
    for section in sections:
        verdict = section.verdict
        found.setdefault((verdict.rule, verdict.at, verdict.source), []).append(section)
    return list(map(_group, found.values()))


def _group(several: Sequence[VerdictSection]) -> RuleSection:
    """Return the sections of one rule with their counts."""
    passed = [section for section in several if not section.needs_attention]
    waiting = [section for section in several if section.needs_attention]
    folded = waiting[MOST_OPEN:]
    kinds = [(f"{len(folded)} more that need attention", folded), (f"{len(passed)} that do not", passed)]
    found = tuple(section.verdict for section in several)
    return RuleSection(
        several[0].verdict.rule,
        several,
        passed,
        blocking=len([verdict for verdict in found if verdict.exit_code]),
        warnings=len(list(filter(answer.is_warning, found))),
        tally=", ".join(answer.tally(Report(verdicts=found))),
        listed=waiting[:MOST_OPEN],
        rest=[(words, rest) for words, rest in kinds if rest],
    )


def _drawn(section: VerdictSection, levels: Sequence[LevelDetails]) -> VerdictSection:
    """Return a section with its pictures."""
    section, details = replace(section, interval=_interval(section.verdict)), section.details
    if details is None:
        return section
    allowed = (details.allowed_low, details.allowed_high)
    estimates = [run.estimate for run in details.runs if run.estimate is not None]
    unit = section.unit_for(max(estimates, key=abs, default=0.0))
    breaks = _breaks(section.judged, levels)
    runs = plots.run_by_run(details.runs, unit.factor, unit.symbol, allowed, breaks)
    # A total or a count, which has no quantiles, is not on the scale of the values, and neither is its allowed range.
    is_on_scale = any(run.quantiles for run in details.runs)
    largest = max((abs(value) for run in details.runs for value in run.values), default=0.0)
    values = unit if is_on_scale else display_unit(largest, details.unit)
    # The steps of the sampler are milliseconds.
    axis = "milliseconds since the start" if is_machine_metric(section.verdict.metric) else "step"
    shown = allowed if is_on_scale else (None, None)
    line = plots.timeline(details.runs, values.factor, values.symbol, shown, axis)
    return replace(section, runs=runs, timeline=line, has_breaks=bool(breaks))


def _breaks(judged: Sequence[RunDetails], levels: Sequence[LevelDetails]) -> list[int]:
    """Return the numbers of the runs, from 1, after which a run of the same standing but another level follows."""
    kinds = [(run.standing, level_of(run, levels)) for run in judged]
    pairs = enumerate(pairwise(kinds), 1)
    return [i for i, (one, next_one) in pairs if one[0] == next_one[0] and one[1] != next_one[1]]


def _interval(verdict: Verdict) -> str:
    """Return the picture of an interval: of a change in percent, of a limit in its own unit."""
    is_change = verdict.kind == "change"
    seen = verdict.change if is_change else verdict.new
    allowed = numbers.allowed_range(verdict)
    if seen is None or seen.estimate is None or allowed == (None, None):
        return ""
    unit = Unit("change, %", "1", 0.01) if is_change else numbers.unit_for(seen.estimate, verdict)
    low, high, lowest, highest = (None if end is None else end / unit.factor for end in (seen.low, seen.high, *allowed))
    origin = 0.0 if is_change else None
    return plots.interval(seen.estimate / unit.factor, (low, high), (lowest, highest), origin, unit.symbol)


def ranks(section: VerdictSection) -> str:
    """Return the ranks of the new runs that the pictures show: `rank 1 (judged), rank 0`."""
    names = {member_name(run.member): run.judged for run in section.new if run.member}
    shown = ", ".join(f"{name} (judged)" if judged else name for name, judged in names.items())
    hidden = (section.details.members if section.details else 0) - len(names)
    return shown + (f" and {hidden} more (not drawn)" if shown and hidden > 0 else "")


def level_of(run: RunDetails, levels: Iterable[LevelDetails]) -> str:
    """Return the name of the level of a stored run, or nothing."""
    return next((level.name for level in levels if run.run in level.runs), "")


def short_name(run: RunDetails, levels: Iterable[LevelDetails]) -> str:
    """Return the file name of a stored run without suffix (its level names its folder), or the name of a new run."""
    return run.run.rpartition("/")[2].removesuffix(".json") if level_of(run, levels) else run.run


def estimate(section: VerdictSection, run: RunDetails) -> str:
    """Return the estimate of a run with its unit: `16.5 ms`."""
    if run.estimate is None:
        return "unknown"
    unit = section.unit_for(run.estimate)
    return format_value(run.estimate, unit.base, unit.symbol)


def environment(report: Report) -> Iterator[tuple[str, Fact | None, Fact | None, bool]]:
    """Yield each fact as its name, its base value, its new value, and True if they differ; differences come first."""
    base, new = report.details.base_environment, report.environment
    differing = {one.name for one in report.fact_changes}
    for name in sorted({*base, *new}, key=lambda name: (name not in differing, name)):
        yield name, base.get(name), new.get(name), name in differing


def steps(report: Report) -> str:
    """Return a picture of the parts of a step in base and new; empty for runs without a trace."""
    parts = report.details.breakdown
    times = {"base": [part.base for part in parts], "new": [part.new for part in parts]}
    # Without all its parts, a bar would look like a shorter step.
    sides = [(name, [time or 0.0 for time in side]) for name, side in times.items() if parts and None not in side]
    unit = display_unit(max((sum(side) for _, side in sides), default=0.0), "s")
    return plots.bars(sides, unit.factor, unit.symbol) if sides else ""


def change(part: Part) -> float | None:
    """Return new/base - 1 of a part, or None if a side does not have it, or the base is 0."""
    return part.new / part.base - 1 if part.base and part.new is not None else None
