"""`perfgate doctor` on machines from files, with known floors in place of the clock: one golden text a machine."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import Done, steady, write_results, write_rules
from machines import BARE, BUSY, QUIET, TIMES, written

from perfgate.commands import doctor as command
from perfgate.core.summaries import Floor, MeasuredLoad, RuleNeed
from perfgate.doctor import loads as known_loads
from perfgate.doctor.command import CommandPlan, CommandRuns, _rounds, measure_command
from perfgate.doctor.disturbances import disturbances, examine_cards, quietest_cpu, snapshot
from perfgate.doctor.loads import floor_of_pairs, floor_of_runs, floors_of, needed_floor
from perfgate.measuring.programs import RunFailed
from perfgate.reporters.doctor import _need
from perfgate.workspace.inputs import read_runs

GOLDEN = Path(__file__).parent / "golden"
Command = Callable[..., Done]


class NVMLError(Exception):
    pass


def nvml(**answers: object) -> SimpleNamespace:
    """A stand-in with one GPU; a function that is missing here is missing in the library."""
    functions = {f"nvmlDeviceGet{name}": (lambda *given, value=value: value) for name, value in answers.items()}
    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda number: number,
        **functions,
    )


BUSY_CARD = nvml(
    MaxClockInfo=1980,
    DefaultApplicationsClock=1410,
    ComputeRunningProcesses=[SimpleNamespace(pid=4711)],
    CurrentClocksEventReasons=(1 << 2) + (1 << 6),
)


def wandering(size: float, runs: int = 8) -> list[float]:
    """Values that differ by about this size."""
    return [1 + size * wave for wave in (1, -0.7, 0.2, -1.3, 0.9, -0.4, 1.1, -0.8)[:runs]]


def loads(size: float, cpu: int | None) -> list[MeasuredLoad]:
    pairs = wandering(0.1 * size), wandering(0)
    floors = floors_of(wandering(size), wandering(0.8 * size) if cpu is not None else (), wandering(0.3 * size), pairs)
    rough = floors_of(wandering(2 * size), (), wandering(2 * size), ((), ()))
    return [MeasuredLoad("a loop of Python", floors), MeasuredLoad("copies of memory", rough)]


def runs_of_command(folder: Path, size: float) -> CommandRuns:
    """Runs of a program whose steps differ by this size from run to run, and by a tenth of it from side to side."""

    def made(name: str, sizes: list[float]) -> list[object]:
        paths = [
            write_results(
                folder / f"{name}-{number}.json",
                {"metric": "step.time", "unit": "s", "values": steady(0.1 * one, n=40, spread=1e-4)},
                {"metric": "forward", "unit": "s", "values": steady(0.03 * one**0.01, n=40, spread=1e-4)},
            )
            for number, one in enumerate(sizes)
        ]
        return [run for path in paths for run in read_runs([str(path)])]

    found = CommandRuns(made("run", wandering(size)), made("pin", wandering(size)))  # type: ignore[arg-type]
    found.base, found.new = made("base", wandering(size)), made("new", wandering(0.9 * size))  # type: ignore[assignment]
    found.costs = {"command.time": wandering(size), "command.cpu_time": wandering(0.1 * size)}
    return found


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path) -> Callable[..., None]:
    """Make `perfgate doctor` see a machine, and floors of this size."""

    def become(states: list[dict[str, str]], size: float, card: object = None) -> None:
        snapshots = [snapshot(written(tmp_path / str(n), one), TIMES[n]) for n, one in enumerate(states)]
        monkeypatch.setattr(command, "snapshot", lambda root, now: snapshots.pop(0))
        real = command.disturbances
        monkeypatch.setattr(command, "disturbances", lambda root, *given: real(tmp_path / "2", *given))
        monkeypatch.setattr(command, "allowed_cpus", lambda: frozenset({0, 1}))
        monkeypatch.setattr(command, "_IDLE_S", 0)
        monkeypatch.setattr(command, "measure_loads", lambda seconds, cpu: loads(size, cpu))
        monkeypatch.setattr(command, "measure_command", lambda *given: runs_of_command(tmp_path, size))
        monkeypatch.setattr(command, "examine_cards", lambda: [] if card is None else examine_cards(card))
        monkeypatch.setattr(command, "head_commit", lambda: "4f2a9c1" if card else None)

    return become


def golden(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; UPDATE_GOLDEN=1 writes it anew"


RULES = ("step.time within 2% of baseline", "forward within 10% of baseline", "memory.peak within 1% of baseline")


@pytest.mark.parametrize(
    ("name", "states", "size", "card", "rules", "words", "code"),
    [
        ("quiet", QUIET, 0.005, None, RULES, (), 0),
        ("busy", BUSY, 0.05, None, RULES, (), 3),
        ("command", BUSY, 0.05, BUSY_CARD, RULES[:2], ("--", "python", "train.py", "{results}"), 3),
        ("no-such-metric", QUIET, 0.005, None, ("loss within 2% of baseline",), ("--", "python", "train.py"), 3),
        ("bare", BARE, 0.005, None, (), (), 0),
    ],
)
def test_the_text_of_a_machine(
    perfgate: Command,
    folder: Path,
    machine: Callable[..., None],
    name: str,
    states: list[dict[str, str]],
    size: float,
    card: object,
    rules: tuple[str, ...],
    words: tuple[str, ...],
    code: int,
) -> None:
    if rules:
        write_rules(folder, *rules)
    machine(states, size, card)
    done = perfgate("doctor", "--json", "found.json", *words)
    golden(name, done.out)
    assert done.code == code
    found = json.loads((folder / "found.json").read_text())
    assert (found["schema"], found["exit_code"]) == ("perfgate.doctor/1", code)
    assert all(not one["command"] or "COMMAND" not in one["command"] for one in found["disturbances"])


def test_a_floor_that_is_missed_by_little_looks_so() -> None:
    need = RuleNeed("step.time within 2% of baseline", "r.yaml:4:5", 0.0128, Floor("separate", 0.0131, 5), "step.time")
    assert "needs a noise floor of 1.28%; step.time has 1.31% on" in _need(need)


def test_rules_with_mistakes_are_refused_before_anything_is_measured(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "step.time inside 2% of baseline")
    done = perfgate("doctor")
    assert done.code == 2
    assert "rules/rules.yaml:" in done.err


def test_a_command_that_fails_is_said(
    perfgate: Command, machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(QUIET, 0.005)
    monkeypatch.setattr(command, "measure_command", measure_command)
    done = perfgate("doctor", "--time", "5s", "--", "false")
    assert done.code == 3
    assert "the examination ended early: the command ended with exit code 1" in done.err


def test_a_program_that_does_not_exist_is_said_before_anything_is_measured(perfgate: Command) -> None:
    done = perfgate("doctor", "--", "nopython", "train.py")
    assert (done.code, done.out) == (3, "")
    assert done.err == "error: nopython cannot be started: no such program was found\n"


def test_the_proposed_time_is_enough() -> None:
    with pytest.raises(RunFailed, match="`--time 2s` measures its noise"):  # 4 runs of 0.3 s
        _rounds(CommandPlan(("x",), seconds=1.1), 0.3, CommandRuns())
    notes = CommandRuns()
    _rounds(CommandPlan(("x",), seconds=10), 0.64, notes)
    assert "they need `--time 11s`" in notes.notes[0]  # 16 runs of 0.64 s


def test_a_command_is_measured_in_every_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program prints its result in a line, and takes no turns."""
    monkeypatch.setattr("perfgate.doctor.command._MOST_ROUNDS", 4)
    program = "import json; print(json.dumps({'schema': 'perfgate.results/1', 'series': [%s]}))"
    series = "{'metric': 'step.time', 'unit': 's', 'values': [1.0, 1.1, 1.2, 1.3, 1.4]}"
    words = (sys.executable, "-I", "-S", "-c", program % series)
    found = measure_command(CommandPlan(words, seconds=20), folder / "kept", min(os.sched_getaffinity(0)))
    assert (len(found.separate), len(found.pinned), found.base) == (4, 4, [])
    assert found.notes == ["no pairs were measured: the program makes no step of a perfgate.Recorder"]
    assert [floor.way for floor in found.load("step.time").floors] == ["separate", "pinned", "three-runs"]
    assert [floor.way for floor in found.whole().floors] == ["separate", "cpu-time", "three-runs"]


def test_the_known_loads_are_measured_in_every_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_loads, "LOADS", {"loop": "a loop of Python"})
    monkeypatch.setattr(known_loads, "STEPS", 2)
    ticks = iter(range(100))
    (found,) = known_loads.measure_loads(0, min(os.sched_getaffinity(0)), clock=lambda: next(ticks))
    assert [floor.way for floor in found.floors] == ["separate", "pinned", "cpu-time", "three-runs", "pairs"]
    assert all(floor.noise > 0 and floor.runs == 4 for floor in found.floors)


def test_floors() -> None:
    runs = floor_of_runs("separate", [1.0, 1.02, 0.98, 1.01, 0.99])
    assert runs is not None
    assert runs.noise == pytest.approx(0.0158 * (1 + 1 / 5) ** 0.5, rel=0.01)
    pairs = floor_of_pairs([1.0, 2.0, 3.0, 4.0], [1.01, 1.98, 3.03, 3.96])
    assert pairs is not None
    assert pairs.noise == pytest.approx(0.0115 / 6**0.5, rel=0.02)
    assert floor_of_runs("separate", [1.0, 1.0, 1.0]) is None
    assert needed_floor(0.04, 0.95, 0.8) == pytest.approx(0.0127, rel=0.02)


def test_pinned_runs_use_the_processor_that_others_use_least(tmp_path: Path) -> None:
    first, second = (snapshot(written(tmp_path / str(n), BUSY[n]), TIMES[n]) for n in (0, 1))
    assert quietest_cpu(first, second, {0, 1}) == 0
    assert quietest_cpu(first, first, {0, 1}) == 1
    assert quietest_cpu(first, second, {7}) is None


def test_a_driver_that_fails_is_unknown() -> None:
    broken = nvml()
    broken.nvmlInit = lambda: (_ for _ in ()).throw(NVMLError("driver not loaded"))
    (found,) = examine_cards(broken)
    assert (found.is_unknown, found.text) == (True, "NVML failed: driver not loaded")


COUNTERS = (
    *("proc/stat", "proc/loadavg", "proc/pressure/cpu", "proc/7/stat", "proc/self/cgroup", "sys/fs/cgroup/cpu.stat"),
    *("sys/fs/cgroup/cpu.max", "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    *("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "sys/devices/system/cpu/cpufreq/boost"),
)
CONTENTS = (
    *("\n", "nan", "-1", "9" * 5000, "1 " * 9999, "max 0", "cpu 1 1\n", f"cpu{'9' * 5000} 1 1 1 1 1 1 1 1\n"),
    *(f"cpu {'9' * 400} 1 1 1 1 1 1 1\n", "some total=nan", "some total=", "throttled_usec", "throttled_usec 1e999"),
    "::error::x\n\x1b[2J##vso[x]",
)


@pytest.mark.parametrize("content", CONTENTS, ids=lambda text: text[:20])
@pytest.mark.parametrize("counter", COUNTERS)
def test_a_counter_of_another_form_is_unknown(tmp_path: Path, counter: str, content: str) -> None:
    first = snapshot(written(tmp_path, {counter: content}), 0.0)
    last = snapshot(tmp_path, 1.0)
    for one in disturbances(tmp_path, (first, last), last, 2, None):
        assert not re.search(r"\b(?:nan|inf)(?:%| of)", one.text)
