"""`trtexec` of TensorRT 7 to 11: the performance summary of its log, and the times of `--exportTimes FILE`.

    [I] === Performance summary ===
    [I] Throughput: 507.399 qps
    [I] Latency: min = 1.96 ms, max = 2.3 ms, mean = 1.97 ms, median = 1.97 ms, percentile(90%) = 1.98 ms
    [I] GPU Compute Time: min = 1.95 ms, ...
    [I] Total Host Walltime: 3.005 s

    [I] Host Latency                                                                    TensorRT 7
    [I] min: 1.64058 ms (end to end 1.66368 ms)
    [I] percentile: 1.67065 ms at 99% (end to end 3.03931 ms at 99%)
    [I] throughput: 507.399 qps
    [I] Enqueue Time
    [I] min: 0.34 ms

    [ { "startEnqMs" : 0.1, "endEnqMs" : 0.2, ..., "h2dMs" : 0.1, "computeMs" : 1.9, "d2hMs" : 0.1, "latencyMs" : 2.1 }
    , ... ]

Source: NVIDIA/TensorRT 11.1 `samples/common/sampleReporting.cpp`, `sampleOptions.cpp`, `sampleDevice.cpp`; logs of
TensorRT 7 in NVIDIA/TensorRT issues 1221, 1243 and 2054.

`latency`, `enqueue_time`, `h2d_latency`, `gpu_compute_time` and `d2h_latency` (s) are aggregates of the summary, and
samples of the exported times, one a query. `throughput` (1/s), `host_walltime` and `total_gpu_compute_time` (s) are one
value each. The label `precision` is a condition, if the log has it. Each summary is a run. A throughput of 0 is left
out: TensorRT 7 prints it for networks with an explicit batch.
"""

from __future__ import annotations

import re

from perfgate.readers.kit import AGAIN, Format, InputFile, Key, Labels, Run, RunBuilder, Runs, labels_of, load_rows
from perfgate.readers.values import checked, number_of

NAME = "trtexec"
METRICS = (
    "`latency`, `gpu_compute_time`, `enqueue_time`, `h2d_latency`, `d2h_latency`; `throughput`, `host_walltime`, "
    "`total_gpu_compute_time`"
)
CHECKED = "TensorRT 11.1's sources: generated logs and files; lines of public logs of TensorRT 7 and 10"
#: Exported times: `[{"startEnqMs": ..., "latencyMs": ...}]`.
FORMAT = Format(
    NAME,
    __name__,
    markers={
        "=== Performance summary ===": "",
        "&&&& RUNNING TensorRT.trtexec": "",
        "] Host Latency": r"\[I\] Host Latency\s*$",
    },
    json=("with the 'latencyMs' of trtexec", "*.latencyMs", "*.computeMs"),
)
#: Not read: begins and ends of queries, and the options and the device, which the log begins with.
BESIDE = (
    r"(?:start|end)\w+Ms|Workspace|Duration|Sleep time|Percentile|Avg Runs|Warmup|Iterations|Compute Capability"
    r"|Device Global Memory|Shared Memory per SM|Memory Bus Width|(?:Memory |Compute )?Clock Rate|SMs"
)
_SUMMARY = "=== Performance summary ==="
_TIMES = {
    "Latency": "latency",
    "Enqueue Time": "enqueue_time",
    "H2D Latency": "h2d_latency",
    "GPU Compute Time": "gpu_compute_time",
    "D2H Latency": "d2h_latency",
    "Host Latency": "latency",  # the titles of TensorRT 7
    "GPU Compute": "gpu_compute_time",
}
_ROW = re.compile(r"(?:.*\[I\] )?(Latency|Enqueue Time|H2D Latency|GPU Compute Time|D2H Latency): (min = .*)")
_VALUE = re.compile(
    r"(?:.*\[I\] )?(Throughput|Total Host Walltime|Total GPU Compute Time|throughput|walltime|total compute time):"
    r" (\S{1,40}) (qps|s)\s*"
)
_STATISTIC = re.compile(r"(min|max|mean|median|percentile\((\d{1,2}(?:\.\d{1,3})?)%\)) = (\S{1,40}) ms")
_FACTS = re.compile(r"(?:.*\[I\] )?(?:(Selected Device): (\S.{0,99})|(TensorRT version): (\S{1,40}))\s*")
_PRECISION = re.compile(r"(?:.*\[I\] )?Precision: (\S.{0,99}?)\s*")
#: TensorRT 7: a title, and below it a row for each statistic.
_TITLE = re.compile(r"(?:.*\[I\] )?(Host Latency|Enqueue Time|GPU Compute)\s*")
_BELOW = re.compile(r"(?:.*\[I\] )?(min|max|mean|median|percentile): (\S{1,40} ms)(?: at (\S{1,9}%))?(?: \(end.*)?\s*")
#: What the load was, in the command: `--shapes=input:8x3x224x224`.
_ARGUMENT = re.compile(r"--(shapes|batch|onnx|uff|loadEngine|streams|infStreams)=(\S+)")
_LOADS = {
    "shapes": "shapes",
    "batch": "batch_size",
    "streams": "streams",
    "infStreams": "streams",
    **dict.fromkeys(("onnx", "uff", "loadEngine"), "model"),
}
#: The characters of an argument that are kept.
_LONGEST = 200
#: As TensorRT 7 and as later versions print them.
_VALUES = {
    **dict.fromkeys(("throughput", "Throughput"), ("throughput", "1/s")),
    **dict.fromkeys(("walltime", "Total Host Walltime"), ("host_walltime", "s")),
    **dict.fromkeys(("total compute time", "Total GPU Compute Time"), ("total_gpu_compute_time", "s")),
}
#: The exported times of a query, in ms.
_EXPORTED = {"latencyMs": "latency", "computeMs": "gpu_compute_time", "h2dMs": "h2d_latency", "d2hMs": "d2h_latency"}


class _LogRun(RunBuilder):
    """The run of a log; the rows below a title become an aggregate at its end."""

    def __init__(self, file: InputFile) -> None:
        super().__init__(file, NAME)
        #: The precision, once the log has named it.
        self.labels: Labels = ()
        #: The line of the title of the summary; 0 before it.
        self.begun = 0
        #: Of TensorRT 7: the last title, and the rows below each, with the line of the first.
        self.title = ""
        self.below: dict[str, tuple[int, dict[str, str]]] = {}

    def begin(self, line: int, before: _LogRun) -> None:
        """Note the line of the summary's title, and copy the machine and the load from the run before."""
        self.begun, self.labels = line, before.labels
        self.facts, self.unlabelled = dict(before.facts), dict(before.unlabelled)

    def row_below(self, name: str, text: str, line: int) -> None:
        """Keep a statistic below the last title."""
        rows = self.below.setdefault(self.title, (line, {}))[1]
        if name in rows:
            self.say("error", f"the {name} below {self.title} {AGAIN}", line)
        rows.setdefault(name, f"{name} = {text}")  # as later versions print it, for `_times`

    def run(self, part: int | None = None) -> Run:
        for title, (line, rows) in self.below.items():
            _times(self, Key(_TIMES[title], self.labels), ", ".join(rows.values()), line)
        if self.begun and not self.has_measured:
            self.say("error", "a performance summary has no row", self.begun)
        return super().run(part)


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a log, or the one run of exported times."""
    if file.is_json():
        return (_exported(file),)
    runs = Runs(lambda: _LogRun(file))
    for number, line, _, ended in file.lines():
        if ended:
            _line(runs, line, number)
        elif _ROW.fullmatch(line) or _VALUE.fullmatch(line):
            runs.run.say("warning", "the last record is cut off; left out", number)
    return runs.finish()


def _line(runs: Runs[_LogRun], line: str, number: int) -> None:
    run = runs.run
    if "&&&& RUNNING" in line:
        runs.banner(number)
        for name, value in _ARGUMENT.findall(line):
            runs.run.unlabelled[_LOADS[name]] = value[:_LONGEST]
    elif _SUMMARY in line:
        runs.banner(number)
        runs.run.begin(number, run)
    elif found := _ROW.fullmatch(line):
        _times(run, Key(_TIMES[found[1]], run.labels), found[2], number)
    elif found := _TITLE.fullmatch(line):
        run.title = found[1]
    elif run.title and (found := _BELOW.fullmatch(line)):
        run.row_below(f"percentile({found[3]})" if found[3] else found[1], found[2], number)
    elif found := _VALUE.fullmatch(line):
        _value(run, found[1], found[2], number)
    elif found := _PRECISION.fullmatch(line):
        run.labels = labels_of(run.file, NAME, {"precision": found[1]})
    elif found := _FACTS.fullmatch(line):
        name, value = ("gpu", found[2]) if found[1] else ("tensorrt", found[4])
        run.fact(name, value.strip(), number)


def _value(run: _LogRun, name: str, text: str, line: int) -> None:
    metric, unit = _VALUES[name]
    if (name, text) != ("throughput", "0"):
        run.value(Key(metric, run.labels), unit, text, line)


def _times(run: RunBuilder, key: Key, text: str, line: int) -> None:
    statistics: dict[str, float] = {}
    for name, percent, value in _STATISTIC.findall(text):
        parsed, fault = checked(value, "s")
        if fault:
            run.refuse(key, f"{name}: {fault}", line)
            return
        statistic = f"p{float(percent):g}" if percent else name
        statistic = "median" if statistic == "p50" else statistic
        # `median` and `percentile(50%)` are the same statistic, so it may occur twice with one value
        if statistics.setdefault(statistic, parsed / 1000) != parsed / 1000:
            run.refuse(key, f"{name} occurs twice", line)
            return
    if key in run.finished:
        run.refuse(key, AGAIN, line)
    else:
        run.aggregate(key, "s", statistics)


def _exported(file: InputFile) -> Run:
    run, rows = load_rows(file, NAME)
    for path, row in rows:
        for name, metric in _EXPORTED.items():
            if name in row:
                run.sample(Key(metric), "s", row[name], (*path, name), per=1000)
        if "startEnqMs" in row and "endEnqMs" in row:
            took = number_of(row["endEnqMs"]) - number_of(row["startEnqMs"])
            run.sample(Key("enqueue_time"), "s", took, (*path, "endEnqMs"), per=1000)
    return run.run()
