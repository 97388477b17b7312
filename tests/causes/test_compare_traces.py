"""`perfgate compare` of traces: the causes in one screen and in JSON, and copies."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Done
from made_traces import GPU_JOB, Op, write

Command = Callable[..., Done]

_SLOWER = "1  slower: backward / aten::mm / sm90_gemm_nt\n    +1."


@pytest.fixture
def sides(folder: Path) -> Path:
    """Traces of a job and of one with a slower kernel."""
    write(GPU_JOB, folder / "base")
    write(GPU_JOB.edited("aten::mm", us=4500).but(seed=101), folder / "new")
    return folder


def _report(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def test_the_causes_fit_on_one_screen(perfgate: Command, sides: Path) -> None:
    done = perfgate("compare", "base", "--new", "new")
    assert _SLOWER in done.out
    assert "rest -" in done.out or "rest +" in done.out
    assert "more verdicts: --verbose shows them" in done.out
    assert len(done.out.splitlines()) <= 25


def test_a_failed_count_has_its_cause_whatever_that_costs(perfgate: Command, folder: Path) -> None:
    write(GPU_JOB, folder / "base")
    write(GPU_JOB.after("aten::softmax", Op("forward", "aten::neg", 1, kernel="neg_kernel")), folder / "new")
    done = perfgate("compare", "base", "--new", "new")
    assert "1  appeared: forward / aten::neg" in done.out
    assert "kernels, allowed: no more work than baseline" in done.out


def test_verbose_shows_every_verdict(perfgate: Command, sides: Path) -> None:
    done = perfgate("compare", "base", "--new", "new", "--verbose")
    assert _SLOWER in done.out
    assert "kernel.sm90_gemm_nt" in done.out


def test_json_has_the_causes_and_what_they_leave(perfgate: Command, sides: Path) -> None:
    perfgate("compare", "base", "--new", "new", "--json", "report.json")
    report = _report(sides / "report.json")
    (cause,), summary = report["causes"], report["cause_summary"]
    named = (cause["kind"], cause["where"], cause["metric"], cause["ranks"])
    assert named == ("slower", "backward/aten::mm/sm90_gemm_nt", "time", [])
    explained = {verdict["id"]: verdict["metric"] for verdict in report["verdicts"] if "id" in verdict}
    assert list(explained) == cause["verdicts"]
    assert explained['"step.time" within 5% of baseline'] == "step.time"
    assert {"kernel.sm90_gemm_nt", "step.kernel"} <= set(explained.values())
    assert cause["low"] < 0.001 < cause["high"]
    change = summary["new_step"] - summary["base_step"]
    assert cause["change_per_step"] + summary["rest"] == pytest.approx(change)
    assert cause["share"] == pytest.approx(cause["change_per_step"] / change)


def test_a_stored_report_shows_the_same_causes(perfgate: Command, sides: Path) -> None:
    first = perfgate("compare", "base", "--new", "new", "--json", "report.json")
    again = perfgate("report", "report.json", "--json", "again.json")
    assert (again.code, _report(sides / "again.json")["causes"]) == (
        first.code,
        _report(sides / "report.json")["causes"],
    )
    assert _SLOWER in again.out


def test_a_copy_has_no_difference(perfgate: Command, sides: Path) -> None:
    shutil.copytree(sides / "base", sides / "copy")
    done = perfgate("compare", "base", "--new", "copy", "--json", "report.json")
    assert (done.code, "no difference" in done.out) == (0, True)
    assert _report(sides / "report.json")["identical"] is True
    again = perfgate("report", "report.json")
    assert (again.code, "no difference" in again.out) == (0, True)


def test_a_copy_of_a_broken_trace_is_no_pass(perfgate: Command, sides: Path) -> None:
    (trace,) = (sides / "base").iterdir()
    trace.write_text(trace.read_text(encoding="utf-8")[:-2000], encoding="utf-8")
    shutil.copytree(sides / "base", sides / "copy")
    assert perfgate("compare", "base", "--new", "copy").code == 3


def test_json_has_the_call_tree_of_both_sides(perfgate: Command, sides: Path) -> None:
    perfgate("compare", "base", "--new", "new", "--json", "report.json")
    summary = _report(sides / "report.json")["cause_summary"]
    tree = summary["tree"]
    assert (tree[0]["base"], tree[0]["new"]) == pytest.approx((summary["base_step"], summary["new_step"]), rel=0.01)
    assert all(place["parent"] < at for at, place in enumerate(tree))
    (mm,) = (place for place in tree if place["name"] == "aten::mm")
    assert tree[mm["parent"]]["name"] == "backward"
    assert mm["new"] - mm["base"] == pytest.approx(0.001, rel=0.1)
    for at, place in enumerate(tree):
        for side in ("base", "new"):
            below = sum(child[side] for child in tree if child["parent"] == at)
            assert below <= place[side] * (1 + 1e-9)


def test_json_tells_the_work_of_each_rank_from_its_waiting(perfgate: Command, folder: Path) -> None:
    write(GPU_JOB.but(ranks=4), folder / "base")
    write(GPU_JOB.but(ranks=4, slow=((2, 1.2),)), folder / "new")
    perfgate("compare", "base", "--new", "new", "--json", "report.json")
    ranks = _report(folder / "report.json")["cause_summary"]["ranks"]
    assert [one["rank"] for one in ranks] == ["0", "1", "2", "3"]
    worked = [one["new_work"] - one["base_work"] > 0.001 for one in ranks]
    waited = [one["new_communication"] - one["base_communication"] > 0.001 for one in ranks]
    assert (worked, waited) == ([False, False, True, False], [True, True, False, True])
