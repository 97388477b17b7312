"""Sample reports of every kind."""

from msgspec.structs import replace
from sample_verdicts import (
    ABSENT,
    CANNOT_EXCLUDE,
    FAILED_CHANGE,
    FAILED_LIMIT,
    OPEN,
    PASSED_BOTH_WAYS,
    RULES,
    SKIPPED,
    SUSPECT,
    WARNED_CHANGE,
    change,
    kernels,
    limit,
)

from perfgate.core import (
    Key,
    KnownNoise,
    Location,
    NextStep,
    Policy,
    PooledRuns,
    Problem,
    Quarantine,
    Report,
    SourceFile,
)
from perfgate.core.causes import Cause, CauseReport, PlaceTime, RankTime

POLICY = Policy("refs/remotes/origin/main", "5e" * 32, "b1" * 32, commit="4f2a9c1d" * 5)
INPUTS = (SourceFile("train.log", "deepspeed", "a0" * 32),)
ENVIRONMENT = {"world_size": 8, "gpu": "NVIDIA H200", "torch": "2.9.0"}

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
        OPEN,
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
        "ACCEPT",
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
    accept=NextStep("approve", "ACCEPT", command="perfgate baseline approve train.log"),
)
WARNINGS_ONLY = replace(
    EVERY_OUTCOME,
    outcome="pass",
    exit_code=0,
    verdicts=(limit(), OPEN, WARNED_CHANGE),
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
    message="MESSAGE of kernel.softmax_kernel",
    why="it is the only kernel of ours",
    next_step=NextStep("find-cause", "NEXT at forward / aten::softmax / softmax_sum_kernel"),
    at=Location(RULES, 25, 5),
)
#: One rank became slow, and a kernel was replaced: three verdicts follow, one does not.
WITH_CAUSES = replace(
    EVERY_OUTCOME,
    verdicts=(FAILED_CHANGE, limit(), SUSPECT, _GONE, OPEN),
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
        notes=("NOTE of the causes",),
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
        replace(FAILED_CHANGE, notes=("NOTE 5",), noise=NOISE, owner="@team/kernels", pooled=_POOLED),
        replace(
            FAILED_LIMIT,
            exit_code=0,
            owner="kim@example.org",
            quarantine=Quarantine("2026-12-22", "6 of 80 unchanged runs of main were red", ended=False),
        ),
        replace(
            SUSPECT,
            notes=("NOTE 6",),
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
