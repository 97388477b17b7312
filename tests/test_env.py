"""`perfgate env`: what the machine says of itself; NVML is played by a module with known answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Done

from perfgate.core import Run
from perfgate.workspace.env_facts import merge_facts

Command = Callable[..., Done]


class NVMLError(Exception):
    """The error that NVML raises."""


def nvml(reasons: int = 0x24, devices: int = 2, **answers: Any) -> Any:
    """A stand-in for pynvml with this many GPUs; a question without an answer is not supported."""

    def unsupported(*_: Any) -> Any:
        raise NVMLError("Not Supported")

    given = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: devices,
        "nvmlDeviceGetHandleByIndex": lambda i: i,
        "nvmlDeviceGetName": lambda d: b"NVIDIA H200",
        "nvmlDeviceGetMemoryInfo": lambda d: SimpleNamespace(total=141 << 30),
        "nvmlDeviceGetPowerManagementLimit": lambda d: 700_000 - 100_000 * d,
        "nvmlDeviceGetTemperature": lambda d, kind: 40 + d,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda d: reasons,
        "nvmlDeviceGetPersistenceMode": lambda d: 1,
        "nvmlSystemGetDriverVersion": lambda: "570.86.15",
        "nvmlSystemGetCudaDriverVersion": lambda: 12080,
        **answers,
    }
    constants = {"NVML_CLOCK_SM": 1, "NVML_CLOCK_MEM": 2, "NVML_TEMPERATURE_GPU": 0, "NVMLError": NVMLError}
    others = ("MaxClockInfo", "ClockInfo", "MigMode", "EccMode")
    return SimpleNamespace(**{f"nvmlDeviceGet{name}": unsupported for name in others}, **given, **constants)


def facts(perfgate: Command) -> dict[str, Any]:
    done = perfgate("env")
    assert done.code == 0
    return json.loads(done.out)


def test_without_a_gpu_the_rest_is_told(perfgate: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setenv("WORLD_SIZE", "8")
    found = facts(perfgate)
    assert {"cpu", "cpu_count", "python", "os", "host"} <= found.keys()
    assert found["world_size"] == 8
    assert not {"gpu", "gpu_count", "throttle_reasons"} & found.keys()


def test_gpus_are_told_as_one(perfgate: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    found = facts(perfgate)
    expected = {
        "gpu": "NVIDIA H200",
        "gpu_count": 2,
        "gpu_memory_gib": 141,
        "power_cap_w": "600 + 700",
        "gpu_temperature_c": 41,
        "throttle_reasons": "sw_power_cap,sw_thermal_slowdown",
        "persistence": "on",
        "driver": "570.86.15",
        "cuda_driver": "12.8",
    }
    assert expected.items() <= found.items()
    assert "ecc" not in found
    assert "sm_clock_mhz" not in found


def test_throttling_that_no_gpu_reports_is_unknown(perfgate: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    module = nvml()
    module.nvmlDeviceGetCurrentClocksEventReasons = module.nvmlDeviceGetClockInfo  # not supported
    monkeypatch.setitem(sys.modules, "pynvml", module)
    found = facts(perfgate)
    assert (found["gpu"], "throttle_reasons" in found) == ("NVIDIA H200", False)
    monkeypatch.setitem(sys.modules, "pynvml", nvml(reasons=0))
    assert facts(perfgate)["throttle_reasons"] == "none"


def test_nvml_that_fails_is_said_and_harms_nothing(perfgate: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any) -> Any:
        raise NVMLError("Driver Not Loaded")

    monkeypatch.setitem(sys.modules, "pynvml", nvml(nvmlInit=lost))
    done = perfgate("env")
    assert (done.code, "Driver Not Loaded" in done.err) == (0, True)
    assert "gpu" not in json.loads(done.out)


@pytest.mark.parametrize(
    ("given", "measured", "warns"),
    [
        ("2.11.0", "2.11.0+cu130", False),
        ("13.0.96", "13.0", False),
        ("13.0", "13.1", True),
        ("2.11", "2.1", True),
        ("a100", "a10", True),
    ],
)
def test_a_version_with_more_detail_is_no_contradiction(given: str, measured: str, warns: bool) -> None:
    run = Run("new.json", "perfgate.results/1", (), environment={"cuda": measured})
    _, problems = merge_facts([run], {"cuda": given}, ("gpu",))
    assert bool(problems) == warns
