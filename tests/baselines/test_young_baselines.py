"""A young baseline grows: doubt about the noise keeps no run out of it, a failure and a suspicion do."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from conftest import Done, write_results

Command = Callable[..., Done]


def write_rule(folder: Path, *settings: str) -> None:
    (folder / "rules").mkdir(exist_ok=True)
    lines = ["version: 1", "rules:", "  - assert: step within 5% of baseline", *(f"    {line}" for line in settings)]
    (folder / "rules/rules.yaml").write_text("\n".join([*lines, ""]))


def write_means(folder: Path, means: Sequence[float]) -> list[Path]:
    """One run for each mean: only the noise between runs counts."""
    series = [{"metric": "step", "unit": "ms", "value": mean} for mean in means]
    return [write_results(folder / f"run{i}.json", one) for i, one in enumerate(series)]


@pytest.fixture
def young(perfgate: Command, folder: Path) -> Command:
    """A baseline of one run, which took 100 ms."""
    write_rule(folder)
    write_results(folder / "first.json", {"metric": "step", "unit": "ms", "value": 100.0})
    assert perfgate("baseline", "approve", "first.json", "--reason", "first").code == 0
    return perfgate


def reason(perfgate: Command, run: Path) -> str:
    (verdict,) = json.loads(perfgate("check", run, "--json", "-").out)["verdicts"]
    return f"{verdict['outcome']}: {verdict['reason']}"


def test_the_second_and_the_third_run_are_added(young: Command, folder: Path) -> None:
    second, third, fourth = write_means(folder, (100.4, 99.7, 100.1))
    assert reason(young, second) == "undecided: noise-unknown"
    done = young("baseline", "add", second)
    assert (done.code, "widens" in done.said) == (0, False)
    assert young("baseline", "add", third).code == 0
    assert young("check", fourth).code == 0


def test_noisy_runs_are_added_with_a_warning(young: Command, folder: Path) -> None:
    second, third, fourth = write_means(folder, (106.0, 95.0, 103.0))
    for run, expected in ((second, "noise-unknown"), (third, "cannot-exclude"), (fourth, "cannot-exclude")):
        assert reason(young, run) == f"undecided: {expected}"
        done = young("baseline", "add", run)
        assert (done.code, "widens every later interval" in done.said) == (0, expected == "cannot-exclude")


@pytest.mark.parametrize(("policy", "added"), [("warn", True), ("error", True), ("fail", False)])
def test_a_rule_that_calls_doubt_a_failure_keeps_a_noisy_run_out(
    young: Command, folder: Path, policy: str, added: bool
) -> None:
    second, third = write_means(folder, (106.0, 95.0))
    assert young("baseline", "add", second).code == 0
    write_rule(folder, f"on_inconclusive: {policy}")
    assert young("baseline", "add", third).code == (0 if added else 1)


def test_a_run_that_is_probably_worse_is_not_added(young: Command, folder: Path) -> None:
    (slow,) = write_means(folder, (150.0,))
    assert reason(young, slow) == "undecided: interval"
    done = young("baseline", "add", slow)
    assert (done.code, "do not pass their own rules" in done.err) == (1, True)


@pytest.mark.parametrize(
    ("before", "now", "warns"), [(3, 1, True), (3, 2, True), (9, 4, True), (3, 3, False), (9, 5, False)]
)
def test_an_approval_of_fewer_runs_says_that_the_noise_is_less_known(
    perfgate: Command, folder: Path, before: int, now: int, warns: bool
) -> None:
    write_rule(folder)
    runs = write_means(folder, [100 + 0.1 * number for number in range(before + now)])
    first = perfgate("baseline", "approve", *runs[:before], "--reason", "first")
    done = perfgate("baseline", "approve", *runs[before:], "--reason", "a better kernel")
    said = (
        f"the new level has {now} run{'s'[: now > 1]}, and the level before it had {before}: the next checks know less"
    )
    assert (first.code, "warning" in first.said) == (0, False)
    assert (done.code, said in done.said, "warning" in done.said) == (0, warns, warns)
