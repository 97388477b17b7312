"""The answer of a search as a report: messages, estimates of every item, facts of the commits, and causes."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from statistics import fmean

from msgspec import Struct

from perfgate.bisect.posterior import Posterior
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
    result: SearchResult | None
    #: The reason why nothing was searched.
    fault: str | None
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

    def name(self, position: int) -> str:
        """Return an item as messages name it."""
        name = self.items.names[position]
        return name[:12] if self.items.commits else name


def answer(parts: AnswerParts) -> BisectReport:
    """Return the report of a search."""
    result, items, facts = parts.result, parts.items, parts.facts
    posterior = result.posterior if result else None
    measured = _estimates(parts, posterior)
    suspects = _suspects(parts, measured)
    message, step = _words(parts, suspects)
    is_known = result is not None and posterior is not None
    paired = any(one.paired for one in parts.folder.stored)
    neighbours = Neighbours.of(parts.folder, result)
    causes = neighbours.causes() if neighbours else None
    metric, unit = (facts.metric, facts.unit) if facts else ("", "1")
    return BisectReport(
        outcome=result.outcome if result else "undecided",
        message=message,
        next_step=step,
        metric=metric,
        statistic=facts.statistic if facts else None,
        unit=unit,
        larger_is_worse=None if facts is None or facts.better in (None, "neither") else facts.better == "lower",
        noun=parts.noun,
        first=items.item(0),
        last=items.item(len(items.names) - 1),
        positions=len(items.names),
        tolerance=parts.tolerance,
        confidence=_CONFIDENCE,
        change=result.change if result and is_known else None,
        low=result.low if result and is_known else None,
        high=result.high if result and is_known else None,
        runs=(parts.folder.started + parts.lost) // (2 if paired else 1),
        paired=paired,
        noise=posterior.noise if posterior else None,
        drift_per_hour=math.expm1(posterior.drift) if posterior else None,
        another=posterior.another if posterior else 0.0,
        suspects=suspects,
        no_change=posterior.nothing if suspects and posterior else 0.0,
        blamed=result.blamed if result else (),
        measured=measured,
        more_runs=result.more_runs if result else None,
        notes=(*_notes(parts, posterior), *_cause_notes(parts, neighbours, causes)),
        causes=causes if causes and causes.causes else None,
    )


def _suspects(parts: AnswerParts, measured: Sequence[ItemEstimate]) -> tuple[ItemSuspect, ...]:
    """Return the items that the answer names, the most probable first."""
    result, by_position = parts.result, {one.position: one for one in measured}
    if result is None or result.outcome == "not-reproduced":
        return ()
    least = _LEAST_NAMED if result.outcome == "found" else 0.0
    return tuple(
        ItemSuspect(one.position, parts.items.item(one.position), one.probability, by_position.get(one.position))
        for one in result.suspects[: max(_MOST_NAMED, len(result.blamed))]
        if one.probability >= least or one.position in result.blamed
    )


def _estimates(parts: AnswerParts, posterior: Posterior | None) -> tuple[ItemEstimate, ...]:
    """Return the mean of every measured item, without drift, with its interval; and every skipped item; in order.

    Means are those of logarithms. In pairs, all items are measured beside the first one, which is 1 by definition.
    """
    groups: dict[int, list[StoredMeasurement]] = {}
    for one in parts.folder.searched:
        groups.setdefault(one.position, []).append(one)
    drift = posterior.drift if posterior else 0.0
    found = []
    if 0 not in groups and (pairs := sum(one.paired and one.skipped is None for one in parts.folder.searched)):
        found.append(ItemEstimate(0, parts.items.names[0], pairs, 1.0, 1.0, 1.0))
    for position, stored in sorted(groups.items()):
        logs = [one.log_value - drift * parts.folder.measurement(one).hours for one in stored if one.skipped is None]
        why = next((one.skipped for one in stored if one.skipped is not None), None)
        name = parts.items.names[position]
        if not logs:
            found.append(ItemEstimate(position, name, 0, None, None, None, why))
            continue
        mean = fmean(logs)
        if posterior is None:  # the noise is not known yet
            found.append(ItemEstimate(position, name, len(logs), math.exp(mean), None, None, why))
            continue
        within = fmean(one.within for one in stored if one.skipped is None)  # the variance within a measurement
        freedom = posterior.model.d0 + len(parts.folder.searched) - 2  # the levels before and after are estimated
        error = math.sqrt((posterior.noise**2 + within) / len(logs))
        margin = t_quantile(max(freedom, 1.0), (1 + _CONFIDENCE) / 2) * error
        low, value, high = (math.exp(mean + part) for part in (-margin, 0.0, margin))
        found.append(ItemEstimate(position, name, len(logs), value, low, high, why))
    return tuple(found)


def _words(parts: AnswerParts, suspects: tuple[ItemSuspect, ...]) -> tuple[str, str]:
    """Return the conclusion, and the next step."""
    result = parts.result
    if result is None or result.posterior is None:
        why = parts.fault or (result.fault if result else None) or "nothing was measured"
        step = "correct the command, or name another end of the range, then start it again"
        if why == USED_UP:
            step = "repeat the same command with a larger --max-runs or --time-budget: it goes on from here"
        return f"nothing was searched: {why}", step
    metric = parts.facts.metric if parts.facts else "the metric"
    size = f"{format_change(result.change)} ({format_change(result.low)} to {format_change(result.high)})"
    first, last = parts.name(0), parts.name(len(parts.items.names) - 1)
    tolerance = format_change(parts.tolerance).lstrip("+")
    if result.outcome == "not-reproduced":
        message = f"not reproduced: {first} and {last} do not differ in {metric}: {size}, tolerance {tolerance}"
        if max(abs(result.low), abs(result.high)) > 2 * parts.tolerance:  # four times the runs halve the interval
            message = message.replace("do not differ", "may not differ")
            return message, f"the runs are too noisy to exclude a change: repeat it with --max-runs {4 * result.runs}"
        return message, f"compare the machine, the data and the settings, or start from an earlier {parts.noun}"
    if result.outcome == "undecided":
        message = f"undecided after {plural(result.runs, 'run')}: "
        if suspects:
            message += f"most probable is {parts.name(suspects[0].position)}, {_percent(suspects[0].probability)}; "
        message += f"from {first} to {last}, {metric} changed by {size}"
        more = result.more_runs or 1
        most = result.runs + 2 * more
        step = f"{more} to {2 * more} more runs would do: repeat the same command with --max-runs {most}"
        return message, step
    blamed = [parts.name(position) for position in result.blamed]
    probability = _percent(sum(one.probability for one in suspects if one.position in result.blamed))
    if len(blamed) == 1:
        subject = suspects[0].item.subject
        message = f"{blamed[0]} changed {metric} by {size}, with {probability} probability"
        message += f": {subject}" if subject else ""
        before = parts.name(result.blamed[0] - 1)
        step = f"git show {blamed[0]}" if parts.items.commits else f"compare it with {before}, for example by a profile"
        return message, f"look at what it changed: {step}"
    message = f"{listed(blamed[:-1])} or {blamed[-1]} changed {metric} by {size}, with {probability} probability"
    step = "some of them cannot be measured, so they share the blame: look at what they changed"
    return message, step + (
        f": git diff {parts.name(result.blamed[0] - 1)} {blamed[-1]}" if parts.items.commits else ""
    )


def _percent(probability: float) -> str:
    text = f"{100 * probability:.1f}"
    return "more than 99.9 %" if text == "100.0" else f"{text} %"


def _notes(parts: AnswerParts, posterior: Posterior | None) -> tuple[str, ...]:
    """Return notes about skipped items, another change, drift, stored runs and interruptions."""
    found = []
    skipped = {one.position: one.skipped for one in parts.folder.stored if one.skipped is not None}
    found += [f"{parts.name(at)} was skipped: {why}" for at, why in sorted(skipped.items())[:_MOST_SKIPPED]]
    if posterior is not None and parts.result is not None and parts.result.outcome == "found":
        if posterior.another > ANOTHER:
            others = [one for one in parts.result.suspects if one.position not in parts.result.blamed][:1]
            where = f", perhaps {parts.name(others[0].position)}" if others else ""
            note = f"there may be another, smaller change ({_percent(posterior.another)} probability{where})"
            found.append(note + _searches_for_another(parts, parts.result.blamed))
        if posterior.model.positions > 2 and abs(math.expm1(posterior.drift)) > 0.01:
            found.append(f"the machine drifted by {format_change(math.expm1(posterior.drift))} an hour (removed)")
    if posterior is not None and (count := sum(one.runs for one in posterior.model.stored)):
        found.append(f"{plural(count, 'stored run')} count as measurements of the ends: new ones agree with them")
    elif parts.stored:
        found.append("stored runs of the ends are not used: this machine measures something else for the same commit")
    if sessions := max((one.session for one in parts.folder.stored), default=0):
        found.append(f"the search was interrupted {plural(sessions, 'time')}")
    return tuple(found)


def _searches_for_another(parts: AnswerParts, blamed: Sequence[int]) -> str:
    """Return the words for a search before the answer, and for one after it, with the options for each."""
    last, found = len(parts.items.names) - 1, list[str]()
    for word, begin, end, name in (
        ("before", 0, blamed[0] - 1, parts.name(blamed[0])),
        ("after", blamed[-1], last, parts.name(blamed[-1])),
    ):
        if begin < end:
            keep = f"--keep {shlex.quote(f'{parts.keep}-{word}')}"
            repeat = "" if found else "repeat the command "
            names = list(parts.items.names[begin : end + 1])
            shown = names if len(names) <= _MOST_LISTED else [*names[:2], "...", names[-1]]
            over = f"--over {shlex.join(shown)}"
            part = f"--good {parts.name(begin)} --bad {parts.name(end)}" if parts.items.commits else over
            found.append(f"; to search {word} {name}, {repeat}with {part} {keep}")
    return "".join(found)


def _cause_notes(parts: AnswerParts, neighbours: Neighbours | None, causes: CauseReport | None) -> tuple[str, ...]:
    """Return how often the two neighbours were measured for the cause, or that their traces show no cause."""
    if neighbours is None or causes is None:
        return ()
    both = f"{parts.name(neighbours.bad)} and {parts.name(neighbours.good)}, the one before it"
    pairs = len(neighbours.pairs) if neighbours.good else 0  # pairs with the first item are those of the search
    found = [f"{plural(pairs, 'further pair')} of {both}, were measured for the cause"] if pairs else []
    if not causes.causes:
        found.append(f"the cause is not clear: between {both}, no call changed beyond the noise")
    return tuple(found)
