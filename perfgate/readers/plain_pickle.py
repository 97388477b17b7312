"""Read a pickle that contains only plain data, without the power to build anything else.

A pickle is a program for a small stack machine, and some of its opcodes import and call any function. This machine has
no such opcodes. It knows those that make dicts, lists, tuples, text, numbers, booleans and None, and the memo that lets
values be used again. At any other opcode it stops with an error that names the opcode and its place. Nothing of the
module `pickle` is used.

Sources: the opcodes of protocols 2 to 5 as documented in CPython `Lib/pickletools.py`. torch writes a snapshot with
Python's `pickle.dump` (`torch/cuda/memory.py`: `_dump_snapshot`), or with its own pickler of protocol 2
(`torch/csrc/cuda/memory_snapshot.cpp`: `_memory_snapshot_pickled`; `torch/csrc/jit/serialization/pickler.cpp`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

from perfgate.core.resource_limits import Limits

Plain: TypeAlias = "dict[Plain, Plain] | list[Plain] | tuple[Plain, ...] | str | int | float | bool | None"
#: Opcodes that can run code, and their names. Every unknown opcode is refused; these names make the message clear.
# fmt: off
_REFUSED = {
    b"c": "GLOBAL", b"\x93": "STACK_GLOBAL", b"R": "REDUCE", b"i": "INST", b"o": "OBJ", b"\x81": "NEWOBJ",
    b"\x92": "NEWOBJ_EX", b"b": "BUILD", b"P": "PERSID", b"Q": "BINPERSID", b"\x82": "EXT1", b"\x83": "EXT2",
    b"\x84": "EXT4", b"\x97": "NEXT_BUFFER",
}
# fmt: on
#: The bytes of the longest whole number: numbers in a snapshot have 64 bits.
_LONGEST_NUMBER = 16


class PickleFault(Exception):
    """The pickle has more than plain data, is damaged, or is too large."""


class PlainPickle:
    """One pickle while it is read."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        self._data, self._limits = data, limits
        self._at = 0
        self._stack: list[Plain] = []
        #: The stacks below the marks.
        self._below: list[list[Plain]] = []
        #: The values that were remembered, by their numbers.
        self._memo: list[Plain] = []
        #: The number of lists, dicts, tuples and marks so far.
        self._containers = 0

    def load(self) -> Plain:
        """Return the value. Raises PickleFault."""
        data, steps = self._data, _STEPS
        try:
            while True:
                opcode = data[self._at]
                self._at += 1
                if opcode == _STOP:
                    return self._stack.pop()
                step = steps.get(opcode)
                if step is None:
                    raise PickleFault(_refusal(opcode, self._at - 1))
                step(self)
        except (IndexError, struct.error):
            raise PickleFault(f"the pickle ends, or is damaged, at byte {self._at}") from None
        except (TypeError, AttributeError, UnicodeDecodeError, ValueError):
            raise PickleFault(f"the pickle is damaged at byte {self._at}") from None

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        start, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise IndexError
        return self._data[start : self._at]

    def whole(self, size: int, *, signed: bool = False) -> int:
        """Return the next whole number, of `size` bytes."""
        return int.from_bytes(self.take(size), "little", signed=signed)

    def _count(self) -> None:
        """Count one more list, dict, tuple or mark. Raises PickleFault beyond a limit."""
        self._containers += 1
        if self._containers > self._limits.containers:
            raise PickleFault(self._limits.beyond("containers", "the pickle has more lists and dicts"))
        if len(self._below) > self._limits.depth:
            raise PickleFault(self._limits.beyond("depth", "the pickle is nested more deeply"))

    def push(self, value: Plain) -> None:
        """Put a value on the stack."""
        self._stack.append(value)

    def container(self, value: Plain) -> None:
        """Put a new list, dict or tuple on the stack."""
        self._count()
        self._stack.append(value)

    def mark(self) -> None:
        """Begin a new stack above this one."""
        self._count()
        self._below.append(self._stack)
        self._stack = []

    def to_mark(self) -> list[Plain]:
        """Take the values above the mark from the stack."""
        items, self._stack = self._stack, self._below.pop()
        return items

    def pop(self, size: int) -> list[Plain]:
        """Take values from the top of the stack."""
        if len(self._stack) < size:
            raise IndexError
        items = self._stack[-size:]
        del self._stack[-size:]
        return items

    def text(self, size: int) -> None:
        """Put text on the stack whose length has `size` bytes."""
        self._stack.append(self.take(self.whole(size)).decode("utf-8", "surrogatepass"))

    def long(self) -> None:
        """Put a whole number on the stack whose length has one byte."""
        size = self.whole(1)
        if size > _LONGEST_NUMBER:
            raise ValueError
        self._stack.append(self.whole(size, signed=True))

    def memoize(self) -> None:
        """Remember the value on top under the next number."""
        self._memo.append(self._stack[-1])

    def remember(self, size: int) -> None:
        """Remember the value on top under a number of `size` bytes; picklers count from 0 or 1."""
        index = self.whole(size)
        if index > len(self._memo) + 1:
            raise ValueError
        if index >= len(self._memo):
            self._memo += [None] * (index + 1 - len(self._memo))
        self._memo[index] = self._stack[-1]

    def recall(self, size: int) -> None:
        """Put a remembered value on the stack."""
        self._stack.append(self._memo[self.whole(size)])

    def extend(self, items: list[Plain]) -> None:
        """Add values to the list on top of the stack."""
        found = self._stack[-1]
        if not isinstance(found, list):
            raise ValueError
        found.extend(items)

    def update(self, items: list[Plain]) -> None:
        """Add keys and values, by turns, to the dict on top of the stack."""
        found = self._stack[-1]
        # No tuples as keys: to hash one that has the same tuple in it many times may take forever.
        if len(items) % 2 or not all(isinstance(key, str | int) for key in items[::2]) or not isinstance(found, dict):
            raise ValueError
        found.update(zip(items[::2], items[1::2], strict=True))


def _refusal(opcode: int, at: int) -> str:
    if name := _REFUSED.get(bytes((opcode,))):
        advice = "only plain data is read, and a snapshot of torch has nothing else"
        return f"the pickle has the opcode {name} at byte {at}, which can run code; {advice}"
    return f"the pickle has the opcode 0x{opcode:02x} at byte {at}, which plain data never has"


_STOP = ord(".")
#: The function of each opcode.
_STEPS: dict[int, Callable[[PlainPickle], object]] = {
    0x80: lambda machine: machine.take(1),  # PROTO
    0x95: lambda machine: machine.take(8),  # FRAME
    ord("("): PlainPickle.mark,  # MARK
    ord("}"): lambda machine: machine.container({}),  # EMPTY_DICT
    ord("]"): lambda machine: machine.container([]),  # EMPTY_LIST
    ord(")"): lambda machine: machine.container(()),  # EMPTY_TUPLE
    ord("N"): lambda machine: machine.push(None),  # NONE
    0x88: lambda machine: machine.push(True),  # NEWTRUE
    0x89: lambda machine: machine.push(False),  # NEWFALSE
    ord("J"): lambda machine: machine.push(machine.whole(4, signed=True)),  # BININT
    ord("K"): lambda machine: machine.push(machine.whole(1)),  # BININT1
    ord("M"): lambda machine: machine.push(machine.whole(2)),  # BININT2
    0x8A: PlainPickle.long,  # LONG1
    ord("G"): lambda machine: machine.push(float(struct.unpack(">d", machine.take(8))[0])),  # BINFLOAT
    0x8C: lambda machine: machine.text(1),  # SHORT_BINUNICODE
    ord("X"): lambda machine: machine.text(4),  # BINUNICODE
    0x8D: lambda machine: machine.text(8),  # BINUNICODE8
    0x94: PlainPickle.memoize,  # MEMOIZE
    ord("q"): lambda machine: machine.remember(1),  # BINPUT
    ord("r"): lambda machine: machine.remember(4),  # LONG_BINPUT
    ord("h"): lambda machine: machine.recall(1),  # BINGET
    ord("j"): lambda machine: machine.recall(4),  # LONG_BINGET
    ord("a"): lambda machine: machine.extend(machine.pop(1)),  # APPEND
    ord("e"): lambda machine: machine.extend(machine.to_mark()),  # APPENDS
    ord("s"): lambda machine: machine.update(machine.pop(2)),  # SETITEM
    ord("u"): lambda machine: machine.update(machine.to_mark()),  # SETITEMS
    0x85: lambda machine: machine.container((*machine.pop(1),)),  # TUPLE1
    0x86: lambda machine: machine.container((*machine.pop(2),)),  # TUPLE2
    0x87: lambda machine: machine.container((*machine.pop(3),)),  # TUPLE3
    ord("t"): lambda machine: machine.container((*machine.to_mark(),)),  # TUPLE
}
