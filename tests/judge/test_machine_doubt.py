"""A change that the machine can explain is undecided, and one that it cannot explain still fails."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from conftest import answer_of, steady
from msgspec.structs import replace
from stories import bare, question_of, run_of, series

from perfgate.core import HostDifference, Key, Run, Series, read_only
from perfgate.core.baseline import HostLevel
from perfgate.core.results import Doubt
from perfgate.judge.question import MachineDifference
from perfgate.judge.verdicts import judge


def measured(seed: int, slower: float = 1.0, clock: float = 1980e6, host: str = "node1", **lost: float) -> Run:
    """A run of compute-bound steps at a clock: a tenth of the clock less takes a ninth more time."""
    values = [
        value * slower * 1980e6 / (clock if 1e6 < clock < 1e11 else 1980e6)
        for value in steady(0.1, n=60, spread=0.01, seed=seed)
    ]
    machine = [series("clock.sm", "1/s", [clock, clock], device="0")]
    names = {
        "thermal": "machine.gpu.throttled.thermal",
        "steal": "machine.cpu.steal",
        "pressure": "machine.pressure.cpu",
    }
    machine += [series(names[name], "1", [share, share]) for name, share in lost.items()]
    run = run_of(series("x", "s", values), *machine, source=f"{seed}.json")
    return replace(run, environment={"host": host})


def outcome(base: dict[str, Any], new: dict[str, Any], rule: str = "x within 3% of baseline") -> tuple[str, str, str]:
    runs = [measured(seed, **base) for seed in range(6)]
    (found,) = judge(bare(rule, [measured(50, **new), measured(51, **new), measured(52, **new)], runs))
    return answer_of(found), found.reason, "; ".join([found.message, *found.notes])


CAPPED = 1782e6
CASES = [
    # base; new; outcome and reason; a part of the message or the notes
    ({}, {}, "pass interval", ""),
    ({}, {"slower": 1.08}, "fail interval", ""),
    ({}, {"clock": CAPPED}, "suspect machine", "the clock was 10.0% slower in the new runs (1980 MHz → 1782 MHz)"),
    ({}, {"clock": CAPPED}, "suspect machine", "counted in clock cycles, the change is"),
    ({}, {"clock": CAPPED, "slower": 1.08}, "fail interval", "counted in clock cycles, the change is +8"),
    ({"clock": CAPPED}, {}, "pass interval", "the clock was 10.0% slower in the base runs"),
    ({"clock": CAPPED}, {"slower": 1.08}, "suspect machine", "the clock was 10.0% slower in the base runs"),
    ({}, {"clock": 1975e6}, "pass interval", ""),
    ({"thermal": 0.0}, {"thermal": 0.2, "slower": 1.08}, "suspect machine", "throttling of the GPU (thermal): 20%"),
    ({"thermal": 0.2}, {"thermal": 0.0}, "suspect machine", "0% of the time in the new runs, 20% in the base runs"),
    ({"thermal": 0.5}, {"thermal": 0.52, "slower": 1.08}, "fail interval", ""),
    ({"thermal": 0.0}, {"thermal": 0.2}, "pass interval", "throttling of the GPU"),
    ({"steal": 0.0}, {"steal": 0.1, "slower": 1.08}, "suspect machine", "the hypervisor ran other machines: 10%"),
    ({"steal": 0.0}, {"steal": 0.13, "slower": 1.5}, "fail interval", "the hypervisor ran other machines: 13%"),
    ({"thermal": 0.0}, {"thermal": 0.2, "slower": 1.5}, "fail interval", "throttling of the GPU (thermal): 20%"),
    ({"steal": 0.0, "thermal": 0.0}, {"steal": 0.06, "thermal": 0.06, "slower": 1.12}, "suspect machine", "6%"),
    ({"thermal": 0.0}, {"thermal": 1.0, "slower": 1.5}, "suspect machine", "throttling of the GPU (thermal): 100%"),
    ({"clock": 0.0}, {"clock": 0.0, "slower": 1.08}, "fail interval", ""),
    ({"clock": -1.0}, {"clock": -1.0, "slower": 1.08}, "fail interval", ""),
    ({}, {"clock": 0.0, "slower": 1.08}, "fail interval", ""),
    # values that no machine has are no measurement
    ({}, {"clock": 1e308, "slower": 1.08}, "fail interval", ""),
    ({"clock": 1e308}, {"clock": 1e308, "slower": 1.08}, "fail interval", ""),
    ({}, {"clock": 1.0, "slower": 1.5}, "fail interval", ""),
    ({"steal": 0.0}, {"steal": 100.0, "slower": 1.5}, "fail interval", ""),
    ({"steal": -5.0}, {"steal": 0.0, "slower": 1.5}, "fail interval", ""),
    ({"thermal": 0.0}, {"thermal": 1e308, "slower": 1.5}, "fail interval", ""),
    ({"pressure": 0.0}, {"pressure": 1e308, "slower": 1.08}, "fail interval", ""),
    ({"pressure": 0.0}, {"pressure": 0.4, "slower": 1.08}, "fail interval", "pressure on cpu: 40%"),
    ({}, {"slower": 1.08, "host": "node2"}, "fail interval", "are from machine node2, the base runs from node1"),
    ({}, {"host": "node2"}, "pass interval", ""),
]


@pytest.mark.parametrize(("base", "new", "expected", "said"), CASES)
def test_the_state_of_the_machine_counts(base: Any, new: Any, expected: str, said: str) -> None:
    found, reason, text = outcome(base, new)
    assert f"{found} {reason}" == expected, text
    assert said in text
    assert said or "clock" not in text


def test_the_setting_says_how_much_lost_time_is_too_much() -> None:
    rule = "{assert: x within 3% of baseline, lost_time: 30%}"
    assert outcome({"thermal": 0.0}, {"thermal": 0.2, "slower": 1.08}, rule)[:2] == ("fail", "interval")


def test_the_cpu_time_of_a_step_does_not_follow_the_clock_of_a_gpu() -> None:
    """A slower base would hide a change of the time; the CPU did the same work."""

    def of_step(seed: int, clock: float) -> Run:
        cpu_time = series("x.cpu_time", "s", steady(0.1, n=60, spread=0.001, seed=seed))
        return run_of(cpu_time, series("clock.sm", "1/s", [clock, clock], device="0"), source=f"{seed}.json")

    base, new = [of_step(seed, CAPPED) for seed in range(6)], [of_step(50 + seed, 1980e6) for seed in range(3)]
    (found,) = judge(bare("x.cpu_time within 3% of baseline", new, base))
    assert (found.outcome, found.reason) == ("pass", "interval")


def test_bytes_do_not_follow_the_clock() -> None:
    runs = [run_of(series("m", "B", [1e9] * 9), series("clock.sm", "1/s", [clock])) for clock in (1980e6, CAPPED)]
    heavier = run_of(series("m", "B", [1.2e9] * 9), series("clock.sm", "1/s", [1e9]))
    (found,) = judge(bare("m within 3% of baseline", [heavier], runs))
    assert found.outcome == "fail"


def test_memory_bound_work_does_not_fail_for_the_clock_alone() -> None:
    """A base at a lower clock that was not slower: in cycles the new code is worse, so nothing is decided."""
    base = [measured(seed, clock=CAPPED, slower=0.9) for seed in range(6)]
    (found,) = judge(bare("x within 3% of baseline", [measured(50)], base))
    assert (answer_of(found), found.reason, found.exit_code) == ("suspect", "machine", 3)


@pytest.mark.parametrize(
    ("slower", "capped_side", "wanted"),
    [(1.0, "new", "calm"), (1.05, "new", "found"), (1.05, "base", "found"), (1.0, "base", "calm")],
)
def test_a_clock_cap_on_one_side(slower: float, capped_side: str, wanted: str) -> None:
    """Unchanged code does not fail, and +5 % is not green; `benchmarks/machine.py` has the rates."""
    rng = np.random.default_rng(7)
    failed = green = 0
    for _ in range(10):
        seeds = iter(rng.integers(0, 1 << 30, 8))
        sides = {
            side: [
                measured(
                    int(next(seeds)),
                    slower=(slower if side == "new" else 1.0) * float(np.exp(rng.normal(0, 0.005))),
                    clock=CAPPED if side == capped_side else 1980e6,
                )
                for _ in range(5 if side == "base" else 3)
            ]
            for side in ("base", "new")
        }
        (found,) = judge(bare("x within 2% of baseline", sides["new"], sides["base"]))
        failed += found.exit_code == 1
        green += found.exit_code == 0
    assert (failed if wanted == "calm" else green) <= 1


def machine_run(value: float, unit: str = "s", host: str | None = None, **metrics: float | tuple[float, ...]) -> Run:
    """A run of equal values, with metrics of the machine; several numbers are several devices."""
    names = {name: name.replace("__", ".") for name in metrics}
    rows = [
        series(names[name], "1/s" if name == "clock__sm" else "1", [one, one], device=str(device))
        for name, ones in metrics.items()
        for device, one in enumerate(ones if isinstance(ones, tuple) else (ones,))
    ]
    found = run_of(series("x", unit, [value] * 9), *rows)
    return found if host is None else replace(found, environment={"host": host})


def differences(base: list[Run], new: list[Run], rule: str = "x within 5% of baseline", **fields: Any) -> Any:
    """What a question says of the machine: the differences with their factors, and what is only noted."""
    facts = fields.pop("facts", {})
    asked = question_of(replace(bare(rule, new, base, **fields), facts=facts))
    return asked.machine, [one for one in asked.doubts if one.reason == "machine"]


def of_clock(base: tuple[float, ...], new: tuple[float, ...], before: float, now: float) -> MachineDifference:
    return MachineDifference(base, new, (Doubt("machine", "clock", before, now, decides=True),), "cycles")


CLOCKS: list[tuple[str, list[Any], list[Any], list[MachineDifference]]] = [
    # a unit; the clocks of the stored and of the new runs, of several devices; the differences
    ("s", [1.5e9, 2.5e9], [1e9], [of_clock((0.75, 1.25), (0.5,), 2e9, 1e9)]),
    ("1/s", [1.5e9, 2.5e9], [1e9], [of_clock((4 / 3, 0.8), (2.0,), 2e9, 1e9)]),
    ("B/s", [2e9], [1e9, 3e9], [of_clock((1.0,), (2.0, 2 / 3), 2e9, 2e9)][:0]),  # their mean is the same
    ("B/s", [2e9], [1e9], [of_clock((1.0,), (2.0,), 2e9, 1e9)]),
    ("FLOP/s", [2e9], [1e9], [of_clock((1.0,), (2.0,), 2e9, 1e9)]),
    ("J", [2e9], [1e9], []),
    ("s", [2e9], [(1e9, 2e9)], [of_clock((1.0,), (0.75,), 2e9, 1.5e9)]),  # the mean of the devices
    ("s", [2e9], [1.981e9], []),
    ("s", [2e9], [1.979e9], [of_clock((1.0,), (0.9895,), 2e9, 1.979e9)]),
    ("s", [2e9], [2.019e9], []),
    ("s", [2e9], [2.021e9], [of_clock((1.0,), (1.0105,), 2e9, 2.021e9)]),
    # clocks that no machine has are left out
    ("s", [1e6], [1e11], [of_clock((1.0,), (1e5,), 1e6, 1e11)]),
    ("s", [2e9], [0.999e6], []),
    ("s", [2e9], [1e11 + 0.5], []),
    ("s", [2e9], [(1e9, 1e12)], [of_clock((1.0,), (0.5,), 2e9, 1e9)]),
    ("s", [2e9, None], [1e9], []),  # one run does not tell
    ("s", [2e9], [1e9, None], []),
]


@pytest.mark.parametrize(("unit", "base", "new", "found"), CLOCKS)
def test_times_in_cycles_of_the_mean_clock(
    unit: str, base: list[Any], new: list[Any], found: list[MachineDifference]
) -> None:
    def runs(clocks: list[Any]) -> list[Run]:
        return [machine_run(1.0, unit, **({} if clock is None else {"clock__sm": clock})) for clock in clocks]

    rule = "x at least 95% of baseline" if "/" in unit else "x within 5% of baseline"
    told, noted = differences(runs(base), runs(new), rule)
    assert noted == []
    assert len(told) == len(found)
    for one, expected in zip(told, found, strict=True):
        assert (one.base, one.new) == (pytest.approx(expected.base), pytest.approx(expected.new))
        assert (one.doubts, one.shown_as) == (expected.doubts, expected.shown_as)


def test_a_clock_may_be_printed_as_a_mean() -> None:
    def run(mean: float) -> Run:
        clock = Series(Key("clock.sm"), "1/s", "aggregate", read_only(np.empty(0)), aggregate={"mean": mean})
        return run_of(series("x", "s", [1.0] * 9), clock)

    assert differences([run(2e9)], [run(1e9)]) == ((of_clock((1.0,), (0.5,), 2e9, 1e9),), [])
    assert differences([run(2e9)], [run(math.nan)]) == ((), [])


HEAT, POWER, STEAL, LIMIT = "throttling of the GPU (heat)", "throttling of the GPU (power)", "steal: the hypervisor", (
    "the CPU limit of the control group"
)  # fmt: skip
LOST: list[tuple[dict[str, float], dict[str, float], list[tuple[str, float, float]], tuple[float, float]]] = [
    # shares of lost time in the stored and the new runs; those that differ; what is left of all time on both sides
    ({"heat": 0.25}, {"heat": 0.5}, [(HEAT, 0.25, 0.5)], (0.75, 0.5)),
    ({"heat": 0.5}, {"heat": 0.25}, [(HEAT, 0.5, 0.25)], (0.5, 0.75)),
    # reasons of one kind overlap, and kinds add up
    ({"heat": 0.125, "power": 0.25}, {"heat": 0.5, "power": 0.375}, [(HEAT, 0.125, 0.5), (POWER, 0.25, 0.375)],
     (0.75, 0.5)),
    ({"heat": 0.25, "steal": 0.125}, {"heat": 0.5, "steal": 0.125}, [(HEAT, 0.25, 0.5)], (0.625, 0.375)),
    ({"limit": 0.0}, {"limit": 0.25}, [(LIMIT, 0.0, 0.25)], (1.0, 0.75)),
    ({"heat": 0.5, "steal": 0.25}, {"heat": 0.5, "steal": 1.0}, [(STEAL, 0.25, 1.0)], (0.25, 0.01)),
    ({"heat": 1.0, "steal": 1.0}, {"heat": 1.0, "steal": 0.0}, [(STEAL, 1.0, 0.0)], (0.01, 0.01)),
    ({"heat": 0.0}, {"heat": 1.1}, [(HEAT, 0.0, 1.1)], (1.0, 0.01)),
    # lost_time is 5 %
    ({"heat": 0.0}, {"heat": 0.05}, [], (1.0, 1.0)),
    ({"heat": 0.0}, {"heat": 0.051}, [(HEAT, 0.0, 0.051)], (1.0, 0.949)),
    # what only one side has, and what no machine has
    ({"heat": 0.5}, {"power": 0.25}, [], (1.0, 1.0)),
    ({"heat": 0.0}, {"heat": 1.11}, [], (1.0, 1.0)),
    ({"heat": -0.01}, {"heat": 0.5}, [], (1.0, 1.0)),
]  # fmt: skip
METRICS = {
    "heat": "machine__gpu__throttled__heat",
    "power": "machine__gpu__throttled__power",
    "steal": "machine__cpu__steal",
    "limit": "machine__cgroup__throttled",
}


@pytest.mark.parametrize("unit", ["s", "1/s"])
@pytest.mark.parametrize(("base", "new", "said", "left"), LOST)
def test_new_runs_as_if_they_had_lost_as_much(
    unit: str, base: Any, new: Any, said: list[tuple[str, float, float]], left: tuple[float, float]
) -> None:
    def runs(count: int, shares: dict[str, float]) -> list[Run]:
        return [machine_run(1.0, unit, **{METRICS[name]: share for name, share in shares.items()})] * count

    rule = "x within 5% of baseline" if unit == "s" else "x at least 95% of baseline"
    told, noted = differences(runs(3, base), runs(2, new), rule)
    assert noted == []
    if not said:
        assert told == ()
        return
    (found,) = told
    factor = left[1] / left[0] if unit == "s" else left[0] / left[1]
    assert (found.base, found.new) == ((1.0,) * 3, pytest.approx((factor,) * 2))
    assert found.shown_as is None
    assert [(one.reason, one.what, one.base, one.new, one.decides) for one in found.doubts] == [
        ("machine", "lost", before, now, True) for _, before, now in said
    ]
    assert all(one.of.startswith(words) for one, (words, *_) in zip(found.doubts, said, strict=True))


@pytest.mark.parametrize("kind", ["cpu", "memory", "io"])
def test_pressure_is_noted_from_a_tenth_on(kind: str) -> None:
    def told(base: float, new: float) -> Any:
        runs = [machine_run(1.0, **{f"machine__pressure__{kind}": share}) for share in (base, new)]
        return differences(runs[:1], runs[1:])

    noted = {"decides": False, "of": f"pressure on {kind}"}
    assert told(0.0, 0.1) == ((), [Doubt("machine", "lost", 0.0, 0.1, **noted)])  # type: ignore[arg-type]
    assert told(0.5, 0.25) == ((), [Doubt("machine", "lost", 0.5, 0.25, **noted)])  # type: ignore[arg-type]
    assert told(0.0, 0.099) == told(0.5, 0.45) == ((), [])


def test_pairs_share_the_machine() -> None:
    base, new = machine_run(1.0, clock__sm=2e9), machine_run(1.0, clock__sm=1e9)
    assert len(differences([base], [new])[0]) == 1
    assert differences([base], [new], pairing="whole-runs") == ((), [])


def hosts(*names: str | None) -> list[Run]:
    return [machine_run(1.0 + at / 1000, host=name) for at, name in enumerate(names)]


def other_host(base: str, new: str) -> list[Doubt]:
    return [Doubt("machine", "host", base, new, decides=False)]


HOSTS: list[tuple[list[Run], list[Run], dict[str, str], list[Doubt]]] = [
    # the hosts of the stored and of the new runs, the fact of the new ones, what is noted
    (hosts("b", "a"), hosts("d", "c"), {"host": "d"}, other_host("a, b", "c, d")),
    (hosts("a", "b"), hosts("b"), {"host": "b"}, []),
    (hosts("a", "b"), hosts("c", "b"), {"host": "b"}, []),
    (hosts("a"), hosts(None), {"host": "b"}, other_host("a", "b")),
    (hosts("a"), hosts(None), {"host": "a"}, []),
    (hosts("a", None), hosts("c", None), {"host": "d"}, other_host("a", "c, d")),
    (hosts(None), hosts("c"), {"host": "c"}, []),
]


@pytest.mark.parametrize(("base", "new", "facts", "noted"), HOSTS)
def test_other_hosts_are_noted(base: list[Run], new: list[Run], facts: dict[str, str], noted: list[Doubt]) -> None:
    assert differences(base, new, facts=facts) == ((), noted)


@pytest.mark.parametrize(
    ("unit", "log", "word"),
    [("s", 0.5, "slower"), ("s", -0.5, "faster"), ("1/s", 0.5, "faster"), ("1/s", -0.5, "slower")],
)
def test_a_known_difference_of_hosts_makes_the_new_runs_those_of_the_base(unit: str, log: float, word: str) -> None:
    levels = HostLevel(("a",), 9, 1.0, 0.01), HostLevel(("b",), 9, math.exp(log), 0.01)
    known = HostDifference(Key("x"), "median", "worst", "main", *levels, log, log - 0.1, log + 0.1)
    base, new = ([machine_run(1.0, unit, host)] * count for host, count in (("a", 3), ("b", 2)))
    rule = "x within 5% of baseline" if unit == "s" else "x at least 95% of baseline"
    (found,), noted = differences(base, new, rule, hosts=(known,), facts={"host": "b"})
    doubt = Doubt("machine", "host-level", 1.0, math.exp(log), decides=True, of=word, hosts=known)
    assert found == MachineDifference((1.0,) * 3, (math.exp(-log),) * 2, (doubt,), "same-host")
    assert noted == []
    other = replace(known, key=Key("y"))  # of another metric
    assert differences(base, new, rule, hosts=(other,), facts={"host": "b"}) == ((), other_host("a", "b"))
