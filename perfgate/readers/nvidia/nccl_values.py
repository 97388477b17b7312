"""The numbers of nccl-tests, of a table or of a document, and the series that they become."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from perfgate.core import Key
from perfgate.core.conditions import Labels
from perfgate.readers.builder import Place, RunBuilder
from perfgate.readers.values import checked

#: The columns that are labels if rows differ in them.
DETAILS = ("type", "redop", "root")


class NcclValue(Struct, frozen=True):
    """One number of a row: its size and place, the details of the row, and its metric."""

    size: str
    details: Mapping[str, str]
    place: str
    metric: str
    printed: object
    per: float
    at: Place
    wrong: bool


def add_values(
    run: RunBuilder, collective: str, values: Sequence[NcclValue], varying: Sequence[str], labels: Labels = ()
) -> None:
    """Add the numbers of a table, with the details that are labels; a size that is measured again has samples."""
    found: dict[Key, list[NcclValue]] = {}
    for value in values:
        own = {name: value.details[name] for name in varying if name in value.details}
        own |= {"size": value.size, "place": value.place, **dict(labels)}
        key = Key.of(f"{collective}.{value.metric}", **own)
        if value.wrong:
            run.refuse(key, "the result of the collective is wrong; left out", value.at)
        else:
            found.setdefault(key, []).append(value)
    for key, several in found.items():
        unit = "s" if several[0].metric.endswith("time") else "B/s"
        if len(several) == 1:
            run.value(key, unit, several[0].printed, several[0].at, per=several[0].per)
        elif several[0].size == "0":  # small sizes that were rounded down, not repetitions
            _add_mean(run, key, unit, several)
        else:
            for value in several:
                run.sample(key, unit, value.printed, value.at, per=value.per)


def _add_mean(run: RunBuilder, key: Key, unit: str, several: Sequence[NcclValue]) -> None:
    numbers = [checked(value.printed, unit) for value in several]
    if fault := next((fault for _, fault in numbers if fault), None):
        run.refuse(key, fault, several[0].at)
    else:
        mean = sum(number / value.per for (number, _), value in zip(numbers, several, strict=True)) / len(several)
        run.aggregate(key, unit, {"mean": mean, "count": float(len(several))})


def varying_details(values: Iterable[NcclValue]) -> list[str]:
    """The details in which rows differ."""
    each = list(values)
    return [name for name in DETAILS if len({value.details.get(name) for value in each}) > 1]
