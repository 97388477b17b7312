"""Panels and change points that are made by hand, with known places."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from histories import at, sha

from perfgate.core import Better, Key
from perfgate.core.remembered_runs import HistoryRun, SeriesName
from perfgate.core.run_history import ApprovedLevel, ChangePoint, EnvironmentHistory, HistoryChange, HistorySeries
from perfgate.history.event_panels import EventPanel, FoundStep, MovedSeries
from perfgate.stats.panel_steps import PanelStep

DRIVERS = ("570.86", "580.65")


def runs_of(card: str, count: int, *, drivers: Collection[int] = ()) -> tuple[HistoryRun, ...]:
    """The runs of a card, `a0`, `a1`, ..., one of each commit; the driver goes from one to the other in `drivers`."""
    versions = [DRIVERS[sum(i >= change for change in drivers) % 2] for i in range(count)]
    return tuple(HistoryRun(f"{card}{i}", at(i), sha(i), context={"driver": versions[i]}) for i in range(count))


def series(
    runs: Sequence[HistoryRun],
    values: Sequence[float] = (),
    *,
    metric: str = "m0",
    better: Better = "lower",
    noise: float = np.nan,
    changes: Sequence[HistoryChange] = (),
) -> HistorySeries:
    """A series of these runs, with ones as values if there are none."""
    numbers = np.array(values if len(values) else [1.0] * len(runs))
    unknown, name = np.full(len(numbers), np.nan), SeriesName(Key(metric), "median")
    about = ("gpt", runs[0].id[0], name, "s", better, "samples")
    return HistorySeries(*about, tuple(runs), numbers, unknown, unknown, unknown, tuple(changes), 0, noise)  # type: ignore[arg-type]


def change(
    runs: Sequence[HistoryRun],
    likely: int,
    *,
    first: int | None = None,
    last: int | None = None,
    size: tuple[float, float, float] = (0.1, 0.09, 0.11),
    levels: tuple[float, float] = (1.0, 1.1),
    worse: bool | None = True,
    went_away: HistoryRun | None = None,
    approval: ApprovedLevel | None = None,
    facts: tuple[tuple[str, str, str], ...] = (),
) -> HistoryChange:
    """A change that began in the run `likely`, or in any run from `first` to `last`; `size` has its interval, too."""
    first, last = likely if first is None else first, likely if last is None else last
    point = ChangePoint(likely, *size, 1.0, *levels, first, last, worse)
    return HistoryChange(point, runs[likely], runs[first - 1], runs[last], None, went_away, approval, facts)


def moved(runs: Sequence[HistoryRun], likely: int, *, column: int = 0, **about: Any) -> MovedSeries:
    """The change of a series that has all runs of its panel."""
    found = change(runs, likely, **about)
    own = series(runs, metric=f"m{column}", changes=[found])
    return MovedSeries(own, found, column, likely, found.point.first, found.point.last)


def panel(
    runs: Sequence[HistoryRun],
    *columns: HistorySeries,
    steps: Sequence[PanelStep] = (),
    changes: Sequence[MovedSeries] | None = None,
) -> EventPanel:
    """A panel with these steps, and with these change points in place of those of its series."""
    place = EnvironmentHistory("gpt", runs[0].id[0], {}, tuple(runs), columns, (), ())
    found = EventPanel(place)
    found.__dict__["steps"] = tuple(steps)
    if changes is not None:
        found.__dict__["moved"] = tuple(changes)
    return found


def step(seen: int, likely: int, first: int, last: int, *z: float) -> PanelStep:
    """A step of a panel."""
    return PanelStep(seen, likely, first, last, np.array(z))


def found_step(number: int, own: PanelStep, *, sign: int = 1, machine: bool = False) -> FoundStep:
    """A step of a panel whose runs are of one commit each."""
    seen = HistoryRun(f"{number}", at(own.seen))
    return FoundStep(number, own, seen, own.index, own.first - 1, own.last, sign, machine)
