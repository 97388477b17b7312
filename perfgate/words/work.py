"""The sentences about exact work: which counts of a step grew or shrank, by how much, and where."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from perfgate.core import Acceptance, NextStep, Verdict
from perfgate.core.details import WorkDifference, WorkPlace
from perfgate.core.next_steps import NO_STEP
from perfgate.core.results import WorkResult
from perfgate.core.units import format_change, format_number, format_value
from perfgate.core.wording import listed, member_name, plural, shortened

#: One and several of each count.
_NOUNS = {
    "work.ops": ("operator", "operators"),
    "work.kernels": ("kernel", "kernels"),
    "work.launches": ("launch", "launches"),
    "work.graph_launches": ("graph launch", "graph launches"),
    "work.blocks": ("thread block", "thread blocks"),
    "work.syncs": ("synchronisation", "synchronisations"),
    "work.copies": ("copy", "copies"),
    "work.memsets": ("memset", "memsets"),
    "work.allocations": ("allocation or release", "allocations and releases"),
    "work.collectives": ("collective", "collectives"),
}
#: The unit of each amount that is not FLOP, and what happens to it.
_AMOUNTS = {"work.copied_bytes": ("B", "copied"), "work.collective_bytes": ("B", "sent")}
#: Smaller counts are printed whole.
_PRINTED_WHOLE = 10_000
#: The most counts in one sentence, and the longest name of a call.
_SHOWN, _LONGEST_NAME = 3, 80


def work_message(result: WorkResult) -> str:
    """Return what a step does more of, less of, or that all counts are the same."""
    said = []
    if result.grown:
        said.append(_said(result.grown, "more"))
    if result.shrunk:
        said.append(_said(result.shrunk, "less"))
    # Only shown if no count grew or shrank: the counts compared exactly, without those that grew within an allowance.
    equal = result.counts - len([count for count in result.allowed if not count.varies])
    if not said and equal > 0:
        said.append(f"each step does the same work ({plural(equal, 'equal count')})")
    if result.allowed:
        said.append(f"{_said(result.allowed, 'more')}, which is allowed")
    if result.varied:
        several = len(result.varied) > 1
        how = "vary between runs and are" if several else "varies between runs and is"
        said.append(f"{listed(result.varied)} {how} compared by the mean")
    if result.unclear:
        said.append(_said(result.unclear, "more", has="probably has"))
    elif result.outcome == "undecided":
        said.append("that is not enough evidence")
    runs = f"{plural(result.base_runs, 'base run')}, {plural(result.new_runs, 'new run')}"
    return f"{', and '.join(said)}; {runs}"


def work_next_step(result: WorkResult, accept: Acceptance) -> NextStep:
    """Return the shortest next step after work was compared."""
    if result.outcome == "undecided":  # only counts that vary can be undecided
        text = "run the new code twice more, or give the varying count a tolerance: "
        return NextStep("run-again", f"{text}{result.varied[0]} within 10% of baseline")
    if result.outcome != "fail":
        return NO_STEP
    place = next((count.place for count in result.grown if count.place is not None), None)
    where = "" if place is None or not place.part else f" in {place.part}"
    text = f"find the new calls{where}" if result.grown else "find the work that is no longer done"
    if not accept.has_store:
        return NextStep("find-cause", text)
    text = f"{text}; if it is intended, "
    if accept.ref is not None:
        return accept.step_of_others("approve", text, "can approve a run of it after the merge")
    return NextStep("approve", f"{text}approve it", command=accept.approve)


def is_work(verdict: Verdict) -> bool:
    """Return whether a verdict is about exact work that was compared.

    A pass has the reason `exact`, like any value without noise, so the sentence of its rule decides.
    """
    return verdict.reason in ("more-work", "less-work", "varied-work") or (
        verdict.asks.startswith(("no more ", "same ")) and verdict.outcome == "pass"
    )


def largest_difference(verdict: Verdict) -> str:
    """Return the count that differs first, `1 → 7 synchronisations`, or that all are the same."""
    if not verdict.work:
        return "same work" if verdict.outcome == "pass" else "it varies"
    first = _first(verdict.work)
    noun = _NOUNS.get(first.metric, ("", first.metric.removeprefix("work.").replace("_", " ")))[1]
    return f"{format_number(first.base)} → {format_number(first.new)} {noun}"


def first_difference(verdict: Verdict) -> str:
    """Return the count that differs first, with its place: `a step has 6 more synchronisations (1 → 7) in forward`."""
    if not verdict.work:
        return largest_difference(verdict)
    first = _first(verdict.work)
    word = "more" if first.new > first.base else "less"
    alike = [one for one in verdict.work if (one.metric, one.labels) == (first.metric, first.labels)]
    others = len({(one.metric, tuple(one.labels.items())) for one in verdict.work}) - 1
    rest = f", and {plural(others, 'other count')} {'differ' if others > 1 else 'differs'}" if others else ""
    return _said(alike, word) + rest


def _first(differences: Sequence[WorkDifference]) -> WorkDifference:
    """Return the first difference with a place, or else the first one: no call tree has allocations of host memory."""
    return next((count for count in differences if count.place is not None), differences[0])


def _said(differences: Sequence[WorkDifference], word: str, has: str = "has") -> str:
    """Return differences in words, those of several ranks or devices once."""
    groups = [
        list(found) for _, found in groupby(differences, key=lambda one: (one.metric, sorted(one.labels.items())))
    ]
    shown, devices = list[str](), {one.member["device"] for one in differences if "device" in one.member}
    for place, found in groupby(groups[:_SHOWN], key=lambda group: _place(group[0].place)):
        counts = ", ".join(_one(group, word, names_device=len(devices) > 1) for group in found)
        shown.append(f"{counts} {place}".rstrip())
    more = len(groups) - _SHOWN
    head = f"a step {has} {', '.join(shown)}"
    return f"{head}, and {plural(more, 'other count')} {'grew' if word == 'more' else 'shrank'}" if more > 0 else head


def _one(group: Sequence[WorkDifference], word: str, *, names_device: bool) -> str:
    """Return one difference: `6 more DtoH copies (0 → 6) on rank 3`."""
    largest = max(group, key=lambda one: abs(one.new - one.base))
    text = _amount(largest, word)
    member = {name: value for name, value in largest.member.items() if names_device or name != "device"}
    return f"{text} on {member_name(member)}" if len(group) == 1 and member else text


def _amount(count: WorkDifference, word: str) -> str:
    """Return a difference without its rank: `6 more DtoH copies (0 → 6)`, `25% more operators`, `3 MiB more sent`."""
    change = abs(count.new - count.base)
    kind = f" {count.labels.get('kind') or count.labels.get('op') or ''}".rstrip()
    if count.metric not in _NOUNS:
        unit, verb = _AMOUNTS.get(count.metric, ("FLOP", "computed"))
        text = f"{format_value(change, unit)} {word}{kind} {verb}"
        return f"{text} ({format_change(count.new / count.base - 1)})" if count.base else text
    single, several = _NOUNS[count.metric]
    more = f"{'fewer' if word == 'less' else word}{kind}"
    if count.base and max(count.base, count.new) >= _PRINTED_WHOLE:
        return f"{format_number(100 * change / count.base, 2)}% {more} {several}"
    noun = single if change == 1 else several
    return f"{format_number(change)} {more} {noun} ({format_number(count.base)} → {format_number(count.new)})"


def _place(place: WorkPlace | None) -> str:
    """Return a place: `in forward (aten::item, model.py:58)`, or `by cudaFree` outside of every part."""
    if place is None:
        return ""
    inside = ", ".join(one for one in (shortened(place.call, _LONGEST_NAME), place.source) if one)
    if not place.part:
        return f"by {inside}" if inside else ""
    return f"in {place.part} ({inside})" if inside else f"in {place.part}"
