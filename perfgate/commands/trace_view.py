"""Traces as `perfgate inspect` shows them: where a step's time goes, what takes most of it, and who waits for whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from perfgate.core import Portion, Run, Series, Straggler, TraceView

_PARTS = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec", "other")
_FAMILIES = ("kernel", "op", "range")
_TOP = 10


def trace_view(run: Run) -> TraceView | None:
    """The view of a run that was read from traces; None of another."""
    if "torch-trace" not in run.format or not run.series:
        return None
    of = defaultdict(list)
    for series in run.series:
        of[series.key.metric].append(series)
    mode = run.environment.get("trace_mode")
    times = of["step.time"]
    return TraceView(
        mode=None if mode is None else str(mode),
        steps=sum(len(series.values) for series in times),
        ranks=len(times),
        parts=tuple(_parts(of)),
        top={family: _top(run.series, family, 0.0 if family == "kernel" else _total(times)) for family in _FAMILIES},
        stragglers=_stragglers(times, of["comm.wait"]),
    )


def _parts(of: Mapping[str, list[Series]]) -> Iterable[Portion]:
    """The mean of each part over all steps of all ranks; the last one is the step itself."""
    whole = _mean(of["step.time"])
    for name in (*_PARTS, "time"):
        if f"step.{name}" in of and whole > 0:
            part = _mean(of[f"step.{name}"])
            yield Portion(f"step.{name}", part, part / whole)


def _mean(parts: list[Series]) -> float:
    count = sum(len(series.values) for series in parts)
    return _total(parts) / count if count else 0.0


def _total(parts: Iterable[Series]) -> float:
    return sum(float(series.values.sum()) for series in parts)


def _top(series: Iterable[Series], family: str, whole: float) -> tuple[tuple[Portion, ...], int]:
    """The names with the most time over all ranks, and how many names there are.

    Shares are of `whole`, or of all names together if that is 0: operators lie within each other, kernels do not.
    """
    totals: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
    for one in series:
        name = one.key.metric.removeprefix(f"{family}.")
        if name != one.key.metric:
            totals[name][0] += float(one.values.sum())
            totals[name][1] += len(one.values)
    whole = whole or sum(total for total, _ in totals.values())
    ordered = sorted(totals.items(), key=lambda item: (-item[1][0], item[0]))
    shares = [Portion(name, total, total / whole if whole else 0.0, int(n)) for name, (total, n) in ordered[:_TOP]]
    return tuple(shares), len(totals)


def _stragglers(times: list[Series], waits: list[Series]) -> tuple[Straggler, ...]:
    """Of the steps that several ranks have, those in which most was waited, or which took longest."""
    own, waited = _by_step(times), _by_step(waits)
    found = []
    for step, ranks in own.items():
        if len(ranks) > 1:
            wait = waited.get(step, {})
            work = {rank: seconds - wait.get(rank, 0.0) for rank, seconds in ranks.items()}
            rank = max(sorted(work), key=lambda name: work[name])
            others = sum(seconds for name, seconds in wait.items() if name != rank) if wait else None
            found.append(Straggler(step, rank, work[rank], others))
    found.sort(key=lambda one: (-(one.waited or 0.0), -one.own, one.step))
    return tuple(found[:_TOP])


def _by_step(series: Iterable[Series]) -> dict[int, dict[str, float]]:
    """Values by step and rank."""
    found: dict[int, dict[str, float]] = defaultdict(dict)
    for one in series:
        rank = one.key.label("rank")
        if rank is not None and one.steps is not None:
            for step, value in zip(one.steps.tolist(), one.values.tolist(), strict=True):
                found[step][rank] = value
    return found
