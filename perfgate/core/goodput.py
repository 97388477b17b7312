"""The time of a whole job split into parts, and its goodput: the share of the time that brought the training forward.

| part | time |
|---|---|
| `time.start` | each start of the program, up to the first step |
| `time.compile` | compilation, as far as it can be distinguished from starts and steps |
| `time.data` | waiting for data outside of the steps |
| `time.step` | steps whose result was kept |
| `time.checkpoint` | saving and loading checkpoints, while the training waits |
| `time.evaluation` | evaluation between the steps |
| `time.lost` | from the last kept step or checkpoint of an attempt to the start of the next attempt |
| `time.other` | the rest: nothing says where it went |
| `time.total` | the whole, which is the sum of all others |

`goodput` is `time.step` / `time.total`. Source: AI-Hypercomputer/ml-goodput-measurement, README: goodput is the
productive share of the time of a job. Its kinds of badput are, in the order of these parts: accelerator initialization
and training preparation, program startup, synchronous data loading, checkpoint save and restore, custom events, and
wasted progress with infrastructure recovery.

A job that was restarted has several attempts. The steps that the next attempt repeated are lost, and so is the time
until it began.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest

from msgspec import Struct, field

from perfgate.core.wording import WHOLE_TIME

START, COMPILE, DATA, STEP = "start", "compile", "data", "step"
CHECKPOINT, EVALUATION, LOST, OTHER = "checkpoint", "evaluation", "lost", "other"
#: Every part, in the order in which documents name them.
PARTS = (START, COMPILE, DATA, STEP, CHECKPOINT, EVALUATION, LOST, OTHER)
GOODPUT = "goodput"


class TimeSpent(Struct, frozen=True):
    """Seconds of one part, which ended at the moment `at`; for steps, those after step `after` up to step `last`.

    For other parts, `after` and `last` are the last step that was done by then.
    """

    part: str
    seconds: float
    at: float
    after: int
    last: int


class Attempt(Struct):
    """One start of a program up to its end; moments are in s, on a clock that all attempts share."""

    #: The first and the last moment, and the seconds that are known to lie before the first.
    first: float
    last: float
    before: float = 0.0
    #: The moment when the steps begin, and the number of steps that were done by then.
    training: float | None = None
    done: int | None = None
    spent: list[TimeSpent] = field(default_factory=list)


def split(attempts: Sequence[Attempt], told: Collection[str], rounding: float) -> dict[str, float] | None:
    """Return the seconds of each part of a job, by part; None if the parts do not fit into the whole.

    It is also None if an attempt does not say when its steps begin, or how many steps were done by then.

    Parameters:
        attempts: in order, at least one; all but the first say how many steps were `done`.
        told: the parts that the log reports, `start` and `lost` among them; only these and `other` are in the answer.
        rounding: the parts may exceed the whole by this for each attempt, in s; then nothing is left for `other`.
    """
    parts = dict.fromkeys((part for part in PARTS if part in told), 0.0)
    whole = 0.0
    for one, following in zip_longest(attempts, attempts[1:]):
        if one.training is None:
            return None
        end, kept = one.last, one.spent
        if following is not None:  # this attempt ends with the start of the next one, which may repeat steps
            if following.done is None:
                return None
            end, kept = following.first - following.before, _kept(one, following.done)
            parts[LOST] += end - max((spent.at for spent in kept), default=one.training)
        whole += end - one.first + one.before
        parts[START] += one.training - one.first + one.before
        for spent in kept:
            if spent.part in parts:  # not if one attempt lacks its time: then `other` gets that of all attempts
                parts[spent.part] += spent.seconds
            if spent.at <= one.training:  # such as loading a checkpoint: it counts once, not as start, too
                parts[START] -= spent.seconds
    return with_rest(parts, whole, rounding * len(attempts))


def with_rest(parts: Mapping[str, float], whole: float, rounding: float) -> dict[str, float] | None:
    """Return the parts with `other`, the rest of the whole; None if a part is negative or they exceed the whole."""
    rest = whole - sum(parts.values())
    if not math.isfinite(rest) or rest < -rounding or min(parts.values(), default=0.0) < -rounding:
        return None
    return {**{part: max(seconds, 0.0) for part, seconds in parts.items()}, OTHER: max(rest, 0.0)}


def metrics(parts: Mapping[str, float]) -> dict[str, tuple[float, str]]:
    """Return each metric with its value and its unit. Goodput needs time.step, and a total above 0."""
    if not parts:
        return {}
    total = sum(parts.values())
    found = {f"time.{part}": (seconds, "s") for part, seconds in parts.items()} | {WHOLE_TIME: (total, "s")}
    return found | ({GOODPUT: (parts[STEP] / total, "1")} if STEP in parts and total > 0 else {})


def _kept(attempt: Attempt, done: int) -> list[TimeSpent]:
    """Return the records up to step `done`, from which the next attempt continued; steps across it are cut there."""
    found = []
    for spent in attempt.spent:
        if spent.last <= done:
            found.append(spent)
        elif spent.part == STEP and spent.after < done:
            lost = spent.seconds * (spent.last - done) / (spent.last - spent.after)
            found.append(TimeSpent(STEP, spent.seconds - lost, spent.at - lost, spent.after, done))
    return found
