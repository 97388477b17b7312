"""The effects of two factors, code and environment, from repetitions of the four combinations of old and new.

A combination is a cell. The model is log value = repetition + cell + noise, by least squares (a randomized block
design, Fisher 1935). Disturbances of a whole repetition, such as the clock or a neighbour, cancel. The effect of a
factor is the mean of its effects with the old and with the new level of the other factor. So both effects add up to the
whole change, and each includes half of their interaction (the value of Shapley 1953).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from perfgate.stats.distributions import t_quantile
from perfgate.stats.sequential import nominal_levels

#: Old code in the old environment, one of them new, both new.
CELLS = ("base", "new-code", "new-environment", "new")
#: The weights of CELLS in the effect of the code, by the cell that is missing ("" for none); below it, in the whole
#: change and in the interaction.
_CODE: Mapping[str, tuple[float, ...]] = {
    "": (-0.5, 0.5, -0.5, 0.5),
    "new-environment": (-1, 1, 0, 0),
    "new-code": (0, 0, -1, 1),
}
_TOTAL, _INTERACTION = (-1, 0, 0, 1), (1, -1, -1, 1)
#: The power with which the looks spend their error rate, and the first repetition at which the effects are looked at.
_POWER, _FIRST_LOOK = 1.0, 2


class LogEffect(Struct, frozen=True):
    """An effect on the natural logarithm of a metric, with a two-sided interval."""

    estimate: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """True if the interval excludes 0."""
        return self.low > 0 or self.high < 0


class TwoFactors(Struct, frozen=True):
    """The effects of code and environment on the logarithm of a metric.

    `interaction` is the effect of the code in the new environment less that in the old one; None if a cell is missing.
    """

    code: LogEffect
    environment: LogEffect
    interaction: LogEffect | None


def two_factors(logs: Mapping[str, Sequence[float]], most: int, error_rate: float = 0.01) -> TwoFactors | None:
    """Return the effects of both factors, or None for too few repetitions or cells.

    `logs`: the logarithm of the metric by cell (of `CELLS`) and repetition, in equal lengths. One of the two mixed
    cells may be missing; each factor is then measured with one level of the other factor only. `most`: the planned
    number of repetitions. The effects may be looked at after each repetition from the second on: for each effect, the
    probability that any of these intervals misses the true effect is `error_rate`.
    """
    missing = [cell for cell in CELLS if cell not in logs]
    count = len(logs.get("base", ()))
    if count < _FIRST_LOOK or len(missing) > 1 or missing == ["new"]:
        return None
    most = max(most, count)
    looks = tuple(float(number) for number in range(_FIRST_LOOK, most + 1))
    level = nominal_levels(looks, error_rate / 2, _POWER, count - _FIRST_LOOK + 1)[-1]
    y = np.array([logs[cell] for cell in CELLS if cell in logs])
    # The values without the means of their repetition (axis 0) and of their cell (axis 1).
    residuals = y - y.mean(axis=0) - y.mean(axis=1, keepdims=True) + y.mean()
    freedom = (len(y) - 1) * (count - 1)
    deviation = math.sqrt(float((residuals**2).sum()) / freedom)
    means = {cell: float(np.mean(logs[cell])) for cell in logs}
    reach = t_quantile(freedom, 1 - level) * deviation / math.sqrt(count)

    def effect(weights: Sequence[float]) -> LogEffect:
        estimate = sum(weight * means.get(cell, 0.0) for cell, weight in zip(CELLS, weights, strict=True))
        half = reach * math.sqrt(sum(weight**2 for weight in weights)) + 1e-12  # the arithmetic is not exact
        return LogEffect(estimate, estimate - half, estimate + half)

    code = _CODE[missing[0] if missing else ""]
    environment = [whole - own for whole, own in zip(_TOTAL, code, strict=True)]
    return TwoFactors(effect(code), effect(environment), None if missing else effect(_INTERACTION))
