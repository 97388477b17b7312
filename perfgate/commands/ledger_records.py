"""How often the rules of a suite were wrong: by the ledger, and by what the changes of the history prove."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from perfgate.baselines.ledger import read_ledger, record_evidence
from perfgate.baselines.ledger_truth import ledger_of
from perfgate.baselines.stores import open_store
from perfgate.commands.history import show
from perfgate.core import Key, Problem
from perfgate.core.history_events import EventChange, HistoryEvent
from perfgate.core.remembered_runs import CommitLine
from perfgate.core.rule_ledger import EvidenceKind, LedgerEntry, RuleRecord
from perfgate.core.run_history import LoadedHistory
from perfgate.history.events import events_of
from perfgate.judge.subjects import is_named
from perfgate.rules.ruleset import Rule, Ruleset
from perfgate.rules.syntax.sentence import ChangeClause
from perfgate.words.event_words import is_worse
from perfgate.workspace.options import HistoryPlace, Refused


def records_of(
    baselines: str, ruleset: Ruleset, history: Callable[[], LoadedHistory] | None = None
) -> tuple[Mapping[str, RuleRecord], list[Problem]]:
    """Return how often each rule was wrong, and the files that cannot be used. Raises Refused.

    `history` gives the whole history, if it is loaded. It is only loaded if the suite has a ledger.
    """
    entries, problems = read_ledger(open_store(baselines), ruleset.suite)
    if not entries:
        return {}, problems
    try:
        found = history() if history else show(HistoryPlace(baselines))
    except Refused:  # nothing is remembered any more
        return ledger_of(entries), problems
    return ledger_of([*entries, *evidence_of(events_of(found), found.line, ruleset)]), problems


def rules_of(ruleset: Ruleset, keys: Collection[Key]) -> list[Rule]:
    """Return the rules that name one of these metrics."""
    said = ((rule, rule.sentence) for rule in ruleset.rules)
    return [rule for rule, one in said if any(is_named(one.subject, one.subject_text, key) for key in keys)]


def evidence_of(events: Iterable[HistoryEvent], line: CommitLine | None, ruleset: Ruleset) -> Iterator[LedgerEntry]:
    """Yield which commits the history shows to be worse, by environment; nothing without a repository.

    A green was wrong only if the change is beyond its tolerance. So the evidence is about the metrics whose whole
    interval is beyond the widest tolerance of their rules. It ends where the change went away or was approved. The
    machine's changes prove nothing about a commit.
    """
    if line is None:
        return
    for event in events:
        commits = [] if event.kind == "machine" or not is_worse(event) else _commits_of(event, line)
        kind: EvidenceKind = "reverted" if event.state == "reverted" else "event"
        own = [one for one in event.changes if one.suite == ruleset.suite and _is_beyond(one, ruleset)]
        for environment in sorted({one.environment for one in own}) if commits else ():
            metrics = sorted({one.name.key.metric for one in own if one.environment == environment})
            name = f"{event.id} {environment}"
            yield LedgerEntry(kind, commits, metrics, environment, event.id, time=event.first_bad.time, id=name)


def _commits_of(event: HistoryEvent, line: CommitLine) -> list[str]:
    """Return the commits that have the new level and are not approved; none if the line does not show them."""
    first = line.place(event.first_bad.commit)
    over = event.ended or event.approval
    end = len(line.commits) if over is None else line.place(over.commit)
    return [] if first is None or end is None else [one.sha for one in line.commits[first:end]]


def record_false_alarms(
    baselines: str, events: Iterable[HistoryEvent], reasons: Mapping[str, str], line: CommitLine | None
) -> None:
    """Record that people called events false alarms; `reasons` are their tickets, by event. Raises Refused."""
    store = open_store(baselines)
    for event in events:
        commits = [one.sha for one in line.between(event.last_good.commit, event.first_bad.commit)] if line else []
        for suite in sorted({one.suite for one in event.changes}) if commits else ():
            metrics = sorted({one.name.key.metric for one in event.changes if one.suite == suite})
            found = LedgerEntry("false-alarm", commits, metrics, reason=reasons[event.id])
            record_evidence(store, suite, found)


def _is_beyond(one: EventChange, ruleset: Ruleset) -> bool:
    asked = [clause.asks for rule in rules_of(ruleset, [one.name.key]) for clause in rule.clauses]
    tolerances = [_share(ask, one.before) for ask in asked if isinstance(ask, ChangeClause)]
    return bool(one.worse and tolerances) and min(abs(one.low), abs(one.high)) > max(tolerances)


def _share(clause: ChangeClause, before: float) -> float:
    """Return the tolerance of a clause as a share of the level before: the larger one, if it has two."""
    absolute = abs(clause.absolute.value / before) if clause.absolute and before else 0.0
    return max(clause.relative or 0.0, absolute)
