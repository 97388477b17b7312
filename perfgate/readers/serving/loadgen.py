"""MLPerf Inference: the logs of LoadGen, `mlperf_log_summary.txt` and `mlperf_log_detail.txt`.

    ================================================
    MLPerf Results Summary
    ================================================
    Scenario : Server
    Completed samples per second    : 81.68
    Result is : VALID
    Mean latency (ns)               : 43579602295
    99.00 percentile latency (ns)   : 136069232834

    :::MLLOG {"key": "result_mean_latency_ns", "value": 43579602295, "time_ms": 920503.4, ...}

Source: mlcommons/inference 6.0 `loadgen/results.cc`, `loadgen/logging.h`, `loadgen/version.cc`. `latency`,
`query_latency`, `first_token_latency` and `time_per_output_token` (s, printed in ns) are aggregates: mean, min, max and
percentiles. The rates of `_RATES` (1/s) are one value each. `scenario` and `target_qps` are labels, and conditions; so
is `sut` if it differs in a log. A result that is INVALID is an error, which gives the reason if the log has one; so is
a log without a result. A run for accuracy has no performance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from perfgate.readers.kit import Format, InputFile, Key, Run, RunBuilder, Runs, labels_of
from perfgate.readers.values import checked, leading_json, mapping

NAME = "mlperf-inference"
METRICS = (
    "`latency`, `first_token_latency`, `time_per_output_token` (`mean`, `p99`, ...), `samples_per_second`, "
    "`completed_samples_per_second`, `tokens_per_second`, ...; labelled with `scenario`"
)
CHECKED = "LoadGen 5.1 and 6.0's sources: logs of a published submission; generated logs"
FORMAT = Format(
    NAME,
    __name__,
    markers={
        "MLPerf Results Summary": "",
        '"loadgen_version"': r':::MLLOG \{"key": "loadgen_version"',
        '"mlperf::logging"': r':::MLLOG \{"key": "\w{1,99}", .{0,300}?"namespace": "mlperf::logging"',
    },
)
#: Not read: settings of the test with a unit, and the place of a message in the sources.
BESIDE = r"target_latency \(ns\)|m(?:in|ax)_duration \(ms\)|line_no"
_TITLE, _WORD = "MLPerf Results Summary", ":::MLLOG"
_ROW = re.compile(r"\s*(\S[^:]{0,90}?)\s*:\s*(\S.{0,200}?)\s*")
#: A statistic of a latency, as the summary names it.
_LATENCY = re.compile(
    r"(?:(Min|Max|Mean)|(\d{1,2}(?:\.\d{1,4})?)(?:th)?) (?:(first token) )?(?:percentile )?"
    r"(first token latency|latency|time (?:to|per) output token) ?\(ns\)",
    re.IGNORECASE,
)
#: The same in the detailed log.
_KEY = re.compile(
    r"result_(first_token_|time_(?:to|per)_output_token_)?(?:(min|max|mean)|(\d{1,2}(?:\.\d{1,4})?)_percentile)"
    r"(_per_query_latency|_query_latency|_latency)?(?:_ns)?"
)
#: The rates, by their names in the detailed log without `result_`, and in the summary.
_RATES = {
    "samples_per_second": "Samples per second",
    "completed_samples_per_second": "Completed samples per second",
    "scheduled_samples_per_second": "Scheduled samples per second",
    "tokens_per_second": "Tokens per second",
    "completed_tokens_per_second": "Completed tokens per second",
    "inferred_tokens_per_second": "Tokens per second (inferred)",
    "inferred_completed_tokens_per_second": "Completed tokens per second (inferred)",
    "qps_with_loadgen_overhead": "QPS w/ loadgen overhead",
}
_IN_SUMMARY = {printed: name for name, printed in _RATES.items()}
#: The settings of a test, by their names in the summary and in the detailed log.
_SETTINGS = {"Scenario": "scenario", "SUT name": "sut", "target_qps": "target_qps", "Mode": "mode"}
_SETTINGS_IN_DETAIL = {"effective_scenario": "scenario", "sut_name": "sut", "effective_test_mode": "mode"}


class _LogRun(RunBuilder):
    """The run of one test. It keeps the numbers until its end, because only then the labels are known."""

    def __init__(self, file: InputFile) -> None:
        super().__init__(file, NAME)
        #: By metric, and by metric and statistic: the printed value and its line. Latencies are in ns.
        self.rates: dict[str, tuple[object, int]] = {}
        self.latencies: dict[str, dict[str, tuple[object, int]]] = {}
        #: The scenario, the system, the load that was asked for, and the mode; "" before the log has it.
        self.settings = {"scenario": "", "sut": "", "target_qps": "", "mode": ""}
        #: True if the result is VALID, its line, and the reason of an invalid one.
        self.valid: bool | None = None
        self.line, self.reason = 0, ""
        #: The line where the test begins, that of the title of a summary, and True if the summary has its last part.
        self.begun, self.title, self.ended = 0, 0, False

    @property
    def has_measured(self) -> bool:
        """True if a test has begun: the next title belongs to another run."""
        return bool(self.begun)

    def run(self, part: int | None = None) -> Run:
        settings = self.settings
        if settings["sut"]:
            self.unlabelled["sut"] = settings["sut"]
        labels = labels_of(self.file, NAME, {name: settings[name] for name in ("scenario", "target_qps")})
        for name, (value, line) in self.rates.items():
            self.value(Key(name, labels), "1/s", value, line)
        for name, statistics in self.latencies.items():
            self._add_latency(Key(name, labels), statistics)
        if self.title and not self.ended:
            self.say("error", "the summary is cut off: it does not end with the parameters of the test", self.title)
        if self.valid is False:
            self.say("error", "the result is INVALID", self.line, f": {self.reason}" if self.reason else "")
        elif self.valid is None and (self.rates or self.latencies):
            self.say("error", "the log has no result: the test did not end, or the log is cut off")
        if "Accuracy" in settings["mode"]:
            self.say("error", "this is the log of a run for accuracy, which measures no performance")
        return super().run(part)

    def _add_latency(self, key: Key, printed: Mapping[str, tuple[object, int]]) -> None:
        """Add the statistics of a latency, printed in ns, each with its line."""
        statistics = {}
        for name, (value, line) in printed.items():
            parsed, fault = checked(value, "s")
            if fault:
                self.refuse(key, f"{name}: {fault}", line)
            else:
                statistics[name] = parsed / 1e9
        self.aggregate(key, "s", statistics)

    def latency(self, metric: str, name: str | None, percent: str | None, value: object, line: int) -> None:
        """Keep a statistic of a metric: by its name, or a percentile."""
        percentile = f"p{float(percent):g}" if percent else ""
        statistic = name.lower() if name else "median" if percentile == "p50" else percentile
        self.latencies.setdefault(metric, {}).setdefault(statistic, (value, line))


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a log, one for each test."""
    runs = Runs(lambda: _LogRun(file))
    for number, line, _, ended in file.lines():
        if not ended or number == file.cut_line:  # cut: a list of all samples may be longer than a line may be
            continue
        if _WORD in line:
            _detail(runs, line.partition(_WORD)[2].strip(), number)
        elif _TITLE in line:
            runs.banner(number)
            runs.run.begun = runs.run.title = number
        elif "Test Parameters Used" in line:
            runs.run.ended = True
        elif found := _ROW.fullmatch(line):
            _summary(runs.run, found[1], found[2], number)
    return runs.finish()


def _summary(run: _LogRun, name: str, text: str, line: int) -> None:
    """Read a row of the summary: a setting, the result, a rate or a latency."""
    if name in _SETTINGS:
        run.settings[_SETTINGS[name]] = text
    elif name == "Result is":
        run.valid, run.line = text == "VALID", line
    elif name in _IN_SUMMARY:
        run.rates.setdefault(_IN_SUMMARY[name], (text, line))
    elif found := _LATENCY.fullmatch(name):
        what = (found[3] or found[4]).lower()
        metric = "latency" if what == "latency" else "time_per_output_token"
        metric = "first_token_latency" if "first" in what else metric
        run.latency(metric, found[1], found[2], text, line)


def _detail(runs: Runs[_LogRun], text: str, line: int) -> None:
    """Read one record of the detailed log; its keys are results and settings."""
    record = leading_json(text)
    if record is None:
        runs.run.say("error", "a record cannot be read", line, f": {text[:80]!r}")
    key, value = str(mapping(record).get("key", "")), mapping(record).get("value")
    if key == "loadgen_version":
        runs.banner(line)
        runs.run.begun = line
    run = runs.run
    if key in _SETTINGS_IN_DETAIL:
        run.settings[_SETTINGS_IN_DETAIL[key]] = str(value)
    elif key in ("effective_target_qps", f"effective_{run.settings['scenario'].lower()}_target_qps"):
        run.settings["target_qps"] = f"{value:g}" if isinstance(value, int | float) else str(value)
    elif key == "result_validity":
        run.valid, run.line = value == "VALID", line
    elif key == "result_invalid_reason":
        run.reason = " ".join(str(value).split())[:300]
    elif key.startswith("result_"):
        _result(run, key, value, line)


def _result(run: _LogRun, key: str, value: object, line: int) -> None:
    """Read a result of the detailed log: a rate, or a statistic of a latency."""
    rate = re.sub("_sec$", "_second", key.removeprefix("result_"))  # the log has `_per_sec` and `_per_second`
    if rate in _RATES:
        run.rates.setdefault(rate, (value, line))
    elif found := _KEY.fullmatch(key):
        kind, end = found[1] or "", found[4] or ""
        if "query" in end:
            metric = "query_latency"
        elif kind.startswith("first"):
            metric = "first_token_latency"
        else:
            metric = "time_per_output_token" if kind else "latency"
        run.latency(metric, found[2], found[3], value, line)
