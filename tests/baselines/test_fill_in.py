"""`baseline add` of a run that is stored already: it gets what it lacks, and nothing else changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import Done, steady, write_log, write_rules

from perfgate.baselines import approvals
from perfgate.baselines.condensed import stored_series
from perfgate.baselines.files import STORED_RUN, StoredSeries
from perfgate.core import Acceptance, Series
from perfgate.words.steps import complete_base

Command = Callable[..., Done]


@pytest.fixture
def gate(perfgate: Command, folder: Path) -> Command:
    """Two stored runs, as a perfgate without summaries would have stored them, and a third run."""
    write_rules(folder, "forward within 5% of baseline")
    for seed in range(3):
        write_log(folder / f"run{seed}.log", forward=steady(100, seed=seed), other=steady(7, seed=seed))
    assert perfgate("baseline", "approve", "run0.log", "run1.log", "--reason", "first").code == 0
    for path in stored(folder):
        file, _ = STORED_RUN.decode(path.name, path.read_bytes())
        assert file is not None
        path.write_bytes(STORED_RUN.encode(msgspec.structs.replace(file, summaries=msgspec.UNSET)))
    return perfgate


def test_only_the_stored_series_of_a_run_are_compared(gate: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def noted(series: Series) -> StoredSeries:
        compared.append(series.key.metric)
        return stored_series(series)

    monkeypatch.setattr(approvals, "stored_series", noted)
    assert gate("baseline", "add", "run0.log", "run1.log").code == 0
    assert compared == ["forward", "forward"]


def stored(folder: Path) -> list[Path]:
    return sorted((folder / "baselines").rglob("*.json"))


def documents(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in stored(folder)]


def decisions(folder: Path) -> list[dict[str, Any]]:
    kept = ("level", "added_by", "time", "commit", "sources", "tool", "identity")
    return [{name: document[name] for name in kept} for document in documents(folder)]


def test_a_stored_run_gets_the_summaries_that_it_lacks(gate: Command, folder: Path) -> None:
    paths, before = stored(folder), decisions(folder)
    write_rules(folder, "forward within 5% of baseline", "other p95 within 9% of baseline")
    assert gate("check", "run2.log").code == 3
    write_rules(folder, "forward within 5% of baseline")
    done = gate("baseline", "add", "run0.log", "run1.log")
    assert done.code == 0
    assert done.out.count("filled in baselines/") == 2
    assert "summaries of 1 metric" in done.out
    assert (stored(folder), decisions(folder)) == (paths, before)
    assert gate("baseline", "verify").code == 0
    write_rules(folder, "forward within 5% of baseline", "other p95 within 9% of baseline")
    assert gate("check", "run2.log").code == 0


def test_a_metric_that_a_rule_names_now_gets_its_samples(gate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline", "other p97 within 20% of baseline")
    assert gate("check", "run2.log").code == 3
    done = gate("baseline", "add", "run0.log", "run1.log")
    assert done.code == 0
    assert "values of other" in done.out
    assert [[row["metric"] for row in one["series"]] for one in documents(folder)] == [["forward", "other"]] * 2
    assert gate("check", "run2.log").code == 0


def test_a_rule_about_what_the_base_lacks_names_its_files(gate: Command, folder: Path) -> None:
    """Never the run that is judged: approving it would hide what it changed."""
    write_rules(folder, "forward within 5% of baseline", "other within 5% of baseline")
    said = " ".join(gate("check", "run2.log").out.split())
    assert "has no metric other" in said
    assert "perfgate baseline add run0.log run1.log" in said
    assert "approve" not in said
    assert gate("baseline", "add", "run0.log", "run1.log").code == 0
    assert gate("check", "run2.log").code == 0


def test_a_statistic_that_no_summary_has_names_the_files_with_the_samples(gate: Command, folder: Path) -> None:
    assert gate("baseline", "add", "run0.log", "run1.log").code == 0
    write_rules(folder, "other p97 within 20% of baseline", "p97(other) / p50(other) within 20% of baseline")
    said = " ".join(gate("check", "run2.log").out.split())
    assert said.count("the stored runs have only a summary of other") == 2
    assert said.count("perfgate baseline add run0.log") == 2
    assert "approve" not in said


def test_under_a_policy_the_files_are_added_on_the_base_branch() -> None:
    accept = Acceptance(place=("--suite", "gpt"), ref="origin/main")
    step = complete_base(accept, [("old/a.log",), ("ranks/0.json", "ranks/1.json")])
    assert step.text.startswith("on origin/main: add the source files")
    assert (step.where, step.who) == ("on origin/main", "someone who may write to origin/main")
    assert step.command == "perfgate baseline add old/a.log ranks --suite gpt"


def test_a_new_run_beside_stored_ones_is_added(gate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline", "other within 9% of baseline")
    done = gate("baseline", "add", "run0.log", "run1.log", "run2.log")
    assert done.code == 0
    assert (done.out.count("filled in"), done.out.count("wrote")) == (2, 1)
    assert len(stored(folder)) == 3


def test_a_run_that_lacks_nothing_is_refused(gate: Command, folder: Path) -> None:
    assert gate("baseline", "add", "run0.log").code == 0
    before = [path.read_bytes() for path in stored(folder)]
    done = gate("baseline", "add", "run0.log")
    assert done.code == 1
    assert "is stored already" in done.err
    assert "counts once" in done.err
    assert [path.read_bytes() for path in stored(folder)] == before


def test_samples_that_all_kept_stay(gate: Command, folder: Path) -> None:
    assert gate("baseline", "add", "run0.log", "--all").code == 0
    assert gate("baseline", "add", "run0.log").code == 1  # without --all nothing is taken away
    assert [row["metric"] for row in documents(folder)[0]["series"]] == ["forward", "other"]


def test_runs_of_one_file_are_told_apart(gate: Command, folder: Path) -> None:
    runs = [
        {"series": [{"metric": name, "unit": "s", "values": steady(1.0, seed=seed)} for name in ("forward", "late")]}
        for seed in (5, 6)
    ]
    (folder / "both.json").write_text(json.dumps({"schema": "perfgate.results/1", "runs": runs}))
    assert gate("baseline", "approve", "both.json", "--reason", "two runs").code == 0
    write_rules(folder, "forward within 5% of baseline", "late within 5% of baseline")
    done = gate("baseline", "add", "both.json")
    assert (done.code, done.out.count("values of late")) == (0, 2)
    late = [row["values"][0] for one in documents(folder) for row in one["series"] if row["metric"] == "late"]
    assert late == [steady(1.0, seed=5)[0], steady(1.0, seed=6)[0]]


def test_a_file_that_reads_differently_now_is_refused(gate: Command, folder: Path) -> None:
    path = stored(folder)[0]
    file, _ = STORED_RUN.decode(path.name, path.read_bytes())
    assert file is not None
    row = msgspec.structs.replace(file.series[0], values=[value * 2 for value in file.series[0].values])
    path.write_bytes(STORED_RUN.encode(msgspec.structs.replace(file, series=[row])))
    before = path.read_bytes()
    done = gate("baseline", "add", "run0.log")
    assert (done.code, path.read_bytes()) == (1, before)
    assert "reads differently now" in " ".join(done.err.split())
