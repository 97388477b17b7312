"""Propose a mapping for a file, and try it on the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core.file_mappings import MappingSuggestion
from perfgate.core.resource_limits import DEFAULT, Limits
from perfgate.core.wording import MAPPING_FILE
from perfgate.documents.json import load_json
from perfgate.mappings.choose import read_with_mappings
from perfgate.mappings.document import load_mappings
from perfgate.mappings.mapping_draft import DraftMetric, MappingDraft
from perfgate.mappings.mapping_item import DELIMITERS
from perfgate.mappings.printed_tables import PRINTED, printed_cells
from perfgate.mappings.suggested_fields import better_of, is_count, is_ignored, is_load
from perfgate.mappings.suggested_lines import FIRST_MARK, NUMBER, AlikeLines, alike_lines
from perfgate.mappings.suggested_tables import of_document, of_records
from perfgate.mappings.units import NO_UNIT, written_unit
from perfgate.readers.line_blocks import clean, is_json
from perfgate.readers.text import InputFile, Source
from perfgate.readers.values import cells_of, number, unit_of_text

#: The number of lines that are read, and the greatest length of one.
_MOST_LINES, _LONGEST = 5000, 2000
#: A pattern has at least this number of letters outside of its fields.
_LEAST_LETTERS = 3
#: The most patterns of a mapping.
_MOST_PATTERNS = 8
#: A line with one word that may say what the lines below it are about.
_HEADING = re.compile(r"([^\w\s\d]{1,20} ?|[A-Za-z]{1,30}: ?)([A-Za-z][\w./-]{0,60})([^\w\s\d]?| ?[^\w\s\d]{2,20}|)")
#: The word before a number, and the unit behind it.
_NAME = re.compile(r"([A-Za-z][\w./-]{0,40}?)[ \t]*[\])]?[ \t]*[:=]?[ \t]*[(\[]?$")
_UNIT = re.compile(r"[ \t]?([A-Za-z%µ°$][A-Za-z%]{0,12}(?:/[A-Za-z]{1,12})?)(?![\w/])")
#: From this number of lines on, a number that counts them is a step.
_COUNTED = 8
_NO_NAME = re.compile(r"in|at|of|for|after|is|was|to|by|with|and", re.I)
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
    """Return a mapping for a log; None if no line with a named number occurs twice, or has a number with a unit."""
    lines = [line for line in lines[:_MOST_LINES] if len(line) <= _LONGEST and not re.search(r"[{}]", line)]
    found = [(group.count, draft) for group in alike_lines(lines) if (draft := _of_alike(group))]
    drafts = [(count * len(draft.metrics), draft) for count, draft in found if _is_telling(draft, count)]
    drafts.sort(key=lambda one: -one[0])
    return _below_headings(_joined([draft for _, draft in drafts]), lines) if drafts else None


def _below_headings(draft: MappingDraft, lines: Sequence[str]) -> MappingDraft:
    """Return a draft with the pattern of the headings above its lines: `=== bert ===`, `Model: bert`."""
    headings: dict[tuple[str, str], set[str]] = {}
    for found in map(_HEADING.fullmatch, lines):
        if found and not NUMBER.search(found[0]):
            headings.setdefault((found[1], found[3]), set()).add(found[2])
    (before, after), values = max(headings.items(), key=lambda one: len(one[1]), default=(("", ""), set[str]()))
    if len(values) < 2:
        return draft
    name = re.sub(r"\W", "", before).lower() or "section"
    pattern = f"{before}{{{name}}}{after}"
    return replace(draft, source=pattern, more=(draft.source, *draft.more), labels={name: name, **draft.labels})


def _is_telling(draft: MappingDraft, count: int) -> bool:
    """Return whether a line is probably about measurements: it occurs again, or all its numbers have units."""
    return count > 1 or all(metric.unit != NO_UNIT for metric in draft.metrics)


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


def _of_alike(lines: AlikeLines) -> MappingDraft | None:
    """Return a mapping for lines that are alike; words that vary are labels of their metrics."""
    line, labels = lines.sample, dict[str, str]()
    numbers = _numbers(line)
    measured = dict(zip([one.start for one in numbers], lines.numbers, strict=False))
    kinds = {one.start: _kind(one, measured.get(one.start, [])) for one in numbers}
    named = [one for one in numbers if kinds[one.start]]
    metrics = [one for one in named if kinds[one.start] == "metric"]
    if not metrics:
        return None
    words = [place for place, char in enumerate(line) if char > FIRST_MARK]
    begin, end = min([named[0].first, *words]), max([named[-1].last, *(place + 1 for place in words)])
    begin = 0 if begin in words else begin  # a pattern that begins with any word may begin at a wrong one
    pattern, at = "", begin
    for one in numbers:
        if one.start >= begin and one.end <= end:
            pattern += line[at : one.start] + (f"{{{one.name}}}" if kinds[one.start] else "{}")
            at = one.end
    pattern += line[at:end]
    if not words and len(re.findall(r"[A-Za-z]", re.sub(r"\{[^}]*\}", "", pattern))) < _LEAST_LETTERS:
        return None  # many other lines would be like it
    for mark, name in lines.names.items():
        pattern = pattern.replace(mark, f"{{{name}}}")
        labels |= {name: name} if name else {}
    labels |= {one.name: one.name for one in named if kinds[one.start] == "label"}
    found = [
        DraftMetric(one.name, one.unit, "", better_of(one.name) if one.unit == NO_UNIT else None) for one in metrics
    ]
    step = next((one.name for one in named if kinds[one.start] == "step"), "")
    skipped = len(numbers) - len(named)
    return MappingDraft("lines", re.sub(r"[ \t]+", " ", pattern), found, labels=labels, step=step, skipped=skipped)


def _kind(one: _NumberInLine, values: Sequence[float]) -> str:
    """Return what a number of a line is: `metric`, `label`, `step`, or nothing of interest."""
    if not one.name or _STEP.fullmatch(one.name):
        return "step" if one.name else ""
    if len(one.name) == 1 or (one.unit == NO_UNIT and is_load(one.name)):
        is_counter = len(values) >= _COUNTED and all(two == one + 1 for one, two in pairwise(values))
        if is_counter or one.unit == NO_UNIT:
            return "step" if is_counter else "label"
    is_whole = all(value == int(value) for value in values if abs(value) < 1e300)
    is_measured = one.unit != NO_UNIT or not (is_whole or is_ignored(one.name)) or is_count(one.name)
    return "metric" if is_measured else ""


def _numbers(line: str) -> list[_NumberInLine]:
    found: list[_NumberInLine] = []
    taken: set[str] = set()
    last = 0
    for match in NUMBER.finditer(line):
        start, end = match.span()
        word = _NAME.search(line[last:start])
        unit = _UNIT.match(line, end)
        written = unit[1] if unit and unit_of_text(unit[1]) else ""
        if word and written and found and not found[-1].name and line[last:start].strip() == word[1]:
            word = None  # the unit of the number before: `822 iters 1855.29 ns/iter`
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
    name = ("" if _NO_NAME.fullmatch(word) else word.strip("-_./")) or (_NAMES.get(known[0], "value") if known else "")
    name = re.sub(r"[^\w-]", "_", name)
    return name if re.fullmatch(r"[A-Za-z_][\w-]{0,49}", name) and (written or not _SKIPPED.fullmatch(name)) else ""


def _unit(name: str, written: str) -> str:
    return written or (written_unit(name) if name else None) or NO_UNIT


#: The name of a column, which is neither a number nor a value with its name.
_HEADER = re.compile(r"\s*[A-Za-z#%_][^=:]*")
#: Records with more labels are not measurements.
_MOST_LABELS = 20
#: The number of lines that show whether a text is a table or JSON lines.
_FIRST_LINES = 20
#: The share of them that must be like the others.
_MOSTLY = 0.7


def suggest(name: str, data: bytes, limits: Limits = DEFAULT, files: str | None = None) -> MappingSuggestion | None:
    """Return a mapping for a file; None if it has no numbers that a mapping could name.

    `name`: the file; the mapping is for files with similar names. `data`: its bytes. `files`: the glob of the mapping;
    None makes one of the name.
    """
    file = InputFile(Source(name, [data], limits))
    text = file.whole()
    draft = _draft(clean(text.removeprefix("\ufeff")), limits) if text else None
    if draft is None or len(draft.labels) > _MOST_LABELS:
        return None
    lines = draft.lines(files or glob_of(name))
    document = "\n".join(["mappings:", *lines, ""]).encode()
    mappings, problems = load_mappings([(MAPPING_FILE, document)], limits)
    if problems:
        return None
    runs = read_with_mappings(Source(name, [data], limits), mappings)
    found = [series for run in runs for series in run.series]
    return MappingSuggestion(
        name,
        mappings[0].name,
        tuple(lines),
        runs=len(runs),
        metrics=len({series.key for series in found}),
        values=sum(len(series.values) for series in found),
        problems=tuple(dict.fromkeys(problem for run in runs for problem in run.problems)),
        read=runs,
    )


def glob_of(name: str) -> str:
    """Return a glob for files with this name, whatever numbers are in it."""
    own = re.split(r"[/\\]", name)[-1]
    safe = re.sub(r"[\[\]?*]", "?", own)
    wide = re.sub(r"(?<![A-Za-z\d])\d+(?:[-_.:T]+\d+)*", "*", safe)
    return wide if re.search(r"[A-Za-z]{2}.*\.", wide) else safe


def _draft(text: str, limits: Limits) -> MappingDraft | None:
    if is_json(text):
        loaded = load_json(text, "", limits)
        if loaded.data is not None:
            return of_document(loaded.data)
    lines = text.split("\n")
    return _of_json_lines(lines, limits) or _of_table(lines) or of_lines([line.rstrip("\r") for line in lines])


def _of_json_lines(lines: list[str], limits: Limits) -> MappingDraft | None:
    first = [line for line in lines if line.strip()][:_FIRST_LINES]
    if not first or sum(line.lstrip().startswith("{") for line in first) < _MOSTLY * len(first):
        return None
    records = [load_json(line, "", limits).data for line in lines if line.strip()]
    return of_records("jsonl", "$", [one for one in records if isinstance(one, dict)])


def _of_table(lines: list[str]) -> MappingDraft | None:
    """Return a mapping for a table with a header; None if the text is something else."""
    shown = [line.rstrip("\r") for line in lines if line.strip() and not line.startswith("#")]
    for name, delimiter in DELIMITERS.items():
        split = printed_cells if delimiter in PRINTED else cells_of
        for begin in range(min(_FIRST_LINES, len(shown))):
            header = split(shown[begin], delimiter)
            if not header or len(header) < 2 or len({*header}) < len(header):
                continue
            rows = [cells for line in shown[begin:] if (cells := split(line, delimiter)) != []]
            first = rows[:_FIRST_LINES]
            whole = sum(row is not None and len(row) == len(header) for row in first)
            if all(number(cell) is None for row in rows[1:3] for cell in row or ()):
                continue  # a title, and more text below it
            named = header[1:] if not header[0] else header  # pandas writes an index without a name
            if whole < max(2 + bool(begin), _MOSTLY * len(first)) or not all(map(_HEADER.fullmatch, named)):
                continue
            records = [dict(zip(header, row, strict=True)) for row in rows[1:] if row and len(row) == len(header)]
            filled = [{key: cell for key, cell in row.items() if key and cell.strip()} for row in records]
            if draft := of_records("csv", name, filled):
                return draft
    return None
