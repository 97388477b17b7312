"""Exit 0 of `perfgate check` keeps its promise: `at_worst`, its doubts, and the number of looks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, approve_steady, same_code, steady, write_log, write_results, write_rules, write_run

Command = Callable[..., Done]


def checked(perfgate: Command, *words: str | Path) -> tuple[int, dict[str, Any]]:
    """The exit code of a check, and its only verdict."""
    done = perfgate("check", *words, "--json", "report.json")
    (verdict,) = json.loads(Path("report.json").read_text())["verdicts"]
    return done.code, verdict


#: Base runs around 100 ms that differ by 2.5 %, and a new run of 100 ms.
NOISY = (97, 103, 99, 98, 102.5)


@pytest.fixture
def noisy(perfgate: Command, folder: Path) -> Path:
    """A new run of the same code as a noisy baseline."""
    write_rules(folder, "forward within 5% of baseline")
    runs = [write_log(folder / f"base{i}.log", forward=steady(ms, seed=i)) for i, ms in enumerate(NOISY)]
    assert perfgate("baseline", "approve", *runs, "--reason", "first").code == 0
    return write_log(folder / "new.log", forward=steady(100, seed=99))


@pytest.mark.parametrize(
    ("settings", "at_worst", "code", "reason"),
    [
        ("", 0.1, 0, "interval"),
        ("at_worst: 20%", 0.2, 0, "interval"),
        ("at_worst: 5%", 0.05, 3, "cannot-exclude"),
        ("at_worst: 1% and 20 ms", 0.2, 3, None),  # the part of 1 % is below the tolerance
        ("at_worst: 20 ms", 0.2, 0, "interval"),
        ("at_worst: 5%, on_inconclusive: warn", 0.05, 3, "cannot-exclude"),
        ("at_worst: 5%, on_inconclusive: fail", 0.05, 1, "cannot-exclude"),
        ("at_worst: 5%, severity: warning", 0.05, 0, "cannot-exclude"),
    ],
)
def test_exit_0_excludes_a_change_of_at_worst(
    perfgate: Command, folder: Path, noisy: Path, settings: str, at_worst: float, code: int, reason: str | None
) -> None:
    write_rules(folder, "forward within 5% of baseline", head=f"defaults: {{{settings}}}\n")
    if reason is None:
        assert perfgate("check", noisy).code == 2
        return
    got, found = checked(perfgate, noisy)
    outcome = {0: "undecided" if "warning" in settings else "pass", 1: "fail", 3: "undecided"}[code]
    assert (got, found["outcome"], found["reason"]) == (code, outcome, reason)
    assert found["at_worst"] == pytest.approx(at_worst, rel=0.01)
    assert (found["not_excluded"] >= found["at_worst"]) == (reason == "cannot-exclude")


def test_a_doubt_is_said_with_its_size_and_a_way_out(perfgate: Command, folder: Path, noisy: Path) -> None:
    write_rules(folder, "forward within 5% of baseline", head="defaults: {at_worst: 5%}\n")
    said = " ".join(perfgate("check", noisy).out.split())
    assert "cannot be excluded: the rule accepts doubt up to 5%" in said
    assert "perfgate run --paired" in said


def test_exact_quantities_and_the_anchor_promise_as_before(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "memory within 1% of baseline", "forward within 9% of anchor")
    series = [
        {"metric": "memory", "unit": "B", "values": [4e9] * 60},
        {"metric": "forward", "unit": "ms", "values": steady(100)},
    ]
    base = write_results(folder / "base.json", *series)
    assert perfgate("baseline", "approve", base, "--reason", "first").code == 0
    assert perfgate("check", *same_code(base, 2)[1:]).code == 0  # one run a side is enough for both


@pytest.mark.parametrize(("at_worst", "code"), [("", 0), ("at_worst: 105 ms", 0), ("at_worst: 100.5 ms", 3)])
def test_at_worst_of_a_limit_is_a_value_beyond_it(perfgate: Command, folder: Path, at_worst: str, code: int) -> None:
    write_rules(folder, "forward median under 100.05 ms", head=f"defaults: {{{at_worst}}}\n" if at_worst else "")
    new = write_log(folder / "new.log", forward=steady(100, spread=0.1))
    got, found = checked(perfgate, new)
    assert (got, found["outcome"]) == (code, "undecided" if code else "pass")


@pytest.mark.parametrize(
    ("fields", "code", "promise"),
    [
        ("assert: share median under 50%", 0, None),  # the 20 % of the defaults is a size of changes
        ("{assert: share median under 50%, at_worst: 60%}", 0, "60%"),
        ("{assert: share median under 50%, at_worst: 40%}", 2, None),
        ("{assert: share median over 20%, at_worst: 10%}", 0, "10%"),
        ("assert: forward median under 150 ms", 0, None),
        ("{assert: forward median under 150 ms, at_worst: 4 ms}", 2, None),
        ("{assert: share under 50% and within 5% of anchor, at_worst: 6%}", 3, None),  # there is no anchor yet
    ],
)
def test_a_limit_uses_only_a_value_that_is_meant_for_it(
    perfgate: Command, folder: Path, fields: str, code: int, promise: str | None
) -> None:
    path = write_rules(folder, "forward under 1 s")
    head = "metrics: {share: forward / (forward + backward)}\ndefaults: {at_worst: 20% and 4 ms}\n"
    path.write_text(f"version: 1\n{head}rules:\n  - {fields}\n")
    new = write_log(folder / "new.log", forward=steady(100), backward=steady(200))
    assert perfgate("check", new).code == code
    explained = perfgate("rules", "explain").out
    assert ("exit 0 promises" in explained) == (promise is not None)
    assert f"exit 0 promises: {promise} or worse is excluded" in explained or promise is None


def test_a_promise_below_the_tolerance_is_a_mistake_with_its_place(perfgate: Command, folder: Path) -> None:
    path = write_rules(folder, "forward under 1 s")
    path.write_text("version: 1\nrules:\n  - assert: forward within 5% of baseline\n    at_worst: 4%\n")
    done = perfgate("check", write_run(folder / "new.json"))
    assert done.code == 2
    assert "rules/rules.yaml:4:15: error: at_worst 4% is below what `within 5% of baseline` tolerates" in done.said


def test_explain_and_diff_name_it(perfgate: Command, folder: Path) -> None:
    old = write_rules(folder, "forward within 5% of baseline", name="old/r.yaml")
    new = write_rules(folder, "forward within 5% of baseline", name="new/r.yaml", head="defaults: {at_worst: 8%}\n")
    explained = [perfgate("rules", "explain", "--rules", path.parent).out for path in (old, new)]
    for text, size in zip(explained, ("10%", "8%"), strict=True):
        assert f"exit 0 promises: a change of {size} or more is excluded at 95% confidence" in text
    assert "at_worst default → 8%" in perfgate("rules", "diff", "old", "new").out


# --- looks -------------------------------------------------------------------------------------------------------


@pytest.fixture
def steadily(perfgate: Command, folder: Path) -> list[Path]:
    """Four new runs of the same code as ten base runs."""
    write_rules(folder, "forward within 5% of baseline")
    approve_steady(perfgate, write_run(folder / "base.json"))
    return [write_run(folder / f"new{seed}.json", seed=seed) for seed in range(20, 24)]


@pytest.mark.parametrize(
    ("looks", "runs", "code"),
    [(None, 1, 0), (None, 3, 0), (None, 4, 0), (1, 1, 0), (1, 2, 2), (3, 3, 0), (3, 4, 2), (4, 4, 0)],
)
def test_more_runs_than_planned_are_refused(
    perfgate: Command, steadily: list[Path], looks: int | None, runs: int, code: int
) -> None:
    words = [] if looks is None else ["--looks", str(looks)]
    done = perfgate("check", *steadily[:runs], *words)
    assert done.code == code, done.said
    if code:
        assert f"--looks {looks}: {runs} runs given" in done.err


@pytest.mark.parametrize("looks", ["0", "-1", "101", "many", "1.5"])
def test_looks_is_a_number_from_1_to_100(perfgate: Command, steadily: list[Path], looks: str) -> None:
    done = perfgate("check", steadily[0], "--looks", looks)
    assert (done.code, "--looks" in done.err) == (2, True)


def test_one_planned_look_has_the_whole_error_rate(perfgate: Command, folder: Path, noisy: Path) -> None:
    """The same run is better known if nobody looks again."""
    _, one = checked(perfgate, noisy, "--looks", "1")
    _, three = checked(perfgate, noisy)
    _, many = checked(perfgate, noisy, "--looks", "20")
    assert one["not_excluded"] < three["not_excluded"] < many["not_excluded"]
