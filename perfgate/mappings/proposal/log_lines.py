"""Propose a pattern for the lines of a log: the shape of line that occurs most often and has named numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from perfgate.mappings.proposal.fields import DraftMetric, MappingDraft, better_of, is_load
from perfgate.mappings.units import NO_UNIT, written_unit
from perfgate.readers.values import unit_of_text

#: The number of lines that are read, and the greatest length of one.
_MOST_LINES, _LONGEST = 5000, 2000
#: A pattern has at least this number of letters outside of its fields.
_LEAST_LETTERS = 3
_NUMBER = re.compile(r"(?:(?<![\w.])|(?<=rank)|(?<=Rank))[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?(?![\d.])")
#: The word before a number, and the unit behind it.
_NAME = re.compile(r"([A-Za-z][\w./-]{0,40}?)[ \t]*[\])]?[ \t]*[:=]?[ \t]*[(\[]?$")
_UNIT = re.compile(r"[ \t]?([A-Za-z%µ°$][A-Za-z%]{0,12}(?:/[A-Za-z]{1,12})?)(?![\w/])")
_STEP = re.compile(r"(?:global_?)?(?:step|iter(?:ation)?|it)", re.I)
_SKIPPED = re.compile(
    r"lr|learning_?rate|epoch|ep|seed|eta|pid|grad_?norm|wd|line|gpu|device|level|total|version", re.I
)
#: The name of a number that has a unit and no name.
_NAMES = {"s": "time", "B": "memory", "B/s": "bandwidth", "1/s": "rate", "FLOP/s": "flops", "1": "share"}


class _NumberInLine(Struct, frozen=True):
    """A number of a line: its place, its name, and its unit; the name is empty for a number of no interest."""

    start: int
    end: int
    name: str
    unit: str
    #: The beginning of its name, and the end of its unit.
    first: int
    last: int


def of_lines(lines: Sequence[str]) -> MappingDraft | None:
    """Return a mapping for a log; None if no line with a named number occurs twice."""
    shapes: Counter[str] = Counter()
    samples: dict[str, str] = {}
    for line in lines[:_MOST_LINES]:
        if len(line) <= _LONGEST and not re.search(r"[{}]", line):
            shape = _NUMBER.sub("\0", line)
            if "\0" in shape:
                shapes[shape] += 1
                samples.setdefault(shape, line)
    best: tuple[int, MappingDraft] | None = None
    for shape, count in shapes.most_common(50):
        draft = _draft(samples[shape]) if count > 1 else None
        if draft is not None and (best is None or count * len(draft.metrics) > best[0]):
            best = (count * len(draft.metrics), draft)
    return best[1] if best else None


def _draft(line: str) -> MappingDraft | None:
    numbers = _numbers(line)
    named = [one for one in numbers if one.name]
    loads = [one for one in named if one.unit == NO_UNIT and is_load(one.name) and not _STEP.fullmatch(one.name)]
    metrics = [one for one in named if not _STEP.fullmatch(one.name) and one not in loads]
    if not metrics:
        return None
    pattern, at = "", named[0].first
    for one in numbers:
        if one.start >= named[0].start and one.end <= named[-1].end:
            pattern += line[at : one.start] + (f"{{{one.name}}}" if one.name else "{}")
            at = one.end
    pattern += line[at : named[-1].last]
    if len(re.findall(r"[A-Za-z]", re.sub(r"\{[^}]*\}", "", pattern))) < _LEAST_LETTERS:
        return None  # many other lines would be like it
    step = next((one.name for one in named if _STEP.fullmatch(one.name)), "")
    found = [
        DraftMetric(one.name, one.unit, "", better_of(one.name) if one.unit == NO_UNIT else None) for one in metrics
    ]
    labels = {one.name: one.name for one in loads}
    return MappingDraft("lines", re.sub(r"[ \t]+", " ", pattern), found, labels=labels, step=step)


def _numbers(line: str) -> list[_NumberInLine]:
    found: list[_NumberInLine] = []
    taken: set[str] = set()
    last = 0
    for match in _NUMBER.finditer(line):
        start, end = match.span()
        word = _NAME.search(line[last:start])
        unit = _UNIT.match(line, end)
        written = unit[1] if unit and unit_of_text(unit[1]) else ""
        name = _name(line[last:start], word[1] if word else "", written)
        if end < len(line) and line[end].isalpha() and not written:
            name = ""  # the number is a part of a word
        while name in taken:
            name += "_2"
        taken |= {name} if name else set()
        first = last + word.start() if word and name else start
        behind = unit.end() if written and unit else end
        found.append(_NumberInLine(start, end, name, _unit(name, written), first, behind))
        last = behind
    return found


def _name(before: str, word: str, written: str) -> str:
    """Return the name of a number, from the word before it or from its unit; empty for one of no interest."""
    if before.endswith(("/", ":")) and not word:  # a total, or the minutes of a time
        return ""
    known = unit_of_text(written) if written else None
    name = word.strip("-_./") or (_NAMES.get(known[0], "value") if known else "")
    name = re.sub(r"[^\w-]", "_", name)
    return name if re.fullmatch(r"[A-Za-z_][\w-]{0,49}", name) and (written or not _SKIPPED.fullmatch(name)) else ""


def _unit(name: str, written: str) -> str:
    return written or (written_unit(name) if name else None) or NO_UNIT
