"""Measure how often `perfgate doctor --qualify` names a fault of a runner, and how often it names one without a fault.

    python benchmarks/runners.py [--draws 400] [--seed 1]

A runner is simulated: each figure has a noise between qualifications and a noise between rounds, and one round of
twelve is disturbed. The rounds go through `measure`, the answers through `runner_changes`, as in the command. A row has
the share of draws in which something was named, for one, three and ten earlier qualifications. *By figures alone* hides
the facts, as a container may.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from itertools import count

import numpy as np

from perfgate.baselines.runners import qualification, runner_changes
from perfgate.core import Fact
from perfgate.core.runner import Figure, Qualification
from perfgate.doctor.qualification import measure

FACTS: dict[str, Fact]
FACTS = {
    "host": "gpu-07", "gpu": "H100", "gpu_count": 1, "pcie_width": 16, "pcie_generation": 5, "power_cap_w": 700,
    "application_clock_mhz": 1980, "mig": "off", "gpu_programs": 0, "cpu": "Xeon", "cpu_count": 16, "memory_gib": 126,
}  # fmt: skip
#: The value, the unit, the noise between qualifications, and the noise between rounds.
CARD = {
    "memory of GPU 0": (2.9e12, "B/s", 0.003, 0.005),
    "PCIe to GPU 0": (55e9, "B/s", 0.01, 0.02),
    "PCIe from GPU 0": (53e9, "B/s", 0.01, 0.02),
    "matrix product on GPU 0": (680e12, "FLOP/s", 0.01, 0.01),
    "clock under load of GPU 0": (1.75e9, "1/s", 0.01, 0.01),
}
HOST = {
    "one processor": (250.0, "1/s", 0.03, 0.03),
    "all processors": (3600.0, "1/s", 0.04, 0.04),
    "memory": (90e9, "B/s", 0.05, 0.05),
    "disk": (1.1e9, "B/s", 0.07, 0.10),
}
#: A fault: the facts that it changes, and the factors of the figures that it changes.
Fault = tuple[Mapping[str, Fact], Mapping[str, float]]
FAULTS: dict[str, Fault] = {
    "no fault": ({}, {}),
    "PCIe x8": ({"pcie_width": 8}, {"PCIe to GPU 0": 0.5, "PCIe from GPU 0": 0.5}),
    "power cap 550 W": ({"power_cap_w": 550}, {"matrix product on GPU 0": 0.87, "clock under load of GPU 0": 0.86}),
    "clocks held by heat": ({}, {"matrix product on GPU 0": 0.82, "clock under load of GPU 0": 0.80}),
    "another program": ({"gpu_programs": 1}, {"memory of GPU 0": 0.75, "matrix product on GPU 0": 0.7}),
    "memory of the GPU -15 %": ({}, {"memory of GPU 0": 0.85}),
    "memory of the host -40 %": ({}, {"memory": 0.6}),
    "half of the processors": ({"cpu_count": 8}, {"all processors": 0.5}),
    "disk -60 %": ({}, {"disk": 0.4}),
}


def drawn(random: np.random.Generator, fault: Fault = ({}, {})) -> Qualification:
    """Qualify a simulated runner."""
    facts, factors = fault
    figures = {**CARD, **HOST}
    levels = {
        name: value * factors.get(name, 1.0) * np.exp(between * random.standard_normal())
        for name, (value, _, between, _) in figures.items()
    }

    def probe() -> dict[str, Figure]:
        disturbed = random.uniform(0.5, 0.9) if random.random() < 1 / 12 else 1.0
        return {
            name: Figure(levels[name] * disturbed * np.exp(noise * random.standard_normal()), unit)
            for name, (_, unit, _, noise) in figures.items()
        }

    ticks = count()
    return qualification({**FACTS, **facts}, measure([probe], 12.0, lambda: float(next(ticks))), "", renews=False)


def rate(fault: Fault, known: int, draws: int, seed: int) -> tuple[float, float]:
    """Return the share of draws in which something was named, and by figures alone."""
    random = np.random.default_rng([seed, known])
    named = seen = 0
    for _ in range(draws):
        before, now = [drawn(random) for _ in range(known)], drawn(random, fault)
        changes = runner_changes(before, now)
        named += bool(changes)
        seen += any(change.change is not None for change in changes)
    return named / draws, seen / draws


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print("| fault | named, 1 / 3 / 10 earlier qualifications | by figures alone |\n|---|---|---|")
    for name, fault in FAULTS.items():
        draws = given.draws * (5 if name == "no fault" else 1)
        found = [rate(fault, known, draws, given.seed) for known in (1, 3, 10)]
        print(f"| {name} | {' / '.join(f'{100 * one:.1f} %' for one, _ in found)} |", end=" ")
        print(f"{' / '.join(f'{100 * one:.1f} %' for _, one in found)} |", flush=True)


if __name__ == "__main__":
    main()
