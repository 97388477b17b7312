"""How much more data would settle what the data at hand cannot."""

from __future__ import annotations

from perfgate.stats.quantiles import beta_quantile

#: Beyond this many values nobody waits.
_MOST_VALUES = 10_000_000


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
