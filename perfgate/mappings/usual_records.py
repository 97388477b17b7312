"""Records that are like an earlier one, added at once: most records of a long file.

The first record with some labels is read in full (`reading`). It leaves an example: its fields, and the series of its
metrics. A later record is like it if it has the same fields, its numbers can be measurements, and no other text or
whole number differs. Then only its numbers and its step matter. Any other record is read in full, which also finds what
is wrong with it and where.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from perfgate.core import fact_text
from perfgate.core.file_mappings import FieldPath, FileMapping
from perfgate.mappings.line_patterns import LineMatch
from perfgate.mappings.paths import used_paths
from perfgate.mappings.record_source import Record
from perfgate.mappings.units import IN_VALUE
from perfgate.readers.alike_lines import AlikeLines
from perfgate.readers.builder import RunBuilder
from perfgate.readers.runs import Runs
from perfgate.readers.values import Column, number, shown

#: The greatest depth of the compared fields of a record, and their greatest number.
_DEEPEST, _MOST_FIELDS = 3, 200
#: Names of the field with the number of a step.
_STEPS = ("step", "global_step", "iteration", "iter")
_LARGEST = sys.float_info.max
#: Longer texts of digits are read in full.
_DIGITS = 15
#: The most examples that are kept.
_MOST = 10_000
#: The types of values that are equal only if their texts are.
_PLAIN = (str, int, type(None))
#: The values of the labels and facts of a record, and of the fields that choose records (`where`).
_Labels = tuple[object, ...]


class Fingerprints:
    """Finds records that do not repeat the first one with the same identity: the same labels, or the same series."""

    def __init__(self, mapping: FileMapping) -> None:
        self._mapping = mapping
        self._first: dict[Hashable, dict[str, Any]] = {}
        #: The fields that were reported, and those that have a use or are ignored.
        self._said = set[str]()
        self._used = mapping.ignore.union(".".join(map(str, path.steps)) for path in used_paths(mapping))

    def difference(self, identity: Hashable, record: Record) -> str | None:
        """Return how a field differs from the first record of an identity; None if all differences were reported."""
        for name, first, own in self._differing(identity, record):
            self._said.add(name)
            step = f"add {name} to `labels`, or to `ignore` if it does not matter"
            if name.lower() in _STEPS:
                step = f"write `step: {name}` if each record is a step of one run"
            return f"records with equal labels differ in {name}: {shown(first)} and {shown(own)}; {step}"
        return None

    def is_repetition(self, identity: Hashable, record: Record) -> bool:
        """Return whether `difference` has nothing more to report about a record."""
        return not any(self._differing(identity, record))

    def _differing(self, identity: Hashable, record: Record) -> Iterator[tuple[str, Any, Any]]:
        """Yield each field that differs and was not reported, with its first value and that of the record."""
        if self._mapping.kind == "lines":  # every field of a pattern has a use
            return
        own = dict(self._fields(record.data, ""))
        first = self._first.setdefault(identity, own)
        for name in own if first is not own else ():
            if name in first and name not in self._said and fact_text(own[name]) != fact_text(first[name]):
                yield name, first[name], own[name]

    def _fields(self, data: Any, before: str, depth: int = 1) -> Iterator[tuple[str, Any]]:
        """Yield each field without another use that is a word, a flag or a whole number: it may identify a record."""
        for name, value in list(data.items())[:_MOST_FIELDS] if isinstance(data, dict) else ():
            full = f"{before}{name}"
            if full in self._used or name in self._mapping.ignore:
                continue
            if isinstance(value, dict) and depth < _DEEPEST:
                yield from self._fields(value, f"{full}.", depth + 1)
            elif isinstance(value, bool | int) or (isinstance(value, str) and _is_word(value)):
                yield full, value


def _is_word(text: str) -> bool:
    """Return whether a text is a word or a whole number, and not a measured number."""
    return number(text) is None or text.strip().lstrip("+-").isdigit()


class _Example(Struct, frozen=True):
    """A record that was read in full, and where the values of records like it go."""

    run: RunBuilder
    fields: frozenset[str]
    #: The field of each metric, the least number that can be a measurement, and the series.
    columns: tuple[tuple[str, float, Column], ...]
    #: The fields without a use, which must not differ.
    others: tuple[tuple[str, object], ...]


class UsualRecords:
    """Adds the records of one file that are like an example: `learn` keeps an example, and `add` uses it."""

    def __init__(self, mapping: FileMapping, samples: Runs[RunBuilder]) -> None:
        self._samples = samples
        #: The fields that may differ from record to record.
        self._ignored = mapping.ignore
        self._step = _name(mapping.step) if mapping.step else None
        #: The fields whose values must be those of the example.
        self._same = [_name(path) for path in _same_paths(mapping)]
        self._metrics = [_name(metric.value) for metric in mapping.metrics]
        #: Every field of a pattern of lines has a use, and a line may be of a pattern without the step.
        self._is_lines = mapping.kind == "lines"
        words = "".join(word for pattern in mapping.patterns for word in pattern.words)
        #: True for lines that can be read alike whatever their digits are.
        self.is_of_lines = self._is_lines and not any(map(str.isdigit, words))
        self._examples: dict[_Labels, _Example] = {}

    @staticmethod
    def fits(mapping: FileMapping) -> bool:
        """Return whether records of a mapping can be added in this way: each value is in a field of its own.

        Names, units, kept keys and a commit may change from record to record, so their records are read in full.
        """
        paths = [*(metric.value for metric in mapping.metrics), *((mapping.step,) if mapping.step else ())]
        paths += _same_paths(mapping)
        return (
            mapping.commit is None
            and not (mapping.records and mapping.records.names)
            and all(path and len(path.steps) == 1 and not path.is_from_top for path in paths)
            and all(isinstance(path.steps[0], str) for path in paths if path)
            and not any(one.name.fields or one.unit.fields or one.unit.text == IN_VALUE for one in mapping.metrics)
        )

    def add(self, data: Any, line: int, last_step: int) -> int | None:
        """Add a record that is like an example; return its step, or None if it must be read in full.

        `data`: the record. `line`: the line on which it is. `last_step`: the step of the record before, which a line
        without a step belongs to.
        """
        labels = self._labels(data)
        example = self._examples.get(labels) if labels is not None else None
        if example is None or not self._is_like(data, example):
            return None
        values = _values(data, example)
        step: int | None = last_step
        if self._step is not None and (self._step in data or not self._is_lines):
            step = _whole(data.get(self._step))
        if values is None or step is None:
            return None
        if self._step is not None:
            self._samples.count("step", step, line)
            if self._samples.run is not example.run:  # a smaller step began a new run; the example is of the old one
                return None
        self._samples.run.file.coverage.lines.tell(line)  # everything in it is read
        for (_, _, column), value in zip(example.columns, values, strict=True):
            column.values.append(value)
            if self._step is not None:
                column.steps.append(step)
        return step

    def note(self, alike: AlikeLines, found: LineMatch) -> None:
        """Note what was done with the record of a line, so that lines like it can be read at once."""
        texts = found.fields
        places = {name: (found.column(name) or 0) - 1 for name in texts}
        for name, _, column in self._examples[self._labels(texts) or ()].columns:
            alike.number(column, texts[name], places[name])
        for name in texts.keys() & {*self._same}:
            alike.same(places[name], places[name] + len(texts[name]))
        if self._step in texts:  # 0: the step is the printed one; "step" is the name of the counter
            alike.step(texts[self._step], places[self._step], 0, self._samples.follow, "step")

    def learn(self, data: Any, columns: Iterable[Column | None]) -> None:
        """Keep a record as an example; `columns` are the series of the metrics, None for one that it does not have."""
        labels = self._labels(data)
        if labels is None or len(self._examples) >= _MOST:
            return
        found = [(field, column) for field, column in zip(self._metrics, columns, strict=True) if field in data]
        if not found or any(column is None for _, column in found):
            return
        used = {*self._same, *self._metrics, self._step}
        others = tuple((name, value) for name, value in data.items() if name not in used | self._ignored)
        # Numbers without a unit, and bytes, may be negative.
        self._examples[labels] = _Example(
            self._samples.run,
            frozenset(data),
            tuple((field, -_LARGEST if one.unit in ("1", "B") else 0.0, one) for field, one in found if one),
            () if self._is_lines else others,
        )

    def _labels(self, data: Any) -> _Labels | None:
        """Return the values that must be equal; None if they are not texts or whole numbers."""
        if type(data) is not dict:
            return None
        found = tuple([data.get(name) for name in self._same])
        return found if all(type(value) in _PLAIN for value in found) else None

    def _is_like(self, data: Mapping[str, object], example: _Example) -> bool:
        if data.keys() != example.fields:
            return False
        for name, before in example.others:
            value = data[name]
            if value is not before and (type(value) is not type(before) or _may_matter(value, before)):
                return False
        return True


def _values(data: Mapping[str, Any], example: _Example) -> list[float] | None:
    """Return the values of a record like an example; None if one of them cannot be a measurement."""
    values = []
    for name, least, _ in example.columns:
        value = data[name]
        if type(value) is str:
            value = number(value)
        if type(value) not in (float, int) or not least <= value <= _LARGEST:
            return None
        values.append(float(value))
    return values


def _same_paths(mapping: FileMapping) -> list[FieldPath]:
    """Return the paths to values that must be equal. Those from the top of a JSON document are never different."""
    paths = [path for _, path in (*mapping.labels, *mapping.facts)] + [path for path, _ in mapping.where]
    return [path for path in paths if not (path.is_from_top and mapping.kind == "json")]


def _may_matter(value: object, before: object) -> bool:
    """Return whether two values of a field that nothing uses may show that a record is not a repetition.

    Decimal numbers and lists do not: they are measurements, which differ from record to record.
    """
    if value == before or type(value) in (float, list):
        return False
    return type(value) is not str or type(before) is not str or _is_word(value) or _is_word(before)


def _whole(value: object) -> int | None:
    """Return a step that is printed or stored as a whole number; None for anything else."""
    if type(value) is str:
        return int(value) if len(value) <= _DIGITS and value.isascii() and value.isdigit() else None
    return value if type(value) is int and abs(value) < 1 << 62 else None


def _name(path: FieldPath | None) -> str:
    return str(path.steps[0]) if path is not None else ""
