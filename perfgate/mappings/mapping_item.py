"""One mapping of `perfgate.yaml`: its paths, patterns, names and units. The schema has checked its shape already."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from perfgate.core import Problem, fact_text
from perfgate.core.file_mappings import FieldPath, FieldText, FileKind, FileMapping, LinePattern, MappedMetric
from perfgate.core.units import UNITS
from perfgate.documents.yaml import Path, YamlDocument
from perfgate.mappings.line_patterns import parse_pattern
from perfgate.mappings.paths import PathError, column, parse_path, parse_text, used_paths
from perfgate.mappings.units import FROM_NAME, IN_VALUE, NO_UNIT, unit_of
from perfgate.readers.registry import FORMATS
from perfgate.rules.validate import problem_at

KINDS: tuple[FileKind, ...] = ("json", "jsonl", "csv", "lines")
DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "blanks": " "}
#: The fields of a mapping with a single metric.
_SINGLE = ("metric", "value", "unit", "better")
#: The name of a kept key that is the name of the metric.
_METRIC = "metric"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")


class MappingItem(Struct):
    """One mapping while it is read: `load` returns it, and adds its mistakes to `problems`."""

    document: YamlDocument
    problems: list[Problem]
    #: The mapping as plain data, and its path in the document.
    data: Mapping[str, Any]
    path: Path
    kind: FileKind = "json"
    #: The groups of its line patterns.
    groups: frozenset[str] = frozenset()

    def _fail(self, message: str, path: Path = (), start: int = 0, end: int | None = None) -> None:
        """Add a mistake at a path of the mapping: in its text from `start` to before `end`; None means all of it."""
        self.problems.append(problem_at(self.document, message, (*self.path, *path), start, end))

    def load(self) -> FileMapping | None:
        """Return the mapping; None if its kind is not clear. A mapping with `problems` must not be used."""
        kind = self._kind()
        if kind is None:
            return None
        self.kind = kind
        data, is_json = self.data, kind in ("json", "jsonl")
        records = self._document_path(data[kind], (kind,)) if is_json else None
        patterns = self._patterns() if kind == "lines" else ()  # sets `groups`, which other paths need
        step = self._field("step")
        when = self._texts("when")
        mapping = FileMapping(
            self._name(),
            self.document.location(self.path),
            kind,
            tuple(self._metrics(records)),
            files=tuple(text for text, _ in self._texts("files")),
            when=tuple(self._document_path(text, path) if is_json else column(text) for text, path in when),
            records=records,
            delimiter=DELIMITERS.get(data.get("csv", "comma"), ","),
            patterns=patterns,
            labels=tuple(self._labels()),
            facts=tuple((name, self._path_at(text, ("facts", name))) for name, text in data.get("facts", {}).items()),
            commit=self._field("commit"),
            step=step,
            repeats=data.get("repeats", "samples" if step or kind == "lines" else "runs"),
            where=tuple(self._filters()),
            ignore=frozenset(data.get("ignore", ())),
        )
        self._check(mapping)
        return mapping

    def _kind(self) -> FileKind | None:
        """Return the kind of the files; None, and a problem, if it is not clear which files are meant."""
        kinds = [kind for kind in KINDS if kind in self.data]
        if len(kinds) != 1:
            found = " and ".join(kinds) or "none of them"
            self._fail(f"a mapping has one of `json`, `jsonl`, `csv` and `lines`; this one has {found}")
            return None
        if "files" not in self.data and "when" not in self.data:
            which = '`files:` (a glob of file names, such as "bench*.json"), or `when:` (a key that they have)'
            self._fail(f"write {which}")
            return None
        return kinds[0]

    def _name(self) -> str:
        """Return the name, or one made of the first glob: `bench` for `out/bench*.json`, `json-1` for `*.json`."""
        if name := self.data.get("name"):
            if name in {known.name for known in FORMATS} or name in ("auto", "unknown"):
                self._fail(f"{name!r} is a format of perfgate: choose another name", ("name",))
            return str(name)
        first = next((text for text, _ in self._texts("files")), "")
        stem, _, suffix = first.rpartition("/")[2].rpartition(".")
        name = (
            _NOT_IN_NAMES.sub("-", stem or suffix).strip("-._")
            or f"{_NOT_IN_NAMES.sub('', suffix) or 'mapping'}-{int(self.path[1]) + 1}"  # the path is ("mappings", 0)
        )
        return f"{name}-file" if name in {known.name for known in FORMATS} else name

    def _metrics(self, records: FieldPath | None) -> Iterable[MappedMetric]:
        """Return the metrics of each record.

        Each is `NAME: UNIT` or `NAME: {value: PATH, unit: UNIT}`; without `value`, the name is also the path.
        """
        if "metrics" not in self.data:
            return self._only_metric(records)
        if single := [key for key in _SINGLE if key in self.data]:
            self._fail(f"`{single[0]}` is about a single metric: write it inside `metrics`", (single[0],))
        found = []
        for name, item in self.data["metrics"].items():
            path: Path = ("metrics", name)
            long = item if isinstance(item, dict) else {"unit": item}
            if "value" in long:
                value, text = self._path_at(long["value"], (*path, "value")), self._text_at(name, path, key=True)
            else:
                value = self._path_at(name, path, key=True)
                plain = ".".join(map(str, value.steps))  # without the quotes of `stats."p99.9"`
                text = FieldText(plain, (plain,))
                if value.names:
                    self._fail(f"{name!r} keeps a key: write `value:` and `unit:` below a name", path)
            unit = self._unit(str(long["unit"]), (*path, "unit") if isinstance(item, dict) else path)
            is_optional = long.get("optional", False)
            found.append(MappedMetric(text, value, unit, long.get("better"), is_optional=is_optional))
        return found

    def _only_metric(self, records: FieldPath | None) -> Iterable[MappedMetric]:
        """Return the metric of a mapping that describes it by `metric`, `value` and `unit`."""
        data = self.data
        value = self._field("value")
        kept = {name for path in (records, value) if path for name in path.names}
        if "unit" not in data:
            self._fail("the unit is missing: write `unit:` (ms, tokens/s, none, from-name, ...), or `metrics:`")
            return ()
        if "metric" not in data and _METRIC not in kept:
            self._fail("the name of the metric is missing: write `metric:`, `metrics:`, or keep a key: `$.{metric}`")
            return ()
        if value is None and self.kind in ("csv", "lines"):
            noun = "column" if self.kind == "csv" else "field of the pattern"
            self._fail(f"the value is missing: write `value:` with the name of a {noun}")
            return ()
        given = self._text_at(str(data["metric"]), ("metric",)) if "metric" in data else None
        name = given or parse_text("{metric}", is_flat=True)
        return (MappedMetric(name, value, self._unit(str(data["unit"]), ("unit",)), data.get("better")),)

    def _unit(self, text: str, path: Path) -> FieldText:
        found = self._text_at(text, path)
        if not found.fields and text not in (FROM_NAME, IN_VALUE) and unit_of(text) is None:
            usual = f"write ms, s, tokens/s, GB, %, ..., {NO_UNIT} or {FROM_NAME}"
            hint = did_you_mean(text, [*UNITS, FROM_NAME, IN_VALUE, NO_UNIT], usual)
            self._fail(f"{text!r} is not a unit; {hint}", path)
        return found

    def _patterns(self) -> tuple[LinePattern, ...]:
        found = []
        for text, path in self._texts("lines"):
            try:
                found.append(parse_pattern(text))
            except PathError as error:
                self._fail(f"{error.message} (in the pattern {text!r})", path, error.start, error.end)
        self.groups = frozenset(name for pattern in found for name in pattern.names if name)
        return tuple(found)

    def _labels(self) -> Iterator[tuple[str, FieldPath]]:
        given = self.data.get("labels", ())
        if isinstance(given, dict):
            yield from ((name, self._path_at(text, ("labels", name))) for name, text in given.items())
            return
        for text, path in self._texts("labels"):
            found = self._path_at(text, path)
            yield str(found.steps[-1] if found.steps else ""), found

    def _filters(self) -> Iterator[tuple[FieldPath, tuple[str, ...]]]:
        for text, values in self.data.get("where", {}).items():
            wanted = tuple(map(fact_text, values if isinstance(values, list) else [values]))
            yield self._path_at(text, ("where", text), key=True), wanted

    def _texts(self, name: str) -> Iterator[tuple[str, Path]]:
        """Yield the text of a field, or each text of its list, with its path."""
        given = self.data.get(name, ())
        if isinstance(given, str):
            yield given, (name,)
        else:
            yield from ((text, (name, index)) for index, text in enumerate(given))

    def _field(self, name: str) -> FieldPath | None:
        return self._path_at(self.data[name], (name,)) if name in self.data else None

    def _document_path(self, text: str, path: Path) -> FieldPath:
        """Return a path from the whole document, with or without its `$`."""
        found = self._path_at(text, path)
        return found if found.is_from_top else FieldPath(found.text, found.steps, is_from_top=True)

    def _path_at(self, text: str, path: Path, *, key: bool = False) -> FieldPath:
        """Return the path that a text means. `path`: the place of the text; with `key`, it is the key there."""
        try:
            return parse_path(text) if self.kind in ("json", "jsonl") else self._group(text, path)
        except PathError as error:
            self._fail(f"{error.message} (in {text!r})", path, *(() if key else (error.start, error.end)))
            return FieldPath(text, ())

    def _text_at(self, text: str, path: Path, *, key: bool = False) -> FieldText:
        try:
            found = parse_text(text, is_flat=self.kind in ("csv", "lines"))
        except PathError as error:
            self._fail(f"{error.message} (in {text!r})", path, *(() if key else (error.start, error.end)))
            return FieldText(text, (text,))
        for one in found.fields if self.kind == "lines" else ():
            self._group(one.text, path)
        return found

    def _group(self, name: str, path: Path) -> FieldPath:
        """Return the path to a column, or to a field of the patterns, which must exist."""
        if self.kind == "lines" and self.groups and name not in self.groups:
            hint = did_you_mean(name, self.groups, f"the fields are {', '.join(sorted(self.groups))}")
            self._fail(f"no pattern has the field {{{name}}}; {hint}", path)
        return column(name)

    def _check(self, mapping: FileMapping) -> None:
        """Report mistakes that only the whole mapping shows."""
        if self.kind == "lines":  # the values of fields without a use would be lost
            used = {path.text for path in used_paths(mapping)}
            for name in sorted(self.groups - used - mapping.ignore):
                self._fail(f"nothing uses the field {{{name}}}: add it to metrics or labels, or write {{}}", ("lines",))
        metrics = mapping.metrics
        if any(metric.better and metric.name.fields for metric in metrics):
            self._fail("`better` needs a metric with a fixed name: write it in the rules instead")
        paths = [mapping.records, *(metric.value for metric in metrics)]
        kept = [name for path in paths if path for name in path.names]
        counts = Counter([*kept, *(name for name, _ in mapping.labels)])
        for name in sorted({name for name in kept if counts[name] > 1}):
            self._fail(f"{name!r} is kept by two paths or labels: choose another name in the braces")
        in_names = {path.text for metric in metrics for path in metric.name.fields}
        if _METRIC in kept and _METRIC not in in_names:
            self._fail("{metric} is the name of the metric: leave out `metric`, or write `metric: '..{metric}..'`")


def did_you_mean(text: str, known: Iterable[str], otherwise: str) -> str:
    """Return `did you mean NAME?` with the most similar known name; `otherwise` if no name is similar."""
    near = get_close_matches(text, known, n=1)
    return f"did you mean {near[0]!r}?" if near else otherwise
