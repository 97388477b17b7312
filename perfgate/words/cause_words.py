"""The words that all reports share for causes: kind, place and cost, and the verdicts that follow from each."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from perfgate.core import Report, Verdict
from perfgate.core.causes import Cause, CauseReport
from perfgate.core.units import display_unit, format_change, format_number, format_value
from perfgate.core.verdicts import verdict_ids
from perfgate.core.wording import listed, plural, shortened
from perfgate.words import answer, numbers
from perfgate.words.undo import LONGEST_NAME, NAMES_SHOWN, undo
from perfgate.words.work import is_work

#: The longest name of a place, in characters.
_LONGEST_PLACE = 160
#: The most ranks of a cause that are named.
_RANKS_SHOWN = 8
#: A larger share of the step's change says nothing: other changes nearly cancel this one. A smaller one is noise.
_LARGEST_SHARE, _LEAST_SHARE = 1.1, 0.005
_KINDS = {
    "sync": "new synchronisation",
    "exposed": "exposed communication",
    "stall": "input stall",
    "machine": "the device as a whole",
    "host": "the host as a whole",
    "larger": "larger inputs",
    "smaller": "smaller inputs",
    "zeroed": "gradients added to zeros",
}


class CauseGroup(Struct, frozen=True):
    """A cause with its number in the report, and the verdicts that follow from it, the worst first."""

    number: int
    cause: Cause
    verdicts: tuple[Verdict, ...]


def groups(report: Report) -> tuple[CauseGroup, ...]:
    """Return each cause with the verdicts that follow from it; empty without causes."""
    found = report.causes.causes if report.causes else ()
    by_name: dict[str, list[Verdict]] = {}
    for name, verdict in zip(verdict_ids(report.verdicts), report.verdicts, strict=True) if found else ():
        if answer.needs_attention(verdict):
            by_name.setdefault(name, []).append(verdict)
    # A verdict follows from one cause only, whatever a stored report says.
    own = [[verdict for name in dict.fromkeys(cause.verdicts) for verdict in by_name.pop(name, ())] for cause in found]
    pairs = zip(found, (answer.worst_first(sorted(verdicts, key=_rank)) for verdicts in own), strict=True)
    return tuple(CauseGroup(number, cause, tuple(verdicts)) for number, (cause, verdicts) in enumerate(pairs, 1))


def _rank(verdict: Verdict) -> int:
    """The place of a verdict among those of one outcome: the step, its parts, and then all others."""
    return 0 if verdict.metric == "step.time" else 1 if verdict.metric.startswith("step.") else 2


def unexplained(report: Report) -> tuple[Verdict, ...]:
    """Return the verdicts that follow from no cause, in the order of the report."""
    explained = {id(verdict) for group in groups(report) for verdict in group.verdicts}
    return tuple(verdict for verdict in report.verdicts if id(verdict) not in explained)


def by_verdict(report: Report) -> dict[int, CauseGroup]:
    """Return the cause of each verdict that follows from one, by the `id()` of the verdict."""
    return {id(verdict): group for group in groups(report) for verdict in group.verdicts}


def step(found: CauseReport) -> str:
    """Return the change of the whole step: `whole step 10.2 → 11 ms, +815 µs (+8.0%); 3 base runs, 1 new run`."""
    if not _has_times(found):
        return f"memory at its peak; {plural(found.base_runs, 'base run')}, {plural(found.new_runs, 'new run')}"
    change = found.new_step - found.base_step
    unit = display_unit(max(found.base_step, found.new_step), "s")
    relative = f" ({format_change(change / found.base_step)})" if found.base_step else ""
    sides = f"{format_number(found.base_step / unit.factor)} → {format_value(found.new_step, 's', unit.symbol)}"
    runs = f"{plural(found.base_runs, 'base run')}, {plural(found.new_runs, 'new run')}"
    what = "all steps" if any(cause.metric == "total time" for cause in found.causes) else "whole step"
    return f"{what} {sides}, {signed(change)}{relative}; {runs}"


def without_cause(found: CauseReport) -> str:
    """Return what is said if no cause was found."""
    if not _has_times(found):
        return "No cause found: the peak of the memory is the same, or nearly."
    change = abs(found.new_step - found.base_step)
    size = f"can change the whole step by {format_value(found.noise, 's')}"
    return f"No cause found. Noise {size}{'' if change <= found.noise else ', which is less than its change'}."


def rest(found: CauseReport) -> str:
    """Return the change that the causes leave: `rest +4 µs: changes that noise explains or that are too small`."""
    if not _has_times(found):
        return "These files have no times."
    return f"rest {signed(found.rest)}: changes that noise explains, or that are too small to list"


def _has_times(found: CauseReport) -> bool:
    """True unless the files only have memory, as snapshots of torch's allocator do."""
    return bool(found.base_step or found.new_step)


def title(cause: Cause) -> str:
    """Return the kind and the place of a cause: `slower: backward / aten::mm`."""
    return f"{kind(cause)}: {where(cause)}"


def kind(cause: Cause) -> str:
    """Return the kind of a cause in words, with its ranks: `slow rank 2 (the others wait)`."""
    ranks = listed(cause.ranks, _RANKS_SHOWN)
    if cause.kind == "slow rank":
        return f"slow {'rank' if len(cause.ranks) == 1 else 'ranks'} {ranks} (the others wait)"
    words, amount = _KINDS.get(cause.kind, cause.kind), "more" if cause.change_per_step > 0 else "less"
    if cause.kind in ("slower", "faster") and (cause.gone or cause.come):
        words = f"{amount} time"
    if cause.kind == "memory":
        words = f"{amount} memory at the peak"
    return f"{words} on rank {ranks}" if ranks else words


def where(cause: Cause) -> str:
    """Return the place of a cause: `backward / aten::mm`."""
    return place(cause.where)


def place(path: Sequence[str]) -> str:
    """Return a path as text. A function of the backward pass is in a call of torch that repeats its name."""
    names = list(map(short, path))
    names = [name for at, name in enumerate(names) if name not in names[:at][-1:]]
    while len(names) > 3 and len(" / ".join(names)) > _LONGEST_PLACE:
        names[1:3] = ["…"]
    return shortened(" / ".join(names) or "the step itself", _LONGEST_PLACE)


def short(name: str) -> str:
    """Return the name of a call without what torch puts before each function of the backward pass."""
    return name.removeprefix("autograd::engine::evaluate_function: ")


def cost(cause: Cause) -> str:
    """Return what a cause costs: `+1 ms [+0.8, +1.2] per step, 99% of the change`."""
    base = "B" if cause.metric == "memory" else "s"
    unit = display_unit(max(cause.change_per_step, cause.low, cause.high, key=abs), base)
    low, high = (_plus(bound / unit.factor) for bound in (cause.low, cause.high))
    size = f"{_plus(cause.change_per_step / unit.factor)} {unit.symbol} [{low}, {high}]"
    if cause.metric == "memory":
        return size
    known = cause.share is not None and _LEAST_SHARE <= cause.share <= _LARGEST_SHARE
    share = min(cause.share or 0.0, 1.0)
    size += " per step" if cause.metric == "time" else ""
    return size + (f", {share:.0%} of the change" if known else "")


def details(cause: Cause) -> list[tuple[str, str]]:
    """Return the line of the program, the calls that went and those that came, and other places of the same change."""
    others = [place(path) for path in cause.places if cause.where[: len(path)] != path]
    texts = {
        "at": cause.source,
        "gone": _calls(cause.gone),
        "new": _calls(cause.come),
        "also at": listed(others, NAMES_SHOWN),
    }
    return [(label, text) for label, text in texts.items() if text]


def _calls(calls: Sequence[tuple[str, float]]) -> str:
    return listed([f"{shortened(short(name), LONGEST_NAME)} x{count:g}" for name, count in calls], NAMES_SHOWN)


def line(cause: Cause) -> str:
    """Return a cause as one line: `slower: backward / aten::mm, +1 ms [+0.8, +1.2] per step, 99% of the change`."""
    source = f", at {cause.source}" if cause.source else ""
    return f"{title(cause)}, {cost(cause)}{source}"


def brief(verdict: Verdict) -> str:
    """Return a verdict in short, without its outcome: `forward median on rank 1 +25.9%`."""
    name = shortened(numbers.what(verdict), LONGEST_NAME)
    if verdict.outcome == "error":
        return f"{name} ({verdict.reason.replace('-', ' ')})"
    change = verdict.change.estimate if verdict.kind == "change" and verdict.change else None
    if is_work(verdict):
        return f"{name} {numbers.measured(verdict)[0]}"
    if change is not None:
        return f"{name} {format_change(change)}"
    value = None if verdict.new is None else verdict.new.estimate
    return f"{name} {numbers.value_text(value, verdict)}" if value is not None else f"{name} (not measured)"


def follow(count: int) -> str:
    """Return how many verdicts follow from a cause: `3 verdicts follow from it`."""
    return f"{plural(count, 'verdict')} {'follows' if count == 1 else 'follow'} from it"


#: Steps that make a doubt certain: with a failed verdict beside it, there is none.
_MEASURING = {"run-again", "run-longer", "run-paired", "add-base-runs"}


def steps(group: CauseGroup) -> list[str]:
    """Return what to undo, and the next steps of the verdicts, one for each action, those of the worst first."""
    own, is_red = undo(group.cause), any(one.outcome == "fail" for one in group.verdicts)
    useless = {"find-cause", *(_MEASURING if is_red else ())} if own else set()
    by_action = {one.next_step.action: one.next_step for one in reversed(group.verdicts) if one.next_step.text}
    actions = dict.fromkeys(one.next_step.action for one in group.verdicts)
    others = [answer.next_step(by_action[one]) for one in actions if one in by_action and one not in useless]
    return [own, *others] if own else others


def signed(value: float) -> str:
    """Return a time with its sign: `+815 µs`."""
    return f"{'-' if value < 0 else '+'}{format_value(abs(value), 's')}"


def _plus(number: float) -> str:
    return f"{'' if number < 0 else '+'}{format_number(number)}"
