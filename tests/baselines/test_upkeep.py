"""`baseline diff`, `verify` and `prune`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Repository, write_run

Command = Callable[..., Done]


@pytest.fixture
def history(repository: Repository, perfgate: Command, folder: Path, clock: Callable[[], None]) -> Path:
    """Four levels of three runs each, and nothing beside them; the first is the anchor."""
    for prior in (folder / "baselines").glob("*/*/prior.json"):
        prior.unlink()
    for level in range(3):
        clock()
        paths = [write_run(folder / f"{level}-{i}.json", 90 - 10 * level, seed=10 * level + i) for i in range(3)]
        assert perfgate("baseline", "approve", *paths, "--reason", f"level {level}").code == 0
    return folder / "baselines"


def test_diff_compares_the_newest_level_with_what_it_replaced(history: Path, perfgate: Command) -> None:
    done = perfgate("baseline", "diff")
    assert done.code == 0
    assert "faster: forward" in done.out
    assert "-12." in done.out  # from 80 to 70 ms
    levels = [line.split(":")[0] for line in perfgate("baseline", "list").out.splitlines() if not line.startswith(" ")]
    whole = perfgate("baseline", "diff", levels[0], levels[-1])
    assert whole.code == 0
    assert "-30" in whole.out or "-29.9" in whole.out
    assert perfgate("baseline", "diff", "nowhere").code == 3


def test_prune_keeps_anchors_the_current_level_and_the_history(history: Path, perfgate: Command) -> None:
    before = sorted(history.rglob("*.json"))
    said = perfgate("baseline", "prune", "--dry-run").out
    assert said.count("would remove") == 4
    assert sorted(history.rglob("*.json")) == before
    listed = [line.split(",")[0].split(":")[0] for line in perfgate("baseline", "list").out.splitlines()]
    report = perfgate("check", "first1.json", "--json", "-").out
    assert perfgate("baseline", "prune").out.count("removed") == 4
    assert perfgate("baseline", "verify").code == 0
    assert [line.split(",")[0].split(":")[0] for line in perfgate("baseline", "list").out.splitlines()] == listed
    after = perfgate("check", "first1.json", "--json", "-").out
    assert json.loads(after)["verdicts"] == json.loads(report)["verdicts"]
    assert "nothing to remove" in perfgate("baseline", "prune").out


def test_expired_allowances_are_pruned(history: Path, perfgate: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--metric", "x", "--up-to", "5%", "--reason", "r", "--expires", "2026-02-01", "--head", "1" * 40]
    assert perfgate("baseline", "allow", *words).code == 0
    assert "_allowances" not in perfgate("baseline", "prune", "--dry-run").out
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1782864001")
    assert "_allowances" in perfgate("baseline", "prune").out


def test_verify_finds_nothing_wrong_with_what_commands_wrote(history: Path, perfgate: Command) -> None:
    done = perfgate("baseline", "verify")
    assert (done.code, done.out) == (0, "12 runs in 1 environment of baselines\n")


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda run: run.write_bytes(run.read_bytes()[:-20]), "damaged"),
        (lambda run: run.write_bytes(run.read_bytes().replace(b"H200", b"H100")), "altered"),
        (lambda run: (run.parent / "copy.json").write_bytes(run.read_bytes()), "is a copy of"),
        (lambda run: (run.parent / "copy.json").write_bytes(run.read_bytes().replace(b"\n", b"\r\n")), "is a copy of"),
        (lambda run: (run.parent / "notes.txt").write_text("x"), "not a baseline"),
        (lambda run: (run.parents[3] / "stray.json").write_text("{}"), "not a baseline"),
        (lambda run: run.rename(run.parents[1] / "up.json"), "not a baseline"),
        (lambda run: (run.parents[1] / "linked").symlink_to(run.parent), "links are not followed"),
        (lambda run: run.parent.rename(run.parents[1] / "renamed"), "was moved"),
        (lambda run: run.parents[1].rename(run.parents[2] / "other-environment"), ""),
    ],
)
def test_verify_names_what_is_wrong(
    history: Path, perfgate: Command, harm: Callable[[Path], object], said: str
) -> None:
    run = sorted(history.rglob("*.json"))[-1]
    harm(run)
    done = perfgate("baseline", "verify")
    assert said in " ".join(done.err.split())
    assert done.code == (3 if said else 0)  # what a folder of an environment is called does not matter
