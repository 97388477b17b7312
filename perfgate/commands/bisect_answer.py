"""The answer of a search as a report: messages, estimates of every item, facts of the commits, and causes."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from statistics import fmean

from msgspec import Struct

from perfgate.bisect.ranges import MetricValue, SearchedRange
from perfgate.bisect.search import USED_UP, SearchResult
from perfgate.bisect.session import BisectFolder, StoredMeasurement
from perfgate.commands.bisect_causes import ANOTHER, Neighbours
from perfgate.core.causes import BisectReport, CauseReport, ItemEstimate, ItemSuspect
from perfgate.core.units import format_change
from perfgate.core.wording import listed, plural
from perfgate.stats.distributions import t_quantile

#: The confidence of the intervals.
_CONFIDENCE = 0.95
#: The most items that the answer describes, and the most skipped items.
_MOST_NAMED, _MOST_SKIPPED = 5, 10
#: The most items of a list in the text of an option.
_MOST_LISTED = 4
#: A commit with a smaller probability, which would be shown as 0, is not listed beside the one that was found.
_LEAST_NAMED = 0.0005


class AnswerParts(Struct, frozen=True):
    """The parts of an answer."""

    items: SearchedRange
    folder: BisectFolder
    result: SearchResult
    tolerance: float
    #: The metric as it was last read; None if it was not.
    facts: MetricValue | None
    #: The folder, as the user named it.
    keep: str
    #: True if stored runs of the first or the last item were known.
    stored: bool = False
    #: The number of starts of the command whose measurements were not kept, because the first or last item failed.
    lost: int = 0

    @property
    def noun(self) -> str:
        """The word for an item."""
        return "commit" if self.items.commits else "item"

    @property
    def metric(self) -> str:
        """The metric as messages name it."""
        return self.facts.metric if self.facts else "the metric"

    @property
    def size(self) -> str:
        """The change with its interval, as messages show it."""
        change, low, high = map(format_change, (self.result.change, self.result.low, self.result.high))
        return f"{change} ({low} to {high})"

    def name(self, position: int) -> str:
        """Return an item as messages name it; -1 is the last one."""
        name = self.items.names[position]
        return name[:12] if self.items.commits else name


def answer(parts: AnswerParts) -> BisectReport:
    """Return the report of a search."""
    result, items, facts, posterior = parts.result, parts.items, parts.facts, parts.result.posterior
    measured = _estimates(parts)
    suspects = _suspects(parts, measured)
    message, step = _words(parts, suspects)
    paired = any(one.paired for one in parts.folder.stored)
    neighbours = Neighbours.of(parts.folder, result)
    causes = neighbours.causes() if neighbours else None
    return BisectReport(
        outcome=result.outcome,
        message=message,
        next_step=step,
        metric=facts.metric if facts else "",
        statistic=facts.statistic if facts else None,
        unit=facts.unit if facts else "1",
        larger_is_worse=None if facts is None or facts.better in (None, "neither") else facts.better == "lower",
        noun=parts.noun,
        first=items.item(0),
        last=items.item(len(items.names) - 1),
        positions=len(items.names),
        tolerance=parts.tolerance,
        confidence=_CONFIDENCE,
        change=result.change if posterior else None,
        low=result.low if posterior else None,
        high=result.high if posterior else None,
        runs=(parts.folder.started + parts.lost) // (2 if paired else 1),  # a pair starts the command twice
        paired=paired,
        noise=posterior.noise if posterior else None,
        drift_per_hour=math.expm1(posterior.drift) if posterior else None,
        another=posterior.another if posterior else 0.0,
        suspects=suspects,
        no_change=posterior.nothing if suspects and posterior else 0.0,
        blamed=result.blamed,
        measured=measured,
        more_runs=result.more_runs,
        notes=(*_notes(parts), *_cause_notes(parts, neighbours, causes)),
        causes=causes if causes and causes.causes else None,
    )


def _suspects(parts: AnswerParts, measured: Sequence[ItemEstimate]) -> tuple[ItemSuspect, ...]:
    """Return the items that the answer names, the most probable first."""
    result, by_position = parts.result, {one.position: one for one in measured}
    if result.outcome == "not-reproduced":
        return ()
    least = _LEAST_NAMED if result.outcome == "found" else 0.0
    return tuple(
        ItemSuspect(one.position, parts.items.item(one.position), one.probability, by_position.get(one.position))
        for one in result.suspects[: max(_MOST_NAMED, len(result.blamed))]
        if one.probability >= least or one.position in result.blamed
    )


def _estimates(parts: AnswerParts) -> tuple[ItemEstimate, ...]:
    """Return an estimate of every item that was measured or skipped, in order.

    In pairs, all items are measured beside the first one, which is 1 by definition.
    """
    groups: dict[int, list[StoredMeasurement]] = {}
    for measurement in parts.folder.searched:
        groups.setdefault(measurement.position, []).append(measurement)
    estimates = [_estimate(parts, position, groups[position]) for position in sorted(groups)]
    pairs = [one for one in parts.folder.searched if one.paired and one.skipped is None]
    if pairs and 0 not in groups:
        estimates.insert(0, ItemEstimate(0, parts.items.names[0], len(pairs), 1.0, 1.0, 1.0))
    return tuple(estimates)


def _estimate(parts: AnswerParts, position: int, stored: Sequence[StoredMeasurement]) -> ItemEstimate:
    """Return the geometric mean of an item's measurements; a posterior takes out drift and gives an interval."""
    name, posterior = parts.items.names[position], parts.result.posterior
    why = next((one.skipped for one in stored if one.skipped is not None), None)
    made = [one for one in stored if one.skipped is None]
    if not made:
        return ItemEstimate(position, name, 0, None, None, None, why)
    if posterior is None:  # the noise is not known yet
        value = math.exp(fmean(one.log_value for one in made))
        return ItemEstimate(position, name, len(made), value, None, None, why)
    mean = fmean(one.log_value - posterior.drift * parts.folder.measurement(one).hours for one in made)
    within = fmean(one.within for one in made)  # the variance within a measurement
    freedom = posterior.model.d0 + len(parts.folder.searched) - 2  # the levels before and after are estimated
    error = math.sqrt((posterior.noise**2 + within) / len(made))
    margin = t_quantile(max(freedom, 1.0), (1 + _CONFIDENCE) / 2) * error
    value, low, high = math.exp(mean), math.exp(mean - margin), math.exp(mean + margin)
    return ItemEstimate(position, name, len(made), value, low, high, why)


def _words(parts: AnswerParts, suspects: Sequence[ItemSuspect]) -> tuple[str, str]:
    """Return the conclusion, and the next step."""
    result = parts.result
    if result.posterior is None:
        why = result.fault or "nothing was measured"
        step = "correct the command, or name another end of the range, then start it again"
        if why == USED_UP:
            step = "repeat the same command with a larger --max-runs or --time-budget: it goes on from here"
        return f"nothing was searched: {why}", step
    if result.outcome == "not-reproduced":
        return _words_if_not_reproduced(parts)
    if result.outcome == "undecided":
        return _words_if_undecided(parts, suspects)
    return _words_if_found(parts, suspects)


def _words_if_not_reproduced(parts: AnswerParts) -> tuple[str, str]:
    result = parts.result
    differ = "do not differ"
    step = f"compare the machine, the data and the settings, or start from an earlier {parts.noun}"
    if max(abs(result.low), abs(result.high)) > 2 * parts.tolerance:  # twice the tolerance is not excluded
        differ = "may not differ"  # four times the runs halve the interval
        step = f"the runs are too noisy to exclude a change: repeat it with --max-runs {4 * result.runs}"
    both, tolerance = f"{parts.name(0)} and {parts.name(-1)}", format_change(parts.tolerance).lstrip("+")
    return f"not reproduced: {both} {differ} in {parts.metric}: {parts.size}, tolerance {tolerance}", step


def _words_if_undecided(parts: AnswerParts, suspects: Sequence[ItemSuspect]) -> tuple[str, str]:
    result = parts.result
    message = f"undecided after {plural(result.runs, 'run')}: "
    if suspects:
        message += f"most probable is {parts.name(suspects[0].position)}, {_percent(suspects[0].probability)}; "
    message += f"from {parts.name(0)} to {parts.name(-1)}, {parts.metric} changed by {parts.size}"
    more = result.more_runs or 1
    most = result.runs + 2 * more
    return message, f"{more} to {2 * more} more runs would do: repeat the same command with --max-runs {most}"


def _words_if_found(parts: AnswerParts, suspects: Sequence[ItemSuspect]) -> tuple[str, str]:
    blamed = parts.result.blamed
    before = parts.name(blamed[0] - 1)
    *others, last = [parts.name(position) for position in blamed]
    probability = _percent(sum(one.probability for one in suspects if one.position in blamed))
    what = f"changed {parts.metric} by {parts.size}, with {probability} probability"
    if others:
        step = "some of them cannot be measured, so they share the blame: look at what they changed"
        if parts.items.commits:
            step += f": git diff {before} {last}"
        return f"{listed(others)} or {last} {what}", step
    subject = suspects[0].item.subject
    if subject:
        what += f": {subject}"
    step = f"git show {last}" if parts.items.commits else f"compare it with {before}, for example by a profile"
    return f"{last} {what}", f"look at what it changed: {step}"


def _percent(probability: float) -> str:
    text = f"{100 * probability:.1f}"
    return "more than 99.9 %" if text == "100.0" else f"{text} %"


def _notes(parts: AnswerParts) -> Iterator[str]:
    """Yield notes about skipped items, another change, drift, stored runs and interruptions."""
    posterior, skipped = parts.result.posterior, parts.folder.evidence().skipped
    for position in sorted(skipped)[:_MOST_SKIPPED]:
        yield f"{parts.name(position)} was skipped: {skipped[position]}"
    if posterior is not None and parts.result.outcome == "found":
        if posterior.another > ANOTHER:
            yield _another_change(parts, posterior.another)
        drift = math.expm1(posterior.drift)
        if posterior.model.positions > 2 and abs(drift) > 0.01:
            yield f"the machine drifted by {format_change(drift)} an hour (removed)"
    used = sum(level.runs for level in posterior.model.stored) if posterior is not None else 0
    if used:
        yield f"{plural(used, 'stored run')} count as measurements of the ends: new ones agree with them"
    elif parts.stored and posterior is not None:
        yield "stored runs of the ends are not used: this machine measures something else for the same commit"
    interruptions = max((one.session for one in parts.folder.stored), default=0)
    if interruptions:
        yield f"the search was interrupted {plural(interruptions, 'time')}"


def _another_change(parts: AnswerParts, probability: float) -> str:
    """Return the note about a second, smaller change, with the searches of both parts of the list that may find it."""
    result = parts.result
    others = [parts.name(one.position) for one in result.suspects if one.position not in result.blamed]
    where = f", perhaps {others[0]}" if others else ""
    note = f"there may be another, smaller change ({_percent(probability)} probability{where})"
    first, last, end = result.blamed[0], result.blamed[-1], len(parts.items.names) - 1
    repeat = "repeat the command with"
    if first > 1:  # a search needs two items
        note += f"; to search before {parts.name(first)}, {repeat} {_options(parts, 0, first - 1, 'before')}"
        repeat = "with"
    if last < end:
        note += f"; to search after {parts.name(last)}, {repeat} {_options(parts, last, end, 'after')}"
    return note


def _options(parts: AnswerParts, begin: int, end: int, suffix: str) -> str:
    """Return the options that search the items from `begin` to `end`, in a folder with this suffix."""
    keep = f"--keep {shlex.quote(f'{parts.keep}-{suffix}')}"
    if parts.items.commits:
        return f"--good {parts.name(begin)} --bad {parts.name(end)} {keep}"
    names = parts.items.names[begin : end + 1]
    if len(names) > _MOST_LISTED:
        names = (*names[:2], "...", names[-1])
    return f"--over {shlex.join(names)} {keep}"


def _cause_notes(parts: AnswerParts, neighbours: Neighbours | None, causes: CauseReport | None) -> tuple[str, ...]:
    """Return how many pairs of the two neighbours were measured for the cause, and whether it is not clear."""
    if neighbours is None or causes is None:
        return ()
    both = f"{parts.name(neighbours.bad)} and {parts.name(neighbours.good)}, the one before it"
    pairs = len(neighbours.pairs) if neighbours.good else 0  # pairs with the first item are those of the search
    found = [f"{plural(pairs, 'further pair')} of {both}, were measured for the cause"] if pairs else []
    if not causes.causes:
        found.append(f"the cause is not clear: between {both}, no call changed beyond the noise")
    return tuple(found)
