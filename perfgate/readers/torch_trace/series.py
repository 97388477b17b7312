"""Columns of a trace -> series: what rules can name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from perfgate.core import Key, Series, read_only
from perfgate.readers.source import TraceMode
from perfgate.readers.torch_trace import names as kinds
from perfgate.readers.torch_trace.breakdown import breakdown, communication
from perfgate.readers.torch_trace.collectives import find_calls
from perfgate.readers.torch_trace.columns import ANNOTATION, OP, Columns
from perfgate.readers.torch_trace.devices import idle, shares, tensor_core_share
from perfgate.readers.torch_trace.names import OTHERS, Names
from perfgate.readers.torch_trace.numbers import Int64
from perfgate.readers.torch_trace.roles import find_roles
from perfgate.readers.torch_trace.steps import Steps
from perfgate.readers.torch_trace.tables import Tables

#: Of more names than these in one family, those with the most time are kept.
MOST_SERIES = 5000
_SECOND = 1e9


@dataclass(frozen=True, slots=True)
class Maker:
    """Series of one rank."""

    #: The label rank, or nothing where it is not known.
    labels: Mapping[str, str]

    def of_steps(self, steps: Steps, tables: Tables, columns: Columns, mode: TraceMode) -> Iterator[Series]:
        """`step.*`, `comm.*` and `gpu.*`.

        A part that only a device can have is absent from the trace of a host; so is all communication where none was
        seen.
        """
        roles = find_roles(tables, columns, mode)
        yield self._per_step("step.time", steps, steps.ends - steps.starts)
        for role, part in breakdown(steps, roles).items():
            if len(tables.device.start) or role not in ("kernel", "memcpy", "memset"):
                yield self._per_step(f"step.{role}", steps, part)
        if len(roles.sets["communication"]):
            for name, part in communication(steps, roles, has_kernels=len(tables.kernels) > 0).items():
                yield self._per_step(f"comm.{name}", steps, part)
        yield from self._of_devices(steps, tables, columns, mode)

    def _of_devices(self, steps: Steps, tables: Tables, columns: Columns, mode: TraceMode) -> Iterator[Series]:
        kernels = tables.kernels
        says = kinds.uses_plugin_tensor_cores if mode == "tensorboard" else kinds.uses_tensor_cores
        uses = kernels.names.which(says)
        for number in np.unique(kernels.device).tolist():
            label, chosen = _device(columns.devices.texts[number]), kernels.device == number
            for name, share in (
                shares(kernels, chosen, *steps.window) | tensor_core_share(kernels, chosen, uses)
            ).items():
                yield self._value(f"gpu.{name}", "1", share, label)
            for name, part in idle(tables.device, tables.runtime, number, steps).items():
                yield self._per_step(f"gpu.{name}", steps, part, label)

    def of_kernels(self, tables: Tables, columns: Columns) -> Iterator[Series]:
        """`kernel.NAME`."""
        kernels = tables.kernels
        for number in np.unique(kernels.device).tolist():
            chosen = kernels.device == number
            label, times = _device(columns.devices.texts[number]), (kernels.start[chosen], kernels.end[chosen])
            yield from self._by_name("kernel", kernels.names, kernels.name[chosen], *times, label)

    def of_ranges(self, tables: Tables) -> Iterator[Series]:
        """`op.NAME` and `range.NAME`."""
        host = tables.host
        is_step = host.names.which(lambda name: kinds.step_number(name) is not None)[host.name]
        for family, kind in (("op", OP), ("range", ANNOTATION)):
            chosen = (host.kind == kind) & ~is_step
            times = host.start[chosen], host.end[chosen]
            yield from self._by_name(family, host.names, host.name[chosen], *times)

    def of_collectives(self, columns: Columns, tables: Tables, steps: Steps | None) -> Iterator[Series]:
        """`collective.NAME`, and where the arguments say them `.bytes` and `.bus_bandwidth`."""
        calls = find_calls(columns.collectives, tables.kernels)
        step = None if steps is None else _steps_of(calls.start, steps)
        found: dict[tuple[str, int], list[int]] = defaultdict(list)
        for row, call in enumerate(zip(calls.names, calls.device, strict=True)):
            found[call].append(row)
        most = sorted(found.items(), key=lambda item: -calls.duration[item[1]].sum())[:MOST_SERIES]
        for (name, number), rows in most:
            label = _device(columns.devices.texts[number])
            numbers = None if step is None else read_only(step[rows])
            groups = tuple(calls.groups[row] for row in rows)
            key = self._key(f"collective.{name}", label)
            yield Series(key, "s", "samples", read_only(calls.duration[rows] / _SECOND), numbers, groups=groups)
            for suffix, unit, all_values in (("bytes", "B", calls.bytes), ("bus_bandwidth", "B/s", calls.bandwidth)):
                values = all_values[rows]
                if not np.isnan(values).any():
                    key = self._key(f"collective.{name}.{suffix}", label)
                    yield Series(key, unit, "samples", read_only(values), numbers)

    def of_memory(self, columns: Columns) -> Iterator[Series]:
        """`memory.peak_allocated` and `memory.peak_reserved` of each device and of the host."""
        for (name, place), peak in sorted(columns.memory.items()):
            yield self._value(f"memory.peak_{name}", "B", peak, {"device": place})

    def _key(self, metric: str, more: Mapping[str, str]) -> Key:
        return Key.of(metric, **self.labels, **more)

    def _value(self, metric: str, unit: str, value: float, more: Mapping[str, str]) -> Series:
        return Series(self._key(metric, more), unit, "value", read_only(np.array([value], np.float64)))

    def _per_step(self, metric: str, steps: Steps, part: Int64, more: Mapping[str, str] | None = None) -> Series:
        values = read_only(part / _SECOND)
        return Series(self._key(metric, more or {}), "s", "samples", values, read_only(steps.numbers.copy()))

    def _by_name(
        self,
        family: str,
        names: Names,
        name: Int64,
        start: Int64,
        end: Int64,
        more: Mapping[str, str] | None = None,
    ) -> Iterator[Series]:
        """One series for each name, its durations in order of time."""
        order = np.lexsort((start, name))
        values = read_only(((end - start) / _SECOND)[order])
        found, begins, counts = np.unique(name[order], return_index=True, return_counts=True)
        totals = np.add.reduceat(values, begins) if len(begins) else np.empty(0)
        kept = np.sort(np.argsort(-totals, kind="stable")[:MOST_SERIES])
        for at in kept.tolist():
            text = names.texts[found[at]]
            if text != OTHERS:
                piece = values[begins[at] : begins[at] + counts[at]]
                yield Series(self._key(f"{family}.{text}", more or {}), "s", "samples", piece)


def _device(text: str) -> dict[str, str]:
    return {"device": text} if text else {}


def _steps_of(times: Int64, steps: Steps) -> Int64:
    """The number of the step in which each moment lies; -1 outside."""
    at = np.searchsorted(steps.starts, times, side="right") - 1
    return np.where((at >= 0) & (times < steps.ends[at]), steps.numbers[at], -1)
