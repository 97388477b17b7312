"""Which parts account for a failed change: known causes are put into runs, and found again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, steady, write_log, write_results, write_rules
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

Command = Callable[..., Done]
Columns = dict[str, list[float]]


def series(metric: str, values: list[float], **labels: str) -> dict[str, Any]:
    return {"metric": metric, "unit": "ms", "values": values, "labels": labels}


def timers(seed: int, forward: float, inner: float, allreduce: float) -> Columns:
    """A step whose timers add up, in ms."""
    parts = [steady(centre, seed=seed + i) for i, centre in enumerate((forward, inner, allreduce))]
    backward = [sum(pair) for pair in zip(*parts[1:], strict=True)]
    both = [sum(pair) for pair in zip(parts[0], backward, strict=True)]
    names = ("forward", "backward_inner", "backward_allreduce", "backward", "forward_backward")
    return dict(zip(names, (*parts, backward, both), strict=True))


def explained(perfgate: Command, metric: str, *words: str) -> list[dict[str, Any]]:
    """What is said of one metric: the shares of its parts."""
    document = json.loads(perfgate(*words, "--json", "-").out)
    [verdict] = [one for one in document["verdicts"] if one["metric"] == metric]
    return list(verdict["explained_by"])


def names(shares: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    return [(share["metric"], share["within"]) for share in shares]


def test_a_slow_allreduce_is_found_below_backward(perfgate: Command, folder: Path) -> None:
    write_log(folder / "base.log", **timers(1, 100, 150, 50))
    write_log(folder / "new.log", **timers(7, 100, 150, 90))
    found = explained(perfgate, "forward_backward", "compare", "base.log", "--new", "new.log")
    assert names(found) == [("backward", None), ("backward_allreduce", "backward")]
    for share in found:
        assert share["share"] == pytest.approx(1, abs=0.1)
        assert share["low"] < share["share"] < share["high"]
    assert found[1]["base"] == pytest.approx(0.05, rel=0.02)
    assert found[1]["new"] == pytest.approx(0.09, rel=0.02)


def test_work_that_went_from_one_part_to_another_is_a_move(perfgate: Command, folder: Path) -> None:
    write_log(folder / "base.log", **timers(1, 100, 150, 50))
    write_log(folder / "new.log", **timers(7, 60, 240, 50))
    found = explained(perfgate, "forward_backward", "compare", "base.log", "--new", "new.log")
    assert names(found) == [("backward", None), ("forward", None), ("backward_inner", "backward")]
    assert found[1]["share"] == pytest.approx(-0.8, abs=0.1)
    table = perfgate("compare", "base.log", "--new", "new.log").out
    assert "1  slower: forward_backward / backward / backward_inner" in table
    assert "2  faster: forward_backward / forward\n" in table


def test_parts_of_a_step_and_the_kernels_inside_are_found_by_name(perfgate: Command, folder: Path) -> None:
    def run(name: str, gemm: float, seed: int) -> None:
        other, kernel = steady(20, seed=seed), steady(30 + 4 * gemm, seed=seed + 1)
        step = [sum(pair) for pair in zip(other, kernel, strict=True)]
        write_results(
            folder / name,
            series("step.time", step),
            series("step.other", other),
            series("step.kernel", kernel),
            series("kernel.gemm", steady(gemm, n=800, seed=seed + 2)),  # four calls a step
            series("kernel.norm", steady(5, n=200, seed=seed + 3)),
        )

    run("base.json", 10, 1)
    run("new.json", 15, 10)
    found = explained(perfgate, "step.time", "compare", "base.json", "--new", "new.json")
    assert names(found) == [("step.kernel", None), ("kernel.gemm", "step.kernel")]
    assert found[1]["new"] - found[1]["base"] == pytest.approx(0.02, rel=0.1)  # a step, not a call
    assert found[1]["share"] == pytest.approx(1, abs=0.15)


def test_the_terms_of_a_sum_are_its_parts(perfgate: Command, folder: Path) -> None:
    head = "metrics: {whole: forward + backward}\n"
    write_rules(folder, "whole within 5% of baseline", "forward + backward mean within 5% of baseline", head=head)
    write_log(folder / "base.log", **timers(1, 100, 150, 50))
    write_log(folder / "new.log", **timers(7, 140, 150, 50))
    assert perfgate("baseline", "approve", "base.log", "--reason", "first").code == 0
    document = json.loads(perfgate("check", "new.log", "--json", "-").out)
    assert [names(verdict["explained_by"]) for verdict in document["verdicts"]] == [[("forward", None)]] * 2


def test_parts_that_no_rule_names_are_known_from_their_summaries(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "backward within 5% of baseline")
    write_log(folder / "base.log", **timers(1, 100, 150, 50))
    write_log(folder / "new.log", **timers(7, 100, 150, 90))
    assert perfgate("baseline", "approve", "base.log", "--reason", "first").code == 0
    assert "explained by backward_allreduce" in " ".join(perfgate("check", "new.log", "--verbose").out.split())


def test_parts_that_the_baseline_does_not_have_are_listed(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "backward within 5% of baseline")
    write_log(folder / "base.log", backward=timers(1, 100, 150, 50)["backward"])
    write_log(folder / "new.log", **timers(7, 100, 150, 90))
    assert perfgate("baseline", "approve", "base.log", "--reason", "first").code == 0
    advice = "the baseline was stored without backward_inner, backward_allreduce; a run stored now has them"
    assert advice in " ".join(perfgate("check", "new.log", "--verbose").out.split())


def test_a_rank_that_alone_became_slow_is_named(perfgate: Command, folder: Path) -> None:
    def run(name: str, slow: float, seed: int) -> None:
        ranks = [steady(slow if rank == 2 else 100, seed=seed + rank) for rank in range(4)]
        write_results(folder / name, *(series("io", values, rank=str(rank)) for rank, values in enumerate(ranks)))

    run("base.json", 100, 1)
    run("new.json", 150, 10)
    [share] = explained(perfgate, "io", "compare", "base.json", "--new", "new.json")
    assert share["member"] == {"rank": "2"}
    assert share["share"] == pytest.approx(1, abs=0.1)
    assert "rank 2" in perfgate("compare", "base.json", "--new", "new.json").out


def test_ranks_that_went_alike_explain_nothing(perfgate: Command, folder: Path) -> None:
    for name, centre, seed in (("base.json", 100, 1), ("new.json", 150, 10)):
        ranks = [steady(centre, seed=seed + rank) for rank in range(4)]
        write_results(folder / name, *(series("io", values, rank=str(rank)) for rank, values in enumerate(ranks)))
    assert explained(perfgate, "io", "compare", "base.json", "--new", "new.json") == []


def test_at_most_five_parts_are_told_the_largest_first(perfgate: Command, folder: Path) -> None:
    for name, factor, seed in (("base.json", 1.0, 1), ("new.json", 2.0, 50)):
        parts = [steady(10 * (i + 1) * factor, seed=seed + i) for i in range(8)]
        whole = [sum(pair) for pair in zip(*parts, strict=True)]
        rows = [series(f"load.part{i}", values) for i, values in enumerate(parts)]
        write_results(folder / name, series("load", whole), *rows)
    found = explained(perfgate, "load", "compare", "base.json", "--new", "new.json")
    assert [share["metric"] for share in found] == [f"load.part{i}" for i in (7, 6, 5, 4, 3)]


UNEXPLAINED = [
    # the parts of the base,                the parts of the new run
    ({"load.a": 50.0}, {}),
    ({}, {"load.a": 150.0}),
    ({"load.a": 50.0}, {"load.a": 50.2}),
    ({"load.a": 0.0}, {"load.a": 50.0}),
]


@pytest.mark.parametrize(("base", "new"), UNEXPLAINED)
def test_what_cannot_be_compared_or_is_within_noise_explains_nothing(
    perfgate: Command, folder: Path, base: dict[str, float], new: dict[str, float]
) -> None:
    for name, whole, parts, seed in (("base.json", 100.0, base, 1), ("new.json", 200.0, new, 9)):
        rows = [series(metric, steady(centre, seed=seed)) for metric, centre in parts.items()]
        write_results(folder / name, series("load", steady(whole, seed=seed + 3)), *rows)
    assert explained(perfgate, "load", "compare", "base.json", "--new", "new.json") == []


def test_parts_in_another_unit_and_changes_that_pass_are_left_alone(perfgate: Command, folder: Path) -> None:
    for name, centre in (("base.json", 100.0), ("new.json", 101.0)):
        size = {"metric": "load.size", "unit": "B", "values": steady(centre)}
        write_results(folder / name, series("load", steady(centre)), series("load.a", steady(centre / 2)), size)
    assert explained(perfgate, "load", "compare", "base.json", "--new", "new.json") == []
    write_results(folder / "slow.json", series("load", steady(200)), {**size, "values": steady(300.0)})
    assert explained(perfgate, "load", "compare", "base.json", "--new", "slow.json") == []


def test_every_run_is_listed_with_its_warm_up(perfgate: Command, folder: Path) -> None:
    write_log(folder / "base.log", forward=[300.0, 200.0, *steady(100)])
    write_log(folder / "new.log", forward=[400.0, 300.0, 200.0, *steady(130, seed=2)])
    document = json.loads(perfgate("compare", "base.log", "--new", "new.log", "--json", "-").out)
    [verdict] = document["verdicts"]
    assert [(run["side"], run["source"], run["n"], run["dropped"]) for run in verdict["runs"]] == [
        ("base", "base.log", 200, 2),
        ("new", "new.log", 200, 3),
    ]
    assert "3 values dropped as warm-up" in verdict["message"]
    table = perfgate("compare", "base.log", "--new", "new.log", "--verbose").out
    assert [line.split()[-2:] for line in table.splitlines() if line.strip().startswith(("base base", "new new"))] == [
        ["200", "2"],
        ["200", "3"],
    ]


numbers = st.floats(1e-300, 1e300) | st.sampled_from([1.0, 2.0, 100.0])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(base=st.lists(numbers, min_size=4, max_size=12), new=st.lists(numbers, min_size=4, max_size=12))
@example(base=[1.0, 1.0, 1.6e24, 0.5], new=[1e-300] * 4)  # a ratio of means that is no float but 0
def test_any_numbers_give_finite_shares_or_none(
    perfgate: Command, folder: Path, base: list[float], new: list[float]
) -> None:
    for name, values in (("base.json", base), ("new.json", new)):
        half = len(values) // 2
        write_results(
            folder / name,
            {"metric": "load", "unit": "s", "values": values},
            {"metric": "load.a", "unit": "s", "values": values[:half]},
            {"metric": "load.b", "unit": "s", "values": values[::-1]},
        )
    done = perfgate("compare", "base.json", "--new", "new.json", "--json", "-")
    document = json.loads(done.out)
    assert done.code in (0, 1, 3)
    for verdict in document["verdicts"]:
        assert len(verdict["explained_by"]) <= (5 if verdict["outcome"] == "fail" or verdict["suspect"] else 0)
        for share in verdict["explained_by"]:
            assert share["low"] <= share["share"] <= share["high"]
            assert share["low"] > 0 or share["high"] < 0
