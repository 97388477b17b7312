"""The nodes whose own time changed, with the kind of change: from numbers that are worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from made_alignments import Row, Steps, aligned

from perfgate.causes.host import HostSpeed
from perfgate.causes.kinds import _waits_for_input, find_slowdowns, is_input, slowdown_kind
from perfgate.causes.noise import Noise
from perfgate.core.call_trees import NodeKind
from perfgate.core.causes import CauseKind

# --- input and kinds -------------------------------------------------------------------------------------------------

INPUTS: list[tuple[NodeKind, str, bool]] = [
    ("loader", "worker", True),
    ("range", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", True),
    ("range", "Train.DATALOADER", True),
    ("range", "get_batch", True),
    ("range", "Load_Inputs", True),
    ("range", "my\nnext_batch", True),
    ("range", "forward", False),
    ("range", "batch_norm", False),
    ("operator", "get_batch", False),
]


@pytest.mark.parametrize(("kind", "name", "found"), INPUTS)
def test_ranges_and_loaders_of_input(kind: NodeKind, name: str, found: bool) -> None:
    rows = [Row("train", "range", 0), Row(name, kind, 1), Row("copy", "operator", 2), Row("other", "operator", 1)]
    assert [is_input(node, aligned(rows)) for node in range(5)] == [False, False, found, found, False]


#: Nodes 1 to 3; the work of the collective takes 0.002 s longer.
KIND_ROWS = [
    Row("ncclDevKernel", "communication", 0, busy=(0.001, 0.003)),
    Row("loader", "loader", 0, busy=(0.001, 0.001)),
    Row("gemm", "kernel", 0, busy=(0.001, 0.001)),
]
SLOWDOWN_KINDS: list[tuple[int, float, CauseKind]] = [
    (1, 0.005, "exposed"),
    (1, 0.004, "slower"),
    (1, 0.003, "slower"),
    (1, -0.005, "faster"),
    (2, 0.005, "stall"),
    (2, -0.005, "faster"),
    (3, 0.005, "slower"),
    (3, -0.005, "faster"),
    # no change is not slower
    *((node, 0.0, "faster") for node in (1, 2, 3)),
]


@pytest.mark.parametrize(("node", "change", "kind"), SLOWDOWN_KINDS)
def test_the_kind_of_a_change_of_time(node: int, change: float, kind: CauseKind) -> None:
    assert slowdown_kind(node, change, aligned(KIND_ROWS)) == kind


def test_communication_with_less_work_that_takes_as_long_is_not_exposed() -> None:
    rows = [Row("ncclDevKernel", "communication", 0, busy=(0.003, 0.001))]
    assert slowdown_kind(1, 0.0, aligned(rows)) == "faster"
    assert slowdown_kind(1, 0.001, aligned(rows)) == "exposed"


#: The step takes 5 s, so that a wait is long from 0.5 s on above the longest of the base.
THREE = [0.5] * 3
WAITS: list[tuple[str, list[float], list[float], bool]] = [
    ("get_batch", THREE, [1.25] * 3, True),
    ("get_batch", THREE, [1.0] * 3, False),
    ("get_batch", THREE, [0.75] * 3, False),
    ("get_batch", [0.5, 0.25, 0.0], [1.25] * 3, True),
    ("get_batch", [0.5, 0.25, 0.0], [0.875] * 3, False),
    # most steps wait
    ("get_batch", THREE, [1.25, 0.5, 1.25], True),
    ("get_batch", THREE, [1.25, 0.5, 1.25, 0.5], False),
    # at least 3 steps on both sides, in an input
    ("get_batch", [0.5] * 2, [1.25] * 3, False),
    ("get_batch", THREE, [1.25] * 2, False),
    ("forward", THREE, [1.25] * 3, False),
]


@pytest.mark.parametrize(("name", "base", "new", "waits"), WAITS)
def test_most_steps_wait_longer_than_any_did(name: str, base: list[float], new: list[float], waits: bool) -> None:
    rows = [Row(name, "range", 0, base, new), Row("gemm", "kernel", 0, 5 - float(np.mean(base)), 2.0)]
    assert _waits_for_input(1, aligned(rows, [0] * len(base), [0] * len(new))) is waits


# --- which changes are clear -----------------------------------------------------------------------------------------


def slowdowns(
    *rows: Row,
    rest: NodeKind = "kernel",
    step: float = 1000.0,
    runs: tuple[Sequence[int], Sequence[int]] = ((0,), (0,)),
    relative: float = 0.0,
    shift: float = 0.0,
    own: float = 0.0,
    claimed: Sequence[int] = (),
) -> list[tuple[int, CauseKind]]:
    """The changes of the rows, where the longer step takes `step` s: a node of the kind `rest` has what they leave.

    `own` is the change of the own time of every call of the host in s; the other numbers are those of the noise.
    """
    sides = [row.base for row in rows], [row.new for row in rows]
    left = step - max(sum(float(np.mean(times)) for times in side) for side in sides)
    alignment = aligned([*rows, Row("rest", rest, 0, left, left)], *runs)
    count = len(alignment.nodes)
    noise = Noise(alignment, np.full(count, relative), np.full(count, shift))
    speed = HostSpeed(np.zeros(count), np.full(count, own), 0.0, 0.0, (np.zeros(1), np.zeros(1)), 0.0)
    found = find_slowdowns(alignment, noise, speed, {*claimed})
    for one in found:
        assert (one.change, one.error) == noise.change(one.nodes)
        assert (set(one.nodes), one.parents) == ({one.lead}, (max(alignment.nodes[one.lead].parent, 0),))
    return [(one.lead, one.kind) for one in found]


def kernel(base: Steps, new: Steps, kind: NodeKind = "kernel", name: str = "gemm") -> Row:
    return Row(name, kind, 0, base, new)


STEPS_100 = ((0,) * 100, (0,) * 100)
FOUR = (0, 1, 2, 3)
DOUBLE = math.log(2)
ON_DEVICE: tuple[NodeKind, ...] = ("kernel", "copy", "communication")
USUAL: dict[str, Any] = {}
SLOWER: list[tuple[int, CauseKind]] = [(1, "slower")]
NONE: list[tuple[int, CauseKind]] = []
BURST = [500.0, 400.0, 0.0]
STEPS_3 = ((0,) * 3, (0,) * 3)
SLOWDOWNS: list[tuple[list[Row], dict[str, Any], list[tuple[int, CauseKind]]]] = [
    # 0.3 % of the longer step on a device, and 1.2 % on the host
    *(([kernel(10.0, 13.0, kind)], USUAL, SLOWER) for kind in ON_DEVICE),
    *(([kernel(10.0, 12.99, kind)], USUAL, NONE) for kind in ON_DEVICE),
    ([kernel(13.0, 10.0)], USUAL, [(1, "faster")]),
    ([kernel(600.0, 100.0), kernel(10.0, 12.0)], USUAL, [(1, "faster")]),
    ([kernel(10.0, 22.0, "operator")], {"rest": "operator"}, SLOWER),
    ([kernel(10.0, 21.99, "operator")], {"rest": "operator"}, NONE),
    ([kernel(0.001, 0.002)], {"step": 0.1}, SLOWER),
    # the largest change first
    (
        [kernel(10.0, 14.0), kernel(16.0, 10.0), kernel(10.0, 15.0)],
        USUAL,
        [(2, "faster"), (3, "slower"), (1, "slower")],
    ),
    ([kernel(10.0, 14.0), kernel(10.0, 14.0)], USUAL, [(1, "slower"), (2, "slower")]),
    ([kernel(10.0, 14.0), kernel(10.0, 14.0)], {"claimed": [1]}, [(2, "slower")]),
    # the median changes as the mean does
    ([kernel(10.0, [10.0] * 51 + [110.0] * 49)], {"runs": STEPS_100}, NONE),
    ([kernel(10.0, [11.0] * 51 + [110.0] * 49)], {"runs": STEPS_100}, NONE),
    ([kernel(10.0, [13.0] * 51 + [110.0] * 49)], {"runs": STEPS_100}, SLOWER),
    ([kernel(100.0, [90.0] * 51 + [200.0] * 49)], {"runs": STEPS_100}, NONE),
    ([kernel(0.001, [0.001] * 51 + [0.011] * 49)], {"runs": STEPS_100, "step": 0.1}, NONE),
    # 5 standard errors, with the noise of a run for the side with fewer runs
    ([kernel(8.0, 18.0)], {"relative": 0.25}, SLOWER),
    ([kernel(18.0, 8.0)], {"relative": 0.25}, [(1, "faster")]),
    ([kernel(8.0, 17.99)], {"relative": 0.25}, NONE),
    ([kernel(8.0, 13.0)], {"relative": 0.25, "runs": (FOUR, FOUR)}, SLOWER),
    ([kernel(8.0, 12.99)], {"relative": 0.25, "runs": (FOUR, FOUR)}, NONE),
    ([kernel(8.0, 13.0)], {"relative": 0.25, "runs": ((0, 0), FOUR)}, NONE),
    ([kernel([0.0, 2.0], [12.0, 4.0])], {"runs": ((0, 0), (0, 0))}, NONE),
    # beside the common shift of all kernels
    ([kernel(10.0, 20.0)], {"shift": DOUBLE}, NONE),
    ([kernel(10.0, 40.0)], {"shift": DOUBLE}, SLOWER),
    ([kernel(10.0, 15.0)], {"shift": DOUBLE}, NONE),
    ([kernel(10.0, 5.0)], {"shift": DOUBLE}, [(1, "faster")]),
    # a call of the host beside a device, by its own time
    ([kernel(10.0, 30.0, "operator")], USUAL, NONE),
    ([kernel(10.0, 30.0, "operator")], {"own": 20.0}, SLOWER),
    ([kernel(10.0, 30.0, "runtime", "cudaStreamSynchronize")], {"own": 20.0}, NONE),
    ([kernel(10.0, 30.0, "runtime", "cudaStreamSynchronize")], {"rest": "operator"}, SLOWER),
    # a wait for a batch
    ([kernel(10.0, 30.0, "loader")], USUAL, [(1, "stall")]),
    ([kernel(0.0, BURST, "loader")], {"runs": STEPS_3}, [(1, "stall")]),
    ([kernel(0.0, BURST, "loader")], {"runs": STEPS_3, "claimed": [1]}, NONE),
    ([kernel(0.0, BURST)], {"runs": STEPS_3}, NONE),
]


@pytest.mark.parametrize(("rows", "more", "found"), SLOWDOWNS)
def test_clear_changes_of_time(rows: list[Row], more: dict[str, Any], found: list[tuple[int, CauseKind]]) -> None:
    assert slowdowns(*rows, **more) == found
