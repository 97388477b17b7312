"""`perfgate doctor --qualify`: simulated machines with known faults, and what a check says beside its verdicts."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from conftest import Done, write_rules, write_run
from machines import written

from perfgate.commands import doctor as command
from perfgate.core import Fact
from perfgate.core.runner import Figure
from perfgate.doctor import qualification as measuring
from perfgate.doctor.qualification import card_probes, host_probe, measure
from perfgate.workspace.runner_facts import CARD_FACTS, host_facts, numa_distance

Command = Callable[..., Done]
FACTS: dict[str, Fact] = {
    "host": "gpu-07",
    "gpu": "H100",
    "pcie_width": 16,
    "power_cap_w": 700,
    "gpu_programs": 0,
    "torch": "2.11.0",
    "cpu": "Xeon",
    "cpu_count": 16,
    "memory_gib": 126,
    "mig": "off",
}
FIGURES = {"memory": Figure(90e9, "B/s"), "memory of GPU 0": Figure(2.9e12, "B/s"), "disk": Figure(1.1e9, "B/s")}


@pytest.fixture
def runner(perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Qualify a machine with these facts and figures, on a day of 2026-01."""
    days = iter(range(1, 30))

    def qualify(
        *words: str,
        facts: dict[str, Fact] | None = None,
        factors: dict[str, float] | None = None,
        used: float | None = None,
    ) -> Done:
        figures = {name: Figure(one.value * (factors or {}).get(name, 1.0), one.unit) for name, one in FIGURES.items()}

        @contextmanager
        def probe(cpus: object) -> Iterator[Callable[[], dict[str, Figure]]]:
            yield lambda: figures

        monkeypatch.setattr(command, "_SECONDS", 0)
        monkeypatch.setattr(command, "_IDLE_S", 0)
        monkeypatch.setattr(command, "used_processors", lambda first, second: used)
        monkeypatch.setattr(command, "host_probe", probe)
        monkeypatch.setattr(command, "load_nvml", lambda: None)
        monkeypatch.setattr(command, "machine_facts", lambda: ({**FACTS, **(facts or {})}, []))
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str(1767225600 + 86400 * next(days)))
        return perfgate("doctor", "--qualify", *words)

    return qualify


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`benchmarks/runners.py`, which simulates machines with noise and faults."""
    path = Path(__file__).parents[2] / "benchmarks" / "runners.py"
    spec = importlib.util.spec_from_file_location("runners_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "runners_benchmark", module)
    spec.loader.exec_module(module)
    return module


def test_simulated_faults_are_named_and_nothing_else(simulation: ModuleType) -> None:
    named = {name: simulation.rate(fault, 3, 40, 5)[0] for name, fault in simulation.FAULTS.items()}
    assert named.pop("no fault") == 0
    assert [name for name, share in named.items() if share < 0.95] == []


def test_a_machine_that_is_what_it_was(runner: Callable[..., Done]) -> None:
    first, second = runner(), runner(factors={"memory": 1.03, "memory of GPU 0": 0.995})
    assert (first.code, second.code) == (0, 0), second.said
    assert "gpu-07 has no earlier qualification\nkept in baselines/_machines/" in first.out
    assert "gpu-07 is what it was on 2026-01-02 (1 qualification)\nkept in " in second.out
    assert "  memory of GPU 0  2.9 TB/s\n" in first.out


def test_what_is_not_what_it_was(runner: Callable[..., Done], folder: Path) -> None:
    runner()
    done = runner("--json", "q.json", facts={"pcie_width": 8, "memory_gib": 125}, factors={"memory of GPU 0": 0.6})
    assert done.code == 3
    assert done.out.endswith(
        "gpu-07 is not what it was on 2026-01-02:\n"
        "  PCIe x8, was x16\n"
        "  memory of GPU 0 1.74 TB/s, was 2.9 TB/s (-40.0%)\n"
        "not kept: find the reason; after a change on purpose, `perfgate doctor --qualify --renew`\n"
    )
    found = json.loads((folder / "q.json").read_text())
    assert (found["exit_code"], found["kept"], len(found["changes"])) == (3, None, 2)
    renewed = runner("--renew", facts={"pcie_width": 8}, factors={"memory of GPU 0": 0.6})
    assert (renewed.code, "kept in " in renewed.out) == (0, True)
    again = runner(facts={"pcie_width": 8}, factors={"memory of GPU 0": 0.6})
    assert (again.code, "is what it was on 2026-01-04 (1 qualification)" in again.out) == (0, True), again.out


def test_a_machine_that_others_use_does_not_qualify(
    runner: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = runner(facts={"gpu_programs": 2})
    assert (done.code, "not kept: other programs use a GPU: end them" in done.out) == (3, True)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    done = runner("--renew", used=1.84)
    assert (done.code, "not kept: other programs use 1.8 of 2 processors: end them" in done.out) == (3, True)
    assert runner(used=0.02).code == 0


def test_a_new_host_is_compared_with_its_kind(runner: Callable[..., Done]) -> None:
    runner()
    runner(facts={"host": "cpu-01", "cpu": "EPYC"})  # of another kind
    done = runner(facts={"host": "gpu-99", "power_cap_w": 500})
    assert (done.code, "gpu-99 is not what 1 machine of this kind is:\n  power cap 500 W, was 700 W" in done.out) == (
        3,
        True,
    )


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, None),
        ({"torch": "2.12.0"}, None),  # what runs there is not the machine
        ({"pcie_width": 8}, "gpu-07 is not what it was on 2026-01-02: PCIe x8, was x16"),
        ({"gpu_programs": 1, "mig": "on"}, "mig on, was off; programs of others on the GPU: 1, was 0"),
        ({"host": "other", "gpu": "A100"}, None),
    ],
)
def test_a_check_names_it_beside_the_verdicts(
    perfgate: Command, runner: Callable[..., Done], folder: Path, facts: dict[str, Fact], said: str | None
) -> None:
    runner()
    write_rules(folder, "forward under 1 s")
    (folder / "env.json").write_text(json.dumps({**FACTS, **facts}))
    run = write_run(folder / "new.json")
    done = perfgate("check", run, "--env", "env.json")
    assert (done.code, "not what it was" in done.said) == (0, said is not None), done.said
    assert said is None or said in " ".join(done.said.split())
    claimed = write_run(folder / "claimed.json", host="gpu-07", pcie_width=8)
    assert "not what it was" not in perfgate("check", claimed).said


def test_a_history_does_not_hide_a_slow_runner(perfgate: Command, runner: Callable[..., Done], folder: Path) -> None:
    runner()
    write_rules(folder, "forward within 5% of baseline")
    (folder / "env.json").write_text(json.dumps({**FACTS, "pcie_width": 8}))
    base, new = (write_run(folder / f"{name}.json", seed=seed) for seed, name in enumerate(("base", "new")))
    assert perfgate("baseline", "approve", base, "--env", "env.json", "--reason", "first").code == 0
    assert perfgate("history", "add", base, "--env", "env.json").code == 0
    assert "not what it was" in perfgate("check", new, "--env", "env.json").said


def test_a_damaged_qualification_is_said(perfgate: Command, runner: Callable[..., Done], folder: Path) -> None:
    runner()
    (path,) = (folder / "baselines/_machines").rglob("*.json")
    path.write_text(path.read_text().replace("16", "32", 1))
    assert "was altered after it was written" in runner().err
    done = perfgate("baseline", "verify")
    assert (done.code, "was altered after it was written" in done.err) == (3, True)


def test_options_that_do_not_fit(perfgate: Command) -> None:
    assert perfgate("doctor", "--renew").err == "error: --renew needs --qualify\n"
    assert perfgate("doctor", "--qualify", "--", "true").err == "error: --qualify takes no COMMAND\n"


class Tensor:
    def __init__(self, card: SimulatedCard, size: int, *, is_here: bool = False) -> None:
        self.card, self.size, self.is_here = card, size, is_here

    def copy_(self, other: Tensor, non_blocking: bool = False) -> None:
        within = not self.is_here and not other.is_here
        self.card.time += 2 * self.size / self.card.memory if within else self.size / self.card.pcie


class SimulatedCard:
    """What a card takes for copies and products, as the functions of torch and pynvml that the probe calls."""

    def __init__(self, memory: float = 2.9e12, pcie: float = 55e9, clock: float = 1755.0) -> None:
        self.memory, self.pcie, self.clock, self.time = memory, pcie, clock, 0.0
        self.uint8 = self.float16 = None
        self.cuda = SimpleNamespace(
            device_count=lambda: 1,
            synchronize=lambda device: None,
            get_device_properties=lambda number: SimpleNamespace(uuid="1-2"),
        )
        self.NVMLError = RuntimeError
        self.nvmlDeviceGetHandleByUUID = {"GPU-1-2": 7}.__getitem__
        self.nvmlDeviceGetClockInfo = lambda handle, kind: {(7, 1): clock}[handle, kind]

    def empty(self, size: int, dtype: object, device: str = "", pin_memory: bool = False) -> Tensor:
        return Tensor(self, size, is_here=pin_memory)

    def randn(self, rows: int, columns: int, dtype: object, device: str) -> Tensor:
        return Tensor(self, rows)

    def mm(self, one: Tensor, other: Tensor, out: Tensor) -> None:
        self.time += 2 * one.size**3 / (4e5 * 1e6 * self.clock)


def test_a_simulated_card_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    card = SimulatedCard()
    monkeypatch.setattr(measuring, "import_module", lambda name: card)
    monkeypatch.setattr(measuring, "perf_counter", lambda: card.time)
    (probe,), why = card_probes(card)
    found = measure([probe], 0, lambda: card.time)
    assert why is None
    assert {name: round(one.value / 1e9) for name, one in found.items()} == {
        "memory of GPU 0": 2900,
        "PCIe to GPU 0": 55,
        "PCIe from GPU 0": 55,
        "matrix product on GPU 0": 702_000,
        "clock under load of GPU 0": 2,
    }


@pytest.mark.parametrize(
    ("error", "said"), [(ImportError(), "that needs torch"), (RuntimeError("CUDA out of memory\nmore"), "CUDA out of")]
)
def test_a_card_that_cannot_be_measured_is_said(monkeypatch: pytest.MonkeyPatch, error: Exception, said: str) -> None:
    def fails(name: str) -> None:
        raise error

    monkeypatch.setattr(measuring, "import_module", fails)
    found, why = card_probes(object())
    assert (found, said in str(why), "\n" in str(why)) == ([], True, False)


def test_a_torch_that_sees_no_card_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "import_module", lambda name: SimpleNamespace(cuda=torch_without_cards))
    torch_without_cards = SimpleNamespace(device_count=lambda: 0)
    found, why = card_probes(object())
    assert (found, "torch sees none" in str(why)) == ([], True)
    assert card_probes(None) == ([], None)


def test_a_disturbed_round_does_not_count() -> None:
    values = iter([100.0, 20.0, 101.0])
    assert measure([lambda: {"memory": Figure(next(values), "B/s")}], 0)["memory"] == Figure(100.0, "B/s")


def test_this_host_is_measured(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_STEPS", 1)
    monkeypatch.setattr(measuring, "_WRITTEN", 1 << 16)
    with host_probe({0}) as probe:
        found = measure([probe], 0)
    assert {name: one.unit for name, one in found.items()} == {
        "one processor": "1/s",
        "all processors": "1/s",
        "memory": "B/s",
        "disk": "B/s",
    }
    assert all(one.value > 0 for one in found.values())
    assert list(folder.iterdir()) == []


def test_facts_of_links_and_memory(tmp_path: Path) -> None:
    root = written(
        tmp_path,
        {
            "proc/meminfo": "MemTotal:       131923204 kB\n",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
            "sys/devices/system/node/node0/cpulist": "0-4095\n",
            "sys/devices/system/node/node0/distance": "10 32\n",
            "sys/devices/system/node/node1/cpulist": "5000,6000-6001\n",
            "sys/devices/system/node/node1/distance": "32 10\n",
            "sys/bus/pci/devices/0000:3b:00.0/numa_node": "1\n",
            "sys/bus/pci/devices/0000:1a:00.0/numa_node": "-1\n",
        },
    )
    assert host_facts(root) == {"governor": "performance", "numa_nodes": 2, "memory_gib": 126}
    assert host_facts(root / "nothing") == {}
    assert [numa_distance(f"00000000:{bus}:00.0", root) for bus in ("3B", "1A", "FF")] == [32, None, None]


def test_an_idle_card_does_not_show_the_speed_of_its_link() -> None:
    def nvml(state: int) -> SimpleNamespace:
        return SimpleNamespace(
            nvmlDeviceGetPerformanceState=lambda device: state, nvmlDeviceGetCurrPcieLinkGeneration=lambda device: 4
        )

    assert [CARD_FACTS["pcie_generation"](nvml(state), 0) for state in (0, 8)] == [4, None]
