"""Changes between two sides, from a dict of calls: see `changed`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from made_alignments import Row, Steps, aligned
from msgspec.structs import replace

from perfgate.causes.align import Alignment, Finding
from perfgate.causes.noise import Noise
from perfgate.causes.recognised import _Change
from perfgate.core.call_trees import NodeKind

#: Of a call: the numbers of calls in the base and now, its times in s, and its thread blocks.
Call: TypeAlias = Sequence[Steps]
_ENDS: Mapping[str, NodeKind] = {"(k)": "kernel", "()": "runtime", "(c)": "copy", "(n)": "communication"}


def changed(calls: Mapping[str, Call], claimed: Collection[str] = (), steps: int = 1) -> _Change:
    """Return the change of calls that are known by their paths, without noise between runs.

    `(k)` ends the path of a kernel, `()` that of a call of the runtime, `(c)` and `(n)` those of copies and
    communication; `forward`, `backward` and `optimizer` are ranges. Nodes above a call are made once a step.
    """
    paths = [""]
    for path in calls:
        names = path.split("/")
        above = ("/".join(names[:depth]) for depth in range(1, len(names) + 1))
        paths += [one for one in above if one not in paths]
    full = [[*calls.get(path, ()), *(1, 1, 0, 0, 0, 0)[len(calls.get(path, ())) :]] for path in paths]
    rows = [
        Row(_name(path), _kind(path), paths.index(path.rpartition("/")[0]), before, after, (few, many))
        for path, (few, many, before, after, *_) in zip(paths[1:], full[1:], strict=True)
    ]
    runs = [0] * steps
    alignment = aligned(rows, runs, runs)
    blocks = np.array([row[4:] for row in full], np.float64)
    base, new = (replace(side, blocks=blocks[:, at]) for at, side in enumerate(alignment.sides))
    alignment = replace(alignment, base=base, new=new)
    zeros = np.zeros(len(paths))
    return _Change(alignment, {paths.index(one) for one in claimed}, Noise(alignment, zeros, zeros))


def _name(path: str) -> str:
    name = path.rpartition("/")[2]
    return next((name.removesuffix(end) for end in _ENDS if name.endswith(end)), name)


def _kind(path: str) -> NodeKind:
    if path in ("forward", "backward", "optimizer"):
        return "range"
    return next((kind for end, kind in _ENDS.items() if path.endswith(end)), "operator")


def full_path(alignment: Alignment, node: int) -> str:
    """The path of a node as `changed` gets it."""
    ends = {kind: end for end, kind in _ENDS.items()}
    return "/".join(alignment.path(node)) + ends.get(alignment.nodes[node].kind, "")


def shown(found: Finding | None, change: _Change) -> tuple[list[str], ...] | None:
    """The paths of the calls that came and went, and of the node that leads the finding; None without one."""
    if found is None:
        return None
    groups = (found.come, found.gone, (found.lead,))
    return tuple([full_path(change.alignment, node) for node in group] for group in groups)
