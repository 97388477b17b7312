"""Rule files in, a ruleset out; every mistake becomes a problem with file:line:column, and none hides another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from graphlib import CycleError, TopologicalSorter
from typing import Any

from perfgate.core import Location, Problem, fact_text
from perfgate.core.resource_limits import DEFAULT, Limits
from perfgate.documents.yaml import Document, Path, load_document
from perfgate.rules.ruleset import (
    DEFAULT_IDENTITY,
    Condition,
    DerivedMetric,
    ExpectedFailure,
    Rule,
    Ruleset,
    Settings,
    parse_condition,
)
from perfgate.rules.syntax.cursor import MAX_LENGTH, SentenceError
from perfgate.rules.syntax.grammar import parse_expression, parse_sentence
from perfgate.rules.syntax.sentence import ChangeClause, Expression, Sentence, is_per_run, selectors
from perfgate.rules.validate import problem_at, schema_problems

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_PERCENTAGES = ("confidence", "power", "budget")
#: How many definitions of derived metrics may lead to one another: computing them goes as deep.
MAX_CHAIN = 10
#: How many circles of definitions are named in one file.
_MOST_CIRCLES = 20


def load_rules(
    files: Iterable[tuple[str, bytes]], suite: str | None = None, limits: Limits = DEFAULT
) -> tuple[Ruleset | None, list[Problem]]:
    """Load the rule files (name, bytes) of one suite; `suite` chooses where the files speak of several.

    Returns the ruleset and all problems; the ruleset is None when any problem is an error.
    """
    loaders, problems = _load_files(files, limits)
    if not loaders:
        return None, [Problem("error", "there are no rule files", Location("rules"))]
    suites = sorted({loader.suite for loader in loaders})
    if not problems and suite is None and len(suites) > 1:
        message = f"the rules speak of several suites ({', '.join(suites)}): choose one with --suite"
        problems.append(Problem("error", message, Location(loaders[0].document.name)))
    chosen = [loader for loader in loaders if suite is None or loader.suite == suite]
    if not problems and not chosen:
        message = f"there are no rules for suite {suite!r}: the rule files hold {', '.join(suites)}"
        problems.append(Problem("error", message, Location(loaders[0].document.name)))
    if problems:
        return None, problems
    ruleset, clashes = _merge(chosen)
    return (None if clashes else ruleset), clashes


def check_rules(files: Iterable[tuple[str, bytes]], limits: Limits = DEFAULT) -> tuple[dict[str, int], list[Problem]]:
    """Validate rule files of any suites: how many rules each good file holds, and all problems."""
    loaders, problems = _load_files(files, limits)
    for suite in sorted({loader.suite for loader in loaders}) if not problems else ():
        problems += _merge([loader for loader in loaders if loader.suite == suite])[1]
    counts = {loader.document.name: len(loader.rules) for loader in loaders if not loader.problems}
    return counts, problems


def all_rules(files: Iterable[tuple[str, bytes]], limits: Limits = DEFAULT) -> list[Rule]:
    """The rules of all suites, those of a file with mistakes as far as they can be read."""
    return [rule for loader in _load_files(files, limits)[0] for rule in loader.rules]


def _load_files(files: Iterable[tuple[str, bytes]], limits: Limits) -> tuple[list[_FileLoader], list[Problem]]:
    loaders = [_FileLoader(load_document(name, data, limits)) for name, data in files]
    return loaders, [problem for loader in loaders for problem in sorted(loader.load(), key=_position)]


def _position(problem: Problem) -> tuple[int, int]:
    return problem.at.line or 0, problem.at.column or 0


def _merge(loaders: list[_FileLoader]) -> tuple[Ruleset, list[Problem]]:
    """One ruleset of several files; ids and derived metrics are unique over all of them."""
    problems: list[Problem] = []
    rules: list[Rule] = []
    metrics: dict[str, DerivedMetric] = {}
    ids: dict[str, Location] = {}
    for loader in loaders:
        for rule in loader.rules:
            if rule.id in ids:
                problems.append(Problem("error", f"the id {rule.id!r} is taken, by {ids[rule.id]}", rule.at))
            if rule.id is not None:
                ids.setdefault(rule.id, rule.at)
            rules.append(rule)
        for metric in loader.metrics.values():
            if metric.name in metrics and metrics[metric.name].text != metric.text:
                first = metrics[metric.name].at
                problems.append(Problem("error", f"{metric.name!r} is defined otherwise at {first}", metric.at))
            metrics.setdefault(metric.name, metric)
    identity = _agreed(loaders, "identity", ("environment",), "name different environment identities", problems)
    pairs = _agreed(loaders, "pairs", ("pairs",), "disagree on `pairs:`", problems)
    files = tuple(loader.document.name for loader in loaders)
    return Ruleset(loaders[0].suite, tuple(rules), metrics, identity or DEFAULT_IDENTITY, files, pairs), problems


def _agreed(loaders: list[_FileLoader], name: str, key: Path, clash: str, problems: list[Problem]) -> Any:
    """What the files of a suite say once for all of them, or None; two that say otherwise are a problem."""
    said = [loader for loader in loaders if getattr(loader, name)]
    if len({getattr(loader, name) for loader in said}) > 1:
        problems.append(Problem("error", f"the files of one suite {clash}", said[-1].document.location(key)))
    return getattr(said[0], name) if said else None


class _FileLoader:
    """One file: validated, then turned into rules; problems are collected on the way."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = list(document.problems)
        self.suite = "default"
        self.identity: tuple[str, ...] = ()
        self.pairs: Any = None
        self.rules: list[Rule] = []
        self.metrics: dict[str, DerivedMetric] = {}

    def load(self) -> list[Problem]:
        if self.problems:
            return self.problems
        self.problems += schema_problems(self.document)
        data = self.document.data
        if not isinstance(data, dict):
            return self.problems
        if isinstance(data.get("suite"), str):
            self.suite = data["suite"]
        self.load_metrics(data.get("metrics"))
        self.load_rules(data)
        if not self.problems:
            self.identity, self.pairs = tuple((data.get("environment") or {}).get("identity", ())), data.get("pairs")
        return self.problems

    def fail(self, message: str, path: Path, start: int = 0, end: int | None = None) -> None:
        self.problems.append(problem_at(self.document, message, path, start, end))

    # --- derived metrics -----------------------------------------------------------------------------------------

    def load_metrics(self, metrics: Any) -> None:
        if not isinstance(metrics, dict):
            return
        for name, text in metrics.items():
            path: Path = ("metrics", name)
            if not isinstance(text, str):
                continue  # the schema has said so
            try:
                expression = parse_expression(text)
            except SentenceError as error:
                self.fail(error.message, path, error.start, error.end)
                continue
            self.check_metric(name, expression, path)
            self.metrics[name] = DerivedMetric(name, expression, text, self.document.location(path, key=True))
        self.check_chains()

    def check_metric(self, name: str, expression: Expression, path: Path) -> None:
        for selector in selectors(expression):
            if selector.is_glob:
                self.fail(f"{selector.pattern!r} is a glob: a derived metric names single metrics", path)
        if is_per_run(expression):
            self.fail("a derived metric is computed step by step: put the statistic into the rule", path)

    def check_chains(self) -> None:
        """Definitions that lead to one another in a circle, or in a chain too long to be meant."""
        metrics = self.metrics
        parts = {
            name: dict.fromkeys(s.pattern for s in selectors(metric.expression) if s.pattern in metrics)
            for name, metric in metrics.items()
        }
        for _ in range(_MOST_CIRCLES):
            circle = _circle(parts)
            if not circle:
                self.check_depth(parts)
                break
            by = " by ".join(map(repr, circle[1:6]))
            self.fail(f"{circle[0]!r} is defined by itself: by {by}", ("metrics", circle[0]))
            parts[circle[0]] = {}

    def check_depth(self, parts: Mapping[str, Iterable[str]]) -> None:
        depth: dict[str, int] = {}
        for name in TopologicalSorter(parts).static_order():
            depth[name] = 1 + max((depth[part] for part in parts[name]), default=0)
            if depth[name] == MAX_CHAIN + 1:
                self.fail(f"{name!r} is defined by more than {MAX_CHAIN} definitions in a row", ("metrics", name))

    # --- rules ---------------------------------------------------------------------------------------------------

    def load_rules(self, data: dict[str, Any]) -> None:
        rules = data.get("rules")
        if not isinstance(rules, list):
            return
        defaults = data.get("defaults")
        base = self.settings(Settings(), defaults if isinstance(defaults, dict) else {}, ("defaults",))
        for index, item in enumerate(rules):
            if isinstance(item, str):
                self.load_rule({"assert": item}, ("rules", index), ("rules", index), base)
            elif isinstance(item, dict):
                self.load_rule(item, ("rules", index), ("rules", index, "assert"), base)

    def load_rule(self, item: Mapping[str, Any], path: Path, sentence_path: Path, base: Settings) -> None:
        sentence = self.sentence(item.get("assert"), sentence_path)
        settings = self.settings(base, item, path)
        when = self.conditions(item.get("when"), path)
        expected = self.expected_failure(item.get("expect_fail"), path)
        better = item.get("better")
        if sentence is None:
            return
        self.check_direction(sentence, better, sentence_path)
        self.rules.append(
            Rule(
                sentence=sentence,
                at=self.document.location(sentence_path),
                settings=settings,
                id=item.get("id"),
                why=item.get("why"),
                when=when,
                better=better,
                expect_fail=expected,
                tags=tuple(item.get("tags") or ()),
            )
        )

    def sentence(self, text: Any, path: Path) -> Sentence | None:
        if not isinstance(text, str) or not 0 < len(text) <= MAX_LENGTH:
            return None  # the schema has said so
        try:
            return parse_sentence(text)
        except SentenceError as error:
            cut = self.document.excerpt(path).startswith(text) and " #" in self.document.excerpt(path)[len(text) :]
            hint = (
                "; YAML drops what follows ` #`: if it belongs to the name, wrap the sentence in single quotes"
                if cut
                else ""
            )
            self.fail(error.message + hint, path, error.start, error.end)
            return None

    def check_direction(self, sentence: Sentence, better: Any, path: Path) -> None:
        wrong = {"higher": "upper", "lower": "lower"}.get(str(better))
        for clause in sentence.clauses:
            if isinstance(clause.asks, ChangeClause) and clause.asks.side == wrong:
                start = sentence.text.find(clause.text)
                message = f"`{clause.text}` bounds the improving side of a metric of which {better} is better"
                self.fail(message, path, start, start + len(clause.text))

    def settings(self, base: Settings, item: Mapping[str, Any], path: Path) -> Settings:
        """The settings written in a mapping, over those of `base`; wrong types were said by the schema."""
        found: dict[str, Any] = {}
        for name in Settings.__dataclass_fields__:
            if name in item:
                value = item[name]
                whole = isinstance(value, float) and value.is_integer() and name not in _PERCENTAGES
                found[name] = min(int(value), 1 << 53) if whole else value
        for name in _PERCENTAGES:
            if name in found:
                found[name] = self.share(found[name], (*path, name), name)
        return replace(base, **found)

    def share(self, value: Any, path: Path, name: str) -> float:
        try:
            number = float(value.strip().removesuffix("%")) / 100 if isinstance(value, str) else float(value)
        except (TypeError, ValueError):
            return 0.95
        if isinstance(value, str) and name != "budget" and not 0.5 < number < 1:
            self.fail(f"{name} lies between 50% and 100%, not at {value}", path)
        return number

    def conditions(self, when: Any, path: Path) -> tuple[Condition, ...]:
        found = []
        for fact, value in when.items() if isinstance(when, dict) else ():
            if not isinstance(value, (str, int, float)):
                continue
            try:
                found.append(parse_condition(fact, fact_text(value)))
            except ValueError as error:
                self.fail(f"{value!r} {error}", (*path, "when", fact))
        return tuple(found)

    def expected_failure(self, item: Any, path: Path) -> ExpectedFailure | None:
        if not isinstance(item, dict) or not isinstance(item.get("until"), str):
            return None
        until = item["until"].strip()
        if not _DATE.fullmatch(until):
            return None  # the schema has said so
        try:
            return ExpectedFailure(str(item.get("reason")), date.fromisoformat(until))
        except ValueError:
            self.fail(f"{item['until']!r} is not a date: write YYYY-MM-DD", (*path, "expect_fail", "until"))
            return None


def _circle(parts: Mapping[str, Iterable[str]]) -> list[str]:
    """Metrics each of which is defined by the next, the last being the first again; empty where there are none."""
    try:
        TopologicalSorter(parts).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []
