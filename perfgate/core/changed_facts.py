"""Find the runs at which facts of the machine changed, and the facts that change too often to explain anything."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from perfgate.core.remembered_runs import HistoryRun
from perfgate.core.runs import fact_text

#: A fact that changes more often than this, as a share of the runs, explains no change: a host of a pool, a clock.
_OFTEN = 0.05
_FEW = 3


class ChangedFact(Struct, frozen=True):
    """A fact that a run has with another value than the run before it; `at` is the position of the run."""

    at: int
    name: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.name} from {self.before} to {self.after}"


class ChangedFacts(Struct, frozen=True):
    """The changes of facts, by name and then in the order of the runs."""

    #: Those that may explain a change of a metric.
    steady: tuple[ChangedFact, ...]
    #: The names of facts that change often, with the number of their changes.
    often: tuple[tuple[str, int], ...]


def changed_facts(runs: Sequence[HistoryRun]) -> ChangedFacts:
    """Return where facts changed between runs. A run that lacks a fact changes nothing."""
    found: dict[str, list[ChangedFact]] = {}
    known: dict[str, str] = {}
    for at, run in enumerate(runs):
        for name, fact in run.context.items():
            text = fact_text(fact)
            before = known.get(name)
            known[name] = text
            if before is not None and before != text:
                found.setdefault(name, []).append(ChangedFact(at, name, before, text))
    most = max(_FEW, _OFTEN * len(runs))
    steady = tuple(one for name in sorted(found) if len(found[name]) <= most for one in found[name])
    return ChangedFacts(steady, tuple((name, len(found[name])) for name in sorted(found) if len(found[name]) > most))
