"""The problems of a rule file as marks in its text, and the explanation of the rule at a place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath

from msgspec import Struct

from perfgate.core import Problem, Severity
from perfgate.core.resource_limits import DEFAULT
from perfgate.core.wording import MAPPING_FILE
from perfgate.documents.yaml import YamlSpan, load_document
from perfgate.mappings.document import load_mappings
from perfgate.rules.explain import explain
from perfgate.rules.load import check_rules, readable_rulesets
from perfgate.rules.stored_names import absent_metrics

#: Metrics of the stored runs of each suite: their names and base units.
StoredMetrics = Mapping[str, Mapping[str, str]]

_KEY = re.compile(r"^([A-Za-z_]\w*):", re.MULTILINE)
_FIELDS = frozenset({"version", "suite", "environment", "pairs", "defaults", "metrics", "rules"})


class Mark(Struct, frozen=True):
    """A problem of the text, in one line from `start` to before `end`."""

    line: int
    start: int
    end: int
    severity: Severity
    message: str


def is_mapping_file(path: str, text: str) -> bool:
    """Return whether a file has mappings: by its name, unless it has rules."""
    return PurePath(path).name == MAPPING_FILE and "rules" not in _KEY.findall(text)


def is_rule_file(path: str, text: str) -> bool:
    """Return whether a YAML text is a rule file: by its fields, or because it is in a folder `rules`."""
    if is_mapping_file(path, text):
        return False
    keys = set(_KEY.findall(text))
    return {"version", "rules"} <= keys or (PurePath(path).parent.name == "rules" and keys <= _FIELDS)


def marks(name: str, text: str, stored: StoredMetrics | None = None) -> list[Mark]:
    """Return the problems of a rule file, or of a file with mappings.

    Parameters:
        name: the file, as messages name it.
        text: its text, which may be half written.
        stored: the metrics of the stored runs; a rule without any of them gets a warning.
    """
    files = [(name, text.encode("utf-8", "replace"))]
    lines = text.splitlines()
    if is_mapping_file(name, text):
        return [_mark(problem, lines) for problem in load_mappings(files)[1]]
    known = {metric for metrics in (stored or {}).values() for metric in metrics}
    _, problems = check_rules(files, metrics=known)
    for ruleset in readable_rulesets(files) if stored else ():
        problems += absent_metrics(ruleset, stored.get(ruleset.suite, {}) if stored else {})
    return [_mark(problem, lines) for problem in problems]


def _mark(problem: Problem, lines: list[str]) -> Mark:
    line = min((problem.at.line or 1), len(lines)) - 1
    if line < 0:
        return Mark(0, 0, 1, problem.severity, problem.message)
    length = len(lines[line])
    is_behind = (problem.at.line or 1) > len(lines)  # YAML misses something at the end of the file
    start = max(length - 1, 0) if is_behind else min((problem.at.column or 1) - 1, length)
    # The excerpt underlines the wrong word; without one, the mark is the rest of the line.
    width = problem.excerpt.splitlines()[-1].count("^") if problem.excerpt else length - start
    return Mark(line, start, start + max(width, 1), problem.severity, problem.message)


class Hint(Struct, frozen=True):
    """A text about the part of a line from `start` to before `end`."""

    text: str
    line: int
    start: int
    end: int


def hint(name: str, text: str, line: int, column: int) -> Hint | None:
    """Return the explanation of the rule at a place; None if the sentence is wrong."""
    document = load_document(name, text.encode("utf-8", "replace"), DEFAULT)
    for ruleset in readable_rulesets([(name, text.encode("utf-8", "replace"))]):
        for rule in ruleset.rules:
            spans = [
                span for span in document.values.values() if (span.line, span.column) == (rule.at.line, rule.at.column)
            ]
            if any(_includes(span, line, column) for span in spans):
                own = document.lines[line]
                start = spans[0].column - 1 if line == spans[0].line - 1 else len(own) - len(own.lstrip())
                return Hint(explain(rule, ruleset), line, start, max(len(own.rstrip()), start + 1))
    return None


def _includes(span: YamlSpan, line: int, column: int) -> bool:
    end_line, end_column = span.end
    return (span.line - 1, span.column - 1) <= (line, column) <= (end_line - 1, end_column)
