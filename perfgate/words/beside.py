"""The sentences beside the verdicts: the numbers that no reader read, and how a machine differs from what it was."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.core import Report, fact_text
from perfgate.core.coverage import Coverage
from perfgate.core.runner import Figure, Qualification, RunnerChange
from perfgate.core.runs import TENANTS
from perfgate.core.units import format_change, format_value
from perfgate.core.wording import one_line, plural, shortened

#: The most names of unread numbers that are listed, and the longest name, in characters.
_UNREAD_SHOWN, _LONGEST_UNREAD = 6, 60


def coverage_line(coverage: Coverage) -> str:
    """Return how many numbers were read, and which were not: `numbers read: 8 of 11; not read: loss x3`."""
    if not coverage.unread:
        return f"numbers read: all {coverage.read:,}"
    about = "about " if coverage.is_estimate else ""
    total = coverage.read + sum(one.count for one in coverage.unread)
    return f"numbers read: {coverage.read:,} of {about}{total:,}; not read: {unread_names(coverage)}"


def unread_names(coverage: Coverage) -> str:
    """Return the names of the numbers that were not read, each with its count."""
    shown = [
        one_line(shortened(one.name, _LONGEST_UNREAD) + (f" x{one.count}" if one.count > 1 else ""))
        for one in coverage.unread[:_UNREAD_SHOWN]
    ]
    more = len(coverage.unread) - len(shown)
    return ", ".join(shown) + (f" and {plural(more, 'more name')}" if more else "")


def coverage(report: Report) -> list[str]:
    """Return the line about the numbers that were read; empty if the report does not know."""
    return [] if report.coverage is None else [coverage_line(report.coverage)]


def unread(report: Report) -> list[str]:
    """Return the line about the numbers that were read, if some were not."""
    return [coverage_line(report.coverage)] if report.coverage is not None and report.coverage.unread else []


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
    """Return one difference: `PCIe x8, was x16`, `memory of GPU 0 1.9 TB/s, was 3.2 TB/s (-40.6%)`."""
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
    """Return what a machine was compared with: `it was on 2026-11-20`, `2 machines of this kind are`.

    `known` are earlier measurements of this host, the newest last, or else one of each other host of its kind.
    """
    if any(one.host == host for one in known):
        return f"it was on {known[-1].time[:10]}"
    return f"{plural(len(known), 'machine')} of this kind {'is' if len(known) == 1 else 'are'}"
