"""Everything that a set of verdicts is decided from."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from msgspec import Struct, field

from perfgate.core import Acceptance, Baseline, Fact, MissingBaseline, Run
from perfgate.core.resource_limits import DEFAULT, Limits
from perfgate.rules.ruleset import Ruleset


class Case(Struct, frozen=True):
    """The rules, the runs of both sides, and what the command line says about them."""

    ruleset: Ruleset
    new: tuple[Run, ...]
    baseline: Baseline
    today: date
    facts: Mapping[str, Fact] = field(default_factory=dict)
    #: The names of facts that only the judged files state.
    claimed: frozenset[str] = frozenset()
    strict: bool = False
    missing_baseline: MissingBaseline = "error"
    #: Globs of rule ids and metrics; empty means all.
    only: tuple[str, ...] = ()
    #: The commands that accept these runs.
    accept: Acceptance = field(default_factory=Acceptance)
    limits: Limits = DEFAULT
    #: The numbers of new runs at which they are judged; None is `check`, where a change has up to three looks.
    looks: tuple[int, ...] | None = None
