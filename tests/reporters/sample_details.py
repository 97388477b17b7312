"""The runs behind sample verdicts, as a check writes them that was asked to show the runs."""

from msgspec.structs import replace
from samples import EVERY_OUTCOME

from perfgate.core.details import FactChange, LevelDetails, Part, ReportDetails, RunDetails, VerdictDetails


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
WITH_EVIDENCE = replace(
    EVERY_OUTCOME,
    verdicts=EVERY_OUTCOME.verdicts[:5],
    details=EVIDENCE,
    fact_changes=(FactChange("torch", ("2.8.0",), ("2.9.0",), claimed=True),),
)
ONE_WITH_EVIDENCE = replace(
    WITH_EVIDENCE, verdicts=WITH_EVIDENCE.verdicts[:1], details=replace(EVIDENCE, verdicts=EVIDENCE.verdicts[:1])
)
