"""All that readers are made of, for one import: types of a run, the file, the builder, values of text and JSON."""

from __future__ import annotations

from perfgate.core import Key, Location, Run, Series, read_only
from perfgate.core.conditions import Labels
from perfgate.documents.json import JsonDocument, Path, load_json
from perfgate.readers.builder import AGAIN, MAX_FAULTS, Place, RunBuilder
from perfgate.readers.coverage import JsonSource
from perfgate.readers.formats import Format, JsonOutline
from perfgate.readers.records import (
    Target,
    add_fields,
    commit_of,
    csv_rows,
    documents,
    fact,
    field_of,
    keep_time_and_place,
    load,
    load_rows,
    name_of,
    records,
    rows,
    statistic_of,
)
from perfgate.readers.runs import RecordRuns, Runs, labels_of
from perfgate.readers.text import InputFile
from perfgate.readers.values import (
    Field,
    cells_of,
    checked,
    fault_of,
    in_base,
    items,
    leading_json,
    mapping,
    number,
    number_of,
    shown,
    unit_of_name,
    unit_of_text,
)
