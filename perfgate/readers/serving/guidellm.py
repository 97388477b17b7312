"""The report of guidellm: `benchmarks.json`, of version 0.2 to 0.8.

    {"metadata": {"guidellm_version": "0.7.3"}, "benchmarks": [{
       "config": {"strategy": {"type_": "constant", "rate": 2.0}, "backend": {"model": "org/model"}},
       "metrics": {"time_to_first_token_ms": {"successful": {"mean": 90.1, "median": 85.0, "std_dev": 3.1, "count": 100,
          "percentiles": {"p50": 85.0, "p99": 120.5, "p999": 140.0}}, "errored": {...}}}}]}

Source: vllm-project/guidellm 0.7.3 `src/guidellm/benchmark/schemas/`, `src/guidellm/schemas/statistics.py`,
`src/guidellm/scheduler/strategies.py`; before 0.4 the fields of `config` are in `args`.

Each metric is an aggregate over the successful requests: `request_latency` (s), `time_to_first_token`,
`inter_token_latency`, `time_per_output_token` (s; printed in ms), `requests_per_second`, `output_tokens_per_second`,
`tokens_per_second` (1/s), `request_concurrency`, counts of tokens (1). `duration`, `requests.successful`,
`requests.errored` and `requests.incomplete` are one value each. A report is a sweep over strategies: `strategy`,
`request_rate` and `concurrency` are labels, and so is `model`. A benchmark without a successful request is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfgate.core.wording import show_labels
from perfgate.readers.kit import Format, InputFile, JsonSource, Key, Labels, Path, Run, RunBuilder, Target, load_json
from perfgate.readers.runs import RecordRuns, labels_of
from perfgate.readers.values import items, mapping, unit_of_name

NAME = "guidellm"
METRICS = (
    "`time_to_first_token`, `inter_token_latency`, `request_latency`, `requests_per_second`, ...: aggregates, labelled "
    "with `model`, `strategy`, `request_rate` and `concurrency`"
)
CHECKED = "guidellm 0.7.3's sources: generated files; public reports of 0.3 (2025-09) and 0.8"
#: `{"benchmarks": [{"type_": "generative_benchmark", "metrics": {...}}]}`.
FORMAT = Format(NAME, __name__, json=("with the 'metrics' of guidellm", "benchmarks.*.metrics={", "benchmarks.*.type_"))
#: Not read: each request, from which the statistics follow; the load generator; requests that were not successful.
BESIDE = r"requests|run_stats|scheduler_\w+|worker|\w+_duration|errored|incomplete|total|total_sum|variance"


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a report: benchmarks of unequal strategies are one run, equal ones are several."""
    text = file.whole()
    loaded = load_json("{}" if text is None else text, file.name, file.limits, finite=False)  # None: too large
    source, runs = JsonSource(loaded), RecordRuns(file, NAME)
    report = mapping(loaded.data)
    benchmarks = report.get("benchmarks")
    for index, benchmark in enumerate(map(mapping, items(benchmarks))):
        # The conditions of a benchmark are its own, or those of the whole report. `worker` is of older versions.
        config, whole = (mapping(one.get("config")) or mapping(one.get("args")) for one in (benchmark, report))
        backend = mapping(config.get("backend")) or mapping(benchmark.get("worker"))
        model = backend.get("model") or backend.get("backend_model") or whole.get("model")
        labels = labels_of(file, NAME, {"strategy": mapping(config.get("strategy")), "model": model})
        _benchmark(runs.run_of(labels, source, benchmark), benchmark, labels, ("benchmarks", index))
    if loaded.problems or not benchmarks:
        runs.run_of(None, source).report_problems()
    return runs.finish()


def _benchmark(run: RunBuilder, benchmark: Mapping[str, Any], labels: Labels, place: Path) -> None:
    metrics = mapping(benchmark.get("metrics"))
    for name, metric in metrics.items():
        successful = mapping(mapping(metric).get("successful"))
        if "mean" in successful:
            _add_statistics(run, name, successful, labels, (*place, "metrics", name, "successful"))
    if "duration" in benchmark:
        Target(run, Key("duration", labels), "s").value(benchmark["duration"], (*place, "duration"))
    place = (*place, "metrics") if "request_totals" in metrics else place  # versions differ
    totals = mapping(metrics.get("request_totals") or benchmark.get("request_totals"))
    for status in ("successful", "errored", "incomplete"):
        if status in totals:
            at = (*place, "request_totals", status)
            Target(run, Key(f"requests.{status}", labels), "1").value(totals[status], at)
    if totals.get("successful") == 0:
        run.say("error", "no request was successful", place, f" with {show_labels(labels)}")


def _add_statistics(run: RunBuilder, name: str, successful: Mapping[str, Any], labels: Labels, place: Path) -> None:
    run.file.coverage.mark(run.json, (*place, "percentiles"), None)  # they are read below, as if beside the mean
    if successful.get("count") == 0:
        return
    unit, per = ("s", 1.0) if name == "request_latency" else unit_of_name(name)
    statistics = {**successful, **mapping(successful.get("percentiles"))}
    Target(run, Key(name.removesuffix("_ms"), labels), unit, per).statistics(statistics, place)
