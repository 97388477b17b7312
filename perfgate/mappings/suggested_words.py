"""Lines that differ in a few words, such as `GET /users 200 12.3 ms`: the words that vary are labels of one metric."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

#: Stand for words that vary, from this character on; the first one is for words that mean nothing.
FIRST_MARK = "\ue000"
#: The most words that vary, and the most values of one.
_MOST_WORDS, _MOST_VALUES = 3, 20
_SIGNS = "\"'()[]{},;:=|<>"
_METHODS = {"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"}
_LEVELS = re.compile(r"(?:trace|debug|info|notice|warn(?:ing)?|error|critical|fatal)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
#: A word that names the number behind it.
_NAMING = re.compile(r"[A-Za-z_][\w.-]*\s?[:=]?")


class VariedLines(Struct, frozen=True):
    """Lines that are alike but for some words: one of them with marks for these words, and the name of each mark."""

    sample: str
    names: dict[str, str]
    count: int


def varied_lines(lines: Sequence[str]) -> Iterator[VariedLines]:
    """Yield the groups of lines that are alike but for a few words, each with two kinds of lines or more."""
    groups: dict[tuple[str, ...], list[list[str]]] = defaultdict(list)
    for line in lines:
        words = line.split()
        kinds = tuple(_kind(word) for word in words)
        if any(kind not in ("word", "digits") for kind in kinds):
            groups[kinds].append(words)
    for kinds, found in groups.items():
        columns = [[word.strip(_SIGNS) for word in column] for column in zip(*found, strict=True)]
        varied = [place for place, kind in enumerate(kinds) if kind == "word" and len({*columns[place]}) > 1]
        names = [_NAMING.fullmatch(found[0][place]) and _is_number(kinds, place + 1) for place in varied]
        few = all(len({*columns[place]}) <= _MOST_VALUES for place in varied)
        if varied and few and len(varied) <= _MOST_WORDS and not any(names):
            yield _marked(found, kinds, {place: _name(columns[place]) for place in varied})


def _kind(word: str) -> str:
    """Return the shape of a word with one number; others are `word`, or `digits` if there are digits."""
    shape = _NUMBER.sub("\0", word)
    return "word" if "\0" not in shape else shape if shape.count("\0") == 1 else "digits"


def _is_number(kinds: Sequence[str], place: int) -> bool:
    return place < len(kinds) and kinds[place] not in ("word", "digits")


def _name(values: Sequence[str]) -> str:
    """Return the name of a label with these values; empty if they are levels of a log."""
    if all(map(_LEVELS.fullmatch, values)):
        return ""
    if _METHODS.issuperset(values):
        return "method"
    return "path" if all(value.startswith("/") for value in values) else "name"


def _marked(found: Sequence[Sequence[str]], kinds: Sequence[str], names: dict[int, str]) -> VariedLines:
    """Return the first line with marks in place of the words that vary, and of those with several numbers."""
    marks: dict[str, str] = {FIRST_MARK: ""}
    words = []
    for place, (word, kind) in enumerate(zip(found[0], kinds, strict=True)):
        core = word.strip(_SIGNS)
        mark = FIRST_MARK if kind == "digits" or names.get(place) == "" else ""
        if names.get(place):
            mark = chr(ord(FIRST_MARK) + len(marks))
            same = sum(name.startswith(names[place]) for name in marks.values())
            marks[mark] = names[place] + (f"_{same + 1}" if same else "")
        words.append(word.replace(core, mark, 1) if mark else word)
    return VariedLines(" ".join(words), marks, len(found))
