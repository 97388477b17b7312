"""Propose mappings for logs: find lines that are alike, the words and numbers in which they differ, and their names.

`bert took 12.5 ms` and `gpt took 13.1 ms` have the same shapes of words. `_alike` joins them to a sample, one line with
a mark for the word that varies: `■ took 12.5 ms`. `_of_alike` makes the pattern `{name} took {took} ms` of it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from perfgate.mappings.suggested_fields import DraftMetric, MappingDraft, better_of, is_count, is_ignored, is_load
from perfgate.mappings.units import NO_UNIT, written_unit
from perfgate.readers.values import unit_of_text

#: The number of lines that are read, and the greatest length of one.
_MOST_LINES, _LONGEST = 5000, 2000
#: A number that is not a part of a word, as in `node0`, `/v1/items` and `12:30`.
_WHOLE = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
_NUMBER = re.compile(rf"(?:(?<![\w.])|(?<=[rR]ank))[-+]?(?:{_WHOLE}(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?(?![\d.])")
#: Marks are characters from this one on, in place of words that vary. The first is for words that are no labels.
_FIRST_MARK = "\ue000"
#: The most words of a line that are labels, the most values of one, and the most kinds of lines.
_MOST_WORDS, _MOST_VALUES, _MOST_KINDS = 3, 20, 50
_SIGNS = "\"'()[]{},;:=|<>"
_METHODS = {"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"}
_LEVELS = re.compile(r"(?:trace|debug|info|notice|warn(?:ing)?|error|critical|fatal)", re.IGNORECASE)
#: A name with numbers, as `BenchMatmul/128x128-8`, and not `node0`, a date, a version or an address.
_WITH_DIGITS = re.compile(r"[A-Za-z][A-Za-z_]+[/.:_-][\w./:x=-]*[A-Za-z/_x=][\w./:x=-]*")
#: A word that names the number behind it, and a word with its own name: `op=read`.
_NAMING, _OWN_NAME = re.compile(r"[A-Za-z_][\w./-]*\s?[:=]?"), re.compile(r"([A-Za-z_][\w-]{0,49})[=:](?=[^/])")
#: The least number of letters of a pattern outside of its fields, and the most patterns that are joined to the first.
_LEAST_LETTERS, _MOST_PATTERNS = 3, 8
#: A line with one word that may say what the lines below it are about.
_HEADING = re.compile(r"([^\w\s\d]{1,20} ?|[A-Za-z]{1,30}: ?)([A-Za-z][\w./-]{0,60})([^\w\s\d]?| ?[^\w\s\d]{2,20}|)")
#: The word before a number, and the unit behind it.
_NAME = re.compile(r"([A-Za-z][\w./-]{0,40}?)[ \t]*[\])]?[ \t]*[:=]?[ \t]*[(\[]?$")
_UNIT = re.compile(r"[ \t]?([A-Za-z%µ°$][A-Za-z%]{0,12}(?:/[A-Za-z]{1,12})?)(?![\w/])")
#: From this number of lines on, a number that counts them is a step.
_COUNTED = 8
#: Words before a number that are not its name, names of steps, and names of numbers that are not measured.
_NO_NAME = re.compile(r"in|at|of|for|after|is|was|to|by|with|and", re.I)
_STEP = re.compile(r"(?:global_?)?(?:step|iter(?:ation)?|it)", re.I)
_SKIPPED = re.compile(
    r"lr|learning_?rate|epoch|ep|seed|eta|pid|grad_?norm|wd|line|gpu|device|level|total|version", re.I
)
#: The name of a number that has a unit and no name.
_NAMES = {"s": "time", "B": "memory", "B/s": "bandwidth", "1/s": "rate", "FLOP/s": "flops", "1": "share"}


class _AlikeLines(Struct, frozen=True):
    """Lines that are alike: one of them with marks for the words that vary, and the name of each mark."""

    sample: str
    names: dict[str, str]
    #: The number of lines.
    count: int
    #: The values of each number of the sample.
    numbers: list[list[float]]


class _NumberInLine(Struct, frozen=True):
    """A number of a line: its place, its name, its unit and its kind; name and kind are empty if it is of no interest.

    A kind is `metric`, `label` or `step`.
    """

    start: int
    end: int
    name: str
    unit: str
    kind: str
    #: The beginning of its name, and the end of its unit.
    first: int
    last: int


def of_lines(lines: Sequence[str]) -> MappingDraft | None:
    """Return a mapping for a log; None if no line seems to have measurements."""
    lines = [line for line in lines[:_MOST_LINES] if len(line) <= _LONGEST and not re.search(r"[{}]", line)]
    found = [(group.count, draft) for group in _alike_lines(lines) if (draft := _of_alike(group))]
    telling = [  # lines that occur again, or whose numbers all have units, are probably about measurements
        (count * len(draft.metrics), draft)
        for count, draft in found
        if count > 1 or all(metric.unit != NO_UNIT for metric in draft.metrics)
    ]
    drafts = [draft for _, draft in sorted(telling, key=lambda one: -one[0])]
    return _below_headings(_joined(drafts), lines) if drafts else None


def _below_headings(draft: MappingDraft, lines: Sequence[str]) -> MappingDraft:
    """Return a draft with the pattern of the headings above its lines: `=== bert ===`, `Model: bert`."""
    headings: dict[tuple[str, str], set[str]] = {}
    for found in map(_HEADING.fullmatch, lines):
        if found and not _NUMBER.search(found[0]):
            headings.setdefault((found[1], found[3]), set()).add(found[2])
    (before, after), values = max(headings.items(), key=lambda one: len(one[1]), default=(("", ""), set[str]()))
    if len(values) < 2:
        return draft
    name = re.sub(r"\W", "", before).lower() or "section"
    pattern = f"{before}{{{name}}}{after}"
    return replace(draft, source=pattern, more=(draft.source, *draft.more), labels={name: name, **draft.labels})


def _joined(drafts: Sequence[MappingDraft]) -> MappingDraft:
    """Return the first draft with the patterns of others that have other metrics."""
    joined = drafts[0]
    for one in drafts[1:]:
        names = {metric.name for metric in joined.metrics}
        others = [metric for metric in one.metrics if metric.name != joined.step]
        is_new = names.isdisjoint(metric.name for metric in others) and one.step in ("", joined.step)
        if is_new and len(joined.more) < _MOST_PATTERNS:
            metrics = [replace(metric, is_optional=True) for metric in (*joined.metrics, *others)]
            labels = {**joined.labels, **one.labels}
            more, skipped = (*joined.more, one.source), joined.skipped + one.skipped
            joined = replace(joined, metrics=metrics, labels=labels, more=more, skipped=skipped)
    return joined


def _alike_lines(lines: Sequence[str]) -> Iterator[_AlikeLines]:
    """Yield the groups of lines that are alike but for their numbers and some words, the largest ones first."""
    groups: dict[tuple[str, ...], list[list[str]]] = defaultdict(list)
    for line in lines:
        words = line.split()
        shapes = tuple(map(_shape, words))
        if any(shape not in ("word", "digits") for shape in shapes):
            # Lines are alike if their words have the same shapes, and the same words are before their numbers.
            before = zip(words, shapes, shapes[1:], strict=False)
            naming = (one for one, own, behind in before if own == "word" and behind not in ("word", "digits"))
            groups[shapes + tuple(filter(_NAMING.fullmatch, naming))].append(words)
    for key, found in sorted(groups.items(), key=lambda one: -len(one[1]))[:_MOST_KINDS]:
        yield _alike(found, key[: len(found[0])])  # the key begins with a shape for each word


def _shape(word: str) -> str:
    """Return a word with a NUL in place of its number; `word` without one, `digits` for dates and several numbers."""
    shape = _NUMBER.sub("\0", word)
    # Digits, and two of the signs of a date or a time.
    is_date = sum(char in ":-/" for char in word) > 1 and "\0" in re.sub(r"\d+", "\0", word)
    if (shape.count("\0") == 1 or "\0/\0" in shape) and not is_date:  # `10/100`
        return shape
    return "digits" if "\0" in shape or word[:1].isdigit() else "word"


def _alike(found: Sequence[Sequence[str]], shapes: Sequence[str]) -> _AlikeLines:
    """Join lines that are alike. `found`: the words of each line. `shapes`: the shape of each word."""
    marks, words, numbers = {_FIRST_MARK: ""}, list[str](), list[list[float]]()
    for place, shape in enumerate(shapes):
        column = [line[place] for line in found]
        if shape in ("word", "digits"):
            words.append(_marked(column, shape, marks))
            continue
        words.append(column[0])
        by_number = zip(*map(_NUMBER.findall, column), strict=False)
        numbers += [[float(text.replace(",", "")) for text in texts] for texts in by_number]
    return _AlikeLines(" ".join(words), marks, len(found), numbers)


def _marked(column: Sequence[str], shape: str, marks: dict[str, str]) -> str:
    """Return a word of alike lines, with a mark for the part that varies; `marks` gets its name if it is a label."""
    word, count = column[0], len({*column})
    if shape == "word" and count == 1:
        return word
    before, name = _named([one.strip(_SIGNS) for one in column])
    is_name = shape == "word" or all(map(_WITH_DIGITS.fullmatch, column))
    mark = _FIRST_MARK
    if name and is_name and count <= _MOST_VALUES and len(marks) <= _MOST_WORDS:  # the first mark is not a label
        mark = chr(ord(_FIRST_MARK) + len(marks))
        same = [known for known in marks.values() if known.startswith(name)]
        marks[mark] = f"{name}_{len(same) + 1}" if same else name
    core = word.strip(_SIGNS).removeprefix(before)
    return word.replace(core, mark, 1) if core else word


def _named(values: Sequence[str]) -> tuple[str, str]:
    """Return what all values begin with, and the name of a label with them. The name is empty if they say nothing."""
    own = _OWN_NAME.match(values[0])
    if own and all(value.startswith(own[0]) for value in values):
        return own[0], "" if is_ignored(own[1]) else own[1]
    if all(map(_LEVELS.fullmatch, values)) or is_ignored(values[0].rstrip("0123456789-")):
        return "", ""
    if _METHODS.issuperset(values):
        return "", "method"
    return "", "path" if all(value.startswith("/") for value in values) else "name"


def _of_alike(lines: _AlikeLines) -> MappingDraft | None:
    """Return a mapping for lines that are alike; words that vary are labels of their metrics."""
    numbers = _numbers(lines)
    named = [one for one in numbers if one.kind]
    metrics, labels, steps = ([one for one in named if one.kind == kind] for kind in ("metric", "label", "step"))
    pattern = _pattern(lines, numbers) if metrics else None
    if pattern is None:
        return None
    names = [*filter(None, lines.names.values()), *(one.name for one in labels)]
    return MappingDraft(
        "lines",
        pattern,
        [DraftMetric(one.name, one.unit, better_of(one.name) if one.unit == NO_UNIT else None) for one in metrics],
        labels={name: name for name in names},
        step=steps[0].name if steps else "",
        skipped=len(numbers) - len(named),
    )


def _pattern(lines: _AlikeLines, numbers: Sequence[_NumberInLine]) -> str | None:
    """Return the part of the line from its first named number or label to its last one; None for too few letters."""
    line, named = lines.sample, [one for one in numbers if one.kind]
    words = [place for place, char in enumerate(line) if char > _FIRST_MARK]  # where marks stand for labels
    begin, end = min([named[0].first, *words]), max([named[-1].last, *(place + 1 for place in words)])
    begin = 0 if begin in words else begin  # a label at its beginning would match any word
    parts, place = [], begin
    for one in numbers:
        if one.start >= begin and one.end <= end:
            parts += [line[place : one.start], f"{{{one.name}}}" if one.kind else "{}"]
            place = one.end
    pattern = "".join([*parts, line[place:end]])
    if not words and len(re.findall(r"[A-Za-z]", re.sub(r"\{[^}]*\}", "", pattern))) < _LEAST_LETTERS:
        return None  # many other lines would be like it
    for mark, name in lines.names.items():
        pattern = pattern.replace(mark, f"{{{name}}}")
    return re.sub(r"[ \t]+", " ", pattern)


def _kind(name: str, unit: str, values: Sequence[float]) -> str:
    """Return what a number of a line is: `metric`, `label` or `step`; empty if it is of no interest.

    A name such as `step` makes a number a step. If a name has one letter, or is that of a load such as a batch size, a
    number is a step if it counts the lines, and else a label if it has no unit. Any other number is a metric if it has
    a unit or its name counts something. Without both, it is one if it is not whole and its name is not that of an id.
    """
    if not name or _STEP.fullmatch(name):
        return "step" if name else ""
    has_unit = unit != NO_UNIT
    if len(name) == 1 or (is_load(name) and not has_unit):
        if len(values) >= _COUNTED and all(two == one + 1 for one, two in pairwise(values)):
            return "step"
        if not has_unit:
            return "label"
    if has_unit or is_count(name):
        return "metric"
    is_whole = all(value == int(value) for value in values if abs(value) < 1e300)
    return "" if is_whole or is_ignored(name) else "metric"


def _numbers(lines: _AlikeLines) -> list[_NumberInLine]:
    """Return the numbers of the sample from left to right; no two have the same name."""
    found: list[_NumberInLine] = []
    values = iter(lines.numbers)
    for match in _NUMBER.finditer(lines.sample):
        found.append(_number(match, found, next(values, [])))
    return found


def _number(match: re.Match[str], found: Sequence[_NumberInLine], values: Sequence[float]) -> _NumberInLine:
    """Return a number of a line. `found`: the numbers before it. `values`: its values in all lines that are alike."""
    line, (start, end) = match.string, match.span()
    before = line[found[-1].last : start] if found else line[:start]
    word, unit = _NAME.search(before), _UNIT.match(line, end)
    if unit and not unit_of_text(unit[1]):
        unit = None
    if word and unit and found and not found[-1].name and before.strip() == word[1]:
        word = None  # the unit of the number before: `822 iters 1855.29 ns/iter`
    name = _name(before, word[1] if word else "", unit[1] if unit else "")
    if line[end : end + 1].isalpha() and not unit:
        name = ""  # the number is a part of a word
    while name and any(one.name == name for one in found):
        name += "_2"
    written = unit[1] if unit else (name and written_unit(name)) or NO_UNIT
    first = start - len(before) + word.start() if word and name else start
    last = unit.end() if unit else end
    return _NumberInLine(start, end, name, written, _kind(name, written, values), first, last)


def _name(before: str, word: str, written: str) -> str:
    """Return the name of a number, from the `word` before it or from its unit; empty for one of no interest."""
    if before.endswith(("/", ":")) and not word:  # a total, or the minutes of a time
        return ""
    known = unit_of_text(written) if written else None
    name = "" if _NO_NAME.fullmatch(word) else word.strip("-_./")
    name = name or (_NAMES.get(known[0], "value") if known else "")  # `known[0]` is the base unit
    name = re.sub(r"[^\w-]", "_", name)
    return name if re.fullmatch(r"[A-Za-z_][\w-]{0,49}", name) and (written or not _SKIPPED.fullmatch(name)) else ""
