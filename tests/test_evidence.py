"""The runs behind a verdict, as the JSON report holds them: which, how they stand, what is kept and what is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, steady, write_log, write_results, write_rules
from msgspec.structs import replace

from perfgate.core import NO_STEP, Location, Policy, Report, Verdict
from perfgate.core.details import ReportDetails, RunDetails, VerdictDetails
from perfgate.judge.details import within_budget
from perfgate.reporters.json_report import render

Command = Callable[..., Done]


def evidence(perfgate: Command, *words: str | Path) -> dict[str, Any]:
    """The evidence of a check's report."""
    perfgate(*(words or ("check", "new.log")), "--json", "report.json")
    found: dict[str, Any] = json.loads(Path("report.json").read_text())["evidence"]
    return found


def runs(perfgate: Command, *words: str | Path) -> list[dict[str, Any]]:
    """The runs behind the first verdict."""
    found: list[dict[str, Any]] = evidence(perfgate, *words)["verdicts"][0]["runs"]
    return found


@pytest.fixture
def based(perfgate: Command, folder: Path) -> Command:
    """A rule on `forward` with two levels: one run of 90 ms, then two of 100 ms."""
    write_rules(folder, "forward within 5% of baseline")
    for name, centre in {"old": 90, "base1": 100, "base2": 100, "new": 120}.items():
        write_log(folder / f"{name}.log", forward=[400.0, *steady(centre, n=999, seed=len(name) + centre)])
    assert perfgate("baseline", "approve", "old.log", "--reason", "first").code == 0
    assert perfgate("baseline", "approve", "base1.log", "--reason", "a fix <costs>", "--pr", "7").code == 0
    write_log(folder / "base2.log", forward=[400.0, *steady(100, n=999, seed=77)])
    assert perfgate("baseline", "add", "base2.log").code == 0
    return perfgate


def test_history_base_and_new_in_order(based: Command) -> None:
    found = runs(based)
    assert [run["standing"] for run in found] == ["past", "base", "base", "new"]
    assert [round(run["estimate"], 2) for run in found] == [0.09, 0.1, 0.1, 0.12]
    assert found[-1]["run"] == "new.log"
    assert found[0]["run"].startswith("default/")


def test_the_estimates_are_those_of_the_verdict(based: Command) -> None:
    found = runs(based)
    verdict = json.loads(Path("report.json").read_text())["verdicts"][0]
    assert found[-1]["estimate"] == verdict["new"]["estimate"]
    assert found[-1]["n"] == verdict["new"]["n"]
    assert found[1]["n"] + found[2]["n"] == verdict["base"]["n"]


def test_what_is_allowed_is_the_base_and_the_tolerance(based: Command) -> None:
    shown = evidence(based)["verdicts"][0]
    verdict = json.loads(Path("report.json").read_text())["verdicts"][0]
    assert shown["allowed_low"] is None
    assert shown["allowed_high"] == pytest.approx(1.05 * verdict["base"]["estimate"])


def test_levels_say_who_why_and_when(based: Command) -> None:
    first, second = evidence(based)["levels"]
    assert (first["by"], first["reason"], first["approved"], first["anchor"], first["current"]) == (
        "ada", "first", "2026-01-01", True, False,
    )  # fmt: skip
    assert (second["reason"], second["pr"], second["current"]) == ("a fix <costs>", 7, True)
    stored = [run["run"] for run in runs(based) if run["standing"] != "new"]
    assert stored == [*first["runs"], *second["runs"]]


def test_against_the_anchor_its_runs_are_the_base(based: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of anchor")
    assert [run["standing"] for run in runs(based)] == ["base", "past", "past", "new"]


def test_warm_up_and_stalls_are_told_and_kept(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 150 ms")
    values = steady(100, n=5000)
    values[0], values[2500] = 900.0, 700.0
    write_log(folder / "new.log", forward=values)
    [run] = runs(perfgate)
    assert len(run["values"]) == len(run["steps"]) <= 240
    assert (run["dropped"], run["warmup"], run["stalled"]) == (1, 1, 1)
    assert run["values"][0] == 0.9
    [stall] = run["stalls"]
    assert (run["values"][stall], run["steps"][stall]) == (0.7, 2500)
    assert run["quantiles"][0] > 0.09
    assert run["quantiles"][-1] == 0.7


def test_the_rank_that_speaks_and_others_beside_it(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 150 ms")
    write_log(folder / "new.log", ranks=[{"forward": steady(100 + rank, n=50, seed=rank)} for rank in range(12)])
    [shown] = evidence(perfgate)["verdicts"]
    judged = [run["member"]["rank"] for run in shown["runs"] if run["judged"]]
    others = [run["member"]["rank"] for run in shown["runs"] if not run["judged"]]
    assert shown["members"] == 12
    assert judged == ["11"]
    assert len(others) == 7
    assert {"0", "10"} <= set(others)  # the fastest and the slowest of them


def test_on_each_rank_a_verdict_shows_its_own(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward on each rank under 150 ms")
    write_log(folder / "new.log", ranks=[{"forward": steady(100 + rank, n=50)} for rank in range(2)])
    shown = evidence(perfgate)["verdicts"]
    assert [[run["member"] for run in one["runs"]] for one in shown] == [[{"rank": "0"}], [{"rank": "1"}]]


def test_a_comparison_shows_its_runs(perfgate: Command, folder: Path) -> None:
    for name in ("a", "b", "c"):
        write_log(folder / f"{name}.log", forward=steady(100, seed=ord(name)))
    found = runs(perfgate, "compare", "a.log", "b.log", "--new", "c.log")
    assert [(run["run"], run["standing"]) for run in found] == [("a.log", "base"), ("b.log", "base"), ("c.log", "new")]


def test_values_that_are_no_numbers_are_left_out(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "metrics", "loss under 5", head="")
    write_rules(folder, "forward / step under 200%")
    write_log(folder / "new.log", forward=steady(100, n=20), step=[0.0, *steady(100, n=19)])
    for one in evidence(perfgate)["verdicts"]:
        for run in one["runs"]:
            assert None not in run["values"]


def test_an_absent_metric_has_no_evidence(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "backward under 5 ms", "forward under 150 ms")
    write_log(folder / "new.log", forward=steady(100))
    assert [one["verdict"] for one in evidence(perfgate)["verdicts"]] == [1]


def test_environments_of_both_sides(perfgate: Command, folder: Path) -> None:
    series = {"metric": "x", "unit": "s", "values": steady(1)}
    for name, torch in (("a", "2.8"), ("b", "2.9"), ("c", "3.0")):
        series = {**series, "values": steady(1, seed=ord(name))}
        write_results(folder / f"{name}.json", series, environment={"torch": torch, "gpu": "H200"})
    found = evidence(perfgate, "compare", "a.json", "b.json", "--new", "c.json")
    assert found["base_environment"] == {"gpu": "H200", "torch": "2.8, 2.9"}


def test_parts_of_a_step_and_what_moved_most(perfgate: Command, folder: Path) -> None:
    def trace(name: str, gemm: float, extra: bool) -> None:
        more = [{"metric": "op.new", "unit": "s", "values": [0.01] * 4}] if extra else []
        rank = {"labels": {"rank": "0"}}
        write_results(
            folder / name,
            {"metric": "step.time", "unit": "s", "values": [0.5, 0.5], **rank},
            {"metric": "step.kernel", "unit": "s", "values": [0.3, 0.3 + gemm / 100], **rank},
            {"metric": "kernel.gemm", "unit": "s", "values": [gemm] * 6, **rank},
            {"metric": "kernel.copy", "unit": "s", "aggregate": {"mean": 0.1, "count": 2}, **rank},
            *({**one, **rank} for one in more),
        )

    trace("a.json", 0.01, extra=False)
    trace("b.json", 0.05, extra=True)
    found = evidence(perfgate, "compare", "a.json", "--new", "b.json")
    [part] = found["breakdown"]
    assert (part["metric"], part["base"]) == ("step.kernel", pytest.approx(0.30005))
    assert [(m["metric"], m["base"], m["new"]) for m in found["movers"]] == [
        ("kernel.gemm", pytest.approx(0.03), pytest.approx(0.15)),  # 6 calls in 2 steps
        ("op.new", None, pytest.approx(0.02)),
    ]


# --- budget ------------------------------------------------------------------------------------------------------


def a_verdict(outcome: str) -> Verdict:
    return Verdict("r", "m", {}, None, outcome, "", "error", 0, "limit", "s", "", NO_STEP, Location("r"))  # type: ignore[arg-type]


def test_a_large_report_stays_under_five_mebibytes() -> None:
    values = tuple(float(f"{x:.5g}") for x in steady(0.123456, n=240))
    steps = tuple(range(100_000, 100_240))
    name = "suite/nvidia-h200-8-4dde062f/2026-11-21-2f10aea2/20261121T054640Z-fa9790f1.json"
    new = RunDetails("runs/train.log", "new", True, 0.123, {"rank": "0"}, 239, 1, 0, values[:9], values, steps, 1)
    base = replace(new, run=name, standing="base", values=values[:80], steps=steps[:80])
    found = [VerdictDetails(i, "s", (base,) * 10 + (new,)) for i in range(400)]
    verdicts = tuple(replace(a_verdict("pass"), message="m" * 300) for _ in found)
    kept, left_out = within_budget(verdicts, found)
    report = Report("pass", 0, verdicts, (), (), {}, Policy(None, "", ""), details=ReportDetails(kept, left_out))
    assert 0 < left_out < 400
    assert len(render(report).encode()) < 5 << 20


# --- the page ----------------------------------------------------------------------------------------------------


def test_check_and_compare_write_the_page(based: Command, folder: Path) -> None:
    assert based("check", "new.log", "--strict", "--html", "check.html").code == 1
    assert based("compare", "base1.log", "--new", "new.log", "--html", "compare.html").code == 3  # a run a side
    for name in ("check.html", "compare.html"):
        page = (folder / name).read_text(encoding="utf-8")
        assert page.startswith("<!DOCTYPE html>")
        assert page.count("<figure>") == 3
        assert str(folder) not in page
