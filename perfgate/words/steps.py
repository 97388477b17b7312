"""Next steps: how to accept a change, to give a baseline what it lacks, and what an error asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from perfgate.core import NO_STEP, Acceptance, Action, NextStep, Outcome, Run, Verdict
from perfgate.core.next_steps import command_line

#: More files than this are not listed.
_MOST_FILES = 10
#: The action after an error, by its reason. All other errors are in the input.
_ERROR_ACTIONS: Mapping[str, Action] = {
    **dict.fromkeys(("no-unit", "unit-mismatch", "improving-side", "not-positive", "too-many"), "fix-rule"),
    **dict.fromkeys(("not-available", "tolerance-too-small"), "fix-rule"),
    **dict.fromkeys(("too-few-samples", "too-few-runs"), "run-again"),
    "no-baseline": "make-baseline",
    "throttled": "fix-machine",
}


def accept_change(accept: Acceptance, reference: str) -> NextStep:
    """Return the step after a change that failed. `allow_step` adds the command that allows it on a ref."""
    if not accept.has_store:
        return NextStep("find-cause", "profiler traces of both sides show what changed")
    cause = "if the change is intended, "
    if accept.ref is not None and reference == "anchor":
        return accept.step_of_others("approve", cause, "can move the anchor there after the merge")
    if accept.ref is not None:
        return accept.step_of_others("allow", cause, "can allow it there")
    if reference == "anchor":
        return NextStep("approve", f"{cause}approve it and move the anchor", command=accept.reset_anchor())
    return NextStep("approve", f"{cause}approve it", command=accept.approve)


def hold_gain(accept: Acceptance) -> NextStep:
    """Return the step after an improvement: its runs become the level that later runs are compared with."""
    if not accept.has_store:
        return NO_STEP
    if accept.ref is not None:
        return accept.step_of_others("approve", "", "can approve a run of it after the merge, to keep the gain")
    return NextStep("approve", "approve it to keep the gain", command=accept.approve)


def make_baseline(accept: Acceptance) -> NextStep:
    """Return the step if there is nothing to compare with."""
    if accept.ref is not None:
        return accept.step_of_others("make-baseline", "", f"can make one there, from runs of {accept.ref}")
    return NextStep("make-baseline", "make one", command=accept.approve)


def find_calls(*, came: bool) -> NextStep:
    """Return the step after calls that came, or that are not made any more."""
    what = "find the new call" if came else "find what removed the call"
    return NextStep("find-cause", f"{what}; if the change is intended, approve a run of main after the merge")


def expected_next_step(otherwise: Outcome | None) -> NextStep:
    """Return the next step after a rule that is known to fail; `otherwise` is its outcome without `expect_fail`."""
    return NextStep("fix-rule", "it passes now: remove expect_fail") if otherwise == "pass" else NO_STEP


def error_step(reason: str, step: NextStep | str) -> NextStep:
    """Return the next step after an error. A sentence becomes a step with the action for the reason of the error."""
    return step if isinstance(step, NextStep) else NextStep(_ERROR_ACTIONS.get(reason, "fix-input"), step)


def complete_base(accept: Acceptance, runs: Sequence[Sequence[str]]) -> NextStep:
    """Return the step that gives stored runs what they lack; `runs` are the source files of each of them.

    Approving the judged runs instead would make them their own base, and hide what they changed.
    """
    typed: dict[str, None] = {}  # the arguments of the command: a folder if it has all files of a run
    for sources in runs:
        folders = {name.rpartition("/")[0] for name in sources}
        is_folder = len(sources) > 1 and len(folders) == 1 and "" not in folders
        typed |= dict.fromkeys(folders if is_folder else sources)
    files = list(typed) if 0 < len(typed) <= _MOST_FILES else ["RUN..."]
    command = command_line(["perfgate", "baseline", "add", *files, *accept.place, *accept.reading])
    text = (
        "add the source files of the stored runs again; if they are gone or incomplete, measure main and add that run"
    )
    if accept.ref is None:
        return NextStep("add-base-runs", text, command=command)
    who, where = f"someone who may write to {accept.ref}", f"on {accept.ref}"
    return NextStep("add-base-runs", f"{where}: {text}", who=who, where=where, command=command)


def sources_of(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """Return the source files of each run."""
    return [tuple(file.path for file in run.files) for run in runs]


def allow_step(step: NextStep, accept: Acceptance, metric: str, worst: float) -> NextStep:
    """Return the step with the command that allows a metric's largest worsening on the ref, if there is one."""
    command = accept.allow(metric, worst)
    if command is not None:
        return replace(step, command=command)
    return NextStep("find-cause", "undo the change: without a relative change it cannot be allowed")


def to_accept(accept: Acceptance, verdicts: Iterable[Verdict]) -> NextStep:
    """Return the step that accepts the whole result, from the steps of its verdicts; NO_STEP if no command does."""
    steps = [verdict.next_step for verdict in verdicts if verdict.next_step.command is not None]
    allowed = list(dict.fromkeys(str(step.command) for step in steps if step.action == "allow"))
    intended = "If the changes are intended"
    if allowed:
        text = f"{intended}, allow them on {accept.ref}"
        return replace(accept.step_of_others("allow", "", ""), text=text, command=" && ".join(allowed))
    approved = [str(step.command) for step in steps if step.action in ("approve", "make-baseline")]
    # The command that moves the anchor, too, is the longest: without it, the approval would be refused.
    has_change = any(step.action == "approve" for step in steps)
    text = f"{intended}, approve them" if has_change else "Make these runs the baseline"
    return NextStep("approve", text, command=max(approved, key=len)) if approved else NO_STEP
