"""Sample verdicts of every outcome. Their texts are placeholders: reporters place sentences, they make none."""

from msgspec.structs import replace

from perfgate.core import NO_STEP, Estimate, Location, NextStep, RelativeChange, RunEstimate, Share, Verdict

RULES = "rules/training.yaml"


def limit(**fields) -> Verdict:
    """A limit that passes, with these fields changed."""
    given = {
        "rule": "forward p95 under 500 ms",
        "metric": "forward",
        "labels": {},
        "statistic": "p95",
        "outcome": "pass",
        "reason": "interval",
        "severity": "error",
        "exit_code": 0,
        "kind": "limit",
        "unit": "s",
        "message": "MESSAGE of forward p95",
        "next_step": NO_STEP,
        "at": Location(RULES, 9, 5),
        "new": Estimate(0.448, 0.4421, 0.455, 1664, 612.4, 1),
        "bound": 0.5,
        "comparator": "under",
        "asks": "under 500 ms",
        "shown_unit": "ms",
    }
    return Verdict(**{**given, **fields})


def change(**fields) -> Verdict:
    """A change that passes, with these fields changed."""
    given = {
        "rule": "forward within 5% of baseline",
        "statistic": "median",
        "kind": "change",
        "message": "MESSAGE of forward",
        "at": Location(RULES, 10, 5),
        "against": "baseline",
        "base": Estimate(0.361, 0.3592, 0.3628, 8320, 2750.0, 5),
        "new": Estimate(0.3621, 0.3594, 0.3648, 1664, 551.0, 1),
        "change": RelativeChange(0.003, -0.004, 0.010),
        "tolerance": 0.05,
        "better": "lower",
        "minimum_detectable_change": 0.062,
        "bound": None,
        "comparator": None,
        "asks": "within 5% of baseline",
        "shown_unit": None,
    }
    return limit(**{**given, **fields})


FAILED_LIMIT = limit(
    rule="allreduce-tail",
    metric="backward_allreduce",
    labels={"stage": "train"},
    member={"rank": "3"},
    outcome="fail",
    exit_code=1,
    message='MESSAGE of backward_allreduce{stage="train"}: 72.6 ms [58.1 ms, 123.1 ms], not `under 50 ms` (100%); '
    "as long as real ones, so that a terminal needs several lines for it",
    next_step=NextStep("find-cause", "NEXT of backward_allreduce, at rules/training.yaml:6:5"),
    asks="under 50 ms",
    at=Location(RULES, 6, 5),
    new=Estimate(0.0726, 0.0581, 0.1231, 1662, 567.0, 1),
    bound=0.05,
    share=Estimate(0.081, 0.066, 0.101, 1662, 567.0, 1),
    allowed_share=0.05,
    why="the optimizer hides at most 50 ms of communication",
)
FAILED_CHANGE = change(
    rule="forward_backward within 5% of baseline",
    metric="forward_backward",
    outcome="fail",
    exit_code=1,
    message="MESSAGE of forward_backward: +9.8% [+7.9%, +11.7%]",
    next_step=NextStep("approve", "NEXT of forward_backward"),
    at=Location(RULES, 7, 5),
    new=Estimate(0.3964, 0.3911, 0.4018, 1664, 488.0, 2),
    change=RelativeChange(0.098, 0.079, 0.117),
    notes=("NOTE 1", "NOTE 2"),
    runs=(
        *(RunEstimate("base", f"gpt-small/h200/1/{i}.json", 0.36 + i / 1000, 1664, 1 + i) for i in range(3)),
        RunEstimate("new", "train-1.log", 0.3971, 832, 3),
        RunEstimate("new", "train-2.log", 0.3957, 832, 416, settled=False),
    ),
    explained_by=(
        Share("backward", {}, 0.24, 0.2806, 1.147, 1.02, 1.27),
        Share("forward", {}, 0.121, 0.1158, -0.147, -0.2, -0.09),
        Share("backward_allreduce", {}, 0.06, 0.0991, 1.105, 1.01, 1.2, within="backward"),
    ),
)
WARNED_CHANGE = change(
    rule="peak-memory",
    metric="memory.peak_allocated",
    statistic=None,
    unit="B",
    outcome="fail",
    severity="warning",
    reason="exact",
    message="MESSAGE of memory.peak_allocated",
    next_step=NextStep("approve", "NEXT of memory.peak_allocated"),
    asks="within 1% of baseline",
    at=Location(RULES, 11, 5),
    base=Estimate(61.5 * 1024**3, None, None, None, None, 5),
    new=Estimate(63.0 * 1024**3, None, None, None, None, 2),
    change=RelativeChange(*[round(63.0 / 61.5 - 1, 9)] * 3),
    tolerance=0.01,
)
SUSPECT = change(
    rule="throughput",
    metric="samples_per_second",
    statistic="mean",
    unit="1/s",
    outcome="undecided",
    suspect=True,
    exit_code=3,
    message="MESSAGE of samples_per_second",
    next_step=NextStep("run-again", "NEXT of samples_per_second"),
    asks="at least 95% of baseline",
    at=Location(RULES, 13, 5),
    base=Estimate(212.0, 208.3, 215.8, 415, 207.0, 5),
    new=Estimate(199.4, 195.7, 203.2, 83, 41.0, 1),
    change=RelativeChange(-0.059, -0.086, -0.031),
    better="higher",
    runs_needed=3,
)
OPEN = change(
    rule="backward_inner within 2% of baseline",
    metric="backward_inner",
    outcome="undecided",
    severity="warning",
    message="MESSAGE of backward_inner",
    next_step=NextStep("run-again", "NEXT of backward_inner"),
    asks="within 2% of baseline",
    at=Location(RULES, 14, 5),
    base=Estimate(0.181, 0.179, 0.183, 8320, 2750.0, 5),
    new=Estimate(0.1834, 0.1799, 0.1869, 1664, 551.0, 1),
    change=RelativeChange(0.013, -0.008, 0.035),
    tolerance=0.02,
)
CANNOT_EXCLUDE = change(
    rule="backward_outer within 5% of baseline",
    metric="backward_outer",
    outcome="undecided",
    reason="cannot-exclude",
    exit_code=3,
    message="MESSAGE of backward_outer",
    next_step=NextStep("run-again", "NEXT of backward_outer: `perfgate run --paired`"),
    at=Location(RULES, 23, 5),
    base=Estimate(0.21, 0.201, 0.219, 4992, 1650.0, 3),
    new=Estimate(0.2184, 0.2149, 0.2219, 1664, 551.0, 1),
    change=RelativeChange(0.04, -0.05, 0.139),
    at_worst=0.1,
    not_excluded=0.139,
    runs_needed=3,
    notes=("NOTE 3",),
)
ABSENT = change(
    rule="optimizer_step within 5% of baseline",
    metric="optimizer_step",
    outcome="error",
    reason="metric-absent",
    exit_code=3,
    unit=None,
    message="MESSAGE of optimizer_step",
    next_step=NextStep("fix-input", "NEXT of optimizer_step: `perfgate inspect`"),
    at=Location(RULES, 15, 5),
    base=None,
    new=None,
    change=None,
    minimum_detectable_change=None,
)
SKIPPED = limit(
    rule="multi-node only",
    metric="comm_share",
    outcome="skipped",
    reason="when",
    unit="1",
    message="MESSAGE of comm_share: `when` requires world_size >= 16",
    asks="under 20%",
    at=Location(RULES, 17, 5),
    new=None,
    bound=0.2,
    shown_unit="%",
)
PASSED_BOTH_WAYS = change(
    rule="loss",
    metric="loss",
    unit="1",
    statistic=None,
    reason="exact",
    message="MESSAGE of loss",
    asks="within ±0.1% of anchor",
    at=Location(RULES, 19, 5),
    against="anchor",
    base=Estimate(2.31, None, None, None, None, 5),
    new=Estimate(2.31, None, None, None, None, 2),
    change=RelativeChange(0.0, 0.0, 0.0),
    tolerance=0.001,
    two_sided=True,
    notes=("NOTE 4",),
)


def kernels(count: int) -> tuple[Verdict, ...]:
    """One rule with a verdict for each of many kernels; the third one fails."""
    rule = "kernel.* median at most 10% above baseline"
    at = Location(RULES, 21, 5)
    names = [f"kernel.at::native::reduce_{i}" for i in range(count)]
    verdicts = [
        change(
            rule=rule,
            metric=name,
            at=at,
            tolerance=0.1,
            asks="at most 10% above baseline",
            message=f"MESSAGE of {name}",
        )
        for name in names
    ]
    verdicts[2] = replace(
        FAILED_CHANGE,
        rule=rule,
        at=at,
        metric=names[2],
        tolerance=0.1,
        asks="at most 10% above baseline",
        base=Estimate(41.2e-6, 41.0e-6, 41.4e-6, 9000, 4100.0, 5),
        new=Estimate(57.7e-6, 57.0e-6, 58.4e-6, 1800, 790.0, 2),
        change=RelativeChange(0.4, 0.36, 0.44),
        message=f"MESSAGE of {names[2]}",
        next_step=NextStep("approve", f"NEXT of {names[2]}"),
        notes=(),
        runs=(),
        explained_by=(),
    )
    return tuple(verdicts)
