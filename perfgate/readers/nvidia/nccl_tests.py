"""nccl-tests and rccl-tests: the table that `all_reduce_perf` and similar programs print, or the document of `-J`.

    # Collective test starting: all_reduce_perf
    #  Rank  0 Group  0 Pid   6899 on node device  0 [0000:04:00] NVIDIA H100 80GB HBM3
    #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
    #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
         1048576        262144     float     sum      -1    78.12   13.42   12.61      0    77.90   13.46   12.65      0
    # Avg bus bandwidth    : 12.63

Source: NVIDIA/nccl-tests `src/util.cu`, `src/common.cu` (v2.0 to v2.17, JSON versions 1 and 2). A time is a mean over
all iterations; GB is 1e9 bytes. The collective is the program's name without `_perf`, or `collective` if no name is
printed.

| metric | unit | labels |
|---|---|---|
| `COLLECTIVE.time` (`COLLECTIVE.cpu_time` with `-C`) | s | size (bytes), place (`out`, `in`) |
| `COLLECTIVE.algbw`, `COLLECTIVE.busbw` | B/s | size, place |
| `COLLECTIVE.avg_busbw` | B/s | |

If the rows differ in type, operation or root, these are labels, too (type, redop, root). A size that is measured
several times (`--run_cycles`) has several samples. A measurement with a wrong result is left out.

**The all_reduce benchmark of bigscience**, in old notes about clusters, prints a block of lines for each rank and
trial.

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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from perfgate.core import Key, Run
from perfgate.documents.json import load_json
from perfgate.readers.builder import JsonSource, Place, RunBuilder
from perfgate.readers.text import InputFile
from perfgate.readers.values import checked, fault_of, mapping, number

NAME = "nccl-tests"
TITLE = "nccl-tests: the printed table, or the JSON document of -J; bigscience's all_reduce benchmark"
METRICS = "`COLLECTIVE.time`, `.algbw`, `.busbw`, `.avg_busbw`, labelled with `size` and `place`"
CHECKED = "nccl-tests' sources to 2.17; generated tables and files"

_WORDS = ("algbw", "(GB/s)", "_perf", "#  Rank", "#   Rank", "Avg bus bandwidth", "Out of bounds", " failure ", "  ")
_HEADER = re.compile(r"#\s*(size\b.{0,300}\balgbw\b.*)")
_UNITS = re.compile(r"#\s*(\(B\).*)")
_PROGRAM = re.compile(r"([A-Za-z]\w{0,60}?)_perf(?:_mpi)?\b")
_RANK = re.compile(r"#\s+Rank\s+\d+ .{0,300}?\bdevice\s+\d+ \[[^\]]*\] (\S.*)")
_AVERAGE = re.compile(r"# Avg bus bandwidth\s*: (\S+)")
_FAILED = re.compile(r"# Out of bounds values\s*: (\d+) FAILED|Test (?:NCCL|CUDA) failure .*")
_ROW = re.compile(r"\s*\d+\s+\d+\s+[a-z]\w*\s")

#: The number of printed units in one s, or in one B/s.
_PER_SECOND = {"(ns)": 1e9, "(us)": 1e6, "(ms)": 1e3, "(s)": 1.0}
_PER_BYTE = {"(GB/s)": 1e-9, "(MB/s)": 1e-6}
_METRICS = {"time": "time", "cputime": "cpu_time", "algbw": "algbw", "busbw": "busbw"}
_IN_JSON = {"time": "time", "cpu_time": "cpu_time", "alg_bw": "algbw", "bus_bw": "busbw"}
_DETAILS = ("type", "redop", "root")

_BENCH_WORDS = (" duration: ", "algo throughput: ", "busbw: ", " data size: ", ":")

_BENCH_RANK = re.compile(r"\s*(\d{1,6}):\s*")
_BENCH_SIZE = re.compile(r"\s*(\d{1,6}) data size: (\S{1,20} [KMGT]?B)\s*")
_BENCH_FIELDS = (
    ("time", "s", 1.0, re.compile(r" duration: (\S{1,40}) sec")),
    ("algo_throughput", "B/s", 8.0, re.compile(r"algo throughput: (\S{1,40}) bps, ")),
    ("busbw", "B/s", 8e-9, re.compile(r"busbw: (\S{1,40}) {1,2}Gbps")),
)
#: The greatest number of open blocks; older ones are incomplete.
_MOST_OPEN = 1024


@dataclass(frozen=True, slots=True)
class _Value:
    size: str
    details: Mapping[str, str]
    place: str
    metric: str
    printed: object
    per: float
    at: Place
    wrong: bool


def read(document: InputFile) -> tuple[Run, ...]:
    """The one run of a file."""
    return (_of_json(document) if document.is_json() else _Table(document).read(),)


def _add(run: RunBuilder, collective: str, values: list[_Value]) -> None:
    """Add all numbers of a table as series; the details in which its rows differ are labels."""
    varying = [name for name in _DETAILS if len({value.details.get(name) for value in values}) > 1]
    for value in values:
        unit = "s" if value.metric.endswith("time") else "B/s"
        labels = {name: value.details[name] for name in varying if name in value.details}
        key = Key.of(f"{collective}.{value.metric}", size=value.size, place=value.place, **labels)
        if value.wrong:
            run.refuse(key, "the result of the collective is wrong; left out", value.at)
        else:
            run.sample(key, unit, value.printed, value.at, per=value.per)


class _Table:
    def __init__(self, document: InputFile) -> None:
        self.run = RunBuilder(document, NAME)
        self.collective = "collective"
        self.header: list[str] = []
        self.units: list[str] = []
        self.values: list[_Value] = []
        self.averages: list[tuple[str, int]] = []
        self.ranks = 0
        self.bench = _AllReduceBench()

    def read(self) -> Run:
        for line_number, line, _, ended in self.run.file.lines((*_WORDS, *_BENCH_WORDS)):
            if ended:
                self._line(line_number, line)
                self.bench.line(self.run, line_number, line)
            elif self.header and _ROW.match(line):
                self.run.say("warning", "the last row is cut off; left out", line_number)
        self.bench.finish(self.run)
        if self.ranks:
            self.run.facts |= {"gpu_count": self.ranks, "world_size": self.ranks}
        _add(self.run, self.collective, self.values)
        average = Key(f"{self.collective}.avg_busbw")
        for printed, line_number in self.averages[:1]:
            self.run.value(average, "B/s", printed, line_number, per=1e-9)
        for _, line_number in self.averages[1:]:  # a log of several runs
            self.run.refuse(average, "printed again: give each run its own file", line_number)
        return self.run.run()

    def _line(self, line_number: int, line: str) -> None:
        if self.header and _ROW.match(line):
            self.values += self._row(line_number, line.split())
        elif found := _HEADER.search(line):
            self.header = found[1].split()
        elif found := _UNITS.search(line):
            self.units = re.findall(r"\([^)]{1,20}\)", found[1])
        elif found := _RANK.search(line):
            self.ranks += 1
            self.run.fact("gpu", found[1].strip(), line_number)
        elif found := _AVERAGE.search(line):
            self.averages.append((found[1], line_number))
        elif found := _FAILED.search(line):
            self.run.say("error", "the test failed", line_number, f": {found[0].strip('# ')[:120]}")
        elif not self.header and (found := _PROGRAM.search(line)):
            self.collective = found[1]

    def _row(self, line: int, cells: list[str]) -> Iterator[_Value]:
        """Yield the numbers of one row. The header has the columns time, algbw, busbw and #wrong for each place."""
        if len(cells) < len(self.header):
            detail = f": {len(cells)} cells, but the header has {len(self.header)}"
            self.run.say("error", "a row cannot be read", line, detail)
            return
        first = next((at for at, name in enumerate(self.header) if name in _METRICS), len(cells))
        row = dict(zip(self.header[:first], cells, strict=False))
        starts = [at for at, name in enumerate(self.header) if name in ("time", "cputime")]
        for start, end, place in zip(starts, [*starts[1:], len(self.header)], ("out", "in"), strict=False):
            columns = {self.header[at]: cells[at] for at in range(start, end)}
            wrong = (number(columns.get("#wrong", "")) or 0) > 0
            for name, metric in _METRICS.items():
                if name in columns:
                    yield _Value(cells[0], row, place, metric, columns[name], self._per(metric), line, wrong)

    def _per(self, metric: str) -> float:
        """The unit of a column from the line of units; without one, the unit of all versions so far."""
        known, usual = (_PER_SECOND, "(us)") if metric.endswith("time") else (_PER_BYTE, "(GB/s)")
        return known[next((unit for unit in self.units if unit in known), usual)]


def _of_json(document: InputFile) -> Run:
    """Read `{"args": ["./all_reduce_perf", ...], "results": [{"size": 8, "out_of_place": {"time": 78.12, ...}, ...}]}`.

    `env` contains all environment variables of the job, so only the listed fields are used.
    """
    loaded = load_json(document.whole() or "{}", document.name, document.limits)
    run = RunBuilder(document, NAME, JsonSource(loaded))
    data = mapping(loaded.data)
    args, config = data.get("args"), mapping(data.get("config"))
    program = str(args[0]) if isinstance(args, list) and args else ""
    found = _PROGRAM.search(program.rpartition("/")[2])
    collective = found[1] if found else "collective"
    _add(run, collective, [*_json_values(data.get("results"))])
    average, bounds = mapping(data.get("average_bus_bandwidth")), mapping(data.get("out_of_bounds"))
    if "bandwidth" in average:
        path = ("average_bus_bandwidth", "bandwidth")
        run.value(Key(f"{collective}.avg_busbw"), "B/s", average["bandwidth"], path, per=1e-9)
    if checked(bounds.get("count"), "1")[0]:
        run.say("error", f"{bounds['count']} values are out of bounds", ("out_of_bounds",))
    # `devices` has one entry for each process, and each process has `nthreads` times `ngpus` GPUs.
    devices = config.get("devices")
    named = [mapping(device).get("device_info") for device in devices] if isinstance(devices, list) else []
    threads, gpus = checked(config.get("nthreads"), "s")[0], checked(config.get("ngpus"), "s")[0]
    if named and isinstance(named[0], str):
        run.facts["gpu"] = named[0]
    if named and 0 < threads * gpus < 1 << 20:
        run.facts["gpu_count"] = run.facts["world_size"] = len(named) * int(threads * gpus)
    run.report_json_faults()
    return run.run()


def _json_values(results: object) -> Iterator[_Value]:
    for index, row in enumerate(map(mapping, results if isinstance(results, list) else ())):
        details = {name: str(row[name]).strip() for name in _DETAILS if name in row}
        for side in ("out_of_place", "in_place"):
            cells, path = mapping(row.get(side)), ("results", index, side)
            wrong = checked(cells.get("nwrong"), "1")[0] > 0
            for name, metric in _IN_JSON.items():
                if name in cells:
                    per = 1e6 if metric.endswith("time") else 1e-9
                    place, size = side.partition("_")[0], str(row.get("size"))
                    yield _Value(size, details, place, metric, cells[name], per, path, wrong)


@dataclass(slots=True)
class _Block:
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


class _AllReduceBench:
    """The blocks of a text while it is read."""

    def __init__(self) -> None:
        self._open: list[_Block] = []
        self._sizes: dict[str, str] = {}
        #: By the number of lines of a block: `match` of the first value that belongs to only one block.
        self._known: dict[int, float] = {}

    def line(self, run: RunBuilder, number: int, line: str) -> None:
        if size := _BENCH_SIZE.fullmatch(line):
            self._sizes[size[1]] = size[2]
        elif rank := _BENCH_RANK.fullmatch(line):
            self._open = [*self._open[-_MOST_OPEN + 1 :], _Block(rank[1], number)]
        for at, (_, _, _, pattern) in enumerate(_BENCH_FIELDS):
            if found := pattern.search(line):
                self._value(run, number, at, found[1])

    def finish(self, run: RunBuilder) -> None:
        for block in self._open:
            if block.texts:
                run.say("warning", "the block is incomplete; left out", block.line)
        ranks = {int(rank) for rank in self._sizes}
        if len(ranks) > 1 and ranks == {*range(len(ranks))}:
            run.facts.setdefault("world_size", len(ranks))

    def _value(self, run: RunBuilder, number: int, at: int, text: str) -> None:
        """Add a value to the waiting block that matches it best, else to the last; a complete block becomes samples."""
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
