"""Timing results: lists of seconds under `times`, as JSON, as JSON inside a log, or as printed Python objects.

    {"computation": "forward", "times": [0.0785, 0.0738], "profile_steps": 2}
    {"small": {"times": [...]}, "medium": {"times": [...]}}        [{"name": "small", "times": [...]}, ...]
    ProfilingResult(computation='forward', times=[0.0785, 0.0738], profile_steps=2)

The metric is `computation`, else the name, else `time`; the name is the label. In a log the name comes from the last
line `Running profile for: NAME`. Results with the same metric and name get the label `index`. Means and medians beside
the times are not read, because they follow from the times. Units: s.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct, field

from perfgate.documents.json_tokens import cut_back
from perfgate.readers.embedded import BROKEN, Embedded, embedded
from perfgate.readers.kit import Format, InputFile, JsonOutline, JsonSource, Key, Path, Run, RunBuilder, load_json
from perfgate.readers.values import mapping

NAME = "timeit"
METRICS = "the `computation`, labelled with its configuration's name"
CHECKED = "files of one project; generated files"


def _outline(outline: JsonOutline) -> str | None:
    """Return what shows this format: an object with `times`, or objects with `times` under names or in a list."""
    found = any(path[-1:] == ("times",) and len(path) <= 2 and token == "[" for path, token in outline.tokens.items())
    return "a JSON document with 'times'" if found else None


FORMAT = Format(NAME, __name__, markers={'"times"': r'"times"\s*:\s*\[', "times=[": ""}, keys="times", outline=_outline)
#: Between documents: the name of the next result, or times that belong to a document that was broken off.
_BETWEEN = re.compile(r'Running profile for:\s*(\S(?:.*\S)?)|"times"\s*:')


class _Result(Struct, frozen=True):
    """One list of times: the fields of its object, its name, and the first line of its document."""

    fields: Mapping[str, Any]
    name: str | None
    line: int
    #: The JSON document of the result, and its path there; None for a printed object.
    source: JsonSource | None = None
    path: Path = ()
    #: For a printed object, the line of each time in it, from 1.
    lines: list[int] = field(default_factory=list)

    def key(self) -> Key:
        """Return the key; without `computation` the name is the metric, and not a label."""
        computation = self.fields.get("computation")
        if not isinstance(computation, str) or not computation:
            return Key(self.name or "time")
        return Key.of(computation, name=self.name) if self.name else Key(computation)


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file; every list of times is a series."""
    run = RunBuilder(file, NAME)
    found = _of_json(run) if file.is_json() else _of_log(run, ((number, line) for number, line, _, _ in file.lines()))
    results = list(islice(found, file.limits.series + 1))  # each is a series; one more than the limit is an error
    same = Counter(result.key() for result in results)
    seen: Counter[Key] = Counter()
    for result in results:
        key = result.key()
        index = {"index": str(seen[key])} if same[key] > 1 else {}
        seen[key] += 1
        _add(run, result, Key.of(key.metric, **dict(key.labels), **index))
    for source in dict.fromkeys(result.source for result in results if result.source):
        source.report_waiting()
    return (run.run(),)


def _of_json(run: RunBuilder) -> Iterator[_Result]:
    """Yield the results of a file that is one JSON document; if it is cut off, those before the cut."""
    if (text := run.file.whole()) is None:
        return
    document = load_json(text, run.file.name, run.file.limits)
    # several documents are read as those in a log
    if any("Extra data" in problem.message for problem in document.problems):
        yield from _of_log(run, enumerate(text.split("\n"), 1))
        return
    kept = cut_back(text) if document.data is None else None
    # what is left of a single result has only a part of its times, so it is not read
    if kept is not None and "times" not in mapping(load_json(kept, "").data):
        for problem in document.problems:
            run.say(problem.severity, problem.message, problem.at)
        document = load_json(kept, run.file.name, run.file.limits)
    yield from _of_document(run, JsonSource(document), None, 1)


def _of_log(run: RunBuilder, lines: Iterable[tuple[int, str]]) -> Iterator[_Result]:
    """Yield the results among the documents in a log, with the names before them."""
    name = None
    broken: Embedded | None = None  # the last document that was broken off before its times
    for item in embedded(lines, run.file.limits, also=_BETWEEN):
        if not isinstance(item, Embedded):
            line, between = item  # a line that matches `_BETWEEN`
            name = between[1] or name
            if broken and not between[1]:
                run.say("error", f"{BROKEN}; its times come on line {line}", broken.line)
                broken = None
        elif item.fault:
            if item.fault_matters("times"):
                run.say("error", item.fault, item.line)
            elif item.text.startswith("{"):
                broken = item
        elif item.call is None and (item.line == 1 or '"times"' in item.text):  # on line 1: see `_of_document`
            loaded = load_json(item.text, run.file.name, run.file.limits)
            yield from _of_document(run, JsonSource(loaded, item.line, columns=False), name, item.line)
        elif item.call and "times" in item.call.fields:
            yield _Result(item.call.fields, name, item.line, lines=item.call.lines)


def _of_document(run: RunBuilder, source: JsonSource, name: str | None, line: int) -> Iterator[_Result]:
    """Yield the results of a JSON document that begins on `line`, and report its faults if it has any result.

    A result without a field `name` is named by its key in the document, or by `name`, which was printed before. A
    document on line 1 may be the whole file, so its faults are always reported.
    """
    run.json, document, results = source, source.loaded, list[_Result]()
    members: list[tuple[Path, Any]] = [((key,), member) for key, member in _members(document.data)]
    for path, member in [((), document.data)] if _has_times(document.data) else members:
        if _has_times(member):
            outer = path[0] if path and isinstance(path[0], str) else name
            own = member.get("name")
            results.append(_Result(member, own if isinstance(own, str) and own else outer, line, source, path))
    if results or line == 1 or '"times"' in document.text:
        _report_faults(run, source, results)
    yield from results


def _report_faults(run: RunBuilder, source: JsonSource, results: list[_Result]) -> None:
    """Report the faults of a document with these results, and its members that look like results without times."""
    for key, member in _members(source.loaded.data) if results else ():
        if {"computation", "profile_steps"} & mapping(member).keys() and not _has_times(member):
            run.say("error", f"{key!r} looks like a result, but has no list `times`", (key,))
    lists = [(*result.path, "times") for result in results]
    for fault in source.loaded.faults:
        if fault.path[:-1] not in lists:  # faults of times are reported with their series
            run.say(fault.problem.severity, fault.problem.message, source.moved(fault.problem.at))


def _members(data: Any) -> Iterable[tuple[str | int, Any]]:
    """Return the keys and values of an object, or the indices and items of a list."""
    if isinstance(data, dict):
        return data.items()
    return enumerate(data) if isinstance(data, list) else ()


def _has_times(data: object) -> bool:
    """Return whether this is a result, perhaps with wrong times. An object under `times` is a result of that name."""
    return isinstance(data, dict) and "times" in data and not isinstance(data["times"], dict)


def _add(run: RunBuilder, result: _Result, key: Key) -> None:
    """Add the times of a result as a series; items that are not times are refused with their line."""
    times = result.fields["times"]
    if not isinstance(times, list) or not times:
        run.refuse(key, "no measurements: `times` is " + ("empty" if times == [] else "not a list"), result.line)
        return
    run.json = result.source
    if result.source:
        run.samples(key, "s", times, lambda index: (*result.path, "times", index))
    else:
        run.samples(key, "s", times, lambda index: result.line + result.lines[index] - 1)
    steps = result.fields.get("profile_steps")
    if isinstance(steps, int) and steps != len(times):
        run.say("warning", f"{key}: profile_steps is {steps}, but there are {len(times)} times", result.line)
