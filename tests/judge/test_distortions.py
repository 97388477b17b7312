"""Ways to make runs worse on purpose: what each does to a series, and how far a self-test has to go."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace
from stories import bare, case, ruleset, series

from perfgate.analysis import distortions
from perfgate.analysis.distortions import added_work, reading, ways
from perfgate.analysis.selftest import self_test
from perfgate.core import Key, Run, Series, Verdict, read_only
from perfgate.core.runs import Summary
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge

X = np.arange(1.0, 12.0)  # its 90 % quantile is one of the values


def run(*held: Series) -> Run:
    return Run("run", "test", held)


def printed(metric: str, **statistics: float) -> Series:
    return Series(Key(metric), "s", "aggregate", read_only(np.array([])), aggregate=statistics)


def worse(sentence: str, held: Run, amount: float, *verdicts: Verdict) -> list[list[list[float]]]:
    """What each way makes of a run: the values of each series, or what was printed of it."""
    rules = ruleset(f"  - {sentence}\n")
    made = [way.applied(held, amount) for way in ways(rules.rules[0], rules, [held], verdicts)]
    return [[[*one.values, *one.aggregate.values()] for one in distorted.series] for distorted in made]


def listed(*rows: object) -> list[list[float]]:
    return [np.asarray(row, dtype=float).tolist() for row in rows]


def test_every_way_of_being_worse() -> None:
    ranks = [series("io", "s", list(X * (1 + rank)), rank=str(rank)) for rank in range(3)]
    x, y, z = X, 2 * X, 3 * X

    def longer(values: np.ndarray) -> np.ndarray:
        return np.where(values > values[9], 2 * values, values)

    assert worse("io under 8 s", run(*ranks, series("other", "s", [1.0])), 2.0) == [
        listed(2 * x, 2 * y, 2 * z, [1]),
        listed(x / 2, y / 2, z / 2, [1]),
        listed(longer(x), longer(y), longer(z), [1]),
        listed(x + 16, y + 16, z + 16, [1]),
        listed(2 * x, y, z, [1]),
        listed(x / 2, y, z, [1]),
        listed(x, y, 2 * z, [1]),
        listed(x, y, z / 2, [1]),
        listed(np.tile(x, 3), np.tile(y, 3), np.tile(z, 3), [1]),
        listed(x[:5], y[:5], z[:5], [1]),
    ]


def test_the_summary_of_a_stored_run_is_made_worse() -> None:
    rows = ((2.0, 9.0, 0.01), (None,), (0.1, 9.0, 0.01), (7.0,))
    summary = Summary(("median", "mean", "cv", "p95"), rows, 9, 0, True, "auto", ("lower",))
    x = Series(Key("x"), "s", "summary", read_only(np.array([])), aggregate={"median": 2.0}, summary=summary)
    rules = ruleset("  - x within 5% of baseline\n")
    way = next(ways(rules.rules[0], rules, [run(x)], ()))
    (found,) = way.applied(run(x), 3.0).series
    assert found.summary is not None
    assert list(found.summary.rows) == [(6.0, 9.0, 0.01), (None,), (0.1, 9.0, 0.01), (21.0,)]
    assert found.aggregate == {"median": 6.0}


@pytest.mark.parametrize(("ranks", "ways_of_ranks"), [(1, 0), (2, 4), (3, 4)])
def test_the_first_and_the_last_of_several_ranks_are_worse_alone(ranks: int, ways_of_ranks: int) -> None:
    held = run(*(series("io", "s", [1.0], rank=str(rank)) for rank in range(ranks)))
    made = worse("io within 5% of baseline", held, 2.0)
    assert len(made) == 5 + ways_of_ranks
    alone = [[factor if one == rank else 1.0 for one in range(ranks)] for rank in (0, ranks - 1) for factor in (2, 0.5)]
    assert [[values for (values,) in one] for one in made[3:-2]] == (alone if ways_of_ranks else [])


def test_parts_are_made_worse_one_by_one() -> None:
    """All at once, a ratio or a share of them would stay as it is."""
    held = run(series("forward", "s", [1.0]), series("backward", "s", [3.0]), series("slow", "s", [7.0]))
    for sentence in ("forward / backward under 5", "both under 9 s"):
        made = worse(sentence, held, 2.0)
        scaled = [one for one in made if [len(values) for values in one] == [1, 1, 1]]
        assert [[1.0], [6.0], [7.0]] in scaled
        assert [[0.5], [3.0], [7.0]] in scaled
        assert [[2.0], [6.0], [7.0]] not in scaled
        assert all(one[2] == [7.0] for one in made)


def test_what_is_printed_is_scaled_in_its_unit_alone() -> None:
    held = run(printed("io", mean=0.5, total=4.0, count=8.0, calls=2.0, cv=0.1))
    same, twice, half = ([[0.5 * f, 4.0 * f, 8.0, 2.0, 0.1]] for f in (1, 2, 0.5))
    assert worse("io mean within 5% of baseline", held, 2.0) == [twice, half, same, same, same]


def test_few_values_stay_at_least_one_and_keep_their_steps_while_they_are_as_many() -> None:
    one = replace(series("io", "s", [3.0, 1.0]), steps=read_only(np.array([7, 8])), groups=("a", "b"))
    rules = ruleset("  - io within 5% of baseline\n")
    made = [way.applied(run(one), 1000.0).series[0] for way in ways(rules.rules[0], rules, [run(one)], ())]
    assert made[-1].values.tolist() == [3.0]
    assert (made[-1].steps, made[-1].groups) == (None, ())
    tail = made[2]
    assert (tail.values.tolist(), tail.groups) == ([3000.0, 1.0], ())
    assert tail.steps is not None
    assert tail.steps.tolist() == [7, 8]
    nothing = series("io", "s", [])
    assert worse("io within 5% of baseline", run(nothing), 2.0) == [[[]]] * 5


@pytest.mark.parametrize("sentence", ["warmup.steps under 9", "warmup.steps - io under 9"])
def test_a_slow_start_is_a_way_for_rules_about_the_warm_up(sentence: str) -> None:
    values = np.arange(1.0, 9.0)
    slow = [[*(2 * values[:2]), *values[2:]]]
    assert slow in worse(sentence, run(series("io", "s", list(values))), 2.0)
    assert slow not in worse("io under 9 s", run(series("io", "s", list(values))), 2.0)


READS = [
    # a rule, and the metrics that it reads of these
    ("forward under 1 s", {"forward"}),
    ("forward - slow under 1 s", {"forward", "slow"}),
    ("both - slow under 1 s", {"forward", "backward", "slow"}),
    ("both under 1 s", {"forward", "backward"}),
    ("b* under 1 s", {"forward", "backward"}),
]


@pytest.mark.parametrize(("sentence", "read"), READS)
def test_what_a_rule_reads(sentence: str, read: set[str]) -> None:
    rules = ruleset(f"  - {sentence}\n")
    reads = reading(rules.rules[0], rules)
    assert {name for name in ("forward", "backward", "slow", "fast") if reads(Key(name))} == read


EDGES = [
    # a rule, what it judges, what it has stored, and the values just beyond its edge, at twice the distance
    ("io under 5 s", "s", 2.0, None, 10.0),
    ("io over 0.5 s", "s", 2.0, None, 0.25),
    ("io at least 0.5 s", "s", 2.0, None, 0.25),
    ("io within 10% of baseline", "s", 2.0, 4.0, 8.8),
    ("io within 10% of baseline", "1/s", 2.0, 4.0, 1.8),
    ("{assert: io under 0 s}", "s", 2.0, None, 2.0),
    ("io under 5 s", "s", 0.0, None, 0.0),
    ("io under 1e-200 s", "s", 1e-200, None, 2e-200),
    ("gone under 5 s", "s", 2.0, None, 2.0),
    ("io within 10% of baseline", "s", 2.0, None, 2.0),
    ("io within 1 s of baseline", "s", 2.0, 4.0, 10.0),
    ("io within 1 GB of baseline", "B", 3.0, 0.0, 3.0),
]


@pytest.mark.parametrize(("sentence", "unit", "new", "base", "beyond"), EDGES)
def test_the_first_way_goes_beyond_the_own_edge(
    sentence: str, unit: str, new: float, base: float | None, beyond: float
) -> None:
    held = run(series("io", unit, [new] * 9))
    asked = case(f"  - {sentence}\n", held, runs=0)
    stored = () if base is None else (run(series("io", unit, [base] * 9)),)
    verdicts = judge(replace(asked, baseline=replace(asked.baseline, runs=stored)))
    ((first,),) = worse(sentence, held, 2.0, *verdicts)[:1]
    assert first == pytest.approx([beyond] * 9, rel=1e-12, abs=0)


def test_each_metric_goes_beyond_an_edge_of_its_own_labels_or_else_of_none() -> None:
    one = [1.0] * 9
    held = run(series("io", "s", one, kind="a"), series("io", "s", one, kind="b"), series("rate", "1/s", one))
    a, b, rate = judge(case("  - io under 3 s\n  - rate over 0.1 /s\n", held, runs=0))
    of_any, rate = replace(b, labels={}, bound=5.0), replace(rate, asks=b.asks)
    beyond = worse("'* under 3'", held, 2.0, a, of_any, rate)[0]
    assert [values[0] for values in beyond] == pytest.approx([6, 10, 0.05])
    renamed = replace(of_any, metric="bwd")
    assert worse("'* under 3'", run(series("backward", "s", [1.0])), 2.0, renamed)[0] == [[10.0]]


BOUNDS = {
    # an upper bound of a ratio that is 1 now, and the first amount that a self-test tries clearly beyond it: one run
    # that breaks a limit by less than runs differ is only suspect
    1.01: 1.05,
    1.03: 1.08,
    1.06: 1.12,
    1.1: 1.2,
    1.15: 1.2,
    1.25: 1.3,
    1.4: 1.5,
    1.6: 1.75,
    1.9: 2.0,
    2.5: 3.0,
    4.0: 5.0,
    9.0: 10.0,
    50.0: 100.0,
    500.0: 1000.0,
}


def test_a_self_test_says_the_smallest_change_that_it_tried_with_success() -> None:
    held = run(series("a", "s", [1.0] * 20), series("b", "s", [1.0] * 20))
    rules = "".join(f"  - a / b under {bound}\n" for bound in BOUNDS)
    proofs = self_test(case(rules, held, runs=0))
    assert [proof.fails_at for proof in proofs] == pytest.approx(list(BOUNDS.values()))
    (limit,) = self_test(case("  - a under 2 s\n", held, runs=0))
    assert limit.fails_at == pytest.approx(2.0 * 1.05)


def test_each_clause_of_a_rule_is_shown_a_change_just_beyond_its_own_edge() -> None:
    held = run(series("a", "s", [1.0] * 20))
    proofs = self_test(case("  - a under 1.5 s and under 3 s and over 0.5 s\n", held, runs=0))
    assert [proof.fails_at for proof in proofs] == pytest.approx([1.5 * 1.05, 3.0 * 1.05, 0.5 / 1.05])


def test_half_of_the_values_are_tried_where_fewer_are_too_few_to_be_judged() -> None:
    """Of ten values five are still judged; a third of them, and a thousandth, are an error."""
    rule = "  - {assert: a count at least 8, min_samples: 5}\n"
    (proof,) = self_test(case(rule, run(series("a", "s", [1.0] * 10)), runs=0))
    assert (proof.state, proof.fails_at) == ("proven", 7.0)


@pytest.mark.parametrize(("values", "least", "telling"), [(10, 8, [2.0]), (15, 7, [3.0]), (10, 1, [])])
def test_the_amounts_that_tell_whether_a_way_makes_a_rule_fail(values: int, least: int, telling: list[float]) -> None:
    """Fewer than five values are an error, so a larger amount does not fail."""
    asked = bare(f"{{assert: a count at least {least}, min_samples: 5}}", [run(series("a", "s", [1.0] * values))])
    (rule,), (new,) = asked.ruleset.rules, asked.new

    def fails(amount: float) -> bool:
        worse = (replace(asked, new=(way.applied(new, amount),)) for way in ways(rule, asked.ruleset, [new], ()))
        return any(verdict.outcome == "fail" for one in worse for verdict in judge(one))

    assert [amount for amount in distortions.TELLING if fails(amount)] == telling


def count(metric: str, value: float, **labels: str) -> Series:
    return series(metric, "count", [value] * 8, **labels)


WORK = (
    *(count("work.kernels", 250), count("work.launches", 249), count("work.syncs", 1), count("work.allocations", 0)),
    *(count("work.copies", 7, kind="DtoH"), count("work.copies", 7, kind="HtoD")),
    *(series("work.device_time", "s", [1.0] * 20), series("forward", "s", [1.0] * 20)),
)
KINDS = ["a kernel and its launch", "a synchronisation", "a copy to the host", "an allocation", "2% of device time"]
ADDED = [
    # a rule, and the work that makes it fail
    ("work.kernels at most 250", ["a kernel and its launch"]),
    ("work.kernels at most 251", []),
    ("work.launches at most 249", ["a kernel and its launch"]),
    ("work.launches at most 250", []),
    ("work.syncs at most 1", ["a synchronisation"]),
    ("work.syncs at most 2", []),
    ('work.copies{kind="DtoH"} at most 7', ["a copy to the host"]),
    ('work.copies{kind="DtoH"} at most 8', []),
    ('work.copies{kind="HtoD"} at most 7', []),
    ("work.allocations at most 0", ["an allocation"]),
    ("work.device_time within 0.5% of baseline", ["2% of device time"]),
    ("work.device_time within 1.9% of baseline", []),
    ("forward at most 1 s", []),
    ("work.syncs under 1", KINDS),
    ("{assert: work.syncs at most 1, severity: warning}", []),
]


@pytest.mark.parametrize(("rule", "failing"), ADDED)
def test_the_work_that_makes_a_rule_fail(rule: str, failing: list[str]) -> None:
    found = {one.what: one.rules for one in added_work(bare(rule, [run(*WORK)], [run(*WORK)] * 5))}
    assert list(found) == KINDS
    name = rule.removeprefix("{assert: ").partition(",")[0]
    assert {what for what, rules in found.items() if rules} == set(failing)
    assert {rules for rules in found.values() if rules} <= {(name,)}


def test_work_that_was_not_counted_is_not_added() -> None:
    held = run(count("work.copies", 7, kind="HtoD"), count("work.launches", 7), count("work.syncs", 7))
    found = added_work(bare("work.syncs at most 7", [held]))
    assert [one.what for one in found] == ["a kernel and its launch", "a synchronisation"]


def test_runs_are_repeated_until_they_are_as_many_as_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def keep(asked: Case) -> tuple[Verdict, ...]:
        seen.append(len(asked.new))
        return ()

    monkeypatch.setattr(distortions, "judge", keep)
    for runs in range(1, 5):
        list(added_work(bare("work.syncs at most 1", [run(count("work.syncs", 1))] * runs)))
    assert seen == [3, 4, 3, 4]
