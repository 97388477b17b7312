"""`perfgate rules --calibrate`: what it measures, what it stores, and what check makes of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Done, steady, write_log, write_results, write_rules
from hypothesis import given
from hypothesis import strategies as st

from perfgate import calibrate_prior
from perfgate.baselines.files import PRIOR, PriorFile, StoredPrior

Command = Callable[..., Done]
RUNS = [f"run{i}.log" for i in range(8)]


@pytest.fixture
def gate(perfgate: Command, folder: Path) -> Command:
    """Eight unchanged runs whose forward differs by 3 % from run to run, of which two are the baseline."""
    rng = np.random.default_rng(3)
    for i, name in enumerate(RUNS):
        centre = 100 * math.exp(0.03 * rng.standard_normal())
        write_log(folder / name, forward=steady(centre, seed=i), step=steady(10, seed=90 + i))
    write_rules(folder, "forward within 5% of baseline", "step p90 within 5% of baseline", "step under 12 ms")
    perfgate("baseline", "approve", *RUNS[:2], "--reason", "first")
    return perfgate


def prior_file(folder: Path) -> Path:
    (path,) = folder.glob("baselines/*/*/prior.json")
    return path


def verdict(gate: Command, *words: str) -> dict[str, object]:
    done = gate("check", *words, "--only", "forward", "--json", "-")
    return json.loads(done.out)["verdicts"][0]


def test_what_is_stored_is_what_the_public_function_says(gate: Command, folder: Path) -> None:
    done = gate("rules", "--calibrate", *RUNS)
    assert done.code == 0
    stored = json.loads(prior_file(folder).read_text())
    rows = {row["metric"]: row for row in stored["priors"]}
    rng = np.random.default_rng(3)
    values = [steady(100 * math.exp(0.03 * rng.standard_normal()), seed=i) for i in range(8)]
    expected = calibrate_prior(values)
    assert set(rows) == {"forward", "step"}
    assert rows["forward"]["s0"] == pytest.approx(expected.s0, rel=1e-3)  # the log holds four decimals
    assert (rows["forward"]["d0"], rows["forward"]["runs"], rows["step"]["statistic"]) == (8, 8, "p90")
    assert [source["path"] for source in stored["sources"]] == RUNS
    assert f"{100 * expected.s0:.3g}% from run to run (measured on 8 runs, prior degrees of freedom 8)" in done.out


def test_the_bytes_are_deterministic(gate: Command, folder: Path) -> None:
    gate("rules", "--calibrate", *RUNS)
    first = prior_file(folder).read_bytes()
    gate("rules", "--calibrate", *RUNS)
    assert prior_file(folder).read_bytes() == first


def test_check_believes_it_and_no_longer_says_that_the_noise_is_assumed(gate: Command) -> None:
    before = verdict(gate, RUNS[7])
    gate("rules", "--calibrate", *RUNS)
    after = verdict(gate, RUNS[7])
    assert any("not calibrated" in note for note in before["notes"])
    assert not any("not calibrated" in note for note in after["notes"])
    assert after["change"]["high"] - after["change"]["low"] != before["change"]["high"] - before["change"]["low"]
    assert after["change"]["estimate"] == before["change"]["estimate"]


def test_the_policy_hash_covers_the_prior(gate: Command) -> None:
    def sha256() -> str:
        return json.loads(gate("check", RUNS[7], "--json", "-").out)["policy"]["baselines_sha256"]

    before = sha256()
    gate("rules", "--calibrate", *RUNS)
    assert sha256() != before


def test_a_limit_over_several_runs_is_not_moved_by_noise_that_was_calibrated(gate: Command, folder: Path) -> None:
    """The prior of a change says how runs differ; the interval of a limit weighs the inside of runs only."""
    write_rules(folder, "forward mean under 110 ms", "forward mean within 5% of baseline")
    before = gate("check", *RUNS[5:], "--json", "-")
    gate("rules", "--calibrate", *RUNS)
    after = gate("check", *RUNS[5:], "--json", "-")
    limits = [json.loads(done.out)["verdicts"][0]["new"] for done in (before, after)]
    assert limits[0] == limits[1]


def test_list_and_show_tell_of_it(gate: Command) -> None:
    gate("rules", "--calibrate", *RUNS)
    assert "prior.json: noise of 2 metrics, measured 2026-01-01" in gate("baseline", "list").out
    shown = gate("baseline", "show", "default").out
    assert "forward median: " in shown
    assert "step p90: " in shown


def test_each_rank_has_one_prior_and_the_worst_rank_another(perfgate: Command, folder: Path) -> None:
    rng = np.random.default_rng(5)
    for i in range(6):
        ranks = [{"forward": steady(100 * math.exp(0.02 * rng.standard_normal()), seed=2 * i + r)} for r in (0, 1)]
        write_log(folder / f"run{i}.log", ranks)
    write_rules(folder, "forward on each rank within 5% of baseline", "forward within 5% of baseline")
    done = perfgate("rules", "--calibrate", *RUNS[:6])
    assert done.code == 0
    rows = json.loads(prior_file(folder).read_text())["priors"]
    assert [(row["metric"], row["rank"]) for row in rows] == [("forward", "each"), ("forward", "worst")]
    assert "forward median on each rank: " in done.out


# --- stored runs -------------------------------------------------------------------------------------------------


def test_without_runs_the_stored_ones_are_taken_level_by_level(gate: Command, folder: Path) -> None:
    """Three levels far apart: their distance is no noise."""
    for i, names in enumerate((RUNS[2:5], RUNS[5:8])):
        for name in names:
            values = [float(line.split()[-1]) * (2 + i) for line in (folder / name).read_text().splitlines()[1::2]]
            write_log(folder / f"slower-{name}", forward=values, step=values)
        assert gate("baseline", "approve", *(f"slower-{name}" for name in names), "--reason", "slower").code == 0
    (advice,) = [note for note in verdict(gate, RUNS[7])["notes"] if "not calibrated" in note]
    assert "`perfgate rules --calibrate` measures it from the stored runs" in advice
    done = gate("rules", "--calibrate")
    assert done.code == 0, done.said
    (row, _) = json.loads(prior_file(folder).read_text())["priors"]
    assert (row["metric"], row["runs"], row["d0"]) == ("forward", 8, 7)  # of 2 + 3 + 3 runs, five differences
    assert row["s0"] < 0.1
    assert "noise of 2 metrics" in gate("baseline", "list").out
    assert not any("not calibrated" in note for note in verdict(gate, RUNS[7])["notes"])


def test_stored_runs_of_every_environment_with_enough_of_them(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    for gpu, count in (("A", 5), ("B", 6), ("C", 2)):
        names = [f"{gpu}{i}.json" for i in range(count)]
        for i, name in enumerate(names):
            series = {"metric": "forward", "unit": "ms", "values": steady(100 + i, seed=i)}
            write_results(folder / name, series, environment={"gpu": gpu})
        assert perfgate("baseline", "approve", *names, "--reason", "first").code == 0
    done = perfgate("rules", "--calibrate")
    assert (done.code, done.out.count("wrote ")) == (0, 2)
    assert "2 runs stored, but 5 are needed" in done.out
    alone = perfgate("rules", "--calibrate", "--env", "gpu=B")
    assert (alone.code, alone.out.count("wrote "), "measured on 6 runs" in alone.out) == (0, 1, True)
    priors = sorted(folder.glob("baselines/*/*/prior.json"))
    before = [path.stat().st_mtime_ns for path in priors]
    damaged = next(iter(priors[0].parent.glob("*/*.json")))
    damaged.write_bytes(damaged.read_bytes()[:-40])
    refused = perfgate("rules", "--calibrate")
    assert (refused.code, damaged.name in refused.said) == (3, True)
    assert [path.stat().st_mtime_ns for path in priors] == before


def test_too_few_stored_runs_and_none_are_said(gate: Command, folder: Path) -> None:
    done = gate("rules", "--calibrate")
    assert (done.code, "2 runs stored, but 5 are needed" in done.said) == (3, True)
    none = gate("rules", "--calibrate", "--baselines", "elsewhere")
    assert (none.code, "no stored runs of suite default" in none.said) == (3, True)
    assert not list(folder.glob("baselines/*/*/prior.json"))


def test_a_damaged_stored_run_is_named(gate: Command, folder: Path) -> None:
    gate("baseline", "add", *RUNS[2:7])
    path = next(iter(folder.glob("baselines/*/*/*/*.json")))
    path.write_bytes(path.read_bytes()[:-40])
    done = gate("rules", "--calibrate")
    assert (done.code, path.name in done.said) == (3, True)
    assert not list(folder.glob("baselines/*/*/prior.json"))


# --- pairs -------------------------------------------------------------------------------------------------------


def write_pairs(folder: Path, count: int, spread: float, pairing: str = "in-turn", slower: float = 0.0) -> list[str]:
    """Files of pairs of which base and new differ by chance, and by so much."""
    names = [f"{pairing}-{i}.json" for i in range(count)]
    rng = np.random.default_rng(7)
    for i, name in enumerate(names):
        drawn = (1 + slower) * math.exp(spread * rng.standard_normal())
        rows = (("base", steady(100, seed=i)), ("new", [drawn * value for value in steady(100, seed=i)]))
        series = [
            {
                "metric": "forward",
                "unit": "ms",
                "values": list(values),
                "labels": {"side": side, "pair": str(i), "pairing": pairing},
            }
            for side, values in rows
        ]
        write_results(folder / name, *series)
    return names


def test_unchanged_pairs_show_the_noise_between_pairs(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 3% of baseline")
    pairs = write_pairs(folder, 12, 0.04)
    before = verdict(perfgate, *pairs[:3])
    done = perfgate("rules", "--calibrate", *pairs)
    assert done.code == 0, done.said
    assert "from pair to pair (measured on 12 pairs, prior degrees of freedom 8)" in done.out
    (path,) = folder.glob("baselines/*/*/*.json")
    stored = json.loads(path.read_text())
    assert (path.name, stored["pairing"]) == ("prior-in-turn.json", "in-turn")
    assert 0.02 < stored["priors"][0]["s0"] < 0.05
    after = verdict(perfgate, *pairs[:3])
    assert after["change"]["high"] < before["change"]["high"]  # three pairs alone show less
    assert after["change"]["estimate"] == before["change"]["estimate"]
    assert any("measured on 12 pairs" in note for note in after["notes"])
    assert "prior-in-turn.json: noise of 1 metric" in perfgate("baseline", "list").out


def test_each_way_of_pairing_has_noise_of_its_own_and_runs_have_theirs(gate: Command, folder: Path) -> None:
    gate("rules", "--calibrate", *RUNS)
    between_runs = prior_file(folder).read_bytes()
    in_turn, one_process = write_pairs(folder, 6, 0.04), write_pairs(folder, 6, 0.01, "one-process")
    before = verdict(gate, *one_process)
    assert gate("rules", "--calibrate", *in_turn).code == 0
    assert verdict(gate, *one_process) == before
    assert gate("rules", "--calibrate", *one_process).code == 0
    assert verdict(gate, *one_process)["change"] != before["change"]
    assert prior_file(folder).read_bytes() == between_runs
    assert {path.name for path in folder.glob("baselines/*/*/prior*.json")} == {
        *("prior.json", "prior-in-turn.json", "prior-one-process.json")
    }
    assert gate("baseline", "verify").code == 0


def test_noise_of_pairs_by_another_name_is_refused(gate: Command, folder: Path) -> None:
    gate("rules", "--calibrate", *write_pairs(folder, 6, 0.04))
    (path,) = folder.glob("baselines/*/*/prior-in-turn.json")
    for name, what in (("prior.json", "check"), ("prior-one-process.json", "verify")):
        path = path.rename(path.with_name(name))
        done = gate("check", RUNS[7]) if what == "check" else gate("baseline", "verify")
        assert (done.code, "was moved: it is the noise between pairs (in-turn)" in " ".join(done.said.split())) == (
            3,
            True,
        )


def test_too_few_pairs_and_pairs_beside_runs_are_refused(gate: Command, folder: Path) -> None:
    pairs = write_pairs(folder, 5, 0.04)
    done = gate("rules", "--calibrate", *pairs[:4])
    assert (done.code, "needs 5 or more pairs of the same code, but there are 4" in done.said) == (2, True)
    write_results(folder / "run.json", {"metric": "forward", "unit": "ms", "values": list(steady(100))})
    mixed = gate("rules", "--calibrate", *pairs, "run.json")
    assert (mixed.code, "give pairs or runs, not both" in mixed.said) == (2, True)
    document = json.loads((folder / pairs[4]).read_text())
    (folder / pairs[4]).write_text(json.dumps({**document, "series": document["series"][:1]}))
    lame = gate("rules", "--calibrate", *pairs)
    assert (lame.code, "has no new side" in lame.said) == (3, True)
    assert not list(folder.glob("baselines/*/*/prior*.json"))


# --- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runs", "rule", "code", "said"),
    [
        (RUNS[:4], "forward within 5% of baseline", 2, "needs 5 or more runs of the same code, but there are 4"),
        (RUNS, "forward under 1 s", 3, "no rule compares with stored runs"),
        (RUNS, "forwrad within 5% of baseline", 3, "no run has a metric of `forwrad within 5% of baseline`"),
        (RUNS, "forward count within 5% of baseline", 3, "compared without noise"),
        ([*RUNS[:7], "short.log"], "backward within 5% of baseline", 3, "1 run of 8 can be used, and 5 are needed"),
        (
            RUNS,
            "p99.9(forward) / p50(forward) within 5% of baseline",
            3,
            'p99.9 of forward{rank="0"} needs 1000 values',
        ),
        ([*RUNS[:7], "nan.log"], "forward within 5% of baseline", 3, "cannot become a baseline"),
        ([*RUNS[:4], RUNS[0]], "forward within 5% of baseline", 2, "given twice"),
    ],
)
def test_what_is_refused_stores_nothing(
    gate: Command, folder: Path, runs: list[str], rule: str, code: int, said: str
) -> None:
    write_log(folder / "short.log", forward=steady(100), backward=steady(5))
    (folder / "nan.log").write_text("[Rank 0] time (ms) | forward: nan\n" * 9)
    write_rules(folder, rule)
    done = gate("rules", "--calibrate", *runs)
    assert done.code == code
    assert said in " ".join(done.said.split())
    assert not list(folder.glob("baselines/*/*/prior.json"))


def test_a_metric_in_two_units_is_no_calibration(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "speed within 5% of baseline")
    for i in range(6):
        unit = "ms" if i else "tokens/s"
        write_results(folder / f"{i}.json", {"metric": "speed", "unit": unit, "values": steady(100, seed=i)})
    done = perfgate("rules", "--calibrate", *(f"{i}.json" for i in range(6)))
    assert (done.code, "it has different units: 1/s and s" in done.err) == (3, True)


def test_runs_of_two_machines_are_no_calibration(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    for i in range(6):
        series = {"metric": "forward", "unit": "ms", "values": steady(100, seed=i)}
        write_results(folder / f"{i}.json", series, environment={"gpu": "A" if i else "B"})
    done = perfgate("rules", "--calibrate", *(f"{i}.json" for i in range(6)))
    assert (done.code, "different environments" in done.err) == (3, True)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[: len(data) // 2], "is damaged"),
        (lambda data: b"", "is damaged"),
        (lambda data: b"\xff\xfe", "not UTF-8"),
        (lambda data: data.replace(b'"d0": 8', b'"d0": 7'), "was altered after it was written"),
        (lambda data: data.replace(b"prior/1", b"prior/2"), "this perfgate reads perfgate.prior/1"),
        (lambda data: b"[]", "has the schema None"),
        (lambda data: data.replace(b'"metric": "step"', b'"metric": 7'), "'metric' is a whole number, not text"),
    ],
)
def test_a_damaged_prior_is_named_and_never_skipped(
    gate: Command, folder: Path, damage: Callable[[bytes], bytes], said: str
) -> None:
    gate("rules", "--calibrate", *RUNS)
    path = prior_file(folder)
    path.write_bytes(damage(path.read_bytes()))
    for words in (("check", RUNS[7]), ("baseline", "list"), ("baseline", "add", RUNS[7])):
        done = gate(*words)
        text = " ".join(done.said.split())
        assert done.code == 3, words
        assert "prior.json" in text
        assert said in text
        assert "perfgate rules --calibrate" in text


def test_a_prior_of_another_machine_or_suite_is_refused(gate: Command, folder: Path) -> None:
    gate("rules", "--calibrate", *RUNS)
    stored, _ = PRIOR.decode("prior.json", prior_file(folder).read_bytes())
    assert stored is not None
    for change, said in (({"identity": {"gpu": "H200"}}, "another environment"), ({"suite": "other"}, "was moved")):
        fields = {name: getattr(stored, name) for name in stored.__struct_fields__}
        prior_file(folder).write_bytes(PRIOR.encode(PriorFile(**{**fields, **change})))
        done = gate("check", RUNS[7])
        assert (done.code, said in " ".join(done.out.split())) == (3, True)


def test_a_linked_prior_is_refused(gate: Command, folder: Path) -> None:
    gate("rules", "--calibrate", *RUNS)
    path = prior_file(folder)
    path.rename(folder / "elsewhere.json")
    path.symlink_to(folder / "elsewhere.json")
    done = gate("check", RUNS[7])
    assert (done.code, "links are not followed" in " ".join(done.out.split())) == (3, True)


# --- the form ----------------------------------------------------------------------------------------------------

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
POSITIVE = st.floats(1e-6, 1e6)
ROWS = st.lists(
    st.builds(
        lambda metric, label, s0, d0: StoredPrior(metric, {"rank": label}, "median", "worst", s0, d0, 5),
        *(NAMES, NAMES, POSITIVE, POSITIVE),
    ),
    max_size=3,
    unique_by=lambda row: row.metric,
)


@given(ROWS)
def test_what_was_written_is_read_back(rows: list[StoredPrior]) -> None:
    stored = PriorFile("perfgate.prior/1", "perfgate", "default", "2026-01-01T00:00:00Z", {"gpu": None}, [], rows)
    found, problems = PRIOR.decode("prior.json", PRIOR.encode(stored))
    assert not problems
    assert found is not None
    assert found.priors == rows


@given(ROWS, st.integers(0), st.binary(max_size=3))
def test_no_damage_goes_unnoticed_or_raises(rows: list[StoredPrior], at: int, bytes_: bytes) -> None:
    data = PRIOR.encode(PriorFile("perfgate.prior/1", "perfgate", "default", "now", {}, [], rows))
    at %= len(data)
    found, problems = PRIOR.decode("prior.json", data[:at] + bytes_ + data[at + len(bytes_) :])
    assert (found is None) == bool(problems)
    if found is not None:  # the damage was none, or only between the values
        assert found.priors == rows
