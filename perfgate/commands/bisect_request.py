"""The request of `perfgate bisect`, as commands pass it on."""

from __future__ import annotations

from msgspec import Struct

from perfgate.measuring.items import ItemProgram
from perfgate.workspace.options import CommandOptions


class BisectRequest(Struct, frozen=True):
    """A request to search a list for a change of one metric. Times are in seconds."""

    options: CommandOptions
    program: ItemProgram
    good: str | None = None
    #: The default is HEAD.
    bad: str | None = None
    #: The items of a list, instead of commits.
    over: tuple[str, ...] = ()
    #: Search inside of a merge, too.
    full: bool = False
    #: The id of a rule, or else a metric with its statistic.
    rule: str | None = None
    metric: str | None = None
    statistic: str | None = None
    tolerance: str | None = None
    most_runs: int = 50
    time_budget: float | None = None
    keep: str = "perfgate-bisect"
    #: Do not take steps by turns.
    whole_runs: bool = False
    #: A metric of the history whose change gives metric and range, its number or commit, and its environment.
    from_history: str | None = None
    change: str | None = None
    environment: str | None = None
