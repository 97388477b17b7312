"""Series, runs, and the problems found while reading them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from msgspec import Struct, field

from perfgate.core.wording import show_labels

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from perfgate.core.call_trees import CallTree
    from perfgate.core.coverage import Coverage
    from perfgate.core.outlines import Outlines

    Array = TypeVar("Array", bound=npt.NDArray[Any])

#: Arrays, without importing numpy: a program with a Recorder starts sooner.
Values: TypeAlias = "npt.NDArray[np.float64]"
Steps: TypeAlias = "npt.NDArray[np.int64]"
Marks: TypeAlias = "npt.NDArray[np.bool_]"
Severity = Literal["error", "warning"]
Kind = Literal["samples", "aggregate", "value", "summary"]
Fact = str | int | float | bool
#: The name of the fact that lists why a GPU ran slower than it could.
THROTTLE = "throttle_reasons"
#: The name of the fact that counts the programs on a GPU. It is read before a run, so it counts other programs.
TENANTS = "gpu_programs"
#: The throttle reasons (NVML's clocks event reasons) that make a measurement worthless, and those that are normal.
_UNHEALTHY = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake", "sw_thermal_slowdown")
_HARMLESS = ("", "none", "gpu_idle", "applications_clocks_setting", "display_clock_setting", "sync_boost")
_VERSION = re.compile(r"\d+(?:\.\d+)+")
#: The prefix of the facts of the base side of a pair, in a document with both sides.
OF_BASE = "base."
#: The fact of a pair that names the format in which its sides were written.
WRITTEN_AS = "written_as"
#: The labels of the members of one metric: processes of a job, and devices of a process.
MEMBER_LABELS = ("rank", "device")


def fact_text(value: Fact) -> str:
    """Return a fact as YAML and JSON write it: true, 8, 8.5, NVIDIA H200."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def same_fact(one: Fact, other: Fact) -> bool:
    """Return whether two facts are equal, or one version with more detail: 2.11.0 and 2.11.0+cu130, 13.0.96 and 13.0.

    The text after the plus sign is the build, which a packager adds.
    """
    # sorted: a text is before the same text with more behind it
    (shorter, _, build), (longer, _, other_build) = sorted(fact_text(fact).partition("+") for fact in (one, other))
    if not (_VERSION.fullmatch(shorter) and _VERSION.fullmatch(longer)):
        return fact_text(one) == fact_text(other)
    return f"{longer}.".startswith(f"{shorter}.") and (build == other_build or not (build and other_build))


def is_large(values: object) -> bool:
    """Return whether numbers are in a file, as a `LargeArray`, because they are too many for memory."""
    return hasattr(values, "blocks")


def throttling(facts: Mapping[str, Fact]) -> tuple[str, ...]:
    """Return why the GPU was throttled, in NVML's words; empty if it was not throttled, or the reasons are unknown."""
    words = [word.strip().lower() for word in str(facts.get(THROTTLE, "")).split(",")]
    return tuple(word for word in words if word not in _HARMLESS)


def unhealthy(facts: Mapping[str, Fact]) -> tuple[str, ...]:
    """Return the throttle reasons that make a measurement unfit for a baseline; a power cap does not."""
    return tuple(word for word in throttling(facts) if word in _UNHEALTHY)


def machine_notes(facts: Mapping[str, Fact]) -> tuple[str, ...]:
    """Return the notes about the machine that every verdict gets."""
    slowed = throttling(facts)
    found = [f"the GPU was throttled: {', '.join(slowed)}"] if slowed else []
    if str(facts.get("clocks_locked", "")).lower() == "false":
        found.append("the GPU's clocks are not locked")
    return tuple(found)


class Location(Struct, frozen=True):
    """A place in a file; lines and columns count from 1, as editors show them."""

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)


class Key(Struct, frozen=True, order=True):
    """The identity of a series: a metric and its labels, sorted by label name."""

    metric: str
    labels: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, metric: str, /, **labels: str) -> Key:
        """Make a key from keyword labels: `Key.of("forward", rank="0")`."""
        return cls(metric, tuple(sorted(labels.items())))

    def label(self, name: str) -> str | None:
        """Return the value of one label, or None."""
        return dict(self.labels).get(name)

    def without_members(self) -> Key:
        """Return the same key without rank and device, as one verdict has it."""
        return Key(self.metric, tuple(pair for pair in self.labels if pair[0] not in MEMBER_LABELS))

    def member(self) -> tuple[tuple[str, str], ...]:
        """Return only rank and device."""
        return tuple(pair for pair in self.labels if pair[0] in MEMBER_LABELS)

    def __str__(self) -> str:
        return self.metric + show_labels(self.labels)


class Problem(Struct, frozen=True):
    """A mistake in an input, a rule or a baseline; reading continues after it.

    `error` means that values may be missing or wrong. With `key`, the problem affects only that series.
    """

    severity: Severity
    message: str
    at: Location
    key: Key | None = None
    #: The line with the word underlined, if the file is short enough to show it.
    excerpt: str | None = None
    #: Lines that a terminal shows only with --verbose.
    details: str | None = None

    def __str__(self) -> str:
        text = f"{self.at}: {self.severity}: {self.message}"
        return text if self.excerpt is None else f"{text}\n{self.excerpt}"


class Summary(Struct, frozen=True):
    """A summary of samples that are not stored: each statistic with its noise, as it was measured.

    `rows[i]` is the statistic `names[i]`: its value, its effective sample size and the variance of its logarithm (None
    if there is no logarithm). If the statistic has a warm-up of its own, the number of dropped values follows, and 1 if
    that warm-up ended. If the rank does not represent its run, a row has the value only, unless a rule judges that
    statistic on each rank.
    """

    names: Sequence[str]
    rows: Sequence[Sequence[float | None]]
    #: The number of values, warm-up included.
    n: int
    #: The number of values that were dropped as warm-up, and False if the warm-up did not end within the run's start.
    dropped: int
    settled: bool
    #: The rule of the warm-up, and the better directions that give the same warm-up.
    warmup: Literal["auto"] | int
    better: Sequence[str]
    #: True if other ranks of the run have rows with the value only. Those have seven digits, so ranks are compared by
    #: seven digits.
    is_outlined: bool = False
    #: The files that the samples can be read from again.
    sources: tuple[str, ...] = ()


class Series(Struct, frozen=True, dict=True):
    """The values of one metric in one run, in order of time.

    * samples: `values` (n,) float64, read-only; `steps` (n,) int64 is the step of each value.
    * value: one number in `values`, shape (1,).
    * aggregate: `aggregate` has the statistics that the source printed (`mean`, `count`, `total`, ...).
    * summary: stored samples without the single values; `aggregate` has the statistics of `summary`.
    """

    key: Key
    unit: str
    kind: Kind
    values: Values
    steps: Steps | None = None
    aggregate: Mapping[str, float] = field(default_factory=dict)
    #: The name in the source, if `key.metric` is an alias of it.
    printed_as: str | None = None
    #: The number of values in the run, if `values` is only a selection of them (large baselines).
    thinned_from: int | None = None
    #: For collectives, the process group of each value, by which the calls of ranks are matched.
    groups: tuple[str, ...] = ()
    #: For a metric that a formula derives from others: the share of their steps that all of them have.
    joined: float = 1.0
    summary: Summary | None = None
    #: For a trace, True for each value of a step that stalled, (n,). A trace has no warm-up.
    stalled: Marks | None = None

    @property
    def settled(self) -> Values:
        """The values outside of stalled steps; elsewhere, `settled` says that the warm-up ended."""
        return self.values if self.stalled is None else self.values[~self.stalled]

    @cached_property
    def extremes(self) -> tuple[float, float]:
        """The smallest and the largest value, (0, 0) without values; not finite if one of the values is not."""
        return (float(self.values.min()), float(self.values.max())) if len(self.values) else (0.0, 0.0)


def read_only(array: Array) -> Array:
    """Make an array read-only and return it."""
    array.flags.writeable = False
    return array


class SourceFile(Struct, frozen=True):
    """One input file: its name as the user gave it, and the SHA-256 of its bytes."""

    path: str
    format: str
    sha256: str


class TimeAndPlace(Struct, frozen=True):
    """When and where a run was measured, as its file says."""

    #: The time as the tool wrote it, and the field of the document that has it.
    time: object
    field: str
    #: The facts that distinguish its machine from others of the same tool.
    place: Mapping[str, Fact]


class Run(Struct, frozen=True):
    """One execution of a program."""

    source: str
    #: The format of its files; several are joined by `+`.
    format: str
    series: tuple[Series, ...]
    problems: tuple[Problem, ...] = ()
    environment: Mapping[str, Fact] = field(default_factory=dict)
    files: tuple[SourceFile, ...] = ()
    commit: str | None = None
    measured: TimeAndPlace | None = None
    #: The number of the run in its file, from 1, if the file has several.
    part: int | None = None
    #: How the format was recognised: "found `time (ms) |` on line 2022".
    recognised_by: str | None = None
    #: True for a stored run with only some metrics, if its level takes the other metrics from another level.
    partial: bool = False
    #: The calls of each rank, from traces; of a stored run the mean of its ranks.
    call_trees: Sequence[CallTree] = ()
    #: The metrics that were read without their values, because no rule needs them; None if none was.
    outlines: Outlines | None = None
    #: Fields of the file that may be conditions but did not become labels, with their values.
    unlabelled: Mapping[str, str] = field(default_factory=dict)
    #: How many numbers of each file were read; empty for a stored run.
    coverage: tuple[Coverage, ...] = ()

    @property
    def metrics(self) -> set[str]:
        """The names of all metrics."""
        found = {series.key.metric for series in self.series}
        return found if self.outlines is None else found | self.outlines.metrics

    @property
    def name(self) -> str:
        """The source, and the number of the run if the file has several."""
        return self.source if self.part is None else f"{self.source} (run {self.part})"
