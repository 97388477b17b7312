"""The all_reduce benchmark of bigscience, as old cluster notes hold it: one block of lines for each rank and trial.

    27 data size: 4.0 GB
    27:
     duration: 4.1446 sec
     algo throughput: 15441789907.3424 bps, 15.4418 Gbps
     busbw: 14.9592  Gbps

Source: bigscience-workshop/bigscience `experiments/bandwidth/all_reduce_bench.py`. The metrics are `all_reduce.time`
(s), `all_reduce.algo_throughput` and `all_reduce.busbw` (B/s; Gbps is 1e9 bit/s), a value a trial, with the labels rank
and size (as printed). `algo throughput` counts every byte twice, there and back: it is twice nccl-tests' `algbw`.

Ranks of several nodes write at once, so that blocks may stand within one another. A value that could be of several
ranks goes to the one whose numbers it fits: throughput times duration is the same for all blocks of one size, and so is
busbw over throughput.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from perfgate.core import Key
from perfgate.readers.builder import RunBuilder, fault_of

WORDS = (" duration: ", "algo throughput: ", "busbw: ", " data size: ", ":")

_RANK = re.compile(r"\s*(\d{1,6}):\s*")
_SIZE = re.compile(r"\s*(\d{1,6}) data size: (\S{1,20} [KMGT]?B)\s*")
_FIELDS = (
    ("time", "s", 1.0, re.compile(r" duration: (\S{1,40}) sec")),
    ("algo_throughput", "B/s", 8.0, re.compile(r"algo throughput: (\S{1,40}) bps, ")),
    ("busbw", "B/s", 8e-9, re.compile(r"busbw: (\S{1,40}) {1,2}Gbps")),
)
#: More blocks are never open at once: what came before them was broken off.
_MOST_OPEN = 1024


@dataclass(slots=True)
class _Block:
    """The lines of one rank and trial so far, as printed."""

    rank: str
    line: int
    texts: list[str] = field(default_factory=list)

    def number(self, at: int) -> float:
        return float(self.texts[at])


class AllReduceBench:
    """The blocks of a text while it is read."""

    def __init__(self) -> None:
        self._open: list[_Block] = []
        self._sizes: dict[str, str] = {}
        #: By the number of lines a block has: the first product or ratio that was sure.
        self._fits: dict[int, float] = {}

    def line(self, run: RunBuilder, number: int, line: str) -> None:
        """Any line: one of a block, or another."""
        size = _SIZE.fullmatch(line)
        if size:
            self._sizes[size[1]] = size[2]
        elif rank := _RANK.fullmatch(line):
            self._open = [*self._open[-_MOST_OPEN + 1 :], _Block(rank[1], number)]
        for at, (_, _, _, pattern) in enumerate(_FIELDS):
            found = pattern.search(line)
            if found:
                self._value(run, number, at, found[1])

    def finish(self, run: RunBuilder) -> None:
        """Say which blocks are not whole, and how many ranks there are."""
        for block in self._open:
            if block.texts:
                run.say("warning", "a block that is not whole, and is left out", block.line)
        ranks = {int(rank) for rank in self._sizes}
        if len(ranks) > 1 and ranks == {*range(len(ranks))}:
            run.facts.setdefault("world_size", len(ranks))

    def _value(self, run: RunBuilder, number: int, at: int, text: str) -> None:
        """A value of a block that waits for one of this kind; the block is handed over when it is whole."""
        waiting = [block for block in self._open if len(block.texts) == at]
        if not waiting:
            run.say("error", "a value of the all_reduce benchmark whose rank was lost", number)
            return
        block = waiting[-1] if at == 0 or len(waiting) == 1 or fault_of(text) else self._fitting(waiting, at, text)
        block.texts.append(text)
        if at and len(waiting) == 1 and not any(map(fault_of, block.texts)):
            self._fits.setdefault(at, _fit(block, at, float(text)))
        if len(block.texts) == len(_FIELDS):
            self._open.remove(block)
            self._keep(run, block, number)

    def _fitting(self, waiting: list[_Block], at: int, text: str) -> _Block:
        """The block whose numbers a value fits best; the last one while nothing is known."""
        sound = [block for block in waiting if not any(map(fault_of, block.texts))]
        known = self._fits.get(at)
        if known is None or not sound:
            return waiting[-1]
        return min(sound, key=lambda block: abs(_fit(block, at, float(text)) - known))

    def _keep(self, run: RunBuilder, block: _Block, number: int) -> None:
        labels = {"rank": block.rank}
        if block.rank in self._sizes:
            labels["size"] = self._sizes[block.rank]
        for (name, unit, per, _), text in zip(_FIELDS, block.texts, strict=True):
            key = Key.of(f"all_reduce.{name}", **labels)
            run.add(run.column(key, unit, per), text, number)


def _fit(block: _Block, at: int, value: float) -> float:
    """What is the same for all blocks: the bits that were moved, and how busbw and throughput compare."""
    before = block.number(at - 1)
    return value * before if at == 1 else value / before if before else 0.0
