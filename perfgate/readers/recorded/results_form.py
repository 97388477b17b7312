"""The form of `perfgate.results/1`, for msgspec; `schemas/results.schema.json` says the same to editors.

What neither can say (units, one kind of numbers, steps as many as values) is checked in `readers.recorded.results`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Name = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0)]
Step = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Scalar = str | int | float | bool


class Aggregate(Struct, forbid_unknown_fields=True):
    """Statistics of values that were not kept, in the series' unit; `count` is a number of values."""

    mean: float | UnsetType = UNSET
    count: Count | UnsetType = UNSET
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
    steps: list[Step] | UnsetType = UNSET


class RunForm(Struct, forbid_unknown_fields=True):
    """One run of several. The series are checked one by one, so that one wrong one does not hide the others."""

    series: Annotated[list[object], Meta(min_length=1)]
    environment: dict[Name, Scalar] = {}
    commit: str | None = None


class SingleForm(RunForm, forbid_unknown_fields=True, kw_only=True):
    """A document that is one run."""

    schema: Literal["perfgate.results/1"]


class SeveralForm(Struct, forbid_unknown_fields=True):
    """A document that holds several runs."""

    schema: Literal["perfgate.results/1"]
    runs: Annotated[list[object], Meta(min_length=1)]
