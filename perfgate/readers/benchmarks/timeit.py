"""Timing results: lists of seconds under `times`, as JSON, as JSON inside a log, or as printed Python objects.

    {"computation": "forward", "times": [0.0785, 0.0738], "profile_steps": 2}
    {"small": {"times": [...]}, "medium": {"times": [...]}}        [{"name": "small", "times": [...]}, ...]
    ProfilingResult(computation='forward', times=[0.0785, 0.0738], profile_steps=2)

The metric is `computation`, else the name, else `time`; the name is the label. In a
log the name is what the last line `Running profile for: NAME` said. Results that nothing tells apart get the label
`index`. Means and medians beside the times are not read: they follow from them. Units: s.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from perfgate.core import Key, Problem, Run
from perfgate.documents.json import JsonDocument, Path, cut_back, load_json
from perfgate.readers.builder import MAX_FAULTS, RunBuilder, fault_of
from perfgate.readers.complaints import Complaints
from perfgate.readers.embedded import BROKEN, Call, Embedded, embedded
from perfgate.readers.sniffing import is_json
from perfgate.readers.text import Document

NAME = "timeit"

#: Between documents: the name of the next result, or times that belong to a document which was broken off.
_BETWEEN = re.compile(r'Running profile for:\s*(\S(?:.*\S)?)|"times"\s*:')


@dataclass(frozen=True, slots=True)
class _Result:
    """One list of times and where it stands."""

    fields: Mapping[str, Any]
    name: str | None
    line: int
    #: The line of each time, or the document in which they stand, and where.
    at: Complaints | Call
    path: Path = ()

    def key(self) -> Key:
        """Without `computation` the name is the metric, and no label."""
        computation = self.fields.get("computation")
        if not isinstance(computation, str) or not computation:
            return Key(self.name or "time")
        return Key.of(computation, name=self.name) if self.name else Key(computation)


def read(document: Document) -> tuple[Run, ...]:
    """The one run of a document; every list of times is a series."""
    run = RunBuilder(document, NAME)
    found = _of_json(run) if is_json(document.head(1 << 16).decode("utf-8", "replace")) else _of_log(run)
    results = list(islice(found, document.limits.series + 1))  # each is a series, and the last one is too many
    same = Counter(result.key() for result in results)
    seen: Counter[Key] = Counter()
    for result in results:
        key = result.key()
        index = {"index": str(seen[key])} if same[key] > 1 else {}
        seen[key] += 1
        _add(run, result, Key.of(key.metric, **dict(key.labels), **index))
    for complaints in dict.fromkeys(result.at for result in results if isinstance(result.at, Complaints)):
        complaints.settle()
    return (run.run(),)


def _of_json(run: RunBuilder) -> Iterator[_Result]:
    """The results of a file that is one JSON document; of one that is cut off, those before the cut."""
    text = run.document.whole()
    if text is None:
        return
    document = load_json(text, run.document.name, run.document.limits)
    if any("Extra data" in problem.message for problem in document.problems):
        lines = ((number, line) for number, line in enumerate(text.split("\n"), 1))
        yield from _of_embedded(run, embedded(lines, run.document.limits, also=_BETWEEN))
        return
    kept = cut_back(text) if document.data is None else None
    if kept is not None and "times" not in _top_keys(kept):
        run.problems += document.problems
        document = load_json(kept, run.document.name, run.document.limits)
    yield from _of_document(run, document, None, 1)


def _top_keys(text: str) -> set[str]:
    data = load_json(text, "").data
    return set(data) if isinstance(data, dict) else set()


def _of_log(run: RunBuilder) -> Iterator[_Result]:
    lines = ((number, line) for number, line, _, _ in run.document.lines())
    return _of_embedded(run, embedded(lines, run.document.limits, also=_BETWEEN))


def _of_embedded(run: RunBuilder, found: Iterator[Embedded | tuple[int, re.Match[str]]]) -> Iterator[_Result]:
    """The results among the documents in a log, and the names before them."""
    name = None
    broken: Embedded | None = None  # the last document that was broken off before its times
    for item in found:
        if not isinstance(item, Embedded):
            name = item[1][1] or name
            if broken and not item[1][1]:
                run.say("error", f"{BROKEN}; its times come on line {item[0]}", broken.line)
                broken = None
        elif item.fault:
            if item.fault_matters("times"):
                run.say("error", item.fault, item.line)
            elif item.text.startswith("{"):
                broken = item
        elif item.call is None and (item.line == 1 or '"times"' in item.text):
            yield from _of_document(run, load_json(item.text, run.document.name, run.document.limits), name, item.line)
        elif item.call and "times" in item.call.fields:
            yield _Result(item.call.fields, name, item.line, item.call)


def _of_document(run: RunBuilder, document: JsonDocument, name: str | None, line: int) -> Iterator[_Result]:
    """The results of one JSON document that begins on `line`; the faults of others in a log are not of interest."""
    complaints = Complaints(document, line, columns=False)
    results = list(_results(document.data, complaints, name, line))
    for path in _without_times(document.data) if results else ():
        complaints.say(run, "error", f"{path[0]!r} looks like a result, but holds no list `times`", path)
    inside = tuple((*result.path, "times") for result in results)
    if results or line == 1 or '"times"' in document.text:
        for fault in document.faults:
            if fault.path[:-1] not in inside:  # those inside are refused with their series
                run.add_problem(_moved(fault.problem, line))
    yield from results


def _results(data: Any, at: Complaints, name: str | None, line: int) -> Iterator[_Result]:
    if _has_times(data):
        yield _result(at, data, name, line, ())
    elif isinstance(data, dict | list):
        members = data.items() if isinstance(data, dict) else enumerate(data)
        for key, member in members:
            if _has_times(member):
                yield _result(at, member, key if isinstance(key, str) else name, line, (key,))


def _without_times(data: object) -> list[Path]:
    """The members beside results that say what they computed, but hold no times."""
    members = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [
        (key,)
        for key, member in members
        if isinstance(member, dict) and {"computation", "profile_steps"} & member.keys() and not _has_times(member)
    ]


def _has_times(data: object) -> bool:
    """Whether this is a result, if a wrong one; a mapping of names may have one that is called `times`."""
    return isinstance(data, dict) and "times" in data and not isinstance(data["times"], dict)


def _result(at: Complaints, fields: Mapping[str, Any], name: str | None, line: int, path: Path) -> _Result:
    own = fields.get("name")
    return _Result(fields, own if isinstance(own, str) and own else name, line, at, path)


def _moved(problem: Problem, line: int) -> Problem:
    """The same problem in a document that begins on another line."""
    at = replace(problem.at, line=(problem.at.line or 1) + line - 1)
    return replace(problem, at=at)


def _add(run: RunBuilder, result: _Result, key: Key) -> None:
    """The times of a result as a series; what is no time is refused with its line."""
    column = run.column(key, "s")
    times = result.fields["times"]
    if not isinstance(times, list) or not times:
        run.refuse(key, "no measurements: `times` is " + ("empty" if times == [] else "no list"), result.line)
        return
    # the usual list at once, which is ten times as fast
    numbers = np.array(times if {*map(type, times)} == {float} else [_number(time) for time in times])
    good = (numbers >= 0) & np.isfinite(numbers)
    column.values.frombytes(numbers[good].tobytes())
    bad = [int(index) for index in np.flatnonzero(~good)]
    for index in bad[:MAX_FAULTS]:
        fault = fault_of(str(times[index])) or "is no number"
        if isinstance(result.at, Call):
            run.refuse(key, fault, result.line + result.at.lines[index] - 1)
        else:
            result.at.refuse(run, key, fault, (*result.path, "times", index))
    run.refuse_more(key, max(0, len(bad) - MAX_FAULTS))
    steps = result.fields.get("profile_steps")
    if isinstance(steps, int) and steps != len(times):
        run.say("warning", f"{key}: profile_steps is {steps}, but there are {len(times)} times", result.line)


def _number(value: object) -> float:
    """A JSON or Python number as float64; NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > sys.float_info.max:
        return float("nan")
    return float(value)
