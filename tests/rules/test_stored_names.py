"""`rules check` beside the stored runs: a warning for a metric that none of them has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, steady, write_log, write_rules

Command = Callable[..., Done]


@pytest.fixture
def stored(perfgate: Command, folder: Path) -> None:
    """A baseline with forward, backward and step_time."""
    write_rules(folder, "forward within 5% of baseline")
    write_log(folder / "a.log", forward=steady(100), backward=steady(200), step_time=steady(300))
    assert perfgate("baseline", "approve", "a.log", "--reason", "first").code == 0


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("sentence", "warning"),
    [
        ("forwrd within 5% of baseline", "no stored run has forwrd: the nearest names are forward"),
        ("loss under 5", "no stored run has loss: the stored runs have backward, forward, step_time"),
        ("qq* under 5 ms", "no stored run has qq*: the stored runs have backward, forward, step_time"),
        ("share under 50%", "no stored run has forward_time: the nearest names are forward"),
    ],
)
def test_a_metric_that_no_stored_run_has_is_a_warning(
    perfgate: Command, folder: Path, sentence: str, warning: str
) -> None:
    text = f"version: 1\nmetrics: {{share: forward_time / backward}}\nrules:\n  - fwd under 5 ms\n  - {sentence}\n"
    (folder / "rules" / "rules.yaml").write_text(text)
    done = perfgate("rules", "check")
    assert done.out == "rules/rules.yaml: 2 rules\n"
    assert done.err.startswith(f"rules/rules.yaml:5:5: warning: {warning}")
    assert (done.code, len(done.err.splitlines())) == (0, 1)


@pytest.mark.usefixtures("stored")
def test_names_that_are_found_or_not_needed_give_no_warning(perfgate: Command, folder: Path) -> None:
    text = "version: 1\nmetrics: {a: forward / backward, b: a * 2}\nrules:\n"
    text += "  - b under 5\n  - fwd* under 5 ms\n  - warmup.time under 5 s\n  - bwd within 5% of baseline\n"
    text += "  - {assert: loss under 5, on_missing: skip}\n  - p99(forward) / p50(forward) under 3\n"
    (folder / "rules" / "rules.yaml").write_text(text)
    done = perfgate("rules", "check")
    assert (done.code, done.err) == (0, "")


def test_nothing_is_said_without_stored_runs_of_the_suite(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forwrd within 5% of baseline")
    assert perfgate("rules", "check").err == ""


@pytest.mark.usefixtures("stored")
def test_a_mistake_is_still_an_error_and_proposes_a_stored_name(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "step time within 5%")
    done = perfgate("rules", "check")
    assert "did you mean `step_time within 5% of baseline`?" in done.err
    assert done.code == 2


@pytest.mark.usefixtures("stored")
def test_a_stored_run_that_cannot_be_read_is_a_warning(perfgate: Command, folder: Path) -> None:
    [path] = (folder / "baselines").rglob("*.json")
    path.write_text("{")
    done = perfgate("rules", "check")
    assert "warning" in done.err
    assert done.code == 0
