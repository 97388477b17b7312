"""The call tree of a rank or a job: the calls, their callers and numbers, and the parts of the time of steps."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Literal, TypeAlias, overload

from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Amounts: TypeAlias = "npt.NDArray[np.float64]"
#: The kind of a node. A `thread` is the root of the calls of a thread that does not run the steps.
NodeKind = Literal[
    "step", "thread", "range", "loader", "operator", "runtime", "collective", "kernel", "communication", "copy"
]
#: The kinds of work that a device does.
DEVICE_KINDS: tuple[NodeKind, ...] = ("kernel", "communication", "copy")


class CallNode(Struct, frozen=True):
    """One place in the program: a name below its parent.

    `parent` is the index of the node above, -1 for the step; parents are before their children.
    """

    name: str
    kind: NodeKind
    parent: int
    #: The line of the program that made the first call, `train.py(31): loop`; empty without stacks.
    source: str = ""


class CallTree(Struct, frozen=True):
    """The calls of one rank, or the mean of several, in n nodes and s steps; node 0 is the step.

    Long traces have groups of steps instead of steps: the values are means over the steps of a group.
    """

    #: The rank; empty if it is unknown.
    rank: str
    nodes: tuple[CallNode, ...]
    #: Calls, (n, s).
    counts: Amounts
    #: The summed durations of calls in s, (n, s).
    busy: Amounts
    #: The part of the step that belongs to this node, in s, (n, s). Each moment of a step belongs to one of the nodes
    #: that run then, to a device's work before the host's. So the columns sum to the times of the steps.
    wall: Amounts
    #: Bytes that were allocated from here and in use at the peak of the trace, (n,); None without memory events.
    memory: Amounts | None = None
    #: The peak of allocated bytes in the trace, including the bytes allocated before it began.
    peak: float | None = None
    #: The time of the first call after the start of its step, in s, (n,); inf without calls. Of timers, only the order
    #: is known.
    first: Amounts | None = None
    #: False if the trace has no steps: then all of it is one step.
    has_steps: bool = True
    #: For a tree of metrics instead of events: the standard error of the mean in `wall`, within the run, (n,).
    error: Amounts | None = None
    #: The metrics that have no place in the tree, in words.
    notes: tuple[str, ...] = ()
    #: True if the source may have left out its smallest nodes, as tables with a limit of rows do.
    is_cut: bool = False
    #: The number of steps behind the columns; 0 if each column is one step.
    steps: int = 0
    #: If the tree is the mean of several ranks: `wall` of each rank, means over steps, (n,); `rank` is then empty.
    rank_wall: Mapping[str, Amounts] | None = None
    #: The indices of the nodes that include the wall time and memory of small calls below them, which have no node.
    pooled: frozenset[int] = frozenset()
    #: The thread blocks of all kernels of a node, mean over steps, (n,); None if the trace has no grids.
    blocks: Amounts | None = None

    @property
    def ranks(self) -> tuple[str, ...]:
        """The ranks behind the tree: those of a mean, else the one rank, which may be empty."""
        return (self.rank,) if self.rank_wall is None else tuple(self.rank_wall)

    @property
    def step_times(self) -> Amounts:
        """The time of each step in s, (s,)."""
        times: Amounts = self.wall.sum(axis=0)
        return times


class LazyTrees(Sequence[CallTree], ABC):
    """Call trees that are decoded when the first of them is used."""

    @abstractmethod
    def decode(self) -> tuple[CallTree, ...]:
        """Return the call trees."""

    @property
    def heads(self) -> Sequence[CallTree]:
        """The trees with their ranks and columns. A subclass may leave out nodes and numbers, so it need not decode."""
        return self._trees

    @cached_property
    def _trees(self) -> tuple[CallTree, ...]:
        return self.decode()

    @overload
    def __getitem__(self, index: int) -> CallTree: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[CallTree]: ...
    def __getitem__(self, index: int | slice) -> CallTree | Sequence[CallTree]:
        return self._trees[index]

    def __len__(self) -> int:
        return len(self._trees)

    def __iter__(self) -> Iterator[CallTree]:
        return iter(self._trees)


@dataclass(frozen=True)
class JoinedTrees(LazyTrees):
    """The call trees of several files as one sequence. The trees of a file are decoded when they are used."""

    parts: tuple[Sequence[CallTree], ...]

    def decode(self) -> tuple[CallTree, ...]:
        """Return the call trees of all files."""
        return tuple(self)

    @property
    def heads(self) -> Sequence[CallTree]:
        """The heads of the trees of all files."""
        return tuple(chain.from_iterable(map(heads_of, self.parts)))

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __iter__(self) -> Iterator[CallTree]:
        return chain.from_iterable(self.parts)


def heads_of(trees: Sequence[CallTree]) -> Sequence[CallTree]:
    """Return the trees with their ranks and columns; if possible without nodes and numbers, so nothing is decoded."""
    return trees.heads if isinstance(trees, LazyTrees) else trees


def trees_with(trees: Sequence[CallTree], ranks: AbstractSet[str]) -> Sequence[CallTree]:
    """Return the trees that have one of these ranks; the trees of other files are not decoded."""
    wanted = [not ranks.isdisjoint(head.ranks) for head in heads_of(trees)]
    if not any(wanted):
        return ()
    if all(wanted):
        return trees
    if isinstance(trees, JoinedTrees):
        return joined_trees([trees_with(part, ranks) for part in trees.parts])
    return tuple(tree for tree, is_wanted in zip(trees, wanted, strict=True) if is_wanted)


def joined_trees(parts: Sequence[Sequence[CallTree]]) -> Sequence[CallTree]:
    """Return the call trees of several files, in order."""
    # A tuple has its trees in memory; all others are decoded only when they are used.
    if all(isinstance(part, tuple) for part in parts):
        return tuple(chain.from_iterable(parts))
    return JoinedTrees(tuple(part for part in parts if len(part)))


#: Parts of names that differ between runs or builds of a program, with their replacements: sequence numbers, addresses,
#: hashes, the spelling of C++ names, and the numbers of Triton kernels.
_CHANGING = (
    (re.compile(r", seq = \d+"), ""),
    (re.compile(r"0x[0-9a-fA-F]{4,}"), "0x"),
    (re.compile(r"(?<![0-9a-zA-Z])[0-9a-z]{32,}(?![0-9a-zA-Z])"), "*"),
    (re.compile(r"\(anonymous namespace\)::|\{anonymous\}::|<unnamed>::"), ""),
    (re.compile(r"(?<=\d)ul\b"), ""),
    (re.compile(r"(triton_\w*?)_\d+$"), r"\1"),
    (re.compile(r"\s+"), " "),
)


def stable_name(name: str) -> str:
    """Return the name without the parts that differ between runs or builds of one program, such as addresses."""
    for pattern, replacement in _CHANGING:
        name = pattern.sub(replacement, name)
    return name.strip()


# Calls of a runtime or driver, by their names in CUDA, HIP, and Level Zero or Unified Runtime (XPU). On an XPU, Kineto
# records each submission twice, as `ur...` of the runtime and inside it as `ze...` of the driver: only `ur...` counts.
# Its waits are recorded as `ze...` only. Source: pytorch/kineto `libkineto/src/plugin/xpupti/XpuptiActivityApi.cpp`.
#: The beginning of the name of any such call.
IS_RUNTIME = re.compile(r"(?:cu|cuda|hip|ur|pi|ze)[A-Z]")
#: Calls that launch one kernel; callbacks of the host are excluded.
LAUNCHES = re.compile(
    r"(?:cu|cuda|hip|hipExt|hipDrv|hipModule|hipExtModule|hipHccModule)Launch(?!Host)\w*"
    r"|(?:ur|pi)Enqueue\w*KernelLaunch\w*"
)
GRAPH_LAUNCHES = re.compile(r"(?:cu|cuda|hip)GraphLaunch\w*")
#: Calls by which the host waits for a device; copies without `Async` wait, too.
SYNCS = re.compile(
    r"(?:cu|cuda|hip|musa|ze)[A-Z]\w*Synchronize(?:_\w+)?|(?:cu|cuda|hip)Memcpy(?!\w*Async)\w*"
    r"|urQueueFinish|urEventWait|piQueueFinish|piEventsWait"
)
#: Calls that allocate or release memory of a device, or pinned memory.
ALLOCATIONS = re.compile(
    r"(?:cuda|hip)(?:(?:Host|Ext)?Malloc|Free|Host(?:Alloc|Free|Register|Unregister))\w*"
    r"|(?:cu|hip)Mem(?:Alloc|HostAlloc|HostRegister|HostUnregister|Free|Create|Release)\w*"
    r"|urUSM(?:Device|Host|Shared)Alloc|urUSMFree"
)
#: Copies from or to pageable memory of the host. Their time depends on that memory by chance, so only their number
#: shows a change of the program.
PAGEABLE = re.compile(r"Memcpy .*Pageable")
