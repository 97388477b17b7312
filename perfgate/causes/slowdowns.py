"""The same calls, as often as before, with other times."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

import numpy as np

from perfgate.causes.align import Alignment
from perfgate.causes.noise import Noise, difference_errors
from perfgate.core.call_trees import DEVICE_KINDS
from perfgate.core.causes import CauseKind

#: The change of one node, in its standard errors, that noise does not explain among many nodes.
_CLEAR = 5.0
#: Smaller changes, as a share of the step, are not worth a line: on the host, and on a device.
_WORTH = {True: 0.003, False: 0.012}
#: Ranges in which a program gets its next batch.
_is_input = re.compile(
    r"enumerate\(Data|.*data_?loader|(?:\W|_)*(?:(?:get|load|next|fetch|read|prepare|wait)_?)*"
    r"(?:data|dataset|batch|batches|input|inputs|samples?)(?:_?(?:load|loading|time|wait|fetch|next|prep|get))*\W*$"
    r"|.*(?:prefetch|fetch_batch|load_batch|next_batch|data_iter|batch_generator)",
    re.IGNORECASE | re.DOTALL,
).match


def find_slowdowns(alignment: Alignment, noise: Noise, claimed: AbstractSet[int]) -> list[tuple[int, CauseKind]]:
    """The nodes whose own time of the step changed, and how, without the claimed ones."""
    base, new = alignment.base, alignment.new
    before, after = base.wall.mean(axis=1), new.wall.mean(axis=1)
    middle = np.median(new.wall, axis=1) - np.median(base.wall, axis=1)
    expected = before * np.exp(noise.shift)
    error = difference_errors(base.wall, new.wall, base, new)
    runs = min(base.runs, new.runs)
    error = np.hypot(error, noise.relative * np.minimum(before, after) / np.sqrt(runs))
    change = after - expected
    step = max(before.sum(), after.sum())
    found: list[tuple[int, CauseKind]] = []
    for node in np.argsort(-np.abs(change), kind="stable").tolist():
        worth = _WORTH[alignment.nodes[node].kind in DEVICE_KINDS] * step
        steady = min(abs(change[node]), abs(middle[node])) if change[node] * middle[node] > 0 else 0.0
        if steady < worth or abs(change[node]) < _CLEAR * error[node] or node in claimed:
            continue
        found.append((node, slowdown_kind(node, float(change[node]), alignment)))
    return found


def slowdown_kind(node: int, change: float, alignment: Alignment) -> CauseKind:
    """Return the kind of a change of time of calls that are made as often as before."""
    kind = alignment.nodes[node].kind
    if kind == "communication":
        busy = float(alignment.new.busy[node].mean() - alignment.base.busy[node].mean())
        if change > 0 and busy < change / 2:
            return "exposed"
    if is_input(node, alignment):
        return "stall" if change > 0 else "faster"
    return "slower" if change > 0 else "faster"


def is_input(node: int, alignment: Alignment) -> bool:
    """True for a range that gets the next batch, and for what is in it."""
    chain = (node, *alignment.ancestors(node))
    return any(
        alignment.nodes[one].kind == "loader"
        or (alignment.nodes[one].kind == "range" and _is_input(alignment.nodes[one].name))
        for one in chain
    )
