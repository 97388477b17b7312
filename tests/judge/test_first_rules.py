"""Which rules `init` proposes, where a step spends its time, and what moved most."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import steady
from stories import TODAY, as_dict, check_golden, run, series

from perfgate.analysis.proposals import propose
from perfgate.core import Key, Run, Series, read_only
from perfgate.judge.breakdown import breakdown, movers


def test_first_rules() -> None:
    found = propose([run(seed, n=24) for seed in range(3)], TODAY)
    shown = [
        {"metric": one.metric, **as_dict(one.fit), "plans": [plan.detectable for plan in one.fit.plans]}
        | {"limit": one.limit, "is_sum": one.is_sum}
        for one in found.rules
    ]
    check_golden("proposals", *shown, {reason: list(names) for reason, names in found.left_out.items()})


def printed(metric: str, unit: str, **statistics: float) -> Series:
    """What a source prints of a metric whose values it does not hold."""
    return Series(Key(metric), unit, "aggregate", read_only(np.array([])), aggregate=statistics)


OTHERS = [
    # rows of every run, and the rules that are proposed for them, with their limits
    ([("rate", "1/s", 900.0)], {"rate within 3% of baseline": "rate median over 740 /s"}),
    ([("memory", "B", 4e9)], {"memory within 3% of baseline": "memory p95 under 4.5 GiB"}),
    ([("gpu.utilization", "1", 0.5)], {"gpu.utilization within 3% of baseline": "gpu.utilization median over 41%"}),
    ([("loss", "1", 3.0)], {}),
    (
        [("kernel.a", "s", 1.0), ("small", "s", 0.1)],
        {
            "small within 3% of baseline": "small median under 130 ms",
            "kernel.a within 3% of baseline": "kernel.a median under 1.3 s",
        },
    ),
    (
        [("a", "s", 1.0), ("b", "s", 1.01), ("c", "s", 2.0)],
        {"c within 3% of baseline": "c median under 2.5 s", "b within 3% of baseline": "b median under 1.3 s"},
    ),
    (
        [("a", "s", 1.0), ("b", "1/s", 1.0)],
        {"a within 3% of baseline": "a median under 1.3 s", "b within 3% of baseline": "b median over 0.83 /s"},
    ),
]


@pytest.mark.parametrize(("rows", "proposed"), OTHERS)
def test_first_rules_of_other_metrics(rows: list[tuple[str, str, float]], proposed: dict[str, str]) -> None:
    def made(seed: int) -> Run:
        held = [
            series(name, unit, steady(centre, n=40, spread=0.01 if unit != "B" else 0, seed=seed))
            for name, unit, centre in rows
        ]
        return Run(f"run{seed}", "test", tuple(held))

    found = propose([made(seed) for seed in range(4)], TODAY)
    assert {one.fit.sentence: one.limit for one in found.rules} == proposed
    assert list(proposed) == [one.fit.sentence for one in found.rules]


def test_what_is_printed_is_ranked_by_its_total() -> None:
    rows = (
        printed("counted", "s", mean=0.5, count=10.0),
        printed("totalled", "s", mean=0.1, count=2.0, total=7.0),
        printed("mean", "s", mean=1.0),
        printed("nothing", "s", max=1.0),
    )
    runs = [Run(f"run{i}", "test", rows) for i in range(3)]
    found = propose(runs, TODAY)
    assert [one.metric for one in found.rules] == ["totalled", "counted", "mean"]
    values = propose([Run("r", "test", (*rows, Series(Key("value"), "s", "value", read_only(np.array([0.1])))))], TODAY)
    assert values.rules[0].metric == "value"  # a value before what is printed


def test_metrics_that_not_every_run_holds_or_of_two_units_have_no_first_rule() -> None:
    one = Run(
        "a",
        "test",
        (series("x", "s", steady(1.0, n=40)), series("y", "s", steady(9.0, n=40)), series("z", "s", [1.0] * 9)),
    )
    two = Run("b", "test", (series("x", "s", steady(1.0, n=40, seed=2)), series("z", "1/s", [1.0] * 9)))
    found = propose([one, two], TODAY)
    assert [rule.metric for rule in found.rules] == ["x"]
    assert {reason: list(names) for reason, names in found.left_out.items()} == {
        "not in every run": ["y"],
        "not in the same unit and kind in all runs": ["z"],
    }


def test_where_a_step_spends_its_time() -> None:
    def trace(seed: int, factor: float, *names: str) -> Run:
        rows = [series("step.time", "s", [1.0] * 4, rank=str(r)) for r in range(2)]
        rows += [
            series(name, "s", [0.1 * factor * (1 + i + r)] * 4, rank=str(r))
            for i, name in enumerate(names)
            for r in range(2)
        ]
        rows += [series("kernel.bytes", "B", [9.0]), series("step.odd", "s", [float("inf")])]
        printed = {"mean": 0.2 * factor, "count": 8.0}
        rows.append(
            Series(Key("aten::mm.self_device_time"), "s", "aggregate", read_only(np.array([])), aggregate=printed)
        )
        rows.append(Series(Key("op.printed"), "s", "aggregate", read_only(np.array([])), aggregate={"total": 3.0}))
        rows.append(Series(Key("op.nothing"), "s", "aggregate", read_only(np.array([])), aggregate={"mean": 3.0}))
        rows.append(Series(Key("op.thinned"), "s", "samples", read_only(np.ones(4)), thinned_from=12))
        return Run(f"run{seed}", "test", tuple(rows))

    names = ("step.kernel", "step.other", "kernel.a", "op.b", "collective.c", "memcpy.d", "api.e", "kernel.gone")
    base = [trace(1, 1.0, *names), trace(2, 1.1, *names)]
    new = [trace(3, 1.5, *names[:-1], "kernel.come")]
    check_golden("breakdown", *map(as_dict, breakdown(base, new)))
    check_golden("movers", *map(as_dict, movers(base, new)))
    assert movers([Run("r", "test", ())], new) == ()
    assert [part.metric for part in breakdown([], new)] == ["step.other", "step.kernel"]
    many = [f"kernel.{i:02}" for i in range(25)]
    assert len(movers([trace(1, 1.0, *many)], [trace(2, 2.0, *many)])) == 20
