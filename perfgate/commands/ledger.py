"""The error ledger: record checks of main and searches for a commit, and count how often rules were wrong.

A red or green answer of a rule is wrong if evidence contradicts it: entries of the ledger, or changes of the history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from perfgate.baselines import ledger
from perfgate.baselines.stores import open_store
from perfgate.commands.history import show
from perfgate.core import Key, Problem, Report
from perfgate.core.causes import BisectReport
from perfgate.core.history_events import EventChange, EvidenceKind, HistoryEvent, LedgerEntry, RuleRecord
from perfgate.core.remembered_runs import CommitLine
from perfgate.core.run_history import LoadedHistory
from perfgate.history.events import events_of
from perfgate.history.store import branch_of, places, read
from perfgate.judge.subjects import is_named
from perfgate.rules.ruleset import Rule, Ruleset
from perfgate.rules.syntax.sentence import ChangeClause
from perfgate.words.event_words import is_worse
from perfgate.workspace.options import CommandOptions, HistoryPlace, Refused
from perfgate.workspace.surroundings import branch, head_commit

if TYPE_CHECKING:
    from perfgate.history.tickets import Ticket
    from perfgate.measuring.until_settled import Tell


def records_of(
    baselines: str, ruleset: Ruleset, history: LoadedHistory | None = None
) -> tuple[Mapping[str, RuleRecord], list[Problem]]:
    """Return how often each rule was wrong, by its name, and the problems of files. Raises Refused.

    `history`: the whole history; if it is None, it is loaded if the suite has a ledger.
    """
    entries, problems = ledger.read_ledger(open_store(baselines), ruleset.suite)
    if not entries:
        return {}, problems
    try:
        found = show(HistoryPlace(baselines)) if history is None else history
    except Refused:  # nothing is remembered any more
        return ledger.ledger_of(entries), problems
    return ledger.ledger_of([*entries, *evidence_of(events_of(found), found.line, ruleset)]), problems


def rules_of(ruleset: Ruleset, keys: Collection[Key]) -> list[Rule]:
    """Return the rules that name one of these metrics."""
    with_sentences = ((rule, rule.sentence) for rule in ruleset.rules)
    return [rule for rule, one in with_sentences if any(is_named(one.subject, one.subject_text, key) for key in keys)]


def evidence_of(events: Iterable[HistoryEvent], line: CommitLine | None, ruleset: Ruleset) -> Iterator[LedgerEntry]:
    """Yield entries about the commits that the history shows to be worse, by environment; none without a repository.

    A green answer was only wrong if the change is larger than the tolerance. So an entry names the metrics whose whole
    interval is beyond the widest tolerance of their rules. Its commits end where the change went away or was approved.
    Changes of the machine prove nothing about a commit.
    """
    if line is None:
        return
    for event in events:
        commits = _commits_of(event, line) if event.kind == "code" and is_worse(event) else []
        if not commits:
            continue
        kind: EvidenceKind = "reverted" if event.state == "reverted" else "event"
        beyond = [change for change in event.changes if change.suite == ruleset.suite and _is_beyond(change, ruleset)]
        for environment, metrics in _metrics_by(beyond, lambda change: change.environment):
            name = f"{event.id} {environment}"
            yield LedgerEntry(kind, commits, metrics, environment, event.id, time=event.first_bad.time, id=name)


def _metrics_by(changes: Iterable[EventChange], place: Callable[[EventChange], str]) -> list[tuple[str, list[str]]]:
    """Return the names of the metrics of changes at each place, such as an environment; both sorted."""
    metrics: dict[str, set[str]] = {}
    for change in changes:
        metrics.setdefault(place(change), set()).add(change.name.key.metric)
    return [(name, sorted(metrics[name])) for name in sorted(metrics)]


def _commits_of(event: HistoryEvent, line: CommitLine) -> list[str]:
    """Return the commits that have the new level and are not approved; none if the line does not show them."""
    first = line.place(event.first_bad.commit)
    over = event.ended or event.approval
    end = len(line.commits) if over is None else line.place(over.commit)
    return [] if first is None or end is None else [one.sha for one in line.commits[first:end]]


def record_false_alarms(
    baselines: str, events: Iterable[HistoryEvent], tickets: Iterable[Ticket], line: CommitLine | None, tell: Tell
) -> None:
    """Record the events that people called false alarms in their tickets. An error is only a warning."""
    urls = {ticket.told.event: ticket.url for ticket in tickets if ticket.is_false}
    if line is None:
        return
    try:
        store = open_store(baselines)
        for event in events:
            commits = [one.sha for one in line.between(event.last_good.commit, event.first_bad.commit)]
            if event.id in urls and commits:
                for suite, metrics in _metrics_by(event.changes, lambda change: change.suite):
                    entry = LedgerEntry("false-alarm", commits, metrics, reason=urls[event.id])
                    ledger.record_evidence(store, suite, entry)
    except Refused as refused:
        tell(f"warning: the false alarms were not recorded: {refused}")


def _is_beyond(change: EventChange, ruleset: Ruleset) -> bool:
    """Return whether the whole interval of a change for the worse is beyond the widest tolerance of its rules."""
    clauses = [clause for rule in rules_of(ruleset, [change.name.key]) for clause in rule.clauses]
    tolerances = []  # relative to the level before the change; of two tolerances in a clause, the larger one
    for clause in clauses:
        if isinstance(clause.asks, ChangeClause):
            absolute = clause.asks.absolute
            relative = abs(absolute.value / change.before) if absolute and change.before else 0.0
            tolerances.append(max(clause.asks.relative or 0.0, relative))
    least = 0.0 if change.low <= 0 <= change.high else min(abs(change.low), abs(change.high))
    return bool(change.worse and tolerances) and least > max(tolerances)


def record_report(report: Report, options: CommandOptions, tell: Tell) -> None:
    """Record the answers of a job if it checks the branch of the history.

    A store that cannot be written is only a warning: the verdicts are the same.
    """
    if not report.verdicts:
        return
    try:
        store = open_store(options.baselines)
        measured = branch() if ledger.has_history(store, report.suite) else None
        if measured is None:
            return
        # One run of one environment shows the branch of the history; no metric is read.
        known = places(store, report.suite)[0][:1]
        runs = [run for place in known for run in read(store, *place, wanted=lambda metric: False, newest=1).runs]
        if branch_of(runs, measured) is not None:
            commit = options.head or head_commit()
            ledger.record_check(store, report.suite, report.baseline, commit, report.inputs, report.verdicts)
    except Refused as refused:
        tell(f"warning: the answers were not recorded: {refused}")


def record_search(
    report: BisectReport, names: Sequence[str], suite: str | None, options: CommandOptions, tell: Tell
) -> None:
    """Record what a search of commits showed: the commits that are worse, and the commits before them, which are not.

    If the change was not reproduced, the last commit is not worse. A change for the better, and runs that are too noisy
    to decide, show nothing; without a better direction, any change is worse. `suite` is None for a metric without a
    rule: then the only suite with a ledger is used.
    """
    is_for_worse = report.change is not None and report.larger_is_worse in (None, report.change > 0)
    widest = max(abs(report.low or 0.0), abs(report.high or 0.0))
    store = open_store(options.baselines)
    suites = ledger.suites_of_ledger(store) if suite is None else [suite]
    if len(suites) != 1:
        return
    shown: dict[EvidenceKind, Sequence[str]] = {}
    if report.outcome == "found" and is_for_worse:
        shown = {"found": names[max(report.blamed) :], "cleared": names[1 : min(report.blamed)]}  # [0]: the good end
    elif report.outcome == "not-reproduced" and widest <= 2 * report.tolerance:
        shown = {"not-reproduced": names[-1:]}
    for kind, commits in shown.items():
        found = LedgerEntry(kind, [*commits], [report.metric], reason=report.message)
        if commits and (path := ledger.record_evidence(store, suites[0], found)):
            tell(f"recorded as evidence about earlier checks: {store.location(path)}")
