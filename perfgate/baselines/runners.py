"""The qualifications of runners (`doctor --qualify`), stored beside the runs; and the changes of a machine since then.

The file of a qualification is never rewritten. A machine is compared with earlier qualifications of its host. If its
host has none, it is compared with those of other hosts with the same GPU and processor: the runners of a cloud have a
new name every day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfgate.baselines.places import MACHINES, environment_name
from perfgate.baselines.stores import Store, WritableStore, each_signed, write_file
from perfgate.core import Fact, Problem
from perfgate.core.runner import Figure, Qualification, RunnerChange
from perfgate.core.runs import TENANTS, same_fact
from perfgate.documents.structs import SignedFile
from perfgate.judge.plain import judge_change
from perfgate.version import __version__
from perfgate.words.beside import not_as_it_was

#: The facts of a qualification: those about the hardware. Versions of programs belong to runs.
_QUALITIES = (
    *("gpu", "gpu_count", "gpu_memory_gib", "pcie_width", "pcie_generation", "power_cap_w", "sm_clock_max_mhz"),
    *("application_clock_mhz", "mig", "ecc", TENANTS, "gpu_numa_distance", "cpu", "cpu_count", "governor"),
    *("numa_nodes", "memory_gib"),
)
#: Machines are of one kind if these facts are the same.
_KIND = ("gpu", "cpu")
#: The memory of a machine changed if it differs by more than this share; an update of the kernel changes it by less.
_LEAST_MEMORY = 0.05
#: The number of the newest qualifications of a machine that it is compared with.
_NEWEST = 10
#: The tolerated relative change of a measured figure, and the prior of its noise between qualifications (a relative
#: standard deviation and its degrees of freedom): for a GPU, and for processors, memory and disk, which may be shared.
_OF_GPU, _OF_HOST = (0.05, (0.02, 8.0)), (0.15, (0.05, 8.0))
#: The confidence of one comparison; it is high because about ten figures are compared at once.
_CONFIDENCE = 0.995
QUALIFICATION = SignedFile(
    "perfgate.qualification/1", Qualification, Qualification.fault, "remove it and qualify again"
)


def qualification(facts: Mapping[str, Fact], figures: Mapping[str, Figure], time: str, renews: bool) -> Qualification:
    """Return the qualification of a machine with these facts; with `renews`, earlier ones no longer count."""
    kept = {name: facts[name] for name in _QUALITIES if name in facts}
    rounded = {name: Figure(float(f"{one.value:.6g}"), one.unit) for name, one in figures.items()}
    return Qualification(
        QUALIFICATION.schema, f"perfgate {__version__}", str(facts["host"]), time, kept, rounded, renews
    )


def keep(store: WritableStore, one: Qualification) -> str:
    """Write a qualification as a new file; return its path. Raises Refused."""
    path = f"{_folder(one.host)}/{one.time.replace('-', '').replace(':', '')}.json"
    write_file(store, path, QUALIFICATION.encode(one))
    return path


def _folder(host: Fact | None) -> str:
    return f"{MACHINES}/{environment_name({'host': host})}"


def known_runners(store: Store, facts: Mapping[str, Fact]) -> tuple[tuple[Qualification, ...], list[Problem]]:
    """Return the qualifications that a machine with these facts is compared with, oldest first; and problems of files.

    They are the newest ten of its host since its last renewal, or else the newest one of each other host of its kind.
    """
    paths, problems = store.paths(MACHINES)
    own = [path for path in paths if path.startswith(f"{_folder(facts.get('host'))}/")][-_NEWEST:]
    newest = {path.rpartition("/")[0]: path for path in paths}  # paths are sorted: the last of each folder
    read = [one for _, one in each_signed(store, own or newest.values(), "machine", QUALIFICATION, problems)]
    if not own:
        return tuple(one for one in read if all(one.facts.get(name) == facts.get(name) for name in _KIND)), problems
    renewed = max((at for at, one in enumerate(read) if one.renews), default=0)
    return tuple(read[renewed:]), problems


def runner_problems(store: Store, facts: Mapping[str, Fact]) -> list[Problem]:
    """Return a warning if a machine with these facts has changed since it qualified, and for damaged files."""
    known, problems = known_runners(store, facts)
    found = [Problem("warning", one.message, one.at) for one in problems]
    now = qualification(facts, figures={}, time="", renews=False)
    if changes := runner_changes(known, now):
        found.append(Problem("warning", not_as_it_was(now.host, known, changes), store.location(MACHINES)))
    return found


def runner_changes(known: Sequence[Qualification], now: Qualification) -> tuple[RunnerChange, ...]:
    """Return the facts of `now` that no known qualification has, and the figures that clearly changed.

    Facts and figures that only one side has are left out: a container may not show everything.
    """
    found = []
    for name, fact in now.facts.items():
        before = [one.facts[name] for one in known if name in one.facts]
        if before and not any(_is_alike(name, one, fact) for one in before):
            found.append(RunnerChange(name, before[-1], fact))
    return (*found, *(change for name in now.figures for change in _moved(known, name, now.figures[name])))


def _is_alike(name: str, one: Fact, other: Fact) -> bool:
    """Return whether two values of a fact are equal; sizes of memory are if they differ by a few percent only."""
    if "memory" in name and not isinstance(one, str) and not isinstance(other, str):
        return abs(one - other) <= _LEAST_MEMORY * max(one, other)
    return same_fact(one, other)


def _moved(known: Sequence[Qualification], name: str, now: Figure) -> list[RunnerChange]:
    """Return the change of a figure if it is larger than tolerance and noise, or nothing."""
    before = [one.figures[name].value for one in known if name in one.figures and one.figures[name].unit == now.unit]
    tolerance, prior = _OF_GPU if "GPU" in name else _OF_HOST
    terms = {"tolerance": tolerance, "prior": prior, "confidence": _CONFIDENCE}
    judged = judge_change(before, [now.value], better="higher", two_sided=True, looks=1, **terms)  # type: ignore[arg-type]
    if judged.outcome != "fail" or judged.base_value is None:
        return []
    return [RunnerChange(name, judged.base_value, now.value, now.unit, judged.estimate)]
