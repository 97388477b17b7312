"""A stored run has summaries of metrics that no rule named, and a later rule is judged by them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Done, steady, write_log, write_results, write_rules
from hypothesis import example, given
from hypothesis import strategies as st

from perfgate.baselines.condensed import MANY_RANKS, OUTLINES, condensed, method_of, outline, speakers
from perfgate.baselines.contents import Wanted, _Metric, contents
from perfgate.baselines.files import STATISTICS
from perfgate.baselines.stores import DirectoryStore
from perfgate.core import Better, Key, Run, Series, read_only
from perfgate.judge.measure import Method, OnlySummary, choose, has_unit_of

Command = Callable[..., Done]


def samples(values: Sequence[float], metric: str = "step", unit: str = "s", **labels: str) -> Series:
    return Series(Key.of(metric, **labels), unit, "samples", read_only(np.array(values)), np.arange(len(values)))


def kept(series: Series, *, warmup: Any = "auto") -> Series:
    """The series as a stored run without its samples has it."""
    key, member = series.key.without_members(), series.key.member()
    found = condensed(key, {member: series}, method_of(key, series.unit, warmup), {member}, {})
    assert found is not None
    (one,) = found.series(("base.log",))
    return one


def drawn(seed: int, n: int, kind: str) -> list[float]:
    """Values of a run: even, with a slow start, of two modes, in ticks of a clock, wandering, or counts of bytes."""
    random = np.random.default_rng(seed)
    noise = random.lognormal(0, 0.1, n)
    values = {
        "even": noise,
        "slow start": noise * (1 + 5 * (np.arange(n) < n // 10)),
        "two modes": noise * (1 + (random.random(n) < 0.3)),
        "ticks": np.round(noise, 1),
        "wander": noise + np.cumsum(random.normal(0, 0.02, n)) ** 2,
        "bytes": np.round(noise * 1e9),
        "with zeros": noise * (random.random(n) > 0.2),
    }[kind]
    return list(map(float, values))


KINDS = ("even", "slow start", "two modes", "ticks", "wander", "bytes", "with zeros")


# --- the numbers ---------------------------------------------------------------------------------------------------


@example(52, 51, "with zeros", "s")
@given(st.integers(0, 1000), st.integers(1, 400), st.sampled_from(KINDS), st.sampled_from(["s", "1/s", "1"]))
def test_statistics_of_a_summary_are_those_of_the_samples(seed: int, n: int, kind: str, unit: str) -> None:
    """Values agree to 12 digits, and the numbers of their noise to 6."""
    series = samples(drawn(seed, n, kind), unit=unit)
    summary = kept(series)
    better = method_of(series.key, unit, "auto").better
    for statistic in (*STATISTICS, "p50", "p0", "p100"):
        method = Method(statistic, "auto", better if has_unit_of(series, statistic) else "neither")
        expected, found = method.measure(series), method.measure(summary)
        assert (found.n, found.dropped, found.settled) == (expected.n, expected.dropped, expected.settled)
        assert alike(found.value, expected.value, 1e-11)
        assert alike(found.n_effective, expected.n_effective, 1e-5)
        assert alike(found.within_variance, expected.within_variance, 1e-5)
        assert found.single == expected.single


def test_whole_numbers_stay_whole() -> None:
    series = samples([2.0**44 + 1] * 50, unit="B")
    assert Method("max", "auto", "lower").measure(kept(series)).value == 2.0**44 + 1


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (Method("p97"), "no p97; it has mean, median"),
        (Method("median", 5), "warm-up auto, and the rule has 5"),
        (Method("median", "auto", "higher"), "and the rule has higher"),
    ],
)
def test_what_a_summary_cannot_answer(method: Method, said: str) -> None:
    slow_start = samples([5.0, 4.0, 3.0, *steady(1.0)])
    with pytest.raises(OnlySummary, match=said) as refused:
        method.measure(kept(slow_start))
    assert refused.value.sources == ("base.log",)


def test_a_direction_with_the_same_warm_up_is_as_good() -> None:
    even = samples(steady(1.0))
    for better in ("lower", "higher", "neither"):
        assert Method("p95", "auto", better).measure(kept(even)).value is not None  # type: ignore[arg-type]


# --- many ranks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("better", ["lower", "higher"])
def test_of_many_ranks_the_same_one_is_chosen(better: Better, *, coarse: bool) -> None:
    """Ranks with equal values are chosen alike, too: coarse clocks give many of them."""
    members = {}
    for rank in range(3 * MANY_RANKS):
        values = np.array(drawn(rank, 60, "even")) * (1 + (rank % 7) / 10)
        unit = "s" if better == "lower" else "1/s"
        series = samples(list(np.round(values, 0 if coarse else 9)), unit=unit, rank=str(rank))
        members[series.key.member()] = series
    method = method_of(Key("step"), unit, "auto")
    outlines = {name: outline(members, method, name) for name in OUTLINES}
    found = condensed(Key("step"), members, method, speakers(outlines), outlines)
    assert found is not None
    stored = {one.key.member(): one for one in found.series(())}
    assert stored.keys() == members.keys()
    for statistic in OUTLINES:
        for choice in ("worst", "slowest", "median", "fastest"):
            asked = Method(statistic, "auto", better)
            ordered = dict(sorted(members.items()))
            chosen, series = choose({m: stored[m] for m in ordered}, choice, asked)  # type: ignore[arg-type]
            assert asked.measure(series).value == pytest.approx(asked.measure(members[chosen]).value, rel=1e-11)
            value = asked.value(members[choose(ordered, choice, asked)[0]])  # type: ignore[arg-type]
            assert asked.value(members[chosen]) == pytest.approx(value, rel=1e-6)


def run_of(ranks: int, metrics: Sequence[str], steps: int) -> Run:
    random = np.random.default_rng(1)
    series = [
        samples(list(random.lognormal(0, 0.1, steps)), metric, rank=str(rank))
        for metric in metrics
        for rank in range(ranks)
    ]
    return Run("big", "test", tuple(series))


def size(rows: Sequence[Any]) -> int:
    import msgspec

    return sum(len(msgspec.json.encode(row)) for row in rows)


@pytest.mark.parametrize(("ranks", "metrics"), [(8, 30), (200, 3), pytest.param(1024, 3, marks=pytest.mark.slow)])
def test_a_run_of_many_ranks_fits_in_a_mebibyte(ranks: int, metrics: int) -> None:
    names = [f"m{i}" for i in range(metrics)]
    run = run_of(ranks, names, 200)
    named = Wanted(lambda key: True, lambda key: True, lambda metric: ("median",))
    found = contents(run, named)
    assert size([*found.series, *found.summaries]) < 1 << 20
    keys = {row.key for row in found.series} | {one.key for row in found.summaries for one in row.series(())}
    assert keys == {series.key for series in run.series}  # every rank, of every metric
    if ranks > MANY_RANKS:
        chosen = {
            Key.of("m0", **dict(choose_of(run, "m0", "worst"))),
            Key.of("m0", **dict(choose_of(run, "m0", "median"))),
        }
        assert chosen <= {row.key for row in found.series}  # the ranks that represent the run have samples


def choose_of(run: Run, metric: str, choice: Any) -> tuple[tuple[str, str], ...]:
    members = {one.key.member(): one for one in run.series if one.key.metric == metric}
    return choose(dict(sorted(members.items())), choice, Method("median"))[0]


def test_a_rule_about_each_of_many_ranks_has_its_noise() -> None:
    run = run_of(300, ["m0", "m1", "m2", "m3"], 200)
    every = Wanted(lambda key: True, lambda key: True, lambda metric: ("p90",), lambda metric: metric == "m0")
    found = contents(run, every)
    assert size([*found.series, *found.summaries]) < 1 << 20
    stored_series = {one.key: one for row in found.summaries for one in row.series(())}
    for series in run.series:
        if series.key.metric == "m0" and (one := stored_series.get(series.key)):
            expected, seen = Method("p90").measure(series), Method("p90").measure(one)
            assert alike(seen.value, expected.value, 1e-11)
            assert alike(seen.within_variance, expected.within_variance, 1e-5)


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("more", [10, 11, 12, 15, 16, 17])
def test_as_many_outlines_as_statistics_keep_their_names(more: int, *, each: bool) -> None:
    """With the six of OUTLINES, 11 more are as many as STATISTICS; with the maximum alone, 16 more."""
    run = run_of(MANY_RANKS + 8, ["m0"], 60)
    asked = ("max", *(f"p{q}" for q in range(11, 11 + more)))
    wanted = Wanted(lambda key: True, lambda key: True, lambda metric: asked, lambda metric: each)
    metric = _Metric(Key("m0"), {series.key.member(): series for series in run.series}, wanted)
    for (row,) in (metric.summary.summaries, metric.outline.summaries):
        largest = {one.key: one.aggregate["max"] for one in row.series(())}
        for series in run.series:
            assert largest[series.key] == pytest.approx(float(series.values.max()), rel=1e-6)


@pytest.mark.slow
def test_of_thousands_of_metrics_the_largest_times_are_kept() -> None:
    series = [samples(steady(0.001 * (i + 1), n=100, seed=i), f"kernel.k{i:04d}") for i in range(1500)]
    series.append(samples([5.0e9] * 40, "memory.peak_allocated", "B"))
    found = contents(Run("trace", "test", tuple(series)), Wanted(lambda key: False, lambda key: True, lambda _: ()))
    names = [row.metric for row in found.summaries]
    assert size([*found.series, *found.summaries]) < 512 << 10
    assert "memory.peak_allocated" in names
    assert 400 < len(names) < 1500
    assert len(names) + len(found.left_out) == 1501
    assert max(found.left_out) < min(name for name in names if name.startswith("kernel."))


# --- through the command line ----------------------------------------------------------------------------------------


@pytest.fixture
def gate(perfgate: Command, folder: Path) -> Command:
    """Three stored runs with a rule about `forward` alone; `other` and `third` are stored without samples."""
    write_rules(folder, "forward within 5% of baseline")
    for seed in range(5):
        other = [0.05, 0.03, *steady(7, seed=seed)]
        write_log(folder / f"run{seed}.log", forward=steady(100, seed=seed), other=other, third=steady(3, seed=seed))
    paths = [f"run{seed}.log" for seed in range(3)]
    assert perfgate("baseline", "approve", *paths, "--reason", "first").code == 0
    return perfgate


def stored(folder: Path) -> list[Path]:
    return sorted((folder / "baselines").rglob("*.json"))


def verdicts(perfgate: Command, *words: str | Path) -> list[dict[str, Any]]:
    text = perfgate("check", *words, "--json", "-").out
    return list(json.loads(text)["verdicts"])


RULES = [
    "other within 5% of baseline",
    "other p95 within 20% of baseline",
    "other mean at most 3% above baseline",
    "p99(other) / p50(other) within 20% of baseline",
    "other cv within 400% of baseline",
]


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_of_today_judges_the_runs_of_yesterday(gate: Command, folder: Path, rule: str) -> None:
    """The verdict from summaries is the one from samples."""
    write_rules(folder, rule)
    (from_summaries,) = verdicts(gate, "run3.log")
    for path in stored(folder):
        path.unlink()
    paths = [f"run{seed}.log" for seed in range(3)]
    assert gate("baseline", "approve", *paths, "--reason", "again").code == 0
    (from_samples,) = verdicts(gate, "run3.log")
    assert from_summaries["exit_code"] == 0, from_summaries["message"]
    for name in ("outcome", "reason", "message", "notes", "change", "base", "new", "minimum_detectable_change"):
        assert alike(from_summaries[name], from_samples[name], 1e-4), name


def alike(found: Any, expected: Any, bound: float) -> bool:
    """Return whether two values are equal, and the numbers in them nearly."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(alike(found[key], expected[key], bound) for key in expected)
    if isinstance(expected, float):
        return found is not None and (
            abs(found - expected) <= bound * abs(expected) or bool(np.isnan(found) and np.isnan(expected))
        )
    return bool(found == expected)


def test_a_slower_metric_of_yesterday_fails(gate: Command, folder: Path) -> None:
    write_rules(folder, "other within 5% of baseline")
    for seed in range(3):
        write_log(folder / f"slow{seed}.log", other=steady(7.8, seed=seed))
    assert gate("check", *(f"slow{seed}.log" for seed in range(3))).code == 1


def test_a_derived_metric_of_today_uses_means_on_both_sides(gate: Command, folder: Path) -> None:
    write_rules(folder, "share within 2% of baseline", head="metrics: {share: other / third}\n")
    (verdict,) = verdicts(gate, "run3.log")
    assert verdict["base"]["estimate"] == pytest.approx(7 / 3, rel=0.01)
    assert verdict["new"]["estimate"] == pytest.approx(7 / 3, rel=0.01)
    assert verdict["outcome"] == "pass"
    write_log(folder / "slow.log", other=steady(9), third=steady(3))
    (slow,) = verdicts(gate, "slow.log")
    assert slow["outcome"] == "fail" or slow["suspect"]


def test_old_files_without_summaries_keep_working(gate: Command, folder: Path) -> None:
    """A file of before: without the fields, and with its own hash."""
    import hashlib

    import msgspec

    from perfgate.baselines.files import STORED_RUN

    for path in stored(folder):
        file, problems = STORED_RUN.decode(path.name, path.read_bytes())
        assert file is not None, problems
        old = msgspec.structs.replace(file, summaries=msgspec.UNSET)
        data = STORED_RUN.encode(old)
        assert b"summaries" not in data
        path.write_bytes(data)
        fields = json.loads(data)
        assert len(fields["content_sha256"]) == len(hashlib.sha256().hexdigest())
    assert gate("baseline", "verify").code == 0
    assert gate("check", "run3.log").code == 0
    write_rules(folder, "other within 5% of baseline")
    assert gate("check", "run3.log").code == 3


def test_the_bytes_are_the_same_again(gate: Command, folder: Path) -> None:
    before = {path: path.read_bytes() for path in stored(folder)}
    for path in before:
        path.unlink()
    gate("baseline", "approve", *(f"run{seed}.log" for seed in range(3)), "--reason", "first")
    assert {path: path.read_bytes() for path in stored(folder)} == before


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row["rows"].append(row["rows"][0]),
        lambda row: row["rows"][0][4].pop(),
        lambda row: row["rows"][0][4][0].clear(),
        lambda row: row.update(unit="ms"),
        lambda row: row["rows"][0].__setitem__(2, 10_000),
        lambda row: row.update(metric="forward"),
    ],
)
def test_a_summary_that_contradicts_itself_is_refused(
    gate: Command, folder: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    from perfgate.baselines.files import STORED_RUN, BaselineFile

    path = stored(folder)[0]
    document = json.loads(path.read_bytes())
    change(document["summaries"][0])
    import msgspec

    path.write_bytes(STORED_RUN.encode(msgspec.convert(document, BaselineFile)))
    done = gate("check", "run3.log")
    assert done.code == 3
    assert "contradicts itself" in " ".join(done.said.split())


def test_the_names_of_many_files_count(perfgate: Command, folder: Path) -> None:
    """A run of one file for each rank, at the end of the room: the list of its files is part of the mebibyte."""
    write_rules(folder, "m* within 5% of baseline")
    (folder / "run").mkdir()
    for rank in range(300):
        rows = [{"metric": f"m{i}", "labels": {"rank": str(rank)}, "unit": "s"} for i in range(3)]
        values = steady(1.0, n=200, seed=rank)
        write_results(folder / "run" / f"{rank}.json", *({**row, "values": values} for row in rows))
    done = perfgate("baseline", "approve", "run", "--reason", "first", "--all")
    assert done.code == 0, done.err
    assert stored(folder)[0].stat().st_size < 1 << 20
    assert perfgate("baseline", "verify").code == 0


@pytest.mark.shared
def test_the_seed_log_with_everything_fits_in_256_kib(perfgate: Command, folder: Path, shared: Path) -> None:
    write_rules(folder, "forward within 5% of baseline", "backward p95 within 5% of baseline")
    log = next((shared / "seeds").glob("001*.txt"))
    assert perfgate("baseline", "approve", log, "--reason", "first").code == 0
    (path,) = stored(folder)
    document = json.loads(path.read_bytes())
    assert path.stat().st_size < 256 << 10
    assert len({row["metric"] for row in document["series"] + document["summaries"]}) == 21


def test_what_was_written_is_read_before_it_counts(
    perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full, or a limit on what `check` reads: nothing is left that `check` would refuse."""
    write_rules(folder, "forward within 5% of baseline")
    write_log(folder / "run.log", forward=steady(100))
    read = DirectoryStore.read
    monkeypatch.setattr(DirectoryStore, "read", lambda store, path: read(store, path)[:-100])
    done = perfgate("baseline", "approve", "run.log", "--reason", "first")
    assert (done.code, stored(folder)) == (3, [])
    assert "was not stored, because it cannot be read afterwards" in " ".join(done.err.split())


def test_a_run_that_cannot_be_stored_is_refused_at_once(
    perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFGATE_LIMITS", "baseline_bytes=20KiB")
    write_rules(folder, "m* within 5% of baseline")
    write_results(
        folder / "run.json",
        *(
            {"metric": f"m{i}", "labels": {"rank": str(r)}, "unit": "s", "values": steady(1.0)}
            for i in range(9)
            for r in range(9)
        ),
    )
    done = perfgate("baseline", "approve", "run.json", "--reason", "first")
    assert (done.code, stored(folder)) == (1, [])
    assert "name fewer metrics" in " ".join(done.err.split())
