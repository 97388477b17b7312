"""Lines of a log that are alike: the words and the numbers in which they differ."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from perfgate.mappings.suggested_fields import is_ignored

#: A number that is no part of a word: not those of `node0`, `/v1/items` and `12:30`.
_WHOLE = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
NUMBER = re.compile(rf"(?:(?<![\w.])|(?<=[rR]ank))[-+]?(?:{_WHOLE}(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?(?![\d.])")
#: Stand for words that vary, from this character on; the first one is for words that mean nothing.
FIRST_MARK = "\ue000"
#: The most words of a line that are labels, the most values of one, and the most kinds of lines.
_MOST_WORDS, _MOST_VALUES, _MOST_KINDS = 3, 20, 50
_SIGNS = "\"'()[]{},;:=|<>"
_METHODS = {"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"}
_LEVELS = re.compile(r"(?:trace|debug|info|notice|warn(?:ing)?|error|critical|fatal)", re.IGNORECASE)
#: A name with numbers, as `BenchMatmul/128x128-8`, and not `node0`, a date, a version or an address.
_WITH_DIGITS = re.compile(r"[A-Za-z][A-Za-z_]+[/.:_-][\w./:x=-]*[A-Za-z/_x=][\w./:x=-]*")
#: A word that names the number behind it, and a word with its own name: `op=read`.
_NAMING, _OWN_NAME = re.compile(r"[A-Za-z_][\w./-]*\s?[:=]?"), re.compile(r"([A-Za-z_][\w-]{0,49})[=:](?=[^/])")


class AlikeLines(Struct, frozen=True):
    """Lines that are alike: one of them with marks for the words that vary, and the name of each mark."""

    sample: str
    names: dict[str, str]
    count: int
    #: The values of each number of the sample.
    numbers: list[list[float]]


def alike_lines(lines: Sequence[str]) -> Iterator[AlikeLines]:
    """Yield the groups of lines that are alike but for their numbers and some words, the largest ones first."""
    groups: dict[tuple[str, ...], list[list[str]]] = defaultdict(list)
    for line in lines:
        words = line.split()
        kinds = tuple(map(_kind, words))
        if any(kind not in ("word", "digits") for kind in kinds):
            naming = (word for word, kind in zip(words, _next(kinds), strict=True) if kind and _NAMING.fullmatch(word))
            groups[kinds + tuple(naming)].append(words)
    for key, found in sorted(groups.items(), key=lambda one: -len(one[1]))[:_MOST_KINDS]:
        yield _alike(found, key[: len(found[0])])


def _kind(word: str) -> str:
    """Return the shape of a word with one number; others are `word`, or `digits` for dates and several numbers."""
    shape = NUMBER.sub("\0", word)
    is_date = sum(char in ":-/" for char in word) > 1 and "\0" in re.sub(r"\d+", "\0", word)
    if (shape.count("\0") == 1 or "\0/\0" in shape) and not is_date:  # `10/100`
        return shape
    return "digits" if "\0" in shape or word[:1].isdigit() else "word"


def _next(kinds: Sequence[str]) -> list[bool]:
    """Return of each word whether it is a word, and a number is behind it."""
    behind = [kind not in ("word", "digits") for kind in kinds[1:]]
    return [kind == "word" and is_number for kind, is_number in zip(kinds, [*behind, False], strict=True)]


def _alike(found: Sequence[Sequence[str]], kinds: Sequence[str]) -> AlikeLines:
    marks, words, numbers = {FIRST_MARK: ""}, list[str](), list[list[float]]()
    for place, (word, kind) in enumerate(zip(found[0], kinds, strict=True)):
        column = [line[place] for line in found]
        if kind not in ("word", "digits"):
            of_lines = zip(*map(NUMBER.findall, column), strict=False)
            numbers += [[float(text.replace(",", "")) for text in one] for one in of_lines]
            words.append(word)
            continue
        varies = kind == "digits" or len({*column}) > 1
        is_name = kind == "word" or all(map(_WITH_DIGITS.fullmatch, column))
        before, name = _named([one.strip(_SIGNS) for one in column]) if varies else ("", "")
        mark = FIRST_MARK
        if name and is_name and len({*column}) <= _MOST_VALUES and len(marks) <= _MOST_WORDS:
            mark = chr(ord(FIRST_MARK) + len(marks))
            same = sum(known.startswith(name) for known in marks.values())
            marks[mark] = name + (f"_{same + 1}" if same else "")
        core = word.strip(_SIGNS).removeprefix(before)
        words.append(word.replace(core, mark, 1) if varies and core else word)
    return AlikeLines(" ".join(words), marks, len(found), numbers)


def _named(values: Sequence[str]) -> tuple[str, str]:
    """Return what all values begin with, and the name of a label with them; empty if they say nothing."""
    own = _OWN_NAME.match(values[0])
    if own and all(value.startswith(own[0]) for value in values):
        return own[0], "" if is_ignored(own[1]) else own[1]
    if all(map(_LEVELS.fullmatch, values)) or is_ignored(values[0].rstrip("0123456789-")):
        return "", ""
    if _METHODS.issuperset(values):
        return "", "method"
    return "", "path" if all(value.startswith("/") for value in values) else "name"
