"""One remembered run: which numbers it has, and its file."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from histories import at, record, value
from msgspec.structs import replace

from perfgate.core import Better, Key, Run, Series, read_only
from perfgate.core.remembered_runs import HistoryRun, HistoryValue, SeriesName
from perfgate.history import records
from perfgate.history.records import (
    RUN_FILE,
    StoredValue,
    id_of_files,
    id_of_values,
    refuse_line_breaks,
    run_file,
    run_of,
    value_of,
    values_of,
)
from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import Ruleset
from perfgate.workspace.options import Refused

NAN = math.nan


def key_of(metric: str, rank: int | None) -> Key:
    return Key(metric) if rank is None else Key.of(metric, rank=str(rank))


def samples(metric: str, *values: float, unit: str = "s", rank: int | None = None) -> Series:
    return Series(key_of(metric, rank), unit, "samples", read_only(np.array(values, np.float64)))


def lone(metric: str, number: float, unit: str = "s") -> Series:
    return Series(Key(metric), unit, "value", read_only(np.array([number])))


def printed(metric: str, rank: int | None = None, **statistics: float) -> Series:
    return Series(key_of(metric, rank), "s", "aggregate", read_only(np.empty(0)), aggregate=statistics)


def rules_of(text: str) -> Ruleset:
    """Rules, one on each line, of which one may name the derived metric `both`."""
    lines = "".join(f"  - {line}\n" for line in text.splitlines())
    head = "version: 1\nmetrics:\n  both: x + y\nrules:\n"
    found, problems = load_rules([("rules.yaml", (head + (lines or "  - none under 1 s\n")).encode())])
    assert found is not None, problems
    return found


def shown(one: HistoryValue) -> str:
    """A number with its name; unit, direction and kind only if they are not those of most."""
    about = f" {one.unit} {one.better} {one.kind}"
    return f"{one.name}: {one.value:g}{about.removesuffix(' s lower samples')}"


# --- ids -------------------------------------------------------------------------------------------------------------


def test_ids_stay_as_they_are_in_the_names_of_files() -> None:
    assert id_of_files({"b2": None, "a1": None}, None) == id_of_files(["a1", "b2"], None) == "f634ca1ba81372f4"
    assert id_of_files(["a1", "b2"], 3) == "7a9ea46542167fcb"
    values = [value("a", 1.5), replace(value("b", 2.0), name=SeriesName(Key.of("b", x="1"), "mean", "across"))]
    assert id_of_values(values, "c0ffee", "2026-01-01T00:00:00Z") == "b95bf383cb23191b"


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "\n", "b\r\nc"])
def test_a_line_break_is_refused(text: str) -> None:
    for one in (record(1, {text: 1.0}), record(1, {"x": 1.0}, context={"host": text})):
        with pytest.raises(Refused) as raised:
            refuse_line_breaks(one, "old.csv")
        assert str(raised.value) == f"old.csv: {text!r} has a line break: write it as one line"
        assert raised.value.exit_code == 3
    refuse_line_breaks(record(1, {"x": 1.0}, context={"host": "a b", "count": 8}), "old.csv")


# --- the numbers of a run --------------------------------------------------------------------------------------------

RANKS = [samples("x", *[float(rank)] * 5, rank=number) for number, rank in enumerate([2, 4, 1, 3])]
RATES = [samples("r", *[float(rank)] * 5, rank=number, unit="1/s") for number, rank in enumerate([2, 4, 1, 3])]
X, Y = samples("x", 9, 5, 1), samples("y", 3, 2, 2)
SLOW_START = samples("r", 1, 2, 4, *[10.0, 10.05, 10.1] * 10, unit="1/s")
INFINITE = [X, samples("y", NAN, NAN), samples("z"), lone("u", math.inf), lone("v", NAN)]

NUMBERS: list[tuple[list[Series], str, list[str]]] = [
    # without rules: the usual statistic on the worst rank
    ([X], "", ["x median: 3"]),
    ([Y, X], "", ["x median: 3", "y median: 2"]),
    (RANKS, "", ["x median: 4"]),
    (RATES, "", ["r median: 1 1/s higher samples"]),
    ([samples("loss", 1, 2, 3, unit="1")], "", ["loss median: 2.5 1 neither samples"]),
    ([lone("x", 7)], "", ["x mean: 7 s lower value"]),
    ([printed("x", mean=2.0, max=5.0)], "", ["x mean: 2 s lower aggregate"]),
    ([printed("x", total=6.0, count=3)], "", ["x mean: 2 s lower aggregate"]),
    ([printed("x", total=6.0)], "", ["x total: 6 s lower aggregate"]),
    # those of rules, and the usual ones
    ([X], "x within 5% of baseline", ["x median: 3"]),
    ([X], "x max under 9 s", ["x max: 9", "x median: 3"]),
    ([X, Y], "y max under 9 s", ["x median: 3", "y max: 3", "y median: 2"]),
    ([X], "x count under 9", ["x count: 3 1 neither samples", "x median: 3"]),
    ([X, Y], "both under 9 s", ["both median: 5", "x median: 3", "y median: 2"]),
    ([X], "z under 9 s", ["x median: 3"]),
    ([X, samples("y", 1, 2, unit="B")], "x + y under 9 s", ["x median: 3", "y median: 1.5 B lower samples"]),
    # ranks
    (RANKS, "x on each rank within 5% of baseline", ["x median: 4"]),
    (RANKS, "x on the slowest rank under 9 s", ["x median on the slowest rank: 4", "x median: 4"]),
    (RANKS, "x on the fastest rank under 9 s", ["x median on the fastest rank: 1", "x median: 4"]),
    (RANKS, "x on the median rank under 9 s", ["x median on the median rank: 2", "x median: 4"]),
    (RANKS, "x across ranks min under 9 s", ["x min across ranks: 1", "x median: 4"]),
    # the warm-up and the direction of the rules of a metric
    ([X], "{assert: x max under 10 s, warmup: 1}", ["x max: 5", "x median: 3"]),
    ([X], "{assert: x mean under 10 s, warmup: 0}", ["x mean: 5", "x median: 5"]),
    ([Y, X], "{assert: x mean under 10 s, warmup: 0}", ["x mean: 5", "x median: 5", "y median: 2"]),
    (RANKS, "{assert: x within 5% of baseline, better: higher}", ["x median: 1 s higher samples"]),
    (
        [SLOW_START],
        "r stddev within 5% of baseline",
        ["r median: 10.05 1/s higher samples", "r stddev: 0.0415227 1/s lower samples"],
    ),
    # what is no finite number is left out
    (INFINITE, "", ["x median: 3"]),
    ([printed("x", total=6.0)], "x max under 9 s", ["x total: 6 s lower aggregate"]),
]


@pytest.mark.parametrize(("rows", "rules", "expected"), NUMBERS)
def test_the_numbers_of_a_run(rows: list[Series], rules: str, expected: list[str]) -> None:
    own = rules_of(rules)
    found, left_out = values_of(Run("run", "test", tuple(rows)), own.rules, own.metrics)
    assert ([shown(one) for one in found], left_out) == (sorted(expected), 0)


DIRECTIONS: list[tuple[str, str, Better]] = [
    # the metric, its rule, and its direction, if that of x is given as higher
    ("x", "", "higher"),
    ("x", "x mean within 5% of baseline", "higher"),
    ("x", "{assert: x mean within 5% of baseline, better: lower}", "lower"),
    ("y", "", "lower"),
]


@pytest.mark.parametrize(("metric", "rule", "better"), DIRECTIONS)
def test_the_direction_of_a_rule_comes_before_a_given_one(metric: str, rule: str, better: Better) -> None:
    own = rules_of(rule)
    found, _ = values_of(Run("run", "test", (X, Y)), own.rules, own.metrics, {"x": "higher"})
    assert {one.better for one in found if one.name.key.metric == metric} == {better}


def test_samples_have_an_error_and_their_number() -> None:
    numbers = [1.0, 2.0, 4.0, 1.0, 2.0]
    (mean, _), _ = values_of(Run("run", "test", (samples("x", 9, *numbers),)), rules_of("x mean under 9 s").rules)
    assert (mean.value, mean.n) == (2.0, 5)
    assert mean.n_effective is not None
    assert mean.error == pytest.approx(math.sqrt(np.var(numbers, ddof=1) / mean.n_effective))
    (negative,), _ = values_of(Run("run", "test", (samples("x", -9, -5, -1),)))
    assert (negative.value, negative.error, negative.n) == (-5.0, None, 3)
    for series in (lone("x", 2.0), printed("x", mean=2.0)):
        (known,), _ = values_of(Run("run", "test", (series,)))
        assert (known.error, known.n, known.n_effective) == (None, None, None)


LONGEST: list[tuple[list[Series], str, list[str], int]] = [
    # of two numbers at most: those of rules, then what has no time, then the longest times
    ([samples("a", 1, 1), samples("b", 2, 2), samples("c", 3, 3)], "", ["b", "c"], 1),
    ([samples("a", 1, 1), samples("b", 2, 2), samples("c", 2, 2), samples("d", 2, 2)], "", ["b", "c"], 2),
    ([samples("a", 5, 5), samples("b", 2, 2), samples("c", 1, 1, unit="B")], "", ["a", "c"], 1),
    ([samples("a", 5, 5), printed("b", total=20.0), samples("c", 3, 3)], "", ["a", "b"], 1),
    ([samples("a", 0.2, 0.3), printed("b", max=20.0), samples("c", 0.3, 0.3)], "", ["a", "c"], 1),
    ([*(samples("a", 3, 3, rank=rank) for rank in (0, 1)), samples("b", 5, 5), samples("c", 4, 4)], "", ["a", "b"], 1),
    ([samples("a", 1, 1), samples("b", 2, 2), samples("c", 3, 3)], "a under 9 s", ["a", "c"], 1),
    ([samples("a", 1, 1), samples("b", 2, 2)], "a max under 9 s\na min under 9 s\na mean under 9 s", ["a"] * 3, 2),
    ([samples("a", 1, 1), samples("b", 2, 2)], "", ["a", "b"], 0),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "rules", "expected", "left_out"), LONGEST)
def test_the_longest_times_fit(rows: list[Series], rules: str, expected: list[str], left_out: int) -> None:
    with patch.object(records, "MOST_VALUES", 2):
        found, rest = values_of(Run("run", "test", tuple(rows)), rules_of(rules).rules)
    assert ([one.name.key.metric for one in found], rest) == (expected, left_out)


def test_a_run_has_at_most_two_thousand_numbers() -> None:
    found, rest = values_of(Run("run", "test", tuple(lone(f"m{i}", 1.0) for i in range(2003))))
    assert (len(found), rest) == (2000, 3)


# --- the file of a run -----------------------------------------------------------------------------------------------

RUN = HistoryRun("f634ca1ba81372f4", at(3), "c0ffee", "main", ("v1",), {"host": "n1", "driver": 5}, "old.csv")
STORED = StoredValue("x", {"b": "2", "a": "1"}, "median", "worst", "s", "lower", "samples", 1.5, 0.1, 40, 30.5)


def test_a_run_is_read_as_it_was_written() -> None:
    values = (
        HistoryValue(SeriesName(Key.of("y", b="2", a="1"), "mean", "across"), "B", "neither", "value", 0.0),
        HistoryValue(
            SeriesName(Key("x"), "median"), "s", "lower", "samples", 0.123456789012345, 0.0012345, 200, 151.2345
        ),
    )
    data = run_file(replace(record(1, {}), run=RUN, values=values), "perfgate 1.0")
    file, problems = RUN_FILE.decode("x.json", data)
    assert file is not None, problems
    assert (file.schema, file.tool, file.suite, file.left_out) == ("perfgate.history/1", "perfgate 1.0", "gpt", 0)
    assert (file.identity, list(file.context)) == ({"gpu": "H200", "gpu_count": 8, "world_size": 8}, ["driver", "host"])
    assert run_of(file) == RUN
    rounded = replace(values[1], value=0.123456789012, error=0.00123, n_effective=151.2)
    assert [value_of(row) for row in file.values] == [rounded, values[0]]
    lines = data.decode().splitlines()
    assert '    ["x",{},"median","worst","s","lower","samples",0.123456789012,0.00123,200,151.2],' in lines
    again, _ = RUN_FILE.decode("x.json", run_file(record(1, {"x": 1.0}), "perfgate 1.0", 7))
    assert again is not None
    assert again.left_out == 7


SOUND: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"error": None}, True),
    ({"error": 0.0}, True),
    ({"error": 0.5}, True),
    ({"error": -0.1}, False),
    ({"error": NAN}, False),
    ({"unit": "ms"}, False),
    ({"value": math.inf}, False),
    ({"value": NAN, "error": None}, False),
]


@pytest.mark.parametrize(("differs", "sound"), SOUND)
def test_possible_numbers(differs: dict[str, Any], sound: bool) -> None:
    assert replace(STORED, **differs).is_sound() is sound


BAD, OTHER = replace(STORED, unit="ms"), replace(STORED, metric="y")
FAULTS: list[tuple[list[StoredValue], str, Sequence[str] | None, bool]] = [
    # rows, time, the wanted metrics, whether something is wrong
    ([], at(0), None, False),
    ([STORED, OTHER], at(0), None, False),
    ([STORED, replace(STORED, statistic="mean"), replace(STORED, rank="across")], at(0), None, False),
    ([STORED], "2026-01-01", None, True),
    ([STORED], f"{at(0)} ", None, True),
    ([BAD], at(0), None, True),
    ([OTHER, BAD], at(0), None, True),
    ([STORED, STORED], at(0), None, True),
    ([STORED, replace(STORED, labels={"a": "1", "b": "2"})], at(0), None, True),
    ([STORED, replace(STORED, labels={"a": "1", "b": "3"})], at(0), None, False),
    ([BAD, OTHER], at(0), ["y"], False),
    ([BAD, OTHER], at(0), ["x"], True),
    ([STORED, STORED, OTHER], at(0), ["y"], False),
    ([STORED, STORED, OTHER], at(0), ["x"], True),
]


@pytest.mark.parametrize(("rows", "time", "wanted", "wrong"), FAULTS)
def test_what_is_wrong_with_a_file(
    rows: list[StoredValue], time: str, wanted: Sequence[str] | None, wrong: bool
) -> None:
    file, _ = RUN_FILE.decode("x.json", run_file(record(1, {}), "perfgate 1.0"))
    assert file is not None
    fault = replace(file, values=rows, time=time).fault(None if wanted is None else lambda metric: metric in wanted)
    assert fault == ("has a metric twice, or an impossible number or time" if wrong else None)


@pytest.mark.parametrize("place", ["run", "row"])
def test_a_file_with_more_than_a_run_is_refused(place: str) -> None:
    """A newer version wrote it: what it adds may change the meaning of the rest."""
    document = json.loads(run_file(record(1, {"x": 1.0}), "perfgate 1.0"))
    if place == "run":
        document["more"] = 1
    else:
        document["values"][0].append(1)
    _, (problem,) = RUN_FILE.decode("x.json", json.dumps(document).encode())
    assert "does not have the form of perfgate.history/1" in problem.message
