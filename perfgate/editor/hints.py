"""The explanation of the rule at a place, in the words of `perfgate rules explain`."""

from __future__ import annotations

from msgspec import Struct

from perfgate.core.resource_limits import DEFAULT
from perfgate.documents.yaml import YamlSpan, load_document
from perfgate.rules.explain import explain
from perfgate.rules.load import readable_rulesets


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
