"""Chrome traces of torch.profiler (Kineto JSON), of any size, in one pass and bounded memory.

    bytes → trace_file → chunks of events → event_tables → steps → breakdown → series → a run

| module | contents |
|---|---|
| `trace_file`, `chunks`, `repair` | text: the outermost object, also in several processes; events; broken JSON |
| `event_fields`, `tables`, `event_tables` | the events and fields that are read, and how they are stored |
| `steps`, `breakdown` | how the time of steps and devices was used |
| `series`, `flops` | the metrics that rules can name |
| `work` | the exact work of each step: `work.*` |
| `call_nodes`, `call_tree` | the calls of host and device, and the time of the steps that each gets |
| `ranks` | several files: cycles of one rank, ranks of one job |

The fact `trace_mode` records how a step's time was divided: `corrected` or `tensorboard` (see `breakdown`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import numpy as np
from msgspec.structs import replace

from perfgate.core import Run, Series
from perfgate.core.call_trees import CallTree
from perfgate.core.wording import plural
from perfgate.readers.builder import MAX_FAULTS, RunBuilder
from perfgate.readers.formats import Format, JsonOutline
from perfgate.readers.line_blocks import rank_in_name
from perfgate.readers.text import InputFile
from perfgate.readers.torch_trace.call_tree import call_tree
from perfgate.readers.torch_trace.chunks import Buffer
from perfgate.readers.torch_trace.event_fields import LONGEST_NAME, MOST_NAMES, OTHERS, whole_numbers
from perfgate.readers.torch_trace.event_tables import MOST_DEVICES, EventTables
from perfgate.readers.torch_trace.series import MOST_SERIES, SeriesMaker
from perfgate.readers.torch_trace.steps import find_steps
from perfgate.readers.torch_trace.trace_file import PartsElsewhere, TraceFile
from perfgate.readers.torch_trace.work import Work

TITLE = "a Chrome trace of torch.profiler (Kineto JSON), or a folder of them, one per rank or span"
METRICS = (
    "`step.time` and its parts `step.kernel`, `.memcpy`, `.memset`, `.communication`, `.runtime`, `.dataloader`, "
    "`.cpu_exec`, `.other`; `gpu.utilization`, `gpu.sm_efficiency`, `gpu.occupancy`, `gpu.tensor_core_share`, "
    "`gpu.idle` (and `.idle_host_wait`, `_kernel_wait`, `_other`); `comm.exposed`, `comm.overlap`, `comm.wait`; "
    "`kernel.NAME`, `op.NAME`, `range.NAME`, `collective.NAME` (`.bytes`, `.bus_bandwidth`); "
    "`memory.peak_allocated`, `memory.peak_reserved`; `matmul.flop` of a step, if the trace has shapes; the exact work "
    "of a step: `work.ops`, `.kernels`, `.launches`, `.graph_launches`, `.blocks`, `.syncs`, `.copies` and "
    "`.copied_bytes`, `.memsets`, `.allocations`, `.collectives` and `.collective_bytes`, `.flops`, `.device_time`"
)
CHECKED = "torch 2.13: traces that it wrote; public traces of torch 1.8 to 2.x on NVIDIA and AMD GPUs"

#: What Kineto writes at the top of a trace, before or after the events, which may come last.
_KINETO = ("schemaVersion", "deviceProperties", "distributedInfo", "traceName", "baseTimeNanoseconds", "trace_id")


def _outline(outline: JsonOutline) -> str | None:
    """Return what shows this format: `traceEvents`, two keys of the header before it, or a bare list of events."""
    if outline.has("metadata", "highres-ticks"):
        return None  # of JAX: see `xplane`
    if outline.is_list("traceEvents"):
        return "a JSON document with 'traceEvents'"
    if outline.text("*", "ph") is not None and (outline.has("*", "ts") or outline.has("*", "name")):
        return "a JSON list of events with 'ph'"
    found = [name for name in _KINETO if outline.has(name)]
    return f"a JSON document with {found[0]!r} and {found[1]!r}" if len(found) > 1 else None


FORMAT = Format(
    "torch-trace",
    __name__,
    keys="|".join(("traceEvents", "ph", *_KINETO)),
    outline=_outline,
    late_key=r'"traceEvents"\s*:\s*\[',
)


def read(document: InputFile) -> tuple[Run, ...]:
    """Return the one run of a trace: one rank, or one cycle of it."""
    file, tables = TraceFile(Buffer(document.blocks())), EventTables()
    elsewhere = PartsElsewhere(document.source.parts) if document.source.parts else None
    if elsewhere:  # other processes read all parts but the last, as soon as the list of events begins
        file.before_events = elsewhere.begin
    for chunk in file.chunks():
        tables.add(chunk)
    if elsewhere:
        tables = elsewhere.join(tables, file)
    tables.finish()
    run = RunBuilder(document, "torch-trace")
    _say_faults(run, file, tables)
    for category, count in (+tables.left).items():  # `+` drops the counts of 0
        document.coverage.leave(f"events of {category}", count)
    _add_facts(run, file)
    mode = document.source.trace_mode
    make = SeriesMaker(tables, mode, _rank(run, file))
    steps = find_steps(tables, mode)
    trees, of_steps = tuple[CallTree, ...](), list[Iterable[Series]]()
    if steps:
        for remark in steps.remarks:
            run.say("warning", remark)
        run.facts["trace_mode"] = mode
        if document.source.with_calls:
            trees = (call_tree(tables, steps, make.labels.get("rank", "")),)
        has_flop = not np.isnan(tables.flop).all()  # False for an empty array, too
        if has_flop and (missed := make.misses_flop()):
            run.say("warning", f"{missed}: matmul.flop is not available")
        of_steps = [make.of_steps(steps), make.of_flop(steps), Work(make, steps).series()]
    else:
        run.say("warning", "the trace has no host operators: step.* and gpu.* are not available")
    others = make.of_kernels(), make.of_ranges(), make.of_collectives(steps), make.of_memory()
    run.finished |= {series.key: series for series in chain(*of_steps, *others)}
    return (replace(run.run(), call_trees=trees),)


def _say_faults(run: RunBuilder, file: TraceFile, tables: EventTables) -> None:
    """Report the faults of the text and of its events, and names that rules cannot use."""
    for severity, what, line, detail in file.faults:
        run.say(severity, what, line, detail)
    for line, what in tables.refused:
        run.say("error", f"event with an impossible time, left out: {what}", line)
    if tables.refused_count > MAX_FAULTS:
        run.say("error", f"{tables.refused_count - MAX_FAULTS} more events with an impossible time are left out")
    if not file.lists:
        run.say("error", "this trace has no list of events (traceEvents)")
    if file.devices and not len(tables.device.start):
        found = plural(len(file.devices), "GPU")
        advice = "give torch.profiler the activity CUDA, and see its warnings"
        run.say("warning", f"the trace names {found}, but has no event of a device: {advice}")
    if OTHERS in tables.devices or len(tables.memory) >= 2 * MOST_DEVICES:  # a device has two peaks of memory
        run.say("error", f"more than {MOST_DEVICES} devices: the events of the others are left out")
    for names, what in (
        (tables.host_names.texts, "ranges and operators"),
        (tables.kernel_names.texts, "kernels"),
        ({one.name for one in tables.collectives}, "collectives"),
    ):
        if len(names) > MOST_SERIES:
            run.say("warning", f"{len(names)} names of {what}: rules can use only those with the most time")
        if OTHERS in names:
            limits = f"longer than {LONGEST_NAME} characters or beyond the first {MOST_NAMES}"
            run.say("warning", f"some names of {what} are {limits}: rules cannot use them")


def _add_facts(run: RunBuilder, file: TraceFile) -> None:
    """Add facts about the machine and the job, from a fixed list of fields."""
    names = [device.name for device in file.devices if isinstance(device.name, str) and device.name.strip()]
    if names:
        run.facts |= {"gpu": " + ".join(dict.fromkeys(names)), "gpu_count": len(file.devices)}
    world_size = int(whole_numbers([file.distributed.world_size])[0])
    if world_size > 0:
        run.facts["world_size"] = world_size
    if file.cuda:  # 12040 is 12.4
        run.facts["cuda"] = f"{file.cuda // 1000}.{file.cuda % 1000 // 10}"
    if isinstance(file.distributed.nccl_version, str):
        run.facts["nccl"] = file.distributed.nccl_version


def _rank(run: RunBuilder, file: TraceFile) -> dict[str, str]:
    """Return the label of the rank that wrote the trace; empty if unknown."""
    rank = int(whole_numbers([file.distributed.rank])[0])
    named = str(rank) if rank >= 0 else rank_in_name(run.file.name)
    if rank < 0 and named is not None:
        run.say("warning", f"the trace has no distributedInfo: rank {named} is taken from the file name")
    return {} if named is None else {"rank": named}
