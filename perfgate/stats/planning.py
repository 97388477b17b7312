"""What data would settle a question: how many runs, how many values, and which change they would show.

The arithmetic of a change is predictive. Under the prior, what is known of the noise after the base runs is a scaled
inverse chi-square (Smyth 2004), so that the difference of the next m runs to them is a t variable around the true
change, on d0 + K - 1 degrees of freedom and more with m. It lies beyond a margin at the wanted confidence with the
wanted power when the true change is (t_confidence + t_power) standard errors beyond it: exactly for one new run, which
adds nothing to the estimate of the noise, and closely for several.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from perfgate.stats.quantiles import beta_quantile, t_quantile

#: The most new runs that anybody is asked for.
MOST_RUNS = 20
#: Beyond this many values nobody waits.
_MOST_VALUES = 10_000_000


@dataclass(frozen=True, slots=True)
class RunNoise:
    """What is known of the noise of one run, from `base_runs` of them and a prior worth `prior_runs`.

    `variance` is that of the logarithm of the run's statistic, and `within` the part of it that comes from inside the
    run, which longer runs make smaller.
    """

    variance: float
    within: float
    base_runs: int
    prior_runs: float

    def reach(self, new_runs: int, confidence: float, power: float) -> float:
        """How far beyond a margin ln(new / base) must truly be for `new_runs` to show it with this power."""
        df = self.prior_runs + self.base_runs + new_runs - 2
        standard_error = math.sqrt(self.variance * (1 / self.base_runs + 1 / new_runs))
        return (t_quantile(df, confidence) + t_quantile(df, power)) * standard_error

    def runs_needed(self, margin: float, confidence: float, power: float) -> int | None:
        """The fewest new runs that show with this power that no change is within `margin`; None beyond `MOST_RUNS`."""
        enough = (runs for runs in range(1, MOST_RUNS + 1) if self.reach(runs, confidence, power) <= margin)
        return next(enough, None)

    def of_longer_runs(self, times: float) -> RunNoise:
        """The noise of runs with that many times the steps, base runs included: only the part inside shrinks."""
        within = self.within / times
        return replace(self, variance=self.variance - self.within + within, within=within)

    def of_base_runs(self, base_runs: int) -> RunNoise:
        """The same noise, known from as many base runs."""
        return replace(self, base_runs=base_runs)


def values_to_pass(allowed: float, confidence: float) -> int:
    """Independent values without a bad one after which at most `allowed` are shown to be bad: ln(1 - c) / ln(1 - a).

    The exact binomial bound for no bad value in n (Clopper and Pearson 1934); `allowed` is in (0, 1).
    """
    return math.ceil(math.log1p(-confidence) / math.log1p(-allowed))


def values_to_settle(share: float, allowed: float, confidence: float) -> int | None:
    """Independent values after which a percentile limit would be settled, were the bad share to stay `share`.

    The exact binomial bound (Clopper and Pearson 1934) of `share` then lies on one side of `allowed`. Both are in
    [0, 1]. Rounded up to two digits; None where they are equal, or where it would take more than ten million.
    """
    n = 1.0
    while n <= _MOST_VALUES:
        k = share * n
        low = beta_quantile(k, n - k + 1, 1 - confidence) if k > 0 else 0.0
        high = beta_quantile(k + 1, n - k, confidence) if k < n else 1.0
        if low > allowed or high <= allowed:
            return _round_up(n)
        n *= 1.05
    return None


def _round_up(n: float) -> int:
    unit = 10 ** max(0, len(str(int(n))) - 2)
    return int(-(-n // unit) * unit)
