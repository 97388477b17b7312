"""Sensors read recorded files and a stand-in of a library; the code is that of the real ones."""

import sys
from types import SimpleNamespace

import pytest
from cards import Card, NVMLError, ReplayedNvml

from perfgate.doctor.disturbances import examine_cards
from perfgate.machine import linux
from perfgate.machine.gpus import amd_sensors, nvml_sensors
from perfgate.workspace.surroundings import machine_facts

STAT = "cpu  400 10 90 9000 50 0 5 70 0 0\ncpu0 400 10 90 9000 50 0 5 70 0 0\nintr 1 2 3\nctxt 123456\nbtime 1\n"
PSI = "some avg10=1.00 avg60=2.00 avg300=3.00 total=7500000\nfull avg10=0 avg60=0 avg300=0 total=5\n"


@pytest.mark.parametrize(
    ("parse", "text", "found"),
    [
        (linux.cpu_times, STAT, {"busy": 505.0, "steal": 70.0, "switches": 123456.0}),
        (linux.pressure, PSI, {"total": 7.5e6}),
        (linux.pressure, "", {}),
        (linux.cgroup_cpu, "usage_usec 9\nnr_throttled 4\nthrottled_usec 2500000\n", {"throttled": 2.5}),
        (linux.cgroup_cpu, "nr_periods 0\nthrottled_time 1500000000\n", {"throttled": 1.5}),
        (linux.cgroup_cpu, "usage_usec 9\n", {}),
        (linux.available_memory, "MemTotal: 9 kB\nMemAvailable:    2048 kB\n", {"available": 2097152.0}),
        (linux.swapping, "pgmajfault_x 9\nx_pswpin 8\n", {"swapped": 0.0}),
        (linux.swapping, "pswpin 3\npswpout 4\npgmajfault 5\n", {"swapped": 7.0, "faults": 5.0}),
        (linux.one_clock, "2600000\n", {"clock": 2.6e9}),
        (linux.mean_clock, "cpu MHz\t\t: 2500.0\nx : 1\ncpu MHz\t\t: 2700.0\n", {"clock": 2.6e9}),
    ],
)
def test_a_file_of_the_kernel(parse, text, found):
    assert parse(text) == found


def test_a_machine_from_its_files(tmp_path):
    for name, text in {
        "proc/stat": STAT,
        "proc/pressure/cpu": PSI,
        "proc/self/cgroup": "0::/job\n",
        "sys/fs/cgroup/job/cpu.stat": "throttled_usec 100\n",
        "sys/devices/system/cpu/cpu3/cpufreq/scaling_cur_freq": "1800000\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    sensors = linux.linux_sensors(tmp_path)
    names = [channel.metric for sensor in sensors for channel in sensor.channels()]
    assert names == [
        *("machine.cpu.busy", "machine.cpu.steal", "machine.context_switches", "machine.pressure.cpu"),
        *("machine.cgroup.throttled", "clock.cpu"),
    ]
    assert sensors[-1].channels()[0].labels == {"cpu": "3"}
    (tmp_path / "proc/stat").write_text(STAT.replace("ctxt 123456", "ctxt 123500"))
    assert list(sensors[0].read()) == [505.0, 70.0, 123500.0]


def test_a_long_file_is_read_to_its_end(tmp_path):
    """A machine with many processors shows the context switches after many lines."""
    (tmp_path / "proc").mkdir()
    more = "".join(f"cpu{number} 400 10 90 9000 50 0 5 70 0 0\n" for number in range(400))
    (tmp_path / "proc/stat").write_text(STAT.replace("intr", f"{more}intr"))
    (sensor,) = linux.linux_sensors(tmp_path)
    assert list(sensor.read()) == [505.0, 70.0, 123456.0]


def test_another_system_has_no_such_files(tmp_path):
    assert linux.linux_sensors(tmp_path) == []


def test_a_card_shows_what_it_supports():
    sensors, wrong = nvml_sensors(ReplayedNvml(Card(), Card(clock=1755)))
    assert wrong is None
    assert [sensor.is_slow for sensor in sensors] == [False, True, False, True]
    fast = {channel.metric: value for channel, value in zip(sensors[2].channels(), sensors[2].read(), strict=True)}
    assert fast["clock.sm"] == 1755
    assert {name for name in fast if "throttled" in name} == {
        f"machine.gpu.throttled.{policy}" for policy in ("power", "thermal", "reliability")
    }
    assert [channel.metric for channel in sensors[3].channels()] == ["machine.gpu.temperature", "machine.gpu.processes"]


def test_a_card_that_falls_off_the_bus_has_no_readings():
    card = Card()
    (fast, _), _ = nvml_sensors(ReplayedNvml(card))
    card.is_lost = True
    assert all(reading != reading for reading in fast.read())


def test_a_driver_that_fails_is_said():
    broken = ReplayedNvml()
    broken.nvmlInit = lambda: (_ for _ in ()).throw(NVMLError("driver not loaded"))
    assert nvml_sensors(broken) == ([], "NVML failed: driver not loaded")


@pytest.mark.parametrize("error", [ValueError, MemoryError, OSError, RecursionError])
def test_a_binding_that_does_not_fit_the_driver_is_said(error):
    broken = ReplayedNvml(Card())
    broken.nvmlDeviceGetCount = lambda: (_ for _ in ()).throw(error("other"))
    assert nvml_sensors(broken) == ([], "NVML failed: other")
    assert [one.text for one in examine_cards(broken)] == ["NVML failed: other"]


def test_a_driver_that_answers_nonsense_has_no_facts(monkeypatch):
    broken = ReplayedNvml(Card())
    broken.NVMLError = NVMLError
    broken.nvmlShutdown = lambda: None
    broken.nvmlDeviceGetName = lambda device: "H100"
    broken.nvmlDeviceGetMemoryInfo = lambda device: SimpleNamespace(total=float("nan"))
    monkeypatch.setitem(sys.modules, "pynvml", broken)
    facts, hints = machine_facts()
    assert "gpu" not in facts
    assert hints[0].startswith("the facts of the GPU are missing: NVML failed: ")


def test_an_amd_card_counts_throttled_ticks():
    metrics = {
        "current_gfxclk": 2100,
        "current_uclk": 65535,
        "average_gfx_activity": 90,
        "temperature_hotspot": "N/A",
        "energy_accumulator": 1_000_000,
        "accumulation_counter": 1000,
        "ppt_residency_acc": 100,
    }
    smi = SimpleNamespace(
        AmdSmiException=RuntimeError,
        amdsmi_init=lambda: None,
        amdsmi_get_processor_handles=lambda: ["card"],
        amdsmi_get_gpu_metrics_info=lambda handle: dict(metrics),
    )
    (card,), _ = amd_sensors(smi)
    names = [channel.metric for channel in card.channels()]
    assert names == ["clock.sm", "machine.gpu.busy", "power", "machine.gpu.throttled.power"]
    metrics.update(accumulation_counter=2000, ppt_residency_acc=350)
    assert card.read()[3] == 0.25
