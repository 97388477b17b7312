"""perfgate's own results, `perfgate.results/1`: what `perfgate.Recorder` writes, and anyone can by hand.

    {"schema": "perfgate.results/1", "environment": {"gpu": "NVIDIA H200", "world_size": 8}, "commit": "4f2a9c1",
     "series": [{"metric": "forward", "labels": {"rank": "0"}, "unit": "s", "values": [0.361, 0.362], "steps": [8, 9]},
                {"metric": "load", "unit": "s", "aggregate": {"mean": 0.2, "count": 40, "total": 8.0}},
                {"metric": "memory.peak", "unit": "GiB", "value": 22.9}]}

`runs: [...]` of the same shape holds several runs. Units are those of `core.units`; values come out in base units.
Reading is strict: this format is written for perfgate, so whatever is unknown in it is a mistake.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from perfgate.core import Key, Kind, Problem, Run, Series, read_only
from perfgate.core.units import BASE_UNITS, UNITS, Unit, find_unit
from perfgate.documents.json import JsonDocument, Path, load_json
from perfgate.documents.struct_errors import violation
from perfgate.readers.builder import MAX_FAULTS, RunBuilder
from perfgate.readers.complaints import Complaints
from perfgate.readers.text import Document

if TYPE_CHECKING:
    from perfgate.core.runs import Steps, Values
    from perfgate.readers.recorded.results_form import Aggregate, RunForm, SeriesForm

Form = TypeVar("Form")

NAME = "perfgate"

#: The fields of every object, to suggest one of.
_FIELDS = ("schema", "environment", "commit", "series", "runs", "metric", "labels", "unit", "values", "value", "steps")
_STATISTICS = ("aggregate", "mean", "count", "total", "min", "max", "median", "stddev")


def read(document: Document) -> tuple[Run, ...]:
    """The runs of a results document."""
    text = document.whole()
    if text is None:
        return (RunBuilder(document, NAME).run(),)
    loaded = load_json(text, document.name, document.limits)
    if loaded.data is None:
        run = RunBuilder(document, NAME)
        for problem in loaded.problems:
            run.add_problem(problem)
        return (run.run(),)
    return _Reading(document, loaded).runs()


@dataclass(frozen=True, slots=True)
class _Target:
    """The series that is being read: where it goes, and where it stands."""

    run: RunBuilder
    key: Key
    unit: Unit
    path: Path

    def finish(
        self, kind: Kind, values: Values, steps: Steps | None, aggregate: Mapping[str, float] = MappingProxyType({})
    ) -> None:
        """Hand the series to its run, in base units."""
        self.run.finish(Series(self.key, self.unit.base, kind, values, steps, MappingProxyType(dict(aggregate))))


class _Reading:
    """A results document while it is read."""

    def __init__(self, document: Document, loaded: JsonDocument) -> None:
        self.document = document
        self.loaded = loaded
        self.complaints = Complaints(loaded)

    def runs(self) -> tuple[Run, ...]:
        """Every run; a document of wrong form is one run with the error."""
        from perfgate.readers.recorded.results_form import RunForm, SeveralForm, SingleForm

        data = self.loaded.data
        if not (isinstance(data, dict) and "runs" in data):
            run = self._run(SingleForm, data, ())
            self.complaints.settle()
            return (run.run(),)
        first = RunBuilder(self.document, NAME)
        several = self._convert(first, SeveralForm, data, ())
        several_runs = enumerate(several.runs) if several else ()
        members = [self._run(RunForm, run, ("runs", index)) for index, run in several_runs]
        self.complaints.settle()
        return tuple(run.run(part) for part, run in enumerate(members, 1)) or (first.run(),)

    def _run(self, form: type[RunForm], data: object, path: Path) -> RunBuilder:
        from perfgate.readers.recorded.results_form import SeriesForm

        self.document.count("runs")
        run = RunBuilder(self.document, NAME)
        for problem in self._faults(path):
            run.add_problem(problem)
        written = self._convert(run, form, data, path)
        if written:
            for name, value in written.environment.items():
                self.document.count("facts", before=run.problems)
                run.facts[name] = value
            run.commit = written.commit
            for index, member in enumerate(written.series):
                place = (*path, "series", index)
                series = self._convert(run, SeriesForm, member, place)
                if series:
                    self._add(run, series, place)
        return run

    def _faults(self, path: Path) -> Iterable[Problem]:
        """What the JSON itself has wrong in this run; numbers that are not finite are refused with their series."""
        for fault in self.loaded.faults:
            measured = "values" in fault.path[-2:] and isinstance(fault.path[-1], int)
            elsewhere = fault.path[:1] == ("runs",) and len(fault.path) > 1 and fault.path[: len(path)] != path
            if not elsewhere and not measured:
                yield fault.problem

    def _convert(self, run: RunBuilder, form: type[Form], data: object, path: Path) -> Form | None:
        """Data of a form; or None, and a problem at its place."""
        import msgspec

        try:
            return msgspec.convert(data, form)
        except msgspec.ValidationError as error:
            found = violation(error, _FIELDS + _STATISTICS)
            self._say(run, found.message, (*path, *found.path))
            return None

    def _say(self, run: RunBuilder, message: str, path: Path) -> None:
        self.complaints.say(run, "error", message, path)

    def _add(self, run: RunBuilder, written: SeriesForm, path: Path) -> None:
        """One series, in base units."""
        key = Key.of(written.metric, **written.labels)
        unit = find_unit(written.unit) or (Unit("1", "1", 1.0) if written.unit == "1" else None)
        if unit is None:
            nearest = difflib.get_close_matches(written.unit, [*UNITS, *BASE_UNITS], 1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            self._say(run, f"unknown unit {written.unit!r}{hint}", (*path, "unit"))
        elif key in run.finished:
            self._say(run, f"the series {key} stands twice; the first is used", path)
        elif fault := _mismatch(written):
            self._say(run, f"{key}: {fault}", path)
        elif written.aggregate:
            self._aggregate(_Target(run, key, unit, path), written.aggregate)
        else:
            self._numbers(_Target(run, key, unit, path), written)

    def _numbers(self, target: _Target, written: SeriesForm) -> None:
        """`values` or `value`; numbers that cannot be true are refused, each with its place."""
        single = [written.value] if isinstance(written.value, float) else []
        values = np.array(written.values or single, np.float64)
        good = _possible(values, target.unit)
        bad = np.flatnonzero(~good)
        shown = [int(index) for index in bad[:MAX_FAULTS]]
        self._refuse(target, {("values", index) if written.values else ("value",): values[index] for index in shown})
        if len(bad) > MAX_FAULTS:
            target.run.refuse_more(target.key, len(bad) - MAX_FAULTS)
        if good.any():
            kind: Kind = "samples" if written.values else "value"
            steps = read_only(np.array(written.steps, np.int64)[good]) if written.steps else None
            target.finish(kind, read_only(_scaled(values[good], target.unit)), steps)

    def _aggregate(self, target: _Target, written: Aggregate) -> None:
        """Statistics as they were written, in base units; `count` has none."""
        kept = {}
        for name, number in _statistics(written).items():
            value = np.array([number], np.float64)
            if name == "count":
                kept[name] = float(number)
            elif _possible(value, target.unit)[0]:
                kept[name] = float(_scaled(value, target.unit)[0])
            else:
                self._refuse(target, {("aggregate", name): number})
        if kept:
            target.finish("aggregate", read_only(np.empty(0)), None, kept)

    def _refuse(self, target: _Target, numbers: Mapping[Path, float]) -> None:
        """Numbers of a series, by their paths in it, that cannot be measurements."""
        for path, number in numbers.items():
            why = f"{number} {target.unit.symbol} is no measurement; left out"
            self.complaints.refuse(target.run, target.key, why, (*target.path, *path))


def _mismatch(written: SeriesForm) -> str | None:
    """What is wrong with a series that its form does not say."""
    from msgspec import UNSET

    given = [name for name in ("values", "value", "aggregate") if getattr(written, name) is not UNSET]
    if len(given) != 1:
        return f"one of 'values', 'value' and 'aggregate' is needed; it has {' and '.join(given) or 'none'}"
    if written.steps is not UNSET and (not written.values or len(written.steps) != len(written.values)):
        return f"{len(written.steps)} steps for {len(written.values or ())} values"
    if written.aggregate and not _statistics(written.aggregate):
        return "an aggregate without statistics"
    return None


def _statistics(written: Aggregate) -> dict[str, float]:
    """The statistics that were written."""
    from msgspec import structs

    return {name: number for name, number in structs.asdict(written).items() if isinstance(number, int | float)}


def _possible(values: Values, unit: Unit) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which values can be measurements: finite ones, and no time below zero."""
    finite = np.isfinite(values)
    return finite & (values >= 0) if unit.base == "s" else finite


def _scaled(values: Values, unit: Unit) -> Values:
    """Values in base units; dividing by 1000 is exact where multiplying by 0.001 is not."""
    return values * unit.factor if unit.factor >= 1 else values / round(1 / unit.factor)
