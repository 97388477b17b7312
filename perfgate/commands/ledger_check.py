"""Record checks of main, and searches for a commit, in the error ledger."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perfgate.baselines.ledger import has_history, record_check, record_evidence, suites_of_ledger
from perfgate.baselines.stores import Store, open_store
from perfgate.core import Report
from perfgate.core.causes import BisectReport
from perfgate.core.rule_ledger import EvidenceKind, LedgerEntry
from perfgate.history.store import branch_of, places, read
from perfgate.workspace.options import CommandOptions, Refused
from perfgate.workspace.surroundings import branch, head_commit


def record_report(report: Report, options: CommandOptions, tell: Callable[[str], None]) -> None:
    """Record the answers of a job if it checks the branch of the history.

    A store that cannot be written is only a warning: the verdicts are the same.
    """
    if not report.verdicts:
        return
    try:
        store = open_store(options.baselines)
        if has_history(store, report.suite) and _is_branch_of_history(store, report.suite):
            commit = options.head or head_commit()
            record_check(store, report.suite, report.baseline, commit, report.inputs, report.verdicts)
    except Refused as refused:
        tell(f"warning: the answers were not recorded: {refused}")


def _is_branch_of_history(store: Store, suite: str) -> bool:
    measured = branch()
    runs = [run for place in places(store, suite)[0][:1] for run in read(store, *place, lambda metric: False, 1).runs]
    return measured is not None and branch_of(runs, measured) is not None


def record_search(
    report: BisectReport, names: Sequence[str], suite: str | None, options: CommandOptions, tell: Callable[[str], None]
) -> None:
    """Record what a search of commits showed: those that are worse, those before them, or that the last one is not.

    A change for the better, and runs that are too noisy to decide, show nothing about reds. A search for a metric
    without a rule belongs to the suite with a ledger, if there is only one.
    """
    is_worse = report.change is not None and report.larger_is_worse in (None, report.change > 0)
    widest = max(abs(report.low or 0.0), abs(report.high or 0.0))
    store = open_store(options.baselines)
    suites = suites_of_ledger(store) if suite is None else [suite]
    if len(suites) != 1:
        return
    shown: dict[EvidenceKind, Sequence[str]] = {}
    if report.outcome == "found" and is_worse:
        shown = {"found": names[max(report.blamed) :], "cleared": names[1 : min(report.blamed)]}
    elif report.outcome == "not-reproduced" and widest <= 2 * report.tolerance:
        shown = {"not-reproduced": names[-1:]}
    for kind, commits in shown.items():
        found = LedgerEntry(kind, [*commits], [report.metric], reason=report.message)
        if commits and (path := record_evidence(store, suites[0], found)):
            tell(f"recorded as evidence about earlier checks: {store.location(path)}")
