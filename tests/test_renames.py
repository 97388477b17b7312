"""A rule that was written for one version of a tool reads what another one writes."""

import itertools
import re

import pytest
from conftest import write_rules

from perfgate.core.wording import canonical_timer, synonyms

OLD_LOG = "".join(f"[Rank 0] rank=0 time (ms) | forward: {40 + x / 10} | backward: 90.5\n" for x in range(100))
NEW_LOG = OLD_LOG.replace("rank=0 ", "").replace("forward", "fwd").replace("backward", "bwd")
REPORT = """\
FIT Profiler Report
|  Action                                     \t|  Mean duration (s)\t|  Num calls      \t|  Total time (s) \t|
|  {: <42} \t|  0.5              \t|  4              \t|  2.0            \t|
|  run_training_batch                         \t|  0.6              \t|  4              \t|  2.4            \t|
-------------------------------------------------------------------------------------------------------------
"""
ACTIONS = ("get_train_batch", "[TrainingEpochLoop].train_dataloader_next", "[_TrainingEpochLoop].train_dataloader_next")
TABLE = """\
---------  ------------  ------------  ------------  ------------  ------------
     Name    Self CPU %      Self CPU      Self {0}    {0} total    # of Calls
---------  ------------  ------------  ------------  ------------  ------------
 aten::mm        53.46%      48.972ms       1.500ms       2.500ms             3
---------  ------------  ------------  ------------  ------------  ------------
"""


@pytest.mark.parametrize("text", [OLD_LOG, NEW_LOG], ids=["v0.10.0", "v0.10.1"])
@pytest.mark.parametrize("metric", ["forward", "fwd", "fwd*", "bwd", "backward"])
def test_timers_of_deepspeed(perfgate, folder, text, metric):
    (folder / "train.log").write_text(text)
    write_rules(folder, f"{metric} median under 100 ms")
    assert perfgate("check", "train.log").code == 0


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("metric", ACTIONS)
def test_actions_of_lightning(perfgate, folder, metric, action):
    (folder / "report.txt").write_text(REPORT.format(action))
    write_rules(folder, f'"{metric}" mean under 600 ms')
    assert perfgate("check", "report.txt").code == 0
    write_rules(folder, f'"{metric}" mean under 400 ms')
    assert perfgate("check", "report.txt").code == 1


@pytest.mark.parametrize("device", ["CUDA", "XPU"])
@pytest.mark.parametrize("metric", ["self_device_time", "self_cuda_time"])
def test_devices_of_torch(perfgate, folder, metric, device):
    (folder / "table.txt").write_text(TABLE.format(device))
    write_rules(folder, f"aten::mm.{metric} total under 2 ms")
    assert perfgate("check", "table.txt").code == 0
    assert f"aten::mm.self_device_time (aten::mm.self_{device.lower()}_time)" in perfgate("inspect", "table.txt").out


def again(text, number):
    """The output of another run of the same code: its numbers differ by up to 1 %."""
    factors = itertools.count(number, 7)
    return re.sub(r"\d+\.\d+", lambda found: f"{float(found[0]) * (1 + next(factors) % 10 / 1000):.5f}", text)


def test_a_change_across_versions(perfgate, folder):
    """The run before was of the old version; the rule speaks of neither in particular."""
    write_rules(folder, "fwd within 20% of baseline", '"get_train_batch" within 20% of baseline')
    base = folder / "base"
    for number, (log, action) in enumerate([(OLD_LOG, ACTIONS[0])] * 3 + [(NEW_LOG, ACTIONS[2])]):
        run = folder / f"run{number}"
        run.mkdir()
        (run / "train.log").write_text(again(log, number))
        (run / "report.txt").write_text(again(REPORT.format(action), number))
    approved = perfgate("baseline", "approve", "run0", "run1", "run2", "--reason", "first", "--baselines", base)
    assert approved.code == 0, approved.said
    assert perfgate("check", "run3", "--baselines", base).code == 0


def test_a_metric_of_exactly_this_name_comes_first(perfgate, folder):
    both = OLD_LOG + "[Rank 0] rank=0 time (ms) | forward: 40.0 | fwd_moe: 900.0\n" * 20
    (folder / "train.log").write_text(both)
    write_rules(folder, "fwd_moe median over 500 ms")
    assert perfgate("check", "train.log").code == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fwd_microstep", ("forward_microstep",)),
        ("bwd_allreduce*", ("backward_allreduce*",)),
        ("fwd_moe", ()),
        ("forward", ()),
        ("my_fwd", ()),
        ("get_train_batches", ()),
        ("aten::mm.privateuse1_memory", ("aten::mm.device_memory",)),
    ],
)
def test_synonyms(name, expected):
    assert synonyms(name) == expected


def test_timers_that_were_never_renamed_keep_their_names():
    assert [canonical_timer(name) for name in ("step_microstep", "fwd_moe", "optimizer_step")] == [
        "step_microstep",
        "fwd_moe",
        "optimizer_step",
    ]


def test_inspect_shows_the_other_names(perfgate, folder):
    (folder / "report.txt").write_text(REPORT.format("get_train_batch"))
    done = perfgate("inspect", "report.txt")
    assert 'get_train_batch{stage="fit"} (also [_TrainingEpochLoop].train_dataloader_next' in done.out
    (folder / "train.log").write_text(NEW_LOG)
    assert 'forward{rank="0"} (fwd)' in perfgate("inspect", "train.log").out
