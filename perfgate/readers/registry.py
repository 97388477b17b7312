"""The registry: every format that perfgate reads, what gives it away, and the module that reads it.

A new format is a row here and a module beside this one with `read(document) -> tuple[Run, ...]`: one Run for each run
in the file, never none. `read` walks a `text.Document` once, by lines, as a whole or by blocks of bytes; never raises
for bad data, but says it in problems (`building.RunBuilder` helps); opens nothing; and knows nothing of baselines,
rules or the clock. What it keeps it counts, through `RunBuilder` or `document.count`, so that the limits of
`core.resource_limits` hold. Modules are imported when a file is theirs, so that many formats cost nothing at start-up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, cast

from perfgate.readers import shapes
from perfgate.readers.sniffing import SQLITE, Shape

if TYPE_CHECKING:
    from perfgate.core import Run
    from perfgate.readers.text import Document


@dataclass(frozen=True, slots=True)
class Format:
    """One format: its name for `--format`, its title for people, and the module that reads it."""

    name: str
    title: str
    module: str
    #: What rules can name of it, for the pages, in Markdown.
    metrics: str
    #: Of text: words that must occur, and the pattern that finds them (empty: the words themselves). The earliest
    #: match in a file decides; of two at one place, the format that stands first.
    markers: Mapping[str, str] = field(default_factory=dict)
    #: The same, of what stands in logs of other formats, too: they count where a file has no marker.
    hints: Mapping[str, str] = field(default_factory=dict)
    #: Of a file that is no text: its first bytes.
    magic: bytes | None = None
    #: Of JSON: why a document of this shape is of the format, or None.
    fits: Callable[[Shape], str | None] = shapes.none
    #: Of JSON: the pattern of a key that tells the format, however much stands before it; empty for none.
    late_key: str = ""

    def read(self, document: Document) -> tuple[Run, ...]:
        """The runs of a document, at least one."""
        reader = import_module(f"perfgate.readers.{self.module}")
        return cast("tuple[Run, ...]", reader.read(document))


#: The names that Megatron-LM's oldest records begin with, which otherwise look like DeepSpeed's.
_MEGATRON_TIMERS = (
    " (?:load-checkpoint|model-and-optimizer-setup|model and optimizer|forward-compute|forward-recv|forward-backward"
    "|batch-generator|interval-time): "
)

FORMATS: tuple[Format, ...] = (
    Format(
        "deepspeed",
        "a DeepSpeed log: timers, throughput, memory, collectives, FLOPS profiler, or open_clip training lines",
        "deepspeed.log",
        metrics=(
            "`forward`, `backward`, `backward_allreduce`, `step`, `*_microstep`, `optimizer_*`, any other timer as "
            'printed; `samples_per_second`, `memory.allocated`, `memory.peak_allocated{at="..."}`, ...; '
            "`collective.OP`, `.algbw`, `.busbw`, `.straggler`, labelled with the message size; "
            "`flops_profiler.forward_latency`, `.throughput`, ...; of open_clip and EVA-CLIP lines `batch_time`, "
            "`data_time`, `batch_rate`"
        ),
        markers={
            "time (ms)": rf"time \(ms\)[ \t]*(?:\|(?!{_MEGATRON_TIMERS})|\r?$)",
            "SamplesPerSec=": r", (?:RunningAvg)?SamplesPerSec=",
            "iter time (s):": r"\bsteps: \d{1,18} .{0,300}?iter time \(s\): \S+ samples/sec:",
            "Batch (t):": r"Data \(t\): .*Batch \(t\): ",
        },
        hints={
            "comm op: ": r"comm op: \w+ \| .{0,200}?time \(ms\): ",
            "Comm. Op  ": r"Comm\. Op {2,}Message Size {2,}Count\b",
            "- DeepSpeed Flops Profiler -": "",
            "Max_MA ": r"\bMA \S{1,20} GB +Max_MA \S{1,20} GB +CA ",
        },
    ),
    Format(
        "lightning",
        "a report of Lightning's SimpleProfiler, AdvancedProfiler or PyTorchProfiler",
        "lightning.reports",
        metrics=(
            "the action as printed (quote names that begin with `[`), labelled with its stage; `ACTION.function`; "
            "operators as in torch-table"
        ),
        markers={"Mean duration (s)": r"Action[ \t]*\|[ \t]*Mean duration \(s\)", "Profile stats for: ": ""},
    ),
    Format(
        "torch-table",
        "a table of torch's key_averages().table()",
        "torch_text.table",
        metrics=(
            "`OP.cpu_time`, `OP.self_device_time`, `OP.cpu_memory`, `OP.flops`, `OP.calls`, ... (`cuda` and `xpu` may "
            "be written for `device`)"
        ),
        markers={"Self CPU": r"\bName {2,}(?:Overload Name {2,})?Self CPU"},
    ),
    Format(
        "megatron",
        "a Megatron-LM log: iteration lines and timers, or its golden values (JSON)",
        "megatron",
        metrics=(
            "`iteration_time`, `throughput_per_gpu`, `tokens_per_second`, `memory.peak_allocated`, losses, timers as "
            "printed"
        ),
        markers={
            "elapsed time per iteration": r"\biteration\s{1,40}\d+/\s{0,40}\d+ \|.{0,300}?elapsed time per iteration",
            "across ranks (ms):": r"across ranks \(ms\):(?!\s{0,20}(?:load-checkpoint|model-and-opt))",
            "time (ms) |": rf"time \(ms\) \|{_MEGATRON_TIMERS}",
        },
        fits=shapes.golden,
    ),
    Format(
        "torch-trace",
        "a Chrome trace of torch.profiler (Kineto JSON), or a folder of them, one per rank or span",
        "torch_trace",
        metrics=(
            "`step.time` and its parts `step.kernel`, `.memcpy`, `.memset`, `.communication`, `.runtime`, "
            "`.dataloader`, `.cpu_exec`, `.other`; `gpu.utilization`, `gpu.sm_efficiency`, `gpu.occupancy`, "
            "`gpu.tensor_core_share`, `gpu.idle` (and `.idle_host_wait`, `_kernel_wait`, `_other`); `comm.exposed`, "
            "`comm.overlap`, `comm.wait`; `kernel.NAME`, `op.NAME`, `range.NAME`, `collective.NAME` (`.bytes`, "
            "`.bus_bandwidth`); `memory.peak_allocated`, `memory.peak_reserved`"
        ),
        fits=shapes.trace,
        late_key=r'"traceEvents"\s*:\s*\[',
    ),
    Format(
        "timeit",
        "timing results: lists of seconds under `times`, as JSON or as printed Python objects",
        "benchmarks.timeit",
        metrics="the `computation`, labelled with its configuration's name",
        markers={'"times"': r'"times"\s*:\s*\[', "times=[": ""},
        fits=shapes.timing,
    ),
    Format(
        "torch-benchmark",
        "text of torch.utils.benchmark: printed Measurements, tables of Compare",
        "torch_text.measurements",
        metrics="the title, or `LABEL: SUB_LABEL`, labelled with `threads` and `description`",
        markers={
            "common.Measurement object at": r"<(?:torch\.utils\.benchmark\.)?utils\.common\.Measurement object at",
            " threads: ---": r"\d threads: -{3}",
        },
    ),
    Format(
        "pytest-benchmark",
        "JSON of pytest-benchmark (pytest --benchmark-json)",
        "benchmarks.pytest_benchmark",
        metrics="the benchmark's full name",
        fits=shapes.pytest_benchmark,
    ),
    Format(
        "pyperf",
        "JSON of pyperf: each process run is a run",
        "benchmarks.pyperf",
        metrics="the benchmark's name",
        fits=shapes.pyperf,
    ),
    Format(
        "google-benchmark",
        "JSON of Google Benchmark (--benchmark_out_format=json)",
        "benchmarks.google_benchmark",
        metrics="the benchmark's full name, and `NAME.cpu_time`, `NAME.COUNTER`",
        fits=shapes.google_benchmark,
    ),
    Format(
        "hyperfine",
        "JSON of hyperfine (--export-json)",
        "benchmarks.hyperfine",
        metrics="the command, and `COMMAND.user`, `.system` and `.memory_usage`, labelled with its parameters",
        fits=shapes.hyperfine,
    ),
    Format(
        "asv",
        "a results file of asv, version 1 or 2",
        "benchmarks.asv",
        metrics="the benchmark with its parameters: `bench.time_a(8, 'x')`",
        fits=shapes.asv,
    ),
    Format(
        "nsys",
        "Nsight Systems: summaries (`nsys stats`) as CSV, JSON or tables, and exports as SQLite",
        "nvidia.nsys",
        metrics=(
            "`kernel.NAME`, `api.NAME`, `memcpy.NAME`, `memcpy.NAME.size`, `range.NAME`, `os.NAME`: aggregates of a "
            "summary, one value for each activity of an export"
        ),
        magic=SQLITE,
        markers={
            "Total Time": r"Time ?\(%\)\"?[, \t|]+\"?Total Time\b",
            "Total": r"\bTotal(?: \([KMGT]?i?B\))?\"?[, \t|]+\"?(?:Count|Operations)\"?[, \t|]+\"?(?:Avg|Average)\b",
            "Processing [": r"Processing \[[^\]\n]{1,999}\] with \[[^\]\n]{1,999}sum\b",
            "SKIPPED: ": r"^SKIPPED: .* does not contain",
        },
        fits=shapes.nsys,
    ),
    Format(
        "ncu",
        "Nsight Compute CSV (`ncu --csv`), details or raw page",
        "nvidia.ncu",
        metrics="`kernel.NAME.METRIC`, one value a launch",
        markers={
            "Kernel Name": r"\"ID\",(?:\"[^\"\n]{0,99}\",){0,9}\"Kernel Name\"|^ID,(?:[\w ]{0,99},){0,9}Kernel Name,"
        },
    ),
    Format(
        "hf-trainer",
        "Hugging Face Trainer: trainer_state.json, all_results.json, or the rows that it prints",
        "huggingface.trainer",
        metrics="every number by its printed name: `train_runtime`, `train_samples_per_second`, `eval_loss`, ...",
        markers={
            "_runtime':": r"'(?:train|eval|predict|test)\w{0,200}_runtime':",
            " metrics *****": r"\*{5} \w{1,40} metrics \*{5}[ \t]*\r?$",
        },
        fits=shapes.trainer,
    ),
    Format(
        "vllm",
        "vLLM benchmark results (JSON)",
        "vllm",
        metrics="`mean_ttft`, `p99_itl`, `request_throughput`, ...; each request's `ttft`, `itl`, `latency`",
        fits=shapes.vllm,
    ),
    Format(
        "mlperf",
        "an MLPerf training log (:::MLLOG)",
        "mlperf",
        metrics="`run_time`, `init_time`, `epoch_time`, `eval_time`, `throughput`, `eval_accuracy`, ...",
        markers={":::MLLOG": ""},
    ),
    Format(
        "nccl-tests",
        "nccl-tests: the printed table, or the JSON document of -J; bigscience's all_reduce benchmark",
        "nvidia.nccl_tests",
        metrics="`COLLECTIVE.time`, `.algbw`, `.busbw`, `.avg_busbw`, labelled with `size` and `place`",
        markers={
            "algbw": r"#[ \t]{1,99}size[ \t].{0,300}\balgbw[ \t]+busbw",
            "algo throughput: ": r"algo throughput: \S{1,40} bps, \S{1,40} Gbps",
        },
        fits=shapes.nccl_tests,
    ),
    Format(
        "perfgate",
        "perfgate results (perfgate.results/1)",
        "recorded.results",
        metrics="whatever was recorded",
        fits=shapes.results,
    ),
    Format(
        "recording",
        "a recording of perfgate.Recorder that was not closed",
        "recorded.recording",
        metrics="whatever was recorded until then",
        fits=shapes.recording,
    ),
)
