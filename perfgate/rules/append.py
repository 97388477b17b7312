"""Add rules to a rule file that a person wrote: text is inserted after the last rule, and nothing else changes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import Rule
from perfgate.rules.write import WrittenRule, rule_lines

_ITEM = re.compile(r"( *)- ")


def with_rules(name: str, data: bytes, added: Sequence[WrittenRule]) -> bytes | None:
    """Return a rule file with further rules after its last one; None if the file has no list of rules in lines.

    The result is read again: it has the same rules as before, and then the new ones.

    Parameters
    ----------
    name: the name of the file.
    data: a rule file without mistakes.
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
    """Return the indentation of the list of rules, and the number of lines up to its end, comments included."""
    numbers = [rule.at.line or 0 for rule in rules] or [0]
    first, last = min(numbers), max(numbers)
    if not 0 < first <= last <= len(lines):
        return None
    marks = (_ITEM.match(line) for line in reversed(lines[:first]))
    found = next((mark for mark in marks if mark), None)
    if found is None:
        return None
    indent, end = found[1], last
    for number, line in enumerate(lines[last:], last + 1):
        text = line.strip()
        depth = len(line) - len(line.lstrip(" "))
        if text and (depth < len(indent) or (depth == len(indent) and not text.startswith("#"))):
            break
        end = number if text else end
    return indent, end
