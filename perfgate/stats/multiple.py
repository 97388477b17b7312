"""Many comparisons at once: which of them to believe."""

from __future__ import annotations

from collections.abc import Sequence


def discoveries(p_values: Sequence[float], rate: float) -> list[bool]:
    """Which hypotheses to reject so that at most a share `rate` of the rejected ones is true on average.

    Benjamini and Hochberg, "Controlling the false discovery rate" (1995): of n sorted p-values all up to the largest
    that is at most rate * rank / n. It holds for metrics that rise and fall together, too (Benjamini and Yekutieli
    2001), as those of one run do.
    """
    n = len(p_values)
    kept = (p for rank, p in enumerate(sorted(p_values), 1) if p <= rate * rank / n)
    largest = max(kept, default=-1.0)
    return [p <= largest for p in p_values]
