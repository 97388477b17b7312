"""Patterns of log lines: words as they are printed, with fields in braces: `step {step} | loss {loss} | {ms} ms`.

A pattern may begin and end anywhere in a line. A field is one word: letters, digits and signs without blanks, up to the
words behind it. `{}` skips a word. One blank matches any blanks.

It is not a regular expression, so that it can be read, and so that no pattern takes long: from each place where the
first words occur, `searched` goes through the line once, and never back. A pattern that begins with a word becomes a
regular expression that finds the same faster (`compiled`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from perfgate.core.file_mappings import LinePattern
from perfgate.mappings.paths import BRACES, PathError

#: The longest part of a line that is searched, and how many places of the first words are tried.
LONGEST_LINE = 1 << 16
_MOST_STARTS = 100
_NAME = re.compile(r"[A-Za-z_][\w-]{0,49}")
#: The characters of a field, at most 200; a comma belongs to it if a digit follows, so that 1,234 is never read as 1.
_WORD_SIGN = r"[^\s,;|()\[\]{}\"']|,(?=\d)"
_WORD = re.compile(rf"(?:{_WORD_SIGN}){{1,200}}")
#: Not between two letters or digits of one word.
_NOT_INSIDE = r"(?!(?<=\w)\w)"
_BLANKS = re.compile(r"[ \t]+")


class LineMatch(Struct, frozen=True):
    """The fields of a line by name, and where the match ends."""

    fields: dict[str, str]
    end: int
    #: The names of all fields of the pattern; that of `{}` is empty.
    names: tuple[str, ...]
    #: Where each field begins in the line, from 0; or the match, which has a group for each.
    starts: Sequence[int] | re.Match[str]

    def column(self, name: str) -> int | None:
        """Return the column of a field, from 1; None for another name."""
        if name not in self.fields:
            return None
        at = self.names.index(name)
        return 1 + (self.starts.start(at + 1) if isinstance(self.starts, re.Match) else self.starts[at])


def parse_pattern(text: str) -> LinePattern:
    """Return a pattern. Raises PathError."""
    words: list[str] = []
    names: list[str] = []
    at = 0
    for found in BRACES.finditer(text):
        name = found[1].strip()
        if name and not _NAME.fullmatch(name):
            raise PathError("the name of a field has letters, digits, _ and -", found.start(1), found.end(1))
        if name and name in names:
            raise PathError(f"the field {name!r} occurs twice", found.start(), found.end())
        before = text[at : found.start()]
        if names and not before:
            raise PathError("write something between two fields: otherwise their end is unknown", *found.span())
        words.append(before)
        names.append(name)
        at = found.end()
    words.append(text[at:])
    if brace := re.search(r"[{}]", "".join(words)):
        raise PathError("this brace has no partner", text.find(brace[0]), text.find(brace[0]) + 1)
    if not any(names):
        raise PathError("a pattern has at least one field: `loss {loss}`", 0, len(text))
    if not any(word.strip() for word in words):
        raise PathError("a pattern needs words that only the wanted lines have", 0, len(text))
    collapsed = [_BLANKS.sub(" ", word) for word in words]
    return LinePattern(text, (collapsed[0].lstrip(), *collapsed[1:-1], collapsed[-1].rstrip()), tuple(names))


def mark_of(pattern: LinePattern) -> str:
    """Return the longest word that every line with a match contains."""
    return max((word for part in pattern.words for word in part.split()), key=len)


def matches(pattern: LinePattern, line: str) -> Iterator[LineMatch]:
    """Yield each match in a line, from left to right."""
    line = line[:LONGEST_LINE]
    expression = compiled(pattern)
    first = pattern.words[0].split(" ")[0]
    # `searched` tries only _MOST_STARTS places, so with more of them it decides. `count` finds only one of up to
    # len(first) places that overlap.
    if expression is None or line.count(first) * len(first) > _MOST_STARTS:
        yield from searched(pattern, line)
        return
    for match in expression.finditer(line):
        fields = dict(zip(pattern.names, match.groups(), strict=True))
        fields.pop("", None)
        yield LineMatch(fields, match.end(), pattern.names, match)


@lru_cache(maxsize=256)
def compiled(pattern: LinePattern) -> re.Pattern[str] | None:
    r"""Return the expression that finds what `searched` finds, with a group for each field.

    None if the pattern begins with a field. A lookahead is never tried a second time, so in `(?=(...))\1` the field
    ends for good where it can end first, and the expression takes one pass, too.
    """
    before, *others = (r"[ \t]+".join(map(re.escape, words.split(" "))) for words in pattern.words)
    if not before:
        return None
    parts = [_NOT_INSIDE, before]
    for number, (behind, rest) in enumerate(zip(pattern.words[1:], others, strict=True), 1):
        field = f"(?:{_WORD_SIGN}){{1,200}}"
        # A field before a blank ends with its word, any other where the words behind it begin.
        ends_inside = behind and not behind.startswith(" ")
        parts += [f"(?=({field}?){rest})\\{number}" if ends_inside else f"({field})", rest]
    return re.compile("".join(parts) + (_NOT_INSIDE if others[-1] else ""))


def searched(pattern: LinePattern, line: str) -> Iterator[LineMatch]:
    """Yield each match in a line, from left to right, by trying one place of the first word after the other."""
    place = 0
    for _ in range(_MOST_STARTS):
        start = _next_start(pattern, line, place)
        if start < 0:
            return
        match = _match(pattern, line, start)
        if match is None:
            place = start + 1
        else:
            yield match
            place = match.end


def _next_start(pattern: LinePattern, line: str, place: int) -> int:
    """Return the next place at which a pattern can begin; -1 if there is none."""
    if not pattern.words[0]:  # it begins with a field, which begins with a word
        word = _WORD.search(line, place)
        return word.start() if word else -1
    first = pattern.words[0].split(" ")[0]
    start = line.find(first, place)
    while start > 0 and _is_inside_word(line, start):
        start = line.find(first, start + 1)
    return start


def _is_inside_word(line: str, place: int) -> bool:
    """Return whether the characters before and at a place are letters or digits of one word."""
    return 0 < place < len(line) and all(one.isalnum() or one == "_" for one in line[place - 1 : place + 1])


def _match(pattern: LinePattern, line: str, start: int) -> LineMatch | None:
    """Return the match that begins at a place; None if there is none."""
    fields: dict[str, str] = {}
    starts: list[int] = []
    place = _after(pattern.words[0], line, start)
    for name, behind in zip(pattern.names, pattern.words[1:], strict=True):
        word = _WORD.match(line, place) if place is not None else None
        end = _field_end(word, behind) if word else -1
        if word is None or end < 0:
            return None
        starts.append(word.start())
        if name:
            fields[name] = line[word.start() : end]
        place = _after(behind, line, end)
    if place is None or (pattern.words[-1] and _is_inside_word(line, place)):
        return None
    return LineMatch(fields, place, pattern.names, starts)


def _field_end(word: re.Match[str], behind: str) -> int:
    """Return the end of the field that begins with a word; -1 if the words `behind` the field do not follow."""
    if not behind or behind.startswith(" "):
        return word.end()
    line = word.string
    end = line.find(behind[0], word.start() + 1, word.end() + 1)
    while end >= 0 and _after(behind, line, end) is None:
        end = line.find(behind[0], end + 1, word.end() + 1)
    return end


def _after(words: str, line: str, at: int) -> int | None:
    """Return the place behind `words` if they begin at `at`, else None; one blank of the words matches any blanks."""
    for number, word in enumerate(words.split(" ")):
        if number:
            blanks = _BLANKS.match(line, at)
            if blanks is None:
                return None
            at = blanks.end()
        if not line.startswith(word, at):
            return None
        at += len(word)
    return at
