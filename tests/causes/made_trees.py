"""Call trees from a dict: the path of each node, with its wall time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from made_alignments import Steps

from perfgate.core.call_trees import CallNode, CallTree


def tree(calls: Mapping[str, Steps], **fields: Any) -> CallTree:
    """Return a tree from paths and their wall times; the path of the step is empty, and `(k)` ends that of a kernel.

    The numbers of calls are 2 times the wall time, and the durations are 3 times it. `fields` are those of the tree.
    """
    paths = list({"": 0.0} | dict(calls))
    nodes = [CallNode("step", "step", -1)]
    for path in paths[1:]:
        above, _, name = path.rpartition("/")
        kind = "kernel" if name.endswith("(k)") else "operator"
        nodes.append(CallNode(name.removesuffix("(k)"), kind, paths.index(above)))  # type: ignore[arg-type]
    steps = max(np.size(time) for time in calls.values())
    wall = np.array([np.broadcast_to(calls.get(path, 0.0), (steps,)) for path in paths], np.float64)
    given = {name: _array(value) for name, value in fields.items()}
    return CallTree(**{"rank": "", "nodes": tuple(nodes), "counts": 2 * wall, "busy": 3 * wall, "wall": wall} | given)


def _array(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _array(one) for key, one in value.items()}
    return np.array(value, np.float64) if isinstance(value, list) else value


def paths(nodes: Sequence[CallNode]) -> list[str]:
    """The paths of nodes; that of the step is empty."""
    found = [""]
    for node in nodes[1:]:
        name = node.name + ("(k)" if node.kind == "kernel" else "")
        found.append(f"{found[node.parent]}/{name}".removeprefix("/"))
    return found


def close(found: Any, expected: Any) -> None:
    """Check that numbers are as expected but for rounding."""
    assert found is not None
    assert np.asarray(found).shape == np.shape(expected)
    assert np.allclose(found, expected, rtol=1e-12)
