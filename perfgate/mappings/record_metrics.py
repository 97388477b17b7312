"""The metrics of records: their names, units and labels, and the values that their paths lead to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from msgspec import Struct, field

from perfgate.core import Key, fact_text
from perfgate.core.conditions import Labels
from perfgate.core.file_mappings import FieldText, MappedMetric
from perfgate.documents.json import Path
from perfgate.mappings.mapping_item import did_you_mean
from perfgate.mappings.paths import FoundValue
from perfgate.mappings.record_source import Record
from perfgate.mappings.units import FROM_NAME, IN_VALUE, split_value, unit_in_name, unit_of
from perfgate.readers.builder import RunBuilder
from perfgate.readers.values import Known, shown

#: The longest text of a label, and how many series are remembered.
LONGEST = 200
_MOST_KNOWN = 100_000


class MissingField(Exception):
    """A record lacks a field that it needs: the message, and the place."""

    def __init__(self, message: str, path: Path) -> None:
        super().__init__(message)
        self.message, self.path = message, path


class RecordMetrics(Struct):
    """Finds the series in records. It reports missing values to `whole`, and counts each metric in `found`."""

    whole: RunBuilder
    found: Counter[str]
    #: The key and the unit of a metric under labels, if no field of the record is in them.
    known: dict[tuple[object, ...], tuple[Key, Known]] = field(default_factory=dict)

    def series(
        self, record: Record, metric: MappedMetric, labels: Labels
    ) -> Iterator[tuple[Key, Known, list[FoundValue]]]:
        """Yield the key, the unit and the values of each series in a record. A missing value is a problem."""
        groups: dict[tuple[tuple[str, str], ...], list[FoundValue]] = {}  # by the keys that the path of the value keeps
        for found in record.find(metric.value):
            if found.missing:
                self.missing(record, metric, found, labels)
            elif not (metric.is_optional and found.value in (None, "")):
                groups.setdefault(tuple(found.kept.items()), []).append(found)
        # The name and the unit are the same in every record, except for kept keys.
        is_fixed = not metric.unit.fields and metric.unit.text != IN_VALUE and not metric.name.fields
        for kept, values in groups.items():
            place = (id(metric), labels, kept)
            known = self.known.get(place)
            if known is None:
                try:
                    known = self.identity(record, metric, labels, {**record.kept, **dict(kept)}, values)
                except MissingField as missing:
                    record.report(self.whole, missing.message, missing.path)
                    continue
                if is_fixed and len(self.known) < _MOST_KNOWN:
                    self.known[place] = known
            self.found[f"metric {metric.name.text}"] += 1
            yield *known, values

    def identity(
        self, record: Record, metric: MappedMetric, labels: Labels, kept: Mapping[str, str], values: list[FoundValue]
    ) -> tuple[Key, Known]:
        """Return the key and the unit of a series. Raises MissingField.

        `kept`: the keys that the paths to the record and to its values keep.
        """
        # A key that is kept as `metric` is the name of the metric, all others are labels.
        all_labels = {**dict(labels), **{name: text for name, text in kept.items() if name != "metric"}}
        key = Key.of(self.text(record, metric.name, kept), **all_labels)
        return key, self.unit(record, metric, key, kept, values)

    def key_of(self, metric: MappedMetric, labels: Labels) -> Key | None:
        """Return the key that a metric had under these labels; None if it had none, or if fields are in its name."""
        known = self.known.get((id(metric), labels, ()))
        return known[0] if known else None

    def missing(self, record: Record, metric: MappedMetric, one: FoundValue, labels: Labels) -> None:
        """Report that a record lacks a metric, unless it may."""
        if metric.is_optional or (metric.value and record.is_elsewhere(metric.value)):
            return
        self.whole.json = record.json
        text = metric.value.text if metric.value else ""
        here: Any = record.top
        for part in one.path:
            here = here[part]
        names = [*here] if isinstance(here, dict) else []
        hint = did_you_mean((one.missing or "").strip("'"), names, f"it has {', '.join(names[:8])}")
        if text in names and text != one.missing:  # it was not yet in quotes
            hint = f"it has {text!r}, with a dot in its name: write it in double quotes"
        key = Key.of(metric.name.text, **dict(labels))
        message = f"this record has no {one.missing}" + (f"; {hint}" if names else "")
        self.whole.refuse(key, message, record.place(one.path))

    def text(self, record: Record, text: FieldText, kept: Mapping[str, str]) -> str:
        """Return a text with its fields filled in. Raises MissingField."""
        if not text.fields:
            return text.text
        filled = ""
        for part in text.parts:
            if isinstance(part, str):
                filled += part
                continue
            name = str(part.steps[0]) if len(part.steps) == 1 else ""
            found = [FoundValue((), kept[name], {})] if name in kept else record.find(part)
            value = scalar_text(found[0].value) if len(found) == 1 and not found[0].missing else None
            if value is None:
                path = found[0].path if found else record.path
                raise MissingField(f"`{text.text}` needs one text at `{part.text}`; the value is left out", path)
            filled += value
        return filled[: self.whole.file.limits.name_bytes]

    def unit(
        self, record: Record, metric: MappedMetric, key: Key, kept: Mapping[str, str], values: list[FoundValue]
    ) -> Known:
        """Return the unit of a series. Raises MissingField."""
        written = self.text(record, metric.unit, kept)
        if written == FROM_NAME:
            return unit_in_name(key.metric)
        if written == IN_VALUE:
            path, value = next(flat(values), (values[0].path, None))
            quantity = split_value(value) if isinstance(value, str) else None
            if quantity is None:
                what = f"{shown(value)} is not a number with a unit, such as 12.3 ms"
                raise MissingField(f"{key}: {what}; left out", path)
            return quantity[1]
        if (found := unit_of(written.strip())) is None:
            raise MissingField(f"{key}: {written[:40]!r} is not a unit that perfgate knows; left out", record.path)
        return found


def scalar_text(value: object) -> str | None:
    """Return a scalar as text; None for anything else. A long text ends with its hash, so that no two are equal."""
    if value is None or not isinstance(value, str | int | float):
        return None
    text = " ".join(fact_text(value).split())
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 9]}~{sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"


def flat(values: list[FoundValue]) -> Iterator[tuple[Path, Any]]:
    """Yield each value, and each item of a list, with its path."""
    for one in values:
        if isinstance(one.value, list):
            yield from (((*one.path, index), item) for index, item in enumerate(one.value))
        else:
            yield one.path, one.value
