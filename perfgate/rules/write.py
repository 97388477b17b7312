"""Sentences as YAML: what `perfgate init` writes reads back as the rule that was meant, whatever a metric is called."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.rules.load import load_rules
from perfgate.rules.syntax.cursor import SentenceError
from perfgate.rules.syntax.grammar import parse_sentence
from perfgate.rules.syntax.sentence import Selector, Sentence

#: Sentences that mean the same to YAML and to a person; every other one is quoted.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./+%-]*(?: [A-Za-z0-9_./%<>=+-]+)*", re.ASCII)

#: Of comments, in characters.
_WIDTH = 114


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """A sentence with the comments above it, and sentences below it that are only proposed."""

    sentence: str
    comments: Sequence[str] = ()
    proposed: Sequence[str] = ()


def sentence_of(metric: str, rest: str) -> str | None:
    """The sentence that says `rest` of one metric, its name quoted where it must be; None where nothing can name it."""
    for name in (metric, f'"{metric}"', f"`{metric}`"):
        sentence = f"{name} {rest}"
        if _names(sentence, metric):
            return sentence
    return None


def _names(sentence: str, metric: str) -> bool:
    """Whether a rule file with this sentence speaks of this metric alone."""
    try:
        if not _is_of(parse_sentence(sentence), metric):
            return False
    except SentenceError:
        return False
    ruleset, problems = load_rules([("rules.yaml", render("default", [WrittenRule(sentence)]).encode())])
    return not problems and ruleset is not None and ruleset.rules[0].sentence.text == sentence


def _is_of(sentence: Sentence, metric: str) -> bool:
    subject = sentence.subject
    return isinstance(subject, Selector) and subject.pattern == metric and not subject.is_glob and not subject.labels


def render(suite: str, rules: Sequence[WrittenRule], head: Sequence[str] = ()) -> str:
    """A rule file: a comment at its head, then the rules, each below what is to be said of it."""
    lines = [*_comments(head), "version: 1", f"suite: {scalar(suite)}", "", "rules:"]
    for number, rule in enumerate(rules):
        lines += [""] if number else []
        lines += [f"  {line}" for line in _comments(rule.comments)]
        lines.append(f"  - {scalar(rule.sentence)}")
        lines += [f"  # - {scalar(text)}" for text in rule.proposed]
    return "\n".join(lines) + "\n"


def _comments(texts: Sequence[str]) -> list[str]:
    """Comment lines of a readable length, whatever names they hold; an empty text is an empty line."""
    lines = [line for text in texts for line in textwrap.wrap(_visible(text), _WIDTH, break_on_hyphens=False) or [""]]
    return [f"# {line}".rstrip() for line in lines]


def scalar(text: str) -> str:
    """A string as one line of YAML: as it is, in single quotes, or escaped where it holds what cannot be seen."""
    if _PLAIN.fullmatch(text):
        return text
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return '"' + _visible(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _visible(text: str) -> str:
    """Everything that ends a line or cannot be seen, as YAML escapes it in double quotes."""
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"
