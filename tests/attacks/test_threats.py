"""Attacks on a decision that no other file of tests holds off: see README.md beside this file for all of them."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, Repository, ends, steady, write_results, write_rules, write_run

from perfgate.readers import Source, read
from perfgate.rules.load import load_rules
from perfgate.rules.syntax.sentence import glob_matches

Command = Callable[..., Done]

# --- numbers that are none --------------------------------------------------------------------------------------

GOOD = ", ".join(["0.5"] * 20)
#: What is no time, as each of the writers would print it.
BAD = ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "-0.5", "true", "null", '"0.5"', "9" * 5000]
FORMS = {
    "results": '{"schema": "perfgate.results/1", "series": [{"metric": "f", "unit": "s", "values": [%s, %s]}]}',
    "timeit": '{"f": {"computation": "f", "times": [%s, %s]}}',
    "timeit in a log": 'result: {"computation": "f", "times": [%s, %s]}\n',
    "hyperfine": '{"results": [{"command": "f", "mean": 0.5, "times": [%s, %s]}]}',
    "pytest-benchmark": '{"machine_info": {}, "benchmarks": [{"fullname": "f", "stats": {"data": [%s, %s]}}]}',
}


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad[:9])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_number_never_passes(perfgate: Command, folder: Path, form: str, bad: str) -> None:
    write_rules(folder, "f under 1 h")
    (folder / "run").write_text(FORMS[form] % (GOOD, "0.25"))
    assert perfgate("check", "run").code == 0
    (folder / "run").write_text(FORMS[form] % (GOOD, bad))
    done = perfgate("check", "run")
    assert (done.code, "run:" in done.said) == (3, True), done.said


@pytest.mark.parametrize("unit", ["s", "1/s"])
def test_nothing_is_a_share_of_zero(perfgate: Command, folder: Path, unit: str) -> None:
    write_rules(folder, "gain within 5% of baseline")
    rows = [{"metric": "gain", "unit": unit, "values": values} for values in ([0.0] * 9, steady(1.0))]
    perfgate("baseline", "approve", write_results(folder / "base.json", rows[0]), "--reason", "x")
    assert perfgate("check", write_results(folder / "new.json", rows[1])).code in (1, 3)


# --- globs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("glob", ["*a" * 40 + "b", "a*" * 60, "*[a]" * 40 + "?" * 40, "?*" * 50 + "b"])
def test_a_pathological_glob_ends(glob: str) -> None:
    ruleset, problems = load_rules([("rules.yaml", f"version: 1\nrules:\n  - '{glob} under 1 s'\n".encode())])
    assert ruleset is not None, problems
    with ends():
        assert isinstance(glob_matches(glob, "a" * 2000), bool)


# --- a baseline that was made bad ---------------------------------------------------------------------------------


def test_a_noisy_run_is_said_before_it_widens_every_interval(
    repository: Repository, perfgate: Command, folder: Path
) -> None:
    values = [100.0 * random.Random(i).choice([0.3, 1, 1, 1, 4]) for i in range(400)]
    row = {"metric": "forward", "unit": "ms", "values": values}
    facts = {"gpu": "H200", "gpu_count": 1, "world_size": 1}
    write_rules(folder, "forward within 5% of baseline")
    noisy = write_results(folder / "noisy.json", row, environment=facts)
    done = perfgate("baseline", "add", noisy)
    assert (done.code, "this run widens every later interval" in " ".join(done.out.split())) == (0, True)
    calm = perfgate("baseline", "add", write_run(folder / "calm.json", seed=8))
    assert (calm.code, "wrote" in calm.out) == (0, True)


@pytest.mark.parametrize("forward", [50, 80, 94])
def test_a_lucky_run_does_not_move_what_is_held_to(
    repository: Repository, perfgate: Command, folder: Path, forward: float
) -> None:
    """One run of three that was fast by accident: what is as it always was does not fail."""
    assert perfgate("baseline", "add", write_run(folder / "lucky.json", forward, seed=8)).code == 0
    assert perfgate("check", write_run(folder / "usual.json", seed=9)).code in (0, 3)


def test_noise_that_a_pull_request_brings_along_hides_nothing(
    repository: Repository, perfgate: Command, folder: Path
) -> None:
    """Calibrated on runs of other code, the noise is so large that nothing fails: the base's noise decides."""
    slow = write_run(folder / "slow.json", 110, seed=9)
    wild = [write_run(folder / f"wild{i}.json", 100 * 1.5**i, seed=30 + i) for i in range(5)]
    assert perfgate("check", slow).code == 1
    assert perfgate("rules", "--calibrate", *wild).code == 0
    assert perfgate("check", slow).code != 1
    done = perfgate("check", slow, "--policy-ref", "main")
    assert (done.code, "alters baselines/default/" in done.out, "not used" in done.out) == (1, True, True)


def test_no_chain_of_approvals_leaves_the_budget(
    repository: Repository, perfgate: Command, folder: Path, clock: Callable[[], None]
) -> None:
    """Whatever steps are tried, in whatever order: what was accepted stays within 12 % of the anchor."""
    accepted = []
    for i, forward in enumerate((104, 125, 99, 109, 116, 111.5, 90, 113, 111.9, 200, 107)):
        clock()
        run = write_run(folder / f"step{i}.json", forward, seed=20 + i)
        done = perfgate("baseline", "approve", run, "--reason", f"step {i}")
        assert done.code == (0 if forward <= 112 else 1), (forward, done.said)
        accepted += [forward] if done.code == 0 else []
    assert accepted
    assert max(accepted) <= 112
    assert perfgate("baseline", "verify").code == 0


# --- time of check ------------------------------------------------------------------------------------------------


def test_a_ref_that_moves_meanwhile_decides_nothing(
    repository: Repository, perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from perfgate.commands import preparing

    slow = write_run(folder / "slow.json", 130, seed=9)
    expected = json.loads(perfgate("check", slow, "--policy-ref", "main", "--json", "-").out)
    assert expected["exit_code"] == 1
    reading = preparing.read_facts

    def moved(options: Any) -> Any:
        write_rules(folder, "forward under 1 h")
        shutil.rmtree(folder / "baselines" / "default")
        repository.commit("rules that allow everything, while a check is under way")
        return reading(options)

    monkeypatch.setattr(preparing, "read_facts", moved)
    found = json.loads(perfgate("check", slow, "--policy-ref", "main", "--json", "-").out)
    assert found["verdicts"] == expected["verdicts"]
    assert found["policy"]["rules_sha256"] == expected["policy"]["rules_sha256"]
    assert found["policy"]["baselines_sha256"] == expected["policy"]["baselines_sha256"]


@pytest.fixture
def replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that is another one as soon as it has been read."""
    from perfgate.commands import preparing

    run, reading = write_run(folder / "run.json", seed=9), preparing.read_facts

    def swapped(options: Any) -> Any:
        write_run(run, 50, seed=10)
        return reading(options)

    monkeypatch.setattr(preparing, "read_facts", swapped)
    return run


def test_the_hash_is_that_of_the_bytes_that_were_judged(
    repository: Repository, perfgate: Command, replaced: Path
) -> None:
    digest = hashlib.sha256(replaced.read_bytes()).hexdigest()
    report = json.loads(perfgate("check", replaced, "--json", "-").out)
    assert [file["sha256"] for file in report["inputs"]] == [digest]
    assert report["verdicts"][0]["new"]["estimate"] == pytest.approx(0.1, rel=0.01)


def test_what_is_proposed_is_what_was_judged(repository: Repository, perfgate: Command, replaced: Path) -> None:
    done = perfgate("check", replaced, "--propose", "proposal")
    assert (done.code, "has changed since it was judged" in " ".join(done.err.split())) == (3, True)
    assert not list(Path("proposal").rglob("*.json"))


def test_standard_input_is_read_once(repository: Repository, perfgate: Command) -> None:
    done = perfgate("check", "-", "--propose", "proposal")
    assert (done.code, "give a file" in done.err) == (2, True), done.said


def test_numbers_of_thousands_of_digits_end(folder: Path) -> None:
    for text in (f'{{"times": [{"9" * 100_000}]}}', "9" * 100_000, f"[Rank 0] time (ms) | f: {'9' * 100_000}\n"):
        with ends():
            runs = read(Source("run", [text.encode()]))
        assert all(any(problem.severity == "error" for problem in run.problems) for run in runs)
