"""`trtllm-bench` of TensorRT-LLM: the report that it prints, and its JSON (`--report_json FILE`).

    = PYTORCH BACKEND
    Model:                  meta-llama/Llama-3.1-8B
    = PERFORMANCE OVERVIEW
    Request Throughput (req/sec):                     18.2343
    Average time-to-first-token [TTFT] (ms):          120.5000
    [TTFT] P99    : 250.0000
    [Latency] AVERAGE: 1250.1234

    {"engine": {"model": "..."}, "world_info": {"tp_size": 1}, "performance": {"request_throughput_req_s": 18.2343, ...,
     "request_latency_percentiles_ms": {"p99": 2000.5, "average": 1250.1}}, "streaming_metrics": {"avg_ttft_ms": 120.5}}

Source: NVIDIA/TensorRT-LLM `tensorrt_llm/bench/dataclasses/reporting.py` (1.x).
The percentiles (`_GROUPS`) are aggregates. The other numbers are one value each, with four decimals if printed;
throughput is that of tokens, apart from `request_throughput`, and `total_latency` is that of the whole benchmark. The
conditions are labels: `model`, `backend`, `dtype`, `quantization`, `tensor_parallel`, `pipeline_parallel`,
`batch_size` (the largest), `input_len` (the average).
"""

from __future__ import annotations

import re

from perfgate.readers.kit import AGAIN, Format, InputFile, Key, Labels, Run, RunBuilder, Runs, labels_of
from perfgate.readers.records import Target, fact, load, statistic_of
from perfgate.readers.values import Field, checked, mapping

NAME = "trtllm-bench"
METRICS = (
    "`request_throughput`, `output_throughput`, `request_latency`, `ttft`, `tpot`, ..., labelled with `model`, "
    "`dtype`, `tensor_parallel`, ..."
)
CHECKED = "TensorRT-LLM 1.x's sources: generated reports and files; public logs of 0.16"
#: `{"engine": {...}, "world_info": {...}, "performance": {...}}`.
FORMAT = Format(
    NAME,
    __name__,
    markers={"= PERFORMANCE OVERVIEW": "", "= PYTORCH BACKEND": "", "= ENGINE DETAILS": ""},
    json=("with the 'performance' of trtllm-bench", "engine={", "world_info={", "performance={"),
)
#: Printed names, with their metrics.
_PRINTED = {
    "Request Throughput (req/sec)": Field("request_throughput", "1/s"),
    "Total Output Throughput (tokens/sec)": Field("output_throughput", "1/s"),
    "Token Throughput (tokens/sec)": Field("output_throughput", "1/s"),  # TensorRT-LLM 0.16
    "Total Token Throughput (tokens/sec)": Field("total_token_throughput", "1/s"),
    "Total Latency (ms)": Field("total_latency", "s", 1e3),
    "Per User Output Throughput [w/ ctx] (tps/user)": Field("output_throughput_per_user", "1/s"),
    "Per GPU Output Throughput (tps/gpu)": Field("output_throughput_per_gpu", "1/s"),
    "Per User Output Speed (tps/user)": Field("output_speed_per_user", "1/s"),
}
#: The machine and the settings, and means that the percentiles have, too.
BESIDE = (
    r"machine|world_info|avg_\w+|Max Runtime Tokens|KV Memory Percentage|Issue Rate.*|Average (?:In|Out)put Length.*"
)
#: The names before percentiles, as in `[TTFT] P99`, with their metrics.
_GROUPS = {
    "Latency": Field("request_latency", "s", 1e3),
    "TTFT": Field("ttft", "s", 1e3),
    "TPOT": Field("tpot", "s", 1e3),
    "GTPS": Field("generation_throughput_per_user", "1/s"),
}
#: Paths in the JSON, with the same metrics.
_JSON = {
    ("performance", "request_throughput_req_s"): Field("request_throughput", "1/s"),
    ("performance", "system_output_throughput_tok_s"): Field("output_throughput", "1/s"),
    ("performance", "system_total_throughput_tok_s"): Field("total_token_throughput", "1/s"),
    ("performance", "total_latency_ms"): Field("total_latency", "s", 1e3),
    ("performance", "output_throughput_per_user_tok_s"): Field("output_throughput_per_user", "1/s"),
    ("performance", "output_throughput_per_gpu_tok_s"): Field("output_throughput_per_gpu", "1/s"),
    ("streaming_metrics", "token_output_speed_tok_s"): Field("output_speed_per_user", "1/s"),
    ("performance", "request_latency_percentiles_ms"): _GROUPS["Latency"],
    ("streaming_metrics", "ttft_percentiles"): _GROUPS["TTFT"],
    ("streaming_metrics", "tpot_percentiles"): _GROUPS["TPOT"],
    ("streaming_metrics", "gen_tps_percentiles"): _GROUPS["GTPS"],
}
#: Printed conditions and their paths in the JSON.
_CONDITIONS = {
    "Model": ("engine", "model"),
    "Dtype": ("engine", "dtype"),
    "Quantization": ("engine", "quantization"),
    "KV Cache Dtype": ("engine", "kv_cache_dtype"),
    "TP Size": ("world_info", "tp_size"),
    "PP Size": ("world_info", "pp_size"),
    "Max Runtime Batch Size": ("world_info", "max_batch_size"),
    "Average Input Length (tokens)": ("request_info", "avg_input_length"),
}
#: The first title of a report, with the backend as the JSON names it.
_BACKENDS = {"= PYTORCH BACKEND": "Pytorch", "= ENGINE DETAILS": "TRT"}
_BEGINNINGS = (*_BACKENDS, "= PERFORMANCE OVERVIEW")
_ROW = re.compile(
    r"(?:\[\d\d/\d\d/\d{4}[^\]]*\] ?\[.{1,40}?\] ?\[\w\] ?)?([A-Z][\w /\[\]().-]{1,60}):\s+(\S.{0,200}?)\s*"
)
_STATISTIC = re.compile(r"\[(Latency|TTFT|TPOT|GTPS)\] (\w{2,8}) *: (\S{1,40})\s*")
_GPU = re.compile(r"(\S.{0,80}?), memory \S{1,20}(?: GB)?, .*")


class _ReportRun(RunBuilder):
    """The run of a printed report; the percentiles become aggregates at its end."""

    def __init__(self, file: InputFile) -> None:
        super().__init__(file, NAME)
        #: The conditions as they are printed, by their paths in the JSON.
        self.record: dict[str, dict[str, object]] = {}
        #: The printed statistics of each group, in base units.
        self.groups: dict[str, dict[str, float]] = {}
        #: The line of the title `PERFORMANCE OVERVIEW`; 0 before it.
        self.overview = 0

    def labels(self) -> Labels:
        """Return the conditions so far; they are printed before the numbers."""
        return labels_of(self.file, NAME, self.record)

    def run(self, part: int | None = None) -> Run:
        for name, statistics in self.groups.items():
            metric, unit, _ = _GROUPS[name]
            self.aggregate(Key(metric, self.labels()), unit, statistics)
        if self.overview and not self.finished:
            self.say("error", "a performance overview has no row", self.overview)
        return super().run(part)


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a log, or the one run of a JSON report."""
    if file.is_json():
        return (_report(file),)
    runs = Runs(lambda: _ReportRun(file))
    for number, line, _, ended in file.lines():
        if ended:
            _line(runs, line, number)
    return runs.finish()


def _line(runs: Runs[_ReportRun], line: str, number: int) -> None:
    title = next((title for title in _BEGINNINGS if title in line), None)
    if title in _BACKENDS:
        runs.banner(number)
        runs.run.record.setdefault("engine", {})["backend"] = _BACKENDS[title]
    elif title:
        runs.run.overview = number
    elif found := _STATISTIC.fullmatch(line):
        _statistic(runs.run, found, number)
    elif found := _ROW.fullmatch(line):
        name, text = found[1], found[2]
        if name in _CONDITIONS:
            section, key = _CONDITIONS[name]
            runs.run.record.setdefault(section, {})[key] = text if text != "None" else None
        elif name in _PRINTED and runs.run.overview:
            metric, unit, per = _PRINTED[name]
            runs.run.value(Key(metric, runs.run.labels()), unit, text, number, per=per)
    elif gpu := _GPU.fullmatch(line):
        runs.run.fact("gpu", gpu[1], number)


def _statistic(run: _ReportRun, found: re.Match[str], line: int) -> None:
    metric, unit, per = _GROUPS[found[1]]
    statistic, (value, fault) = statistic_of(found[2]), checked(found[3], unit)
    again = AGAIN if statistic in run.groups.get(found[1], {}) else None
    if fault or again:
        run.refuse(Key(metric, run.labels()), f"{found[2]}: {fault or again}", line)
    elif statistic:
        run.groups.setdefault(found[1], {})[statistic] = value / per


def _report(file: InputFile) -> Run:
    data, run = load(file, NAME)
    fact(run, "gpu", mapping(data.get("machine")).get("name"))
    info = {**mapping(data.get("request_info"))}
    length = info.get("avg_input_length")
    if isinstance(length, int | float) and not isinstance(length, bool):
        info["avg_input_length"] = f"{length:.4f}"  # as it is printed, so that both forms have the same condition
    labels = labels_of(file, NAME, {**data, "request_info": info})
    for (section, name), field in _JSON.items():
        value, to = mapping(data.get(section)).get(name), Target(run, Key(field.metric, labels), field.unit, field.per)
        if field not in _GROUPS.values() and name in mapping(data.get(section)):  # one number, no percentiles
            to.value(value, (section, name))
        elif isinstance(value, dict):
            to.statistics(value, (section, name))
    return run.run()
