"""The details of a report: the runs behind its verdicts, small enough to be stored with it and drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct, field, json

#: The side of a run: `new` was judged, `base` was compared with, `past` is only history.
Standing = Literal["past", "base", "new"]
#: The quantiles that describe the values of a run.
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
_FLOATS = json.Decoder(list[float]).decode
#: The digits of the values of a report: more than a screen shows, and few, so that a report stays small.
DRAWN_DIGITS = 5


def rounded(values: Iterable[float], digits: int = DRAWN_DIGITS) -> list[float]:
    """Return finite numbers with this many significant digits; -0.0 remains."""
    numbers = tuple(values)
    pattern = ",".join([f"%.{digits - 1}e"] * len(numbers))
    return _FLOATS(f"[{pattern % numbers}]")  # as one text: half of the time of one number after the other


class RunDetails(Struct, frozen=True):
    """One rank of one run (its label is in `member`), and its statistic in a verdict.

    `values` has at most a few hundred values of the run, warm-up included, with its extremes, and `steps` the step of
    each. The first `warmup` of them are warm-up, and `stalls` are positions among them. All are empty for a run that is
    one number.
    """

    run: str
    standing: Standing
    #: True if this rank represents its run; the other ranks of a new run are shown beside it.
    judged: bool
    #: The statistic, in the unit of the verdict.
    estimate: float | None
    member: Mapping[str, str] = field(default_factory=dict)
    #: The number of values after warm-up, of warm-up values, and of stalls.
    n: int | None = None
    dropped: int = 0
    stalled: int = 0
    #: The values after warm-up at QUANTILES; empty for statistics outside the range of the values (cv, total).
    quantiles: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
    steps: tuple[int, ...] = ()
    warmup: int = 0
    stalls: tuple[int, ...] = ()


class VerdictDetails(Struct, frozen=True):
    """The runs behind one verdict."""

    #: The index of the verdict in the report.
    verdict: int
    #: The base unit of the values; the statistic may have another unit (a count has none).
    unit: str
    #: The stored runs (`past` and `base`), oldest first, then the new ones.
    runs: tuple[RunDetails, ...]
    #: The number of ranks (or devices) in the new runs; `runs` may have fewer.
    members: int = 1
    #: The accepted range in the verdict's unit; None if that side has no limit.
    allowed_low: float | None = None
    allowed_high: float | None = None


class FactChange(Struct, frozen=True):
    """A fact of the environment with a new value, one that no base run has: the values of both sides, each once.

    `claimed` says that only the judged files state it: not `--env`, and not the machine that `run` measured on.
    """

    name: str
    base: tuple[str, ...]
    new: tuple[str, ...]
    claimed: bool


class LevelDetails(Struct, frozen=True):
    """A level of the baseline: who approved which runs, when (a date) and why."""

    name: str
    by: str
    reason: str
    approved: str
    runs: tuple[str, ...]
    pr: int | None = None
    anchor: bool = False
    #: True if the new runs were compared with it.
    current: bool = False


class Part(Struct, frozen=True):
    """The time per step of a part of the step, a kernel or an operator: seconds, the mean over ranks and runs."""

    metric: str
    labels: Mapping[str, str]
    base: float | None
    new: float | None


class SweepCurve(Struct, frozen=True):
    """A metric along a load sweep: points of load and value, by load; the value is in the base unit."""

    metric: str
    #: The labels that do not change along the sweep.
    labels: Mapping[str, str]
    #: The condition that changes, such as `request_rate`.
    condition: str
    unit: str
    #: Empty if the base has no such sweep.
    base: tuple[tuple[float, float], ...]
    new: tuple[tuple[float, float], ...]


class MachineTrace(Struct, frozen=True):
    """One run in a channel of the machine: values and their times in s since the sampler began.

    `steps` are the places of the same values among the steps; empty if the run does not tell when its steps began. A
    stored run has no values if only its mean is known.
    """

    run: str
    standing: Standing
    #: The mean of all values, also of those that are not kept.
    mean: float
    times: tuple[float, ...]
    values: tuple[float, ...]
    steps: tuple[float, ...] = ()


class MachineChannel(Struct, frozen=True):
    """A quantity of the machine that moved, such as the clock of a GPU, in the runs of both sides."""

    metric: str
    #: The labels of the device.
    labels: Mapping[str, str]
    #: The base unit of the values.
    unit: str
    runs: tuple[MachineTrace, ...]
    #: The number of devices that have it; the one that moved most is kept.
    devices: int = 1


class ReportDetails(Struct, frozen=True):
    """The runs behind a report's verdicts and their context; empty in a report without runs."""

    #: In the order of the verdicts; a metric that could not be measured has none.
    verdicts: tuple[VerdictDetails, ...] = ()
    #: The number of verdicts without values, which keeps the report small; passed verdicts lose them first.
    left_out: int = 0
    #: The levels of this environment's baseline, oldest first.
    levels: tuple[LevelDetails, ...] = ()
    #: The environment of the base runs; a fact that differs between them lists all its values.
    base_environment: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    #: The parts of a step (`step.*`), and the kernels and operators with the largest change per step.
    breakdown: tuple[Part, ...] = ()
    movers: tuple[Part, ...] = ()
    #: The curves of the metrics that rules name, if the runs are a load sweep.
    sweeps: tuple[SweepCurve, ...] = ()
    #: The channels of the machine that moved during the runs.
    machine: tuple[MachineChannel, ...] = ()


class WorkPlace(Struct, frozen=True):
    """The place where calls came or went: the part of the step, the call that made them, and its line if known."""

    part: str
    call: str = ""
    source: str = ""


class WorkDifference(Struct, frozen=True):
    """A count of work that differs on one rank (and device), the `member`: its mean per step on both sides.

    `varies` is True if the count differs between base runs: then the means were compared, as a change with noise.
    """

    metric: str
    labels: Mapping[str, str]
    member: Mapping[str, str]
    base: float
    new: float
    varies: bool = False
    #: The place where the count grew, if the runs have call trees.
    place: WorkPlace | None = None


class AddedWork(Struct, frozen=True):
    """An experiment: a call was added to each step of the runs, such as a synchronisation, and these rules failed."""

    what: str
    rules: tuple[str, ...]
