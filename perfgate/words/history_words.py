"""The sentences about the changes of a metric, and about how often a rule was wrong."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import takewhile
from math import isnan

from perfgate.core import fact_text
from perfgate.core.history_events import EventChange, HistoryEvent, RuleRecord
from perfgate.core.remembered_runs import CommitLine, HistoryRun, changed_facts
from perfgate.core.run_history import (
    ApprovedLevel,
    ChangePoint,
    EnvironmentHistory,
    HistoryChange,
    HistorySeries,
    LoadedHistory,
)
from perfgate.core.units import format_change, format_number, format_value, printed_base
from perfgate.core.wording import plural

#: A creep is at least this many changes for the worse in a row.
_CREEPING = 3
#: A change shows its probability if that is lower than this.
_CERTAIN = 0.99


def about(place: EnvironmentHistory) -> str:
    """Return the runs of an environment: how many, of what, on which machine, since when."""
    facts = identity(place)
    runs = f"{plural(len(place.runs), 'run')} of {place.suite}" + (f" on {facts}" if facts else "")
    return runs + days(place.runs)


def identity(place: EnvironmentHistory) -> str:
    """Return the facts that identify an environment."""
    return ", ".join(f"{name} {fact_text(fact)}" for name, fact in place.identity.items() if fact is not None)


def days(runs: tuple[HistoryRun, ...]) -> str:
    """Return the first and the last day of runs, after a comma."""
    return f", {runs[0].time[:10]} to {runs[-1].time[:10]}" if runs else ""


def incomplete(found: LoadedHistory) -> str:
    """Return the note of a history with files that cannot be used; empty without such files."""
    if not found.problems:
        return ""
    count = len({problem.at.file for problem in found.problems})
    return f"this history is incomplete: {plural(count, 'file')} cannot be used"


def level_now(series: HistorySeries) -> str:
    """Return the value of the newest level; empty without runs."""
    values = [value for _, _, value in series.levels()]
    return format_value(values[-1], printed_base(series.name.key.metric, series.unit)) if series.runs else ""


def noise(series: HistorySeries) -> str | None:
    """Return the noise between runs; None if it is unknown."""
    return None if isnan(series.noise) else format_change(series.noise).lstrip("+")


def is_open(change: HistoryChange) -> bool:
    """Return whether a change is for the worse, nobody approved it, and it did not go away."""
    return bool(change.point.worse) and change.approval is None and change.went_away is None


def summary(series: HistorySeries) -> str:
    """Return the number of changes, and whether they creep; without changes, say that, or that the runs are too few."""
    if not series.changes and (few := series.runs_to_see_a_change):
        return f"too few runs to see a change: {few}"
    if not series.changes:
        newest = newest_apart(series)
        return f"no lasting change so far: {newest}" if newest else "no lasting change"
    count = plural(len(series.changes), "lasting change")
    creep = creeping(series)
    return f"{count}, with 95% intervals" + (f". It creeps: {creep}:" if creep else ":")


def newest_apart(series: HistorySeries) -> str:
    """Return how far the newest runs are from the level, if they are too few for a change; else nothing."""
    found = series.newest_apart()
    if found is None:
        return ""
    runs, distance = found
    newest = f"the newest {runs} runs are" if runs > 1 else "the newest run is"
    size = format_change(abs(distance)).lstrip("+")
    return f"{newest} {size} {'above' if distance > 0 else 'below'} the level, and a change needs five runs"


def creeping(series: HistorySeries) -> str | None:
    """Return the number and the total of the newest changes if they are a creep; else None."""
    row = list(takewhile(lambda change: change.point.worse and change.approval is None, reversed(series.changes)))
    if len(row) < _CREEPING:
        return None
    before, after = row[-1].point.before, row[0].point.after
    total = f", {format_change(after / before - 1)} in all since {row[-1].likely.time[:10]}" if before > 0 else ""
    return f"the last {len(row)} are worse and not approved{total}"


def sentences(change: HistoryChange, series: HistorySeries, line: CommitLine | None) -> Iterator[str]:
    """Yield the sentences about a change, the conclusion first."""
    point = change.point
    kind = "" if point.worse is None else " (worse)" if point.worse else " (better)"
    yield f"{interval(point)}{kind}: {levels(change, series)} on {change.likely.time[:10]}{doubt(change)}"
    yield commits(change, line)
    yield from circumstances(change)


def search(series: HistorySeries) -> str | None:
    """Return the command that finds the commit of the newest open change with several commits; None without one."""
    for number, change in reversed([*enumerate(series.changes, 1)]):
        if is_open(change) and change.commits is not None and change.commits > 1:
            # Without --change, `bisect` searches the newest change for the worse.
            later = any(other.point.worse for other in series.changes[number:])
            chosen = f" --change {number}" if later else ""
            return f"perfgate bisect --from-history {shlex.quote(str(series.name.key))}{chosen} -- COMMAND"
    return None


def interval(size: ChangePoint | EventChange) -> str:
    """Return the size of a change with its interval: `+7.1% (+6.0% to +8.1%)`."""
    return f"{format_change(size.change)} ({format_change(size.low)} to {format_change(size.high)})"


def levels(change: HistoryChange, series: HistorySeries) -> str:
    """Return the levels before and after a change."""
    unit = printed_base(series.name.key.metric, series.unit)
    return f"{format_value(change.point.before, unit)} to {format_value(change.point.after, unit)}"


def doubt(change: HistoryChange) -> str:
    """Return the probability of a change that is not certain."""
    probability = change.point.probability
    return f" (probability {100 * probability:.0f}%)" if probability < _CERTAIN else ""


def often_changed(place: EnvironmentHistory) -> str:
    """Return the facts of the machine that change too often to be named at a change; empty if there are none."""
    often = [f"{name} ({count} times in {len(place.runs)} runs)" for name, count in changed_facts(place.runs).often]
    if not often or not any(series.changes for series in place.series):
        return ""
    return f"facts that change too often to be named at a change: {', '.join(often)}"


def circumstances(change: HistoryChange) -> Iterator[str]:
    """Yield the approval of a change, the facts of the machine that changed with it, and when it went away."""
    if change.approval is not None:
        yield approved(change.approval)
    facts = [f"{name} from {old} to {new}" for name, old, new in change.facts]
    if facts:
        yield f"the machine changed in the same run: {', '.join(facts)}"
    if change.went_away is not None:
        yield f"went away in {change.went_away.label} on {change.went_away.time[:10]}"


def approved(level: ApprovedLevel) -> str:
    """Return who approved a level, when and why."""
    request = f" (pull request {level.pr})" if level.pr is not None else ""
    return f"approved by {level.by} on {level.time[:10]}: {level.reason}{request}"


def commits(change: HistoryChange | HistoryEvent, line: CommitLine | None) -> str:
    """Return the commits that a change or an event may be in, the likeliest with author and subject."""
    good, bad, likely = change.last_good, change.first_bad, change.likely
    if good.commit is None or bad.commit is None:
        return f"between the runs of {good.time} and {bad.time}, which have no commit"
    if good.commit == bad.commit:
        return f"between two runs of commit {good.label}: the code is not the cause"
    if change.commits == 1:
        return f"in commit {_named(bad, line)}"
    most = f"; most likely {_named(likely, line)}" if likely.commit not in (None, bad.commit) else ""
    which = "after commit" if change.commits is None else f"in one of {plural(change.commits, 'commit')} after"
    return f"{which} {good.label}, up to {bad.label}{most}"


def _named(run: HistoryRun, line: CommitLine | None) -> str:
    """Return a commit with its author and subject, as far as they are known."""
    place = line.place(run.commit) if line else None
    if line is None or place is None:
        return run.label
    return f"{run.label} ({line.commits[place].author}: {line.commits[place].subject})"


def rule_record(record: RuleRecord) -> str:
    """Return `wrong in 1 of 214 checks (1 red), at most 2.2%; 12 more are not known`."""
    if not record.known:
        return f"{plural(record.unknown, 'check')}, not known whether right or wrong"
    kinds = ((record.wrong_reds, "red"), (record.wrong_greens, "green"))
    which = ", ".join(f"{count} {kind}" for count, kind in kinds if count)
    rate = f"at most {format_number(100 * record.highest, 2)}%"
    text = f"wrong in {record.wrong} of {plural(record.known, 'check')}{f' ({which})' if which else ''}, {rate}"
    if not record.unknown:
        return text
    return f"{text}; {record.unknown} more {'is' if record.unknown == 1 else 'are'} not known"
