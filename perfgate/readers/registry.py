r"""The registry: the formats that perfgate reads, how to recognise each, and which module reads it.

**A new format** is a row of `FORMATS` and a module in this package, in the folder of its tool if there is one. The
module has a docstring that quotes the format and cites its source, and

    TITLE = "a log of mytool"                            what the format is, for the pages
    METRICS = "`step_time`, and losses as printed"       which metrics rules can name, for the pages, in Markdown
    CHECKED = "mytool 1.2: files that it wrote"          which version the reader was checked against, and how

    def read(file: InputFile) -> tuple[Run, ...]: ...    one Run for each run in the file, at least one

`read` walks the file once, by lines, as a whole or by blocks of bytes. It never raises for bad data: it makes a Run
with problems instead (`builder.RunBuilder` does most of it). It opens nothing, and knows no baselines, rules or clocks.
A reader that saw a header and read no row, or read fewer rows than the file says, reports it (`RunBuilder.table`).
It counts what it keeps, through `RunBuilder` or `file.count`, so that the limits of `core.resource_limits` hold.

**A reader outside perfgate** is a package with the same `read`, and an entry point that names its `Format`:

    [project.entry-points."perfgate.readers"]            in the pyproject.toml of the package
    mytool = "mytool_reader:FORMAT"

    from perfgate.readers import Format                  mytool_reader.py; a module with FORMAT is as good
    FORMAT = Format("mytool", "mytool_reader", markers={"mytool step": r"mytool step \d+: "})

`outside_formats` loads it. These packages are only searched for when no format of perfgate matches, or when --format
names an unknown format. A package that cannot be loaded, or whose reader fails, is reported in one line and harms no
other file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from msgspec import Struct, field

from perfgate.readers import json_outline
from perfgate.readers.json_outline import JsonOutline
from perfgate.readers.text import SQLITE


class Format(Struct, frozen=True):
    """One format: its name for `--format`, the module that reads it, and how to recognise it.

    The markers are here and not in the reader's module, because detection needs the markers of all formats: to import
    every reader would add 0.1 s to each start.
    """

    name: str
    #: The module with `read`, imported when a file has this format; one that begins with a dot is in this package.
    module: str
    #: Text formats: words that must occur, and the pattern that finds them (empty: the words themselves). The earliest
    #: match in a file decides; at the same place, the first format of the list.
    markers: Mapping[str, str] = field(default_factory=dict)
    #: Like `markers`, but these also occur in logs of other formats: they count if a file has no marker.
    hints: Mapping[str, str] = field(default_factory=dict)
    #: Binary formats: the first bytes.
    magic: bytes | None = None
    #: Binary formats whose first bytes vary: their pattern, and what to say of a file that begins so.
    signature: tuple[bytes, str] | None = None
    #: JSON formats: returns why a document with this outline has the format, or None.
    outline: Callable[[JsonOutline], str | None] | None = None
    #: JSON formats: the pattern of a key that proves the format, however far behind it is; empty for none.
    late_key: str = ""
    #: The package that brings the format, if it is not perfgate.
    package: str = ""

    @property
    def title(self) -> str:
        """The name of the format, for people."""
        return str(import_module(self.module, __package__).TITLE)

    @property
    def metrics(self) -> str:
        """The metrics that rules can name, in Markdown."""
        return str(import_module(self.module, __package__).METRICS)

    @property
    def checked(self) -> str:
        """The version of the tool that the reader was checked against, and the check."""
        return str(import_module(self.module, __package__).CHECKED)


#: The names that Megatron-LM's oldest records begin with, which otherwise look like DeepSpeed's.
_MEGATRON_TIMERS = (
    " (?:load-checkpoint|model-and-optimizer-setup|model and optimizer|forward-compute|forward-recv|forward-backward"
    "|batch-generator|interval-time): "
)

#: A pickle of protocols 2 to 5 of a dict whose first key is one of a snapshot, however the pickler writes text.
_SNAPSHOT = (
    rb"\x80[\x02-\x05](?:\x95.{8})?\}(?:\x94|q\0)?\(?(?:\x8c.|X.\0\0\0)"
    rb"(?:segments|device_traces|allocator_settings|external_annotations|host_segments)"
)

#: The first plane of a profile of XLA, with its id and the beginning of its name.
_XPLANE = rb"\x0a[\x80-\xff]{0,4}[\0-\x7f](?:\x08[\x80-\xff]{0,9}[\0-\x7f])?\x12.(?:/[a-z]|Task Env)"

FORMATS: tuple[Format, ...] = (
    Format(
        "deepspeed",
        ".deepspeed.log",
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
        ".lightning",
        markers={"Mean duration (s)": r"Action[ \t]*\|[ \t]*Mean duration \(s\)", "Profile stats for: ": ""},
    ),
    Format("torch-table", ".torch_text.op_table", markers={"Self CPU": r"\bName {2,}(?:Overload Name {2,})?Self CPU"}),
    Format(
        "megatron",
        ".megatron",
        markers={
            "elapsed time per iteration": r"\biteration\s{1,40}\d+/\s{0,40}\d+ \|.{0,300}?elapsed time per iteration",
            "across ranks (ms):": r"across ranks \(ms\):(?!\s{0,20}(?:load-checkpoint|model-and-opt))",
            "time (ms) |": rf"time \(ms\) \|{_MEGATRON_TIMERS}",
        },
        outline=json_outline.golden,
    ),
    Format("torch-trace", ".torch_trace", outline=json_outline.trace, late_key=r'"traceEvents"\s*:\s*\['),
    Format("torch-snapshot", ".torch_snapshot.snapshot", signature=(_SNAPSHOT, "as a memory snapshot of torch does")),
    Format(
        "timeit",
        ".benchmarks.timeit",
        markers={'"times"': r'"times"\s*:\s*\[', "times=[": ""},
        outline=json_outline.timing,
    ),
    Format(
        "torch-benchmark",
        ".torch_text.measurements",
        markers={
            "common.Measurement object at": r"<(?:torch\.utils\.benchmark\.)?utils\.common\.Measurement object at",
            " threads: ---": r"\d threads: -{3}",
        },
    ),
    Format("pytest-benchmark", ".benchmarks.pytest_benchmark", outline=json_outline.pytest_benchmark),
    Format("pyperf", ".benchmarks.pyperf", outline=json_outline.pyperf),
    Format("google-benchmark", ".benchmarks.google_benchmark", outline=json_outline.google_benchmark),
    Format("hyperfine", ".benchmarks.hyperfine", outline=json_outline.hyperfine),
    Format("asv", ".benchmarks.asv", outline=json_outline.asv),
    Format(
        "nsys",
        ".nvidia.nsys",
        magic=SQLITE,
        markers={
            "Total Time": r"Time ?\(%\)\"?[, \t|]+\"?Total Time\b",
            "Total": r"\bTotal(?: \([KMGT]?i?B\))?\"?[, \t|]+\"?(?:Count|Operations)\"?[, \t|]+\"?(?:Avg|Average)\b",
            "Processing [": r"Processing \[[^\]\n]{1,999}\] with \[[^\]\n]{1,999}sum\b",
            "SKIPPED: ": r"^SKIPPED: .* does not contain",
        },
        outline=json_outline.nsys,
    ),
    Format(
        "ncu",
        ".nvidia.ncu",
        markers={
            "Kernel Name": r"\"ID\",(?:\"[^\"\n]{0,99}\",){0,9}\"Kernel Name\"|^ID,(?:[\w ]{0,99},){0,9}Kernel Name,"
        },
    ),
    Format(
        "hf-trainer",
        ".hf_trainer",
        markers={
            "_runtime':": r"'(?:train|eval|predict|test)\w{0,200}_runtime':",
            " metrics *****": r"\*{5} \w{1,40} metrics \*{5}[ \t]*\r?$",
        },
        outline=json_outline.trainer,
    ),
    Format(
        "serve-log",
        ".serving.console",
        markers={"Serving Benchmark Result": r"={3,60} ?Serving Benchmark Result ?={3,60}"},
    ),
    Format("sglang", ".serving.sglang_results", outline=json_outline.sglang),
    Format("guidellm", ".serving.guidellm", outline=json_outline.guidellm),
    Format("genai-perf", ".serving.genai_perf", outline=json_outline.genai_perf),
    Format(
        "trtllm-bench",
        ".serving.trtllm_bench",
        markers={"= PERFORMANCE OVERVIEW": "", "= PYTORCH BACKEND": "", "= ENGINE DETAILS": ""},
        outline=json_outline.trtllm_bench,
    ),
    Format(
        "trtexec",
        ".serving.trtexec",
        markers={"=== Performance summary ===": "", "&&&& RUNNING TensorRT.trtexec": ""},
        outline=json_outline.trtexec,
    ),
    Format("pytorch-hud", ".benchmarks.pytorch_hud", outline=json_outline.pytorch_hud),
    Format("vllm", ".vllm", outline=json_outline.vllm),
    Format(
        "mlperf-inference",
        ".serving.loadgen",
        markers={
            "MLPerf Results Summary": "",
            '"loadgen_version"': r':::MLLOG \{"key": "loadgen_version"',
            '"mlperf::logging"': r':::MLLOG \{"key": "\w{1,99}", .{0,300}?"namespace": "mlperf::logging"',
        },
    ),
    Format("mlperf", ".mlperf", markers={":::MLLOG": ""}),
    Format(
        "nccl-tests",
        ".nvidia.nccl_tests",
        markers={
            "algbw": r"#[ \t]{1,99}size[ \t].{0,300}\balgbw[ \t]+busbw",
            "algo throughput: ": r"algo throughput: \S{1,40} bps, \S{1,40} Gbps",
        },
        outline=json_outline.nccl_tests,
    ),
    Format(
        "torchbench",
        ".benchmarks.torchbench",
        markers={"dev,name,batch_size,": r"^dev,name,batch_size,"},
        outline=json_outline.torchbench,
    ),
    Format(
        "tritonbench",
        ".benchmarks.tritonbench",
        markers={
            f"-{metric}": rf"^[^;\n]{{1,200}};(?:[^;\n]{{1,200}};){{0,200}}?[^;\n]{{1,200}}-{metric}(?:;|\r?$)"
            for metric in ("latency", "tflops", "walltime", "gbps")
        },
    ),
    Format("benchmark-action", ".benchmarks.benchmark_action", outline=json_outline.benchmark_action),
    Format("bencher", ".benchmarks.bencher", outline=json_outline.bencher),
    Format(
        "nvbandwidth",
        ".nvidia.nvbandwidth",
        markers={
            "nvbandwidth Version: ": "",
            "bandwidth (GB/s)": r"^(?:\[[\d,]+\]<stdout>:)?(?:memcpy|multicast) .{1,80} bandwidth \(GB/s\)",
        },
        outline=json_outline.nvbandwidth,
    ),
    Format("nvbench", ".nvidia.nvbench", outline=json_outline.nvbench),
    Format(
        "rocprof",
        ".rocprof",
        markers={
            "TotalDurationNs": r"^\"?Name\"?,\"?Calls\"?,\"?TotalDurationNs\"?,",
            "Start_Timestamp": r"^\"?(?:Kind|Domain)\"?,.{0,300}\"?Start_Timestamp\"?,\"?End_Timestamp\b",
            "Counter_Name": r"^\"?Correlation_Id\"?,.{0,400}\"?Counter_Name\"?,\"?Counter_Value\b",
        },
        outline=json_outline.rocprof,
    ),
    Format(
        "perf-stat",
        ".system.perf_stat",
        markers={
            "Performance counter stats for": "",
            "-clock": r"^(?:[^,;|\t\n]{0,60}[,;|\t]){0,3}[\d.]{1,30}([,;|\t])msec\1(?:task|cpu)-clock(?::\w{1,9})?\1\d",
            '"counter-value" : ': "",
            "#           time": r"^#           time +(?:CPU +|socket +|.{0,30})?counts +(?:unit )?events",
        },
        hints={",,": r"^[\d.]{1,30},,[a-zA-Z][\w.:/=-]{1,99},\d{1,20},\d{1,3}\.\d\d,"},
        outline=json_outline.perf_stat,
    ),
    Format(
        "tensorboard",
        ".trackers.tensorboard",
        signature=(rb".{12}\x09.{8}(?:\x10.)?\x1a.brain\.Event:\d", "as an event file of TensorBoard does"),
    ),
    Format("xprof", ".xprof_overview", outline=json_outline.xprof),
    Format("xplane", ".xplane", signature=(_XPLANE, "as a profile of JAX or XLA does")),
    Format("wandb", ".trackers.wandb", signature=(rb":W&B\xe1\xbe", "with ':W&B'")),
    Format("mlflow", ".trackers.mlflow", hints={" ": r"\A\d{13} \S{1,40} -?\d{1,18}\n"}),
    Format(
        "pstats",
        ".python_profile",
        markers={"ncalls  tottime  percall  cumtime": ""},
        signature=(rb"[{\xfb](?:[)\xa9]\x03|[(\xa8]\x03\0\0\0)", "as a profile of Python does"),
    ),
    Format("superbench", ".system.superbench", outline=json_outline.superbench),
    Format(
        "nanogpt",
        ".training_logs.nanogpt",
        markers={"iter ": r"\biter \d{1,18}: loss \S{1,40}, (?:\S.{0,200}, )?time \S{1,40}?ms\b"},
    ),
    Format(
        "torchtitan",
        ".training_logs.torchtitan",
        markers={"step: ": r"\bstep: {0,20}\d{1,18} {1,9}loss: {0,20}\S{1,40} {1,9}.{0,200}(?:tps|wps): "},
    ),
    Format(
        "nemo",
        ".training_logs.nemo",
        markers={
            "Training epoch ": r"\bTraining epoch \d{1,9}, iteration \d{1,18}/\d{1,18} \| ",
            "train_step_timing in s=": "",
        },
    ),
    Format("maxtext", ".training_logs.maxtext", markers={"completed step: ": r"\bcompleted step: \d{1,18}, seconds: "}),
    Format(
        "levanter",
        ".training_logs.levanter",
        markers={'"tracker": "json_logger"': ""},
        hints={"Progress on:train ": r"Progress on:train \S{1,40} rate:"},
        outline=json_outline.levanter,
    ),
    Format("perfgate", ".recorded.results", outline=json_outline.results),
    Format("recording", ".recorded.recording", outline=json_outline.recording),
)
