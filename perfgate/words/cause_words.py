"""The words that all reports share for causes: kind, place, cost and advice, and the verdicts that follow from each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from perfgate.core import Report, Verdict
from perfgate.core.call_trees import LAUNCHES
from perfgate.core.causes import Cause, CauseKind, CauseReport
from perfgate.core.units import display_unit, format_change, format_number, format_value
from perfgate.core.verdicts import verdict_ids
from perfgate.core.wording import listed, plural, shortened
from perfgate.words import answer, numbers
from perfgate.words.work import is_work

#: The longest name of a place and of a call, in characters.
_LONGEST_PLACE, _LONGEST_NAME = 160, 80
#: The most ranks of a cause that are named, and the most names of calls that came, and of those that went.
_RANKS_SHOWN, _NAMES_SHOWN = 8, 3
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
    numbered = []
    for number, cause in enumerate(found, 1):
        # A verdict follows from one cause only, whatever a stored report says.
        following = [verdict for name in dict.fromkeys(cause.verdicts) for verdict in by_name.pop(name, ())]
        numbered.append(CauseGroup(number, cause, tuple(answer.worst_first(sorted(following, key=_rank)))))
    return tuple(numbered)


def _rank(verdict: Verdict) -> int:
    """Return the place of a verdict among those of one outcome: the step, its parts, and then all others."""
    return 0 if verdict.metric == "step.time" else 1 if verdict.metric.startswith("step.") else 2


def unexplained(report: Report) -> tuple[Verdict, ...]:
    """Return the verdicts that follow from no cause, in the order of the report."""
    explained = by_verdict(report)
    return tuple(verdict for verdict in report.verdicts if id(verdict) not in explained)


def by_verdict(report: Report) -> dict[int, CauseGroup]:
    """Return the cause of each verdict that follows from one, by the `id()` of the verdict."""
    return {id(verdict): group for group in groups(report) for verdict in group.verdicts}


def step(found: CauseReport) -> str:
    """Return the change of the whole step, or of all if their number is unknown: `whole step 10.2 → 11 ms ...`."""
    runs = f"{plural(found.base_runs, 'base run')}, {plural(found.new_runs, 'new run')}"
    if not _has_times(found):
        return f"memory at its peak; {runs}"
    change = found.new_step - found.base_step
    unit = display_unit(max(found.base_step, found.new_step), "s")
    relative = f" ({format_change(change / found.base_step)})" if found.base_step else ""
    sides = f"{format_number(found.base_step / unit.factor)} → {format_value(found.new_step, 's', unit.symbol)}"
    what = "all steps" if any(cause.metric == "total time" for cause in found.causes) else "whole step"
    return f"{what} {sides}, {signed(change)}{relative}; {runs}"


def without_cause(found: CauseReport) -> str:
    """Return what is said if no cause was found."""
    if not _has_times(found):
        return "No cause found: the peak of the memory is the same, or nearly."
    less = "" if abs(found.new_step - found.base_step) <= found.noise else ", which is less than its change"
    return f"No cause found. Noise can change the whole step by {format_value(found.noise, 's')}{less}."


def rest(found: CauseReport) -> str:
    """Return the change that the causes leave: `rest +4 µs: changes that noise explains, or that are too small ...`."""
    if not _has_times(found):
        return "These files have no times."
    return f"rest {signed(found.rest)}: changes that noise explains, or that are too small to list"


def _has_times(found: CauseReport) -> bool:
    """Return True unless the files only have memory, as snapshots of torch's allocator do."""
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
        words = f"{amount} time"  # the table of the other side is cut off, and may have had these rows, too
    if cause.kind == "memory":
        words = f"{amount} memory at the peak"
    return f"{words} on rank {ranks}" if ranks else words


def where(cause: Cause) -> str:
    """Return the place of a cause: `backward / aten::mm`."""
    return place(cause.where)


def place(path: Sequence[str]) -> str:
    """Return a path as text; a name equal to the one before is left out, because torch repeats those of backward."""
    names = list(map(short, path))
    names = [name for at, name in enumerate(names) if at == 0 or name != names[at - 1]]
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
    size += " per step" if cause.metric == "time" else ""
    known = cause.share is not None and _LEAST_SHARE <= cause.share <= _LARGEST_SHARE
    return size + (f", {min(cause.share or 0.0, 1.0):.0%} of the change" if known else "")


def details(cause: Cause) -> list[tuple[str, str]]:
    """Return the line of the program, the calls that went and those that came, and other places of the same change."""
    # `where` itself and its callers are not other places.
    others = listed([place(path) for path in cause.places if cause.where[: len(path)] != path], _NAMES_SHOWN)
    texts = {"at": cause.source, "gone": _calls(cause.gone), "new": _calls(cause.come), "also at": others}
    return [(label, text) for label, text in texts.items() if text]


def _calls(calls: Sequence[tuple[str, float]]) -> str:
    return listed([f"{shortened(short(name), _LONGEST_NAME)} x{count:g}" for name, count in calls], _NAMES_SHOWN)


def line(cause: Cause) -> str:
    """Return a cause as one line: `slower: backward / aten::mm, +1 ms [+0.8, +1.2] per step, 99% of the change`."""
    return f"{title(cause)}, {cost(cause)}" + (f", at {cause.source}" if cause.source else "")


def brief(verdict: Verdict) -> str:
    """Return a verdict in short, without its outcome: `forward median on rank 1 +25.9%`."""
    name = shortened(numbers.what(verdict), _LONGEST_NAME)
    if verdict.outcome == "error":
        return f"{name} ({verdict.reason.replace('-', ' ')})"
    if is_work(verdict):
        return f"{name} {numbers.measured(verdict)[0]}"
    if verdict.kind == "change" and verdict.change and verdict.change.estimate is not None:
        return f"{name} {format_change(verdict.change.estimate)}"
    value = None if verdict.new is None else verdict.new.estimate
    return f"{name} {numbers.value_text(value, verdict)}" if value is not None else f"{name} (not measured)"


def follow(count: int) -> str:
    """Return how many verdicts follow from a cause: `3 verdicts follow from it`."""
    return f"{plural(count, 'verdict')} {'follows' if count == 1 else 'follow'} from it"


#: Steps that make a doubt certain. A failed verdict of the same cause leaves no doubt.
_MEASURING = {"run-again", "run-longer", "run-paired", "add-base-runs"}


def steps(group: CauseGroup) -> list[str]:
    """Return what to undo, and the next steps of the verdicts, one for each action, those of the worst first."""
    advice = undo(group.cause)
    useless = {"find-cause"} if advice else set()
    if advice and any(verdict.outcome == "fail" for verdict in group.verdicts):
        useless |= _MEASURING
    # Of several steps with one action, that of the worst verdict is kept: it is written last.
    by_action = {one.next_step.action: one.next_step for one in reversed(group.verdicts) if one.next_step.text}
    actions = dict.fromkeys(one.next_step.action for one in group.verdicts)
    others = [answer.next_step(by_action[one]) for one in actions if one in by_action and one not in useless]
    return [advice, *others] if advice else others


def signed(value: float) -> str:
    """Return a time with its sign: `+815 µs`."""
    return f"{'-' if value < 0 else '+'}{format_value(abs(value), 's')}"


def _plus(number: float) -> str:
    return f"{'' if number < 0 else '+'}{format_number(number)}"


#: Patterns of the calls that went and of those that came, and what the program decided. The first row that fits both
#: counts; an empty pattern fits any calls.
_DECISIONS = (
    (
        r"_fused_adam|_fused_sgd|_foreach_add",
        r"aten::(?:mul_|add_|lerp_|addcdiv_)$",
        "the optimizer runs one kernel for each parameter: pass fused=True or foreach=True",
    ),
    (
        r"",
        r"(?=[\s\S]*vector_norm)(?=[\s\S]*aten::clamp)(?=[\s\S]*aten::mul_$)",
        "gradients are clipped now, one by one: clip all at once, with foreach=True, or not at all",
    ),
    (r"scaled_dot_product", r"softmax|bmm|matmul", "attention is no longer fused: call scaled_dot_product_attention"),
)
#: The place of work that only the weights decide.
_is_optimizer = re.compile(r"optimizer|aten::_(?:fused|foreach)_", re.IGNORECASE).search
_is_backward = re.compile("backward", re.IGNORECASE).search
_OF_CALLS = ("appeared", "replaced", "more calls")
#: By kind, if the step needs more time or memory.
_SENTENCES: dict[CauseKind, str] = {
    "more calls": "look for a new loop, or a value that was kept before",
    "slower": "compare the shapes, layouts and types of its inputs",
    "sync": "the host waits there for the device: read the value after the step, or only in some steps",
    "exposed": "communication no longer runs beside computation: compare bucket sizes, streams and the order of calls",
    "slow rank": "compare the node of this rank with the others: clocks, data, other programs",
    "stall": "the step waits for its batch: use more workers, prefetch more, or do less for each sample",
    "memory": "free it earlier, or compute it again",
    "machine": "compare clocks and power (`nvidia-smi -q -d CLOCK,POWER`), or measure again",
    "host": "compare the processors, other programs and the version of Python, or measure with `perfgate run --paired`",
    "allocator": "every step allocates device memory anew: look for torch.cuda.empty_cache(), and remove it",
    "zeroed": "each step fills the gradients with zeros, and adds to them: pass set_to_none=True to zero_grad()",
    "repeated": "the backward pass computes activations again: turn off checkpointing, or use it in fewer layers",
}


def undo(cause: Cause) -> str:
    """Return what to do about a cause; empty if it makes nothing worse, or its kind has no advice."""
    if cause.change_per_step <= 0:
        return ""
    if cause.kind == "slower" and cause.come:
        return "look for what calls them; the base's table ends above their rows (row_limit=-1 prints all)"
    if cause.metric == "total time" and cause.kind == "slower":
        return "compare its number of calls, and the shapes of its inputs"
    if cause.kind == "larger" and cause.factor is not None:
        blocks = f"{cause.factor:.3g} times as many thread blocks"
        if any(_is_optimizer("/".join(path)) for path in cause.places):
            return f"{blocks}, and more parameters: compare the widths of layers and the vocabulary"
        return f"{blocks}: compare the batch, lengths and widths of the model"
    return _of_calls(cause) or _SENTENCES.get(cause.kind, "")


def _of_calls(cause: Cause) -> str:
    """Return the sentence about the calls that went and those that came; empty if they say nothing."""
    gone, come = (" ".join(f"{name}\n" for name, _ in calls) for calls in (cause.gone, cause.come))
    for went, came, sentence in _DECISIONS if cause.kind in _OF_CALLS else ():
        if re.search(went, gone) and re.search(came, come, re.MULTILINE):
            return sentence
    if cause.types == ("tf32", "fp32"):
        return "tf32 kernels became fp32, because TF32 is off: call torch.set_float32_matmul_precision('high')"
    if cause.types is not None:
        was, now = cause.types
        return f"{was} kernels became {now}: autocast is off there, or an input has another type"
    if cause.kind not in ("appeared", "replaced") or not cause.come:
        return ""
    if not cause.gone:
        return f"look for the new calls of {listed(_told(cause.come), _NAMES_SHOWN)}, and remove them"
    before, after = (sum(count for _, count in calls) for calls in (cause.gone, cause.come))
    old = _told(cause.gone)[0].rpartition("::")[2]
    if after < 2 * before:
        return "compare the calls that are gone and new: a flag, a type, a shape or a version changed"
    if not old.isidentifier():  # a kernel
        return f"{after / before:.0f} calls do now what one did: look for a fused call that is no longer used"
    return f"{old} was one call, and is {after / before:.0f} now: call {old} again"


def _told(calls: Sequence[tuple[str, float]]) -> list[str]:
    """Return the names of calls that say what the program does: not its backward pass, and not only launches."""
    names = [name for name, _ in calls]
    told = [name for name in names if not _is_backward(name) and not LAUNCHES.fullmatch(name)] or names[:1]
    return [shortened(name, _LONGEST_NAME) for name in told]
