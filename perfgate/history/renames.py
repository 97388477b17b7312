"""Metrics that were renamed: joined if the rules say so (`renames`), and otherwise proposed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import numpy as np
from msgspec.structs import replace

from perfgate.core.remembered_runs import HistoryRun, SeriesName
from perfgate.core.run_history import HistorySeries
from perfgate.history.store import HistoryColumn, StoredHistory

#: A new metric may be an old one if it begins within this many runs after it, at this ratio of values or less.
_SOON, _RATIO = 3, 1.25
#: As many runs of each are compared.
_COMPARED = 5


def current_name(metric: str, renames: Mapping[str, str]) -> str:
    """Return the newest name of a metric, after any number of renames; a circle ends where it began."""
    seen = {metric}
    while (newer := renames.get(metric)) is not None and newer not in seen:
        metric = newer
        seen.add(metric)
    return metric


def joined(history: StoredHistory, renames: Mapping[str, str]) -> StoredHistory:
    """Return a history in which renamed metrics have one series. A run that has both names keeps the newer one."""
    if not renames:
        return history
    columns: dict[tuple[SeriesName, str], HistoryColumn] = {}
    # Series with a newer name come first, so that their numbers count.
    for column in sorted(history.series, key=lambda one: one.name.key.metric in renames):
        key = replace(column.name.key, metric=current_name(column.name.key.metric, renames))
        moved = replace(column, name=replace(column.name, key=key))
        known = columns.get((moved.name, moved.unit))
        columns[moved.name, moved.unit] = moved if known is None else _joined(known, moved)
    ordered = [columns[name] for name in sorted(columns)]
    metrics = sorted({current_name(name, renames) for name in history.metrics})
    return replace(history, series=tuple(ordered), metrics=tuple(metrics))


def _joined(newer: HistoryColumn, older: HistoryColumn) -> HistoryColumn:
    at, rows = np.unique(np.concatenate((newer.at, older.at)), return_index=True)
    values, errors, n_effective, n = (
        np.concatenate(pair)[rows]
        for pair in zip(*((c.values, c.errors, c.n_effective, c.n) for c in (newer, older)), strict=True)
    )
    return replace(newer, at=at, values=values, errors=errors, n_effective=n_effective, n=n)


def proposals(series: Sequence[HistorySeries], runs: Sequence[HistoryRun]) -> Iterator[str]:
    """Yield a note for each metric that ended where a similar one began."""
    place = {run.id: i for i, run in enumerate(runs)}
    began = [one for one in series if one.runs and place[one.runs[0].id] > 0]
    for ended in (one for one in series if one.runs and one.missing_since):
        last = place[ended.runs[-1].id]
        for new in began:
            is_next = 0 < place[new.runs[0].id] - last <= _SOON
            is_alike = (new.unit, new.name.statistic, new.name.rank) == (
                *(ended.unit, ended.name.statistic, ended.name.rank),
            )
            if is_next and is_alike and _is_similar(ended, new):
                old, now = ended.name.key.metric, new.name.key.metric
                yield (
                    f"{old} ended where {now} began, with a similar value: if it was renamed, "
                    f"write `renames: {{{old}: {now}}}` in the rules"
                )


def _is_similar(ended: HistorySeries, new: HistorySeries) -> bool:
    before, after = median(ended.values[-_COMPARED:].tolist()), median(new.values[:_COMPARED].tolist())
    return bool(before > 0 and 1 / _RATIO <= after / before <= _RATIO)
