"""Make runs from the records of a file: metrics with units and labels, repetitions, steps and facts.

A record is known by its labels. The n-th record with equal labels belongs to the n-th run (`readers.records`), or is
one more sample of the only run. Records with equal labels that differ in another text or whole number are an error:
they are probably no repetitions, and would be judged as if they were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from functools import partial
from math import nan
from typing import Any

from msgspec.structs import replace

from perfgate.core import Fact, Key, Run, fact_text
from perfgate.core.conditions import Labels
from perfgate.core.file_mappings import FileMapping
from perfgate.mappings.paths import FoundValue, keys_of
from perfgate.mappings.record_metrics import LONGEST, MissingField, RecordMetrics, flat, scalar_text
from perfgate.mappings.record_source import FileRecords, Record
from perfgate.mappings.units import IN_VALUE, split_value
from perfgate.mappings.usual_records import Fingerprints, UsualRecords
from perfgate.readers.alike_lines import AlikeLines
from perfgate.readers.builder import RunBuilder
from perfgate.readers.runs import RecordRuns, Runs
from perfgate.readers.text import InputFile
from perfgate.readers.values import Known, number, shown

#: Steps are kept as int64.
_MOST_STEPS = 1 << 62


def read_mapped(file: InputFile, mapping: FileMapping) -> tuple[Run, ...]:
    """Return the runs of a file that a mapping fits, at least one."""
    return _MappedFile(file, mapping).read()


def _other_unit(value: Any) -> str:
    text = repr(value[:40]) if isinstance(value, str) else shown(value)
    return f"{text} is in another unit than the values before; left out"


class _MappedFile:
    """A data file while it is read through its mapping: `read` adds each record to a run."""

    def __init__(self, file: InputFile, mapping: FileMapping) -> None:
        self.file, self.mapping = file, mapping
        #: Gets the problems that belong to no run.
        self.whole = RunBuilder(file, mapping.name)
        #: The runs, if records with equal labels are repetitions.
        self.records = RecordRuns(file, mapping.name)
        #: The runs, if records with equal labels are samples of one run; else None.
        is_samples = mapping.repeats == "samples"
        self.samples = Runs(lambda: RunBuilder(file, mapping.name)) if is_samples else None
        #: Finds records that do not repeat each other, though their labels are equal.
        self.fingerprints = Fingerprints(mapping)
        #: The number of times that each label and each metric was found.
        self.found = Counter[str]()
        #: Finds the series in a record.
        self.metrics = RecordMetrics(self.whole, self.found)
        #: The first value of each fact.
        self.facts: dict[str, Fact] = {}
        #: The paths of members of the document that labels and facts use: they are not records.
        tops = [path for _, path in (*mapping.labels, *mapping.facts) if path.is_from_top]
        self.used = frozenset(map(keys_of, [*tops, *filter(None, [mapping.commit])]))
        #: Reads lines that differ only in digits many at once. Its `current` is the step of the last record.
        self.alike = AlikeLines(file)
        self.alike.current = 0 if mapping.step else None
        #: Adds the records that are like an earlier one; None if each is read in full.
        self.usual = UsualRecords(mapping, self.samples) if self.samples and UsualRecords.fits(mapping) else None
        # `AlikeLines` has put itself there; None means that the file is read line by line.
        file.alike = self.alike if self.usual and self.usual.is_of_lines else None
        #: True if a fact of the record differs from the first one of the file.
        self.contradicts = False

    def read(self) -> tuple[Run, ...]:
        """Return the runs; the first one has the problems of the whole file."""
        mapping = self.mapping
        note = partial(self.usual.note, self.alike) if self.usual and self.file.alike else None
        records = FileRecords(self.file, mapping, self.whole, self.add_usual, note)
        count = wanted = 0
        for record in records.read():
            count += 1
            if self.is_wanted(record):
                wanted += 1
                self.add(record)
        if wanted or records.taken:
            self.report_never_found()
        else:
            self.report_no_record(count)
        self.whole.close()  # adds the last problems to those that the first run gets below
        runs = self.samples.finish() if self.samples is not None else self.records.finish()
        # The error says enough: each of `runs` also says "no measurements".
        if not any(run.series for run in runs) and self.has_error():
            return (Run(self.file.name, mapping.name, (), (*self.file.problems, *self.whole.problems)),)
        first, *others = runs or (self.whole.run(),)
        return (replace(first, problems=(*first.problems, *self.whole.problems)), *others)

    def has_error(self) -> bool:
        """Return whether an error says why there are no values."""
        if self.whole.json:
            self.whole.json.report_waiting()
        return any(one.severity == "error" for one in (*self.file.problems, *self.whole.problems))

    def is_wanted(self, record: Record) -> bool:
        """Return whether the mapping is about a record."""
        last = record.path[-1] if record.path else None
        if isinstance(last, str) and (last in self.mapping.ignore or record.path in self.used):
            return False
        for path, wanted in self.mapping.where:
            texts = {scalar_text(found.value) for found in record.find(path) if not found.missing}
            if texts.isdisjoint(wanted):
                return False
        return True

    def add_usual(self, data: Any, line: int) -> bool:
        """Add a record that is like an earlier one; return False for any other."""
        step = self.usual.add(data, line, self.alike.current or 0) if self.usual is not None else None
        if step is not None and self.mapping.step:
            self.alike.current = step
        return step is not None

    def add(self, record: Record) -> None:
        """Add the values of a record. A missing value is a problem."""
        self.contradicts = False
        try:
            labels = tuple(sorted(self.labels(record)))
            step = self.step(record)
        except MissingField as missing:
            record.report(self.whole, missing.message, missing.path)
            return
        runs: dict[Hashable, RunBuilder] = {}  # the runs of the values of this record, by labels or by key
        for metric in self.mapping.metrics:
            for key, unit, values in self.metrics.series(record, metric, labels):
                # Records repeat each other if their labels are equal or, with names from the records, their keys.
                identity: Hashable = key if metric.name.fields or "metric" in record.kept else key.labels
                # If two names from a record are equal, the second is one more repetition.
                if metric.name.fields or identity not in runs:
                    runs[identity] = self.run_of(identity, record, step)
                self.add_values(runs[identity], key, unit, values, record, step)
        self.learn(record, labels, runs.get(labels))

    def learn(self, record: Record, labels: Labels, run: RunBuilder | None) -> None:
        """Keep a record as an example, so that records like it are added without looking for their fields again."""
        if self.usual and run and not self.contradicts and self.fingerprints.is_repetition(labels, record):
            keys = [self.metrics.key_of(metric, labels) for metric in self.mapping.metrics]
            self.usual.learn(record.data, [run.columns.get(key) if key else None for key in keys])

    def run_of(self, identity: Hashable, record: Record, step: int | None) -> RunBuilder:
        """Return the run of a record, with its facts; report it if it does not repeat the first of its identity."""
        if difference := self.fingerprints.difference(identity, record):
            record.report(self.whole, difference, record.path)
        if self.samples is None:
            run = self.records.run_of(identity, record.json)
        else:
            if step is not None:
                self.samples.count("step", step, record.line)
            run = self.samples.run
            run.json = record.json
        self.add_facts(run, record)
        return run

    def labels(self, record: Record) -> Iterator[tuple[str, str]]:
        """Yield the names and values of the labels of a record. Raises MissingField."""
        for name, path in self.mapping.labels:
            found = [one for one in record.find(path) if not one.missing and one.value is not None]
            if len(found) > 1 or any(scalar_text(one.value) is None for one in found):
                raise MissingField(f"the label {name}: `{path.text}` is not a single text or number", found[0].path)
            for one in found:
                self.found[f"label {name}"] += 1
                yield name, scalar_text(one.value) or ""
        yield from ((name, text[:LONGEST]) for name, text in record.kept.items() if name != "metric")

    def step(self, record: Record) -> int | None:
        """Return the step of a record, or that of the lines before; None without steps. Raises MissingField."""
        path = self.mapping.step
        if path is None:
            return None
        if record.is_elsewhere(path):
            return self.alike.current
        one = next(iter(record.find(path)), FoundValue(record.path, None, {}, repr(path.text)))
        value = number(one.value) if isinstance(one.value, str) else one.value
        step = value if isinstance(value, int | float) and not isinstance(value, bool) else nan
        if one.missing or not abs(step) < _MOST_STEPS or step != int(step):
            what = f"there is no {one.missing}" if one.missing else f"{shown(one.value)} is not a whole number"
            raise MissingField(f"the step `{path.text}`: {what}; the record is left out", one.path)
        self.alike.current = int(step)
        return self.alike.current

    def add_values(
        self, run: RunBuilder, key: Key, unit: Known, values: list[FoundValue], record: Record, step: int | None
    ) -> None:
        """Add the values of one series in one record: a single value, or samples. A series has one unit in a run."""
        base, per = unit
        known = run.columns.get(key)
        is_other = known is not None and (known.unit, known.per) != unit  # 2 s after 1 ms: the number alone would lie
        is_samples = self.mapping.repeats == "samples" or len(values) > 1 or isinstance(values[0].value, list)
        for path, printed in flat(values):
            value, fault = self.measured(printed, unit)
            if fault or is_other:
                run.refuse(key, fault or _other_unit(printed), record.place(path))
            elif is_samples:
                run.sample(key, base, value, record.place(path), per=per, step=step)
            else:
                run.value(key, base, value, record.place(path), per=per)

    def measured(self, value: Any, unit: Known) -> tuple[object, str]:
        """Return a value without its unit, and why it is left out; "" if it is not, or if the series refuses it."""
        if isinstance(value, int | float) or (isinstance(value, str) and number(value) is not None):
            return value, ""
        if isinstance(value, str):
            return self.measured_text(value, unit)
        if value is None:
            return value, "the value is null; left out"
        what = "an object" if isinstance(value, dict) else "a list in a list"
        return value, f"the value is {what}: write the path to the number in it, or `ignore` it; left out"

    def measured_text(self, value: str, unit: Known) -> tuple[str, str]:
        """Return what `measured` does for a text that is not a number, but may be one with a unit."""
        quantity = split_value(value)
        if quantity is not None and not any(metric.unit.text == IN_VALUE for metric in self.mapping.metrics):
            return value, f"{value[:40]!r} is a number with a unit: write `unit: in-value`; left out"
        if quantity is not None:
            return quantity[0], "" if quantity[1] == unit else _other_unit(value)
        if value == "":
            return value, "the value is empty; left out"
        records = self.mapping.records
        if records is not None and "metric" in records.names:  # every member was taken for a metric, also this text
            return value, f"{shown(value)} is not a number: use it in `labels` or `facts`, or `ignore` it; left out"
        return value, ""

    def add_facts(self, run: RunBuilder, record: Record) -> None:
        """Add the facts and the commit of a record to its run."""
        for name, path in self.mapping.facts:
            for found in record.find(path):
                if not found.missing and found.value is not None:
                    self.add_fact(run, name, found, record)
        for found in record.find(self.mapping.commit) if self.mapping.commit else ():
            if isinstance(found.value, str) and found.value:
                run.commit = found.value

    def add_fact(self, run: RunBuilder, name: str, found: FoundValue, record: Record) -> None:
        """Add a fact of a record to its run; the first value of a file counts."""
        value = found.value
        if not isinstance(value, str | int | float):
            record.report(self.whole, f"the fact {name} is not a text or number", found.path)
            return
        self.found[f"fact {name}"] += 1
        first = self.facts.setdefault(name, value[:LONGEST] if isinstance(value, str) else value)
        run.facts[name] = first
        if fact_text(first) != fact_text(value)[:LONGEST]:
            self.contradicts = True
            message = f"the fact {name} is {shown(value)} here and {shown(first)} before: is it a label?"
            record.report(self.whole, message, found.path)

    def report_no_record(self, count: int) -> None:
        """Report that the mapping reads none of the `count` records of the file."""
        mapping = self.mapping
        if count:
            wanted = " and ".join(f"{path.text} = {' or '.join(values)}" for path, values in mapping.where)
            self.whole.say("error", f"{mapping.title}: none of the {count} records has {wanted or 'a number'}")
        elif not self.has_error():
            searched = f": there is nothing at `{mapping.records.text}`" if mapping.records is not None else ""
            searched = f": no line is like `{mapping.patterns[0].text}`" if mapping.patterns else searched
            self.whole.say("error", f"{mapping.title} finds no record in this file{searched}")

    def report_never_found(self) -> None:
        """Report metrics, labels and facts that no record has: their paths are probably wrong."""
        # If a metric is not optional, `RecordMetrics.missing` has reported each record without it, except for patterns:
        # the field may be in another line.
        for metric in self.mapping.metrics:
            if (metric.is_optional or self.mapping.patterns) and not self.found[f"metric {metric.name.text}"]:
                self.whole.say("error", f"{self.mapping.title}: no record has the metric {metric.name.text}")
        for what, pairs in (("label", self.mapping.labels), ("fact", self.mapping.facts)):
            for name, path in pairs:
                if not self.found[f"{what} {name}"]:
                    self.whole.say("error", f"{self.mapping.title}: no record has the {what} {name} (`{path.text}`)")
