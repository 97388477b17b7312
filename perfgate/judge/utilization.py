"""`mfu` and `hfu` of runs, by the field `model` of a rule file: shares of the peak FLOP/s of the GPUs.

| the run has | mfu |
|---|---|
| a time of steps, and the model `tokens_per_step` | FLOP of a token x tokens_per_step / (time x GPUs x peak) |
| `tokens_per_second_per_gpu` | FLOP of a token x tokens per second / peak |
| `tokens_per_second` | FLOP of a token x tokens per second / (GPUs x peak) |
| `throughput_per_gpu` in FLOP/s, if the model has no `parameters` | throughput / peak |

`hfu` is `matmul.flop` / (`step.time` x peak) of each rank if a trace has both. Of other runs with parameters it is
`mfu` times the hardware FLOP of a model FLOP (`TrainedModel.recomputation`). A computed `mfu` replaces a printed one:
nanoGPT divides by the peak of an A100 whatever the GPU is, and torchtitan does so for GPUs that it does not know.
Sources: PaLM (2022), appendix B; karpathy/nanoGPT `model.py`; pytorch/torchtitan `torchtitan/tools/utils.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Fact, Key, Problem, Run, Series, read_only
from perfgate.core.peaks import UnknownPeak, peak_flops
from perfgate.core.runs import Values
from perfgate.core.units import format_number
from perfgate.core.wording import listed
from perfgate.rules.model_section import HFU, MFU, TrainedModel

#: The usual names of the time of a whole step; the first that a run has counts.
STEP_TIMES = ("step.time", "step_time", "iteration_time", "train_batch", "run_training_batch", "batch_time")
_CANNOT = f"{MFU} and {HFU} cannot be computed"
_GIVE_PEAK = "write the dense FLOP/s of one GPU in `model` of the rule file, as `peak: 989 TFLOP/s`"


class _Part(Struct, frozen=True):
    """A metric from which mfu follows: `of` computes mfu from its values in base units."""

    metric: str
    of: Callable[[Values], Values]
    #: False if the values are FLOP/s that the tool computed, so that perfgate needs no parameters of the model.
    has_model: bool = True


class _CannotCompute(Exception):
    """A reason why the runs have no mfu, with what to do."""


def with_utilization(runs: Sequence[Run], model: TrainedModel, facts: Mapping[str, Fact]) -> tuple[Run, ...]:
    """Return the runs with `mfu` and `hfu`, as far as the metrics of a run give them.

    A run has neither, and a problem that says why, if the peak or the number of GPUs is unknown, if it lacks these
    metrics, or if the median of a share is above 1, which only a mistake explains. A run whose aggregate has no mean
    has no share and no problem.

    `facts`: those of the check, `--env` included: `gpu`, `world_size`, `gpu_count`.
    """
    return tuple(_of_run(run, model, facts) for run in runs)


def _of_run(run: Run, model: TrainedModel, facts: Mapping[str, Fact]) -> Run:
    """Return a run with `mfu` and `hfu`, or without them and with the problem."""
    try:
        part, counted = _part(run, model, facts), _counted(run, model, facts)
    except _CannotCompute as error:
        return _without(run, f"{_CANNOT}: {error}", model)
    if part is None and not counted:
        return _without(run, _nothing(run, model), model)
    found = [_series(one, part) for one in run.series if part is not None and one.key.metric == part.metric]
    mfu = [one for one in found if one is not None]
    if too_much := next((one for one in (*counted, *mfu) if np.median(one.values) > 1), None):
        share = format_number(100 * float(np.median(too_much.values)))
        why = "check peak, dtype, gpus, parameters and tokens_per_step (of all GPUs)"
        return _without(run, f"{too_much.key.metric} is {share}%, more than the peak; {why}", model)
    estimated = [
        replace(one, key=Key(HFU, one.key.labels), values=read_only(one.values * model.recomputation))
        for one in mfu
        if part is not None and part.has_model
    ]
    added = [*mfu, *(counted or estimated)]
    names = {one.key.metric for one in added}
    return replace(run, series=(*(one for one in run.series if one.key.metric not in names), *added))


def _part(run: Run, model: TrainedModel, facts: Mapping[str, Fact]) -> _Part | None:
    """Return the metric of a run from which mfu follows; None if it has none. Raises _CannotCompute."""
    names = {(one.key.metric, one.unit) for one in run.series}
    flop, tokens = model.flop_per_token, model.tokens_per_step
    time = _first(names, "s", (model.step_time,) if model.step_time else STEP_TIMES)
    if flop is None:
        if ("throughput_per_gpu", "FLOP/s") not in names:
            return None
        peak = _peak(model, facts)
        return _Part("throughput_per_gpu", lambda rate: rate / peak, has_model=False)
    if tokens is not None and time is not None:
        whole, step = _peak(model, facts) * _gpus(model, facts), flop * tokens
        return _Part(time, lambda seconds: step / (seconds * whole))
    rate = _first(names, "1/s", ("tokens_per_second_per_gpu", "tokens_per_second"))
    if rate is None:
        return None
    whole = _peak(model, facts) * (1 if rate.endswith("_per_gpu") else _gpus(model, facts))
    return _Part(rate, lambda rates: flop * rates / whole)


def _first(names: Collection[tuple[str, str]], unit: str, wanted: Iterable[str]) -> str | None:
    return next((name for name in wanted if (name, unit) in names), None)


def _nothing(run: Run, model: TrainedModel) -> str:
    """Return why a run has no mfu, and what would give it one."""
    lacks = f"{_CANNOT}: {run.name} has no"
    if model.parameters is None and "torch-trace" in run.format:
        return f"{lacks} matmul.flop; profile with record_shapes=True"
    if model.parameters is None:
        return f"{lacks} throughput_per_gpu; give `model` parameters and tokens_per_step"
    if model.tokens_per_step is None:
        return f"{lacks} tokens_per_second or tokens_per_second_per_gpu; give `model` tokens_per_step"
    if model.step_time is not None:
        return f"{lacks} time {model.step_time}, the `step_time` of `model`; correct the name"
    return (
        f"{lacks} {listed(STEP_TIMES)} or tokens_per_second; give `model` the `step_time`: the metric of a step's time"
    )


def _peak(model: TrainedModel, facts: Mapping[str, Fact]) -> float:
    """Return the peak of one GPU, FLOP/s. Raises _CannotCompute."""
    if model.peak is not None:
        return model.peak
    gpu = facts.get("gpu")
    if gpu is None:
        raise _CannotCompute(f"the GPU of the run is unknown; give --env gpu=NAME, or {_GIVE_PEAK}")
    try:
        return peak_flops(str(gpu), model.dtype or "")
    except UnknownPeak as why:
        raise _CannotCompute(f"{why}; {_GIVE_PEAK}") from None


def _gpus(model: TrainedModel, facts: Mapping[str, Fact]) -> int:
    """Return the number of GPUs of the job: each process has one. Raises _CannotCompute."""
    if model.gpus is not None:
        return model.gpus
    known = [count for name in ("world_size", "gpu_count") if (count := _count(facts.get(name))) is not None]
    if not known:
        raise _CannotCompute("the number of GPUs is unknown; write `gpus: 8` in `model` of the rule file")
    processes, visible = known[0], known[-1]  # the same number if only one fact is known
    if processes < visible:  # with more processes than visible GPUs, the job has several hosts
        why = f"the run has {processes} processes and sees {visible} GPUs, so it is unclear how many work"
        raise _CannotCompute(f"{why}; write `gpus: {processes}` (or {visible}) in `model` of the rule file")
    return processes


def _count(fact: Fact | None) -> int | None:
    return fact if isinstance(fact, int) and not isinstance(fact, bool) and fact > 0 else None


def _series(source: Series, part: _Part) -> Series | None:
    """Return mfu for each value of a series, or for the mean of an aggregate; None without either."""
    values = source.values
    if source.kind not in ("samples", "value"):
        if "mean" not in source.aggregate:
            return None
        values = np.array([source.aggregate["mean"]])
    with np.errstate(all="ignore"):  # a time of zero gives infinity, which no rule passes
        shares = read_only(np.asarray(part.of(values), dtype=np.float64))
    is_samples = source.kind == "samples"
    key = Key(MFU, source.key.labels)
    return Series(key, "1", "samples" if is_samples else "value", shares, source.steps if is_samples else None)


def _counted(run: Run, model: TrainedModel, facts: Mapping[str, Fact]) -> list[Series]:
    """Return hfu of each rank of a trace, step by step; empty without shapes. Raises _CannotCompute."""
    times = {one.key.labels: one for one in run.series if one.key.metric == "step.time"}
    flops = [one for one in run.series if one.key.metric == "matmul.flop" and one.key.labels in times]
    peak = _peak(model, facts) if flops else 1.0
    found = []
    for one in flops:
        time = times[one.key.labels]
        if one.steps is None or time.steps is None or not np.array_equal(one.steps, time.steps):
            continue
        with np.errstate(all="ignore"):
            shares = read_only(one.values / (time.values * peak))
        found.append(Series(Key(HFU, one.key.labels), "1", "samples", shares, one.steps))
    return found


def _without(run: Run, why: str, model: TrainedModel) -> Run:
    """Return a run with the reason and without mfu, also a printed one: the rule file asks to compute it."""
    problem = Problem("error", why, model.at, Key(MFU))
    return replace(
        run,
        series=tuple(one for one in run.series if one.key.metric not in (MFU, HFU)),
        problems=(*run.problems, problem),
    )
