"""Small mistakes and their answers: a misprint in an address, a misspelt comparator, a renamed metric."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Repository, steady, write_results, write_rules, write_run

from perfgate.reporters.markdown import prose

Command = Callable[..., Done]


@pytest.mark.parametrize(
    ("given", "meant"), [("s3:/bucket", "s3://bucket"), ("gs:/b/c", "gs://b/c"), ("file:/x", "file:///x")]
)
def test_an_address_with_a_slash_too_few_is_refused(perfgate: Command, folder: Path, given: str, meant: str) -> None:
    write_rules(folder, "forward within 5% of baseline")
    done = perfgate("check", write_run(folder / "new.json"), "--baselines", given)
    assert (done.code, f"write {meant}\n" in done.err) == (2, True), done.said


@pytest.mark.parametrize(
    ("sentence", "meant"),
    [
        ("forward no slower then 5% of baseline", "forward within 5% of baseline"),
        ("forward slowr than 5% of baseline", "forward within 5% of baseline"),
        ("forward witihn 5% of baseline", "forward within 5% of baseline"),
        ("forward at mots 3 ms", "forward at most 3 ms"),
    ],
)
def test_a_misspelt_comparator_is_answered_with_the_sentence(
    perfgate: Command, folder: Path, sentence: str, meant: str
) -> None:
    write_rules(folder, sentence)
    assert f"did you mean `{meant}`?" in perfgate("rules", "check").err


def test_two_runs_are_compared_without_an_option(perfgate: Command, folder: Path) -> None:
    base, new = write_run(folder / "a.json"), write_run(folder / "b.json", forward=150, seed=2)
    assert perfgate("compare", base, new).out == perfgate("compare", base, "--new", new).out


def test_a_renamed_metric_is_answered_with_its_nearest_name(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    write_results(folder / "base.json", {"metric": "forward", "unit": "ms", "values": steady(100)})
    perfgate("baseline", "approve", "base.json", "--reason", "first")
    new = write_results(folder / "new.json", {"metric": "forward_pass", "unit": "ms", "values": steady(100, seed=2)})
    assert "its nearest name is forward_pass" in " ".join(perfgate("check", new).out.split())
    write_rules(folder, "forward_pass within 5% of baseline")
    assert "its nearest name is forward:" in " ".join(perfgate("check", new).out.split())


def test_a_file_is_not_remembered_for_another_commit(perfgate: Command, folder: Path) -> None:
    run = write_run(folder / "a.json")
    assert perfgate("history", "add", run, "--head", "a" * 40).code == 0
    done = perfgate("history", "add", run, "--head", "b" * 40)
    assert (done.code, "as a run of commit aaaaaaaaaaaa" in done.err) == (3, True)


def test_a_name_of_a_commit_is_its_hash(perfgate: Command, folder: Path) -> None:
    run, team = write_run(folder / "a.json"), Repository(folder)
    team.git("commit", "-q", "--allow-empty", "-m", "Begin")
    commit = team.git("rev-parse", "HEAD")
    for name in ("HEAD", commit[:8], "main"):
        assert f"Z-{commit[:12]}-" in perfgate("history", "add", run, "--head", name, "--baselines", f"in-{name}").out
    done = perfgate("history", "add", run, "--head", "mian")
    assert (done.code, "git knows no commit 'mian': give its hash" in done.err) == (2, True)


def test_rules_that_fail_for_one_reason_are_one_item_in_markdown(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline", "backward within 9% of baseline")
    series = ({"metric": name, "unit": "ms", "values": steady(1)} for name in ("forward", "backward"))
    new = write_results(folder / "new.json", *series)
    shown = perfgate("check", new, "--markdown", "-").out
    assert shown.count("has no baseline") == 1
    assert shown.count("  - rule: ") == 2


def test_a_command_with_a_quoted_fact_is_one_code_span() -> None:
    command = "perfgate check new.json --env 'gpu=NVIDIA H100'"
    assert prose(f"measure it: {command}") == f"measure it: `{command}`"


@pytest.mark.parametrize(
    ("words", "suite"), [(["python", "-m", "pytest", "bench"], "benchmarks"), (["t.py"], "training")]
)
def test_the_suite_of_benchmarks_is_not_training(words: list[str], suite: str) -> None:
    from perfgate.commands.init_gate import usual_suite

    assert usual_suite(words) == suite


def test_init_of_pairs_gates_every_benchmark(perfgate: Command, folder: Path) -> None:
    import json

    names = [f"t.py::test_{i}" for i in range(7)]
    for run in range(3):
        benchmarks = [
            {
                "name": name,
                "fullname": name,
                "stats": {"data": [(i + 1) * v for v in steady(0.1, n=20, seed=9 * i + run)]},
            }
            for i, name in enumerate(names)
        ]
        (folder / f"{run}.json").write_text(json.dumps({"benchmarks": benchmarks, "machine_info": {}, "version": "4"}))
    done = perfgate("init", "--paired", "--dry-run", "0.json", "1.json", "2.json")
    assert all(f"'{name} within" in done.out for name in names), done.out
