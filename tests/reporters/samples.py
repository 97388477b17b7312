"""Sample reports of every kind, and the comparison with golden files."""

import os
from pathlib import Path

from msgspec.structs import replace

from perfgate.core import (
    NO_STEP,
    Estimate,
    Key,
    KnownNoise,
    Location,
    NextStep,
    Policy,
    PooledRuns,
    Problem,
    Quarantine,
    RelativeChange,
    Report,
    RunEstimate,
    Share,
    SourceFile,
    Verdict,
)
from perfgate.core.causes import Cause, CauseReport, PlaceTime, RankTime
from perfgate.core.details import LevelDetails, Part, ReportDetails, RunDetails, VerdictDetails

GOLDEN = Path(__file__).parent / "golden"

RULES = "rules/training.yaml"
POLICY = Policy("refs/remotes/origin/main", "5e" * 32, "b1" * 32, commit="4f2a9c1d" * 5)
INPUTS = (SourceFile("train.log", "deepspeed", "a0" * 32),)
ENVIRONMENT = {"world_size": 8, "gpu": "NVIDIA H200", "torch": "2.9.0"}


def check_golden(name: str, text: str) -> None:
    """Compare with a golden file; UPDATE_GOLDEN=1 writes it instead."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8", newline="\n")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; UPDATE_GOLDEN=1 writes it anew"


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
        "message": "forward p95 is 448 ms [442.1 ms, 455 ms] at 95% confidence: the interval is within `under 500 ms`; "
        "1664 values in 1 run (effective sample size 612)",
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
        "message": "forward median went from 361 ms in the baseline to 362.1 ms: +0.30% [-0.40%, +1.0%], "
        "within the tolerance of 5%; 5 base runs, 1 new run",
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
    message='backward_allreduce{stage="train"} p95 on rank 3 is 72.6 ms [58.1 ms, 123.1 ms] at 95% confidence: '
    "the interval is outside `under 50 ms`; 1662 values in 1 run (effective sample size 567)",
    next_step=NextStep("find-cause", "bring it under 50 ms, or change the rule at rules/training.yaml:6:5"),
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
    message="forward_backward median went from 361 ms in the baseline to 396.4 ms: +9.8% [+7.9%, +11.7%], "
    "beyond the tolerance of 5%; 5 base runs, 2 new runs",
    next_step=NextStep(
        "approve", "find what slowed it down; if the change is meant, approve it with the command below"
    ),
    at=Location(RULES, 7, 5),
    new=Estimate(0.3964, 0.3911, 0.4018, 1664, 488.0, 2),
    change=RelativeChange(0.098, 0.079, 0.117),
    notes=("the GPU's clocks were not locked",),
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
    message="memory.peak_allocated went from 61.5 GiB in the baseline to 63 GiB: +2.4%, beyond the tolerance of 1%; "
    "5 base runs, 2 new runs",
    next_step=NextStep(
        "approve", "find what slowed it down; if the change is meant, approve it with the command below"
    ),
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
    outcome="suspect",
    suspect=True,
    exit_code=3,
    message="samples_per_second mean went from 212 /s in the baseline to 199.4 /s: -5.9% [-8.6%, -3.1%], "
    "probably beyond the tolerance of 5%, but one run is not proof; 5 base runs, 1 new run",
    next_step=NextStep("run-again", "run the new code twice more and judge all three runs together"),
    asks="at least 95% of baseline",
    at=Location(RULES, 13, 5),
    base=Estimate(212.0, 208.3, 215.8, 415, 207.0, 5),
    new=Estimate(199.4, 195.7, 203.2, 83, 41.0, 1),
    change=RelativeChange(-0.059, -0.086, -0.031),
    better="higher",
    runs_needed=3,
)
INCONCLUSIVE = change(
    rule="backward_inner within 2% of baseline",
    metric="backward_inner",
    outcome="inconclusive",
    message="backward_inner median went from 181 ms in the baseline to 183.4 ms: +1.3% [-0.80%, +3.5%], "
    "the interval includes the tolerance of 2%; 5 base runs, 1 new run",
    next_step=NextStep("run-again", "run the new code three times more: with 4 runs, an unchanged program passes"),
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
    outcome="inconclusive",
    reason="cannot-exclude",
    exit_code=3,
    message="backward_outer median went from 210 ms in the baseline to 218.4 ms: +4.0% [-5.0%, +13.9%], "
    "so a change of +13.9% cannot be excluded: the rule accepts doubt up to 10%; 3 base runs, 1 new run",
    next_step=NextStep(
        "run-again", "run the new code twice more, or compare base and new in pairs with `perfgate run --paired`"
    ),
    at=Location(RULES, 23, 5),
    base=Estimate(0.21, 0.201, 0.219, 4992, 1650.0, 3),
    new=Estimate(0.2184, 0.2149, 0.2219, 1664, 551.0, 1),
    change=RelativeChange(0.04, -0.05, 0.139),
    at_worst=0.1,
    not_excluded=0.139,
    runs_needed=3,
    notes=("run-to-run noise is estimated from these few runs, not calibrated",),
)
ABSENT = change(
    rule="optimizer_step within 5% of baseline",
    metric="optimizer_step",
    outcome="error",
    reason="metric-absent",
    exit_code=3,
    unit=None,
    message="no run has optimizer_step; the nearest names are optimizer_gradients, step",
    next_step=NextStep("fix-input", "correct the name; `perfgate inspect` lists the metrics of a run"),
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
    message="`when` requires world_size >= 16, but it is 8",
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
    message="loss went from 2.31 in the anchor to 2.31: 0%, within the tolerance of 0.1%; 5 base runs, 2 new runs",
    asks="within ±0.1% of anchor",
    at=Location(RULES, 19, 5),
    against="anchor",
    base=Estimate(2.31, None, None, None, None, 5),
    new=Estimate(2.31, None, None, None, None, 2),
    change=RelativeChange(0.0, 0.0, 0.0),
    tolerance=0.001,
    two_sided=True,
    notes=("the GPU of both sides is unknown",),
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
            message=change().message.replace("forward", name).replace("5%;", "10%;"),
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
        message=f"{names[2]} median went from 41.2 µs in the baseline to 57.7 µs: +40.0% [+36.0%, +44.0%], "
        "beyond the tolerance of 10%; 5 base runs, 2 new runs",
        notes=(),
        runs=(),
        explained_by=(),
    )
    return tuple(verdicts)


EVERY_OUTCOME = Report(
    outcome="fail",
    exit_code=1,
    verdicts=(
        FAILED_LIMIT,
        FAILED_CHANGE,
        limit(),
        change(),
        WARNED_CHANGE,
        SUSPECT,
        INCONCLUSIVE,
        CANNOT_EXCLUDE,
        ABSENT,
        SKIPPED,
        PASSED_BOTH_WAYS,
        *kernels(9),
    ),
    problems=(
        Problem("warning", "the last line is cut", Location("train.log", 7080)),
        Problem("error", "the time is negative", Location("train.log", 512), Key.of("backward", rank="1")),
    ),
    inputs=INPUTS,
    environment=ENVIRONMENT,
    policy=POLICY,
    suite="gpt-small",
    baseline="gpt-small/nvidia-h200-8/1-4f2a9c",
    accept=NextStep(
        "approve",
        "To approve these results",
        command='perfgate baseline approve train.log --suite gpt-small --reason "why it is slower now" --pr 123',
    ),
)
ALL_PASS = Report(
    outcome="pass",
    exit_code=0,
    verdicts=(limit(), change()),
    problems=(),
    inputs=INPUTS,
    environment=ENVIRONMENT,
    policy=Policy(None, "5e" * 32, "b1" * 32),
    suite="gpt-small",
    baseline="gpt-small/nvidia-h200-8/1-4f2a9c",
    accept=NextStep("approve", "To approve these results", command="perfgate baseline approve train.log"),
)
WARNINGS_ONLY = replace(
    EVERY_OUTCOME,
    outcome="inconclusive",
    exit_code=0,
    verdicts=(limit(), INCONCLUSIVE, WARNED_CHANGE),
    problems=(),
    policy=Policy(None, "5e" * 32, "b1" * 32),
)
NOTHING_JUDGED = Report(
    outcome="error",
    exit_code=2,
    verdicts=(),
    problems=(
        Problem(
            "error",
            "50 has no unit, but forward is a time: write 50 ms",
            Location(RULES, 6, 39),
            excerpt="  - backward_allreduce p95 under 50\n                                ^^",
        ),
        Problem("error", "unknown reference `basline`: did you mean `baseline`?", Location(RULES, 7, 30)),
    ),
    inputs=(),
    environment={},
    policy=Policy(None, "5e" * 32, "b1" * 32),
)

#: One rule with a hundred verdicts, another with two failures, and a third with twelve warnings.
MANY = replace(
    EVERY_OUTCOME,
    verdicts=(
        *kernels(88),
        *(replace(FAILED_CHANGE, metric=f"range.layer{i}") for i in range(2)),
        *(replace(WARNED_CHANGE, metric=f"memory.pool{i}") for i in range(12)),
    ),
    problems=(),
)

_GEMM = ("backward", "aten::mm", "sm90_gemm_nt")
_GONE = replace(
    ABSENT,
    rule="kernel.softmax_kernel within 5% of baseline",
    metric="kernel.softmax_kernel",
    message="no run has kernel.softmax_kernel; the baseline has it",
    why="it is the only kernel of ours",
    next_step=NextStep("find-cause", "find what changed the calls at forward / aten::softmax / softmax_sum_kernel"),
    at=Location(RULES, 25, 5),
)
#: One rank became slow, and a kernel was replaced: three verdicts follow, one does not.
WITH_CAUSES = replace(
    EVERY_OUTCOME,
    verdicts=(FAILED_CHANGE, limit(), SUSPECT, _GONE, INCONCLUSIVE),
    problems=(),
    causes=CauseReport(
        causes=(
            Cause(
                *("slow rank", _GEMM, "time", 0.00147, 0.00128, 0.00166, 0.79),
                ranks=("2",),
                source="model.py(31): forward",
                verdicts=(FAILED_CHANGE.rule, "throughput: samples_per_second at least 95% of baseline"),
            ),
            Cause(
                *("replaced", ("forward", "aten::softmax", "softmax_sum_kernel"), "time", 4e-4, 3.8e-4, 4.1e-4, 0.21),
                gone=(("softmax_kernel", 1.0),),
                come=(("softmax_sum_kernel", 1.0), ("softmax_part_kernel", 1.0)),
                verdicts=(_GONE.rule,),
            ),
            Cause("memory", ("forward", "aten::linear"), "memory", 192 * 2**20, 189 * 2**20, 195 * 2**20, 1.0),
        ),
        base_step=0.01,
        new_step=0.01188,
        rest=1e-5,
        noise=2e-4,
        base_runs=3,
        new_runs=1,
        notes=("only the new side has rank 4: left out",),
        tree=(
            PlaceTime("step", -1, 0.01, 0.01188),
            PlaceTime("forward", 0, 0.003, 0.0034),
            PlaceTime("aten::linear", 1, 0.0018, 0.0018),
            PlaceTime("aten::softmax", 1, 0.0007, 0.0011),
            PlaceTime("softmax_kernel", 3, 0.0007, 0),
            PlaceTime("softmax_sum_kernel", 3, 0, 0.0011),
            PlaceTime("", 1, 0.0005, 0.0005, pooled=7),
            PlaceTime("backward", 0, 0.0065, 0.008),
            PlaceTime("aten::mm", 7, 0.0035, 0.005),
            PlaceTime("sm90_gemm_nt", 8, 0.0035, 0.005),
        ),
        ranks=tuple(
            RankTime(str(rank), 0.008, 0.002, 0.0098 if rank == 2 else 0.0084, 0.002 if rank == 2 else 0.0034)
            for rank in range(4)
        ),
    ),
)

NOISE = KnownNoise(0.014, 43, "history", "main")
_POOLED = PooledRuns("main", ("12f6784632", "e6f895e19e"), 0.068, 0.039, 0.098, decides=True)
LEARNED = replace(
    EVERY_OUTCOME,
    verdicts=(
        replace(
            FAILED_CHANGE,
            message=f"with 2 earlier runs of main: {FAILED_CHANGE.message}",
            notes=("pooled with 2 runs of main since the baseline: 12f6784632, e6f895e19e",),
            noise=NOISE,
            owner="@team/kernels",
            pooled=_POOLED,
        ),
        replace(
            FAILED_LIMIT,
            exit_code=0,
            message="quarantined until 2026-12-22 (6 of 80 unchanged runs of main were red): " + FAILED_LIMIT.message,
            owner="kim@example.org",
            quarantine=Quarantine("2026-12-22", "6 of 80 unchanged runs of main were red", ended=False),
        ),
        replace(
            SUSPECT,
            message="the quarantine ended on 2026-10-22 (odd nights): " + SUSPECT.message,
            notes=("main itself is +4.1% [+3.0%, +5.2%] since the baseline (6 runs): this is not from this change",),
            noise=replace(NOISE, deviation=0.0062, runs=39),
            quarantine=Quarantine("2026-10-22", "odd nights", ended=True),
            pooled=replace(_POOLED, change=0.041, low=0.03, high=0.052, decides=False),
        ),
    ),
    problems=(),
)

REPORTS = {
    "every_outcome": EVERY_OUTCOME,
    "learned": LEARNED,
    "all_pass": ALL_PASS,
    "warnings_only": WARNINGS_ONLY,
    "nothing_judged": NOTHING_JUDGED,
    "with_causes": WITH_CAUSES,
}

WITH_MANY = {**REPORTS, "many": MANY}

#: Reports for formats that write many lines per verdict: every outcome once.
SHORT_REPORTS = {**REPORTS, "every_outcome": replace(EVERY_OUTCOME, verdicts=EVERY_OUTCOME.verdicts[:11])}


def run_evidence(run: str, standing: str, estimate: float, **fields) -> RunDetails:
    """A run of twelve steps around an estimate: the first is warm-up, the ninth a stall."""
    shape = (3.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.01, 4.0, 0.99, 1.0, 1.03)
    given = {
        "judged": True,
        "n": 11,
        "dropped": 1,
        "stalled": 1,
        "quantiles": tuple(estimate * share for share in (0.97, 0.97, 0.98, 0.99, 1.0, 1.02, 2.5, 3.7, 4.0)),
        "values": tuple(round(estimate * share, 5) for share in shape),
        "steps": tuple(range(len(shape))),
        "warmup": 1,
        "stalls": (8,),
    }
    return RunDetails(run, standing, estimate=estimate, **{**given, **fields})  # type: ignore[arg-type]


PLACE = "gpt-small/nvidia-h200-8"
EVIDENCE = ReportDetails(
    verdicts=(
        VerdictDetails(
            0,
            "s",
            (
                run_evidence("train.log", "new", 0.0726, member={"rank": "3"}),
                run_evidence("train.log", "new", 0.0511, member={"rank": "0"}, judged=False),
            ),
            members=8,
            allowed_high=0.05,
        ),
        VerdictDetails(
            1,
            "s",
            (
                run_evidence(f"{PLACE}/0-aaaaaa/a.json", "past", 0.402),
                run_evidence(f"{PLACE}/0-bbbbbb/b.json", "past", 0.391),
                run_evidence(f"{PLACE}/1-4f2a9c/c.json", "base", 0.361),
                run_evidence("train.log", "new", 0.3964),
            ),
            allowed_high=0.379,
        ),
        VerdictDetails(4, "B", (RunDetails("train.log", "new", judged=True, estimate=63.0 * 1024**3),)),
    ),
    left_out=1,
    levels=(
        LevelDetails("0-aaaaaa", "ada", "first baseline", "2025-11-02", (f"{PLACE}/0-aaaaaa/a.json",), anchor=True),
        LevelDetails("0-bbbbbb", "ada", "a newer driver", "2025-12-01", (f"{PLACE}/0-bbbbbb/b.json",), pr=98),
        LevelDetails(
            "1-4f2a9c", "grace", "fused the optimizer", "2026-01-01", (f"{PLACE}/1-4f2a9c/c.json",), current=True
        ),
    ),
    base_environment={"gpu": "NVIDIA H200", "torch": "2.8.0", "world_size": 8},
    breakdown=(Part("step.kernel", {}, 0.21, 0.25), Part("step.communication", {}, 0.05, 0.1)),
    movers=(Part("kernel.gemm", {}, 0.012, 0.051), Part("op.aten::mm", {}, None, 0.002)),
)
#: Some of the same verdicts, as a check writes them that was asked to show the runs.
WITH_EVIDENCE = replace(EVERY_OUTCOME, verdicts=EVERY_OUTCOME.verdicts[:5], details=EVIDENCE)
ONE_WITH_EVIDENCE = replace(
    WITH_EVIDENCE, verdicts=WITH_EVIDENCE.verdicts[:1], details=replace(EVIDENCE, verdicts=EVIDENCE.verdicts[:1])
)
