"""From the records of a file to runs: metrics with units and labels, repetitions, steps and facts.

A record is known by its labels. The n-th record with equal labels belongs to the n-th run (`readers.records`), or is
one more sample of the only run. Records with equal labels that differ in another text or whole number are an error:
they are probably no repetitions, and would be judged as if they were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from perfgate.core import Fact, Key, Location, Run, fact_text
from perfgate.core.file_mappings import EachMember, FieldPath, FieldText, FileMapping, MappedMetric
from perfgate.documents.json import Path
from perfgate.mappings.fingerprints import Fingerprints
from perfgate.mappings.paths import FoundValue
from perfgate.mappings.record_source import FileRecords, Record
from perfgate.mappings.units import FROM_NAME, IN_VALUE, split_value, unit_in_name, unit_of
from perfgate.readers.builder import RunBuilder
from perfgate.readers.printed_units import Known
from perfgate.readers.records import RecordRuns
from perfgate.readers.runs import Runs
from perfgate.readers.text import InputFile
from perfgate.readers.values import checked, number, shown

#: The longest text of a label.
_LONGEST = 200


class _MissingField(Exception):
    """A record lacks a field that it needs: the message, and the place."""

    def __init__(self, message: str, path: Path) -> None:
        super().__init__(message)
        self.message, self.path = message, path


def read_mapped(file: InputFile, mapping: FileMapping) -> tuple[Run, ...]:
    """Return the runs of a file that a mapping fits, at least one."""
    return _MappedFile(file, mapping).read()


@dataclass(slots=True)
class _MappedFile:
    """One file while it is read through a mapping."""

    file: InputFile
    mapping: FileMapping
    whole: RunBuilder = field(init=False)
    records: RecordRuns = field(init=False)
    samples: Runs[RunBuilder] | None = field(init=False)
    fingerprints: Fingerprints = field(init=False)
    #: How often each label and each metric was found.
    found: Counter[str] = field(default_factory=Counter)
    facts: dict[str, Fact] = field(default_factory=dict)
    #: The paths of members that labels and facts use.
    used: frozenset[Path] = field(init=False)
    #: The step of the record before, which lines without a step belong to.
    last_step: int = 0

    def __post_init__(self) -> None:
        name = self.mapping.name
        self.whole = RunBuilder(self.file, name)
        self.records = RecordRuns(self.file, name)
        is_samples = self.mapping.repeats == "samples"
        self.samples = Runs(lambda: RunBuilder(self.file, name)) if is_samples else None
        self.fingerprints = Fingerprints(self.mapping)
        tops = (path for _, path in (*self.mapping.labels, *self.mapping.facts) if path.is_from_top)
        self.used = frozenset(
            tuple(step for step in path.steps if not isinstance(step, EachMember))
            for path in (*tops, *((self.mapping.commit,) if self.mapping.commit else ()))
        )

    def read(self) -> tuple[Run, ...]:
        records = FileRecords(self.file, self.mapping, self.whole)
        count = read = 0
        for record in records.read():
            count += 1
            if self.is_wanted(record):
                read += 1
                self.add(record)
        if not count and records.readable and not self.whole.problems:
            self.whole.say("error", f"{self.mapping.title} finds no record in this file{self.searched()}")
        elif count and not read:
            wanted = " and ".join(f"{path.text} = {' or '.join(values)}" for path, values in self.mapping.where)
            self.whole.say("error", f"{self.mapping.title}: none of the {count} records has {wanted or 'a number'}")
        if read:
            self.report_never_found()
        return self.finish()

    def finish(self) -> tuple[Run, ...]:
        """Return the runs; the first one has the problems of the whole file."""
        self.whole.close()
        runs = self.samples.finish() if self.samples is not None else self.records.finish()
        if not any(run.series for run in runs) and self.whole.problems:
            problems = (*self.file.problems, *self.whole.problems)
            return (Run(self.file.name, self.mapping.name, (), problems),)
        first, *others = runs or (self.whole.run(),)
        return (replace(first, problems=(*first.problems, *self.whole.problems)), *others)

    def searched(self) -> str:
        """Return what was searched for, in words."""
        mapping = self.mapping
        if mapping.records is not None:
            return f": there is nothing at `{mapping.records.text}`"
        if mapping.patterns:
            return f": no line is like `{mapping.patterns[0].text}`"
        return ""

    def is_wanted(self, record: Record) -> bool:
        """Return whether the mapping is about a record."""
        last = record.path[-1] if record.path else None
        if isinstance(last, str) and (last in self.mapping.ignore or record.path in self.used):
            return False
        for path, wanted in self.mapping.where:
            values = [_text(one.value) for one in record.find(path) if not one.missing]
            if not any(value in wanted for value in values if value is not None):
                return False
        return True

    # --- one record -------------------------------------------------------------------------------------------------

    def add(self, record: Record) -> None:
        """Add the values of a record; what it lacks is a problem."""
        try:
            labels = dict(self.labels(record))
            step = self.step(record)
        except _MissingField as missing:
            self.whole.json = record.json
            self.whole.say("error", missing.message, record.place(missing.path))
            return
        own: dict[Hashable, RunBuilder] = {}
        for metric in self.mapping.metrics:
            for key, unit, values in self.series(record, metric, labels):
                identity: Hashable = key if metric.name.fields or "metric" in record.kept else key.labels
                run = own.get(identity) if not metric.name.fields else None
                run = own[identity] = run or self.run_of(identity, record, step)
                self.add_values(run, key, unit, values, record, step)

    def run_of(self, identity: Hashable, record: Record, step: int | None) -> RunBuilder:
        """Return the run that a record belongs to."""
        place = record.place(record.path)
        if difference := self.fingerprints.difference(identity, record):
            self.whole.json = record.json
            self.whole.say("error", difference, place)
        if self.samples is None:
            run = self.records.run_of(identity, record.json)
        else:
            if step is not None:
                at = record.json.moved(Location(self.file.name, 1)) if record.json else place
                self.samples.count("step", step, (at.line if isinstance(at, Location) else None) or 1)
            run = self.samples.run
            run.json = record.json
        self.add_facts(run, record)
        return run

    def labels(self, record: Record) -> Iterator[tuple[str, str]]:
        for name, path in self.mapping.labels:
            found = [one for one in record.find(path) if not one.missing and one.value is not None]
            if len(found) > 1 or any(_text(one.value) is None for one in found):
                raise _MissingField(f"the label {name}: `{path.text}` is not a single text or number", found[0].path)
            for one in found:
                self.found[f"label {name}"] += 1
                yield name, _text(one.value) or ""
        yield from ((name, text[:_LONGEST]) for name, text in record.kept.items() if name != "metric")

    def step(self, record: Record) -> int | None:
        path = self.mapping.step
        if path is None:
            return None
        if self.is_elsewhere(record, path):
            return self.last_step
        one = record.find(path)[0]
        value = number(one.value) if isinstance(one.value, str) else one.value
        if one.missing or isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
            what = f"there is no {one.missing}" if one.missing else f"{shown(one.value)} is not a whole number"
            raise _MissingField(f"the step `{path.text}`: {what}; the record is left out", one.path)
        self.last_step = int(value)
        return self.last_step

    def is_elsewhere(self, record: Record, path: FieldPath) -> bool:
        """Return whether only other patterns of lines have this field."""
        return self.mapping.kind == "lines" and path.steps[0] not in record.data

    # --- one metric -------------------------------------------------------------------------------------------------

    def series(
        self, record: Record, metric: MappedMetric, labels: Mapping[str, str]
    ) -> Iterator[tuple[Key, Known, list[FoundValue]]]:
        """Yield the key, the unit and the values of each series in a record; what is missing is a problem."""
        groups: dict[tuple[tuple[str, str], ...], list[FoundValue]] = {}
        for one in record.find(metric.value):
            if one.missing:
                self.missing(record, metric, one, labels)
            elif not (metric.is_optional and one.value in (None, "")):
                groups.setdefault(tuple(one.kept.items()), []).append(one)
        for kept, values in groups.items():
            every = {**record.kept, **dict(kept)}
            own = {name: text for name, text in every.items() if name != "metric"}
            key = Key.of(metric.name.text, **{**labels, **own})
            try:
                key = Key(self.text(record, metric.name, every), key.labels)
                unit = self.unit(record, metric, key, every, values)
            except _MissingField as missing:
                self.whole.json = record.json
                self.whole.say("error", missing.message, record.place(missing.path))
                continue
            self.found[f"metric {metric.name.text}"] += 1
            yield key, unit, values

    def missing(self, record: Record, metric: MappedMetric, one: FoundValue, labels: Mapping[str, str]) -> None:
        if metric.is_optional or (metric.value and self.is_elsewhere(record, metric.value)):
            return
        self.whole.json = record.json
        text = metric.value.text if metric.value else ""
        hint = self.near(record, one, text)
        key = Key.of(metric.name.text, **labels)
        self.whole.refuse(key, f"this record has no {one.missing}{hint}", record.place(one.path))

    def near(self, record: Record, one: FoundValue, text: str) -> str:
        """Return a hint for a name that a record lacks."""
        here: Any = record.top
        for part in one.path:
            here = here[part]
        names = [*here] if isinstance(here, dict) else []
        if text in names and text != one.missing:
            return f"; it has {text!r}, with a dot in its name: write it in double quotes"
        close = get_close_matches((one.missing or "").strip("'"), names, n=1)
        return f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(names[:8])}" if names else ""

    def text(self, record: Record, text: FieldText, kept: Mapping[str, str]) -> str:
        """Return a text with its fields filled in. Raises _MissingField."""
        filled = []
        for part in text.parts:
            if isinstance(part, FieldPath):
                name = part.steps[0] if len(part.steps) == 1 else None
                found = [FoundValue((), kept[name], {})] if name in kept else record.find(part)  # type: ignore[index]
                if len(found) != 1 or found[0].missing or (one := _text(found[0].value)) is None:
                    path = found[0].path if found else record.path
                    raise _MissingField(f"`{text.text}` needs one text at `{part.text}`; the value is left out", path)
                filled.append(" ".join(one.split()))
            else:
                filled.append(part)
        return "".join(filled)[: self.file.limits.name_bytes]

    def unit(
        self, record: Record, metric: MappedMetric, key: Key, kept: Mapping[str, str], values: list[FoundValue]
    ) -> Known:
        """Return the unit of a series. Raises _MissingField."""
        written = self.text(record, metric.unit, kept)
        if written == FROM_NAME:
            return unit_in_name(key.metric)
        if written == IN_VALUE:
            path, value = next(_flat(values), (values[0].path, None))
            quantity = split_value(value) if isinstance(value, str) else None
            if quantity is None:
                what = f"{shown(value)} is not a number with a unit, such as 12.3 ms"
                raise _MissingField(f"{key}: {what}; left out", path)
            return quantity[1]
        if (found := unit_of(written.strip())) is None:
            raise _MissingField(f"{key}: {written[:40]!r} is not a unit that perfgate knows; left out", record.path)
        return found

    def add_values(
        self, run: RunBuilder, key: Key, unit: Known, values: list[FoundValue], record: Record, step: int | None
    ) -> None:
        """Add the values of one series in one record: a single value, or samples."""
        base, per = unit
        is_samples = self.mapping.repeats == "samples" or len(values) > 1 or isinstance(values[0].value, list)
        for path, printed in _flat(values):
            value, fault = self.measured(printed, unit)
            if fault:
                run.refuse(key, fault, record.place(path))
            elif is_samples:
                run.sample(key, base, value, record.place(path), per=per, step=step)
            else:
                run.value(key, base, value, record.place(path), per=per)

    def measured(self, value: Any, unit: Known) -> tuple[object, str]:
        """Return a value without its unit, and why it cannot be a measurement, if it cannot."""
        quantity = split_value(value) if isinstance(value, str) else None
        if quantity is not None:
            if not any(metric.unit.text == IN_VALUE for metric in self.mapping.metrics):
                return value, f"{value[:40]!r} is a number with a unit: write `unit: in-value`; left out"
            if quantity[1] != unit:
                return value, f"{value[:40]!r} is in another unit than the values before; left out"
            return quantity[0], ""
        if isinstance(value, dict | list):
            what = "an object" if isinstance(value, dict) else "a list in a list"
            return value, f"the value is {what}: write the path to the number in it, or `ignore` it; left out"
        if value is None or value == "":
            return value, "the value is empty; left out" if value == "" else "the value is null; left out"
        if isinstance(value, str) and number(value) is None and self.has_keys:
            return value, f"{shown(value)} is not a number: use it in `labels` or `facts`, or `ignore` it; left out"
        return value, checked(value, unit[0])[1] or ""

    @property
    def has_keys(self) -> bool:
        """Return whether the metrics are the keys of an object, which may have other keys, too."""
        return self.mapping.records is not None and "metric" in self.mapping.records.names

    # --- the whole file ---------------------------------------------------------------------------------------------

    def add_facts(self, run: RunBuilder, record: Record) -> None:
        """Add the facts of a record to its run; the first value of a file counts."""
        for name, path in self.mapping.facts:
            for one in record.find(path):
                value = one.value
                if one.missing or value is None:
                    continue
                if not isinstance(value, str | int | float):
                    self.whole.json = record.json
                    self.whole.say("error", f"the fact {name} is not a text or number", record.place(one.path))
                    continue
                self.found[f"fact {name}"] += 1
                known = self.facts.setdefault(name, value if not isinstance(value, str) else value[:_LONGEST])
                run.facts[name] = known
                if fact_text(known) != fact_text(value)[:_LONGEST]:
                    message = f"the fact {name} is {shown(value)} here and {shown(known)} before: is it a label?"
                    self.whole.json = record.json
                    self.whole.say("error", message, record.place(one.path))
        if self.mapping.commit:
            for one in record.find(self.mapping.commit):
                run.commit = one.value if isinstance(one.value, str) and one.value else run.commit

    def report_never_found(self) -> None:
        """Report metrics, labels and facts that no record has: their paths are probably wrong."""
        for metric in self.mapping.metrics:
            if (metric.is_optional or self.mapping.patterns) and not self.found[f"metric {metric.name.text}"]:
                self.whole.say("error", f"{self.mapping.title}: no record has the metric {metric.name.text}")
        for what, pairs in (("label", self.mapping.labels), ("fact", self.mapping.facts)):
            for name, path in pairs:
                if not self.found[f"{what} {name}"]:
                    self.whole.say("error", f"{self.mapping.title}: no record has the {what} {name} (`{path.text}`)")


def _text(value: object) -> str | None:
    """Return a scalar as text; None for anything else."""
    if value is None or not isinstance(value, str | int | float):
        return None
    return " ".join(fact_text(value).split())[:_LONGEST]


def _flat(values: list[FoundValue]) -> Iterator[tuple[Path, Any]]:
    """Yield each value, and each item of a list, with its path."""
    for one in values:
        if isinstance(one.value, list):
            yield from (((*one.path, index), item) for index, item in enumerate(one.value))
        else:
            yield one.path, one.value
