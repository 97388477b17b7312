"""Where work grew: the part of the step whose calls came, the call that made them, and its line, from call trees."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Run
from perfgate.core.call_trees import ALLOCATIONS, GRAPH_LAUNCHES, SYNCS, CallNode, CallTree
from perfgate.core.details import WorkDifference, WorkPlace

_IsCall = Callable[[CallNode], object]
_is_memset = re.compile(r"(?i)memset").match


def _is_kernel(node: CallNode) -> bool:
    return node.kind == "kernel"


#: What the autograd engine puts before the name of a function.
_EVALUATES = "autograd::engine::evaluate_function: "
#: The nodes that each count counts; others follow from kernels.
_COUNTED: Mapping[str, _IsCall] = {
    "work.syncs": lambda node: node.kind == "runtime" and SYNCS.fullmatch(node.name),
    "work.allocations": lambda node: node.kind == "runtime" and ALLOCATIONS.fullmatch(node.name),
    "work.graph_launches": lambda node: node.kind == "runtime" and GRAPH_LAUNCHES.fullmatch(node.name),
    "work.memsets": lambda node: _is_memset(node.name),
    "work.copies": lambda node: node.kind == "copy",
    "work.copied_bytes": lambda node: node.kind == "copy",
    "work.collectives": lambda node: node.kind in ("collective", "communication"),
    "work.collective_bytes": lambda node: node.kind in ("collective", "communication"),
    "work.ops": lambda node: node.kind == "operator",
    "work.flops": lambda node: node.kind == "operator",
}


class _Path(Struct, frozen=True):
    """The names from the step to a call, the first operator among them, and the nearest line of the program."""

    names: tuple[str, ...]
    call: str
    source: str


def with_places(
    differences: Sequence[WorkDifference], base: Iterable[Run], new: Iterable[Run]
) -> tuple[WorkDifference, ...]:
    """Return the differences with the place at which each grew most; without one if the calls are the same."""
    sides = [[tree for run in side for tree in run.call_trees] for side in (base, new)]
    return tuple(replace(one, place=_place(one, *sides)) for one in differences) if all(sides) else tuple(differences)


def _place(difference: WorkDifference, base: Sequence[CallTree], new: Sequence[CallTree]) -> WorkPlace | None:
    rank = difference.member.get("rank", "")
    sides = [[tree for tree in side if tree.rank in ("", rank) or not rank] for side in (base, new)]
    before, after = (_calls(difference, side) for side in sides)
    grown = {path: count - before.get(path, 0.0) for path, count in after.items()}
    grown = {path: count for path, count in grown.items() if count > 1e-6}
    if not grown:
        return None
    part = _largest(grown, _part)
    inside = {path: count for path, count in grown.items() if _part(path) == part}
    call = _largest(inside, lambda path: path.call)
    source = next((path.source for path in inside if path.call == call and path.source), "")
    return WorkPlace(part, call, source)


def _part(path: _Path) -> str:
    """Return the part of the step; empty for a call that the step makes itself."""
    return path.names[0] if len(path.names) > 1 and path.names[0] != path.call else ""


def _largest(counts: Mapping[_Path, float], key: Callable[[_Path], str]) -> str:
    sums: dict[str, float] = defaultdict(float)
    for path, count in counts.items():
        sums[key(path)] += count
    return max(sums, key=lambda name: sums[name])


def _calls(difference: WorkDifference, trees: Sequence[CallTree]) -> dict[_Path, float]:
    """Return how often a step makes the counted calls, by path: the mean of the trees."""
    is_counted = _COUNTED.get(difference.metric, _is_kernel)
    kind = difference.labels.get("kind", "")
    found: dict[_Path, float] = defaultdict(float)
    for tree in trees:
        for index, node in enumerate(tree.nodes):
            if index and is_counted(node) and kind in node.name:
                found[_path(tree, index)] += float(tree.counts[index].mean()) / len(trees)
    return found


def _path(tree: CallTree, index: int) -> _Path:
    names, call, source = [], "", ""
    while index > 0:
        node = tree.nodes[index]
        names.append(node.name)
        source = source or node.source
        call = node.name if node.kind == "operator" else call
        index = node.parent
    return _Path(tuple(reversed(names)), (call or names[0]).removeprefix(_EVALUATES), source)
