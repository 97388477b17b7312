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
several times (`--run_cycles`) has several samples. A measurement with a wrong result is left out. `all_reduce_bench`
reads the texts of bigscience's benchmark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from perfgate.core import Key, Run
from perfgate.documents.json import load_json
from perfgate.readers.builder import JsonSource, Place, RunBuilder
from perfgate.readers.nvidia import all_reduce_bench
from perfgate.readers.text import InputFile
from perfgate.readers.values import checked, mapping, number

NAME = "nccl-tests"
TITLE = "nccl-tests: the printed table, or the JSON document of -J; bigscience's all_reduce benchmark"
METRICS = "`COLLECTIVE.time`, `.algbw`, `.busbw`, `.avg_busbw`, labelled with `size` and `place`"

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


@dataclass(frozen=True, slots=True)
class _Value:
    """One number of a table, and its row."""

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
        self.bench = all_reduce_bench.AllReduceBench()

    def read(self) -> Run:
        for line_number, line, _, ended in self.run.file.lines((*_WORDS, *all_reduce_bench.WORDS)):
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
