"""Exact work: counts are compared as they are, and one run decides."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from perfgate.core import Allowance, Baseline, Key, Run, Series, Verdict, read_only
from perfgate.core.call_trees import CallNode, CallTree
from perfgate.judge.decide.exact import compared
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge
from perfgate.rules.load import load_rules

NO_MORE, SAME = "no more work than baseline", "same work as baseline"
#: What a quiet step of a GPU program asks for.
USUAL = {"ops": [1758] * 4, "kernels": [251] * 4, "launches": [251] * 4, "syncs": [1] * 4, "blocks": [70_000] * 4}
PATTERN = [300.0, 303.0, 248.0, 300.0]


def run_of(source: str = "new", trees: Sequence[CallTree] = (), **counts: Sequence[float]) -> Run:
    """A run with counts of work: `copies_DtoH` has the label `kind`."""
    series = []
    for name, values in ({**USUAL} | counts).items():
        metric, _, kind = name.partition("_") if name.startswith("copies_") else (name, "", "")
        of_device = metric in ("kernels", "blocks", "copies", "memsets")
        labels = {**({"device": "0"} if of_device else {}), **({"kind": kind} if kind else {})}
        if values:
            array = read_only(np.array(values, dtype=np.float64))
            series.append(Series(Key.of(f"work.{metric}", **labels), "count", "samples", array))
    return Run(source, "torch-trace", tuple(series), call_trees=tuple(trees))


def verdict(rule: str, base: Sequence[Run], new: Sequence[Run], allowances: tuple[Allowance, ...] = ()) -> Verdict:
    ruleset, problems = load_rules([("rules.yaml", f"version: 1\nrules:\n  - {rule}\n".encode())])
    assert ruleset is not None, problems
    baseline = Baseline(place="s/e/1", runs=tuple(base), allowances=allowances)
    (found,) = judge(Case(ruleset, tuple(new), baseline, date(2026, 1, 1)))
    return found


def test_equal_counts_pass_from_one_run_against_one() -> None:
    found = verdict(NO_MORE, [run_of()], [run_of()])
    assert (found.outcome, found.reason, found.exit_code) == ("pass", "exact", 0)
    assert found.message == "each step does the same work (5 equal counts); 1 base run, 1 new run"


def test_one_more_call_in_one_step_fails_from_one_run() -> None:
    found = verdict(NO_MORE, [run_of()] * 3, [run_of(syncs=[1, 1, 2, 1])])
    assert (found.outcome, found.reason, found.exit_code) == ("fail", "more-work", 1)
    assert found.message.startswith("a step has 0.25 more synchronisations (1 → 1.25)")


@pytest.mark.parametrize(
    ("rule", "outcome"), [(NO_MORE, "pass"), (SAME, "fail"), ("no more work.kernels than baseline", "pass")]
)
def test_less_work_is_only_another_work(rule: str, outcome: str) -> None:
    found = verdict(rule, [run_of()], [run_of(kernels=[240] * 4)])
    assert found.outcome == outcome
    assert "11 fewer kernels (251 → 240)" in found.message


@pytest.mark.parametrize("witness", ["flops", "blocks", "kernels", "ops"])
def test_a_faster_program_that_does_less_is_noted(witness: str) -> None:
    """Each count is the witness where those that follow the shapes better are not known."""
    others = dict.fromkeys(("flops", "blocks", "kernels", "ops"), ())

    def timed(seconds: float, calls: int) -> Run:
        run = run_of(**{**others, witness: [calls] * 4})
        return replace(run, series=(*run.series, Series(Key("x"), "s", "value", read_only(np.array([seconds])))))

    base = [timed(1 + 0.001 * at, 200) for at in range(5)]
    found = verdict("x within 5% of baseline", base, [timed(0.5, 100)])
    assert found.improved
    assert f"with 50% less work (work.{witness})" in str(found.notes), found.notes


@pytest.mark.parametrize(
    ("rule", "grown", "outcome"),
    [
        (NO_MORE, "ops", "fail"),
        ("no more device work than baseline", "ops", "pass"),
        ("no more device work than baseline", "launches", "pass"),
        ("no more device work than baseline", "blocks", "fail"),
        ("no more work.syncs than baseline", "ops", "pass"),
        ("no more work.syncs than baseline", "syncs", "fail"),
    ],
)
def test_a_rule_sees_the_counts_that_it_names(rule: str, grown: str, outcome: str) -> None:
    assert verdict(rule, [run_of()], [run_of(**{grown: [90_000] * 4})]).outcome == outcome


@pytest.mark.parametrize(
    "new", [PATTERN, PATTERN * 2, PATTERN[1:], PATTERN[2:] + PATTERN[:1], [248.0], PATTERN[3:] * 2]
)
def test_a_pattern_of_steps_may_begin_anywhere_and_have_any_length(new: list[float]) -> None:
    assert verdict(SAME, [run_of(kernels=PATTERN * 2)], [run_of(kernels=new)]).outcome == "pass"


@pytest.mark.parametrize("new", [[300, 303, 250, 300], [303, 303], [300, 303, 248, 301, 303], [304]])
def test_a_step_that_does_not_fit_the_pattern_is_more_work(new: list[float]) -> None:
    assert verdict(NO_MORE, [run_of(kernels=PATTERN * 2)], [run_of(kernels=new)]).outcome == "fail"


@pytest.mark.parametrize(
    ("base", "new", "outcome", "says"),
    [  # `no more work`; then `same work`, which any other step fails, too
        ([2, 2, 2, 2], [0, 0, 0, 3], "fail", "a step has 1 more kernel (2 → 3)"),
        ([2, 2, 2, 2], [1, 3, 1, 3], "fail", "a step has 1 more kernel (2 → 3)"),
        ([1, 3, 1, 3], [2, 2, 2, 2], "fail", "a step has 1 more kernel (1 → 2)"),
        ([1, 3, 1, 3], [1, 3, 1, 5, 1], "fail", "a step has 0.2 more kernels (2 → 2.2)"),
        ([1, 3, 1, 3], [1, 3, 1, 4, 1], "fail", "a step has 1 more kernel (3 → 4)"),
        ([1, 3, 1, 3], [3, 1, 2, 1, 3], "pass", "a step has 1 fewer kernel (3 → 2)"),
    ],
)
def test_the_mean_does_not_hide_a_step_with_more(base: list[float], new: list[float], outcome: str, says: str) -> None:
    sides = [run_of(kernels=base)], [run_of(kernels=new)]
    found = verdict(NO_MORE, *sides)
    assert (found.outcome, found.message.partition(";")[0].partition(", and")[0]) == (outcome, says)
    assert verdict(SAME, *sides).outcome == "fail"


def test_of_several_runs_the_step_that_changed_most_is_told() -> None:
    found = verdict(NO_MORE, [run_of(kernels=[4] * 4)], [run_of(kernels=[1, 5]), run_of(kernels=[6, 1, 1])])
    assert found.message.startswith("a step has 2 more kernels (4 → 6)")
    found = verdict(NO_MORE, [run_of(kernels=[1, 3]), run_of(kernels=[1, 3, 1])], [run_of(kernels=[2, 0, 3])])
    assert found.message.startswith("a step has 1 more kernel (1 → 2)")  # of the longest base run


def test_copies_of_a_new_kind_are_more_work() -> None:
    """No step of the base copied to the host, so it has no such count."""
    found = verdict(NO_MORE, [run_of()], [run_of(copies_DtoH=[6] * 4)])
    assert found.outcome == "fail"
    assert "6 more DtoH copies (0 → 6)" in found.message


def test_a_count_that_the_new_run_lacks_is_an_error() -> None:
    found = verdict(NO_MORE, [run_of()], [run_of(syncs=[])])
    assert (found.outcome, found.reason, found.exit_code) == ("error", "metric-absent", 3)
    assert "work.syncs" in found.message


@pytest.mark.parametrize(("made_by", "says"), [("nsys", "NVTX range such as `step 12`"), ("deepspeed", "Recorder(")])
def test_runs_without_any_count_say_how_to_get_them(made_by: str, says: str) -> None:
    plain = Run("new", made_by, (Series(Key("step.time"), "s", "samples", read_only(np.ones(4))),))
    found = verdict(NO_MORE, [plain], [plain])
    assert (found.outcome, found.reason) == ("error", "metric-absent")
    assert says in found.next_step.text


def test_a_base_without_counts_cannot_be_compared() -> None:
    plain = Run("old", "torch-trace", (Series(Key("step.time"), "s", "samples", read_only(np.ones(4))),))
    found = verdict(NO_MORE, [plain], [run_of()])
    assert (found.outcome, found.reason) == ("error", "no-baseline")


def test_counts_that_differ_between_base_runs_are_samples() -> None:
    base = [run_of(blocks=[60_000, 141_000, 75_000, 99_000]), run_of(blocks=[88_000, 64_000, 120_000, 71_000])]
    found = verdict(NO_MORE, base, [run_of(blocks=[70_000, 101_000, 99_000, 90_000])])
    assert found.outcome == "pass"
    assert "work.blocks varies between runs and is compared by the mean" in found.message
    much = [run_of(blocks=[600_000, 650_000, 610_000, 640_000])] * 3
    assert verdict(NO_MORE, [*base, *base], much).outcome == "fail"


def test_counts_that_vary_are_not_green_without_evidence() -> None:
    base = [run_of(copies_DtoH=[0, 2, 0, 3]), run_of(copies_DtoH=[0, 3, 1, 3])]
    found = verdict(NO_MORE, base, [run_of(copies_DtoH=[0, 50, 0, 60])])
    assert (found.outcome, found.reason, found.exit_code) == ("undecided", "varied-work", 3)
    assert "a step probably has" in found.message
    alone = verdict(
        "no more work.blocks than baseline",
        [run_of(blocks=[90, 80]), run_of(blocks=[70, 85])],
        [run_of(blocks=[88, 75])],
    )
    assert (alone.outcome, alone.exit_code) == ("undecided", 3)
    assert alone.next_step.text.endswith("work.blocks within 10% of baseline")


def test_an_allowance_accepts_growth_up_to_its_size() -> None:
    def allowed(up_to: float) -> str:
        one = Allowance("work.kernels", up_to, "me", "more heads", date(2026, 2, 1))
        return verdict(NO_MORE, [run_of()], [run_of(kernels=[259] * 4)], (one,)).outcome

    assert [allowed(0.05), allowed(0.01)] == ["pass", "fail"]


def tree(syncs: int) -> CallTree:
    """Calls of a step: `forward` calls an operator that waits `syncs` times."""
    nodes = (
        CallNode("step", "step", -1),
        CallNode("forward", "range", 0),
        CallNode("aten::item", "operator", 1, "model.py(58): forward"),
        CallNode("cudaStreamSynchronize", "runtime", 2),
        CallNode("cudaDeviceSynchronize", "runtime", 0),
    )
    counts = np.array([[1.0], [1.0], [float(syncs)], [float(syncs)], [1.0]])
    return CallTree("", nodes, counts, counts * 1e-6, counts * 1e-6)


def test_the_verdict_names_the_part_the_call_and_the_line() -> None:
    base, new = run_of(trees=[tree(0)]), run_of(trees=[tree(6)], syncs=[7] * 4)
    found = verdict(NO_MORE, [base], [new])
    what = "a step has 6 more synchronisations (1 → 7) in forward (aten::item, model.py(58): forward)"
    assert found.message == f"{what}; 1 base run, 1 new run"
    assert found.next_step.text.startswith("find the new calls in forward")
    place = found.work[0].place
    assert place is not None
    assert (place.part, place.call, place.source) == ("forward", "aten::item", "model.py(58): forward")


counts = st.lists(st.integers(0, 5), min_size=1, max_size=8).map(lambda values: np.array(values, dtype=np.float64))


@given(counts, st.integers(1, 3))
def test_a_run_is_the_same_as_itself_however_often_it_was_recorded(values: np.ndarray, times: int) -> None:
    assert compared([values] * times, [values]) == "same"


@given(counts, counts)
def test_more_one_way_is_not_the_same_the_other_way(one: np.ndarray, other: np.ndarray) -> None:
    there, back = compared([one], [other]), compared([other], [one])
    assert (there == "same") <= (len(one) != len(other) or back == "same")
    if len(one) == len(other):
        assert (there == "same") == bool((np.sort(one) == np.sort(other)).all()) or len(set(one.tolist())) == 1


@pytest.mark.parametrize("counts", [[-1.0] * 4, [0.5] * 4, [251, 251, 251, -251], [251, 251, 251, 0.25]])
@pytest.mark.parametrize("rule", [NO_MORE, SAME, "no more work.kernels than baseline"])
def test_a_count_that_nobody_counts_is_an_error(rule: str, counts: Sequence[float]) -> None:
    found = verdict(rule, [run_of()], [run_of(kernels=counts)])
    assert (found.outcome, found.reason) == ("error", "metric-absent")
