"""Refuse to compare measurements of different conditions: another model, another load.

The message names the conditions of both sides, because a reader cannot see them in the numbers.
"""

from __future__ import annotations

from perfgate.core import Key
from perfgate.core.conditions import condition_differences, nearest_conditions, without_conditions
from perfgate.core.wording import listed
from perfgate.judge.derived import RunView
from perfgate.judge.inquiry import CannotJudge, Inquiry
from perfgate.judge.subjects import members_by_key

_SAME_LOAD = "measure under the conditions of the baseline; another model or load needs a suite of its own"
_ONE_SWEEP = "give runs of equal conditions; the files of one load sweep are one run: give their folder"


def refuse_unlike_base(inquiry: Inquiry, stored: Key) -> CannotJudge:
    """The error for a metric that the baseline has under other conditions only."""
    key, names = inquiry.subject.key, inquiry.runs.conditions
    message = f"{without_conditions(key, names)}: the baseline was measured under other conditions: "
    differences = condition_differences(key, stored, names).items()
    message += listed([f"{name} is {new} here and {base} in the baseline" for name, (new, base) in differences])
    return CannotJudge("other-conditions", message, _SAME_LOAD)


def unlike_run(inquiry: Inquiry, view: RunView) -> CannotJudge | None:
    """The error for a new run that has the metric under other conditions only; None if it lacks it altogether."""
    subject, names = inquiry.subject, inquiry.runs.conditions
    found = members_by_key(subject.key.metric, view, subject.expression)
    other = nearest_conditions(subject.key, found, names)
    if other is None:
        return None
    fellow = next(one.run.name for one, members in zip(subject.new_views, subject.new, strict=True) if members)
    message = f"{without_conditions(subject.key, names)}: the new runs were measured under different conditions: "
    differences = condition_differences(subject.key, other, names).items()
    message += listed([f"{name} is {own} in {fellow} and {its} in {view.run.name}" for name, (own, its) in differences])
    return CannotJudge("other-conditions", message, _ONE_SWEEP)
