"""One rule file -> rules and derived metrics; every mistake becomes a problem with file:line:column."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import date
from graphlib import CycleError, TopologicalSorter
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.core import Location, Problem, fact_text
from perfgate.core.coverage import UnreadPolicy
from perfgate.documents.yaml import Path, YamlDocument
from perfgate.rules.model_section import TrainedModel, load_model
from perfgate.rules.ruleset import (
    AtWorst,
    Condition,
    DatedReason,
    DerivedMetric,
    PairsChoice,
    Rule,
    Settings,
    is_narrower,
    parse_condition,
)
from perfgate.rules.syntax.cursor import MAX_LENGTH, SentenceError
from perfgate.rules.syntax.grammar import parse_expression, parse_sentence
from perfgate.rules.syntax.sentence import ChangeClause, LimitClause, is_per_run, selectors
from perfgate.rules.validate import problem_at, proposing, violation_problems
from perfgate.schemas import FOLDER

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
#: Settings that are shares, and may be written as percentages.
_PERCENTAGES = ("confidence", "power", "budget", "lost_time")
#: The longest chain of derived metrics that use one another: it is computed by recursion.
MAX_CHAIN = 10
#: How many circles of definitions are reported for one file, and how many of its rules are read.
_MOST_CIRCLES, _MOST_RULES = 20, 10_000


class RuleFile(Struct):
    """One rule file: `load` validates it, fills in the fields below `known`, and adds to `problems`."""

    document: YamlDocument
    problems: list[Problem]
    #: The names of known metrics, for proposals.
    known: Collection[str] = ()
    suite: str = "default"
    identity: tuple[str, ...] = ()
    pairs: PairsChoice | None = None
    measured_under: tuple[str, ...] = ()
    unread: UnreadPolicy | None = None
    renames: dict[str, str] = field(default_factory=dict)
    model: TrainedModel | None = None
    rules: list[Rule] = field(default_factory=list)
    metrics: dict[str, DerivedMetric] = field(default_factory=dict)

    def load(self) -> None:
        """Read the file. The settings of the suite, such as `pairs`, are only read if there is no problem."""
        data = self.document.data
        if data is None:
            at = Location(self.document.name, 1, 1)
            self.problems.append(Problem("error", "the file is empty: write `version: 1` and `rules`", at))
            return
        schema = json.loads((FOLDER / "rules.schema.json").read_bytes())
        del schema["definitions"]["sentence"]["pattern"]  # it is for editors; the grammar says more of a wrong sentence
        self.problems += violation_problems(self.document, schema)
        if not isinstance(data, dict):
            return
        if isinstance(data.get("suite"), str):
            self.suite = data["suite"]
        if isinstance(data.get("metrics"), dict):
            self._load_metrics(data["metrics"])
        if isinstance(data.get("model"), dict):
            self.model = load_model(self.document, data["model"], self.fail)
        if isinstance(data.get("rules"), list):
            defaults = data.get("defaults")
            base = self._settings(Settings(), defaults if isinstance(defaults, dict) else {}, ("defaults",))
            for index, item in enumerate(data["rules"][:_MOST_RULES]):
                path: Path = ("rules", index)
                if isinstance(item, dict):
                    self._load_rule(item, path, (*path, "assert"), base)
                else:
                    self._load_rule({"assert": item}, path, path, base)
        if not self.problems:
            self.identity = tuple((data.get("environment") or {}).get("identity", ()))
            self.pairs, self.unread = data.get("pairs"), data.get("unread")
            self.measured_under = tuple(data.get("conditions", ()))
            self.renames = data.get("renames", {})

    def fail(self, message: str, path: Path, start: int = 0, end: int | None = None) -> None:
        """Report an error at a path of the document, with the part of its value from `start` to `end`."""
        self.problems.append(problem_at(self.document, message, path, start, end))

    def _load_metrics(self, metrics: Mapping[str, Any]) -> None:
        for name, text in metrics.items():
            path: Path = ("metrics", name)
            if not isinstance(text, str):
                continue  # the schema reports it
            try:
                expression = parse_expression(text)
            except SentenceError as error:
                self.fail(error.message, path, error.start, error.end)
                continue
            for selector in selectors(expression):
                if selector.is_glob:
                    self.fail(f"{selector.pattern!r} is a glob: write the name of one metric", path)
            if is_per_run(expression):
                self.fail("a derived metric is computed step by step: write the statistic in the rule instead", path)
            self.metrics[name] = DerivedMetric(name, expression, text, self.document.location(path, key=True))
        self._check_chains()

    def _check_chains(self) -> None:
        """Report definitions that use one another in a circle, or in a chain that is too long."""
        # The derived metrics in the definition of each derived metric.
        parts: dict[str, Iterable[str]] = {
            name: dict.fromkeys(s.pattern for s in selectors(metric.expression) if s.pattern in self.metrics)
            for name, metric in self.metrics.items()
        }
        for _ in range(_MOST_CIRCLES):  # each turn reports one circle and cuts it; without circles there is an order
            try:
                order = tuple(TopologicalSorter(parts).static_order())
            except CycleError as error:
                circle = list(reversed(error.args[1]))  # each uses the next one
                shown = " → ".join(map(repr, circle[:6]))  # enough to find it
                self.fail(f"{circle[0]!r} is defined by itself: {shown}", ("metrics", circle[0]))
                parts[circle[0]] = ()
                continue
            depth: dict[str, int] = {}
            for name in order:
                depth[name] = 1 + max((depth[part] for part in parts[name]), default=0)
                if depth[name] == MAX_CHAIN + 1:
                    message = f"{name!r} is a chain of more than {MAX_CHAIN} definitions: shorten it"
                    self.fail(message, ("metrics", name))
            return

    def _load_rule(self, item: Mapping[str, Any], path: Path, sentence_path: Path, base: Settings) -> None:
        """Read one rule. `base`: the default settings. The paths are those of the mapping and of the sentence."""
        text, sentence = item.get("assert"), None
        if isinstance(text, str) and 0 < len(text) <= MAX_LENGTH:  # otherwise the schema reports it
            try:
                sentence = parse_sentence(text)
            except SentenceError as error:
                self._fail_sentence(error, text, sentence_path)
        settings = self._settings(base, item, path)
        when = item.get("when")
        conditions = self._conditions(when, path) if isinstance(when, dict) else ()
        expect_fail = self._dated(item["expect_fail"], (*path, "expect_fail")) if "expect_fail" in item else None
        quarantine = self._dated(item["quarantine"], (*path, "quarantine")) if "quarantine" in item else None
        if sentence is None:
            return
        better = item.get("better")
        # The side of a change that is an improvement, if the rule says which direction is better.
        wrong = {"higher": "upper", "lower": "lower"}.get(str(better))
        for clause in sentence.clauses:
            if isinstance(clause.asks, ChangeClause) and clause.asks.side == wrong:
                start = sentence.text.find(clause.text)
                message = f"`{clause.text}` limits an improvement, because of `better: {better}`"
                self.fail(f"{message}: limit the other side", sentence_path, start, start + len(clause.text))
        rule = Rule(
            *(sentence, self.document.location(sentence_path), settings),
            id=item.get("id"),
            why=item.get("why"),
            when=conditions,
            better=better,
            expect_fail=expect_fail,
            tags=tuple(item.get("tags") or ()),
            quarantine=quarantine,
        )
        self._check_at_worst(rule, (*path, "at_worst") if "at_worst" in item else sentence_path, own="at_worst" in item)
        self.rules.append(rule)

    def _fail_sentence(self, error: SentenceError, text: str, path: Path) -> None:
        """Report a sentence that cannot be read, and what YAML did to it."""
        place, message = self.document.values[path], error.message
        is_plain = place.rest[:1] not in "'\"|>"  # not in quotes, and no block of lines
        for number in range(place.line + 1, place.end[0] + 1) if is_plain else ():
            line = self.document.lines[number - 1]
            if line.lstrip().startswith("- "):
                message = f"YAML reads this line as part of the sentence in line {place.line}: check the indentation"
                self.problems.append(self.document.underlined(message, number, line.index("-") + 1))
                return
        if place.rest.startswith(text) and " #" in place.rest[len(text) :]:
            advice = "if it belongs to the name, wrap the sentence in single quotes"
            message = f"YAML ignores text after ` #` ({advice}): {message}"
        self.fail(proposing(message, text, self.known), path, error.start, error.end)

    def _settings(self, base: Settings, item: Mapping[str, Any], path: Path) -> Settings:
        """Return the settings written in a mapping, over those of `base`; the schema reports wrong types."""
        found = {name: item[name] for name in Settings.__struct_fields__ if name in item}
        for name, value in found.items():
            if name == "at_worst":
                found[name] = self._at_worst(value, (*path, name))
            elif name in _PERCENTAGES:
                found[name] = self._share(value, (*path, name), name)
            elif isinstance(value, float) and value.is_integer():
                found[name] = min(int(value), 1 << 53)  # a whole number written as `1e3`; floats are exact up to 2**53
        return replace(base, **found) if found else base

    def _at_worst(self, value: Any, path: Path) -> AtWorst | None:
        """Return the parts of `at_worst`, written as a tolerance: `10%`, `4 ms`, `10% and 4 ms`; None for a mistake."""
        if not isinstance(value, str):
            return None  # the schema reports it
        try:
            clauses = parse_sentence(f"x within {value} of baseline").clauses
        except SentenceError:
            clauses = ()
        clause = clauses[0].asks if len(clauses) == 1 else None
        if not isinstance(clause, ChangeClause) or clause.side != "worse":
            self.fail(f"at_worst {value!r} is not a size: write 10%, 4 ms, or 10% and 4 ms", path)
            return None
        return AtWorst(clause.relative, clause.absolute, value.strip())

    def _check_at_worst(self, rule: Rule, path: Path, *, own: bool) -> None:
        """Report an `at_worst` that is narrower than what the rule tolerates, or equal to its limit.

        Limits are only compared with an `at_worst` that the rule itself has (`own`): one from `defaults` is a size of
        changes. A share in a rule with a change is also a size of changes.
        """
        at_worst, clauses = rule.settings.at_worst, rule.sentence.clauses
        changes = [clause for clause in clauses if isinstance(clause.asks, ChangeClause)]
        with_limits = own and (not changes or (at_worst is not None and at_worst.relative is None))
        for clause in clauses if with_limits else changes:
            if at_worst is not None and is_narrower(at_worst, clause.asks):
                is_lower = isinstance(clause.asks, LimitClause) and not clause.asks.upper
                side, step = ("above", "lower") if is_lower else ("below", "raise")
                message = f"at_worst {at_worst.text} is {side} what `{clause.text}` tolerates"
                self.fail(f"{message}: {step} it, or leave it out", path)

    def _share(self, value: Any, path: Path, name: str) -> float:
        """Return a setting, a percentage or a number, as a share."""
        try:
            number = float(value.strip().removesuffix("%")) / 100 if isinstance(value, str) else float(value)
        except (TypeError, ValueError):
            return 0.95  # the schema reports it
        # The schema checks the size of a number.
        if isinstance(value, str) and name not in ("budget", "lost_time") and not 0.5 < number < 1:
            self.fail(f"{name} must be between 50% and 100%, not {value}", path)
        return number

    def _conditions(self, when: Mapping[str, Any], path: Path) -> tuple[Condition, ...]:
        found = []
        for fact, value in when.items():
            if not isinstance(value, (str, int, float)):
                continue  # the schema reports it
            try:
                found.append(parse_condition(fact, fact_text(value)))
            except ValueError as error:
                self.fail(f"{value!r} {error}", (*path, "when", fact))
        return tuple(found)

    def _dated(self, value: Any, path: Path) -> DatedReason | None:
        """Return the reason and the last day of `expect_fail` or `quarantine`; None for a mistake."""
        until = value.get("until") if isinstance(value, dict) else None
        if not isinstance(until, str) or not _DATE.fullmatch(until.strip()):
            return None  # the schema reports it
        try:
            return DatedReason(str(value.get("reason")), date.fromisoformat(until.strip()))
        except ValueError:
            self.fail(f"{until!r} is not a date: write YYYY-MM-DD", (*path, "until"))
            return None
