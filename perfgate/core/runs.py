"""What was measured, and what was found wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]
    Steps = npt.NDArray[np.int64]
    Array = TypeVar("Array", bound=npt.NDArray[Any])

Severity = Literal["error", "warning"]
Kind = Literal["samples", "aggregate", "value"]
Fact = str | int | float | bool
#: The name of the fact that lists why a GPU ran slower than it could.
THROTTLE = "throttle_reasons"
#: The labels that tell the members of one metric apart: processes of a job, and devices of a process.
MEMBER_LABELS = ("rank", "device")


def fact_text(value: Fact) -> str:
    """Return a fact as YAML and JSON write it: true, 8, 8.5, NVIDIA H200."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file; lines and columns count from 1, as editors show them."""

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """The name of a series: a metric and its labels, sorted by label name."""

    metric: str
    labels: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, metric: str, /, **labels: str) -> Key:
        """A key from keyword labels: `Key.of("forward", rank="0")`."""
        return cls(metric, tuple(sorted(labels.items())))

    def label(self, name: str) -> str | None:
        """The value of one label, or None."""
        return dict(self.labels).get(name)

    def without_members(self) -> Key:
        """The same key without rank and device: what one verdict speaks about."""
        return Key(self.metric, tuple(pair for pair in self.labels if pair[0] not in MEMBER_LABELS))

    def member(self) -> tuple[tuple[str, str], ...]:
        """Only rank and device: which member of the metric this is."""
        return tuple(pair for pair in self.labels if pair[0] in MEMBER_LABELS)

    def __str__(self) -> str:
        return self.metric + show_labels(self.labels)


def show_labels(labels: tuple[tuple[str, str], ...]) -> str:
    """Labels as the rule language writes them: `{rank="0"}`, or nothing when there are none."""
    return "{" + ", ".join(f'{name}="{value}"' for name, value in labels) + "}" if labels else ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with an input, a rule or a baseline; reading goes on after it.

    `error` means that values may be missing or wrong. With `key`, only that series is concerned.
    """

    severity: Severity
    message: str
    at: Location
    key: Key | None = None
    #: The line concerned with the word underlined, where the file is short enough to show.
    excerpt: str | None = None

    def __str__(self) -> str:
        text = f"{self.at}: {self.severity}: {self.message}"
        return text if self.excerpt is None else f"{text}\n{self.excerpt}"


@dataclass(frozen=True, slots=True)
class Series:
    """What one run holds of one metric, in order of time.

    * samples: `values` (n,) float64, read-only; `steps` (n,) int64 says in which step each value arose.
    * value: one number in `values`, shape (1,).
    * aggregate: `aggregate` holds the statistics that the source printed (`mean`, `count`, `total`, ...).
    """

    key: Key
    unit: str
    kind: Kind
    values: Values
    steps: Steps | None = None
    aggregate: Mapping[str, float] = field(default_factory=dict)
    #: The name that the source printed, where `key.metric` is an alias of it.
    printed_as: str | None = None
    #: How many values the run had, where `values` is a thinned selection of them (large baselines).
    thinned_from: int | None = None
    #: Of collectives, the process group of each value: what ranks are matched by.
    groups: tuple[str, ...] = ()


def read_only(array: Array) -> Array:
    """The same array, which nobody can change any more."""
    array.flags.writeable = False
    return array


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file that was read: its name as the user gave it, and the SHA-256 of its bytes."""

    path: str
    format: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Run:
    """One execution: the unit of replication."""

    source: str
    format: str
    series: tuple[Series, ...]
    problems: tuple[Problem, ...] = ()
    environment: Mapping[str, Fact] = field(default_factory=dict)
    files: tuple[SourceFile, ...] = ()
    commit: str | None = None
    #: Which run of its file this is, from 1, where a file holds several.
    part: int | None = None
    #: What gave the format away: "found `time (ms) |` on line 2022".
    recognised_by: str | None = None
    #: Whether it speaks of some metrics alone: a stored run whose others were adopted from elsewhere.
    partial: bool = False

    @property
    def name(self) -> str:
        """The source, and the number of the run where a file holds several."""
        return self.source if self.part is None else f"{self.source} (run {self.part})"
