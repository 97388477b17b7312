"""Where the time of each step went: every moment belongs to one class, and the parts of a step sum to its time.

The formulas are those of torch_tb_profiler 0.4.3, `overall_parser.py`. There, each class takes what the ones before it
left; here, a class takes what joining it to them adds: U_r is the union of the classes up to r, F_r(t) the measure of
U_r before t, and class r has (F_r - F_{r-1})(end) - (F_r - F_{r-1})(start) of a step.
"""

from __future__ import annotations

from perfgate.readers.torch_trace.intervals import NOTHING, Intervals, join, measure_within
from perfgate.readers.torch_trace.numbers import Int64
from perfgate.readers.torch_trace.roles import ROLES, Roles
from perfgate.readers.torch_trace.steps import Steps


def breakdown(steps: Steps, roles: Roles) -> dict[str, Int64]:
    """Nanoseconds of each class, then of `other`, in each step; arrays (steps,)."""
    parts: dict[str, Int64] = {}
    covered, known = NOTHING, _within(NOTHING, steps)
    for role in ROLES:
        covered = join(covered, roles.sets[role])
        total = _within(covered, steps)
        parts[role], known = total - known, total
    parts["other"] = steps.ends - steps.starts - known
    return parts


def communication(steps: Steps, roles: Roles, *, has_kernels: bool) -> dict[str, Int64]:
    """Nanoseconds of communication in each step while kernels ran (`overlap`), and while none did (`exposed`).

    In a trace without any kernel, work of the host takes their place. Arrays (steps,).
    """
    compute = roles.sets["kernel" if has_kernels else "cpu_exec"]
    comm = roles.sets["communication"]
    alone = _within(compute, steps)
    exposed = _within(join(compute, comm), steps) - alone
    return {"overlap": _within(comm, steps) - exposed, "exposed": exposed}


def _within(intervals: Intervals, steps: Steps) -> Int64:
    return measure_within(intervals, steps.starts, steps.ends)
