"""The commands that accept the changes of all verdicts, and one such step for the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from perfgate.core import NO_STEP, Acceptance, NextStep, RelativeChange, Verdict


def with_allow_commands(accept: Acceptance, verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts with the commands that allow their changes on the ref.

    An allowance is for a metric, so all verdicts of a metric have the same command, with its largest worsening.
    """
    worst: dict[str, float] = {}
    for verdict in verdicts:
        if verdict.next_step.action == "allow":
            worst[verdict.metric] = max(worst.get(verdict.metric, 0.0), _worsening(verdict))

    def completed(verdict: Verdict) -> Verdict:
        if verdict.next_step.action != "allow":
            return verdict
        command = accept.allow(verdict.metric, worst[verdict.metric])
        if command is not None:
            return replace(verdict, next_step=replace(verdict.next_step, command=command))
        text = "find what made it worse: without a relative change it cannot be allowed"
        return replace(verdict, next_step=NextStep("find-cause", text))

    return tuple(map(completed, verdicts))


def _worsening(verdict: Verdict) -> float:
    """The largest worsening that the interval includes."""
    change = verdict.change or RelativeChange(None, None, None)
    end = change.low if (change.estimate or 0.0) < 0 else change.high
    return abs(end or change.estimate or 0.0)


def to_accept(accept: Acceptance, verdicts: Iterable[Verdict]) -> NextStep:
    """The step that accepts the whole result, from the steps of its verdicts; NO_STEP if no command does."""
    steps = [verdict.next_step for verdict in verdicts if verdict.next_step.command is not None]
    allowed = list(dict.fromkeys(str(step.command) for step in steps if step.action == "allow"))
    if allowed:
        step = accept.step_of_others("allow", "", "")
        return replace(step, text=f"To allow these results on {accept.ref}", command=" && ".join(allowed))
    approved = [str(step.command) for step in steps if step.action in ("approve", "make-baseline")]
    # The command that moves the anchor, too, is the longest: without it, the approval would be refused.
    return NextStep("approve", "To approve these results", command=max(approved, key=len)) if approved else NO_STEP
