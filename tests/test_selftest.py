"""`perfgate rules`: a rule that can fail is shown to, and one that cannot is named with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, approve_steady, steady, write_log, write_results, write_rules, write_run

Command = Callable[..., Done]

RANKS = [{"forward": steady(100, seed=1)}, {"forward": steady(101, seed=2)}, {"forward": steady(102, seed=3)}]


def proofs(perfgate: Command, *words: str | Path) -> tuple[int, list[dict[str, Any]]]:
    done = perfgate("rules", *words, "--json")
    document = json.loads(done.out)
    assert (document["schema"], document["exit_code"]) == ("perfgate.rules/1", done.code)
    return done.code, document["tables"][0]["proofs"]


@pytest.fixture
def new(folder: Path) -> Path:
    """A run of many kinds of metrics, on three ranks where that matters."""
    series: list[dict[str, Any]] = [
        {"metric": "forward", "unit": "ms", "labels": {"rank": str(rank)}, "values": columns["forward"]}
        for rank, columns in enumerate(RANKS)
    ]
    series += [
        {"metric": "backward", "unit": "ms", "labels": {"rank": str(rank)}, "values": steady(200, seed=rank)}
        for rank in range(3)
    ]
    series += [
        {"metric": "samples_per_second", "unit": "samples/s", "values": steady(900)},
        {"metric": "memory", "unit": "B", "values": [4e9] * 60},
        {"metric": "exposed", "unit": "s", "values": [0.0] * 60},
        {"metric": "load", "unit": "s", "aggregate": {"mean": 0.2, "count": 40, "total": 8.0}},
        {"metric": "loss", "unit": "1", "values": steady(3)},
    ]
    return write_results(folder / "new.json", *series, environment={"gpu": "H200"})


#: The kinds of rules whose kin are tried always.
_SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("sentence", "low", "high"),
    [
        ("forward within 5% of baseline", 0.05, 0.12),
        pytest.param("forward within ±5% of baseline", 0.05, 0.12, marks=_SLOW),
        pytest.param("forward within 5% and 20 ms of baseline", 0.2, 0.3, marks=_SLOW),
        ("forward within 5% of baseline and within 10% of anchor", 0.05, 0.3),
        ("samples_per_second within 5% of baseline", -0.12, -0.05),
        pytest.param("samples_per_second at least 95% of baseline", -0.12, -0.05, marks=_SLOW),
        pytest.param("memory within 1% of baseline", 0.01, 0.012, marks=_SLOW),
        ("load within 5% of baseline", 0.05, 0.15),
        pytest.param("forward* within 5% of baseline", 0.05, 0.12, marks=_SLOW),
        ("forward median under 0.15 s", 0.15, 0.16),
        ("forward p95 on each rank under 150 ms", 0.15, 0.16),
        pytest.param("forward p90 across ranks under 150 ms", 0.15, 0.16, marks=_SLOW),
        ("samples_per_second over 500 samples/s", 450, 500),
        pytest.param("exposed median under 1 ms", 0.001, 0.0011, marks=_SLOW),
        ("forward cv under 10%", 0.1, 2),
        pytest.param("forward stddev under 20 ms", 0.02, 0.03, marks=_SLOW),
        ("p99(forward) / p50(forward) under 3", 3, 20),
        pytest.param("forward / (forward + backward) under 50%", 0.5, 0.7, marks=_SLOW),
        ("share median under 50%", 0.5, 0.7),
        ("forward count at most 500", 500, 1000),
        pytest.param("forward count at least 100", 20, 100, marks=_SLOW),
        ("forward max under 1 s", 1, 1.1),
    ],
)
def test_a_rule_is_shown_to_fail_just_beyond_what_it_allows(
    perfgate: Command, folder: Path, new: Path, sentence: str, low: float, high: float
) -> None:
    write_rules(folder, sentence, head="metrics:\n  share: forward / (forward + backward)\n")
    approve_steady(perfgate, new)
    code, found = proofs(perfgate, new)
    assert (code, {proof["state"] for proof in found}) == (0, {"proven"}), found
    assert all(low <= proof["fails_at"] <= high and proof["misses"] for proof in found)


def test_unchanged_runs_whose_noise_is_unknown_are_blocked(perfgate: Command, folder: Path, new: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    code, (proof,) = proofs(perfgate, new)
    assert (code, proof["state"], proof["exit_code"]) == (3, "blocked", 3)
    assert "2 runs of both sides do not show the noise between runs" in proof["reason"]


def test_ranks_against_each_other_fail_by_one_rank_alone(perfgate: Command, folder: Path, new: Path) -> None:
    write_rules(folder, "forward median on the slowest rank at most 1.1x the median rank")
    code, (proof,) = proofs(perfgate, new)
    assert (code, proof["state"]) == (0, "proven")


@pytest.mark.parametrize(
    ("fields", "state", "code", "said"),
    [
        ("assert: forward at least 0 ms", "unable", 1, "never below 0"),
        ("assert: samples_per_second within 100% of baseline", "unable", 1, "100% or more"),
        ("{assert: forwrad under 1 s, on_missing: skip}", "unable", 1, "nearest names are forward"),
        ("{assert: forward under 1 s, on_missing: warn}", "by-choice", 1, "on_missing: warn"),
        ("{assert: forward under 1 s, severity: warning}", "by-choice", 1, "severity: warning"),
        ("{assert: forward under 1 s, when: {gpu: A100}}", "by-choice", 1, "here it is H200"),
        (
            "{assert: forward under 1 s, expect_fail: {reason: known, until: 2026-02-01}}",
            "by-choice", 1, "expected to fail until",
        ),
        ("assert: forwrad under 1 s", "blocked", 3, "nearest names are forward"),
        ("assert: forward under 50 ms", "blocked", 1, "unchanged, it is fail"),
        ("{assert: forward p99.9 under 1 s, on_inconclusive: error}", "blocked", 3, "unchanged, it is undecided"),
        ("{assert: forward under 1 s, when: {driver: 5*}}", "blocked", 3, "driver is unknown"),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_fail_is_named_with_the_reason(
    perfgate: Command, folder: Path, new: Path, fields: str, state: str, code: int, said: str
) -> None:
    path = write_rules(folder, "forward under 1 s")
    path.write_text(f"version: 1\nrules:\n  - {fields}\n")
    approve_steady(perfgate, new)
    found, (proof,) = proofs(perfgate, new)
    assert (found, proof["state"]) == (code, state), proof
    assert said in proof["reason"]
    table = perfgate("rules", new).out
    assert "rules/rules.yaml:3:" in table


def test_what_its_author_made_a_warning_does_not_fail_the_test(perfgate: Command, folder: Path, new: Path) -> None:
    (folder / "rules").mkdir()
    (folder / "rules" / "r.yaml").write_text(
        "version: 1\nrules:\n  - forward under 1 s\n  - {assert: loss under 9, severity: warning}\n"
    )
    code, found = proofs(perfgate, new)
    assert (code, [proof["state"] for proof in found]) == (0, ["proven", "by-choice"])


def test_a_tail_that_is_never_settled_is_unable(perfgate: Command, folder: Path) -> None:
    new = write_log(folder / "new.log", forward=steady(100, n=30))
    (folder / "rules").mkdir()
    (folder / "rules" / "r.yaml").write_text(
        "version: 1\nrules:\n  - {assert: forward p99 within 5% of baseline, on_inconclusive: warn}\n"
    )
    approve_steady(perfgate, new)
    code, (proof,) = proofs(perfgate, new)
    assert (code, proof["state"]) == (1, "unable")
    assert "on_inconclusive: warn" in proof["reason"]


def test_the_stored_baseline_is_used_and_nothing_is_written(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    base = write_run(folder / "base.json")
    write_run(folder / "slow.json", forward=130, seed=2)
    assert "these runs themselves" in perfgate("rules", "base.json").out
    approve_steady(perfgate, base)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert "tested against baseline default/" in perfgate("rules", "base.json").out
    code, (proof,) = proofs(perfgate, "slow.json")
    assert (code, proof["state"]) == (1, "blocked")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_newest_level_of_some_metrics_is_tested_with_the_others_of_the_level_before(
    perfgate: Command, folder: Path
) -> None:
    write_rules(folder, "forward within 5% of baseline", "backward within 5% of baseline")
    approve_steady(perfgate, write_run(folder / "base.json"))
    adopted = write_run(folder / "slow.json", forward=110, seed=2)
    assert perfgate("baseline", "approve", adopted, "--adopt", "forward", "--reason", "slower").code == 0
    (_, backward) = proofs(perfgate)[1]
    assert (backward["state"], "has no metric" in perfgate("rules", "explain", "backward").out) == ("proven", False)


def test_an_allowance_proves_nothing(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    approve_steady(perfgate, write_run(folder / "base.json"))
    words = ["--metric", "forward", "--up-to", "900%", "--reason", "x", "--expires", "2027-01-01", "--head", "a" * 40]
    assert perfgate("baseline", "allow", *words).code == 0
    assert perfgate("rules", "base.json", "--head", "a" * 40).code == 0


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [("forward undr 1 s", 2, "rules/rules.yaml:3"), ("forward under 1 s", 3, "cannot be tested with")],
)
def test_what_cannot_be_read_is_said(perfgate: Command, folder: Path, text: str, code: int, said: str) -> None:
    write_rules(folder, text)
    (folder / "new.log").write_text("nothing\n")
    done = perfgate("rules", "new.log")
    assert (done.code, said in done.err) == (code, True)


@pytest.mark.parametrize("columns", [60, 100])
def test_the_table_fits_and_can_be_plain(
    perfgate: Command, folder: Path, new: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    write_rules(folder, "forward within 5% of baseline", "forward at least 0 ms")
    monkeypatch.setenv("COLUMNS", str(columns))
    approve_steady(perfgate, new)
    done = perfgate("rules", new)
    assert max(map(len, done.out.splitlines())) <= columns
    assert done.out.splitlines()[-1] == "FAIL  1 cannot fail, 1 can fail (exit 1)"


def test_it_names_the_rules_that_see_one_more_call(perfgate: Command, folder: Path) -> None:
    counts = {
        "work.syncs": 0,
        "work.kernels": 250,
        "work.launches": 250,
        "work.allocations": 0,
        "work.device_time": 0.02,
    }
    series = [
        {"metric": name, "unit": "s" if name.endswith("time") else "count", "values": [value] * 5}
        for name, value in counts.items()
    ]
    new = write_results(folder / "new.json", *series)
    write_rules(folder, "no more work than baseline", "work.syncs at most 0")
    done = perfgate("rules", new, "--json")
    found = {one["what"]: one["rules"] for one in json.loads(done.out)["tables"][0]["added"]}
    every = "no more work than baseline"
    assert (done.code, found) == (
        0,
        {
            "a kernel and its launch": [every],
            "a synchronisation": [every, "work.syncs at most 0"],
            "an allocation": [every],
            "2% of device time": [],
        },
    )
    assert "    2% of device time: none\n" in perfgate("rules", new).out
