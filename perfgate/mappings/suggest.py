"""Propose a mapping for a file, write it as YAML, and try it on the file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from perfgate.core.file_mappings import MappingSuggestion
from perfgate.core.resource_limits import DEFAULT, Limits
from perfgate.core.wording import MAPPING_FILE, plural
from perfgate.documents.json import load_json
from perfgate.mappings.choose import read_with_mappings
from perfgate.mappings.document import load_mappings
from perfgate.mappings.mapping_item import DELIMITERS
from perfgate.mappings.suggested_fields import DraftMetric, MappingDraft
from perfgate.mappings.suggested_lines import of_lines
from perfgate.mappings.suggested_tables import of_document, of_records
from perfgate.mappings.table_rows import cells_between
from perfgate.mappings.units import NO_UNIT
from perfgate.readers.line_blocks import clean, is_json
from perfgate.readers.text import InputFile, Source
from perfgate.readers.values import number

#: The name of a column: not a number, and not `x=3`.
_HEADER = re.compile(r"\s*[A-Za-z#%_][^=:]*")
#: Records with more labels are not measurements.
_MOST_LABELS = 20
#: The number of lines that show whether a text is a table or JSON lines, and the share of them that must fit.
_FIRST_LINES, _MOSTLY = 20, 0.7
#: Text that YAML reads as itself, in a block and inside of brackets.
_PLAIN = re.compile(r"[A-Za-z_$][\w./$*\[\]{}-]*(?: [A-Za-z(][\w./$*()-]*)*")
_PLAIN_IN_BRACKETS = re.compile(r"[A-Za-z_$][\w./$%*()-]*(?: [A-Za-z(][\w./$*()-]*)*|[\w/]*[A-Za-z]")
_OTHER_VALUES = ("true", "false", "null", "yes", "no", "on", "off")
#: Names of measurements that have a unit, even if their names do not tell it.
_HAS_UNIT = re.compile(r"time|latency|duration|elapsed|memory|mem|throughput|bandwidth|size|power", re.IGNORECASE)
#: The longest list that is written on one line.
_WIDTH = 100


def suggest(name: str, data: bytes, limits: Limits = DEFAULT, files: str | None = None) -> MappingSuggestion | None:
    """Return a mapping for a file; None if it has no numbers that a mapping could name, or too many labels.

    `name`: the file; the mapping is for files with similar names. `data`: its bytes. `files`: the glob of the mapping;
    None makes one of the name.
    """
    file = InputFile(Source(name, [data], limits))
    text = file.whole()
    draft = _draft(clean(text.removeprefix("\ufeff")), limits) if text else None
    if draft is None or len(draft.labels) > _MOST_LABELS:
        return None
    lines = _yaml(draft, files or glob_of(name))
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
    """Return a glob for files with this name, with `*` for each number that does not follow a letter."""
    own = re.split(r"[/\\]", name)[-1]
    safe = re.sub(r"[\[\]?*]", "?", own)
    wide = re.sub(r"(?<![A-Za-z\d])\d+(?:[-_.:T]+\d+)*", "*", safe)
    # Without two letters and an extension, the glob would match nearly any file.
    return wide if re.search(r"[A-Za-z]{2}.*\.", wide) else safe


def _draft(text: str, limits: Limits) -> MappingDraft | None:
    """Return a mapping for a text as a JSON document, JSON lines, a table or a log: the first that fits."""
    if is_json(text):
        loaded = load_json(text, "", limits)
        if loaded.data is not None:
            return of_document(loaded.data)
    lines = text.split("\n")
    filled = [line for line in lines if line.strip()]
    first = filled[:_FIRST_LINES]
    if first and sum(line.lstrip().startswith("{") for line in first) >= _MOSTLY * len(first):
        records = [load_json(line, "", limits).data for line in filled]
        if draft := of_records("jsonl", "$", [one for one in records if isinstance(one, dict)]):
            return draft
    return _of_table(filled) or of_lines([line.rstrip("\r") for line in lines])


def _of_table(lines: list[str]) -> MappingDraft | None:
    """Return a mapping for a table with a header; None if the text is something else."""
    shown = [line.rstrip("\r") for line in lines if not line.startswith("#")]
    for name, delimiter in DELIMITERS.items():
        for begin in range(min(_FIRST_LINES, len(shown))):
            least = 2 if begin == 0 else 3  # a header that is not the first line needs two rows
            records = _table_records(shown[begin:], delimiter, least)
            if records and (draft := of_records("csv", name, records)):
                return draft
    return None


def _table_records(lines: list[str], delimiter: str, least: int) -> list[dict[str, str]]:
    """Return the rows of a table whose header is the first line, without empty cells; nothing for another text.

    `least`: the least number of lines with as many cells as the header.
    """
    header = cells_between(lines[0], delimiter) or []
    named = header[1:] if header[:1] == [""] else header  # pandas writes an index without a name
    if len(header) < 2 or len({*header}) < len(header) or not all(map(_HEADER.fullmatch, named)):
        return []
    # [] is a line between rows, such as `---`; None is a row with an open quote.
    rows = [cells or [] for cells in (cells_between(line, delimiter) for line in lines) if cells != []]
    if all(number(cell) is None for row in rows[1:3] for cell in row):
        return []  # a title, and more text below it
    widths = [len(row) for row in rows[:_FIRST_LINES]]
    if widths.count(len(header)) < max(least, _MOSTLY * len(widths)):
        return []
    records = [dict(zip(header, row, strict=True)) for row in rows[1:] if len(row) == len(header)]
    return [{key: cell for key, cell in row.items() if key and cell.strip()} for row in records]


def _yaml(draft: MappingDraft, files: str) -> list[str]:
    """Return a mapping as an item of the list in `perfgate.yaml`."""
    has_own_names = any(name != path for name, path in draft.labels.items())
    fields: dict[str, Any] = {
        "files": files,
        draft.kind: [draft.source, *draft.more] if draft.more else draft.source,
        "metric": draft.metric,
        "value": draft.value,
        "unit": draft.unit,
        "metrics": [] if draft.unit else draft.metrics,
        "labels": draft.labels if has_own_names else [*draft.labels],
        "facts": draft.facts,
        "commit": draft.commit,
        "step": draft.step,
        "where": draft.where,
        "repeats": "samples" if draft.has_samples else "",
        "ignore": draft.ignore,
    }
    first, *others = (line for name, value in fields.items() if value for line in _field(name, value))
    if draft.skipped:
        skipped = plural(draft.skipped, "more number")
        others.insert(0, f"# {skipped} of a line left out; a name in braces reads a number")
    return [f"  - {first}", *(f"    {line}" for line in others)]


def _field(name: str, value: Any) -> list[str]:
    """Return the lines of a field: a text, a list, a mapping, or the metrics."""
    if name == "metrics":
        return ["metrics:", *map(_metric, value)]
    line = f"{name}: {_quoted(value) if isinstance(value, str) else _inline(value)}"
    if isinstance(value, list) and len(line) > _WIDTH:
        return [f"{name}:", *(f"  - {_quoted(item)}" for item in value)]
    return [line]


def _metric(metric: DraftMetric) -> str:
    fields = {"unit": metric.unit, "better": metric.better, "optional": metric.is_optional}
    more = {name: value for name, value in fields.items() if value}
    text = _inline(more) if len(more) > 1 else _quoted(metric.unit)  # a single field is the unit, which is never empty
    question = "  # in which unit?" if metric.unit == NO_UNIT and _HAS_UNIT.search(metric.name) else ""
    return f"  {_quoted(metric.name)}: {text}{question}"


def _inline(value: Any) -> str:
    """Return a value as YAML inside of brackets."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_inline(name)}: {_inline(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return _quoted(value, _PLAIN_IN_BRACKETS) if isinstance(value, str) else str(value).lower()


def _quoted(text: str, plain: re.Pattern[str] = _PLAIN) -> str:
    """Return a text as YAML, in quotes if it would be read as something else."""
    if plain.fullmatch(text) and text.lower() not in _OTHER_VALUES:
        return text
    return json.dumps(text, ensure_ascii=False)
