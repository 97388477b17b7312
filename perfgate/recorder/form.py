"""The lines of a recording, and the `perfgate.results/1` document that they become when it is closed.

The first line is the run without its series, every other one a piece of it in the words of `perfgate.results/1`; the
last line of a closed recording says so:

    {"schema":"perfgate.recorder/1","environment":{"world_size":8},"commit":null}
    {"metric":"forward","labels":{"rank":"0"},"unit":"ns","values":[361000123,362000456],"steps":[10,11]}
    {"metric":"memory.peak","labels":{"rank":"0"},"unit":"B","value":24589934592.0}
    {"environment":{"gpu":"NVIDIA H200"}}
    {"closed":true}

Pieces of one series follow each other in time. One without `steps` is of step 0, and a series that was recorded in
step 0 alone has none. Of a single `value`, and of a fact, the last one counts. A program that is killed leaves a line
cut short at most.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

RECORDING = "perfgate.recorder/1"
RESULTS = "perfgate.results/1"

#: Readers take a longer line apart, and it would hold much memory.
_VALUES_IN_A_LINE = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One series that is recorded: a metric with its unit and labels; `single` has one value, not samples."""

    metric: str
    unit: str
    labels: Mapping[str, str]
    single: bool

    def head(self) -> dict[str, Any]:
        """The fields that every piece of the series begins with."""
        labels = {"labels": dict(self.labels)} if self.labels else {}
        return {"metric": self.metric, **labels, "unit": self.unit}


#: The unit of spans: whole nanoseconds are written in half the time of seconds, and are exact.
SPAN_UNIT = "ns"

#: A value as it was recorded: its series, its step, and the number in the series' unit.
Entry = tuple[Column, int, float]


def line(content: object) -> bytes:
    """One line of a recording; NaN and infinity stay what they are, for readers refuse them by name."""
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def pieces(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    """The pieces that these entries are, one or more for each series."""
    recorded: dict[Column, tuple[list[int], list[float]]] = {}
    for column, step, number in entries:
        found = recorded.get(column)
        if found is None:
            found = recorded[column] = ([], [])
        found[0].append(step)
        found[1].append(number)
    for column, (steps, values) in recorded.items():
        if column.single:
            yield {**column.head(), "value": values[-1]}
            continue
        for start in range(0, len(values), _VALUES_IN_A_LINE):
            part = slice(start, start + _VALUES_IN_A_LINE)
            in_steps = {"steps": steps[part]} if any(steps[part]) else {}
            yield {**column.head(), "values": values[part], **in_steps}


def assemble(lines: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The `perfgate.results/1` document of the lines of a recording."""
    document: dict[str, Any] = {"schema": RESULTS, "environment": {}, "commit": None}
    series: dict[tuple[str, tuple[tuple[str, str], ...]], dict[str, Any]] = {}
    for piece in lines:
        if "metric" in piece:
            key = piece["metric"], tuple(sorted(piece.get("labels", {}).items()))
            _join(series.setdefault(key, {}), piece)
        else:
            document["environment"] |= piece.get("environment", {})
            document["commit"] = piece.get("commit", document["commit"])
    for joined in series.values():
        if not any(joined.get("steps", ())):
            joined.pop("steps", None)
    document["series"] = [*series.values()]
    return document


def _join(joined: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Add a piece to its series, in place: a recording may have a million of them."""
    if "values" not in joined or "value" in piece:
        joined.update(piece)
        joined.setdefault("steps", [0] * len(piece.get("values", ())))
    else:
        joined["values"].extend(piece["values"])
        joined["steps"].extend(piece.get("steps", [0] * len(piece["values"])))


def document_lines(document: Mapping[str, Any]) -> Iterator[bytes]:
    """A results document as text, one series a line, so that a problem's line leads to its series."""
    head = {name: part for name, part in document.items() if name != "series" and part}
    yield json.dumps(head).encode()[:-1] + b', "series": [\n'
    for number, series in enumerate(document["series"]):
        yield (b",\n" if number else b"") + json.dumps(series, separators=(",", ":")).encode()
    yield b"\n]}\n"
