"""Metrics that no rule reads, without their values: some numbers for each rank, and a fingerprint of all values.

A folder with a trace for each rank has hundreds of series a rank, and rules read a few. Of the other series, a check
only needs the names, the sizes, and whether two runs are copies of one measurement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

#: A metric, its labels without rank and device, and its unit.
MetricName = tuple[str, tuple[tuple[str, str], ...], str]


class Outline(Struct, frozen=True):
    """The samples of one metric in a run: in each list one number for each rank and device that has it.

    Ranks without a finite number are left out.
    """

    #: The median of the values after warm-up, its relative error, and the sum of all values. They are compared with
    #: those of stored runs, to find changes without a rule; empty if there are no stored runs.
    medians: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()
    totals: tuple[float, ...] = ()
    #: The sum of all values over the number of steps of the rank, for the parts of a step; only of times.
    per_step: tuple[float, ...] = ()


class Fingerprint(Struct, frozen=True):
    """Recognises copies of values: a hash of them, and how unlikely it is, in bits, that another run has the same."""

    digest: bytes
    bits: float


class Outlines(Struct, frozen=True):
    """The outlined metrics of a run, and by rank the fingerprint of their values; the rank is empty if unknown."""

    of: Mapping[MetricName, Outline] = field(default_factory=dict)
    fingerprints: Mapping[str, Fingerprint] = field(default_factory=dict)

    @property
    def metrics(self) -> set[str]:
        """The names of the outlined metrics."""
        return {metric for metric, _, _ in self.of}


NO_OUTLINES = Outlines()


def joined_outlines(parts: Iterable[Outlines]) -> Outlines:
    """Return the outlines of all ranks of a run; the parts have different ranks."""
    parts = [part for part in parts if part.of]
    if len(parts) < 2:
        return parts[0] if parts else NO_OUTLINES
    found: dict[MetricName, list[Outline]] = {}
    for part in parts:
        for name, one in part.of.items():
            found.setdefault(name, []).append(one)
    fingerprints = {rank: one for part in parts for rank, one in part.fingerprints.items()}
    return Outlines({name: _joined(each) for name, each in found.items()}, fingerprints)


def more_outlines(first: Outlines, second: Outlines) -> Outlines:
    """Return the outlines of two different sets of metrics of the same rank."""
    prints = {**first.fingerprints}
    for rank, one in second.fingerprints.items():
        known = prints.get(rank, Fingerprint(b"", 0.0))
        prints[rank] = Fingerprint(known.digest + one.digest, known.bits + one.bits)
    return Outlines({**first.of, **second.of}, prints)


def _joined(parts: list[Outline]) -> Outline:
    """Return the outline of one metric on the ranks of all parts."""
    if len(parts) == 1:
        return parts[0]
    return Outline(
        tuple(number for part in parts for number in part.medians),
        tuple(number for part in parts for number in part.errors),
        tuple(number for part in parts for number in part.totals),
        tuple(number for part in parts for number in part.per_step),
    )
