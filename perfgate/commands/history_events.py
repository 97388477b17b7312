"""`perfgate history events`: the changes of main, each once, however many metrics it moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import click
from msgspec.structs import replace

from perfgate.baselines.levels import StoredRun
from perfgate.baselines.repository import read_stored_runs
from perfgate.baselines.stores import open_store
from perfgate.cli.printing import complain, screen, write_document
from perfgate.cli.shared import command_options
from perfgate.commands.history import PLACE, rule_files, show
from perfgate.commands.ledger_records import records_of, rules_of
from perfgate.core.history_events import HistoryEvent
from perfgate.core.remembered_runs import CommitLine
from perfgate.core.rule_ledger import RuleRecord
from perfgate.core.run_history import LoadedHistory
from perfgate.history.events import events_of
from perfgate.reporters.history_events import render_json, render_text
from perfgate.rules.load import readable_rulesets
from perfgate.rules.ruleset import Rule, Ruleset
from perfgate.words import cause_words
from perfgate.words.event_words import is_open
from perfgate.words.history_words import rule_record
from perfgate.workspace.options import HistoryPlace

#: The most stored runs on each side of an event in which causes are searched, and the most causes that are named.
_RUNS, _CAUSES = 5, 3


@click.command("events")
@click.option("--all", "every", is_flag=True, help="Also changes for the better, approved ones, and past ones.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (perfgate.history-events/1), with every event.")
@command_options(*PLACE, name="place", build=HistoryPlace)
def command(place: HistoryPlace, every: bool, as_json: bool) -> int:
    """Show the changes of main: all metrics that moved in the same commits are one change, on all machines.

    Each has its commits, its largest metrics, what changed of the machine, the causes that stored traces show, and
    the owner of the rules. Its id stays the same when more runs are added.

    \b
    Example: perfgate history events
    """
    events, found = told_events(place)
    if as_json:
        write_document(render_json(events, found.problems))
    else:
        seen = screen()
        text = render_text(
            events, found.line, every=every, width=seen.width, colour=seen.colour, ascii_only=seen.ascii_only
        )
        click.echo(text, nl=False, color=True)
    return complain(found.problems)


def told_events(place: HistoryPlace) -> tuple[list[HistoryEvent], LoadedHistory]:
    """Return the events of a suite and environment, or of all, with owners and causes, and the whole history.

    Raises Refused (3) if nothing is remembered.
    """
    found = show(replace(place, suite=None, environment=None))  # an id needs all of them
    if not any(
        (place.suite or one.suite, place.environment or one.environment) == (one.suite, one.environment)
        for one in found.environments
    ):
        show(place)  # it says what is missing
    wanted = [event for event in events_of(found) if _is_at(event, place)]
    rulesets = readable_rulesets(rule_files(place.rules))
    records = {one.suite: records_of(place.baselines, one, lambda: found)[0] for one in rulesets}
    known: dict[tuple[str, str], list[StoredRun]] = {}
    events = [
        replace(
            event,
            owners=_owners(event, rulesets),
            rules=_rules(event, rulesets, records),
            causes=_causes(event, place.baselines, found.line, known) if _needs_causes(event) else (),
        )
        for event in wanted
    ]
    return events, found


def _needs_causes(event: HistoryEvent) -> bool:
    return is_open(event) and event.kind == "code"


def _is_at(event: HistoryEvent, place: HistoryPlace) -> bool:
    return any(
        place.suite in (None, one.suite) and place.environment in (None, one.environment) for one in event.changes
    )


def _named(event: HistoryEvent, rulesets: Sequence[Ruleset]) -> Iterator[tuple[str, Rule]]:
    """Yield the rules that name a metric of an event, each with its suite."""
    for ruleset in rulesets:
        keys = {one.name.key for one in event.changes if one.suite == ruleset.suite}
        yield from ((ruleset.suite, rule) for rule in rules_of(ruleset, keys))


def _owners(event: HistoryEvent, rulesets: Sequence[Ruleset]) -> tuple[str, ...]:
    found = (rule.settings.owner for _, rule in _named(event, rulesets) if rule.settings.owner)
    return tuple(dict.fromkeys(found))


def _rules(
    event: HistoryEvent, rulesets: Sequence[Ruleset], records: Mapping[str, Mapping[str, RuleRecord]]
) -> tuple[str, ...]:
    return tuple(
        f"{rule.name}: {rule_record(records[suite][rule.name])}"
        for suite, rule in _named(event, rulesets)
        if rule.name in records[suite]
    )


def _causes(
    event: HistoryEvent, baselines: str, line: CommitLine | None, known: dict[tuple[str, str], list[StoredRun]]
) -> tuple[str, ...]:
    """Return the causes in the stored runs on both sides of an event, of the first environment that has some."""
    store = open_store(baselines)
    for suite, environment in dict.fromkeys((one.suite, one.environment) for one in event.changes):
        if (suite, environment) not in known:
            known[suite, environment] = read_stored_runs(store, suite, environment)[0]
        base, new = _sides(event, line, known[suite, environment])
        if base and new:
            from perfgate.commands.report_details import causes_of

            found = causes_of([one.run for one in base], [one.run for one in new])
            if found is not None and found.causes:
                return tuple(cause_words.line(cause) for cause in found.causes[:_CAUSES])
    return ()


def _sides(
    event: HistoryEvent, line: CommitLine | None, stored: Iterable[StoredRun]
) -> tuple[list[StoredRun], list[StoredRun]]:
    """Return the stored runs before and after an event, the nearest ones."""
    runs = sorted(stored, key=lambda one: one.age)
    if line is None:
        base = [one for one in runs if one.head.time <= event.last_good.time]
        return base[-_RUNS:], [one for one in runs if one.head.time >= event.first_bad.time][:_RUNS]
    good, bad = line.place(event.last_good.commit), line.place(event.first_bad.commit)
    placed = sorted(
        ((at, one) for one in runs if (at := line.place(one.head.commit)) is not None), key=lambda pair: pair[0]
    )
    base = [one for at, one in placed if good is not None and at <= good]
    return base[-_RUNS:], [one for at, one in placed if bad is not None and at >= bad][:_RUNS]
