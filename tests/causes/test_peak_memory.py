"""The place that changed the peak of the memory, from numbers that are worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
from made_alignments import Row, aligned
from msgspec.structs import replace

from perfgate.causes.align import Alignment
from perfgate.causes.kinds import find_memory
from perfgate.core.causes import Cause

MIB = 1 << 20
#: The name of a node, its parent, and its memory in MiB on both sides.
Place: TypeAlias = tuple[str, int, float, float]


def with_memory(places: Sequence[Place], peaks: tuple[float, float]) -> Alignment:
    """An alignment with nodes 1, 2, ... and peaks in MiB; a name with brackets is a line, `train.py(31): loop`."""
    alignment = aligned([Row(name, "range", parent) for name, parent, *_ in places])
    nodes = tuple(replace(node, source=node.name if "(" in node.name else "") for node in alignment.nodes)
    memory = MIB * np.array([(0.0, 0.0), *(place[2:] for place in places)])
    base, new = (replace(side, memory=memory[:, at], peak=MIB * peaks[at]) for at, side in enumerate(alignment.sides))
    return replace(alignment, nodes=nodes, base=base, new=new)


def whole(name: str, *parts: float) -> list[Place]:
    """The first node: a range whose parts grow by so much, and which has none itself."""
    return [(name, 0, 0, 0), *((f"{name} {at}", 1, 0, grown) for at, grown in enumerate(parts))]


#: The peak grows by 40 MiB: a place has to explain 20 of them.
USUAL = (100.0, 140.0)
F, ONE, TWO = ("f", 0, 1, 1), "train.py(1): f", "train.py(2): f"
PLACES: list[tuple[list[Place], tuple[float, float], tuple[str, ...], float, str]] = [
    # the places and peaks; the place of the cause, its size in MiB, its line
    ([("forward", 0, 0, 0), ("mm", 1, 10, 50), ("add", 1, 10, 10)], USUAL, ("forward", "mm"), 40, ""),
    ([("forward", 0, 0, 0), ("mm", 1, 50, 10), ("add", 1, 10, 10)], (140, 100), ("forward", "mm"), -40, ""),
    ([("mm", 0, 0, 40), ("add", 0, 0, 1)], USUAL, ("mm",), 40, ""),
    # half of the change
    ([("mm", 0, 0, 20), ("b", 0, 0, 0), ("x", 2, 0, 12), ("y", 2, 0, 12), ("z", 0, 4, 0)], USUAL, ("mm",), 40, ""),
    # no place alone: the innermost one with its parts
    (whole("forward", 10, 10), USUAL, ("forward",), 40, ""),
    ([("a", 0, 0, 0), ("b", 1, 0, 0), ("x", 2, 0, 12), ("y", 2, 0, 12)], USUAL, ("a", "b"), 40, ""),
    (
        [("a", 0, 0, 0), ("b", 0, 0, 0), *((name, 1, 0, 11) for name in "vw"), *((name, 2, 0, 12) for name in "xy")],
        USUAL,
        ("b",),
        40,
        "",
    ),
    # lines belong to their function
    ([F, (ONE, 1, 30, 0), (TWO, 1, 0, 70)], (100, 144), ("f",), 40, TWO),
    ([F, (ONE, 1, 0, 30), (TWO, 1, 70, 0)], (144, 100), ("f",), -40, TWO),
    ([F, (ONE, 1, 0, 13), (TWO, 1, 0, 7)], USUAL, ("f",), 20, ONE),
    ([("g", 0, 0, 0), (ONE, 1, 0, 1), *(("f", 1, 0, 12) for _ in "xy")], USUAL, ("g",), 40, ONE),
    # the least changes: 1 MiB, and 5 % of the larger peak
    ([("mm", 0, 0, 1)], (2, 3), ("mm",), 1, ""),
    ([("mm", 0, 0, 6)], (100, 105.5), ("mm",), 5.5, ""),
]


@pytest.mark.parametrize(("places", "peaks", "where", "size", "line"), PLACES)
def test_the_place_of_a_change_of_the_peak(
    places: list[Place], peaks: tuple[float, float], where: tuple[str, ...], size: float, line: str
) -> None:
    around = 0.05 * min(peaks)
    low, high = MIB * (size - around), MIB * (size + around)
    expected = Cause("memory", where, "memory", MIB * size, low, high, 1.0, places=(where,), source=line)
    assert find_memory(with_memory(places, peaks)) == ((expected,), ())


NOTE = "the peak of allocated memory changed by {} MiB, mostly before the traces begin"
BYTE = 1 / MIB
NOTES: list[tuple[list[Place], tuple[float, float], tuple[str, ...]]] = [
    ([], (100, 140), (NOTE.format("+40.0"),)),
    ([("mm", 0, 9, 1)], (200, 150), (NOTE.format("-50.0"),)),
    ([("mm", 0, 9, 1)], (150, 200), (NOTE.format("+50.0"),)),
    (whole("forward", 10, 9.75), USUAL, (NOTE.format("+40.0"),)),
    ([("g", 0, 0, 0), ("f", 1, 0, 8), ("h", 1, 0, 0), (ONE, 3, 0, 12 - BYTE)], USUAL, (NOTE.format("+40.0"),)),
    # small changes
    ([("mm", 0, 0, 1)], (2, 2.99), ()),
    ([("mm", 0, 0, 5)], (100, 105.1), ()),
    ([("mm", 0, 5, 0)], (105.1, 100), ()),
]


NO_CALL = "the peak of allocated memory changed by {} MiB, but no call in the traces explains half of it"
#: The memory of the step itself on both sides, other places, and peaks; the note, or None where a place is the cause.
OF_STEP: list[tuple[tuple[float, float], list[Place], tuple[float, float], str | None]] = [
    ((0, 40), [], USUAL, NO_CALL.format("+40.0")),
    ((30, 0), [("mm", 0, 4, 0)], (140, 100), NO_CALL.format("-40.0")),
    ((0, 20), [], USUAL, NO_CALL.format("+40.0")),
    ((0, 20 - BYTE), [], USUAL, NOTE.format("+40.0")),
    ((0, 30), [("mm", 0, 0, 20)], USUAL, None),
    # half of the change, but at several places
    ((0, 0), [("mm", 0, 0, 12), ("add", 0, 0, 12)], USUAL, NO_CALL.format("+40.0")),
]


@pytest.mark.parametrize(("own", "places", "peaks", "note"), OF_STEP)
def test_memory_of_no_call(
    own: tuple[float, float], places: list[Place], peaks: tuple[float, float], note: str | None
) -> None:
    alignment = with_memory(places, peaks)
    for side, size in zip(alignment.sides, own, strict=True):
        assert side.memory is not None
        side.memory[0] = MIB * size
    causes, notes = find_memory(alignment)
    assert (notes, len(causes)) == (((note,), 0) if note is not None else ((), 1))


@pytest.mark.parametrize(("places", "peaks", "notes"), NOTES)
def test_a_change_without_a_place(places: list[Place], peaks: tuple[float, float], notes: tuple[str, ...]) -> None:
    assert find_memory(with_memory(places, peaks)) == ((), notes)


@pytest.mark.parametrize("side", ["base", "new"])
@pytest.mark.parametrize("lacking", ["memory", "peak"])
def test_without_memory_on_both_sides_there_is_no_cause(side: str, lacking: str) -> None:
    alignment = with_memory([("mm", 0, 0, 40)], USUAL)
    changes: dict[str, Any] = {side: replace(getattr(alignment, side), **{lacking: None})}
    assert find_memory(replace(alignment, **changes)) == ((), ())
