"""Quantities: what each unit is worth, and that no value prints as nonsense."""

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perfgate.core.units import (
    BASE_UNITS,
    UNITS,
    format_change,
    format_confidence,
    format_number,
    format_value,
    printed_base,
)
from perfgate.schemas import FOLDER

WORTH = {
    "s": {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600},
    "B": {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
    | {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40},
    "1": {"%": 0.01, "pp": 0.01, "x": 1},
    "1/s": {"/s": 1, "it/s": 1, "samples/s": 1, "tokens/s": 1, "Hz": 1, "MHz": 1e6, "GHz": 1e9},
    "B/s": {"B/s": 1, "GB/s": 1e9, "GiB/s": 2**30},
    "FLOP/s": {"FLOP/s": 1, "TFLOP/s": 1e12},
    "J": {"mJ": 1e-3, "J": 1, "kJ": 1e3, "Wh": 3600, "kWh": 3.6e6},
    "W": {"mW": 1e-3, "W": 1, "kW": 1e3},
    "1/J": {"tokens/J": 1},
    "°C": {"°C": 1},
    "$": {"$": 1},
    "count": {"count": 1, "thousand": 1e3, "million": 1e6, "billion": 1e9},
}


@pytest.mark.parametrize(("base", "symbol", "worth"), [(b, s, w) for b, row in WORTH.items() for s, w in row.items()])
def test_every_unit_of_the_contract(base, symbol, worth):
    unit = UNITS.get(symbol)
    assert (unit.symbol, unit.base) == (symbol, base)
    assert unit.factor == pytest.approx(worth, rel=1e-15)


def test_both_micro_signs_are_known():
    assert {ascii(symbol) for symbol in UNITS if symbol.endswith("s") and ord(symbol[0]) > 127} == {
        r"'\xb5s'",
        r"'\u03bcs'",
    }


@pytest.mark.parametrize("symbol", ["MS", "kb", "Kb", "S", "sec", "", " ms", "m", "percent", "it", "X"])
def test_letter_case_counts_and_nothing_is_guessed(symbol):
    assert UNITS.get(symbol) is None


def test_every_unit_has_a_base_that_can_be_shown():
    assert {unit.base for unit in UNITS.values()} <= set(BASE_UNITS)


def test_a_stored_series_may_have_any_base_unit():
    text = (FOLDER / "baseline.schema.json").read_text("utf-8")
    enums = re.findall(r'"The base unit.", "enum": (\[[^]]*\])', text)
    assert [json.loads(one) for one in enums] == [list(BASE_UNITS)] * 2


SHOWN = [
    (0.0726, "s", "ms", "72.6 ms"),
    (0.05, "s", "ms", "50 ms"),
    (0.05, "s", None, "50 ms"),
    (90, "s", "min", "1.5 min"),
    (90, "s", None, "90 s"),
    (0.99999, "s", None, "1 s"),
    (0.9994, "s", None, "999.4 ms"),
    (2e-6, "s", None, "2 µs"),
    (2e-6, "s", "us", "2 us"),
    (3e-12, "s", None, "0.003 ns"),
    (0, "s", None, "0 s"),
    (-0.003, "s", None, "-3 ms"),
    (0.85, "1", "%", "85%"),
    (7200, "J", None, "7.2 kJ"),
    (7200, "J", "Wh", "2 Wh"),
    (412.5, "W", None, "412.5 W"),
    (1.98e9, "1/s", "MHz", "1980 MHz"),
    (0.02, "1", "pp", "2 pp"),
    (25_130_000, "count", None, "25.13 million"),
    (1.1, "1", "x", "1.1x"),
    (0.123456, "1", None, "0.1235"),
    (1536, "B", None, "1.5 KiB"),
    (1536, "B", "KB", "1.536 KB"),
    (1536, "B", "KiB", "1.5 KiB"),
    (2.5e9, "B/s", None, "2.5 GB/s"),
    (123456, "1/s", None, "123500 /s"),
    (123456, "1/s", "tokens/s", "123500 tokens/s"),
    (3.2e14, "FLOP/s", None, "320 TFLOP/s"),
    (1e-7, "1", None, "1.000e-07"),
    (1e300, "s", "ns", "1.000e+300 s"),
    (None, "s", "ms", "unbounded"),
    (float("nan"), "1", None, "nan"),
    (float("inf"), "1", None, "inf"),
    (1.0, "s", "furlong", "1 s"),
]


@pytest.mark.parametrize(("value", "base", "shown", "text"), SHOWN)
def test_values_print_in_the_users_unit_or_a_readable_one(value, base, shown, text):
    assert format_value(value, base, shown) == text


@pytest.mark.parametrize(
    ("metric", "value", "base", "text"),
    [
        ("clock.sm", 1.98e9, "1/s", "1.98 GHz"),
        ("clock.cpu", 8e8, "1/s", "800 MHz"),
        ("DRAM Frequency", 1.25e9, "1/s", "1.25 GHz"),
        ("clock.drift", 0.002, "s", "2 ms"),
        ("tokens_per_second", 2e6, "1/s", "2000000 /s"),
        ("clockwork_rate", 2e6, "1/s", "2000000 /s"),
    ],
)
def test_a_clock_prints_in_hz_and_no_other_rate_does(metric, value, base, text):
    assert format_value(value, printed_base(metric, base)) == text


CHANGES = [
    (0.031, "+3.1%"),
    (-0.031, "-3.1%"),
    (0.004, "+0.40%"),
    (0.0, "0%"),
    (-0.0, "0%"),
    (-0.00001, "0%"),
    (0.1, "+10.0%"),
    (1.5, "+150%"),
    (1e5, "+1.0e+07%"),
    (None, "unbounded"),
]


@pytest.mark.parametrize(("change", "text"), CHANGES)
def test_changes_print_with_their_sign(change, text):
    assert format_change(change) == text


def _parsed(text):
    number, symbol = re.fullmatch(r"(-?[0-9.]+(?:e[-+][0-9]+)?) ?(.*)", text).groups()
    return float(number) * (UNITS[symbol].factor if symbol else 1)


@given(
    st.floats(-1e300, 1e300),
    st.sampled_from([*((u.base, u.symbol) for u in UNITS.values()), *((b, None) for b in BASE_UNITS)]),
)
@example(0.99995, ("s", None))
@example(999.95e-6, ("s", None))
@example(1e15, ("1", None))
@example(1e300, ("s", "ns"))
@example(5e-324, ("B", "PiB"))
def test_what_is_printed_reads_back_within_its_four_digits(value, unit):
    base, shown = unit
    text = format_value(value, base, shown)
    assert _parsed(text) == pytest.approx(value, rel=6e-4, abs=1e-300)
    assert len(text) <= 30


@given(st.floats())
def test_no_number_is_too_odd_to_print(value):
    assert format_number(value)
    assert format_value(value, "s")
    assert format_change(value)


@pytest.mark.parametrize(
    ("confidence", "text"),
    [
        (0.95, "95%"),
        (0.9997, "99.97%"),
        (0.99997, "99.997%"),
        (1 - 0.05 / 1024, "99.995%"),
        (1 - 1e-12, "99.9999999999%"),
    ],
)
def test_no_confidence_is_printed_as_100_percent(confidence, text):
    assert format_confidence(confidence) == text
