"""Code or environment: the word for the effects on the metric of a verdict."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from perfgate.core import Location, NextStep, RelativeChange, Report, Verdict
from perfgate.core.calculations import Attribution
from perfgate.core.verdicts import RunEstimate
from perfgate.judge.factors import attribution, with_attributions
from perfgate.measuring.until_settled import is_open
from perfgate.stats.two_factors import LogEffect, two_factors

CELLS = {"base": (0, 0), "new-code": (1, 0), "new-environment": (0, 1), "new": (1, 1)}
PASSED = Verdict(
    *("r", "m", {}, "median", "pass", "interval", "error", 0, "change", "s", ""),
    NextStep(),
    Location("rules.yaml", 1),
    change=RelativeChange(0.0, None, None),
    tolerance=0.05,
)


def values(code: float, environment: float, noise: float = 0.001, together: float = 0.0) -> dict[str, list[float]]:
    """Four repetitions of each cell; the noise is the same in every test."""
    signs = {
        "base": (1, -1, 1, -1),
        "new-code": (1, 1, -1, -1),
        "new-environment": (-1, 1, 1, -1),
        "new": (-1, -1, 1, 1),
    }
    return {
        cell: [
            (1 + code) ** c * (1 + environment) ** e * (1 + together) ** (c * e) * math.exp(noise * sign)
            for sign in signs[cell]
        ]
        for cell, (c, e) in CELLS.items()
    }


@pytest.mark.parametrize(
    ("code", "environment", "noise", "changed", "settled"),
    [
        (0.08, 0.0, 0.001, "code", True),
        (-0.08, 0.0, 0.001, "code", True),
        (0.0, 0.07, 0.001, "environment", True),
        (0.06, 0.09, 0.001, "both", True),
        (0.08, -0.08, 0.001, "both", True),
        (0.0, 0.0, 0.001, "neither", True),
        (0.08, 0.02, 0.001, "code", True),  # clear, but less than half of the tolerance
        (0.0, 0.0, 0.03, "neither", False),
        (0.3, 0.0, 0.03, "code", False),
        (0.03, 0.0, 0.012, "neither", False),  # one end of the interval is beyond the tolerance
        (-0.03, 0.0, 0.012, "neither", False),
        (0.0, 0.03, 0.012, "neither", False),
    ],
)
def test_words(code: float, environment: float, noise: float, changed: str, settled: bool) -> None:
    found = attribution(PASSED, values(code, environment, noise), 10)
    assert found is not None
    assert (found.changed, found.settled, found.interaction) == (changed, settled, None)
    assert (found.repetitions, found.confidence, found.missing) == (4, 0.99, None)
    assert [one.estimate for one in (found.code, found.environment)] == pytest.approx([code, environment], abs=0.02)
    assert is_open(replace(PASSED, attribution=found)) == (not settled)


@pytest.mark.parametrize("outcome", [{"outcome": "fail"}, {"outcome": "undecided", "suspect": True}])
def test_a_change_that_is_of_nobody_yet_is_not_clear(outcome: dict[str, object]) -> None:
    found = attribution(replace(PASSED, **outcome), values(0.02, 0.02, 0.03), 10)  # type: ignore[arg-type]
    assert found is not None
    assert found.changed == "unclear"


def test_an_interaction_that_is_large_is_said() -> None:
    found = attribution(PASSED, values(0.0, 0.0, together=0.1), 10)
    assert found is not None
    assert found.interaction is not None
    assert (found.changed, found.interaction.estimate) == ("both", pytest.approx(0.1))
    assert (1 + found.code.estimate) * (1 + found.environment.estimate) == pytest.approx(1.1)


@pytest.mark.parametrize("missing", ["new-code", "new-environment"])
def test_without_one_combination(missing: str) -> None:
    rest = {cell: row for cell, row in values(0.08, 0.0).items() if cell != missing}
    found = attribution(PASSED, rest, 10)
    assert found is not None
    assert (found.changed, found.missing, found.interaction) == ("code", missing, None)


def tolerance(log: float) -> float:
    """The tolerance whose logarithm, of a rise by it, is exactly this."""
    near = math.expm1(log)
    return next(one for one in (near, *(math.nextafter(near, end) for end in (0, 1))) if math.log1p(one) == log)


def test_an_effect_of_half_the_tolerance_counts_and_an_interval_up_to_it_excludes_nothing() -> None:
    def at(rows: dict[str, list[float]], edge: float) -> Attribution:
        found = attribution(replace(PASSED, tolerance=edge), rows, 10)
        assert found is not None
        return found

    def effect(rows: dict[str, list[float]]) -> LogEffect:
        found = two_factors({cell: list(map(math.log, row)) for cell, row in rows.items()}, 10)
        assert found is not None
        return found.code

    clear, none = values(0.03, 0.0), values(0.0, 0.0, 0.004)
    half, end = tolerance(2 * effect(clear).estimate), tolerance(effect(none).high)
    assert [at(clear, one).changed for one in (half, math.nextafter(half, 1))] == ["code", "neither"]
    assert [at(none, one).settled for one in (end, end * 1.001)] == [False, True]


def verdict_of(metric: str, rows: dict[str, list[float]], *sides: str) -> Verdict:
    """A verdict about the rows of a base and of a new side."""
    runs = [
        RunEstimate(side, "r", value, 9, 0)  # type: ignore[arg-type]
        for side, cell in zip(("base", "new"), sides, strict=True)
        for value in rows[cell]
    ]
    return replace(PASSED, rule=metric, metric=metric, runs=tuple(runs))


def test_each_comparison_has_the_effects_of_its_own_metric() -> None:
    """The values beside the mixed cells are those of their new side; a mixed report may lack a metric."""
    x, y = values(0.08, 0.0), values(0.0, 0.07)
    whole = Report(verdicts=(verdict_of("x", x, "base", "new"), verdict_of("y", y, "base", "new")))
    code = Report(verdicts=(verdict_of("y", y, "base", "new-code"), verdict_of("x", x, "base", "new-code")))
    environment = Report(verdicts=(verdict_of("x", x, "base", "new-environment"),))
    found = with_attributions(whole, {"new-code": code, "new-environment": environment}, 10)
    assert [one.attribution for one in found.verdicts] == [
        attribution(PASSED, x, 10),
        attribution(PASSED, {cell: row for cell, row in y.items() if cell != "new-environment"}, 10),
    ]
    assert [one.attribution and one.attribution.changed for one in found.verdicts] == ["code", "environment"]


def test_nothing_is_said_of_limits_and_of_values_that_are_no_numbers() -> None:
    assert attribution(replace(PASSED, change=None, tolerance=None), values(0.1, 0), 10) is None
    for bad in (None, 0.0, -1.0):
        found = values(0.1, 0.0)
        assert attribution(PASSED, {**found, "new-code": [*found["new-code"][:3], bad]}, 10) is None
