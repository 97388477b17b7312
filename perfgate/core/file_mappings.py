"""`perfgate.yaml` as data: how the files of a team's own tools are read, and the command that measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from perfgate.core.runs import Location, Problem, Run

#: The kinds of files that a mapping can read.
FileKind = Literal["json", "jsonl", "csv", "lines"]
#: The meaning of records with equal labels: repetitions of the whole run, or more samples of one run.
Repeats = Literal["runs", "samples"]


class EachMember(Struct, frozen=True):
    """A step to every member of a list or object: `[*]`, `.*`, or `.{name}`, which keeps each key as a label `name`."""

    name: str | None = None


#: A step of a path: a key, an index, or every member.
PathStep = str | int | EachMember


class FieldPath(Struct, frozen=True):
    """The way to a value: from one record of the file, or from the whole document if it begins with `$`."""

    text: str
    steps: tuple[PathStep, ...]
    is_from_top: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which the steps `.{name}` keep keys."""
        return tuple(step.name for step in self.steps if isinstance(step, EachMember) and step.name)


class FieldText(Struct, frozen=True):
    """A text with fields of the record in braces: `{op}_time`."""

    text: str
    #: Words, and fields between them.
    parts: tuple[str | FieldPath, ...]
    #: The fields among the parts.
    fields: tuple[FieldPath, ...] = ()


class LinePattern(Struct, frozen=True):
    """Words of a line, with named fields between them: `step {step} loss {loss}`; a field without a name is skipped."""

    text: str
    #: The words before each field, and behind the last one.
    words: tuple[str, ...]
    names: tuple[str, ...]


class MappedMetric(Struct, frozen=True):
    """One metric of each record."""

    name: FieldText
    #: The way to the value; None if the record itself is the value.
    value: FieldPath | None
    #: A unit, or `{field}`; `from-name` if the unit ends the name, `in-value` if it is behind each number.
    unit: FieldText
    #: The default of `better:` for rules about the metric; only for a metric with a fixed name.
    better: Literal["lower", "higher", "neither"] | None = None
    #: True if records may lack it.
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class FileMapping:
    """A mapping of one kind of file to metrics."""

    name: str
    at: Location = field(compare=False)
    kind: FileKind
    metrics: tuple[MappedMetric, ...]
    #: Globs of file names; empty if the content decides.
    files: tuple[str, ...] = ()
    #: A file must have these: keys of JSON, columns of CSV, or words of text.
    when: tuple[FieldPath, ...] = ()
    #: The way to the records of JSON.
    records: FieldPath | None = None
    delimiter: str = ","
    patterns: tuple[LinePattern, ...] = ()
    labels: tuple[tuple[str, FieldPath], ...] = ()
    facts: tuple[tuple[str, FieldPath], ...] = ()
    commit: FieldPath | None = None
    step: FieldPath | None = None
    repeats: Repeats = "runs"
    #: Only records with one of these values in a field are read.
    where: tuple[tuple[FieldPath, tuple[str, ...]], ...] = ()
    #: Fields that neither identify a record nor are measurements.
    ignore: frozenset[str] = frozenset()

    @property
    def title(self) -> str:
        """The mapping and its place, for messages."""
        return f"the mapping {self.name} ({self.at.file}:{self.at.line})"

    @property
    def label_names(self) -> tuple[str, ...]:
        """The labels that its metrics can have; `.{metric}` in a path gives the name of the metric, not a label."""
        paths = [self.records, *(metric.value for metric in self.metrics)]
        kept = (name for path in paths if path is not None for name in path.names if name != "metric")
        return tuple(dict.fromkeys([*(name for name, _ in self.labels), *kept]))


class MappingSuggestion(Struct, frozen=True):
    """A proposed mapping for one file, and the runs that it reads from it."""

    file: str
    #: The name of the mapping, and the item of the list in `perfgate.yaml`.
    name: str
    lines: tuple[str, ...]
    runs: int
    #: The number of metrics, with their labels, and of values.
    metrics: int
    values: int
    problems: tuple[Problem, ...]
    #: What the mapping reads from the file.
    read: tuple[Run, ...] = ()


class MappingFiles(Struct, frozen=True):
    """The mappings and the command of some files, and every mistake in them."""

    mappings: tuple[FileMapping, ...] = ()
    command: RunCommand | None = None
    problems: tuple[Problem, ...] = ()


#: The message of `perfgate run` and similar commands if no command to measure is known.
NO_COMMAND = "give the command to run after --; `perfgate init -- COMMAND...` remembers one, as `run:` in perfgate.yaml"
_OPERATORS = {"||", "&&", "|", "&", ";", "<", ">", ">>", "2>"}


class RunCommand(Struct, frozen=True):
    """A command with the placeholders `{run}` and `{results}`, and everything that it needs."""

    at: Location
    words: tuple[str, ...]
    #: Globs of the files that it writes, beside those in the folder `{results}`.
    results: tuple[str, ...] = ()
    #: The words of the command that builds a commit before it is measured.
    build: tuple[str, ...] = ()
    #: Environment variables.
    env: tuple[tuple[str, str], ...] = ()
    #: `perfgate run` makes pairs of it with the merge base.
    paired: bool = False


def is_for_a_shell(words: Sequence[str]) -> bool:
    """Return whether words look like a line for a shell, such as `make; make x`.

    A word with a blank was quoted, as in `sh -c 'a; b'`. The last word may be `;`, which ends `find -exec ... ;`.
    """
    if words[0].startswith("!") or not _OPERATORS.isdisjoint(words[:-1]):
        return True
    return any(word.startswith(">") or (word.endswith(";") and " " not in word) for word in words[:-1])
