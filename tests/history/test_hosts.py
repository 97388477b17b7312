"""Hosts differ: what the history shows about them explains a change, or hides one, and is said with both figures."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from conftest import Done, write_rules
from histories import at, column, in_memory, record, run_at
from msgspec.structs import replace
from scipy import stats

from perfgate.baselines.stores import open_store
from perfgate.core import Baseline, CalibratedPrior, HostDifference, HostLevel, Key, Run, Series
from perfgate.core.remembered_runs import SeriesName
from perfgate.history.hosts import HostContrast, _blocks, contrast, host_differences, without_hosts
from perfgate.history.noise import noise_between_runs
from perfgate.history.store import StoredHistory, add
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge
from perfgate.rules.load import load_rules

Command = Callable[..., Done]
IDENTITY = {"gpu": None, "gpu_count": None, "world_size": None}
#: The hosts of the remembered runs: in turns, sometimes the same one again.
TURNS = [3, 7, 7, 3, 7, 3, 3, 7, 3, 7, 7, 3, 7, 3, 7, 3]


def results(folder: Path, name: str, level: float, host: str, seed: int) -> str:
    values = level * (1 + 0.003 * np.random.default_rng(seed).standard_normal(60))
    series = [{"metric": "forward", "unit": "s", "values": values.tolist()}]
    document = {"schema": "perfgate.results/1", "environment": {"host": host}, "series": series}
    (folder / name).write_text(json.dumps(document))
    return name


def remember(folder: Path, levels: Sequence[float], hosts: Sequence[int] = TURNS) -> None:
    """Remember runs of 100 ms times the level of each, with 0.2 % noise between them."""
    store, rng = open_store(str(folder / "baselines")), np.random.default_rng(5)
    with patch("os.fsync"):
        for i, (level, host) in enumerate(zip(levels, hosts, strict=False)):
            number = 0.1 * level * float(np.exp(0.002 * rng.standard_normal()))
            one = replace(record(i, {"forward": number}), suite="default", identity=IDENTITY)
            add(store, replace(one, run=replace(one.run, context={"host": f"gpu-0{host}"})))


@pytest.fixture
def judged(perfgate: Command, folder: Path) -> Callable[..., tuple[str, str, str]]:
    """The outcome, its reason and what is said about new runs at a level on a host, against runs of gpu-03 at 0.1 s."""
    write_rules(folder, "forward within 2% of baseline")
    base = [results(folder, f"base{i}.json", 0.1, "gpu-03", i) for i in range(5)]
    assert perfgate("baseline", "approve", *base, "--reason", "first").code == 0

    def check(level: float, host: str = "gpu-07") -> tuple[str, str, str]:
        new = [results(folder, f"new{i}.json", level, host, 20 + i) for i in range(3)]
        done = perfgate("check", *new, "--json", "report.json")
        (found,) = json.loads((folder / "report.json").read_text())["verdicts"]
        return found["outcome"], found["reason"], " ".join(done.out.split())

    return check


def slower_on_7(by: float) -> list[float]:
    return [by if host == 7 else 1.0 for host in TURNS]


def test_a_change_that_the_host_explains_is_open(judged: Callable[..., tuple[str, str, str]], folder: Path) -> None:
    remember(folder, slower_on_7(1.08))
    outcome, reason, said = judged(0.108)
    assert (outcome, reason) == ("undecided", "machine")
    assert "host gpu-07 is 8.0% slower than gpu-03 in 16 remembered runs of main (108 ms ± 0." in said
    assert "without the difference of the hosts, the change is" in said
    assert "measure again on gpu-03" in said
    assert judged(0.1405)[0] == "fail"  # much more than the host explains


def test_a_faster_host_does_not_hide_a_slowdown(judged: Callable[..., tuple[str, str, str]], folder: Path) -> None:
    remember(folder, slower_on_7(0.9))
    outcome, reason, said = judged(0.1)
    assert (outcome, reason) == ("undecided", "machine"), said
    assert "host gpu-07 is 10.0% faster than gpu-03" in said


def test_hosts_that_do_not_differ_explain_nothing(judged: Callable[..., tuple[str, str, str]], folder: Path) -> None:
    remember(folder, slower_on_7(1.0))
    outcome, _, said = judged(0.108)
    assert outcome == "fail"
    assert "the new runs are from machine gpu-07, the base runs from gpu-03" in said
    assert "the new runs are from machine gpu-09" in judged(0.108, "gpu-09")[2]


CASES = {
    "differ": (TURNS, slower_on_7(1.08), 0.077),
    "one change of the code": (TURNS, [*slower_on_7(1.08)[:8], *np.multiply(slower_on_7(1.08)[8:], 1.2)], 0.077),
    "three runs of each": (TURNS[:6], slower_on_7(1.08)[:6], 0.077),
    "too few runs": (TURNS[:5], slower_on_7(1.08)[:5], None),
    "one after the other, so it may be the code": ([3] * 8 + [7] * 8, [1.0] * 8 + [1.08] * 8, None),
}


@pytest.mark.parametrize("case", CASES)
def test_neighbouring_runs_show_the_difference(case: str) -> None:
    hosts, levels, expected = CASES[case]
    noise = 0.002 * np.random.default_rng(1).standard_normal(len(hosts))
    found = contrast(np.log(levels) + noise, [host == 7 for host in hosts])
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found.low < expected < found.high


def test_a_change_of_the_code_between_two_hosts_is_not_taken_for_them() -> None:
    """The second host took over, the code changed with it, and the first host came back."""
    levels, hosts = [1.0] * 5 + [1.08] * 10, [3] * 5 + [7] * 5 + [3] * 5
    noise = 0.002 * np.random.default_rng(1).standard_normal(len(hosts))
    found = contrast(np.log(levels) + noise, [host == 7 for host in hosts])
    assert found is not None
    assert found.low < 0 < found.high


def test_a_pass_that_promises_less_on_one_host_is_undecided() -> None:
    """Code that is 20 % slower, on a host that is faster by more, with a noise that would hide it on one host."""
    rules, _ = load_rules([("rules.yaml", b"version: 1\nrules:\n  - forward within 5% of baseline\n")])
    assert rules is not None
    key, usual = Key("forward"), ("mean", "worst")

    def runs(level: float, host: str, count: int) -> tuple[Run, ...]:
        values = (Series(key, "s", "value", np.array([level * (1 + 0.001 * number)])) for number in range(count))
        return tuple(Run(f"{level}", "perfgate", (one,), environment={"host": host}) for one in values)

    new = runs(0.077, "gpu-07", 3)
    levels = HostLevel(("gpu-03",), 5, 0.1, 0.01), HostLevel(("gpu-07",), 5, 0.064, 0.01)
    known = HostDifference(key, *usual, "main", *levels, -0.44, -0.46, -0.42)
    baseline = Baseline(runs=runs(0.1, "gpu-03", 5), priors=(CalibratedPrior(key, *usual, 0.12, 12.0, 13),))
    codes = []
    for hosts in ((), (known,)):
        case = Case(rules, new, replace(baseline, hosts=hosts), date(2026, 1, 1), facts={"host": "gpu-07"})
        codes += [(one.outcome, one.exit_code) for one in judge(case)]
    assert codes == [("pass", 0), ("undecided", 3)]


def test_equal_hosts_are_seldom_called_different() -> None:
    rng, called = np.random.default_rng(2), 0
    for _ in range(400):
        logs = 0.01 * rng.standard_normal(30)
        logs[rng.integers(30) :] += 0.05  # a change of the code
        found = contrast(logs, (rng.random(30) < 0.5).tolist())
        called += found is not None and not found.low <= 0 <= found.high
    assert called <= 32  # 5 % of 400, and three standard deviations


def on_hosts(seed: int, by: float = 0.06) -> tuple[np.ndarray, list[str]]:
    """The logarithms of 60 runs with 1 % noise, on two hosts that differ."""
    rng = np.random.default_rng(seed)
    hosts = ["gpu-07" if one else "gpu-03" for one in rng.random(60) < 0.4]
    return 0.01 * rng.standard_normal(60) + by * (np.array(hosts) == "gpu-07"), hosts


def test_the_difference_of_known_hosts_is_not_noise() -> None:
    logs, hosts = on_hosts(3)
    mixed = noise_between_runs(np.exp(logs))
    left, taken = without_hosts(logs, hosts, {"gpu-03"})
    apart = noise_between_runs(np.exp(left))
    assert mixed is not None
    assert apart is not None
    assert taken == 1
    assert mixed.prior.s0 > 0.02
    assert 0.008 < apart.prior.s0 < 0.013


@pytest.mark.parametrize(("by", "judged"), [(0.06, ["gpu-03", "gpu-99"]), (0.06, []), (0.0, ["gpu-03"])])
def test_differences_stay_where_a_host_is_unknown_or_none_differs(by: float, judged: list[str]) -> None:
    logs, hosts = on_hosts(5, by)
    left, taken = without_hosts(logs, hosts, judged)
    assert (left.tolist(), taken) == (logs.tolist(), 0)


def test_the_report_says_that_hosts_were_taken_out(judged: Callable[..., tuple[str, str, str]], folder: Path) -> None:
    remember(folder, slower_on_7(1.08))
    _, _, said = judged(0.1, "gpu-03")
    assert "from 16 runs of main, without the differences between 2 hosts" in said


# --- blocks and their contrast, in memory ----------------------------------------------------------------------------

#: The runs by the letter of their host, and the runs of each block: `b` is the new host.
BLOCKS = [
    ("", []),
    ("aaaa", []),
    ("ab", ["ab"]),
    ("aab", ["aab"]),
    ("aaab", [".aab"]),
    ("abb", ["abb"]),
    ("aba", ["aba"]),
    ("abab", ["ab", "..ab"]),
    ("abba", ["ab", "..ba"]),
    ("abbaaa", ["ab", "..baa"]),
    ("aabbaa", ["aab", "...baa"]),
    ("aaabbbaaa", [".aab", "....bbaa"]),
    ("bbbaaabb", [".bba", "....aabb"]),
    ("ababab", ["ab", "..ab", "....ab"]),
    ("ababa", ["ab", "..aba"]),
]


@pytest.mark.parametrize(("runs", "blocks"), BLOCKS)
def test_a_block_has_two_runs_of_a_host_and_the_next_of_the_other(runs: str, blocks: list[str]) -> None:
    found = _blocks([one == "b" for one in runs])
    assert [(one.start, one.stop) for one in found] == [(len(one) - len(one.lstrip(".")), len(one)) for one in blocks]
    assert [runs[one] for one in found] == [one.lstrip(".") for one in blocks]


def by_least_squares(logs: np.ndarray, runs: str) -> tuple[float, float, float]:
    """The difference of host `b` with its 95 % interval, by a regression on the blocks and the host."""
    is_new = np.array([one == "b" for one in runs])
    blocks = _blocks(is_new.tolist())
    kept = [row for block in blocks for row in range(block.start, block.stop)]
    x = np.array([[*(block.start <= row < block.stop for block in blocks), is_new[row]] for row in kept], dtype=float)
    (*_, estimate), squares, _, _ = np.linalg.lstsq(x, logs[kept], rcond=None)
    freedom = len(kept) - x.shape[1]
    variance = float(squares[0]) / freedom * float(np.linalg.inv(x.T @ x)[-1, -1])
    reach = float(stats.t(freedom).ppf(0.975)) * math.sqrt(variance)
    return estimate, estimate - reach, estimate + reach


NOISE = 0.01 * stats.zscore(np.random.default_rng(4).standard_normal(60))


@pytest.mark.parametrize("runs", ["ababab", "abbaab", "abbabb"[:5] + "ab", "aabbaabbab", "abab" * 6, "aaabbb" * 4])
def test_the_contrast_is_that_of_least_squares(runs: str) -> None:
    is_new = [one == "b" for one in runs]
    logs = NOISE[: len(runs)] + 0.08 * np.array(is_new)
    found = contrast(logs, is_new)
    assert found is not None
    assert (found.estimate, found.low, found.high) == pytest.approx(by_least_squares(logs, runs))


@pytest.mark.parametrize(
    ("runs", "is_known"),
    [("abab" + "ab", True), ("ababa", False), ("babab", False), ("aaabbb", False), ("aabbab", True), ("aaaabb", False)],
)
def test_three_runs_of_each_host_in_two_blocks_are_needed(runs: str, is_known: bool) -> None:
    assert (contrast(NOISE[: len(runs)], [one == "b" for one in runs]) is not None) is is_known


# --- the differences of hosts are taken out --------------------------------------------------------------------------

MANY = "abab" * 6


def of_runs(runs: str, **differences: float) -> np.ndarray:
    """The logarithms of runs with 0.1 % noise on hosts that differ."""
    logs: np.ndarray = 0.1 * NOISE[: len(runs)] + np.array([differences.get(one, 0.0) for one in runs])
    return logs


def estimate(logs: np.ndarray, runs: str, usual: str, host: str) -> float:
    """The difference of a host from the usual one."""
    rows = [i for i, one in enumerate(runs) if one in (usual, host)]
    found = contrast(logs[rows], [runs[i] == host for i in rows])
    assert found is not None
    return found.estimate


TAKEN_OUT: list[tuple[str, dict[str, float], str, str, str]] = [
    # runs            differences  judged  the usual host, those taken out
    (MANY, {"b": 0.06}, "a", "a", "b"),
    (MANY, {"b": 0.06}, "b", "a", "b"),
    (MANY, {"b": 0.06}, "ab", "a", "b"),
    (MANY, {"b": -0.06}, "a", "a", "b"),
    (MANY + "b", {"b": 0.06}, "a", "b", "a"),
    ("abcb" * 6, {"a": 0.06, "c": 0.09}, "abc", "b", "ac"),
    ("cbab" * 6, {"c": 0.09}, "a", "b", "c"),
    ("a-b-" * 6, {"b": 0.06}, "a", "a", "b"),
    (MANY, {"b": 0.06}, "", "a", ""),
    (MANY, {"b": 0.06}, "ac", "a", ""),
    (MANY + "cc", {"b": 0.06}, "c", "a", ""),
    ("a" * 20, {}, "a", "a", ""),
    ("-" * 20, {}, "a", "a", ""),
]


@pytest.mark.parametrize(("runs", "differences", "judged", "usual", "taken"), TAKEN_OUT)
def test_the_runs_of_other_hosts_become_those_of_the_usual_one(
    runs: str, differences: dict[str, float], judged: str, usual: str, taken: str
) -> None:
    logs, names = of_runs(runs, **differences), [one.replace("-", "") for one in runs]
    left, count = without_hosts(logs, names, list(judged))
    by = {host: estimate(logs, runs, usual, host) for host in taken}
    assert left == pytest.approx(logs - np.array([by.get(one, 0.0) for one in runs]), abs=1e-12)
    assert (count, [round(one, 2) for one in by.values()]) == (
        len(taken),
        [round(differences.get(host, 0.0) - differences.get(usual, 0.0), 2) for host in taken],
    )


def test_hosts_that_do_not_differ_at_all_are_left_alone() -> None:
    logs = np.zeros(len(MANY))
    assert contrast(logs, [one == "b" for one in MANY]) == HostContrast(0.0, 0.0, 0.0)
    assert without_hosts(logs, list(MANY), ["a"])[1] == 0
    assert differences(logs, MANY) == ()


# --- the differences of the hosts of both sides ----------------------------------------------------------------------

FORWARD = SeriesName(Key("forward"), "median")


def differences(logs: np.ndarray, runs: str, **options: Any) -> tuple[HostDifference, ...]:
    return differences_of(in_memory([run_at(i, one) for i, one in enumerate(runs)], column(np.exp(logs))), **options)


def differences_of(history: StoredHistory, **options: Any) -> tuple[HostDifference, ...]:
    return host_differences(history, **({"wanted": [FORWARD], "ref": "main", "base": ["a"], "new": ["b"]} | options))


def test_a_clear_difference_has_the_level_and_the_noise_of_both_sides() -> None:
    runs = "abcb" * 3 + "d" + "abcb" * 3
    logs = of_runs(runs, b=0.06, d=0.5)
    (found,) = differences(logs, runs, base=["c", "a"])
    kept = [i for i, one in enumerate(runs) if one != "d"]
    seen = contrast(logs[kept], [runs[i] == "b" for i in kept])
    assert seen is not None

    assert (found.key, found.statistic, found.rank, found.branch) == (Key("forward"), "median", "worst", "main")
    assert (found.log_difference, found.low, found.high) == pytest.approx((seen.estimate, seen.low, seen.high))
    for level, names in ((found.base, "ac"), (found.new, "b")):
        own = np.array([log for log, one in zip(logs, runs, strict=True) if one in names])
        assert (level.hosts, level.runs) == ((*names,), 12)
        assert level.level == pytest.approx(math.exp(np.median(own)))
        assert level.noise == pytest.approx(math.sqrt(float(np.square(np.diff(own)).mean()) / 2))


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 1),
        ({"ref": None}, 1),
        ({"ref": "fix"}, 0),
        ({"wanted": []}, 0),
        ({"base": ["c"]}, 0),
        ({"new": ["c"]}, 0),
        ({"is_judged": lambda run: run.time > at(5)}, 1),
        ({"is_judged": lambda run: run.time > at(4)}, 0),
    ],
)
def test_the_wanted_series_on_the_hosts_of_both_sides_are_compared(options: dict[str, Any], count: int) -> None:
    assert len(differences(of_runs(MANY, b=0.06), MANY, **options)) == count


@pytest.mark.parametrize(
    ("numbers", "about", "count"),
    [
        ({}, {}, 1),
        ({}, {"unit": "B"}, 0),
        ({}, {"name": SeriesName(Key("backward"), "median")}, 0),
        ({0: 0.0}, {}, 0),
        ({0: -1.0}, {}, 0),
        ({0: math.nan}, {}, 0),
        ({0: math.inf}, {}, 0),
        (dict.fromkeys(range(24), 0.1), {}, 0),
    ],
)
def test_positive_numbers_show_a_difference(numbers: dict[int, float], about: dict[str, Any], count: int) -> None:
    values = 0.1 * np.exp(of_runs(MANY, b=0.06))
    values[list(numbers)] = list(numbers.values())
    runs = [run_at(i, one) for i, one in enumerate(MANY)]
    usual = column(np.exp(of_runs(MANY, b=-0.06)))
    found = differences_of(in_memory(runs, column(values, **about), column([], []), usual))
    assert len(found) == count + 1
    assert found[-1].log_difference == pytest.approx(-0.06, abs=0.002)


def test_a_history_without_runs_shows_no_difference() -> None:
    assert differences_of(in_memory([]), ref=None) == ()
