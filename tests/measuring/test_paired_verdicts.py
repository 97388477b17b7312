"""Verdicts on pairs: real runs with known truth, rates on generated ones, and pairs that cannot be judged."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from conftest import Done, Repository, answer_of, steady, write_results, write_rules
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import noisy_pair

from perfgate import judge_change
from perfgate.stats.paired_t import paired_t, ratio_of
from perfgate.stats.statistics import RunMeasure

judge_pairs = partial(judge_change, pairing="one-process", tolerance=0.02)

Command = Callable[..., Done]


def rate(change: float, pairs: int, tolerance: float, outcomes: tuple[str, ...], **noise: float) -> float:
    """The share of 200 generated sets of pairs with one of these answers."""
    hits = 0
    for trial in range(200):
        sides = [noisy_pair(change, 1000 * trial + i, **noise) for i in range(pairs)]  # type: ignore[arg-type]
        base, new = zip(*sides, strict=True)
        pairing = "one-process" if noise.get("own") == 0 else "in-turn"
        found = judge_pairs(base, new, pairing=pairing, tolerance=tolerance, looks=pairs)  # type: ignore[arg-type]
        hits += answer_of(found) in outcomes
    return hits / 200


@pytest.mark.shared
def test_real_pairs_reproduce_the_measured_changes(shared: Path) -> None:
    folder = shared / "score" / "data"
    truth = json.loads((folder / "GROUND_TRUTH.json").read_text())
    results: dict[float, list[object]] = {}
    for run in truth["runs"]:
        if run["kind"] == "paired":
            series = json.loads((folder / run["file"]).read_text())["series"]
            values = {one["metric"]: one["values"] for one in series}
            found = judge_pairs([values["base.forward"]], [values["new.forward"]], tolerance=0.01, prior=(0.003, 2.0))
            results.setdefault(run["injected"], []).append(found)
    logs = {level: np.array([r.log_change for r in found]) for level, found in results.items()}  # type: ignore[attr-defined]
    published = {0.0: (-0.0002, 0.0017), 0.02: (0.0251, 0.0017), 0.05: (0.0527, 0.0027)}  # mean and standard error
    for level, (mean, error) in published.items():
        assert abs(np.expm1(logs[level].mean()) - mean) < 2 * error
        assert logs[level].std(ddof=1) < 0.0095
    seen = {level: sum(r.p_no_change < 0.05 for r in found) for level, found in results.items()}  # type: ignore[attr-defined]
    assert seen[0.0] == 0
    assert seen[0.02] >= 10
    assert seen[0.05] == len(results[0.05]) == 12


@pytest.mark.parametrize(
    ("change", "pairs", "tolerance", "noise", "outcomes", "least", "most"),
    [
        (0.0, 6, 0.02, {"own": 0.017}, ("fail", "suspect"), 0.0, 0.05),
        (0.05, 6, 0.02, {"own": 0.017}, ("fail",), 0.7, 1.0),
        (0.0, 1, 0.01, {"own": 0.0}, ("fail", "suspect"), 0.0, 0.05),
        (0.02, 3, 0.01, {"own": 0.0}, ("suspect", "fail"), 0.8, 1.0),
        (0.02, 6, 0.02, {"own": 0.017}, ("fail",), 0.0, 0.65),  # at the tolerance, a suspicion is even odds
        (0.04, 3, 0.02, {"own": 0.0}, ("pass",), 0.0, 0.05),
    ],
    ids=["six unchanged", "six at +5 %", "one unchanged", "three at +2 %", "at the tolerance", "wrong pass"],
)
def test_rates(
    change: float,
    pairs: int,
    tolerance: float,
    noise: dict[str, float],
    outcomes: tuple[str, ...],
    least: float,
    most: float,
) -> None:
    assert least <= rate(change, pairs, tolerance, outcomes, **noise) <= most


def test_noise_that_both_sides_share_cancels() -> None:
    base, new = zip(*[noisy_pair(0.04, seed, shared=0.2) for seed in range(4)], strict=True)
    paired, apart = judge_pairs(base, new, tolerance=0.02), judge_change(base, new, tolerance=0.02)
    assert paired.outcome == "fail"
    assert paired.standard_error is not None
    assert apart.standard_error is not None
    assert paired.standard_error < apart.standard_error / 10


@given(st.floats(0.5, 2.0), st.integers(1, 6), st.integers(0, 1000))
@settings(max_examples=30)
def test_exchanging_the_sides_negates_the_change(factor: float, pairs: int, seed: int) -> None:
    sides = [noisy_pair(factor - 1, seed + i) for i in range(pairs)]
    base, new = zip(*sides, strict=True)
    there, back = judge_pairs(base, new), judge_pairs(new, base)
    assert there.log_change is not None
    assert back.log_change is not None
    assert math.isclose(
        there.log_change, -back.log_change, rel_tol=1e-3, abs_tol=1e-4
    )  # an even number of blocks is averaged


def test_with_no_noise_inside_it_is_the_moderated_t() -> None:
    runs = [RunMeasure(value, 1, None, 0.0, 0, True) for value in (1.0, 1.0, 1.0, 1.02, 1.03, 1.07)]
    base, new = runs[:3], runs[3:]
    found = paired_t(base, new, [ratio_of(b, n) for b, n in zip(base, new, strict=True)], (0.01, 2.0))
    logs = np.log([1.02, 1.03, 1.07])
    assert math.isclose(found.run_variance, (2 * 0.01**2 + 2 * logs.var(ddof=1)) / 4)
    assert math.isclose(found.standard_error, math.sqrt(found.run_variance / 3))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"pairing": "by-moonlight"}, "pairing is one of"), ({"new": []}, "pairs have two sides")],
    ids=["pairing", "one side"],
)
def test_bad_options_say_what_is_wrong(arguments: dict[str, object], words: str) -> None:
    given_ = {"base": [steady(1.0)], "new": [steady(1.0)], **arguments}
    with pytest.raises(ValueError, match=words):
        judge_pairs(given_.pop("base"), given_.pop("new"), **given_)  # type: ignore[arg-type]


def test_too_small_a_tolerance_is_an_error() -> None:
    found = judge_pairs([steady(1.0)], [steady(1.0)], tolerance=0.009)
    assert (found.outcome, found.reason) == ("error", "tolerance-too-small")


# --- through the command line ----------------------------------------------------------------------------------------


def write_pairs(folder: Path, change: float, pairs: int = 3, way: str = "in-turn", **more: str) -> list[str]:
    """A file for each pair, as `run --paired` leaves them."""
    names = []
    for number in range(1, pairs + 1):
        base, new = noisy_pair(change, number, own=0.0)
        series = [
            {
                "metric": "step.time",
                "labels": {"side": side, "pair": str(number), "pairing": way, **more},
                "unit": "s",
                "values": values,
            }
            for side, values in (("base", base), ("new", new))
        ]
        names.append(write_results(folder / f"pair-{number}.json", *series).name)
    return names


def test_rules_of_pairs_are_proved_with_pairs(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "step.time within 5% of baseline")
    done = perfgate("rules", *write_pairs(folder, 0.0))
    assert (done.code, "✓ can fail" in done.out) == (0, True), done.said
    assert "tested against paired base (3 pairs, steps by turns in two processes)" in done.out


@pytest.mark.parametrize(
    ("sentence", "change", "code", "words"),
    [
        ("step.time within 5% of baseline", 0.0, 0, "PASS"),
        ("step.time within 2% of baseline", 0.08, 1, "in the paired base"),
        ("step.time within 1% of baseline", 0.08, 1, "3 pairs, steps by turns in two processes"),
        ("step.time within 0.5% of baseline", 0.08, 3, "too small for pairs: order and memory layout"),
        ("step.time within 0.1% and 50 ms of baseline", 0.0, 0, "PASS"),
        ("step.time p90 within 5% of baseline", 0.2, 1, "step.time p90"),
        ("step.time under 1 min", 0.0, 0, "PASS"),
        ("step.time within 5% of anchor", 0.0, 3, "no anchor"),
        ("other within 5% of baseline", 0.0, 3, "no run has other"),
    ],
)
def test_rules_are_held_against_the_paired_base(
    perfgate: Command, folder: Path, sentence: str, change: float, code: int, words: str
) -> None:
    write_rules(folder, sentence)
    done = perfgate("check", *write_pairs(folder, change), "--verbose")
    said = " ".join(done.said.split())
    assert (done.code, words in said) == (code, True), said


def test_the_report_says_what_it_was_judged_against(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "step.time within 2% of baseline")
    done = perfgate("check", *write_pairs(folder, 0.0, way="whole-runs"), "--json", "-")
    report = json.loads(done.out)
    assert report["baseline"] == "paired base (3 pairs, whole runs by turns)"
    assert report["verdicts"][0]["labels"] == {}
    assert report.get("approve_command") is None


def test_ranks_stay_ranks(perfgate: Command, folder: Path) -> None:
    write_rules(folder, 'step.time{rank="1"} within 3% of baseline')
    assert perfgate("check", *write_pairs(folder, 0.0, rank="1")).code == 0


def test_a_pair_without_a_side_does_not_pass(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "step.time within 2% of baseline")
    names = write_pairs(folder, 0.0)
    document = json.loads((folder / names[1]).read_text())
    document["series"].pop(0)
    (folder / names[1]).write_text(json.dumps(document))
    done = perfgate("check", *names)
    assert done.code == 3
    assert "pair 2 has no base side" in " ".join(done.said.split())


def test_pairs_beside_runs_are_refused(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "step.time within 2% of baseline")
    alone = write_results(folder / "alone.json", {"metric": "step.time", "unit": "s", "values": steady(1.0)})
    done = perfgate("check", *write_pairs(folder, 0.0), alone)
    assert done.code == 2
    assert "give pairs or runs, not both" in done.err


def test_pairs_are_no_baseline(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "step.time within 2% of baseline")
    done = perfgate("baseline", "approve", *write_pairs(folder, 0.0), "--reason", "first")
    assert done.code == 2
    assert "pairs have their own base" in done.err


@pytest.mark.parametrize(
    ("head", "words", "code", "said"),
    [
        ("", (), 0, "PASS"),
        ("", ("--policy-ref", "main"), 3, "whose rules do not say `pairs: accept`"),
        ("", ("--policy-ref", "main", "--missing-baseline", "skip"), 3, "whose rules do not say `pairs: accept`"),
        ("pairs: accept\n", ("--policy-ref", "main"), 0, "PASS"),
        ("pairs: refuse\n", (), 3, "the rules say `pairs: refuse`"),
        ("pairs: refuse\n", ("--policy-ref", "main"), 3, "the rules say `pairs: refuse`"),
    ],
)
def test_a_pull_request_does_not_bring_its_own_base(
    perfgate: Command, folder: Path, head: str, words: tuple[str, ...], code: int, said: str
) -> None:
    write_rules(folder, "step.time within 5% of baseline", "step.time under 1 min", head=head)
    repository = Repository(folder)
    repository.git("add", "rules")
    repository.git("commit", "-q", "-m", "rules")
    if words:  # what the pull request says of its own pairs is nothing
        write_rules(folder, "step.time within 5% of baseline", head="pairs: accept\n")
    done = perfgate("check", *write_pairs(folder, 0.0), *words, "--verbose")
    assert (done.code, said in " ".join(done.said.split())) == (code, True), done.said


def test_the_new_side_of_refused_pairs_is_held_to_limits(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "step.time under 1 ns", head="pairs: refuse\n")
    assert perfgate("check", *write_pairs(folder, 0.0)).code == 1


def test_a_label_called_side_is_the_users_own(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "t under 2 s")
    path = write_results(
        folder / "r.json", {"metric": "t", "labels": {"side": "new"}, "unit": "s", "values": steady(1.0)}
    )
    assert perfgate("check", path).code == 0


@pytest.mark.parametrize(("change", "code"), [(0.0, 0), (0.1, 1)])
def test_compare_reads_pairs(perfgate: Command, folder: Path, change: float, code: int) -> None:
    done = perfgate("compare", "--paired", *write_pairs(folder, change), "--tolerance", "3%")
    assert done.code == code, done.said
    assert "paired base" in done.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compare", "a.json"), "give the new runs after --new"),
        (("compare", "--paired", "a.json", "--new", "a.json"), "without --new"),
        (("compare", "--paired", "a.json"), "have no pairs"),
    ],
)
def test_compare_wants_either_form(perfgate: Command, folder: Path, words: tuple[str, ...], message: str) -> None:
    write_results(folder / "a.json", {"metric": "t", "unit": "s", "values": steady(1.0)})
    done = perfgate(*words)
    assert done.code == 2
    assert message in done.err
