"""Print the work in a trace as JSON: `perfgate.Recorder(work=True)` runs this in a process of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from msgspec.structs import replace

from perfgate.baselines.stored_trees import write_tree
from perfgate.core import Run
from perfgate.workspace.inputs import read_runs

#: The bytes that a call tree may take in a recording: three steps of 4,000 calls need less.
_ROOM = 120 << 10


def main(arguments: Sequence[str]) -> int:
    """Print the counts and the call tree of a trace (path, rank); return 1, and say why, if it cannot be read."""
    path, rank = arguments
    (run,) = read_runs((path,), "torch-trace", as_given=True)
    series = _series(run)
    faults = [each.message for each in run.problems if each.severity == "error"]
    if faults or not series:
        print(faults[0] if faults else "it has no work", file=sys.stderr)
        return 1
    trees = [replace(tree, rank=rank) for tree in run.call_trees]
    json.dump({"series": series, "call_tree": write_tree(trees, _ROOM) or ""}, sys.stdout)
    return 0


def _series(run: Run) -> list[dict[str, object]]:
    """Return the series `work.*` without the label rank, because the recording has its own."""
    return [
        {
            "metric": one.key.metric,
            "labels": {name: value for name, value in one.key.labels if name != "rank"},
            "unit": one.unit,
            "values": one.values.tolist(),
            "steps": [] if one.steps is None else one.steps.tolist(),
        }
        for one in run.series
        if one.key.metric.startswith("work.")
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
