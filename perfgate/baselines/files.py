"""The form of one baseline file, `perfgate.baseline/1`: one run, why it was approved, and enough to judge by later.

History of the form:

* 1: the first. Samples are kept whole up to KEEP_WHOLE values a series. A longer series is thinned to as many, one
  value of each of as many equal stretches, at positions of a low-discrepancy sequence, so that no period in the data
  can hide from it; the smallest and the largest value are always kept. `thinned_from` says how many there were.

The bytes are deterministic: keys in a fixed order, series sorted, the shortest text of every number. `content_sha256`
is the SHA-256 of the file's own JSON without that field.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np

from perfgate.core import Fact, Key, Location, Problem, Run, Series, SourceFile, read_only
from perfgate.core.units import BASE_UNITS
from perfgate.documents.json import load_json
from perfgate.documents.struct_errors import violation

SCHEMA = "perfgate.baseline/1"
KEEP_WHOLE = 8192

LabelPairs = dict[str, str]


class StoredSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that the run was read from."""

    path: str
    format: str
    sha256: str


class StoredSeries(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One series, in base units; `values` for samples and single values, `aggregate` for what was printed."""

    metric: str
    unit: str
    kind: str
    labels: LabelPairs = {}
    values: list[float] = []
    steps: list[int] | None = None
    aggregate: dict[str, float] = {}
    thinned_from: int | None = None


class Level(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The level that a run belongs to: a decision somebody made."""

    name: str
    parent: str | None = None
    reason: str = ""
    by: str = ""
    pr: int | None = None
    anchor: bool = False
    #: Other levels that stood beside the parent when this one was opened, and that it replaces, too.
    settles: list[str] = []
    #: The metrics that the level adopts; empty means all.
    adopts: list[str] = []


class BaselineFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One stored run."""

    schema: str
    tool: str
    suite: str
    time: str
    commit: str | None
    level: Level
    added_by: str
    identity: dict[str, str | int | float | bool | None]
    context: dict[str, str | int | float | bool]
    format: str
    sources: list[StoredSource]
    series: list[StoredSeries]
    content_sha256: str = ""


def encode(stored: BaselineFile) -> bytes:
    """The bytes of a file, with its own hash in it."""
    unsigned = msgspec.structs.replace(stored, content_sha256="")
    return _json(msgspec.structs.replace(stored, content_sha256=hashlib.sha256(_json(unsigned)).hexdigest()))


def _json(stored: BaselineFile) -> bytes:
    """Indented down to the series, whose numbers stay on one line: readable, and small in a diff."""
    plain = msgspec.to_builtins(stored)
    rows = plain.pop("series")
    digest = plain.pop("content_sha256")
    head = msgspec.json.format(msgspec.json.encode(plain), indent=2)[:-2]
    body = b",\n    ".join(msgspec.json.encode(row) for row in rows)
    tail = msgspec.json.encode(digest)
    return head + b',\n  "series": [\n    ' + body + b'\n  ],\n  "content_sha256": ' + tail + b"\n}\n"


def decode(name: str, data: bytes) -> tuple[BaselineFile | None, list[Problem]]:
    """Read one file; a damaged, altered or newer one gives a problem that names it, and None."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None, [_damaged(name, "is not UTF-8 text")]
    document = load_json(text, name)
    if document.problems:
        return None, [_damaged(name, f"is damaged: {document.problems[0].message}")]
    schema = document.data.get("schema") if isinstance(document.data, dict) else None
    if schema != SCHEMA:
        return None, [
            _damaged(
                name,
                f"has the schema {schema!r}; this perfgate reads {SCHEMA}: use the version that wrote it",
            )
        ]
    try:
        stored = msgspec.convert(document.data, BaselineFile)
    except msgspec.ValidationError as error:
        return None, [_damaged(name, f"does not have the form of {SCHEMA}: {violation(error).message}")]
    unsigned = msgspec.structs.replace(stored, content_sha256="")
    if stored.content_sha256 != hashlib.sha256(_json(unsigned)).hexdigest():
        return None, [
            _damaged(name, "was altered after it was written: its content does not have the hash that it states")
        ]
    keys = [(row.metric, tuple(sorted(row.labels.items()))) for row in stored.series]
    if len(set(keys)) < len(keys) or not all(map(_is_sound, stored.series)):
        return None, [_damaged(name, "holds a series twice, or one that contradicts itself")]
    return stored, []


def _is_sound(row: StoredSeries) -> bool:
    """Whether a series has a known unit and kind, and as many steps as values, none of them beyond any count."""
    steps = row.steps if row.steps is not None else [0] * len(row.values)
    amounts = {"samples": True, "aggregate": not row.values, "value": len(row.values) == 1}
    fits = len(steps) == len(row.values) and all(abs(step) < 1 << 62 for step in steps)
    return row.unit in BASE_UNITS and amounts.get(row.kind, False) and fits


def _damaged(name: str, what: str) -> Problem:
    step = "restore it from git, or remove it and approve again"
    return Problem("error", f"{what}; {step}", Location(name))


def stored_series(run: Run, wanted: Callable[[Key], bool]) -> list[StoredSeries]:
    """The series of a run that a baseline keeps, sorted, thinned where they are long."""
    return [_store(series) for series in sorted(run.series, key=lambda s: s.key) if wanted(series.key)]


def _store(series: Series) -> StoredSeries:
    keep = kept_positions(series.values) if len(series.values) > KEEP_WHOLE else None
    values = series.values if keep is None else series.values[keep]
    steps = series.steps if series.steps is None or keep is None else series.steps[keep]
    return StoredSeries(
        metric=series.key.metric,
        labels=dict(series.key.labels),
        unit=series.unit,
        kind=series.kind,
        values=[float(value) for value in values],
        steps=None if steps is None or _counts_up(steps) else [int(step) for step in steps],
        aggregate=dict(sorted(series.aggregate.items())),
        thinned_from=None if keep is None else len(series.values),
    )


def _counts_up(steps: Any) -> bool:
    """Whether steps are 0, 1, 2, ...: then they need no room in the file."""
    return bool(np.array_equal(steps, np.arange(len(steps))))


def kept_positions(values: Any) -> Any:
    """Which of n > KEEP_WHOLE values are kept, ascending: one in each of KEEP_WHOLE equal stretches."""
    n = len(values)
    edges = np.linspace(0, n, KEEP_WHOLE + 1)
    golden = (np.sqrt(5) - 1) / 2  # its multiples, modulo 1, fill the unit interval most evenly
    offset = np.modf(golden * np.arange(1, KEEP_WHOLE + 1))[0]
    chosen = np.minimum((edges[:-1] + offset * np.diff(edges)).astype(int), n - 1)
    for extreme in (int(np.argmin(values)), int(np.argmax(values))):
        chosen[np.searchsorted(edges, extreme, side="right") - 1] = extreme
    return np.unique(chosen)


def run_of(stored: BaselineFile, name: str) -> Run:
    """A stored run as the judge sees it."""
    series = tuple(_restore(row) for row in stored.series)
    facts: dict[str, Fact] = {**stored.context, **{k: v for k, v in stored.identity.items() if v is not None}}
    files = tuple(SourceFile(source.path, source.format, source.sha256) for source in stored.sources)
    return Run(name, stored.format, series, environment=facts, files=files, commit=stored.commit)


def _restore(row: StoredSeries) -> Series:
    values = read_only(np.array(row.values, dtype=np.float64))
    steps = np.arange(len(values)) if row.steps is None and row.kind == "samples" else row.steps
    key = Key(row.metric, tuple(sorted(row.labels.items())))
    restored = None if steps is None else np.array(steps, dtype=np.int64)
    return Series(key, row.unit, row.kind, values, restored, row.aggregate, thinned_from=row.thinned_from)  # type: ignore[arg-type]


def context_of(facts: Mapping[str, Fact], identity: Mapping[str, Fact | None]) -> dict[str, Fact]:
    """The facts that are recorded and shown, but not compared."""
    return {name: facts[name] for name in sorted(facts) if name not in identity}
