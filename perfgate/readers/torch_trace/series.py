"""The series of one trace: the metrics that rules can name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct

from perfgate.core import Key, Series, read_only
from perfgate.readers.text import TraceMode
from perfgate.readers.torch_trace import event_fields as fields
from perfgate.readers.torch_trace.breakdown import StepBreakdown, device_shares, idle_times
from perfgate.readers.torch_trace.event_fields import OTHERS, Int64, Mask, whole_numbers
from perfgate.readers.torch_trace.event_tables import EventTables
from perfgate.readers.torch_trace.steps import Steps, index_at
from perfgate.readers.torch_trace.tables import ANNOTATION, OP, Collective, Spans

#: Of more names in one family, those with the most time are kept.
MOST_SERIES = 5000
_SECOND = 1e9

#: Bytes of an element, by torch's name of its type (c10/core/ScalarType.h).
_BYTES = {
    **dict.fromkeys(("Byte", "Char", "Bool", "QInt8", "QUInt8"), 1),
    **dict.fromkeys(("Float8_e5m2", "Float8_e4m3fn", "Float8_e5m2fnuz", "Float8_e4m3fnuz", "Float8_e8m0fnu"), 1),
    **dict.fromkeys(("Short", "Half", "BFloat16", "UInt16"), 2),
    **dict.fromkeys(("Int", "Float", "QInt32", "ComplexHalf", "UInt32"), 4),
    **dict.fromkeys(("Long", "Double", "ComplexFloat", "UInt64"), 8),
    "ComplexDouble": 16,
}
_ALL_REDUCE = re.compile(r"_?all_?reduce", re.IGNORECASE)
_ONCE_AROUND = re.compile(r"_?(?:all_?gather|reduce_?scatter|all_?to_?all)", re.IGNORECASE)


class SeriesMaker(Struct, frozen=True):
    """Makes the series of one rank."""

    tables: EventTables
    #: "tensorboard" computes as the plugin torch_tb_profiler does.
    mode: TraceMode
    #: The label rank; empty if it is unknown.
    labels: Mapping[str, str]

    def of_steps(self, steps: Steps) -> Iterator[Series]:
        """`step.*`, `comm.*` and `gpu.*`; what the trace cannot show is absent, and not 0: see `_occurs`."""
        tables = self.tables
        breakdown = StepBreakdown(steps, tables, self.mode)
        yield self._per_step("step.time", steps, steps.ends - steps.starts)
        for name, part in breakdown.parts().items():
            if self._occurs(name, breakdown):
                yield self._per_step(f"step.{name}", steps, part)
        if len(breakdown.sets["communication"].starts):
            for name, part in breakdown.communication(has_kernels=len(tables.kernels.name) > 0).items():
                yield self._per_step(f"comm.{name}", steps, part)
        del breakdown  # its arrays are large
        kernels, is_plugin = tables.kernels, self.mode == "tensorboard"
        uses = kernels.names.which(fields.uses_plugin_tensor_cores if is_plugin else fields.uses_tensor_cores)
        for number in np.unique(kernels.device).tolist():
            label, chosen = self.device_label(number), kernels.device == number
            for name, share in device_shares(kernels, chosen, *steps.window, uses).items():
                yield self._value(f"gpu.{name}", "1", share, label)
            for name, part in idle_times(tables, number, steps).items():
                yield self._per_step(f"gpu.{name}", steps, part, label)

    def of_flop(self, steps: Steps) -> Iterator[Series]:
        """`matmul.flop`: the FLOP of the operators in the host's span of each step; absent if some FLOP are unknown."""
        starts, ends = steps.host if steps.host is not None else (steps.starts, steps.ends)
        at = index_at(self.tables.flop_starts, starts, ends)
        inside = at >= 0
        if inside.any() and not self.misses_flop() and not np.isnan(self.tables.flop[inside]).any():
            flop = np.bincount(at[inside], self.tables.flop[inside], len(steps)).astype(np.float64)
            key, numbers = self.key("matmul.flop", {}), read_only(steps.numbers.copy())
            yield Series(key, "FLOP", "samples", read_only(flop), numbers)

    def misses_flop(self) -> str | None:
        """Return why operators do not show all matrix products of the trace; None if they may."""
        if any(name in ("cudaGraphLaunch", "hipGraphLaunch") for name in self.tables.runtime.names.texts):
            return "the trace replays graphs (CUDA graphs), whose operators it does not list"
        if any(name.startswith("triton_tem_") for name in self.tables.kernel_names.texts):
            return "the trace has matrix products in Triton, which have no operators"
        return None

    def _occurs(self, name: str, breakdown: StepBreakdown) -> bool:
        """Return whether the trace can show a class of time: whether it has such events.

        Any event of a device shows that kernels, copies and memsets are recorded, so those without an event are 0.
        `dataloader` and `other` always occur: without a loader, the dataloader is 0. In the plugin's mode so do
        `cpu_exec` and `communication`.
        """
        if name in ("kernel", "memcpy", "memset"):
            return len(self.tables.device.start) > 0
        if name == "runtime":
            return len(self.tables.runtime.start) > 0
        is_plugin = self.mode == "tensorboard"
        if name == "cpu_exec":
            return is_plugin or bool((self.tables.host.kind != ANNOTATION).any())
        return name != "communication" or is_plugin or len(breakdown.sets[name].starts) > 0

    def of_kernels(self) -> Iterator[Series]:
        """`kernel.NAME`."""
        kernels = self.tables.kernels
        for number in np.unique(kernels.device).tolist():
            yield from self._by_name("kernel", kernels, kernels.device == number, self.device_label(number))

    def of_ranges(self) -> Iterator[Series]:
        """`op.NAME` and `range.NAME`."""
        host = self.tables.host
        is_step = host.names.which(fields.is_step)[host.name]
        for family, kind in (("op", OP), ("range", ANNOTATION)):
            yield from self._by_name(family, host, (host.kind == kind) & ~is_step, {})

    def of_collectives(self, steps: Steps | None) -> Iterator[Series]:
        """`collective.NAME`, and `.bytes` and `.bus_bandwidth` if the arguments give them (torch 2.3 and later).

        The bandwidth is that of nccl-tests (`doc/PERFORMANCE.md`): what the links carried, for any number of ranks.
        """
        kernels = self.tables.kernels
        calls = sorted(self.tables.collectives, key=lambda call: kernels.start[call.row])
        rows = np.array([call.row for call in calls], np.int64)
        duration = kernels.end[rows] - kernels.start[rows]
        size = np.array([message_size(call) for call in calls], np.float64)
        factor = np.array([_bus_factor(call) for call in calls], np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            bandwidth = np.where(duration > 0, size * factor / duration * _SECOND, np.nan)
        step = None
        if steps:
            at = index_at(kernels.start[rows], steps.starts, steps.ends)
            step = np.where(at >= 0, steps.numbers[at], -1)
        found: dict[tuple[str, int], list[int]] = defaultdict(list)
        for index, (call, device) in enumerate(zip(calls, kernels.device[rows].tolist(), strict=True)):
            found[call.name, device].append(index)
        most = sorted(found.items(), key=lambda item: -duration[item[1]].sum())[:MOST_SERIES]
        for (name, number), chosen in most:
            label = self.device_label(number)
            numbers = None if step is None else read_only(step[chosen])
            groups = tuple(calls[index].group for index in chosen)
            key = self.key(f"collective.{name}", label)
            yield Series(key, "s", "samples", read_only(duration[chosen] / _SECOND), numbers, groups=groups)
            for suffix, unit, values in (("bytes", "B", size[chosen]), ("bus_bandwidth", "B/s", bandwidth[chosen])):
                if not np.isnan(values).any():
                    key = self.key(f"collective.{name}.{suffix}", label)
                    yield Series(key, unit, "samples", read_only(values), numbers)

    def of_memory(self) -> Iterator[Series]:
        """`memory.peak_allocated` and `memory.peak_reserved` of each device and of the host."""
        for (name, place), peak in sorted(self.tables.memory.items()):
            yield self._value(f"memory.peak_{name}", "B", peak, {"device": place})

    def device_label(self, number: int) -> dict[str, str]:
        """Return the label of a device; empty if the trace does not name it."""
        text = self.tables.devices.texts[number]
        return {"device": text} if text else {}

    def key(self, metric: str, more: Mapping[str, str]) -> Key:
        """Return the key of a metric of this rank."""
        return Key.of(metric, **self.labels, **more)

    def _value(self, metric: str, unit: str, value: float, more: Mapping[str, str]) -> Series:
        return Series(self.key(metric, more), unit, "value", read_only(np.array([value], np.float64)))

    def _per_step(self, metric: str, steps: Steps, part: Int64, more: Mapping[str, str] | None = None) -> Series:
        values = read_only(part / _SECOND)
        return Series(self.key(metric, more or {}), "s", "samples", values, read_only(steps.numbers.copy()))

    def _by_name(self, family: str, table: Spans, chosen: Mask, more: Mapping[str, str]) -> Iterator[Series]:
        """Yield for each of the `MOST_SERIES` names with the most time its durations, in order of start."""
        name, start, end = table.name[chosen], table.start[chosen], table.end[chosen]
        order = np.lexsort((start, name))
        values = read_only(((end - start) / _SECOND)[order])
        found, begins, counts = np.unique(name[order], return_index=True, return_counts=True)
        totals = np.add.reduceat(values, begins) if len(begins) else np.empty(0)
        kept = np.sort(np.argsort(-totals, kind="stable")[:MOST_SERIES])
        for at in kept.tolist():
            text = table.names.texts[found[at]]
            if text != OTHERS:  # not all names beyond the limit as one
                piece = values[begins[at] : begins[at] + counts[at]]
                yield Series(self.key(f"{family}.{text}", more), "s", "samples", piece)


def message_size(call: Collective) -> float:
    """Return the bytes of the whole message: the larger of what a rank sends and receives. NaN if unknown."""
    args = call.event.args
    elements = whole_numbers([args.elements_in, args.elements_out], absent=-1).max()
    return float(elements) * _BYTES.get(str(args.dtype), np.nan) if elements >= 0 else np.nan


def _bus_factor(call: Collective) -> float:
    """Return how often the message crosses each link, for a group of n ranks. NaN if n is unknown or 1."""
    n = int(whole_numbers([call.event.args.group_size], absent=-1)[0])
    if n < 2:
        return np.nan
    if _ALL_REDUCE.match(call.name):
        return 2 * (n - 1) / n
    return (n - 1) / n if _ONCE_AROUND.match(call.name) else 1.0
