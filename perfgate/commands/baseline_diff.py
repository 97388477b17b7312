"""`perfgate baseline diff`: compare two places of the store, metric by metric."""

from __future__ import annotations

from perfgate.baselines.listing import sides
from perfgate.commands.compare import compare_runs
from perfgate.core import Report


def diff(path: str, old: str | None, new: str | None) -> Report:
    """Compare two places of a store. Raises Refused.

    Parameters
    ----------
    path: the store.
    old: SUITE/ENVIRONMENT[/LEVEL[/RUN]]; by default the level that `new` replaced.
    new: the same; by default the newest level.
    """
    (old_place, before), (new_place, after) = sides(path, old, new)
    return compare_runs(before, after, f"{old_place} → {new_place}")
