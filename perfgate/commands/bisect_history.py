"""A change of the history as the start of a search: its metric, and the range of its commits."""

from __future__ import annotations

from msgspec.structs import replace

from perfgate.commands.bisect_request import BisectRequest
from perfgate.commands.history import show
from perfgate.core.run_history import HistoryChange, HistorySeries
from perfgate.core.units import format_change
from perfgate.core.wording import listed, plural
from perfgate.measuring.until_settled import Tell
from perfgate.workspace.options import HistoryPlace, Refused

#: The smallest change that is searched for, and the same as a part of the change that the history has.
_TOLERANCE, _PART = 0.02, 0.5


def from_history(request: BisectRequest, metric: str, tell: Tell) -> BisectRequest:
    """Return the request with the metric, the range and the tolerance of a change in the history.

    --good and --bad of the user win. Raises Refused (3) without a change, or if the history names its commit already.
    """
    options = request.options
    place = HistoryPlace(options.baselines, options.suite, request.environment, None, options.rules)
    found = show(place, metric.partition("{")[0])
    named = [one for one in found.series if "{" not in metric or str(one.name.key) == metric]
    series = _series(metric, named, request.statistic)
    change = _change(series, request.change)
    good, bad = (request.good or change.last_good.commit, request.bad or change.first_bad.commit)
    size = f"{series.name} changed by {format_change(change.point.change)} on {change.likely.time[:10]}"
    if good is None or bad is None:
        raise Refused(f"{size}, between runs without a commit: name the commits with --good and --bad", 3)
    if request.good is None and request.bad is None:
        if change.is_one_commit:
            raise Refused(f"{size}, between two runs of commit {change.first_bad.label}: the code is not the cause", 3)
        if change.commits == 1:
            commit = next(iter(found.line.between(good, bad)), None) if found.line else None
            about = f" ({commit.author}: {commit.subject})" if commit else ""
            step = f"to measure it again, name an earlier commit: --good {good[:10]}~5"
            raise Refused(f"the history names the commit already: {change.first_bad.label}{about}; {step}", 3)
    count = len(found.line.between(good, bad)) if found.line else 0
    tell(f"{size}: searching {plural(count, 'commit') if count else 'the commits'} after {good[:12]}, up to {bad[:12]}")
    smallest = f"{100 * min(_TOLERANCE, _PART * abs(change.point.change)):.2g}%"
    return replace(
        request,
        good=good,
        bad=bad,
        metric=str(series.name.key),
        statistic=None if series.kind == "value" else series.name.statistic,
        tolerance=request.tolerance or smallest,
    )


def _series(metric: str, found: list[HistorySeries], statistic: str | None) -> HistorySeries:
    """Return the one series of a metric. Raises Refused."""
    found = [one for one in found if one.name.rank == "worst"] or found
    found = [one for one in found if statistic in (None, one.name.statistic)]
    places = sorted({f"{one.suite}/{one.environment}" for one in found})
    if len(places) > 1:
        raise Refused(f"{metric} has several histories ({listed(places)}): choose with --suite and --environment")
    keys = sorted({str(one.name.key) for one in found})
    if len(keys) > 1:
        raise Refused(f"--from-history {metric} is {plural(len(keys), 'metric')} ({listed(keys)}): name one of them")
    if len(found) != 1:
        known = listed(sorted({one.name.statistic for one in found})) or "no such labels or statistic"
        raise Refused(f"--from-history {metric}: the history has {known}; choose with --statistic")
    return found[0]


def _change(series: HistorySeries, asked: str | None) -> HistoryChange:
    """Return the change by its number or its commit, or the newest one that is worse. Raises Refused (3)."""
    changes = series.changes
    if not changes:
        raise Refused(f"{series.name} has no lasting change in its {plural(len(series.runs), 'run')}", 3)
    labels = [f"{number} ({one.likely.label})" for number, one in enumerate(changes, 1)]
    if asked is None:
        worse = [one for one in changes if one.point.worse or one.point.worse is None]
        if not worse:
            raise Refused(f"no lasting change of {series.name} is worse: choose one with --change: {listed(labels)}", 3)
        return worse[-1]
    if asked.isdigit() and 1 <= int(asked) <= len(changes):
        return changes[int(asked) - 1]
    for one in changes:
        if len(asked) >= 4 and any((run.commit or "").startswith(asked) for run in (one.likely, one.first_bad)):
            return one
    raise Refused(f"--change {asked}: {series.name} has no such change; its changes are {listed(labels, 9)}", 3)
