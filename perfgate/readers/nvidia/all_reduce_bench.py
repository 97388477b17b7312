"""The all_reduce benchmark of bigscience, in old notes about clusters: a block of lines for each rank and trial.

    27 data size: 4.0 GB
    27:
     duration: 4.1446 sec
     algo throughput: 15441789907.3424 bps, 15.4418 Gbps
     busbw: 14.9592  Gbps

Source: bigscience-workshop/bigscience `experiments/bandwidth/all_reduce_bench.py`. The metrics are `all_reduce.time`
(s), `all_reduce.algo_throughput` and `all_reduce.busbw` (B/s; Gbps is 1e9 bit/s), one value for each trial, with the
labels rank and size (as printed). `algo throughput` counts every byte twice, there and back: it is twice nccl-tests'
`algbw`.

Ranks of several nodes write at the same time, so their blocks may be mixed. A value that may belong to several ranks
goes to the rank whose numbers match: throughput times duration is the same for all blocks of one size, and so is busbw
divided by throughput.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

from perfgate.readers.kit import Key, RunBuilder, fault_of

BENCH_WORDS = (" duration: ", "algo throughput: ", "busbw: ", " data size: ", ":")
_BENCH_RANK = re.compile(r"\s*(\d{1,6}):\s*")
_BENCH_SIZE = re.compile(r"\s*(\d{1,6}) data size: (\S{1,20} [KMGT]?B)\s*")
_BENCH_FIELDS = (
    ("time", "s", 1.0, re.compile(r" duration: (\S{1,40}) sec")),
    ("algo_throughput", "B/s", 8.0, re.compile(r"algo throughput: (\S{1,40}) bps, ")),
    ("busbw", "B/s", 8e-9, re.compile(r"busbw: (\S{1,40}) {1,2}Gbps")),
)
#: The greatest number of open blocks; older ones are incomplete.
_MOST_OPEN = 1024


class _Block(Struct):
    """The printed values of one rank and trial so far."""

    rank: str
    line: int
    texts: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not any(map(fault_of, self.texts))

    def match(self, value: float) -> float:
        """The number that is the same in all blocks: the bits that were moved, or the ratio of busbw to throughput."""
        before = float(self.texts[-1])
        return value * before if len(self.texts) == 1 else value / before if before else 0.0


class AllReduceBench:
    """The blocks of a text while it is read."""

    def __init__(self) -> None:
        self._open: list[_Block] = []
        self._sizes: dict[str, str] = {}
        #: By the number of lines of a block: `match` of the first value that belongs to only one block.
        self._known: dict[int, float] = {}

    def line(self, run: RunBuilder, number: int, line: str) -> None:
        """Take a line; a block that is complete becomes samples of the run."""
        if size := _BENCH_SIZE.fullmatch(line):
            self._sizes[size[1]] = size[2]
        elif rank := _BENCH_RANK.fullmatch(line):
            self._open = [*self._open[-_MOST_OPEN + 1 :], _Block(rank[1], number)]
        for at, (_, _, _, pattern) in enumerate(_BENCH_FIELDS):
            if found := pattern.search(line):
                self._value(run, number, at, found[1])

    def finish(self, run: RunBuilder) -> None:
        """Report blocks that are incomplete, and keep the number of ranks."""
        for block in self._open:
            if block.texts:
                run.say("warning", "the block is incomplete; left out", block.line)
        ranks = {int(rank) for rank in self._sizes}
        if len(ranks) > 1 and ranks == {*range(len(ranks))}:
            run.facts.setdefault("world_size", len(ranks))

    def _value(self, run: RunBuilder, number: int, at: int, text: str) -> None:
        """Add a value to the waiting block that matches it best, else to the last; a complete block becomes samples."""
        run.file.coverage.lines.tell(number)  # the same value is printed in two units
        waiting = [block for block in self._open if len(block.texts) == at]
        if not waiting:
            run.say("error", "the rank of a value of the all_reduce benchmark is lost", number)
            return
        block = waiting[-1]
        if at and not fault_of(text):
            sound, known = [each for each in waiting if each.is_sound], self._known.get(at)
            if known is not None and sound:
                block = min(sound, key=lambda each: abs(each.match(float(text)) - known))
            if len(waiting) == 1 and block.is_sound:
                self._known.setdefault(at, block.match(float(text)))
        block.texts.append(text)
        if len(block.texts) == len(_BENCH_FIELDS):
            self._open.remove(block)
            size = self._sizes.get(block.rank)
            labels = {"rank": block.rank, "size": size} if size else {"rank": block.rank}
            for (name, unit, per, _), printed in zip(_BENCH_FIELDS, block.texts, strict=True):
                run.sample(Key.of(f"all_reduce.{name}", **labels), unit, printed, number, per=per)
