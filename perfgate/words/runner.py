"""The sentences about a runner: what of it is not what it was."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.core import fact_text
from perfgate.core.runner import Figure, Qualification, RunnerChange
from perfgate.core.runs import TENANTS
from perfgate.core.units import format_change, format_value
from perfgate.core.wording import one_line, plural

#: The facts that have another name or unit here: the words before a value, and the value.
_FACTS = {
    "pcie_width": ("PCIe", "x{}"),
    "pcie_generation": ("PCIe generation", "{}"),
    "power_cap_w": ("power cap", "{} W"),
    "sm_clock_max_mhz": ("highest clock", "{} MHz"),
    "application_clock_mhz": ("clock limit", "{} MHz"),
    TENANTS: ("programs of others on the GPU:", "{}"),
    "cpu_count": ("processors", "{}"),
    "memory_gib": ("memory", "{} GiB"),
}


def runner_change(change: RunnerChange) -> str:
    """Return one difference: `PCIe x8, was x16`, `memory of GPU 0 1.9 TB/s, was 3.2 TB/s (-41%)`."""
    if change.change is not None:
        was, now = (figure(change.name, Figure(float(value), change.unit)) for value in (change.was, change.now))
        return f"{change.name} {now}, was {was} ({format_change(change.change)})"
    name, form = _FACTS.get(change.name, (change.name.replace("_", " "), "{}"))
    return one_line(f"{name} {form.format(fact_text(change.now))}, was {form.format(fact_text(change.was))}")


def figure(name: str, one: Figure) -> str:
    """Return a figure with its unit; a clock in MHz."""
    return format_value(one.value, "Hz", "MHz") if name.startswith("clock") else format_value(one.value, one.unit)


def not_as_it_was(host: str, known: Sequence[Qualification], changes: Sequence[RunnerChange]) -> str:
    """Return the sentence beside verdicts: `gpu-07 is not what it was on 2026-11-20: PCIe x8, was x16`."""
    return f"{one_line(host)} is not what {compared_with(host, known)}: {'; '.join(map(runner_change, changes))}"


def compared_with(host: str, known: Sequence[Qualification]) -> str:
    """Return what a machine was compared with: `it was on 2026-11-20`, `2 machines of this kind are`."""
    if any(one.host == host for one in known):
        return f"it was on {known[-1].time[:10]}"
    return f"{plural(len(known), 'machine')} of this kind {'is' if len(known) == 1 else 'are'}"
