"""The causes of logs and recordings: timers inside timers, made up with one known change."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from conftest import Done

from perfgate.causes.find import find_causes
from perfgate.causes.table_trees import trees_of_runs
from perfgate.commands.compare import compare, compare_stored
from perfgate.core import Run
from perfgate.core.causes import CauseReport
from perfgate.workspace.inputs import read_runs

GOLDEN = Path(__file__).parent / "golden" / "timers"
Times = dict[str, float]
#: Write the log of one run: its timers in ms for each rank, and a seed.
Log = Callable[[Mapping[str, Times], int], str]

DEEPSPEED = {"fwd": 90.0, "bwd_inner": 170.0, "bwd_allreduce": 35.0, "step": 55.0}
MEGATRON = {
    "forward-compute": 240.0,
    "batch-generator": 30.0,
    "backward-compute": 400.0,
    "all-grads-sync": 80.0,
    "optimizer-inner-step": 60.0,
    "outside": 25.0,
}
LIGHTNING = {
    "[_TrainingEpochLoop].train_dataloader_next": 8.0,
    "run_training_batch": 100.0,
    "[LightningModule]Net.optimizer_step": 95.0,
    "[Strategy]SingleDeviceStrategy.training_step": 30.0,
    "[Strategy]SingleDeviceStrategy.backward": 50.0,
}
RECORDED = {"data_time": 4.0, "forward": 20.0, "backward": 40.0, "optimizer_step": 10.0, "step.time": 75.0}


def _varied(times: Times, seed: int, step: int) -> Times:
    chance = random.Random(f"{seed}/{step}")
    return {name: time * chance.gauss(1, 0.02) for name, time in times.items()}


def _deepspeed(ranks: Mapping[str, Times], seed: int) -> str:
    lines = []
    for step in range(24):
        for rank, times in ranks.items():
            now = _varied(times, seed * 100 + int(rank), step)
            inner = {name: value for name, value in now.items() if name.startswith("bwd_")}
            shown = {"fwd": now["fwd"], "bwd": sum(inner.values()), **inner, **now}
            record = "".join(f" | {name}: {value:.2f}" for name, value in shown.items())
            lines.append(f"[Rank {rank}] time (ms){record}")
    return "\n".join(lines) + "\n"


def _megatron(ranks: Mapping[str, Times], seed: int) -> str:
    lines = []
    for step in range(1, 25):
        now = _varied(ranks["0"], seed, step)
        passes = now["forward-compute"] + now["backward-compute"] + now["all-grads-sync"]
        whole = passes + now["optimizer-inner-step"] + now.pop("outside")
        head = f"iteration {step:8d}/     500 | consumed samples: {step * 256:12d} | "
        lines.append(f" [2026-11-20 10:00:{step:02d}] {head}elapsed time per iteration (ms): {whole:.1f} |")
        lines.append("max time across ranks (ms):")
        rows = {"forward-backward": passes, "optimizer": now["optimizer-inner-step"] * 1.02, **now}
        lines += [f"    {(name + ' ').ljust(48, '.')}: {value:.2f}" for name, value in rows.items()]
    return "\n".join(lines) + "\n"


def _lightning(ranks: Mapping[str, Times], seed: int) -> str:
    now = _varied(ranks["0"], seed, 0)
    outer = [name for name in now if not name.startswith(("[Light", "[Strategy]"))]
    epoch = 200 * sum(now[name] for name in outer) * 1.01
    rows = {"run_training_epoch": (epoch, 1), **{name: (value, 200) for name, value in now.items()}}
    head = "|  Action  \t|  Mean duration (s)\t|  Num calls      \t|  Total time (s) \t|  Percentage %   \t|"
    body = [
        f"|  {name}  \t|  {value / 1000:.5}  \t|  {count}  \t|  {value * count / 1000:.5}  \t|  1.0  \t|"
        for name, (value, count) in rows.items()
    ]
    rule = "-" * 60
    return "\n".join(["FIT Profiler Report", rule, head, rule, *body, rule]) + "\n"


def _recorded(ranks: Mapping[str, Times], seed: int) -> str:
    series = []
    for rank, times in ranks.items():
        steps = [_varied(times, seed + 100 * int(rank), step) for step in range(24)]
        labels = {"rank": rank} if len(ranks) > 1 else {}
        series += [
            {"metric": name, "unit": "ms", "labels": labels, "values": [step[name] for step in steps]} for name in times
        ]
    return json.dumps({"schema": "perfgate.results/1", "series": series})


def _but(times: Times, **changes: float | None) -> Times:
    """Other times; None removes a timer."""
    found = {**times, **{name.replace("__", "-"): time for name, time in changes.items() if time is not None}}
    gone = {name.replace("__", "-") for name, time in changes.items() if time is None}
    return {name: time for name, time in found.items() if name not in gone}


def _recorded_without(name: str) -> Times:
    return {other: time for other, time in RECORDED.items() if other != name}


_BACKWARD = "[Strategy]SingleDeviceStrategy.backward"
_WAITS = _but(DEEPSPEED, bwd_allreduce=71.0)
CASES: dict[str, tuple[Log, Mapping[str, Times], Mapping[str, Times], int]] = {
    "unchanged": (_deepspeed, {"0": DEEPSPEED}, {"0": DEEPSPEED}, 3),
    "slower": (_deepspeed, {"0": DEEPSPEED}, {"0": _but(DEEPSPEED, fwd=112.0)}, 3),
    "slower-one-run-a-side": (_deepspeed, {"0": DEEPSPEED}, {"0": _but(DEEPSPEED, fwd=125.0)}, 1),
    "too-small-for-one-run": (_deepspeed, {"0": DEEPSPEED}, {"0": _but(DEEPSPEED, fwd=95.0)}, 1),
    "exposed": (_deepspeed, {"0": DEEPSPEED}, {"0": _but(DEEPSPEED, bwd_allreduce=60.0)}, 3),
    "slow-rank": (
        _deepspeed,
        dict.fromkeys("0123", DEEPSPEED),
        {**dict.fromkeys("013", _WAITS), "2": _but(DEEPSPEED, fwd=126.0)},
        3,
    ),
    "only-one-side-times-a-part": (_deepspeed, {"0": DEEPSPEED}, {"0": _but(DEEPSPEED, optimizer_step=40.0)}, 3),
    "all-alike": (_deepspeed, {"0": DEEPSPEED}, {"0": {name: time * 1.15 for name, time in DEEPSPEED.items()}}, 3),
    "megatron-stall": (
        _megatron,
        {"0": MEGATRON},
        {"0": _but(MEGATRON, batch__generator=75.0, forward__compute=285.0)},
        3,
    ),
    "megatron-not-timed": (_megatron, {"0": MEGATRON}, {"0": _but(MEGATRON, outside=110.0)}, 3),
    "megatron-vanished": (_megatron, {"0": MEGATRON}, {"0": {**MEGATRON, "all-grads-sync": 0.0}}, 3),
    "lightning-appeared": (
        _lightning,
        {"0": LIGHTNING},
        {"0": {**LIGHTNING, "[Callback]Slow.on_train_batch_end": 22.0}},
        3,
    ),
    "lightning-slower": (
        _lightning,
        {"0": LIGHTNING},
        {
            "0": {
                **LIGHTNING,
                _BACKWARD: 70.0,
                "[LightningModule]Net.optimizer_step": 115.0,
                "run_training_batch": 120.0,
            }
        },
        3,
    ),
    "recorded-stall": (_recorded, {"0": RECORDED}, {"0": _but(RECORDED, data_time=30.0)}, 3),
    "recorded-beside-the-steps": (
        _recorded,
        {"0": {**RECORDED, "evaluation_time": 30.0, "compile_time": 2.0}},
        {"0": {**RECORDED, "evaluation_time": 60.0, "compile_time": 9.0, "forward": 27.0, "step.time": 82.0}},
        3,
    ),
    "recorded-replaced": (
        _recorded,
        {"0": RECORDED},
        {"0": {**_recorded_without("backward"), "fused_backward": 36.0, "step.time": 71.0}},
        3,
    ),
}


def _runs(log: Log, times: Mapping[str, Times], folder: Path, side: int, count: int) -> tuple[Run, ...]:
    folder.mkdir()
    paths = [folder / f"run{at}.log" for at in range(count)]
    for at, path in enumerate(paths):
        scaled = {rank: _varied(own, 7 + side, at) for rank, own in times.items()}
        path.write_text(log(scaled, 10 * side + at), encoding="utf-8")
    return read_runs([str(path) for path in paths], None, "corrected")


def _shown(report: CauseReport) -> str:
    """Return the causes of a report in whole microseconds."""
    lines = [f"step {report.base_step * 1e6:.0f} us, {(report.new_step - report.base_step) * 1e6:+.0f} us"]
    for cause in report.causes:
        size = f"{cause.change_per_step * 1e6:+.0f} us ({cause.low * 1e6:+.0f} to {cause.high * 1e6:+.0f})"
        ranks = f", rank {', '.join(cause.ranks)}" if cause.ranks else ""
        lines.append(f"{cause.kind}: {' / '.join(cause.where)}: {size}{ranks}")
        lines += [f"    {sign} {name}" for sign, side in (("-", cause.gone), ("+", cause.come)) for name, _ in side]
    lines.append(f"rest {report.rest * 1e6:+.0f} us")
    return "\n".join([*lines, ""])


#: The notes of the cases that have some.
NOTES: dict[str, list[str]] = {
    "all-alike": ["all timers changed by one factor: the machine changed, or every step has more work"],
    "only-one-side-times-a-part": ["only the new side times optimizer_step: compared as a part of step"],
}


@pytest.mark.parametrize("name", CASES)
def test_causes_of_timers(name: str, tmp_path: Path) -> None:
    log, *sides, count = CASES[name]
    base, new = (_runs(log, times, tmp_path / str(at), at, count) for at, times in enumerate(sides))
    report = find_causes(*next(trees_of_runs(base, new)))
    assert list(report.notes) == NOTES.get(name, [])
    times = sum(cause.change_per_step for cause in report.causes if cause.metric == "time")
    assert times + report.rest == pytest.approx(report.new_step - report.base_step, abs=1e-12)
    one_sided = {place.name for place in report.tree if (place.base > 0) != (place.new > 0)}
    calls = {call for cause in report.causes for call, _ in (*cause.gone, *cause.come)}
    assert one_sided <= calls | {cause.where[-1] for cause in report.causes}
    path, text = GOLDEN / f"{name}.txt", _shown(report)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; UPDATE_GOLDEN=1 writes it anew"


def test_every_golden_file_of_timers_has_a_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(CASES)


def test_metrics_that_are_not_parts_of_a_step_have_no_tree(tmp_path: Path) -> None:
    times = {"test_parse": 3.0, "test_render": 9.0, "startup": 120.0}
    runs = _runs(_recorded, {"0": times}, tmp_path / "base", 0, 1)
    assert list(trees_of_runs(runs, runs)) == []


def test_stored_runs_have_the_causes_of_their_logs(perfgate: Callable[..., Done], folder: Path) -> None:
    base, new = (_deepspeed({"0": times}, 1) for times in (DEEPSPEED, _but(DEEPSPEED, fwd=120.0)))
    (folder / "rules").mkdir()
    (folder / "rules" / "r.yaml").write_text(
        "version: 1\nrules:\n  - forward within 5% of baseline\n", encoding="utf-8"
    )
    for name, text in (("base", base), ("new", new)):
        (folder / f"{name}.log").write_text(text, encoding="utf-8")
        assert perfgate("baseline", "approve", f"{name}.log", "--reason", name).code == 0
    stored, logs = compare_stored("baselines", None, None).causes, compare(["base.log"], ["new.log"], None, "5%").causes
    assert stored is not None
    assert logs is not None
    assert [(one.kind, one.where) for one in stored.causes] == [("slower", ("forward",))]
    for one, other in zip(stored.causes, logs.causes, strict=True):
        assert (one.change_per_step, one.low, one.high) == pytest.approx(
            (other.change_per_step, other.low, other.high), rel=1e-4
        )


@pytest.mark.parametrize(("without", "side"), [(1, "base"), (0, "new")])
def test_a_whole_step_that_only_one_side_times_is_no_change(without: int, side: str, tmp_path: Path) -> None:
    times = [_recorded_without("step.time") if at == without else RECORDED for at in (0, 1)]
    report = find_causes(
        *next(trees_of_runs(*(_runs(_recorded, {"0": one}, tmp_path / str(at), at, 3) for at, one in enumerate(times))))
    )
    assert report.causes == ()
    assert report.notes == (f"only the {side} side times the whole step: its part without timers is left out",)


def test_a_rank_that_one_run_lacks_is_not_compared_with_the_others(tmp_path: Path) -> None:
    slow = {**dict.fromkeys("0134", _WAITS), "2": _but(DEEPSPEED, fwd=126.0)}
    whole, part = (dict.fromkeys(ranks, DEEPSPEED) for ranks in ("01234", "0123"))
    sides = [_runs(_deepspeed, ranks, tmp_path / str(at), at, 1) for at, ranks in enumerate((whole, part, slow))]
    report = find_causes(*next(trees_of_runs([*sides[0], *sides[1]], sides[2] * 2)))
    assert [(one.kind, one.ranks) for one in report.causes] == [("slow rank", ("2",))]


@pytest.mark.parametrize("without", [0, 1])
def test_a_slow_rank_costs_no_rest_that_only_one_side_times(without: int, tmp_path: Path) -> None:
    usual = {"forward": 40.0, "backward": 40.0, "allreduce": 20.0, "step.time": 125.0}
    waits, slow = ({**usual, name: usual[name] + 35, "step.time": 160.0} for name in ("allreduce", "forward"))
    sides = []
    for at, ranks in enumerate((dict.fromkeys("0123", usual), {**dict.fromkeys("013", waits), "2": slow})):
        timed = {rank: _but(times, **{"step.time": None} if at == without else {}) for rank, times in ranks.items()}
        sides.append(_runs(_recorded, timed, tmp_path / str(at), at, 3))
    (cause,) = find_causes(*next(trees_of_runs(*sides))).causes
    assert (cause.kind, cause.ranks) == ("slow rank", ("2",))
    assert cause.change_per_step == pytest.approx(0.035, rel=0.1)


def test_memory_at_a_place_of_the_program_is_not_the_peak_of_the_run(tmp_path: Path) -> None:
    log = _deepspeed({"0": DEEPSPEED}, 1)
    usage = "MA 1.51 GB         Max_MA {} GB         CA 1.83 GB         Max_CA 2 GB \n"
    for name, peak in (("base", "1.64"), ("new", "9.64")):
        (tmp_path / name).write_text("[utils.py:627:see_memory_usage] Before the model\n" + usage.format(peak) + log)
    base, new = (read_runs([str(tmp_path / name)], None, "corrected") for name in ("base", "new"))
    assert {series.key.metric for series in base[0].series} >= {"memory.peak_allocated", "forward"}
    assert find_causes(*next(trees_of_runs(base, new))).causes == ()


def test_a_timer_that_is_printed_rarely_is_not_the_whole_step(tmp_path: Path) -> None:
    lines = _deepspeed({"0": DEEPSPEED}, 1).splitlines()
    lines.insert(12, "Global Steps: 101 Data (t): 9.001 Batch (t): 19.856, 1057.47/s")
    (tmp_path / "train.log").write_text("\n".join([*lines, ""]))
    runs = read_runs([str(tmp_path / "train.log")], None, "corrected")
    assert "batch_time" in {series.key.metric for series in runs[0].series}
    trees = next(trees_of_runs(runs, runs))[0]
    assert trees[0][0].step_times[0] == pytest.approx(0.35, rel=0.05)
