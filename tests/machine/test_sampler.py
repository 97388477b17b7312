"""The sampler: windows, bounds, and a process that outlives its parent."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from cards import Card, ReplayedNvml

from perfgate.machine.gpus import NvmlDevice, nvml_sensors
from perfgate.machine.linux import linux_sensors
from perfgate.machine.sampler import WINDOWS, Sampler, run
from perfgate.recorder.recorder import Recorder
from perfgate.recorder.watch import sampled, sidecar_of


def recorded(path):
    series = json.loads(path.read_text())["series"]
    return {one["metric"]: one.get("values", one.get("value")) for one in series}


def replayed(tmp_path, seconds, play):
    """Play a card for some seconds, a tenth at a time, and return what was recorded."""
    card = Card()
    path = tmp_path / "r.machine"
    with Recorder(path) as recorder:
        sampler = Sampler(nvml_sensors(ReplayedNvml(card))[0], recorder)
        for tick in range(round(seconds * 10)):
            sampler.sample(tick / 10)
            play(card, tick / 10)
        sampler.finish(seconds)
    return recorded(path)


def test_a_throttle_of_200_ms_is_never_missed(tmp_path):
    def play(card, now):
        card.run(0.1, throttled=0.1 if 3.0 <= now < 3.15 else 0.0)

    found = replayed(tmp_path, 6, play)
    lost = found["machine.gpu.throttled.thermal"]
    assert sum(lost) / 100 * 0.1 == pytest.approx(0.2, rel=1e-6)  # % of windows of .1 s
    assert max(lost) == pytest.approx(100)
    assert found["machine.energy"] == pytest.approx(600 * 6)
    assert set(found["clock.sm"]) == {1980}


def test_counters_that_take_long_to_ask_miss_nothing_once_a_second(tmp_path, monkeypatch):
    monkeypatch.setattr(NvmlDevice, "_takes_long", lambda self, ask: True)

    def play(card, now):
        card.run(0.1, throttled=0.1 if 3.0 <= now < 3.15 else 0.0)

    found = replayed(tmp_path, 6, play)
    lost = found["machine.gpu.throttled.thermal"]
    assert len(lost) < 10
    assert sum(lost) / 100 * 1.0 == pytest.approx(0.2, rel=0.15)  # % of windows of 1 s
    assert found["machine.energy"] == pytest.approx(600 * 6)
    assert len(found["clock.sm"]) > 50


def test_a_driver_that_is_loaded_again_invents_nothing(tmp_path):
    def play(card, now):
        card.run(0.1)
        if now == 2.0:
            card.energy_mj = 0

    found = replayed(tmp_path, 4, play)
    assert max(found["power"]) == pytest.approx(600)
    assert found["machine.energy"] == pytest.approx(600 * 3.9)


@pytest.mark.parametrize("step", [0.0, -5.0, 1e6])
def test_a_clock_that_stands_still_goes_back_or_jumps_hangs_nothing(tmp_path, step):
    waits, clock = [], itertools.count(1e6, step)
    with Recorder(tmp_path / "r.machine") as recorder:
        recorder.value("loss", 1.0, unit="1")
        run(Sampler([], recorder), lambda wait: waits.append(wait) or len(waits) == 50, lambda: next(clock), 0.1)
    assert max(waits) <= 5.1


def test_a_process_that_wakes_a_little_early_or_late_has_ten_windows_a_second(tmp_path):
    with Recorder(tmp_path / "r.machine") as recorder:
        sampler = Sampler(nvml_sensors(ReplayedNvml(Card()))[0][:1], recorder)
        for tick in range(101):
            sampler.sample(tick / 10 + (0.004, -0.004, 0.009)[tick % 3])
        sampler.finish(10.1)
    assert len(recorded(tmp_path / "r.machine")["clock.sm"]) == 101


def test_text_is_used_later_and_each_value_has_the_time_of_its_reading(tmp_path):
    """Files are read ten times a second and understood together; a slow one is not moved to another time."""
    for name in ("cpu", "memory"):
        (tmp_path / "proc/pressure").mkdir(parents=True, exist_ok=True)
        (tmp_path / "proc/pressure" / name).write_text("some avg10=0.00 total=0\n")
    with Recorder(tmp_path / "r.machine") as recorder:
        sampler = Sampler(linux_sensors(tmp_path), recorder)
        for tick in range(31):
            for name in ("cpu", "memory"):  # each waits for all of the third second
                waited = min(max(tick - 20, 0), 10) * 100_000
                (tmp_path / "proc/pressure" / name).write_text(f"some avg10=0.00 total={waited}\n")
            sampler.sample(tick / 10)
        sampler.finish(3.0)
    series = json.loads((tmp_path / "r.machine").read_text())["series"]
    found = {one["metric"]: dict(zip(one["steps"], one["values"], strict=True)) for one in series}
    cpu, memory = found["machine.pressure.cpu"], found["machine.pressure.memory"]
    assert {step: round(value) for step, value in cpu.items() if value} == dict.fromkeys(range(2100, 3001, 100), 100)
    assert {step: round(value) for step, value in memory.items()} == {1000: 0, 2000: 0, 3000: 100}


def test_what_was_read_is_in_the_file_after_five_seconds(tmp_path):
    """If the sampler is killed, at most these are lost."""
    with Recorder(tmp_path / "r.machine") as recorder:
        sampler = Sampler(nvml_sensors(ReplayedNvml(Card()))[0][:1], recorder)
        for tick in range(50):
            sampler.sample(tick / 10)
        lines = [json.loads(line) for line in (tmp_path / "r.machine").read_text().splitlines()]
    assert sum(len(line["values"]) for line in lines if line.get("metric") == "clock.sm") == 49


def test_a_long_run_is_bounded(tmp_path):
    with Recorder(tmp_path / "r.machine") as recorder:
        sampler = Sampler(nvml_sensors(ReplayedNvml(Card()))[0][:1], recorder, interval=1.0)
        for tick in range(3 * WINDOWS + 2):
            sampler.sample(float(tick))
        sampler.finish(3 * WINDOWS + 2.0)
    assert len(recorded(tmp_path / "r.machine")["clock.sm"]) == pytest.approx(2 * WINDOWS, abs=3)


def test_the_machine_is_sampled_while_a_block_runs(tmp_path):
    with sampled(tmp_path / "results.json"):
        time.sleep(0.35)
    document = json.loads((tmp_path / "results.json.machine").read_text())
    assert document["schema"] == "perfgate.results/1"
    assert document["environment"]["host"]
    assert any(one["metric"] == "machine.cpu.busy" for one in document["series"])


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 always looks into the working directory first")
def test_a_folder_of_the_same_name_does_not_hide_perfgate(tmp_path, monkeypatch):
    (tmp_path / "perfgate").mkdir()
    (tmp_path / "perfgate" / "__init__.py").write_text("raise SystemExit('the wrong one')")
    monkeypatch.chdir(tmp_path)
    with sampled("results.json"):
        pass
    assert (tmp_path / "results.json.machine").exists()


def test_a_folder_that_cannot_be_written_does_not_stop_the_run(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with sampled(tmp_path / "file" / "results.json"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_parent_that_is_killed_leaves_whole_evidence(tmp_path):
    path = tmp_path / "results.json"
    program = (
        "import sys, time\nfrom perfgate.recorder.watch import sampled\n"
        "with sampled(sys.argv[1]):\n    print('on', flush=True)\n    time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE)
    assert parent.stdout.readline() == b"on\n"
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 10
    while time.monotonic() < until:
        text = (tmp_path / sidecar_of("results.json")).read_text()
        if text.startswith("{") and '"perfgate.results/1"' in text:
            break
        time.sleep(0.02)
    assert json.loads(text)["schema"] == "perfgate.results/1"
