"""Propose a mapping for a file, and try it on the file."""

from __future__ import annotations

import re

from perfgate.core.file_mappings import MappingSuggestion
from perfgate.core.resource_limits import DEFAULT, Limits
from perfgate.core.wording import MAPPING_FILE
from perfgate.documents.json import load_json
from perfgate.mappings.choose import read_with_mappings
from perfgate.mappings.document import load_mappings
from perfgate.mappings.mapping_item import DELIMITERS
from perfgate.mappings.proposal.fields import MappingDraft
from perfgate.mappings.proposal.log_lines import of_lines
from perfgate.mappings.proposal.tables import of_document, of_records
from perfgate.mappings.record_source import PRINTED, printed_cells
from perfgate.readers.records import cells_of
from perfgate.readers.text import InputFile, Source, clean, is_json

#: The name of a column, which is neither a number nor a value with its name.
_HEADER = re.compile(r"\s*[A-Za-z#%_][^=:]*")
#: Records with more labels are not measurements.
_MOST_LABELS = 20
#: The number of lines that show whether a text is a table or JSON lines.
_FIRST_LINES = 20
#: The share of them that must be like the others.
_MOSTLY = 0.7


def suggest(name: str, data: bytes, limits: Limits = DEFAULT) -> MappingSuggestion | None:
    """Return a mapping for a file; None if it has no numbers that a mapping could name.

    Parameters
    ----------
    name: the file; the mapping is for files with similar names.
    data: its bytes.
    """
    file = InputFile(Source(name, [data], limits))
    text = file.whole()
    draft = _draft(clean(text.removeprefix("\ufeff")), limits) if text else None
    if draft is None or len(draft.labels) > _MOST_LABELS:
        return None
    lines = draft.lines(glob_of(name))
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
        rows = [cells for line in shown[:_FIRST_LINES] if (cells := split(line, delimiter)) != []]
        header = rows[0] if rows else None
        if not header or len(header) < 2 or len(rows) < 2 or len({*header}) < len(header):
            continue
        whole = sum(row is not None and len(row) == len(header) for row in rows)
        if whole < max(2, _MOSTLY * len(rows)) or not all(_HEADER.fullmatch(cell) for cell in header):
            continue
        every = (split(line, delimiter) for line in shown[1:])
        records = [dict(zip(header, row, strict=True)) for row in every if row and len(row) == len(header)]
        filled = [{key: cell for key, cell in row.items() if cell.strip()} for row in records]
        return of_records("csv", name, filled)
    return None
