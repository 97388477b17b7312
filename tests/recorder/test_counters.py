"""CPU time, instructions and cycles of spans and of commands; a stand-in takes the place of the system call."""

from __future__ import annotations

import errno
import os
import struct
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perfgate import Recorder, RecorderWarning
from perfgate.measuring.command_cost import command_cost
from perfgate.measuring.programs import Program, finish
from perfgate.recorder import counters
from perfgate.recorder.counters import DISABLED, ON_EXEC, ONLY_THREADS, ProcessCounters, attributes_of, grown
from perfgate.workspace.inputs import read_runs

pytestmark = pytest.mark.usefixtures("folder")
INSTRUCTIONS, CYCLES = 1, 0


@dataclass
class Kernel:
    """A kernel with counters: each reading is `step` more than the last one, and the counter ran all of the time."""

    code: int = 0
    refused_bits: int = 0
    steps: dict[int, int] = field(default_factory=lambda: {INSTRUCTIONS: 1_000_000, CYCLES: 3_000_000})
    share: float = 1.0
    opened: list[tuple[int, int, int]] = field(default_factory=list)

    def open(self, attributes: bytes, thread: int) -> int:
        kind, size, config, _, _, read_format, bits = struct.unpack_from("=IIQQQQQ", attributes)
        assert (kind, size, read_format, len(attributes)) == (0, 64, 3, 64)
        if self.code or bits & self.refused_bits:
            return -(self.code or errno.EINVAL)
        self.opened.append((config, bits, thread))
        reading, writing = os.pipe()
        for number in range(1, 300):
            record = number * self.steps[config], number * 1000, round(number * 1000 * self.share)
            os.write(writing, struct.pack("QQQ", *record))
        os.close(writing)
        return reading


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    found = Kernel()
    monkeypatch.setattr(counters, "perf_event_open", found.open)
    monkeypatch.setattr(counters, "_threads", lambda: [41])
    return found


def recorded(**more: bool) -> dict[str, list[float]]:
    with Recorder("run.json", **more) as rec:
        for _ in range(3):
            with rec.step_span(), rec.span("forward"):
                sum(range(1000))
        with rec.span("load", {"kind": "a"}):
            pass
    (run,) = read_runs(["run.json"])
    return {str(one.key): one.values.tolist() for one in run.series}


def test_spans_and_steps_are_counted(kernel: Kernel) -> None:
    found = recorded(counters=True)
    assert set(found) == {
        *("step.time", "step.cpu_time", "step.instructions", "step.cycles"),
        *("forward", "forward.cpu_time", "forward.instructions", "forward.cycles"),
        *(f'load{end}{{kind="a"}}' for end in ("", ".cpu_time", ".instructions", ".cycles")),
    }
    assert found["forward.instructions"] == [1e6] * 3
    assert found["step.cycles"] == [9e6] * 3  # the span inside reads twice
    assert all(0 < seconds < 1 for seconds in found["step.cpu_time"])


def test_only_the_user_space_of_this_process_is_counted(kernel: Kernel) -> None:
    ProcessCounters().close()
    inherit, no_kernel, no_hypervisor = 1 << 1, 1 << 5, 1 << 6
    bits = inherit | no_kernel | no_hypervisor | ONLY_THREADS
    assert kernel.opened == [(INSTRUCTIONS, bits, 41), (CYCLES, bits, 41)]


def test_an_older_kernel_counts_child_processes_too(kernel: Kernel) -> None:
    kernel.refused_bits = ONLY_THREADS
    assert ProcessCounters().names == ("cpu_time", "instructions", "cycles")
    assert not any(bits & ONLY_THREADS for _, bits, _ in kernel.opened)


def test_a_counter_that_shares_the_hardware_is_scaled(kernel: Kernel) -> None:
    kernel.share = 0.5
    found = ProcessCounters()
    assert grown(found.read(), found.read())[1:] == [2e6, 6e6]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (errno.EACCES, "kernel.perf_event_paranoid is"),
        (errno.EPERM, "the seccomp profile of a container must allow perf_event_open"),
        (errno.ENOENT, "the CPU shows no counters"),
        (errno.ENOSYS, "only Linux on x86-64 and aarch64"),
        (errno.EMFILE, "Too many open files"),
    ],
)
def test_a_refusal_is_said_once_and_nothing_is_0(kernel: Kernel, code: int, why: str) -> None:
    kernel.code = code
    with pytest.warns(RecorderWarning) as said:
        found = recorded(counters=True)
    assert [why in str(one.message) for one in said] == [True]
    assert not [name for name in found if "instructions" in name or "cycles" in name]
    assert len(found["forward.cpu_time"]) == 3


def test_a_counter_that_never_ran_records_nothing(kernel: Kernel) -> None:
    kernel.share = 0.0
    assert "forward.instructions" not in recorded(counters=True)


def test_without_counters_nothing_is_opened(kernel: Kernel) -> None:
    assert set(recorded()) == {"step.time", "forward", 'load{kind="a"}'}
    assert kernel.opened == []


def test_a_command_is_counted_from_its_beginning(kernel: Kernel) -> None:
    noted: dict[str, tuple[float, str]] = {}
    with command_cost(lambda name, value, unit: noted.update({name: (value, unit)}), kernel.open):
        finish(Program((sys.executable, "-c", "sum(range(10**6))"), Path.cwd(), {}), 60)
    assert noted["command.instructions"] == (1e6, "count")
    assert noted["command.cycles"] == (3e6, "count")
    assert 0 < noted["command.cpu_time"][0] < 60
    assert [(config, bits & (DISABLED | ON_EXEC | ONLY_THREADS), thread) for config, bits, thread in kernel.opened] == [
        (INSTRUCTIONS, DISABLED | ON_EXEC, 0),
        (CYCLES, DISABLED | ON_EXEC, 0),
    ]


def test_the_real_call_counts_a_command_and_not_this_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A software counter takes the place of the instructions, which virtual machines lack."""

    def task_clock(attributes: bytes, thread: int) -> int:
        bits = struct.unpack_from("=IIQQQQQ", attributes)[6]
        return real(attributes_of((1, 1), bits), thread)

    real: Callable[[bytes, int], int] = counters.perf_event_open
    if (refusal := real(attributes_of((1, 1), 0), 0)) < 0:
        pytest.skip(f"no software counters here: {os.strerror(-refusal)}")
    os.close(refusal)
    noted: dict[str, float] = {}
    with command_cost(lambda name, value, unit: noted.update({name: value}), task_clock):
        sum(range(10**6))  # before the command, so it does not count
        finish(Program((sys.executable, "-c", "sum(range(3 * 10**6))"), Path.cwd(), {}), 60)
    assert noted["command.instructions"] / 1e9 == pytest.approx(noted["command.cpu_time"], rel=0.3)


def test_counters_here_do_not_fail() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "step.cpu_time" in recorded(counters=True)
