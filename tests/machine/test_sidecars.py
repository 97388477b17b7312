"""Measurements of the machine are read together with the results, and rules can name them."""

import json
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from conftest import steady, write_rules

FIXTURES = Path(__file__).parent / "fixtures"

MACHINE = {
    "schema": "perfgate.results/1",
    "environment": {"host": "node7"},
    "series": [
        {"metric": "clock.sm", "labels": {"device": "0"}, "unit": "MHz", "values": [1980] * 60 + [1755] * 60},
        {"metric": "machine.energy", "labels": {"device": "0"}, "unit": "J", "value": 900.0},
        {"metric": "machine.energy", "labels": {"device": "1"}, "unit": "J", "value": 600.0},
        {"metric": "loss", "unit": "1", "value": 3.0},
    ],
}


@pytest.fixture
def results(folder):
    document = {
        "schema": "perfgate.results/1",
        "series": [{"metric": "step.time", "unit": "s", "values": [0.1, 0.11, 0.1, 0.12, 0.1]}],
    }
    (folder / "results.json").write_text(json.dumps(document))
    (folder / "results.json.machine").write_text(json.dumps(MACHINE))
    return folder / "results.json"


def test_the_file_beside_the_results_is_part_of_the_run(results, perfgate):
    done = perfgate("inspect", "--json", "results.json")
    (run,) = json.loads(done.out)["runs"]
    found = {one["metric"] for one in run["series"]}
    assert found == {"step.time", "clock.sm", "machine.energy", "energy.step"}
    assert run["environment"]["host"] == "node7"
    assert "300 J" in perfgate("inspect", "results.json").out  # 1,500 J in 5 steps


def test_rules_name_the_machine(results, perfgate):
    write_rules(results.parent, "clock.sm min over 1800 MHz", "energy.step at most 0.1 Wh")
    done = perfgate("check", "results.json")
    assert done.code == 1
    assert "1755 MHz" in done.out
    assert "0.08333 Wh" in done.out


@pytest.mark.parametrize("damage", ["", "garbage", '{"schema": "perfgate.results/1", "series": ['])
@pytest.mark.parametrize(("rule", "code"), [("within 10% of baseline", 3), ("under 1 s", 0)])
def test_a_damaged_file_counts_if_a_change_needs_it_and_the_base_has_it(results, perfgate, damage, rule, code):
    """A faster clock that nobody sees could hide a regression."""
    write_rules(results.parent, f"step.time {rule}")
    names = [f"results{number}.json" for number in range(4)]
    for seed, name in enumerate(names):
        series = {"metric": "step.time", "unit": "s", "values": steady(0.1, seed=seed)}
        results.with_name(name).write_text(json.dumps({"schema": "perfgate.results/1", "series": [series]}))
        results.with_name(f"{name}.machine").write_text(json.dumps(MACHINE))
    assert perfgate("baseline", "approve", *names[:3], "--reason", "first").code == 0
    assert perfgate("check", names[3]).code == 0
    results.with_name(f"{names[3]}.machine").write_text(damage)
    done = perfgate("check", names[3])
    says = "the base has the metrics of the machine: measure again" in " ".join(done.out.split())
    assert (done.code, says) == (code, code == 3), done.said


def test_a_damaged_file_is_a_warning(results, perfgate):
    (results.parent / "results.json.machine").write_text('{"schema": "perfgate.results/1", "series": [')
    write_rules(results.parent, "step.time median under 1 s")
    done = perfgate("check", "results.json")
    assert done.code == 0
    assert "results.json.machine" in done.out + done.err


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [6e307, 1e308, -1e308])
def test_readings_that_overflow_are_left_out(results, perfgate, value):
    """Three runs with such a mean overflow, too."""
    names = [("clock.sm", "1/s"), ("machine.cpu.steal", "1"), ("machine.energy", "J"), ("power", "W")]
    rows = [{"metric": name, "unit": unit, "values": [value] * 4} for name, unit in names]
    machine = json.dumps({"schema": "perfgate.results/1", "series": rows})
    for i in range(4):
        values = steady(0.1 if i < 3 else 0.2, seed=i)
        row = {"metric": "step.time", "unit": "s", "values": values}
        Path(f"{i}.json").write_text(json.dumps({"schema": "perfgate.results/1", "series": [row]}))
        Path(f"{i}.json.machine").write_text(machine)
    write_rules(results.parent, "step.time within 5% of baseline")
    assert perfgate("baseline", "approve", "0.json", "1.json", "2.json", "--reason", "first").code == 0
    done = perfgate("check", "3.json", "--strict", "--html", "report.html")
    assert done.code == 1, done.said


def test_record_keeps_the_results_and_the_exit_code(folder, perfgate):
    program = "import sys; open('out.json', 'w').write('{}'); sys.exit(7)"
    done = perfgate("record", "--results", "out.json", "--", sys.executable, "-c", program)
    assert done.code == 7
    assert "out.json.machine" in done.err
    assert (folder / "out.json.machine").exists()
    again = perfgate("record", "--results", "out.json", "--", sys.executable, "-c", program)
    assert again.code == 2
    assert "out.json.machine exists" in again.err


def test_a_command_without_results_does_not_block_the_next_try(folder, perfgate):
    done = perfgate("record", "--results", "out.json", "--", "no-such-program")
    assert (done.code, "no-such-program cannot be started" in done.err) == (3, True)
    assert not (folder / "out.json.machine").exists()
    done = perfgate("record", "--results", "out.json", "--", sys.executable, "-c", "pass")
    assert done.code == 3
    assert "out.json: the command ended with exit code 0 and did not write this file or folder" in done.err
    assert "remove out.json.machine before the next try" in done.err


def test_a_real_gpu_shows_its_power_cap(folder, perfgate):
    """A run on an H100 whose power cap held its clock down; `fixtures/make.py` recorded it."""
    for name in ("h100.json", "h100.json.machine"):
        shutil.copy(FIXTURES / name, folder / name)
    write_rules(
        folder, "clock.sm median over 1900 MHz", "machine.gpu.throttled.power mean under 5%", "power max under 700 W"
    )
    done = perfgate("check", "h100.json", "--json", "r.json")
    assert done.code == 1
    verdicts = json.loads((folder / "r.json").read_text())["verdicts"]
    assert [one["outcome"] for one in verdicts] == ["fail", "undecided", "pass"]
    (run,) = json.loads(perfgate("inspect", "--json", "h100.json").out)["runs"]
    known = {one["metric"]: one for one in run["series"]}
    assert known["clock.sm"]["statistics"]["min"] > 1e9  # an idle GPU does not count
    assert 1 < known["energy.step"]["statistics"]["value"] < 20


def test_record_says_that_a_signal_killed_the_command_as_a_shell_does(folder, perfgate):
    program = "import os; open('out.json', 'w').write('{}'); os.kill(os.getpid(), 9)"
    assert perfgate("record", "--results", "out.json", "--", sys.executable, "-c", program).code == 137


def test_record_says_that_nothing_was_sampled(folder, perfgate, monkeypatch):
    monkeypatch.setattr("perfgate.commands.record.sampled", lambda results: nullcontext(lambda *noted: None))
    program = "open('out.json', 'w').write('{}')"
    done = perfgate("record", "--results", "out.json", "--", sys.executable, "-c", program)
    assert done.code == 0
    assert "warning: no metrics of the machine" in done.err
