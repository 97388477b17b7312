"""`perfgate doctor --qualify`: measure what this machine is, and compare it with what it was."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from perfgate.baselines.runners import keep, known_runners, qualification, runner_changes
from perfgate.baselines.stores import open_store
from perfgate.core import Fact
from perfgate.core.runner import QualificationReport
from perfgate.core.runs import TENANTS
from perfgate.doctor.disturbances import snapshot, used_processors
from perfgate.doctor.qualification import Round, card_probes, host_probe, measure
from perfgate.machine.gpus import load_nvml
from perfgate.measuring.pinning import allowed_cpus
from perfgate.workspace.options import Refused
from perfgate.workspace.surroundings import machine_facts, now

#: The time of all rounds in s.
_SECONDS = 30.0
#: The time without measurements, to see what others do, in s; from this share of the processors on they disturb.
_IDLE_S, _BUSY = 1.0, 0.1


def qualify(baselines: str, tell: Callable[[str], None], *, renew: bool) -> QualificationReport:
    """Measure this machine, compare it with what is known, and keep it if it did not change. Raises Refused."""
    store, before, notes = open_store(baselines), machine_facts()[0], list[str]()
    nvml = load_nvml() if "gpu" in before else None
    tell(f"measuring this machine for {_SECONDS:g} s")
    disturbed = _disturbed(before)
    try:
        with ExitStack() as stack:
            probes: list[Round] = [stack.enter_context(host_probe(allowed_cpus() or ()))]
            if nvml is not None:
                nvml.nvmlInit()
                stack.callback(nvml.nvmlShutdown)
            cards, why = card_probes(nvml)
            probes += cards
            notes += [why] if why else []
            figures = measure(probes, _SECONDS)
            facts = machine_facts()[0]  # a card that just worked shows the speed of its link
    except (OSError, RuntimeError) as error:  # also of CUDA
        raise Refused(f"the machine could not be measured: {str(error).splitlines()[0]}", 3) from None
    facts |= {TENANTS: before[TENANTS]} if TENANTS in before else {}
    found = qualification(facts, figures, f"{now():%Y-%m-%dT%H:%M:%SZ}", renew)
    known, problems = known_runners(store, facts)
    changes = runner_changes(known, found)
    is_kept = not disturbed and (renew or not changes)
    place = str(store.location(keep(store, found))) if is_kept else None
    return QualificationReport(found, known, changes, place, disturbed, tuple(notes), tuple(problems))


def _disturbed(facts: Mapping[str, Fact]) -> str:
    """Return who else uses the machine before it is measured; empty if it is free."""
    first = snapshot(Path("/"), time.monotonic())
    time.sleep(_IDLE_S)
    used, cpus = used_processors(first, snapshot(Path("/"), time.monotonic())), os.cpu_count() or 1
    if facts.get(TENANTS):
        return "other programs use a GPU"
    return f"other programs use {used:.1f} of {cpus} processors" if (used or 0.0) > _BUSY * cpus else ""
