"""The readers of installed packages, and a message for a file that no reader knows.

The message says what the file is, which format is most similar, and what to give perfgate instead.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType

from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.core import Run
from perfgate.core.resource_limits import OverLimit
from perfgate.core.wording import clip, one_line
from perfgate.documents.json import JsonDocument, load_json
from perfgate.readers.formats import Format, JsonOutline
from perfgate.readers.line_blocks import clean, is_json
from perfgate.readers.registry import FORMATS
from perfgate.readers.text import InputFile

#: The entry points of packages that bring readers.
GROUP = "perfgate.readers"
#: The characters at the beginning of a text that are compared with formats and tools.
_COMPARED = 1 << 18


def read_outside(known: Format, file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a file from the reader of an installed package; if it fails, one run with the error."""
    try:
        runs = tuple(import_module(known.module).read(file))
        if not runs or not all(isinstance(run, Run) for run in runs):
            raise TypeError("read() must return at least one Run")
    except OverLimit:
        raise
    except (Exception, SystemExit) as error:
        message = _fault(f"the reader {known.name!r} of {known.package} failed", error)
        return (Run(file.name, known.name, (), (*file.problems, file.problem("error", message))),)
    return runs


class Plugins(Struct, frozen=True):
    """The formats of installed packages, and what is wrong with such packages, one line each."""

    formats: list[Format] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@cache
def plugins() -> Plugins:
    """Return the formats of installed packages; the search takes milliseconds, so it is made once."""
    from importlib.metadata import entry_points

    found = Plugins()
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
        try:
            loaded = _checked(entry.load(), package, found)
        except (Exception, SystemExit) as error:
            found.faults.append(_fault(f"the reader {entry.name!r} of {package} cannot be loaded", error))
        else:
            found.formats.append(loaded)
    return found


def find_format(name: str) -> Format | None:
    """Return the format of this name; packages are searched only if perfgate has none."""
    own = next((known for known in FORMATS if known.name == name), None)
    return own or next((known for known in plugins().formats if known.name == name), None)


def format_names() -> list[str]:
    """Return the names of all formats, those of installed packages last."""
    return [known.name for known in (*FORMATS, *plugins().formats)]


def _checked(loaded: object, package: str, before: Plugins) -> Format:
    """Return the format that an entry point names, with an `outline` that never raises.

    `before`: gets a fault if `outline` fails later. Raises an error with the reason if there is no usable format.
    """
    found = vars(loaded).get("FORMAT") if isinstance(loaded, ModuleType) else loaded
    if not isinstance(found, Format):
        raise TypeError("the entry point names neither a Format nor a module with FORMAT")
    if any(found.name == known.name for known in (*FORMATS, *before.formats)):
        raise ValueError(f"the format {found.name!r} exists already")
    for pattern in (*found.markers.values(), *found.hints.values(), found.late_key):
        re.compile(pattern)  # a wrong pattern raises here
    rule = found.outline

    def outline(document: JsonOutline) -> str | None:
        try:
            return rule(document) if rule else None
        except Exception as error:
            before.faults.append(_fault(f"the reader {found.name!r} of {package} failed", error))
            return None

    return replace(found, outline=outline, package=package)


def _fault(what: str, error: BaseException) -> str:
    return clip(one_line(f"{what}: {type(error).__name__}: {error}"), 500)


#: A file is binary if more than one in this many characters cannot be text.
_BINARY_SHARE = 20
#: Console output of tools that also write JSON: a word that must occur, the pattern around it, the tool, and how it
#: writes JSON. The console output is rounded, so it is refused.
_CONSOLE = (
    ("(time in ", r"^Name \(time in \w+\)\s+Min", "pytest-benchmark", "pytest --benchmark-json FILE"),
    ("Time (mean ", r"^[ \t]*Time \(mean ± ", "hyperfine", "hyperfine --export-json FILE"),
    (
        "Iterations",
        r"^Benchmark\s+Time(?:\(\w+\))?\s+CPU(?:\(\w+\))?\s+Iterations",
        "Google Benchmark",
        "--benchmark_out=FILE --benchmark_out_format=json",
    ),
    ("Mean +- std dev: ", r"Mean \+- std dev: ", "pyperf", "pyperf's option -o FILE"),
    ("CPU Time ", r"^\|.{0,400}\| +Samples +\| +CPU Time +\| +Noise +\|", "nvbench", "--json FILE"),
    ("·· ", r"^\[ *\d+\.\d+%\] ·+ ", "asv", "the files that asv run writes below its results_dir"),
)
#: Texts about a tool (a tutorial, a script, a configuration): the tool, words by which people set it up, what to give.
_TOOLS = {
    "torch.profiler": (
        r"torch\.(?:autograd\.)?profiler|tensorboard_trace_handler|key_averages\(|ProfilerActivity",
        "run the script, and give the trace files that tensorboard_trace_handler or export_chrome_trace writes,"
        " or the table that key_averages().table() prints",
    ),
    "DeepSpeed": (
        r"wall_clock_breakdown|deepspeed\.initialize\(|import deepspeed|flops_profiler|comms_logger",
        'run the job with "wall_clock_breakdown": true in its configuration, and give its log',
    ),
    "Lightning's profilers": (
        r"(?:Simple|Advanced|PyTorch)Profiler\b|profiler=[\"'](?:simple|advanced|pytorch)[\"']",
        "run the script, and give the report (printed, or the file of dirpath= and filename=)",
    ),
    "torch.utils.benchmark": (
        r"torch\.utils\.benchmark|\bblocked_autorange\(",
        "run the script, and give the Measurements that it prints",
    ),
    "Nsight Systems": (
        r"\bnsys (?:profile|stats|export|launch)\b",
        "profile the job, and give what nsys stats prints or nsys export --type sqlite writes",
    ),
    "Nsight Compute": (r"\bncu (?:-|\w)", "profile the job, and give what ncu --csv prints"),
    "pytest-benchmark": (
        r"pytest[_-]benchmark|\bdef test_\w+\(benchmark\b",
        "run the tests with --benchmark-json FILE, and give that file",
    ),
    "hyperfine": (r"\bhyperfine -", "run it with --export-json FILE, and give that file"),
    "nccl-tests": (r"\b(?:all_reduce|all_gather|reduce_scatter|alltoall)_perf\b", "run it, and give what it prints"),
}
#: Keys of each JSON format. A file that has two of them, and more than of any other format, may be of that format.
_KEYS: dict[str, str] = {
    "pytest-benchmark": "machine_info commit_info benchmarks fullname fullfunc stats rounds iqr_outliers extra_info",
    "google-benchmark": "context benchmarks run_name run_type real_time cpu_time time_unit repetition_index",
    "pyperf": "benchmarks runs warmups values metadata",
    "hyperfine": "results command mean stddev user system exit_codes memory_usage_byte",
    "asv": "commit_hash env_name date python requirements result_columns env_vars durations",
    "torch-trace": "traceEvents schemaVersion deviceProperties distributedInfo displayTimeUnit ph",
    "hf-trainer": "log_history global_step best_metric epoch learning_rate train_runtime train_loss eval_loss",
    "vllm": "model_id request_rate max_concurrency completed request_throughput output_throughput mean_ttft_ms "
    "median_ttft_ms p99_ttft_ms mean_itl_ms mean_tpot_ms total_input_tokens num_prompts burstiness",
    "nccl-tests": "out_of_place in_place nccl_version average_bus_bandwidth out_of_bounds alg_bw bus_bw",
    "megatron": "start_step end_step step_interval",
    "perfgate": "series metric unit incomplete",
}
#: Words of text formats that also occur in other texts, so they are only a reason for a guess.
_WORDS: dict[str, str] = {
    "deepspeed": r"\bSamplesPerSec\b|\bwall_clock|(?i:deepspeed)",
    "megatron": r"\belapsed time per iteration\b|\bconsumed samples\b|(?i:megatron)",
    "torch-table": r"\b(?:Self )?(?:CPU|CUDA) (?:time|total)\b",
    "lightning": r"\bProfiler Report\b|\bMean duration\b|\bNum calls\b",
    "nsys": r"\bTotal Time\b|\bNum Calls\b|(?i:nsight systems)",
    "ncu": r"==PROF==|\bKernel Name\b|\bMetric (?:Name|Value)\b|(?i:nsight compute)",
    "nccl-tests": r"\bbusbw\b|\balgbw\b|\bNCCL INFO\b",
    "mlperf": r"(?i:\bmllog\b|\bmlperf\b)",
    "hf-trainer": r"'(?:loss|grad_norm|learning_rate|eval_loss)':|\btrain_(?:runtime|samples_per_second)\b",
    "torch-benchmark": r"\bIQR:|\bMeasurement object\b",
}


def not_recognised(file: InputFile, most: int) -> tuple[str, str | None]:
    """Return the message for a file that no reader knows, and what was searched for in its first `most` bytes.

    The second is None if the message says enough.
    """
    head = file.head(most)
    text = head.decode("utf-8", "replace")
    loaded = load_json(text, file.name, file.limits) if len(head) < most else None  # None: the text is cut off
    if is_json(text) or (loaded and not loaded.faults):
        message, searched = _unknown_json(text, loaded, file.name)
    elif text.count("\ufffd") + text.count("\0") > len(text) // _BINARY_SHARE:
        message, searched = "this is a binary file of an unknown kind: give what the tool prints, or its JSON", None
    else:
        message, searched = _unknown_text(clean(text[:_COMPARED]), file.name)
    return "; ".join([message, *plugins().faults]), searched


def _unknown_json(text: str, loaded: JsonDocument | None, name: str) -> tuple[str, str | None]:
    """Return the message for a JSON document, and what was searched for; without `loaded`, the text is cut off."""
    searched = _or_forced()
    if loaded and loaded.faults:
        fault = loaded.faults[0].problem
        place = f"line {fault.at.line}, column {fault.at.column}"
        return f"JSON of an unknown format; on {place}: {fault.message}", searched
    outline = JsonOutline.of(text)
    schema = outline.text("schema") or ""
    if schema.startswith("perfgate.result/"):
        return f"the schema {schema!r} is unknown; did you mean 'perfgate.results/1'?", None
    if schema.startswith("perfgate."):
        return f"this is a {schema}, which has no runs to judge: give the files that were measured", None
    if near := _nearest_json({key for path in outline.tokens for key in path}):
        return f"JSON of an unknown format, most like {near[0]} because of {near[1]}: {_try(near[0], name)}", searched
    keys = [path[0] for path in outline.tokens if len(path) == 1 and path != ("*",)]
    shown = ", ".join(keys[:8]) or "none"
    return f"JSON of an unknown format; its top-level keys are {shown}: {_own(name)}", searched


def _unknown_text(text: str, name: str) -> tuple[str, str | None]:
    """Return the message for a text that is not JSON, and what was searched for in it."""
    if known := console(text) or _about(text):
        return known, None
    words = "; ".join(f"{one.name}: {' or '.join(map(repr, one.markers))}" for one in FORMATS if one.markers)
    searched = f"searched for {words}, and for known JSON documents; {_or_forced()}"
    if near := _nearest_text(text, _WORDS):
        return f"unknown format, most like {near[0]} because of {near[1]}: {_try(near[0], name)}", searched
    if text.partition("\n")[0].count(";") > 1:
        return f"CSV of an unknown format with ';' between its columns: {_suggested(name)}", searched
    return f"unknown format: no line is output of a tool that perfgate reads; {_own(name)}", searched


def _or_forced() -> str:
    return f"--format NAME reads it as one of {', '.join(format_names())}"


def _own(name: str) -> str:
    return f"give a tool's own output; {_suggested(name)}"


def _suggested(name: str) -> str:
    file = "FILE" if name == "-" else shlex.quote(name)
    return f"for a file of your own tool, propose a mapping: perfgate inspect --suggest {file}"


def _try(format: str, name: str) -> str:
    return f"give the whole output of that tool, or try --format {format}; {_suggested(name)}"


def console(text: str) -> str | None:
    """Return the message for a tool's console output, with the way to get its JSON; None for other text."""
    for word, pattern, tool, advice in _CONSOLE:
        found = re.search(pattern, text, re.MULTILINE) if word in text else None
        if found:
            line = text.count("\n", 0, found.start()) + 1
            return f"on line {line} is console output of {tool}, which is rounded and not read; give its JSON: {advice}"
    return None


def _about(text: str) -> str | None:
    """Return the message for a text that is about a tool but is not its output; None for other text."""
    found = _nearest_text(text, {tool: pattern for tool, (pattern, _) in _TOOLS.items()})
    if not found:
        return None
    tool, where = found
    return f"no measurements: this text is about {tool} ({where}) but is not its output; {_TOOLS[tool][1]}"


def _nearest_json(keys: Collection[str]) -> tuple[str, str] | None:
    """Return the format that shares most keys with a JSON document, and two of the keys; None if none is nearest."""
    found = {name: [key for key in own.split() if key in keys] for name, own in _KEYS.items()}
    name = max(found, key=lambda one: len(found[one]))
    several = found[name]
    alike = sum(len(other) == len(several) for other in found.values())
    return (name, f"{several[0]!r} and {several[1]!r}") if len(several) > 1 and alike == 1 else None


def _nearest_text(text: str, words: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the name whose words a text has most often, and the first of them with its line; None without any."""
    found = {name: [*re.finditer(pattern, text)] for name, pattern in words.items()}
    name = max(found, key=lambda one: len(found[one]))
    if not found[name]:
        return None
    first = found[name][0]
    return name, f"{first[0]!r} on line {text.count(chr(10), 0, first.start()) + 1}"
