"""nccl-tests and rccl-tests: the printed tables, or the document of `-J`; and the printed benchmark of bigscience.

    # Collective test starting: all_reduce_perf
    # nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 graph: 0
    #  Rank  0 Group  0 Pid   6899 on node device  0 [0000:04:00] NVIDIA H100 80GB HBM3
    #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
    #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
         1048576        262144     float     sum      -1    78.12   13.42   12.61      0    77.90   13.46   12.65      0
    # Avg bus bandwidth    : 12.63

Source: NVIDIA/nccl-tests `src/util.cu`, `src/common.cu` (v2.0 to v2.18, JSON versions 1 and 2). A time is a mean over
all iterations, so it is a single value; GB is 1e9 bytes. The collective is the program's name without `_perf`, or
`collective` if no name is printed. `redop` and `root` are blank for some collectives.

| metric | unit | labels |
|---|---|---|
| `COLLECTIVE.time` (`COLLECTIVE.cpu_time` with `-C`) | s | size (bytes), place (`out`, `in`) |
| `COLLECTIVE.algbw`, `COLLECTIVE.busbw` | B/s | size, place |
| `COLLECTIVE.avg_busbw` | B/s | |

If the rows differ in type, operation or root, these are labels, too (type, redop, root). A size that is measured
several times (`--run_cycles`) has several samples. A measurement with a wrong result is left out.

**A log of several programs** has a section for each, with its own name, ranks and average. Sections that differ in
what they print about themselves (ranks, threads, aggregated iterations, graph, variables such as NCCL_ALGO in their
command lines) have it as labels. Equal sections are several runs. The tags of `mpirun --tag-output` and the prefixes of
launchers are dropped.

**The all_reduce benchmark of bigscience**, in old notes about clusters, has a block of lines for each rank and trial:

    27 data size: 4.0 GB
    27:
     duration: 4.1446 sec
     algo throughput: 15441789907.3424 bps, 15.4418 Gbps
     busbw: 14.9592  Gbps

Source: bigscience-workshop/bigscience `experiments/bandwidth/all_reduce_bench.py`. The metrics are `all_reduce.time`
(s), `all_reduce.algo_throughput` and `all_reduce.busbw` (B/s; Gbps is 1e9 bit/s), one value for each trial, with the
labels rank and size (as printed). `algo throughput` counts every byte twice, there and back: it is twice `algbw`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from perfgate.documents.json import load_json
from perfgate.readers.kit import Format, InputFile, JsonSource, Key, Run, RunBuilder, checked, fault_of, items, mapping
from perfgate.readers.nvidia.nccl_log import NAME, PROGRAM, WORDS, NcclLog
from perfgate.readers.nvidia.nccl_rows import DETAILS, NcclValue, add_values, varying_details, without_tags

METRICS = "`COLLECTIVE.time`, `.algbw`, `.busbw`, `.avg_busbw`, labelled with `size` and `place`"
CHECKED = "nccl-tests' sources to 2.17; generated tables and files; public logs of NCCL 2.20 and 2.22"
#: Not read: what the library says about the network.
BESIDE = ".*Internode latency set at"
FORMAT = Format(
    NAME,
    __name__,
    markers={
        "algbw": r"#[ \t]{1,99}size[ \t].{0,300}\balgbw[ \t]+busbw",
        "algo throughput: ": r"algo throughput: \S{1,40} bps, \S{1,40} Gbps",
    },
    json=("of nccl-tests results", "results.*.size", "results.*.out_of_place|results.*.in_place"),
)
#: By the name in JSON: the metric, and how many printed units are one base unit.
_IN_JSON = {"time": ("time", 1e6), "cpu_time": ("cpu_time", 1e6), "alg_bw": ("algbw", 1e-9), "bus_bw": ("busbw", 1e-9)}
_BENCH_WORDS = (" duration: ", "algo throughput: ", "busbw: ", " data size: ", ":")  # `:` for the line `27:`
_BENCH_RANK = re.compile(r"\s*(\d{1,6}):\s*")
_BENCH_SIZE = re.compile(r"\s*(\d{1,6}) data size: (\S{1,20} [KMGT]?B)\s*")
#: The values of a block in order: metric, unit, printed units in one base unit, and pattern.
_BENCH_FIELDS = (
    ("time", "s", 1.0, re.compile(r" duration: (\S{1,40}) sec")),
    ("algo_throughput", "B/s", 8.0, re.compile(r"algo throughput: (\S{1,40}) bps, ")),
    ("busbw", "B/s", 8e-9, re.compile(r"busbw: (\S{1,40}) {1,2}Gbps")),
)
#: The greatest number of open blocks; older ones are dropped as incomplete.
_MOST_OPEN = 1024


def read(document: InputFile) -> tuple[Run, ...]:
    """Return the runs of a file: several if programs with the same name and settings ran one after another."""
    if document.is_json():
        return (_of_json(document),)
    log, bench = NcclLog(document), _AllReduceBench()
    for at, line, _, ended in document.lines((*WORDS, *_BENCH_WORDS)):
        tag, text = without_tags(line)
        log.line(at, text, tag, ended)
        if ended:
            bench.line(log.other, at, text)
    bench.finish(log.other)
    return log.runs()


def _of_json(document: InputFile) -> Run:
    """Read `{"args": ["./all_reduce_perf", ...], "results": [{"size": 8, "out_of_place": {"time": 78.12, ...}, ...}]}`.

    `env` contains all environment variables of the job, so only the listed fields are used.
    """
    loaded = load_json(document.whole() or "{}", document.name, document.limits)
    run = RunBuilder(document, NAME, JsonSource(loaded))
    data = mapping(loaded.data)
    config = mapping(data.get("config"))
    program = str(next(iter(items(data.get("args"))), ""))
    found = PROGRAM.search(program.rpartition("/")[2])
    collective = found[1] if found else "collective"
    values = list[NcclValue]()
    for index, row in enumerate(items(data.get("results"))):
        values += _json_values(mapping(row), index)
    add_values(run, collective, values, varying_details(values))
    average, bounds = mapping(data.get("average_bus_bandwidth")), mapping(data.get("out_of_bounds"))
    if "bandwidth" in average:
        path = ("average_bus_bandwidth", "bandwidth")
        run.value(Key(f"{collective}.avg_busbw"), "B/s", average["bandwidth"], path, per=1e-9)
    if checked(bounds.get("count"), "1")[0]:
        run.say("error", f"{bounds['count']} values are out of bounds", ("out_of_bounds",))
    # `devices` has one entry for each process, which has `nthreads` times `ngpus` GPUs.
    named = [mapping(device).get("device_info") for device in items(config.get("devices"))]
    threads, gpus = (checked(config.get(name), "s")[0] for name in ("nthreads", "ngpus"))  # not below 0, as in s
    if named and isinstance(named[0], str):
        run.facts["gpu"] = named[0]
    if named and 0 < threads * gpus < 1 << 20:
        run.facts["gpu_count"] = run.facts["world_size"] = len(named) * int(threads * gpus)
    run.report_problems(numbers=False)  # a value that is not finite was refused with its metric
    return run.run()


def _json_values(row: Mapping[str, Any], index: int) -> Iterator[NcclValue]:
    """Yield the numbers of one size, which is the item `index` of the results."""
    details = {name: str(row[name]).strip() for name in DETAILS if name in row} | {"size": str(row.get("size"))}
    for side in ("out_of_place", "in_place"):
        cells, path = mapping(row.get(side)), ("results", index, side)
        wrong = checked(cells.get("nwrong"), "1")[0] > 0
        own = {**details, "place": side.partition("_")[0]}
        for name, (metric, per) in _IN_JSON.items():
            if name in cells:
                yield NcclValue(own, metric, cells[name], per, path, wrong)


class _Block(Struct):
    """The printed values of one rank and trial so far."""

    rank: str
    line: int
    texts: list[str] = field(default_factory=list)

    def invariant(self, value: float) -> float:
        """Return what is equal in all blocks of a size, if `value` is the next of this block.

        For a throughput it is the bits that were moved, and for a busbw the busbw divided by the throughput.
        """
        before = float(self.texts[-1])
        if len(self.texts) == 1:  # `value` is a throughput, and `before` the duration
            return value * before
        return value / before if before else 0.0


def _say_incomplete(run: RunBuilder, blocks: Sequence[_Block]) -> None:
    """Report incomplete blocks that are left out. A line `27:` without a value below it may be of another program."""
    for block in blocks:
        if block.texts:
            run.say("warning", "the block is incomplete; left out", block.line)


class _AllReduceBench:
    """The blocks of a text while it is read.

    Ranks of several nodes write at the same time, so their blocks may be mixed. A value that may belong to several
    ranks goes to the rank whose numbers match: throughput times duration is the same for all blocks of one size, and so
    is busbw divided by throughput. The program measures one size, so all its blocks are compared.
    """

    def __init__(self) -> None:
        self._open: list[_Block] = []
        #: By rank: the last size that it printed.
        self._sizes: dict[str, str] = {}
        #: By the place of a value in its block: `invariant` of the first value that could belong to only one block.
        self._known: dict[int, float] = {}

    def line(self, run: RunBuilder, number: int, line: str) -> None:
        """Take a line; a block that is complete becomes samples of the run."""
        if size := _BENCH_SIZE.fullmatch(line):
            self._sizes[size[1]] = size[2]
        elif rank := _BENCH_RANK.fullmatch(line):
            _say_incomplete(run, self._open[: -_MOST_OPEN + 1])
            self._open = [*self._open[-_MOST_OPEN + 1 :], _Block(rank[1], number)]
        for at, (_, _, _, pattern) in enumerate(_BENCH_FIELDS):
            if found := pattern.search(line):
                self._value(run, number, at, found[1])

    def finish(self, run: RunBuilder) -> None:
        """Report blocks that are incomplete, and keep the number of ranks."""
        _say_incomplete(run, self._open)
        ranks = {int(rank) for rank in self._sizes}
        if len(ranks) > 1 and ranks == {*range(len(ranks))}:
            run.facts.setdefault("world_size", len(ranks))

    def _value(self, run: RunBuilder, number: int, at: int, text: str) -> None:
        """Add a value to the block that matches best, of those that wait for value `at`; else to the last of them."""
        run.file.coverage.lines.tell(number)  # the same value is printed in two units
        waiting = [block for block in self._open if len(block.texts) == at]
        if not waiting:
            run.say("error", "the rank of a value of the all_reduce benchmark is lost", number)
            return
        block = self._match(waiting, at, text)
        block.texts.append(text)
        if len(block.texts) == len(_BENCH_FIELDS):
            self._open.remove(block)
            size = self._sizes.get(block.rank)
            labels = {"rank": block.rank, "size": size} if size else {"rank": block.rank}
            for (name, unit, per, _), printed in zip(_BENCH_FIELDS, block.texts, strict=True):
                run.sample(Key.of(f"all_reduce.{name}", **labels), unit, printed, number, per=per)

    def _match(self, waiting: list[_Block], at: int, text: str) -> _Block:
        """Return the block that value `at` belongs to."""
        last = waiting[-1]
        sound = [block for block in waiting if not any(map(fault_of, block.texts))]
        if at == 0 or fault_of(text) or not sound:  # a duration (0) or a damaged number cannot be compared
            return last
        value = float(text)
        if len(waiting) == 1:
            self._known.setdefault(at, last.invariant(value))
        if at not in self._known:
            return last
        return min(sound, key=lambda block: abs(block.invariant(value) - self._known[at]))
