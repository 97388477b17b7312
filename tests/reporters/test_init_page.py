"""The output of `init`, for each way in which it can end."""

from __future__ import annotations

import pytest
from goldens import check_golden
from msgspec.structs import replace

from perfgate.core.advice import Advice, FirstGate, LeftOut, ProposedRule, StepTime
from perfgate.reporters.init import render

STEP = ProposedRule(
    "usual", "step.time within 3% of baseline", "step.time median", "within 3%", 0.0667, 3, 0.0083, limit="..."
)
RULES = (
    STEP,
    ProposedRule("cost", "step.time mean within 5% of baseline", "step.time mean", "within 5%", 0.123, 5, 0.0121),
    ProposedRule("budget", "step.time mean under 130 ms", "step.time mean", "under 130 ms", 0.2),
    ProposedRule("sum", "...", 'total("op.a long name of an operator") / count(step.time)', "within 3%", None, 3, 0.01),
    ProposedRule("usual", "...", "memory.peak_allocated mean", "within 3%", 0.0, 3),
)
LEFT_OUT = (
    LeftOut("too few samples in a run", ("a", "b")),
    LeftOut("smaller than the metrics that have a rule", tuple("cdefghi")),
)
COVERED, NOISY = StepTime("step.time"), StepTime("step.time", "these runs of one program differ by 62%", True)
ADVICE = Advice(RULES, LEFT_OUT, COVERED, 3)
FILES = (("rules/training.yaml", None), ("baselines/training/x.json", None), (".github/workflows/perf.yml", None))
PLACES = ("rules/training.yaml", ".github/workflows/perf.yml")
RUNS = ("main-1.json", "'a b.json'")
GATE = FirstGate("written", ADVICE, *PLACES, FILES, RUNS)
PAIRED = ProposedRule("usual", "...", "step.time median", "within 10%", 0.128, 10, 0.03)
PAIRS = Advice((PAIRED,), LEFT_OUT, COVERED, 3, is_paired=True, most_runs=10)

ENDS = {
    "written": GATE,
    "one run": FirstGate(
        "written", replace(ADVICE, runs=1), *PLACES, FILES, RUNS[:1], ("--env env.json",), missing_runs=2
    ),
    "no runs": FirstGate("written", None, *PLACES, FILES),
    "too noisy": FirstGate("too-noisy", Advice((), LEFT_OUT, NOISY, 3), *PLACES, (), RUNS),
    "too noisy, with other rules": FirstGate(
        "too-noisy", Advice(RULES[-1:], (), NOISY, 3), *PLACES, (), RUNS, ("--env a=b",)
    ),
    "without the step": FirstGate("written", Advice(RULES[-1:], (), NOISY, 3), *PLACES, FILES, RUNS),
    "without any time": FirstGate(
        "written", Advice(RULES[-1:], (), StepTime(None, "these runs have no time"), 3), *PLACES, FILES
    ),
    "large changes only": FirstGate(
        "written",
        Advice((ProposedRule("usual", "...", "step.time median", "within 15%", 0.37, 15, 0.04),), (), COVERED, 3),
        *(*PLACES, FILES, RUNS),
    ),
    "pairs": FirstGate("written", PAIRS, *PLACES, FILES, RUNS, is_paired=True),
    "pairs of a command": FirstGate(
        "written", None, *PLACES, FILES, is_paired=True, command="python train.py {results}/r.json"
    ),
    "dry run": FirstGate(
        "dry-run", ADVICE, *PLACES, ((GATE.rules, "# a\nrules:\n  - b\n"), FILES[1]), RUNS,
        noticed=("warning: nothing names the GPU",),
    ),
    "added": FirstGate("added", Advice((STEP,), (), StepTime(None), 3), GATE.rules, "", ((GATE.rules, "- x"),), RUNS),
    "added for pairs": FirstGate("would-add", PAIRS, GATE.rules, "", ((GATE.rules, "- x"),), RUNS, is_paired=True),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_what_init_prints(name: str) -> None:
    check_golden(f"init-{name.replace(', ', '-').replace(' ', '-')}.txt", render(ENDS[name]))


@pytest.mark.parametrize("width", [60, 200])
def test_commands_stay_on_one_line_whatever_the_width_is(width: int) -> None:
    assert "    perfgate check RUN\n" in render(GATE, width=width)


@pytest.mark.parametrize(
    ("sees", "finest"), [(None, "step.time median"), (0.05, "loop.cpu_time"), (0.08, "step.time median")]
)
def test_a_rule_about_cpu_time_counts_if_it_is_known_to_see_more(sees: float | None, finest: str) -> None:
    cpu = ProposedRule("cpu", "...", "loop.cpu_time", "within 2%", sees, 2)
    gate = FirstGate("written", replace(ADVICE, rules=(cpu, *RULES)), *PLACES, FILES, RUNS)
    assert gate.finest_rule is not None
    assert gate.finest_rule.subject == finest


@pytest.mark.parametrize("name", ["written", "pairs", "no runs"])
def test_how_the_ci_system_finds_the_job_is_said(name: str) -> None:
    how = "add `include: .gitlab/perf.yml` to `.gitlab-ci.yml`"
    assert how not in render(ENDS[name])
    assert how in " ".join(render(replace(ENDS[name], found_by=how)).split())
