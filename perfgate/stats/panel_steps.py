"""Steps of a panel: places where one or more series of the same runs change their level, found run by run.

A panel is a table with a row for each run, oldest first, and a column for each series. A step is found in the row in
which it becomes clear, from this row and those before it. So it stays as it was found when more runs come. The places
and sizes of `change_points` are found from all runs, and move.

1. For the last 5, 7, 10, 14 and 20 rows, z of a series is their mean less the mean of up to 30 rows before them, in
   standard errors. The noise comes from the differences between neighbours (von Neumann 1941) up to this row.
2. The evidence of the panel is the sum of log(1 - p + p exp(z^2 / 2)): a share p of the series changes, one or all (Xie
   and Siegmund 2013). It is divided by the design effect of the noise that the series of a run share (Kish 1965).
3. The first row with enough evidence finds a step, if there is enough without outliers, too. The rows that are compared
   for the next step begin at this one.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from perfgate.stats.change_point_search import FEWEST_RUNS
from perfgate.stats.distributions import FloatArray, IntArray

#: The numbers of newest rows that are compared with the rows before them.
_SPANS = np.array([5, 7, 10, 14, 20])
#: The most rows before a step that are compared, and the most rows for the noise, which is computed at every tenth row.
_BEFORE, _NOISE, _EACH = 30, 60, 10
#: p: the expected share of the series that a step changes.
_SHARE = 0.1
#: The mean of log(1 - p + p exp(z^2 / 2)) if nothing changed.
_USUAL = 0.106
#: The evidence that a step needs besides the logarithm of the number of series: `benchmarks/events.py` measures it.
ENOUGH = 7.0
#: Smaller noise than this is not believed.
_LEAST_NOISE = 5e-4
#: Values and differences are clipped at this many standard deviations.
_CLIP = 3.0
#: A step may begin in any row where the log-likelihood is at most this much lower.
_DROP = 3.0
#: The degrees of freedom of the noise for each difference, less than 1 because two neighbouring differences share a
#: run; and the median of chi-squared with one degree of freedom.
_FREEDOM, _MEDIAN = 0.6, 0.455
#: The rows that are searched at once.
_BLOCK = 64


class PanelStep(Struct, frozen=True):
    """A step that became clear in row `seen`. It begins in one of the rows `first` to `last`, most likely in `index`.

    `z` (m,) is the change of each series in standard errors; 0 if it is unknown.
    """

    seen: int
    index: int
    first: int
    last: int
    z: FloatArray


class _Panel(Struct, frozen=True):
    """A panel `y` of n runs and m series with its cumulative sums, and its noise at every tenth row.

    `sums` and `counts` (n + 1, m) are over the rows before: of the values, and of how many are known. `noise` and its
    degrees of `freedom` (k, m) are of each series at every tenth row, and `shared` (k,) is the design effect.
    """

    y: FloatArray
    sums: FloatArray
    counts: FloatArray
    noise: FloatArray
    freedom: FloatArray
    shared: FloatArray


@np.errstate(all="ignore")
def panel_steps(values: FloatArray) -> tuple[PanelStep, ...]:
    """Return the steps of a panel, in the order in which they were found.

    `values`: (n, m) the numbers of n runs, oldest first, on a scale where changes add up (logarithms). NaN is missing.
    """
    panel = _prepare(values)
    found: list[PanelStep] = []
    # `floor` is the row of the last step, and `end` the number of rows that are known at a time.
    floor, end = 0, 2 * FEWEST_RUNS
    while end <= len(values):
        ends = np.arange(end, min(end + _BLOCK, len(values) + 1))
        evidence = _evidence(panel, ends, floor)
        hits = np.flatnonzero(evidence.max(axis=1) > 0)
        step = None
        for hit in hits.tolist():
            end = int(ends[hit])
            step = _located(panel, end, end - int(_SPANS[evidence[hit].argmax()]), floor)
            if step is not None:
                found.append(step)
                floor = step.index
                break
        # After a step, all later rows are compared with those from its row on, so their evidence is computed anew.
        end = end + 1 if step is not None else int(ends[-1]) + 1
    return tuple(found)


def _prepare(values: FloatArray) -> _Panel:
    """Return the panel of values (n, m). A difference is that of a known value and the last known one before it."""
    known = np.isfinite(values)
    n, m = values.shape
    rows = np.maximum.accumulate(np.where(known, np.arange(n)[:, None], -1), axis=0)
    filled = np.where(rows >= 0, np.take_along_axis(np.nan_to_num(values), np.maximum(rows, 0), axis=0), np.nan)
    differences = np.full((n, m), np.nan)
    differences[1:] = np.where(known[1:], filled[1:] - filled[:-1], np.nan)
    first = np.nan_to_num(values[known.argmax(axis=0), np.arange(m)])
    y = np.where(known, values - first, 0.0)  # so that the sums keep their digits
    sums, counts = np.zeros((n + 1, m)), np.zeros((n + 1, m))
    np.cumsum(y, axis=0, out=sums[1:])
    np.cumsum(known, axis=0, out=counts[1:])
    parts = [_noise(differences[max(0, end - _NOISE) : end]) for end in range(0, n + 1, _EACH)]
    noise, freedom, shared = (np.array(column) for column in zip(*parts, strict=True))
    return _Panel(np.where(known, y, np.nan), sums, counts, noise, freedom, shared)


def _noise(differences: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return the noise (m,) of neighbours' differences, its degrees of freedom, and the design effect of the panel."""
    ordered = np.sort(np.abs(differences), axis=0)  # NaN is last
    count = np.isfinite(ordered).sum(axis=0)
    if not count.any():
        return np.full(len(count), np.nan), np.zeros(len(count)), 1.0
    columns, last = np.arange(len(count)), count - 1
    # The larger standard deviation, by the median and by the 90 % quantile of absolute normal values.
    usual = np.maximum(1.4826 * ordered[last // 2, columns], ordered[9 * last // 10, columns] / 1.645)
    # A difference has twice the variance of a run.
    squares = np.nansum(np.square(np.minimum(ordered, _CLIP * usual)), axis=0) / (2 * count)
    noise = np.maximum(np.sqrt(squares), _LEAST_NOISE)
    z = np.clip(differences / (noise * np.sqrt(2)), -_CLIP, _CLIP)
    of_row = np.isfinite(z).sum(axis=1)
    # If the m series are independent, the squared sum of z over m is chi-squared with one degree of freedom.
    effect = np.square(np.nansum(z, axis=1)[of_row > 0]) / of_row[of_row > 0]
    return np.where(count >= FEWEST_RUNS, noise, np.nan), _FREEDOM * count, max(1.0, float(np.median(effect)) / _MEDIAN)


def _evidence(panel: _Panel, ends: IntArray, floor: int) -> FloatArray:
    """Return the evidence (ends, spans) for a step before each span of newest rows, less the amount that is enough."""
    places = ends[:, None] - _SPANS
    start = np.maximum(places - _BEFORE, floor)
    few = places - start < FEWEST_RUNS
    old, new = (
        (panel.sums[last] - panel.sums[first], panel.counts[last] - panel.counts[first])
        for first, last in ((start, places), (places, ends[:, None]))
    )
    z = _z(panel, old, new, (ends // _EACH)[:, None])
    return np.asarray(np.where(few, -np.inf, _pooled(z, panel.shared[ends // _EACH][:, None])))


def _z(
    panel: _Panel,
    old: tuple[FloatArray, FloatArray],
    new: tuple[FloatArray, FloatArray],
    block: IntArray | int,
    least: int = FEWEST_RUNS - 1,
) -> FloatArray:
    """Return the differences of two means as normal quantiles (..., m); 0 if fewer than `least` values are known.

    `old` and `new` are the sums and the counts of the rows before and after a place; `block` is the row of the noise.
    """
    (total, before), (more, after) = old, new
    freedom = panel.freedom[block]
    squares = np.square(more / after - total / before) / (np.square(panel.noise[block]) * (1 / before + 1 / after))
    # Wallace 1959: the quantile of Student's t as one of the normal distribution.
    z = (8 * freedom + 1) / (8 * freedom + 3) * np.sqrt(freedom * np.log1p(squares / freedom))
    z = np.copysign(z, more / after - total / before)
    return np.asarray(np.where((before < least) | (after < least), 0.0, np.nan_to_num(z)))


def _pooled(z: FloatArray, shared: FloatArray | float) -> FloatArray:
    """Return the evidence of all series, or of the clearest one if that is larger, less the amount that is enough."""
    own = np.logaddexp(np.log(1 - _SHARE), np.log(_SHARE) + z * z / 2)
    m = (z != 0).sum(axis=-1)
    evidence = np.maximum(own.max(axis=-1), (own.sum(axis=-1) - _USUAL * m) / shared)
    return np.asarray(evidence - ENOUGH - np.log1p(_SHARE * m))


def _located(panel: _Panel, end: int, place: int, floor: int) -> PanelStep | None:
    """Return the step near `place` that the rows up to `end` show; None if it disappears without outliers.

    Each row nearby is tried, and the series count by their probability of a change at `place`.
    """
    start, block = max(floor, place - _BEFORE), end // _EACH
    y, known = panel.y[start:end], np.isfinite(panel.y[start:end])
    reach = _CLIP * np.nan_to_num(panel.noise[block])
    # Values further than `reach` outside of both levels are outliers, whichever row begins the step.
    levels = [_medians(part) for part in (y[: place - start], y[place - start :])]
    clipped = np.nan_to_num(np.clip(y, np.fmin(*levels) - reach, np.fmax(*levels) + reach))
    sums, counts = np.cumsum(clipped, axis=0), np.cumsum(known, axis=0)
    at = np.arange(1, end - start)
    # The first and the last rows are tried, too, so one known value on each side is enough.
    z = _z(
        panel, (sums[at - 1], counts[at - 1]), (sums[-1] - sums[at - 1], counts[-1] - counts[at - 1]), block, least=1
    )
    here = z[place - start - 1]
    if _pooled(here, float(panel.shared[block])) <= 0:
        return None
    odds = _SHARE / (1 - _SHARE) * np.exp(np.minimum(here * here / 2, 100.0))  # more is certain, and may overflow
    affected = odds / (1 + odds)
    # Kish's design effect is 1 + (m - 1) rho. Of m, only the affected share counts here.
    effect = 1 + (float(panel.shared[block]) - 1) * affected.mean()
    fit = (z * z / 2 * affected).sum(axis=1) / effect
    likely, best = np.flatnonzero(fit >= fit.max() - _DROP), int(fit.argmax())
    rows = (start + at).tolist()
    if rows[best] > end - FEWEST_RUNS:
        return None  # too early: the step is newer
    return PanelStep(end - 1, rows[best], rows[likely[0]], rows[likely[-1]], z[best])


def _medians(rows: FloatArray) -> FloatArray:
    """Return the median of each series, NaN of none. `numpy.nanmedian` gives the same, but warns of NaN."""
    ordered, count = np.sort(rows, axis=0), np.isfinite(rows).sum(axis=0)  # NaN is last
    series = np.arange(len(count))
    return np.asarray(ordered[(count - 1) // 2, series] + ordered[count // 2, series]) / 2
