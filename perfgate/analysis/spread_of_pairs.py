"""The spread of pairs of one unchanged program."""

from __future__ import annotations

import math

from perfgate.judge.measure import Method, NotAvailable, default_statistic
from perfgate.judge.pairs import PRIORS, Pairs, pair_ratios


def spread_of_pairs(pairs: Pairs | None, metric: str) -> float | None:
    """Return the relative standard deviation of new / base, of the labels that differ most; None if it is unknown.

    Few pairs agree by chance, so the judge's prior counts with its degrees of freedom (Smyth 2004,
    doi:10.2202/1544-6115.1027). The program is the same on both sides, so the true ratio is 1.
    """
    if pairs is None:
        return None
    scale, freedom = PRIORS[pairs.pairing]
    squares: dict[tuple[tuple[str, str], ...], list[float]] = {}
    for base, new in zip(pairs.base, pairs.new, strict=True):
        known = {one.key: one for one in new.series}
        for one in base.series:
            other = known.get(one.key)
            if one.key.metric != metric or other is None:
                continue
            statistic = default_statistic(one)
            try:
                sides = [Method(statistic, better="lower").measure(series) for series in (one, other)]
            except NotAvailable:
                continue
            by_turns = [one.values] if pairs.pairing != "whole-runs" else []
            ratio = pair_ratios(sides[:1], sides[1:], by_turns, [other.values], statistic)[0].value
            if ratio is not None and ratio > 0:
                squares.setdefault(one.key.labels, []).append(math.log(ratio) ** 2)
    found = [(freedom * scale**2 + sum(own)) / (freedom + len(own)) for own in squares.values()]
    return math.sqrt(max(found)) if found else None
