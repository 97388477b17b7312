"""perf_analyzer of Triton: what it prints for each load, or the CSV of `-f FILE`.

    Request concurrency: 4
      Client:
        Throughput: 1407.84 infer/sec
        Avg latency: 708 usec (standard deviation 663 usec)
        p99 latency: 1031 usec
        Avg HTTP time: 700 usec (send/recv 102 usec + response wait 598 usec)
      Server:
        Avg request latency: 382 usec (overhead 41 usec + queue 41 usec + compute input 26 usec + ...)

    Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,...,p50 latency,p99 latency

Source: triton-inference-server/perf_analyzer `src/inference_profiler.cc`, `src/report_writer.cc` (2025-12). `latency`
is an aggregate of the requests at the client. `throughput` (inferences in a second) and means at the client and the
server are one value each: `http_time`, `server.request_latency`, `server.queue`, ... All times are µs in the file. The
label is `concurrency` or `request_rate`.
"""

from __future__ import annotations

import re

from perfgate.readers.kit import AGAIN, Format, InputFile, Key, Labels, RecordRuns, Run, RunBuilder, labels_of, number
from perfgate.readers.records import Target, csv_rows, statistic_of

NAME = "perf-analyzer"
METRICS = "`throughput`, `latency`, `server.queue`, `server.compute_infer`, ..., labelled with the load"
CHECKED = "perf_analyzer's sources of 2025-12: generated outputs; the example of its documentation"
FORMAT = Format(
    NAME,
    __name__,
    markers={
        " infer/sec": r"^ +Throughput: \S{1,40} infer/sec",
        "Inferences/Second,": r"^(?:Concurrency|Request Rate),Inferences/Second,",
    },
)
#: Not read: a setting.
BESIDE = "Measurement window"
_LOAD = re.compile(r"Request (concurrency|Rate): (\S{1,40})(?: inference requests per second)?\s*")
_ROW = re.compile(
    r" +(Throughput|Response Throughput|Avg latency|p\d{1,2} latency|Avg \w+ (?:time|latency)): (\S{1,40}) (.*)"
)
_PART = re.compile(r"([a-z/ ]{1,40}?) (\d{1,18}) usec")
_COLUMNS = {
    "Client Send": "client_send",
    "Network+Server Send/Recv": "network",
    "Server Cache Hit": "server.cache_hit",
    "Server Cache Miss": "server.cache_miss",
    "Client Recv": "client_receive",
}
#: Statistics, each with its line.
Latency = dict[str, tuple[object, int]]


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of an output: loads that were measured twice are two runs."""
    runs, labels = RecordRuns(file, NAME), Labels()
    run = runs.first
    if re.match(rb"(?:Concurrency|Request Rate),", file.head()):
        for line, record in csv_rows(run, ",", lambda cells: "Inferences/Second" in cells):
            _record(runs, record, line)
        return runs.finish()
    latency: Latency = {}
    for line, text, _, ended in file.lines():
        if not ended:
            continue
        if load := _LOAD.fullmatch(text):
            _latency(run, labels, latency)
            labels = labels_of(file, NAME, {load[1].lower().replace("rate", "request_rate"): load[2]})
            run = runs.run_of(labels)
        elif row := _ROW.fullmatch(text):
            _row(run, labels, latency, row, line)
    _latency(run, labels, latency)
    return runs.finish()


def _row(run: RunBuilder, labels: Labels, latency: Latency, row: re.Match[str], line: int) -> None:
    name, value, rest = row[1], row[2], row[3]
    if name.endswith("Throughput"):
        run.value(Key(name.lower().replace(" ", "_"), labels), "1/s", value, line)
    elif name == "Avg latency":
        _statistic(run, labels, latency, "mean", value, line)
        if deviation := re.search(r"standard deviation (\d+) usec", rest):
            latency.setdefault("stddev", (number(deviation[1]), line))
    elif statistic := statistic_of(name.removesuffix(" latency")):
        _statistic(run, labels, latency, statistic, value, line)
    else:
        where = "server." if name == "Avg request latency" else ""  # only the parts of this row are metrics, too
        own = name.removeprefix("Avg ").lower().replace(" ", "_")
        for part, text in [(own, value), *(_PART.findall(rest) if where else ())]:
            run.value(Key(where + part.strip().replace(" ", "_"), labels), "s", text, line, per=1e6)


def _statistic(run: RunBuilder, labels: Labels, latency: Latency, name: str, text: str, line: int) -> None:
    if name in latency:
        run.refuse(Key("latency", labels), f"{name} {AGAIN}", line)
    else:
        latency[name] = (_number(text), line)


def _number(text: str) -> float | str | None:
    """Return a printed number, any other text as it is (it is refused later), and None for an empty text."""
    parsed = number(text)
    return (text or None) if parsed is None else parsed


def _latency(run: RunBuilder, labels: Labels, latency: Latency) -> None:
    Target(run, Key("latency", labels), per=1e6).aggregate(latency)
    latency.clear()


def _record(runs: RecordRuns, row: dict[str, str], line: int) -> None:
    labels = labels_of(runs.first.file, NAME, {name.lower().replace(" ", "_"): text for name, text in row.items()})
    run = runs.run_of(labels)
    latency: Latency = {}
    for name, text in row.items():
        if name == "Inferences/Second":
            run.value(Key("throughput", labels), "1/s", text, line)
        elif name.startswith("Server ") or name in _COLUMNS:
            metric = _COLUMNS.get(name) or name.lower().replace(" ", ".", 1).replace(" ", "_")
            run.value(Key(metric, labels), "s", text, line, per=1e6)
        elif name.endswith(" latency") and (statistic := statistic_of(name.removesuffix(" latency"))):
            latency[statistic] = (_number(text), line)
    _latency(run, labels, latency)
