"""Write rules as YAML that reads back as the same rules, and add rules to a file that a person wrote."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from msgspec import Struct

from perfgate.core.wording import escaped
from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import Rule
from perfgate.rules.syntax.cursor import SentenceError
from perfgate.rules.syntax.grammar import parse_sentence
from perfgate.rules.syntax.sentence import selectors

#: Sentences that YAML reads as plain text; every other sentence is quoted.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./+%-]*(?: [A-Za-z0-9_./%<>=+-]+)*", re.ASCII)
#: Plain words that YAML does not read as text.
_NOT_TEXT = {"true", "false", "null"}
#: The width of comments, in characters.
_WIDTH = 114
_ITEM = re.compile(r"( *)- ")


class WrittenRule(Struct, frozen=True):
    """A sentence with the comments above it, and proposed sentences below it as comments."""

    sentence: str
    comments: Sequence[str] = ()
    proposed: Sequence[str] = ()
    #: The lines of its settings, such as `severity: warning`.
    settings: Sequence[str] = ()


def sentence_of(metric: str, rest: str, labels: str = "") -> str | None:
    """Return the sentence with this metric, labels (`{method="GET"}`) and the rest; None if no quoting works."""
    sentences = (f"{name}{labels} {rest}" for name in _quotings(metric))
    return next((text for text in sentences if _names(text, (metric,), labels)), None)


def sum_per_step(metric: str, step: str, rest: str) -> str | None:
    """Return the sentence about the sum of a metric divided by the number of steps; None if no quoting works."""
    sentences = (f"total({name}) / count({step}) {rest}" for name in _quotings(metric))
    return next((text for text in sentences if _names(text, (metric, step))), None)


def _quotings(metric: str) -> tuple[str, ...]:
    return metric, f'"{metric}"', f"`{metric}`"


def _names(sentence: str, metrics: Sequence[str], labels: str = "") -> bool:
    """Return whether a rule file with this sentence reads these metrics and no others, with these labels."""
    try:
        found = selectors(parse_sentence(sentence).subject)
    except SentenceError:
        return False
    is_wrong = any(one.is_glob or bool(one.labels) != bool(labels) for one in found)
    if is_wrong or [one.pattern for one in found] != list(metrics):
        return False
    ruleset, problems = load_rules([("rules.yaml", render("default", [WrittenRule(sentence)]).encode())])
    return not problems and ruleset is not None and ruleset.rules[0].sentence.text == sentence


def render(suite: str, rules: Sequence[WrittenRule], head: Sequence[str] = ()) -> str:
    """Return a rule file: a comment at the top, then the rules, each below its own comments."""
    lines = [*comments(head), "version: 1", f"suite: {scalar(suite)}", "", "rules:"]
    for number, rule in enumerate(rules):
        lines += [""] if number else []
        lines += [f"  {line}" for line in rule_lines(rule)]
    return "\n".join(lines) + "\n"


def rule_lines(rule: WrittenRule) -> list[str]:
    """Return the lines of a rule, not indented: its comments, sentence and settings, then proposals as comments."""
    proposed = [f"# - {scalar(text)}" for text in rule.proposed]
    sentence = f"- {'assert: ' if rule.settings else ''}{scalar(rule.sentence)}"
    return [*comments(rule.comments), sentence, *(f"  {line}" for line in rule.settings), *proposed]


def comments(texts: Sequence[str]) -> list[str]:
    """Return comment lines of a readable length; an empty text is an empty comment."""
    lines = [line for text in texts for line in textwrap.wrap(visible(text), _WIDTH, break_on_hyphens=False) or [""]]
    return [f"# {line}".rstrip() for line in lines]


def scalar(text: str) -> str:
    """Return a string as one line of YAML: plain, in single quotes, or escaped if it has invisible characters."""
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT:
        return text
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return '"' + visible(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def visible(text: str) -> str:
    """Escape line breaks and invisible characters as YAML does in double quotes."""
    return "".join(char if char.isprintable() else escaped(char) for char in text)


def with_rules(name: str, data: bytes, added: Sequence[WrittenRule]) -> bytes | None:
    """Return a rule file with further rules after its last one; None if the file has no list of rules in lines.

    Nothing else changes. The result is read again: it has the same rules as before, and then the new ones.

    `name`: the name of the file. `data`: a rule file without mistakes.
    """
    before = _rules(name, data)
    try:
        lines = data.decode("utf-8").splitlines(keepends=True)
    except UnicodeDecodeError:
        return None
    place = _end_of_rules(lines, before)
    if place is None:
        return None
    indent, at = place
    end = "\r\n" if lines[0].endswith("\r\n") else "\n"
    if not lines[at - 1].endswith(("\n", "\r")):
        lines[at - 1] += end
    new = [end if not line else f"{indent}{line}{end}" for rule in added for line in ("", *rule_lines(rule))]
    changed = "".join([*lines[:at], *new, *lines[at:]]).encode()
    wanted = [rule.sentence.text for rule in before] + [rule.sentence for rule in added]
    return changed if [rule.sentence.text for rule in _rules(name, changed)] == wanted else None


def _rules(name: str, data: bytes) -> tuple[Rule, ...]:
    ruleset, _ = load_rules([(name, data)])
    return () if ruleset is None else ruleset.rules


def _end_of_rules(lines: Sequence[str], rules: Sequence[Rule]) -> tuple[str, int] | None:
    """Return the indentation of the list of rules, and the number of lines up to its end, comments included.

    None if the rules are not items on lines of their own.
    """
    numbers = [rule.at.line or 0 for rule in rules] or [0]
    first, last = min(numbers), max(numbers)
    if not 0 < first <= last <= len(lines):
        return None
    # The place of a rule is that of its sentence: its `- ` may be in a line above, as in `- id: x`.
    marks = (_ITEM.match(line) for line in reversed(lines[:first]))
    found = next((mark for mark in marks if mark), None)
    if found is None:
        return None
    indent, end = found[1], last  # less indentation ends the list; so does equal indentation, except for a comment
    for number, line in enumerate(lines[last:], last + 1):
        text = line.strip()
        depth = len(line) - len(line.lstrip(" "))
        if text and (depth < len(indent) or (depth == len(indent) and not text.startswith("#"))):
            break
        end = number if text else end
    return indent, end
