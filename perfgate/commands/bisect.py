"""`perfgate bisect`: measure the items of a list until one is probable to have changed a metric."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from perfgate.bisect.ranges import SearchedRange, commit_range, inside_merge, item_range
from perfgate.bisect.search import Terms, search
from perfgate.bisect.session import open_folder
from perfgate.commands.bisect_answer import AnswerParts, answer
from perfgate.commands.bisect_history import from_history
from perfgate.commands.bisect_measurer import BisectTask, ItemMeasurer
from perfgate.commands.bisect_request import BisectRequest
from perfgate.commands.compare import asked_change, metric_rule
from perfgate.core.bisection import BisectReport
from perfgate.core.trained_model import HFU, MFU
from perfgate.core.wording import plural
from perfgate.measuring.items import clock, item_runner
from perfgate.measuring.keeping import claim
from perfgate.measuring.programs import Stopped, stopped_by_signals
from perfgate.measuring.until_settled import Tell
from perfgate.rules.ruleset import Ruleset
from perfgate.rules.syntax.cursor import SentenceError
from perfgate.rules.syntax.grammar import parse_expression
from perfgate.rules.syntax.sentence import ChangeClause, Selector
from perfgate.workspace.mapping_source import no_rules
from perfgate.workspace.options import Refused
from perfgate.workspace.rule_source import WORKING_TREE, read_ruleset
from perfgate.workspace.surroundings import git

#: The smallest change that is searched for, if neither the user nor the rule says it.
_TOLERANCE = 0.02


def bisect(request: BisectRequest, tell: Tell) -> BisectReport:
    """Search a list for the item that changed a metric. Raises Refused for usage errors, and after a signal (3)."""
    if request.from_history is not None:
        request = from_history(request, request.from_history, tell)
    ruleset, tolerance = _ruleset(request)
    request = replace(request, program=replace(request.program, mappings=ruleset.mappings))
    items = item_range(request.over) if request.over else commit_range(request.good or "", request.bad or "HEAD")
    if items.commits and git("status", "--porcelain", "--untracked-files=no", what="the working tree cannot be read"):
        tell("note: uncommitted changes are left alone and are not measured: only commits are")
    task = BisectTask(request, ruleset, tolerance, tell, began=clock())
    try:
        with stopped_by_signals():
            found = _search_list(task, items, Path(request.keep))
            while (
                request.full and found.outcome == "found" and len(found.blamed) == 1 and found.suspects[0].item.is_merge
            ):
                merge = items.commits[found.blamed[0]]
                inner = inside_merge(merge)
                if inner is None:
                    break
                tell(f"{merge.sha[:12]} is a merge: searching the {len(inner.names) - 1} commits that it brought")
                inside = _search_list(task, inner, Path(request.keep) / f"inside-{merge.sha[:12]}")
                if inside.outcome != "found":
                    note = f"the commits of the merge alone do not explain it: {inside.message}"
                    return replace(found, notes=(*found.notes, note))
                items, found = inner, replace(inside, inside=found.suspects[0].item)
            return found
    except Stopped as stopped:
        step = f"what was measured is kept in {request.keep}; the same command goes on from there"
        raise Refused(f"{stopped}: {step}", stopped.exit_code) from None


def _ruleset(request: BisectRequest) -> tuple[Ruleset, float]:
    """Return a ruleset with the one rule to measure, and the tolerance. Raises Refused."""
    tolerance = None
    if request.tolerance is not None:
        asks = asked_change(None, request.tolerance).asks
        assert isinstance(asks, ChangeClause)
        tolerance = asks.relative
    if request.metric is not None:
        clause = asked_change(request.statistic, "5%")
        rule = metric_rule(request.metric, request.statistic, clause)
        if (labelled := _labelled(request.metric)) is not None:
            rule = replace(rule, sentence=replace(rule.sentence, subject=labelled))
        return replace(_without_rules(request), rules=(rule,)), _TOLERANCE if tolerance is None else tolerance
    ruleset = read_ruleset(WORKING_TREE, request.options.rules, request.options.suite)
    chosen = [rule for rule in ruleset.rules if rule.name == request.rule]
    if not chosen:
        known = ", ".join(rule.name for rule in ruleset.rules[:20])
        raise Refused(f"--rule {request.rule}: unknown rule; the rules are {known}")
    found = [clause.asks.relative for clause in chosen[0].clauses if isinstance(clause.asks, ChangeClause)]
    own = next((value for value in found if value), _TOLERANCE)
    return replace(ruleset, rules=(chosen[0],)), own if tolerance is None else tolerance


def _without_rules(request: BisectRequest) -> Ruleset:
    """Return the mappings of the rule files, their derived metrics, and the model that `mfu` and `hfu` need.

    A plain metric needs no rule files, so mistakes in them do not matter. Raises Refused.
    """
    without = no_rules("bisect", request.options.rules)
    there = [path for path in request.options.rules if os.path.exists(path)]
    if not there or not WORKING_TREE.has_rules(there):
        return without
    try:
        known = read_ruleset(WORKING_TREE, there, request.options.suite)
    except Refused:
        if (request.metric or "").partition("{")[0] in (MFU, HFU):
            raise
        return without
    return replace(without, metrics=known.metrics, model=known.model)


def _labelled(metric: str) -> Selector | None:
    """Return a metric with labels, `forward{rank="0"}`; None for a plain name."""
    try:
        found = parse_expression(metric) if metric.endswith("}") else None
    except SentenceError:
        return None
    return found if isinstance(found, Selector) else None


def _search_list(task: BisectTask, items: SearchedRange, path: Path) -> BisectReport:
    """Search one list, or go on with it. Raises Refused and Stopped."""
    keep = path.as_posix()
    try:
        path.mkdir(parents=True, exist_ok=True)
        claim(path, keep, "perfgate bisect")
    except OSError as error:
        raise Refused(f"--keep {keep}: cannot be made: {error.strerror or error}") from None
    folder = open_folder(path, keep, _question(task, items))
    if folder.stored:
        task.tell(f"going on with {plural(len(folder.stored), 'measurement')} in {keep}")
    with item_runner(task.request.program, path, items.names, items.commits) as runner:
        measurer = ItemMeasurer(task, items, folder, runner, session=folder.session)
        fault = measurer.begin()
        result, stored = None, False
        if fault is None:
            terms = Terms(most_runs=task.request.most_runs)
            model = measurer.model()
            stored = bool(model.stored)
            result = search(model, terms, measurer, folder.evidence(), measurer.show)
            while measurer.measure_neighbours(result):
                result = search(model, terms, measurer, folder.evidence(), measurer.show)
            task.tell(f"{plural(len(folder.stored), 'measurement')} kept in {keep}")
        return answer(AnswerParts(items, folder, result, fault, task.tolerance, measurer.facts, keep, stored))


def _question(task: BisectTask, items: SearchedRange) -> Mapping[str, object]:
    """Return everything that the measurements depend on, but not when the search ends."""
    request, rule = task.request, task.ruleset.rules[0]
    program = request.program
    return {
        "schema": "perfgate.bisect-question/1",
        "items": [items.names[0], len(items.names), items.names[-1]] if items.commits else list(items.names),
        "metric": rule.sentence.text,
        "command": list(program.command),
        "build": list(program.build),
        "results": list(program.results),
        "format": program.format,
        "whole-runs": request.whole_runs,
    }
