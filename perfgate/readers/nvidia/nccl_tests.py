"""nccl-tests (and rccl-tests): the table that `all_reduce_perf` and its like print, and the document of `-J FILE`.

    # Collective test starting: all_reduce_perf
    #  Rank  0 Group  0 Pid   6899 on node device  0 [0000:04:00] NVIDIA H100 80GB HBM3
    #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
    #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
         1048576        262144     float     sum      -1    78.12   13.42   12.61      0    77.90   13.46   12.65      0
    # Avg bus bandwidth    : 12.63

Source: NVIDIA/nccl-tests `src/util.cu`, `src/common.cu` (v2.0 to v2.17, JSON versions 1 and 2). A time is a mean over
all iterations; GB is 1e9 bytes. The collective is the program's name without `_perf`, and `collective` where none is
printed.

| metric | unit | labels |
|---|---|---|
| `COLLECTIVE.time` (`COLLECTIVE.cpu_time` with `-C`) | s | size (bytes), place (`out`, `in`) |
| `COLLECTIVE.algbw`, `COLLECTIVE.busbw` | B/s | size, place |
| `COLLECTIVE.avg_busbw` | B/s | |

Sizes that were measured with several types, operations or roots have the labels type, redop, root as well; a size that
is measured several times (`--run_cycles`) is a series of so many samples. A measurement whose result was wrong is
left out. Texts of bigscience's benchmark are read by `all_reduce_bench`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from perfgate.core import Key, Run
from perfgate.documents.json import load_json
from perfgate.readers.builder import JsonSource, Place, RunBuilder, checked, number
from perfgate.readers.nvidia import all_reduce_bench
from perfgate.readers.text import InputFile

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

#: How many of the printed unit are one s, or one B/s.
_PER_SECOND = {"(ns)": 1e9, "(us)": 1e6, "(ms)": 1e3, "(s)": 1.0}
_PER_BYTE = {"(GB/s)": 1e-9, "(MB/s)": 1e-6}
_METRICS = {"time": "time", "cputime": "cpu_time", "algbw": "algbw", "busbw": "busbw"}
_IN_JSON = {"time": "time", "cpu_time": "cpu_time", "alg_bw": "algbw", "bus_bw": "busbw"}


@dataclass(frozen=True, slots=True)
class _Value:
    """One number of a table, and the row that it stands in."""

    size: str
    what: tuple[tuple[str, str], ...]
    place: str
    metric: str
    printed: object
    per: float
    at: Place
    wrong: bool = False


def read(document: InputFile) -> tuple[Run, ...]:
    """The one run of a file."""
    if document.is_json():
        return (_of_json(document),)
    return (_Table(document).read(),)


def _add(run: RunBuilder, collective: str, values: list[_Value]) -> None:
    """All the numbers of a table as series, with the labels that tell its rows apart."""
    varying = {name for name, _ in {pair for value in values for pair in value.what}}
    varying = {name for name in varying if len({dict(value.what).get(name) for value in values}) > 1}
    for value in values:
        unit = "s" if value.metric.endswith("time") else "B/s"
        labels = {name: text for name, text in value.what if name in varying}
        key = Key.of(f"{collective}.{value.metric}", size=value.size, place=value.place, **labels)
        parsed, fault = checked(value.printed, unit)
        if value.wrong:
            fault = "the result of the collective was wrong; left out"
        if fault:
            run.refuse(key, fault, value.at)
        else:
            run.column(key, unit, value.per).values.append(parsed)


def _average(run: RunBuilder, collective: str, printed: object, at: Place) -> None:
    key = Key(f"{collective}.avg_busbw")
    parsed, fault = checked(printed, "B/s")
    if fault:
        run.refuse(key, fault, at)
    else:
        run.one_value(key, "B/s", parsed * 1e9)


class _Table:
    """A printed table while it is read."""

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
        """Every line of the file, once."""
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
        for printed, line_number in self.averages[:1]:
            _average(self.run, self.collective, printed, line_number)
        for _, line_number in self.averages[1:]:  # of several runs in one log
            key = Key(f"{self.collective}.avg_busbw")
            self.run.refuse(key, "printed once more: give each run its own file", line_number)
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
        """The numbers of one row, by the columns of the header: time, algbw, busbw and #wrong, out of place and in."""
        if len(cells) < len(self.header):
            detail = f": {len(cells)} cells below a header of {len(self.header)}"
            self.run.say("error", "a row that cannot be read", line, detail)
            return
        first = next((at for at, name in enumerate(self.header) if name in _METRICS), len(cells))
        what = dict(zip(self.header[:first], cells, strict=False))
        told = tuple((name, what[name]) for name in ("type", "redop", "root") if name in what)
        starts = [at for at, name in enumerate(self.header) if name in ("time", "cputime")]
        for start, end, place in zip(starts, [*starts[1:], len(self.header)], ("out", "in"), strict=False):
            columns = {self.header[at]: cells[at] for at in range(start, end)}
            wrong = (number(columns.get("#wrong", "")) or 0) > 0
            for name, metric in _METRICS.items():
                if name in columns:
                    per = self._per(metric)
                    yield _Value(cells[0], told, place, metric, columns[name], per, line, wrong=wrong)

    def _per(self, metric: str) -> float:
        """The unit of a column, from the line of units; those of every version so far if there is none."""
        known, usual = (_PER_SECOND, "(us)") if metric.endswith("time") else (_PER_BYTE, "(GB/s)")
        return known[next((unit for unit in self.units if unit in known), usual)]


def _of_json(document: InputFile) -> Run:
    """`{"args": ["./all_reduce_perf", ...], "results": [{"size": 8, "out_of_place": {"time": 78.12, ...}, ...}]}`.

    `env` holds every environment variable of the job: nothing but the listed fields is looked at.
    """
    text = document.whole()
    loaded = load_json(text or "{}", document.name, document.limits)
    run = RunBuilder(document, NAME, JsonSource(loaded))
    data = loaded.data if isinstance(loaded.data, dict) else {}
    collective = _collective(data.get("args"))
    _add(run, collective, [*_json_values(data.get("results"))])
    average, bounds = data.get("average_bus_bandwidth"), data.get("out_of_bounds")
    if isinstance(average, dict) and "bandwidth" in average:
        _average(run, collective, average["bandwidth"], ("average_bus_bandwidth", "bandwidth"))
    if isinstance(bounds, dict) and checked(bounds.get("count"), "1")[0]:
        run.say("error", f"{bounds['count']} values are out of bounds", ("out_of_bounds",))
    _json_facts(run, data.get("config"))
    run.report_json_faults()
    return run.run()


def _json_values(results: object) -> Iterator[_Value]:
    """Every number of the results, with its place."""
    rows = [row for row in enumerate(results) if isinstance(row[1], dict)] if isinstance(results, list) else []
    found = [
        (row, ("results", index, place), row[place])
        for index, row in rows
        for place in ("out_of_place", "in_place")
        if isinstance(row.get(place), dict)
    ]
    for row, path, cells in found:
        told = tuple((name, str(row[name]).strip()) for name in ("type", "redop", "root") if name in row)
        side = str(path[-1]).partition("_")[0]
        wrong = checked(cells.get("nwrong"), "1")[0] > 0
        for name, metric in _IN_JSON.items():
            if name in cells:
                per = 1e6 if metric.endswith("time") else 1e-9
                size = str(row.get("size"))
                yield _Value(size, told, side, metric, cells[name], per, path, wrong)


def _json_facts(run: RunBuilder, config: object) -> None:
    """The GPUs: `devices` has one entry for each process, which has `nthreads` times `ngpus` of them."""
    config = config if isinstance(config, dict) else {}
    devices = config.get("devices")
    named = [device.get("device_info") for device in devices or () if isinstance(device, dict)]
    threads, gpus = checked(config.get("nthreads"), "s")[0], checked(config.get("ngpus"), "s")[0]
    if named and isinstance(named[0], str):
        run.facts["gpu"] = named[0]
    if named and 0 < threads * gpus < 1 << 20:
        run.facts["gpu_count"] = run.facts["world_size"] = len(named) * int(threads * gpus)


def _collective(args: object) -> str:
    """The collective by the name of the program, the first of the arguments."""
    program = str(args[0]) if isinstance(args, list) and args else ""
    found = _PROGRAM.search(program.rpartition("/")[2])
    return found[1] if found else "collective"
