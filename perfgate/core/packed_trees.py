"""Pack call trees without loss into some tens of KB, so that one process can send them to another.

Times of a trace are whole ns, summed over the steps of a group and divided by their number. So the tables are packed
as integers, which compress well, if they give exactly the same numbers again. Trees are unpacked only to find causes,
anew each time, because those of a thousand ranks would fill the memory.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from msgspec.structs import replace

from perfgate.core.call_trees import Amounts, CallNode, CallTree, LazyTrees
from perfgate.core.runs import read_only

#: The tables of a tree, and how many of their integers are one call or second: whole calls, and ns.
_PER_UNIT = {"counts": 1.0, "busy": 1e9, "wall": 1e9}
#: Only smaller groups of steps are tried.
_MOST_STEPS = 256
#: The values of a column that are tried first: most wrong sizes already fail there.
_TRIED = 16
#: A packed table: its numbers, their type, and the number of steps behind each column; [] for numbers that are floats.
_Table: TypeAlias = tuple[bytes, str, list[int]]


class PackedTrees(LazyTrees):
    """The call trees of a run. Each iteration unpacks them anew; `trees[0]` keeps them unpacked in memory."""

    def __init__(self, trees: Sequence[CallTree]) -> None:
        self._heads = tuple(_head(tree) for tree in trees)
        self._data = zlib.compress(pickle.dumps([_packed(tree) for tree in trees]), level=1)  # quickly

    def decode(self) -> tuple[CallTree, ...]:
        """Return the call trees, unpacked."""
        return tuple(_unpacked(*one) for one in pickle.loads(zlib.decompress(self._data)))

    @property
    def heads(self) -> Sequence[CallTree]:
        """The trees without nodes, first calls and memory, and with tables that have columns only."""
        return self._heads

    def __len__(self) -> int:
        return len(self._heads)

    def __iter__(self) -> Iterator[CallTree]:
        return iter(self.decode())


def _head(tree: CallTree) -> CallTree:
    """Return a tree with its ranks and columns, but without nodes and numbers."""
    empty = read_only(np.empty((0, tree.wall.shape[1])))
    return replace(tree, nodes=(), counts=empty, busy=empty, wall=empty, first=None, memory=None, blocks=None)


def _packed(tree: CallTree) -> tuple[CallTree, list[tuple[Any, ...]], dict[str, _Table], int]:
    """Return the tree without nodes and tables, its nodes, its tables, and the number of columns."""
    empty = np.empty(0)
    nodes: list[tuple[Any, ...]] = [(node.name, node.kind, node.parent, node.source) for node in tree.nodes]
    tables = {name: _table(getattr(tree, name), unit) for name, unit in _PER_UNIT.items()}
    bare = replace(tree, nodes=(), counts=empty, busy=empty, wall=empty)
    return bare, nodes, tables, tree.wall.shape[1]


def _unpacked(bare: CallTree, nodes: Sequence[tuple[Any, ...]], tables: dict[str, _Table], columns: int) -> CallTree:
    counts, busy, wall = (_numbers(*tables[name], columns, unit) for name, unit in _PER_UNIT.items())
    return replace(bare, nodes=tuple(CallNode(*node) for node in nodes), counts=counts, busy=busy, wall=wall)


def _table(values: Amounts, unit: float) -> _Table:
    """Pack a table (n, s) as integers, or as it is if integers do not give the same numbers."""
    sizes: list[int] = []
    for column in values.T:
        near = sizes[-1] if sizes else 1  # neighbouring groups have nearly the same size
        tried = (near, near + 1, near - 1, *range(1, _MOST_STEPS))
        some = column[column != 0][:_TRIED]  # 0 fits each size
        size = next((one for one in tried if one > 0 and _fits(some, one, unit) and _fits(column, one, unit)), None)
        if size is None:
            return np.ascontiguousarray(values).tobytes(), "f8", []
        sizes.append(size)
    whole = np.rint(values * unit * np.array(sizes, np.float64))
    kind = "i4" if not whole.size or float(np.abs(whole).max()) < 2**31 else "i8"
    return whole.astype(kind).tobytes(), kind, sizes


def _fits(values: Amounts, size: int, unit: float) -> bool:
    """Return whether all values are means of whole units over this number of steps."""
    return bool(np.array_equal(np.rint(values * unit * size) / size / unit, values))


def _numbers(data: bytes, kind: str, sizes: Sequence[int], columns: int, unit: float) -> Amounts:
    """Unpack a table that `_table` packed."""
    values = np.frombuffer(data, kind).reshape(-1, columns)
    return read_only(values / np.array(sizes, np.int64) / unit) if sizes else values
