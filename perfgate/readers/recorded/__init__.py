"""perfgate's own results, `perfgate.results/1`: what `perfgate.Recorder` writes, and anyone can by hand.

    {"schema": "perfgate.results/1", "environment": {"gpu": "NVIDIA H200", "world_size": 8}, "commit": "4f2a9c1",
     "series": [{"metric": "forward", "labels": {"rank": "0"}, "unit": "s", "values": [0.361, 0.362], "steps": [8, 9]},
                {"metric": "load", "unit": "s", "aggregate": {"mean": 0.2, "count": 40, "total": 8.0}},
                {"metric": "memory.peak", "unit": "GiB", "value": 22.9}]}

`runs: [...]` has several such objects. Units are those of `core.units`; values come out in base units. Reading is
strict: this format is written for perfgate, so whatever is unknown in it is a mistake. msgspec checks a document by the
classes `...Form`; `schemas/results.schema.json` has the same rules for editors.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from perfgate.core.units import BASE_UNITS, UNITS, Unit
from perfgate.core.wording import WHOLE_TIME
from perfgate.documents.json import JsonDocument, Path, load_json
from perfgate.documents.structs import violation
from perfgate.readers.kit import AGAIN, Format, InputFile, JsonSource, Key, Place, Run, RunBuilder, in_base
from perfgate.readers.recorded.number_lists import LARGEST_STEP, Numbers, without_lists
from perfgate.readers.recorded.run_times import add_run_times

if TYPE_CHECKING:
    from perfgate.readers.recorded.large_results import AllNumbers, LargeNumbers

NAME = "perfgate"
METRICS = "whatever was recorded"
CHECKED = "perfgate itself"
FORMAT = Format(NAME, __name__, keys="schema", outline=lambda document: document.schema("perfgate.results/"))
#: A larger document is read in bounded memory: as a whole it would need five times its size.
WHOLE_BYTES = 64 << 20
#: From this size on, bounded memory is faster, too, if the lists are long: at most 2 of them begin in the file's head.
_LONG_LISTS_BYTES, _LISTS_IN_HEAD = 4 << 20, 2
INCOMPLETE = "the recording is incomplete"
_FEWER = " (reading needs five times as much memory), or record fewer values: every tenth step, or an `aggregate`"
Form = TypeVar("Form")
Name = Annotated[str, Meta(min_length=1)]
#: The fields of every object, to suggest one of them.
_FIELDS = (
    *("schema", "environment", "commit", "incomplete", "series", "runs", "call_tree"),
    *("metric", "labels", "unit", "values", "value", "steps"),
)
_STATISTICS = ("aggregate", "mean", "count", "total", "min", "max", "median", "stddev")


class Aggregate(Struct, forbid_unknown_fields=True):
    """Statistics of values that were not kept, in the series' unit; `count` is a number of values."""

    mean: float | UnsetType = UNSET
    count: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    total: float | UnsetType = UNSET
    min: float | UnsetType = UNSET
    max: float | UnsetType = UNSET
    median: float | UnsetType = UNSET
    stddev: float | UnsetType = UNSET


class SeriesForm(Struct, forbid_unknown_fields=True):
    """One metric: its `values`, its one `value`, or its `aggregate`."""

    metric: Name
    unit: str
    labels: dict[Name, str] = {}
    values: Annotated[list[float], Meta(min_length=1)] | UnsetType = UNSET
    value: float | UnsetType = UNSET
    aggregate: Aggregate | UnsetType = UNSET
    steps: list[Annotated[int, Meta(ge=0, le=LARGEST_STEP)]] | UnsetType = UNSET


class RunForm(Struct, forbid_unknown_fields=True):
    """One run of several. The series are checked one by one, so that a wrong one does not hide the others."""

    series: Annotated[list[object], Meta(min_length=1)]
    environment: dict[Name, str | int | float | bool] = {}
    commit: str | None = None
    #: The reasons why the recording is incomplete.
    incomplete: list[Name] = []
    #: The calls of the profiled steps: see `documents.tree_texts`.
    call_tree: str = ""


class SingleForm(RunForm, forbid_unknown_fields=True, kw_only=True):
    """A document that is one run."""

    schema: Literal["perfgate.results/1"]


class SeveralForm(Struct, forbid_unknown_fields=True):
    """A document with several runs."""

    schema: Literal["perfgate.results/1"]
    runs: Annotated[list[object], Meta(min_length=1)]


class RecordedRun(RunBuilder):
    """A run with the call tree of its profiled steps, if it has one."""

    call_tree = ""

    def run(self, part: int | None = None) -> Run:
        """Return the finished run."""
        found = super().run(part)
        if not self.call_tree:
            return found
        from perfgate.documents.tree_texts import StoredTrees

        return replace(found, call_trees=StoredTrees(self.call_tree))


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a results document; a document of wrong form is one run with the error."""
    if (document := _document(file)) is None:
        return (RunBuilder(file, NAME).run(),)
    source, lists = document
    data = source.loaded.data
    first = RunBuilder(file, NAME, source)
    if data is None:
        for problem in source.loaded.problems:
            first.say(problem.severity, problem.message, source.moved(problem.at))  # its place in the whole file
        return (first.run(),)
    if not (isinstance(data, dict) and "runs" in data):
        return (_read_run(file, source, lists, SingleForm, data, ()).run(),)
    several = _convert(first, SeveralForm, data, ())
    members = enumerate(several.runs) if several else ()
    runs = [_read_run(file, source, lists, RunForm, run, ("runs", index)) for index, run in members]
    return tuple(run.run(part) for part, run in enumerate(runs, 1)) or (first.run(),)


def _document(file: InputFile) -> tuple[JsonSource, Sequence[Numbers] | AllNumbers] | None:
    """Return the document, and the lists that were taken out of it; None, and a problem, if it is too large.

    The lists are a sequence, which is empty if the document still has its numbers; of a large document, `AllNumbers`.
    """
    scratch = file.source.scratch  # opens temporary files for numbers; None if there is none
    if scratch is None:
        text = file.whole(_FEWER)
    else:
        are_long = file.head().count(b'"values"') <= _LISTS_IN_HEAD
        most = min(WHOLE_BYTES, _LONG_LISTS_BYTES) if are_long else WHOLE_BYTES  # tests make WHOLE_BYTES small
        text = file.within(min(file.limits.document_bytes, most))
    if text is not None:
        loaded, lists = _load(text, file)
        return JsonSource(loaded), lists
    if scratch is None:
        return None
    from perfgate.readers.recorded.large_results import load_large

    return load_large(file, scratch)


def _load(text: str, file: InputFile) -> tuple[JsonDocument, Sequence[Numbers]]:
    """Return the document, in which each list of numbers has only its index, and the lists.

    If the document or a list is unusual, return the document with all its numbers, and no lists.
    """
    if found := without_lists(text):
        rest, lists = found
        loaded = load_json(rest, file.name, file.limits)
        if not loaded.faults:
            return replace(loaded, text=text), lists  # places are searched for in the whole text
    return load_json(text, file.name, file.limits), ()


def _read_run(
    file: InputFile,
    source: JsonSource,
    lists: Sequence[Numbers] | AllNumbers,
    form: type[RunForm],
    data: object,
    path: Path,
) -> RecordedRun:
    """Return the run in `data`, which is at `path` of the document and must have this form."""
    file.count("runs")
    run = RecordedRun(file, NAME, source)
    for fault in source.loaded.faults:
        # Values that are not finite are refused with their series; a fault in another run is reported there.
        is_value = "values" in fault.path[-2:] and isinstance(fault.path[-1], int)  # ends with "values", 3
        elsewhere = fault.path[:1] == ("runs",) and len(fault.path) > 1 and fault.path[: len(path)] != path
        if not elsewhere and not is_value:
            run.say(fault.problem.severity, fault.problem.message, source.moved(fault.problem.at))
    written = _convert(run, form, data, path)
    if written is None:
        return run
    for name, value in written.environment.items():
        file.count("facts", before=run.problems)
        run.facts[name] = value
    run.commit = written.commit
    run.call_tree = written.call_tree
    for at, reason in enumerate(written.incomplete):
        run.say("warning", INCOMPLETE, (*path, "incomplete", at), f": {reason}")
    for index, member in enumerate(written.series):
        place = (*path, "series", index)
        if series := _convert(run, SeriesForm, member, place):
            _add(run, _with_lists(series, lists) if lists else series, lists, place)
    if any(key.metric == WHOLE_TIME for key in run.finished):
        add_run_times(run)
    return run


def _convert(run: RunBuilder, form: type[Form], data: object, path: Path) -> Form | None:
    """Return data as a form; or None, and a problem at its place."""
    try:
        return msgspec.convert(data, form)
    except msgspec.ValidationError as error:
        found = violation(error, _FIELDS + _STATISTICS)
        step = ": this version of perfgate reads 'perfgate.results/1'" if found.path == ("schema",) else ""
        run.say("error", f"{found.message}{step}", (*path, *found.path))
        return None


def _with_lists(series: SeriesForm, lists: Sequence[Numbers] | AllNumbers) -> SeriesForm:
    """Return a series with its numbers instead of what was left of its lists: the index comes first."""

    def found(left: Sequence[float]) -> Numbers | LargeNumbers:
        return lists[int(left[0])] if isinstance(lists, Sequence) else lists.of(left)

    values, steps = (found(field) if field else field for field in (series.values, series.steps))
    return msgspec.structs.replace(series, values=values, steps=steps)


def _add(run: RunBuilder, written: SeriesForm, lists: Sequence[Numbers] | AllNumbers, path: Path) -> None:
    """Add one series, in base units; numbers that cannot be true are refused, each with its place."""
    key = Key.of(written.metric, **written.labels)
    if (unit := unit_of(written.unit)) is None:
        nearest = difflib.get_close_matches(written.unit, [*UNITS, *BASE_UNITS], 1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        run.say("error", f"unknown unit {written.unit!r}{hint}", (*path, "unit"))
    elif key in run.finished:
        run.refuse(key, AGAIN, path)
    elif fault := _mismatch(written):
        run.say("error", f"{key}: {fault}", path)
    elif written.aggregate:
        _add_aggregate(run, key, written.aggregate, unit, (*path, "aggregate"))
    elif written.values is not UNSET:
        per, steps = per_base(unit), () if written.steps is UNSET else written.steps
        add: Callable[..., None] = run.samples if isinstance(lists, Sequence) else partial(lists.add_to, run)
        add(key, unit.base, written.values, lambda at: (*path, "values", at), per=per, steps=steps)
        run.file.coverage.mark(run.json, (*path, "values"))  # all were read, or are reported
    elif isinstance(written.value, float) and is_possible(run, key, written.value, unit, (*path, "value")):
        run.one_value(key, unit.base, in_base(written.value, per_base(unit)))


def _add_aggregate(run: RunBuilder, key: Key, written: Aggregate, unit: Unit, path: Path) -> None:
    kept = {}
    for name, number in _statistics(written).items():
        if name == "count":
            kept[name] = float(number)
        elif is_possible(run, key, number, unit, (*path, name)):
            kept[name] = in_base(float(number), per_base(unit))
    run.aggregate(key, unit.base, kept)


def is_possible(run: RunBuilder, key: Key, number: float, unit: Unit, at: Place) -> bool:
    """Return whether a number can be a measurement; it is refused if not."""
    run.file.coverage.mark(run.json, at, number)  # it was read, or is reported
    possible = math.isfinite(number) and (unit.base != "s" or number >= 0)
    if not possible:
        run.refuse(key, f"{number} {unit.symbol} is not a measurement; left out", at)
    return possible


def _mismatch(written: SeriesForm) -> str | None:
    """Return what is wrong with a series that its form does not show."""
    fields = (("values", written.values), ("value", written.value), ("aggregate", written.aggregate))
    given = [name for name, value in fields if value is not UNSET]
    if len(given) != 1:
        return f"a series needs one of 'values', 'value' and 'aggregate'; it has {' and '.join(given) or 'none'}"
    values = 0 if written.values is UNSET else len(written.values)
    if written.steps is not UNSET and (not values or len(written.steps) != values):
        return f"{len(written.steps)} steps for {values} values"
    if written.aggregate and not _statistics(written.aggregate):
        return "an aggregate without statistics"
    return None


def _statistics(written: Aggregate) -> dict[str, float]:
    return {name: number for name, number in msgspec.structs.asdict(written).items() if isinstance(number, int | float)}


def unit_of(text: str) -> Unit | None:
    """Return the unit with this symbol; None if there is none."""
    return UNITS.get(text) or (Unit("1", "1", 1.0) if text == "1" else None)


def per_base(unit: Unit) -> float:
    """Return how many of a unit are one base unit; division by 1000 is exact, but not multiplication by 0.001."""
    return 1 / unit.factor if unit.factor > 1 else float(round(1 / unit.factor))
