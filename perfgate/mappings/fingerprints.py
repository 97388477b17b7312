"""Records with equal labels must be repetitions: their other texts and whole numbers must be equal, too."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from msgspec import Struct, field

from perfgate.core import fact_text
from perfgate.core.file_mappings import FileMapping
from perfgate.mappings.record_source import Record
from perfgate.readers.values import number, shown

#: The greatest depth of the compared fields of a record, and their greatest number.
_DEEPEST, _MOST = 3, 200
#: Names of the field with the number of a step.
_STEPS = ("step", "global_step", "iteration", "iter")


class Fingerprints(Struct):
    """The first record of each identity, to compare the later ones with."""

    mapping: FileMapping
    _first: dict[Hashable, dict[str, Any]] = field(default_factory=dict)
    #: The fields that were reported.
    _said: set[str] = field(default_factory=set)
    _used: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        mapping = self.mapping
        paths = [path for _, path in (*mapping.labels, *mapping.facts)]
        paths += [path for path, _ in mapping.where]
        paths += [path for path in (mapping.step, mapping.commit) if path]
        for metric in mapping.metrics:
            paths += [*metric.name.fields, *metric.unit.fields, *([metric.value] if metric.value else [])]
        self._used = frozenset(".".join(map(str, path.steps)) for path in paths) | mapping.ignore

    def difference(self, identity: Hashable, record: Record) -> str | None:
        """Return in which field a record differs from the first one of its identity; None if it is a repetition."""
        if self.mapping.kind == "lines":  # every field of a pattern has a use
            return None
        own = dict(self._fields(record.data, ""))
        first = self._first.setdefault(identity, own)
        if first is own:
            return None
        for name in own.keys() & first.keys() - self._said:
            if fact_text(own[name]) != fact_text(first[name]):
                self._said.add(name)
                values = f"{shown(first[name])} and {shown(own[name])}"
                step = f"add {name} to `labels`, or to `ignore` if it does not matter"
                if name.lower() in _STEPS:
                    step = f"write `step: {name}` if each record is a step of one run"
                return f"records with equal labels differ in {name}: {values}; {step}"
        return None

    def is_repetition(self, identity: Hashable, record: Record) -> bool:
        """Return whether nothing more is to be said about a record that `difference` was asked about."""
        if self.mapping.kind == "lines":
            return True
        own, first = dict(self._fields(record.data, "")), self._first[identity]
        names = own.keys() & first.keys() - self._said
        return all(fact_text(own[name]) == fact_text(first[name]) for name in names)

    def _fields(self, data: Any, before: str, depth: int = 1) -> Iterator[tuple[str, Any]]:
        for name, value in list(data.items())[:_MOST] if isinstance(data, dict) else ():
            full = f"{before}{name}"
            if full in self._used or name in self.mapping.ignore:
                continue
            if isinstance(value, dict) and depth < _DEEPEST:
                yield from self._fields(value, f"{full}.", depth + 1)
            elif isinstance(value, bool | int) or (isinstance(value, str) and is_word(value)):
                yield full, value


def is_word(text: str) -> bool:
    """Return whether a text is a word or a whole number, and not a measured number."""
    return number(text) is None or text.strip().lstrip("+-").isdigit()
