"""Chrome traces of torch.profiler (Kineto JSON), of any size, in one pass and bounded memory.

    bytes → window → chunks of events → columns → steps → roles → breakdown → series → a run

| module | is about |
|---|---|
| `window`, `layout`, `chunks`, `repair` | text: one buffer, the outermost object, proven cuts, broken JSON |
| `events`, `columns`, `tables`, `names`, `numbers` | what is kept of events, and how |
| `steps`, `roles`, `intervals`, `breakdown` | where the time of a step went |
| `devices`, `collectives`, `series` | what else rules can name |
| `ranks` | several files: spans of one rank, ranks of one job |

Two modes divide a step's time, `corrected` and `tensorboard` (see `roles`); the fact `trace_mode` says which.
"""

from __future__ import annotations

from collections.abc import Iterable

from perfgate.core import Run, Series
from perfgate.readers.builder import MAX_FAULTS, RunBuilder
from perfgate.readers.source import rank_in_name
from perfgate.readers.text import Document
from perfgate.readers.torch_trace.columns import MOST_DEVICES, Columns
from perfgate.readers.torch_trace.layout import Layout
from perfgate.readers.torch_trace.names import LONGEST_NAME, MOST_NAMES, OTHERS
from perfgate.readers.torch_trace.numbers import whole_numbers
from perfgate.readers.torch_trace.series import MOST_SERIES, Maker
from perfgate.readers.torch_trace.steps import Steps, find_steps
from perfgate.readers.torch_trace.tables import Tables
from perfgate.readers.torch_trace.window import Window


def read(document: Document) -> tuple[Run, ...]:
    """The one run of a trace: one rank, or one span of it."""
    layout, columns = Layout(Window(document.blocks())), Columns()
    for chunk in layout.chunks():
        columns.take(chunk)
    run = RunBuilder(document, "torch-trace")
    _say_faults(run, layout, columns)
    _add_facts(run, layout)
    tables = Tables.of(columns)
    make, mode = Maker(_rank(run, layout)), document.source.trace_mode
    steps = find_steps(tables.host, tables.runtime, tables.device, mode)
    _say_of_steps(run, steps)
    if steps is not None:
        run.facts["trace_mode"] = mode
        _keep(run, make.of_steps(steps, tables, columns, mode))
    _keep(run, make.of_kernels(tables, columns))
    _keep(run, make.of_ranges(tables))
    _keep(run, make.of_collectives(columns, tables, steps))
    _keep(run, make.of_memory(columns))
    return (run.run(),)


def _keep(run: RunBuilder, series: Iterable[Series]) -> None:
    run.finished |= {one.key: one for one in series}


def _say_faults(run: RunBuilder, layout: Layout, columns: Columns) -> None:
    """What was wrong with the text, and with events that it held."""
    for severity, what, line, detail in layout.faults:
        run.say_some(severity, what, line, detail)
    for line, what in columns.refused:
        run.say("error", f"an event that cannot be true is left out: {what}", line)
    if columns.refused_count > MAX_FAULTS:
        run.say("error", f"and {columns.refused_count - MAX_FAULTS} more events that cannot be true are left out")
    if not layout.lists:
        run.say("error", "this trace has no list of events (traceEvents)")
    _say_of_names(run, columns)


def _say_of_names(run: RunBuilder, columns: Columns) -> None:
    """Which names no rule can say, for there are too many of them or they are too long."""
    if OTHERS in columns.devices or len(columns.memory) >= 2 * MOST_DEVICES:
        run.say("error", f"events of more than {MOST_DEVICES} devices: those of the others are left out")
    collectives = {one.name for one in columns.collectives}
    for names, what in (
        (columns.host_names.texts, "ranges and operators"),
        (columns.kernel_names.texts, "kernels"),
        (collectives, "collectives"),
    ):
        if len(names) > MOST_SERIES:
            run.say("warning", f"{len(names)} names of {what}: only those with the most time can be named in rules")
        if OTHERS in names:
            limits = f"over {LONGEST_NAME} letters long, or beyond the first {MOST_NAMES}"
            run.say("warning", f"names of {what} are {limits}: rules cannot name them")


def _add_facts(run: RunBuilder, layout: Layout) -> None:
    """The machine and the job, from the fields that may be read."""
    models = dict.fromkeys(device.name for device in layout.devices if isinstance(device.name, str))
    world_size = int(whole_numbers([layout.distributed.world_size])[0])
    nccl = layout.distributed.nccl_version
    run.facts |= {"gpu": " + ".join(models), "gpu_count": len(layout.devices)} if models else {}
    run.facts |= {"world_size": world_size} if world_size > 0 else {}
    run.facts |= {"cuda": f"{layout.cuda // 1000}.{layout.cuda % 1000 // 10}"} if layout.cuda else {}
    run.facts |= {"nccl": nccl} if isinstance(nccl, str) else {}


def _rank(run: RunBuilder, layout: Layout) -> dict[str, str]:
    """The label of the rank that wrote the trace."""
    rank = int(whole_numbers([layout.distributed.rank])[0])
    if rank >= 0:
        return {"rank": str(rank)}
    named = rank_in_name(run.document.name)
    if named is None:
        return {}
    run.say("warning", f"rank {named} is taken from the name of the file: the trace has no distributedInfo")
    return {"rank": named}


def _say_of_steps(run: RunBuilder, steps: Steps | None) -> None:
    if steps is None:
        run.say("warning", "no operator of the host is in this trace: step.* and gpu.* are not available")
        return
    if steps.is_pseudo:
        run.say("warning", "no step is in this trace, so all of it is step 0: call profiler.step() in the loop")
    for remark in steps.remarks:
        run.say("warning", remark)
