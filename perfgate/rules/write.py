"""Write rules as YAML that reads back as the same rules, whatever the names of the metrics are."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.core.wording import escaped
from perfgate.rules.load import load_rules
from perfgate.rules.syntax.cursor import SentenceError
from perfgate.rules.syntax.grammar import parse_sentence
from perfgate.rules.syntax.sentence import Selector

#: Sentences that YAML reads as plain text; every other sentence is quoted.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./+%-]*(?: [A-Za-z0-9_./%<>=+-]+)*", re.ASCII)

#: The width of comments, in characters.
_WIDTH = 114


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """A sentence with the comments above it, and proposed sentences below it as comments."""

    sentence: str
    comments: Sequence[str] = ()
    proposed: Sequence[str] = ()


def sentence_of(metric: str, rest: str) -> str | None:
    """Return the sentence with this metric and the rest, the name quoted if needed; None if no quoting works."""
    sentences = (f"{name} {rest}" for name in (metric, f'"{metric}"', f"`{metric}`"))
    return next((sentence for sentence in sentences if _names(sentence, metric)), None)


def _names(sentence: str, metric: str) -> bool:
    """Return whether a rule file with this sentence applies to this metric alone."""
    try:
        subject = parse_sentence(sentence).subject
    except SentenceError:
        return False
    if not isinstance(subject, Selector) or subject.pattern != metric or subject.is_glob or subject.labels:
        return False
    ruleset, problems = load_rules([("rules.yaml", render("default", [WrittenRule(sentence)]).encode())])
    return not problems and ruleset is not None and ruleset.rules[0].sentence.text == sentence


def render(suite: str, rules: Sequence[WrittenRule], head: Sequence[str] = ()) -> str:
    """Return a rule file: a comment at the top, then the rules, each below its own comments."""
    lines = [*_comments(head), "version: 1", f"suite: {scalar(suite)}", "", "rules:"]
    for number, rule in enumerate(rules):
        lines += [""] if number else []
        lines += [f"  {line}" for line in _comments(rule.comments)]
        lines.append(f"  - {scalar(rule.sentence)}")
        lines += [f"  # - {scalar(text)}" for text in rule.proposed]
    return "\n".join(lines) + "\n"


def _comments(texts: Sequence[str]) -> list[str]:
    """Return comment lines of a readable length; an empty text is an empty line."""
    lines = [line for text in texts for line in textwrap.wrap(_visible(text), _WIDTH, break_on_hyphens=False) or [""]]
    return [f"# {line}".rstrip() for line in lines]


def scalar(text: str) -> str:
    """Return a string as one line of YAML: plain, in single quotes, or escaped if it has invisible characters."""
    if _PLAIN.fullmatch(text):
        return text
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return '"' + _visible(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _visible(text: str) -> str:
    """Escape line breaks and invisible characters as YAML does in double quotes."""
    return "".join(char if char.isprintable() else escaped(char) for char in text)
