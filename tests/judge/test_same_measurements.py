"""Two runs are one measurement if the values that have noise are equal: one row a case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import steady, write_results, write_rules
from msgspec.structs import replace
from stories import bare, run_of, series

from perfgate.core import Key, Location, Problem, Run, Series, Summary, read_only
from perfgate.core.outlines import Fingerprint, Outline, Outlines
from perfgate.core.runs import SourceFile
from perfgate.judge.doubts.copies import measured_twice, rarity, same_measurements
from perfgate.judge.verdicts import judge
from perfgate.large_values.array import Spool
from perfgate.workspace.output_files import open_scratch

TIMES = run_of(series("x", "s", steady(1.0, n=40)))
NUMBERS = TIMES.series[0].values
THREE = run_of(*(series(name, "s", steady(1.0, n=40)) for name in "xyz"))
THINNED = run_of(replace(TIMES.series[0], values=TIMES.series[0].values[::2], thinned_from=40))


PRINTED = [
    run_of(series("x", "s", np.round(np.random.default_rng(seed).normal(0.0127, 0.0004, 200), 4))) for seed in (1, 2)
]


def printed(**numbers: float) -> Run:
    return run_of(Series(Key("x"), "s", "aggregate", read_only(np.empty(0)), aggregate=numbers))


def one(metric: str, values: Any, unit: str = "s", **fields: Any) -> Series:
    return replace(series(metric, unit, values), **fields)


def many(*rows: Series) -> Run:
    return run_of(*rows)


#: Whole numbers, all different; and shares of them that are equal, with others as often below as above.
WHOLE = np.random.default_rng(5).permutation(np.arange(200.0, 240.0))
HALF = WHOLE * np.where(np.arange(40) % 2, 1.0, np.where(np.arange(40) % 4, 1.01, 0.99))
SIX_DIGITS = 1 + 2e-6 * (np.arange(40) % 3 - 1)
EQUAL = [0.01] * 40
SUMMARY = Summary(("median",), ((1.0, 9.0, 0.0),), 40, 0, True, "auto", ("lower",))
STORED = one("y", [], kind="summary", aggregate={"count": 40.0}, summary=SUMMARY)
DIGITS = [one(name, [1.234567890123456], kind="value") for name in "abc"]
BOUNDS = [
    # a factor from .8 to 1.05, and equality to six digits
    (many(one("x", 4 * WHOLE)), many(one("x", 5 * WHOLE)), True),
    (many(one("x", 79 * WHOLE)), many(one("x", 100 * WHOLE)), False),
    (many(one("x", 21 * WHOLE)), many(one("x", 20 * WHOLE)), True),
    (many(one("x", 106 * WHOLE)), many(one("x", 100 * WHOLE)), False),
    (many(one("x", WHOLE)), many(one("x", WHOLE * SIX_DIGITS)), False),
    (many(one("x", 4 * WHOLE)), many(one("x", 5 * WHOLE * (0.35 + 0.65 * SIX_DIGITS))), False),
    (many(one("x", -WHOLE)), many(one("x", -WHOLE)), True),
    # two values, each in half of the steps, are 1 bit for each step: 40 bits are enough
    (many(one("x", [1.0, 2.0] * 20)), many(one("x", [1.0, 2.0] * 20)), True),
    (many(one("x", [1.0, 2.0] * 19)), many(one("x", [1.0, 2.0] * 19)), False),
    # more than half of the values of a run, weighted by their number
    (many(one("x", WHOLE)), many(one("x", HALF)), False),
    (many(one("x", WHOLE), one("y", EQUAL)), many(one("x", HALF), one("y", EQUAL)), True),
    (many(one("x", WHOLE), one("y", WHOLE)), many(one("x", WHOLE), one("y", WHOLE**2)), False),
    (many(one("x", WHOLE), one("y", WHOLE)), many(one("x", WHOLE**2), one("y", WHOLE)), False),
    (many(one("x", WHOLE), one("y", WHOLE[:30])), many(one("x", WHOLE), one("y", WHOLE[:30] ** 2)), True),
    # three printed numbers of sixteen digits, and five other values
    (many(*DIGITS, one("y", WHOLE[:5])), many(*DIGITS, one("y", WHOLE[:5] ** 2)), False),
    (many(*DIGITS, one("y", WHOLE[:2])), many(*DIGITS, one("y", WHOLE[:2] ** 2)), True),
    (many(one("x", WHOLE[:20])), many(one("x", WHOLE)), False),
    (many(one("x", WHOLE)), many(one("x", WHOLE, kind="value")), False),
    # what is often equal in two runs, and what the machine did, tell nothing
    *(((many(one("x", WHOLE, unit)),) * 2 + (False,)) for unit in ("1", "count", "B", "FLOP")),
    *(((many(one(name, WHOLE)),) * 2 + (False,)) for name in ("power", "clock.sm", "machine.cpu.steal")),
    (many(one("x", WHOLE), one("b", WHOLE, "B")), many(one("x", WHOLE), one("b", WHOLE**2, "B")), True),
    # a stored summary tells nothing of values, and everything of another summary
    (many(one("x", WHOLE), one("y", WHOLE)), many(one("x", WHOLE), STORED), True),
    (many(STORED, one("x", [1.0, 2.0] * 19)), many(STORED, one("x", [1.0, 2.0] * 19)), False),
    (many(STORED, one("x", WHOLE[:30])), many(replace(STORED, aggregate={"count": 40.0, "mean": 2.0}),
     one("x", WHOLE[:30])), False),
    # a stored run may have a selection of the values
    (many(one("x", WHOLE[::2], thinned_from=40)), many(one("x", WHOLE)), True),
    (many(one("x", WHOLE[::2], thinned_from=41)), many(one("x", WHOLE)), False),
    (many(one("x", WHOLE)), many(one("x", WHOLE[::2] + 0.5, thinned_from=40)), False),
    # empty series, and numbers without a logarithm
    (many(one("x", []), one("y", WHOLE)), many(one("x", []), one("y", WHOLE)), True),
    (many(one("x", np.zeros(40))), many(one("x", np.zeros(40))), False),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "same"), BOUNDS)
def test_how_much_has_to_be_equal(first: Run, second: Run, same: bool) -> None:
    assert same_measurements(first, second) == same


def test_in_another_order_the_counts_are_the_evidence() -> None:
    """Of Poisson counts of mean m, two runs have the same with 1 in sqrt(4 pi m): 4 values 50 times are 17 bits."""
    few = np.repeat([1.0, 2.0, 3.0, 4.0], 50)
    shuffled = np.random.default_rng(1).permutation
    assert not same_measurements(many(one("x", few)), many(one("x", shuffled(few))))
    several = np.repeat(np.arange(1.0, 13.0), 50)  # 12 values 50 times are 49 bits, less 6 for their sum
    assert same_measurements(many(one("x", several)), many(one("x", shuffled(several))))
    ten = np.repeat(np.arange(1.0, 11.0), 49)  # 46.3 bits less 6.3
    assert same_measurements(many(one("x", ten)), many(one("x", shuffled(ten))))
    fewer = np.repeat(np.arange(1.0, 11.0), 48)  # 46.2 bits less 6.3
    assert not same_measurements(many(one("x", fewer)), many(one("x", shuffled(fewer))))
    pairs = np.repeat(np.arange(1.0, 11.0), 2)  # 23 bits: only values that occur once are evidence by themselves
    for values in (pairs, np.append(pairs, [20.0, 21.0])):
        assert not same_measurements(many(one("x", values)), many(one("x", shuffled(values))))


@pytest.mark.parametrize("single", [20, 40, 60])
def test_values_that_occur_once_are_evidence_in_another_order(single: int) -> None:
    """The smallest and the largest occur once, too; of 80 values, half or more are known by themselves."""
    rest = np.repeat(np.linspace(2.1, 2.9, (80 - single) // 2), 2)
    values = np.concatenate((np.linspace(1, 2, single // 2), np.linspace(3, 4, single // 2), rest))
    assert same_measurements(many(one("x", values)), many(one("x", np.random.default_rng(2).permutation(values))))
    most = np.concatenate((np.linspace(1, 2, 10), np.linspace(3, 4, 10), [2.5] * 18))  # 79 bits times 20 / 38
    assert same_measurements(many(one("x", most)), many(one("x", most[::-1])))


def test_a_metric_in_another_order_counts_once() -> None:
    """600 values of 1,500 are copied."""
    several = np.repeat(np.arange(1.0, 13.0), 50)
    own = np.arange(1.0, 901.0)
    runs = many(one("x", several), one("y", own)), many(one("x", several[::-1]), one("y", own**2))
    assert not same_measurements(*runs)


RARE = [
    (one("x", [1.0, 2.0] * 3), 6.0),
    (one("x", [1.0, 2.0, 3.0]), 3 * np.log2(3)),
    (one("x", [1.0] * 9), 0.0),
    (one("x", [1.0]), 0.0),
    (one("x", []), 0.0),
    (one("x", [100.0], kind="value"), 0.0),
    (one("x", [0.012], kind="value"), 0.0),
    (one("x", [-1.25], kind="value"), np.log2(10)),
    (one("x", [1.2345e-5], kind="value"), 3 * np.log2(10)),
    (one("x", [], kind="aggregate", aggregate={"mean": 1.25, "p95": 10.5678, "count": 80.0, "min": 0.0}),
     5 * np.log2(10)),
]  # fmt: skip


@pytest.mark.parametrize(("found", "bits"), RARE)
def test_the_bits_of_values_and_of_printed_digits(found: Series, bits: float) -> None:
    assert rarity(found) == pytest.approx(bits)


def test_values_in_a_file_have_the_bits_of_the_first_ones() -> None:
    """65,536 values are enough to tell."""
    spool = Spool(np.float64, open_scratch)
    spool.add(np.tile([1.0, 2.0], 40_000))
    large: Any = spool.array(0, 80_000)
    assert rarity(replace(one("x", [0.0]), values=large)) == 65_536.0
    short: Any = spool.array(0, 1000)
    assert rarity(replace(one("x", [0.0]), values=short)) == 1000.0


def outlined(*rows: Series, digest: bytes = b"a", bits: float = 25.0, rank: str = "", name: str = "z") -> Run:
    return run_of(*rows, outlines=Outlines({(name, (), "s"): Outline()}, {rank: Fingerprint(digest, bits)}))


TWENTY = one("x", [1.0, 2.0] * 10)
#: 20 bits, 16 bits and a digit
THIRTY_NINE = (TWENTY, one("y", [1.0, 2.0, 3.0, 4.0] * 2), one("w", [1.25], kind="value"))
OUTLINED = [
    # twenty bits of the values and those of the outlined metrics, if these are equal
    (outlined(TWENTY), outlined(TWENTY), True),
    (outlined(TWENTY, bits=20.0), outlined(TWENTY, bits=9.0), True),
    (outlined(TWENTY, bits=19.0), outlined(TWENTY, bits=99.0), False),
    (outlined(TWENTY, digest=b"b", bits=99.0), outlined(TWENTY, bits=99.0), False),
    (outlined(one("x", WHOLE), digest=b"b"), outlined(one("x", WHOLE)), False),
    (outlined(TWENTY, rank="1", bits=99.0), outlined(TWENTY, bits=99.0), False),
    (outlined(one("x", WHOLE), rank="1"), outlined(one("x", WHOLE)), True),
    # an outline is not a stored summary; nothing is known of what the other run has with its values
    (outlined(one("x", WHOLE), name="y"), many(one("x", WHOLE), STORED), False),
    (many(one("x", WHOLE), STORED), outlined(one("x", WHOLE), name="y"), False),
    (outlined(one("x", WHOLE), name="y"), many(one("x", WHOLE), one("y", WHOLE)), True),
    (outlined(one("x", WHOLE)), many(one("x", WHOLE), STORED), True),
    (outlined(TWENTY, bits=99.0), many(TWENTY), False),
    (outlined(*THIRTY_NINE), many(*THIRTY_NINE), False),
]


@pytest.mark.parametrize(("first", "second", "same"), OUTLINED)
def test_metrics_without_values_count_by_their_fingerprint(first: Run, second: Run, same: bool) -> None:
    assert same_measurements(first, second) == same


def file(name: str) -> SourceFile:
    return SourceFile(name, "test", f"sha of {name}")


def of_files(seed: int, *names: str, part: int | None = None) -> Run:
    return replace(
        run_of(series("x", "s", steady(1.0, n=40, seed=seed)), source=f"run {seed}"), files=tuple(map(file, names)),
        part=part,
    )  # fmt: skip


STALE = "this file is in the baseline: nothing was measured; give a new run"
COPY = "the same measurements are in the baseline: it is compared with itself; measure again"
TWICE: list[tuple[list[Run], list[Run], list[tuple[str, str]]]] = [
    # new runs, stored runs; where and what is said
    ([of_files(1, "new")], [of_files(2, "old")], []),
    ([of_files(1, "old")], [of_files(2, "old")], [("old", STALE)]),
    ([of_files(1, "a", "b")], [of_files(2, "a", "b", "c")], [("a", STALE)]),
    ([of_files(1, "old", "new.machine")], [of_files(2, "old")], [("old", STALE)]),
    ([of_files(1, "new", "new.machine")], [of_files(2, "new.machine")], []),
    ([of_files(1, "a", "b", "c")], [of_files(2, "b", "c")],
     [("a", "not measured again: b, c of this run is in the baseline")]),
    ([of_files(1, "new")], [of_files(3, "x"), of_files(1, "old")], [("new", COPY)]),
    ([of_files(1)], [of_files(1)], [("run 1", COPY)]),
    ([of_files(1, "a"), of_files(2, "b"), of_files(1, "c")], [of_files(9)],
     [("c", "the same measurements are in run 1: one run counts once; measure again")]),
    ([of_files(1, "a", part=2), of_files(1, "b")], [of_files(9)],
     [("b", "the same measurements are in run 1 (run 2): one run counts once; measure again")]),
    ([of_files(seed, "old", part=seed) for seed in (1, 2, 3)], [of_files(9, "old")],
     [("old", f"{STALE} (and 2 more runs of this file)")]),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "severity"), [("x within 5% of baseline", "error"), ("x under 9 s", "warning")])
@pytest.mark.parametrize(("new", "base", "said"), TWICE)
def test_a_run_that_is_compared_with_itself(
    rule: str, severity: Any, new: list[Run], base: list[Run], said: list[tuple[str, str]]
) -> None:
    """An error, unless nothing was compared; of two new runs always, and of a part of the files never."""
    asked = bare(rule, new, base)
    always = {"one run counts once": "error", "not measured again": "warning"}
    expected = [
        Problem(next((kind for words, kind in always.items() if words in text), severity), text, Location(where))
        for where, text in said
    ]
    assert measured_twice(asked, judge(asked), base) == expected


def test_a_comparison_that_was_skipped_makes_a_warning() -> None:
    new, base = of_files(1, "old"), of_files(2, "old")
    asked = bare('{assert: x within 5% of baseline, when: {gpu: "*A100*"}}', [new], [base])
    asked = replace(asked, facts={"gpu": "H200"})
    assert [one.severity for one in measured_twice(asked, judge(asked), [base])] == ["warning"]


def test_one_comparison_beside_a_limit_makes_an_error() -> None:
    new, base = of_files(1, "old"), of_files(2, "old")
    asked = bare("x under 9 s\nx within 5% of baseline", [new], [base])
    assert [one.severity for one in measured_twice(asked, judge(asked), [base])] == ["error"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (TIMES, TIMES, True),
        (TIMES, THINNED, True),
        (TIMES, run_of(series("x", "s", steady(1.0, n=40, seed=2))), False),
        (TIMES, run_of(series("y", "s", steady(1.0, n=40))), False),
        # a copy with other last digits, in another order, times a factor, or with new values in a third of the steps
        (TIMES, run_of(series("x", "s", NUMBERS * (1 + 1e-9 * np.arange(40)))), True),
        (TIMES, run_of(series("x", "s", NUMBERS[::-1])), True),
        (TIMES, run_of(series("x", "s", 1.03 * NUMBERS)), True),
        (TIMES, run_of(series("x", "s", np.where(np.arange(40) % 3, NUMBERS, 1.01 * NUMBERS))), True),
        (TIMES, run_of(series("x", "s", NUMBERS * np.linspace(1, 1.01, 40))), False),
        # two runs whose times have few digits: sorted, most of them are equal by chance
        (PRINTED[0], PRINTED[1], False),
        (PRINTED[0], PRINTED[0], True),
        (PRINTED[0], run_of(series("x", "s", PRINTED[0].series[0].values[::-1])), True),
        (run_of(series("x", "s", [0.01, 0.02, 0.03] * 20)), run_of(series("x", "s", [0.02, 0.03, 0.01] * 20)), False),
        # one copied metric of three
        (THREE, run_of(TIMES.series[0], *(series(name, "s", steady(1.0, n=40, seed=9)) for name in "yz")), False),
        (TIMES, run_of(*TIMES.series, series("y", "s", [1.0])), True),
        (run_of(series("x", "B", steady(8e9, n=40))), run_of(series("x", "B", steady(8e9, n=40))), False),
        (run_of(series("x", "s", [0.01] * 40)), run_of(series("x", "s", [0.01] * 40)), False),
        (run_of(series("x", "s", [0.01, 0.02] * 4)), run_of(series("x", "s", [0.01, 0.02] * 4)), False),
        (run_of(series("x", "s", [0.01, 0.02] * 40)), run_of(series("x", "s", [0.01, 0.02] * 40)), True),
        (printed(mean=1.25, total=98.5, count=80.0), printed(mean=1.25, total=98.5, count=80.0), False),
        (printed(mean=1.23456789012, p95=1.3456789), printed(mean=1.23456789012, p95=1.3456789), True),
    ],
)
def test_equal_noise_is_one_measurement(one: Run, other: Run, same: bool) -> None:
    assert same_measurements(one, other) == same


def test_metrics_that_were_stored_as_summaries_do_not_hide_a_copy(perfgate: Any, folder: Path) -> None:
    """Metrics that no rule names are stored as summaries; they were counted as unlike."""
    write_rules(folder, "step within 10% of baseline")
    names = ["step", "other", "more", "further"]

    def write(name: str, seed: int, factor: float = 1.0) -> None:
        values = {metric: steady(100, n=60, seed=10 * seed + at) for at, metric in enumerate(names)}
        rows = [{"metric": one, "unit": "ms", "values": [x * factor for x in found]} for one, found in values.items()]
        write_results(folder / name, *rows)

    for seed in range(4):
        write(f"base-{seed}.json", seed)
    assert perfgate("baseline", "approve", *sorted(folder.glob("base-*.json")), "--reason", "first").code == 0
    write("new.json", 0, factor=1.01)
    done = perfgate("check", "new.json")
    assert (done.code, "the same measurements are in the baseline" in " ".join(done.out.split())) == (3, True), (
        done.said
    )
