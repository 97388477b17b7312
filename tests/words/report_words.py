"""The sentences of whole reports: numbers, the answer, causes; one case for each branch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from msgspec.structs import replace
from said import Said, say

from perfgate.core import (
    NO_STEP,
    Estimate,
    Key,
    KnownNoise,
    Location,
    NextStep,
    Policy,
    PolicyChange,
    Problem,
    Quarantine,
    RelativeChange,
    Report,
    RunEstimate,
    Share,
    Verdict,
)
from perfgate.core.calculations import MIXED, Attribution, Calculation, Changed, Comparison, FactorEffect
from perfgate.core.causes import Cause, CauseKind, CauseReport
from perfgate.core.coverage import Coverage, Unread
from perfgate.core.details import FactChange
from perfgate.core.verdicts import UnruledChange
from perfgate.words import answer, beside, cause_words, in_short, notes, numbers
from perfgate.words.calculation import calculation

CHANGE = Verdict(
    *("forward within 5% of baseline", "forward", {}, "median", "fail", "interval", "error", 1, "change", "s"),
    *("MESSAGE", NextStep("approve", "TEXT", command="COMMAND"), Location("rules.yaml", 7, 5)),
    base=Estimate(0.361, 0.36, 0.362, 8320, 2750.0, 5),
    new=Estimate(0.3964, 0.3911, 0.4018, 1664, 488.0, 1),
    change=RelativeChange(0.098, 0.079, 0.117),
    asks="within 5% of baseline",
    tolerance=0.05,
    minimum_detectable_change=0.062,
)
LIMIT = replace(
    CHANGE,
    rule="tail",
    statistic="p95",
    kind="limit",
    asks="under 50 ms",
    member={"rank": "3"},
    base=None,
    change=None,
    tolerance=None,
    minimum_detectable_change=None,
    shown_unit="ms",
    new=Estimate(0.0726, 0.0581, None, 1662, 567.0, 1),
    bound=0.05,
    comparator="under",
)
NOISE = KnownNoise(0.014, 43, "history", "main")
MEASURED: dict[str, Verdict] = {
    "limit": LIMIT,
    "limit, exact": replace(LIMIT, new=Estimate(0.0726, 0.0726, 0.0726, 1, None, 1)),
    "limit, nothing": replace(LIMIT, new=None),
    "change": CHANGE,
    "change, no base": replace(CHANGE, base=None, change=None),
    "change, no new": replace(CHANGE, new=None, change=None),
    "change, nothing": replace(CHANGE, base=None, new=None, change=None),
}
FULL = replace(
    CHANGE,
    severity="warning",
    exit_code=0,
    why="WHY",
    owner="@team/kernels",
    notes=("NOTE 1", "NOTE 2"),
    noise=NOISE,
    share=Estimate(0.081, 0.066, 0.101, 1662, 567.0, 1),
    allowed_share=0.05,
    runs=(RunEstimate("new", "new.log", 0.3964, 1664, 3), RunEstimate("base", "s/e/1/a.json", 0.361, 1664, 9, False)),
    explained_by=(
        Share("backward", {}, 0.24, 0.2806, 1.147, 1.02, 1.27),
        Share("forward", {"rank": "1"}, 0.121, 0.1158, -0.147, -0.2, -0.09),
        Share("all_reduce", {}, 0.06, 0.0991, 1.105, 1.01, 1.2, within="backward"),
    ),
)


def of_calculations() -> Iterator[Said]:
    """Yield the words of words/calculation."""
    compared = Comparison("excluded", 0.031, 0.004, 6.5, 0.05, 1.91, 0.0953, is_above=False, holds=True)
    asked = ("within", "a-change", "beyond", "beyond-at-worst")
    several = (compared, *(replace(compared, asks=one, is_above=one != "within") for one in asked))
    cases = {
        "change": replace(CHANGE, calculation=Calculation(several, CHANGE.outcome, CHANGE.reason)),
        "a gain": replace(CHANGE, calculation=Calculation((replace(compared, estimate=-0.001),), "pass", "x")),
        "open": replace(CHANGE, calculation=Calculation((compared,), "undecided", CHANGE.reason)),
        "mean": replace(LIMIT, calculation=Calculation((replace(compared, asks="kept"),), LIMIT.outcome, LIMIT.reason)),
        "percentile": replace(LIMIT, share=Estimate(0.02, 0.01, 0.04, 200, 150.0, 2), allowed_share=0.05),
        "without noise": CHANGE,
    }
    for case, verdict in cases.items():
        for line in calculation(verdict):
            yield "calculation", "calculation", f"calculation/{case}: {line}"


def of_numbers() -> Iterator[Said]:
    """Yield the words of words/numbers."""
    yield say(numbers.what, "", LIMIT)
    yield say(numbers.what, "merged", replace(LIMIT, labels={"stage": "train"}, source="a.json"))
    for case, verdict in MEASURED.items():
        yield say(numbers.measured, case, verdict)
    for case, verdict in {"limit": LIMIT, "change": CHANGE}.items():
        yield say(numbers.allowed, case, verdict)
        yield say(numbers.allowed_range, case, verdict)
    yield say(numbers.allowed_range, "at least", replace(LIMIT, comparator="at least"))
    yield say(numbers.allowed_range, "higher is better", replace(CHANGE, better="higher"))
    yield say(numbers.allowed_range, "both ways", replace(CHANGE, two_sided=True))
    yield say(numbers.allowed_range, "none", replace(CHANGE, tolerance=None))
    for label, text in numbers.facts(FULL):
        yield "numbers", "facts", f"facts/{label}: {text}"
    noises = {
        "calibrated": KnownNoise(0.014, 20, "calibration"),
        "hosts": replace(NOISE, hosts=2),
        "a wandering level": replace(NOISE, wander=0.008),
        "no branch": replace(NOISE, branch=""),
    }
    for case, noise in noises.items():
        text = dict(numbers.facts(replace(FULL, noise=noise)))["noise between runs"]
        yield "numbers", "facts", f"facts/noise between runs, {case}: {text}"
    printed = replace(LIMIT, new=Estimate(0.0726, None, None, None, None, 2))
    yield "numbers", "facts", f"facts/data, one number: {dict(numbers.facts(printed))['data']}"
    yield say(numbers.explanation, "", FULL)
    for run in FULL.runs:
        yield say(numbers.run_row, run.side, run, FULL)
    yield say(numbers.value_text, "", 0.3964, CHANGE)
    yield say(numbers.value_text, "unknown", None, CHANGE)
    points = replace(CHANGE, unit="1", shown_unit="pp")
    for case, verdict in {"of the rule": LIMIT, "of the value": CHANGE, "share": points}.items():
        yield say(numbers.unit_for, case, 0.3964, verdict)


POLICY = Policy("main", "5e", "b1", commit="4f2a9c1d" * 5)
PASSED = replace(CHANGE, rule="loss", metric="loss", outcome="pass", exit_code=0, next_step=NO_STEP)
WARNED = replace(CHANGE, rule="peak", metric="peak", severity="warning", exit_code=0)
QUARANTINED = replace(
    CHANGE, rule="odd", metric="odd", exit_code=0, quarantine=Quarantine("2026-12-22", "R", ended=False)
)
OPEN = replace(
    CHANGE, rule="load", metric="load", outcome="undecided", reason="cannot-exclude", severity="warning", exit_code=0
)
EXCLUDES = replace(PASSED, not_excluded=0.0712)
SKIPPED = replace(PASSED, rule="rare", outcome="skipped", reason="when")
#: Verdicts of a pass, and what is special about them.
PASSES: dict[str, tuple[Verdict, ...]] = {
    "one rule": (EXCLUDES,),
    "several rules": (EXCLUDES, replace(EXCLUDES, rule="b", metric="b", not_excluded=0.0798)),
    "one much better": (replace(EXCLUDES, not_excluded=0.0298), replace(EXCLUDES, rule="b", not_excluded=0.0798)),
    "memory": (replace(EXCLUDES, unit="B"),),
    "a rate": (replace(EXCLUDES, unit="1/s", better="higher", not_excluded=-0.0712),),
    "both ways": (replace(EXCLUDES, unit="1", two_sided=True, not_excluded=-0.0712),),
    "a gain": (replace(EXCLUDES, not_excluded=-0.2),),
    "exact": (replace(PASSED, reason="exact"),),
    "all that does not count": (EXCLUDES, WARNED, replace(OPEN, rule="w"), QUARANTINED, SKIPPED),
    "only a warning": (WARNED,),
    "some labels skipped": (EXCLUDES, replace(EXCLUDES, metric="b", outcome="skipped", reason="when")),
}
ABSENT = replace(CHANGE, rule="gone", outcome="error", reason="no-data", exit_code=3, change=None, new=None, base=None)
UNREAD = Problem("error", "the file is cut", Location("new.log", 7))
NOTHING_READ = Problem("error", "no measurements", Location("new.log"))
OF_FORWARD = Problem("error", "NaN", Location("new.log", 9), Key.of("forward", rank="1"))
REPORT = Report(
    outcome="fail",
    exit_code=1,
    verdicts=(PASSED, WARNED, QUARANTINED, OPEN, CHANGE),
    problems=(UNREAD, OF_FORWARD),
    policy=POLICY,
    suite="gpt",
    baseline="gpt/h200/1-4f2a9c",
    environment={"trace_mode": "corrected"},
    accept=NextStep("approve", "If the changes are intended, approve them", command="COMMAND"),
    unknown_facts=("driver", "cuda"),
)
WITHOUT_RUNS = Report(outcome="error", exit_code=3, verdicts=(ABSENT,), problems=(NOTHING_READ, UNREAD))
LOOSENED = PolicyChange("loosens", "tail", "tail", "the limit is 60 ms, not 50 ms", Location("rules.yaml", 7))
UNRULED = UnruledChange("kernel.gemm", {}, "s", 0.012, 0.018, 0.5, 0.031)


def of_attributions() -> Iterator[Said]:
    """Yield the words of words/numbers."""
    found = Attribution(
        "code", FactorEffect(0.049, 0.04, 0.059), FactorEffect(0.002, -0.007, 0.011), None, 4, 0.99, settled=True
    )
    for changed in get_args(Changed):
        yield say(numbers.attribution, changed, replace(found, changed=changed))
    for size in (0.03, -0.03):
        yield say(numbers.attribution, "interaction", replace(found, interaction=FactorEffect(size, size, size)))
    for cell in MIXED:
        yield say(numbers.attribution, f"without {cell}", replace(found, missing=cell))
        for alone in (True, False):
            yield say(numbers.does_not_run, "", cell, "ended with exit code 1: WHY", alone=alone)
    yield say(numbers.nothing_to_attribute, "")
    for case, verdict in {"": replace(CHANGE, attribution=found), "none": CHANGE}.items():
        yield say(numbers.attributed, case, verdict)


def of_the_answer() -> Iterator[Said]:
    """Yield the words of words/answer."""
    yield say(answer.worst_first, "", REPORT.verdicts)
    yield say(answer.by_rule, "", (*REPORT.verdicts, replace(CHANGE, metric="backward")))
    of_outcomes = {"pass": PASSED, "warning": WARNED, "quarantined": QUARANTINED, "fail": CHANGE}
    for case, verdict in of_outcomes.items():
        for function in (answer.needs_attention, answer.shows_notes, answer.is_warning, answer.effect):
            yield say(function, case, verdict)
    yield say(answer.unrelated_errors, "", REPORT)
    yield say(answer.unread_runs, "", REPORT)
    yield say(answer.unread_runs, "nothing was read", WITHOUT_RUNS)
    yield say(answer.not_judged, "", WITHOUT_RUNS)
    for case, problem in {"": UNREAD, "of a metric": OF_FORWARD}.items():
        yield say(answer.problem_text, case, problem)
    reports = {"": REPORT, "nothing was read": WITHOUT_RUNS, "no verdicts": Report()}
    for case, report in reports.items():
        yield say(answer.headline, case, report)
        yield say(answer.tally, case, report)
    for case, verdicts in PASSES.items():
        yield say(answer.headline, case, Report("pass", 0, verdicts))
    yield say(answer.counts, "fail", REPORT)
    yield say(answer.counts, "pass", Report("pass", 0, PASSES["all that does not count"]))
    yield say(answer.excluded_change, "", PASSES["one much better"])
    yield say(answer.excluded_change, "in short", PASSES["one much better"], in_short=True)
    yield say(answer.excluded_change, "whatever their order", tuple(PASSES["one much better"])[::-1])
    yield say(answer.rounded_up, "", 0.08041)
    yield say(answer.rounded_up, "beyond every float", 1.797e306)
    yield say(answer.origin, "", REPORT)
    yield say(answer.origin, "a ref without a commit", replace(REPORT, policy=replace(POLICY, commit=None)))
    yield say(answer.next_step, "", NextStep("run-again", "TEXT"))
    yield say(answer.next_step, "command", CHANGE.next_step, code="`{}`".format)
    yield say(answer.rule_differences, "none", POLICY)
    yield say(answer.rule_differences, "", replace(POLICY, changes=(LOOSENED,), own_outcome="pass"))
    short = replace(LOOSENED, rule=None, own_rule=None, message="M")
    yield say(answer.rule_differences, "many", replace(POLICY, changes=(short,) * 22))
    yield say(answer.difference, "", replace(LOOSENED, effect="pass instead of fail"))
    yield say(answer.difference, "of no rule", replace(LOOSENED, rule=None, own_rule=None))
    yield say(answer.unruled, "none", REPORT)
    yield say(answer.unruled, "", replace(REPORT, unruled=(UNRULED, replace(UNRULED, share=None)), unruled_count=2))
    yield say(answer.unruled, "more", replace(REPORT, unruled=(UNRULED,), unruled_count=9))
    yield say(answer.unknown_facts, "", REPORT)
    some = Coverage(812, (Unread("tracked_stats.train_step_time", 175), Unread("loss", 1)), is_estimate=True)
    yield say(beside.coverage_line, "all", Coverage(1204))
    yield say(beside.coverage_line, "some", some)
    yield say(beside.unread_names, "many", Coverage(0, tuple(Unread(f"m{i}", 2) for i in range(9))))
    yield say(beside.coverage, "unknown", REPORT)
    yield say(beside.unread, "all", replace(REPORT, coverage=Coverage(1204)))
    yield say(beside.unread, "some", replace(REPORT, coverage=some))
    yield say(answer.unknown_facts, "only passes", replace(REPORT, verdicts=(PASSED,)))
    driver = FactChange("driver", ("550.54", "555.1"), ("560.28",), claimed=False)
    changes = (driver, *(FactChange(f"f{i}", ("a" * (70 if i == 0 else 1),), ("b",), claimed=True) for i in range(12)))
    for count in (0, 1, 3, 13):
        yield say(answer.what_else, f"{count} facts", replace(REPORT, fact_changes=changes[:count]))
    yield say(answer.what_else, "only claimed", replace(REPORT, fact_changes=changes[1:2]))
    noisy = [replace(CHANGE, metric=f"m{i}", noise=replace(NOISE, runs=40 + i, deviation=0.01 * i)) for i in range(5)]
    for count in (0, 1, 3, 5):
        yield say(answer.learned_noise, f"{count} metrics", noisy[:count])
    yield say(answer.learned_noise, "hosts", [replace(CHANGE, noise=replace(NOISE, hosts=2, branch=None))])
    for hosts in (0, 2):
        yield say(answer.without_hosts, str(hosts), hosts)
    for size in (0.0, 0.0079):
        yield say(answer.wandering, str(size), size)


SLOWER = Cause("slower", ("backward", "aten::mm"), "time", 0.001, 0.0008, 0.0012, 0.99, source="model.py(31): forward")
MEMORY = Cause("memory", ("forward", "aten::linear"), "memory", 192 * 2**20, 189 * 2**20, 195 * 2**20, 1.0)
_TORCH = "autograd::engine::evaluate_function: AddmmBackward0"
CAUSES: dict[str, Cause] = {
    "": SLOWER,
    "slow rank": replace(SLOWER, kind="slow rank", ranks=("2",), share=2.5),
    "slow ranks": replace(SLOWER, kind="slow rank", ranks=("2", "3")),
    "sync": replace(SLOWER, kind="sync", ranks=("1",)),
    "exposed": replace(SLOWER, kind="exposed"),
    "stall": replace(SLOWER, kind="stall"),
    "machine": replace(SLOWER, kind="machine", where=()),
    "faster": replace(SLOWER, kind="faster", change_per_step=-0.001, low=-0.0012, high=-0.0008, source=""),
    "all steps": replace(SLOWER, metric="total time"),
    "memory": MEMORY,
    "less memory": replace(MEMORY, change_per_step=-192.0 * 2**20, low=-195.0 * 2**20, high=-189.0 * 2**20),
}
REPLACED = replace(
    SLOWER, kind="replaced", gone=(("mm", 2.0),), come=(("addmm", 1.0),), places=(SLOWER.where, ("forward", "aten::mm"))
)
UNDONE: dict[str, Cause] = {
    "less time": CAUSES["faster"],
    "types": replace(REPLACED, types=("bf16", "tf32")),
    "TF32": replace(REPLACED, types=("tf32", "fp32")),
    "one call": replace(REPLACED, gone=(("aten::gelu", 6.0),), come=(("aten::mul", 36.0),)),
    "other calls": REPLACED,
    "optimizer": replace(REPLACED, gone=(("aten::_fused_adamw_", 1.0),), come=(("aten::mul_", 76.0),)),
    "attention": replace(REPLACED, gone=(("aten::scaled_dot_product_attention", 1.0),), come=(("aten::matmul", 2.0),)),
    "a call": replace(SLOWER, kind="appeared", come=(("aten::clone", 8.0),)),
    "clipping": replace(
        SLOWER, kind="appeared", come=(("aten::linalg_vector_norm", 77.0), ("aten::mul_", 76.0), ("aten::clamp", 1.0))
    ),
    "norms": replace(SLOWER, kind="appeared", come=(("aten::linalg_vector_norm", 77.0),)),
    "kernels": replace(REPLACED, gone=(("gelu_kernel<float>(int)", 1.0),), come=(("void mul<float>(int)", 7.0),)),
    "a launch": replace(SLOWER, kind="appeared", come=(("cudaLaunchKernel", 8.0), ("void mul<float>(int)", 8.0))),
    "larger": replace(SLOWER, kind="larger", factor=1.25),
    "of a table": CAUSES["all steps"],
    **{kind: replace(SLOWER, kind=kind) for kind in get_args(CauseKind) if kind not in ("larger", "replaced")},
}
FOUND = CauseReport((SLOWER, MEMORY), 0.0102, 0.011, 4e-6, 2e-4, 3, 1)
EXPLAINED = replace(REPORT, causes=replace(FOUND, causes=(replace(SLOWER, verdicts=(CHANGE.rule,)), MEMORY)))
BRIEF: dict[str, Verdict] = {
    "change": CHANGE,
    "limit": LIMIT,
    "error": ABSENT,
    "not measured": replace(LIMIT, new=None),
}


def of_the_short_answer() -> Iterator[Said]:
    """Yield the words of words/in_short."""
    yield say(in_short.lines, "", REPORT)
    doubtful = replace(PASSED, doubtful=True, notes=(notes.ONE_RUN, "pressure on cpu: 50% of the time"))
    yield say(in_short.doubts, "", replace(REPORT, verdicts=(doubtful, replace(doubtful, metric="m"), PASSED)))
    yield say(in_short.next_step, "", REPORT)
    yield say(in_short.names, "", REPORT.verdicts[:2])
    yield say(in_short.unruled, "none", REPORT)
    yield say(in_short.unruled, "", replace(REPORT, unruled=(UNRULED, UNRULED, UNRULED), unruled_count=9))
    yield say(in_short.largest_changes, "", (CHANGE, PASSED))


def of_causes() -> Iterator[Said]:
    """Yield the words of words/cause_words."""
    yield say(cause_words.groups, "", EXPLAINED)
    yield say(cause_words.unexplained, "", EXPLAINED)
    yield say(cause_words.by_verdict, "", EXPLAINED)
    only_memory = replace(FOUND, base_step=0.0, new_step=0.0)
    for function in (cause_words.step, cause_words.without_cause, cause_words.rest):
        yield say(function, "", FOUND)
        yield say(function, "memory", only_memory)
    yield say(cause_words.step, "all steps", replace(FOUND, causes=(CAUSES["all steps"],)))
    for case, cause in CAUSES.items():
        yield say(cause_words.kind, case, cause)
        yield say(cause_words.cost, case, cause)
        yield say(cause_words.line, case, cause)
    yield say(cause_words.title, "", SLOWER)
    yield say(cause_words.where, "", SLOWER)
    yield say(cause_words.place, "", ["backward", _TORCH, "AddmmBackward0", "aten::mm"])
    yield say(cause_words.place, "nowhere", [])
    yield say(cause_words.short, "", _TORCH)
    for label, text in cause_words.details(REPLACED):
        yield "cause_words", "details", f"details/{label}: {text}"
    for case, verdict in BRIEF.items():
        yield say(cause_words.brief, case, verdict)
    for count in (1, 3):
        yield say(cause_words.follow, str(count), count)
    for group in cause_words.groups(EXPLAINED):
        yield say(cause_words.steps, group.cause.kind, group)
    for case, cause in UNDONE.items():
        yield say(cause_words.undo, case, cause)
    for value in (8.15e-4, -8.15e-4):
        yield say(cause_words.signed, "", value)
