"""The page shows what the machine did under the step plot, on the same axis: only what moved, in few points."""

import json
import math

import pytest
from conftest import write_rules
from lxml import html

from perfgate.core.details import MachineChannel, MachineTrace
from perfgate.reporters.html.machine_strips import machine_plots

STEPS, WINDOWS = 200, 900


def write_run(folder, name, *, clock=1980.0, steal=0.0, elapsed=True):
    """A run of 200 steps of 0.1 s that begin 5 s after the sampler, whose clock falls to `clock` at step 100."""
    times = [0.1 * (1980 / clock if step >= 100 else 1) + 0.001 * (step % 3) for step in range(STEPS)]
    series = [{"metric": "step.time", "unit": "s", "values": times}]
    if elapsed:
        marks = [round(5 + sum(times[:step]), 4) for step in range(0, STEPS, 10)]
        series.append({"metric": "machine.elapsed", "unit": "s", "values": marks, "steps": list(range(0, STEPS, 10))})
    at = [30 * window for window in range(WINDOWS)]  # ms
    clocks = [1980.0 + window % 4 if ms < 15_000 else clock + window % 4 for window, ms in enumerate(at)]
    machine = [
        {"metric": "clock.sm", "labels": {"device": "0"}, "unit": "MHz", "values": [1980.0] * WINDOWS, "steps": at},
        {"metric": "clock.sm", "labels": {"device": "1"}, "unit": "MHz", "values": clocks, "steps": at},
        {"metric": "power", "labels": {"device": "1"}, "unit": "W", "values": [600.0] * WINDOWS, "steps": at},
        {"metric": "machine.cpu.steal", "unit": "%", "values": [steal] * WINDOWS, "steps": at},
        {"metric": "machine.pressure.io", "unit": "%", "values": [0.1] * WINDOWS, "steps": at},
    ]
    for path, rows in ((name, series), (name + ".machine", machine)):
        (folder / path).write_text(json.dumps({"schema": "perfgate.results/1", "series": rows}))


@pytest.fixture
def compared(folder, perfgate):
    """The page and the report of a comparison of two runs."""

    def compare(rule="step.time mean within 2% of baseline", base=None, **new):
        write_run(folder, "base.json", **(base or {}))
        write_run(folder, "new.json", **new)
        write_rules(folder, rule)
        perfgate("baseline", "approve", "base.json", "--reason", "first")
        perfgate("check", "new.json", "--html", "page.html", "--json", "r.json")
        report = json.loads((folder / "r.json").read_text())
        return html.fromstring((folder / "page.html").read_text()), report["evidence"].get("machine", [])

    return compare


def quantities(page):
    return [" ".join(p.text_content().split()) for p in page.xpath("//div[@class='quantity']/p")]


def test_a_clock_that_fell_is_under_the_step_plot(compared):
    page, channels = compared(clock=1782.0)
    assert quantities(page) == [
        "SM clock device 1 of 2 base 1982 MHz new 1894 MHz",
        "power device 1 base 600 W new 600 W",
    ]
    [figure] = page.xpath("//figure[.//div[@class='machine']]")
    assert "Step by step" in figure.text_content()
    assert "The machine in the same steps" in figure.text_content()
    [clock] = [one for one in channels if one["metric"] == "clock.sm"]
    trace = next(run for run in clock["runs"] if run["standing"] == "new")
    fell = next(step for step, value in zip(trace["steps"], trace["values"], strict=True) if value < 1.8e9)
    assert 99 <= fell <= 102

    # What a screen reader says.
    [picture, _] = page.xpath("//svg[@role='img']")
    assert picture.findtext("title") == "SM clock, device 1 of 2"
    assert picture.findtext("desc") == "The mean of clock.sm: 1982 MHz in the base runs, 1894 MHz in the new runs."


def test_without_the_steps_the_axis_is_the_time_and_few_points_keep_the_ends(compared):
    page, channels = compared(clock=1782.0, elapsed=False)
    points = [sum(len(run["values"]) for run in one["runs"]) for one in channels]
    assert max(points) <= 300
    values = [value for run in channels[0]["runs"] for value in run["values"]]
    assert (min(values), max(values)) == (1.782e9, 1.983e9)

    [figure] = page.xpath("//figure[.//div[@class='machine']]")
    assert "The machine meanwhile" in figure.text_content()
    assert "seconds since the start" in figure.text_content()


def test_a_quiet_machine_is_not_shown(compared):
    page, channels = compared()
    assert (channels, page.xpath("//div[@class='machine']")) == ([], [])


def test_steal_of_either_side_is_shown(compared):
    assert quantities(compared(base={"steal": 8.0})[0]) == ["CPU time stolen by the hypervisor base 8% new 0%"]


def test_a_report_without_a_step_plot_has_a_section_of_its_own(compared):
    page, _ = compared("machine.cpu.steal mean under 50%", steal=8.0)
    [section] = page.xpath("//section[h2='The machine']")
    assert "CPU time stolen" in section.text_content()


def test_no_rule_on_the_machine_is_proposed(folder, perfgate):
    write_run(folder, "a.json")
    said = " ".join(perfgate("init", "--without-step", "a.json", "--dry-run").out.split())
    assert "without a rule (what the machine did, which explains the others): machine.elapsed, clock.sm" in said


def test_compare_explains_with_the_machine_and_does_not_judge_it(folder, perfgate):
    """Rising steal is no regression of the code, and 0 % of it in the base no error."""
    write_run(folder, "base.json")
    write_run(folder, "new.json", steal=8.0)
    perfgate("compare", "base.json", "--new", "new.json", "--json", "r.json", "--tolerance", "50%")
    report = json.loads((folder / "r.json").read_text())
    assert [one["metric"] for one in report["verdicts"]] == ["power", "step.time"]
    assert [one["metric"] for one in report["evidence"]["machine"]] == ["machine.cpu.steal"]


def test_the_plot_of_a_channel_has_an_axis_of_time(compared):
    page, _ = compared(rule="clock.sm median over 1900 MHz", clock=1782.0)
    [figure] = page.xpath("//figure[contains(., 'Step by step')]")
    assert "milliseconds since the start" in figure.text_content()


def test_inspect_and_check_show_a_clock_in_hz(folder, perfgate):
    write_run(folder, "run.json", clock=1782.0)
    rows = perfgate("inspect", "run.json").out.splitlines()
    assert "1.893 GHz" in next(row for row in rows if row.startswith('clock.sm{device="1"}'))
    write_rules(folder, 'clock.sm{device="1"} mean within 5% of baseline')
    perfgate("baseline", "approve", "run.json", "--reason", "first")
    assert "1893 → 1893 MHz" in perfgate("check", "run.json").out


def test_a_page_without_a_baseline_has_no_base_in_its_legends(folder, perfgate):
    write_run(folder, "run.json", steal=8.0)
    write_rules(folder, "step.time mean under 1 s")
    perfgate("check", "run.json", "--html", "page.html")
    page = html.fromstring((folder / "page.html").read_text())
    legends = [" ".join(one.text_content().split()) for one in page.xpath("//span[@class='key']")]
    assert [one for one in legends if one.startswith("new")]
    assert not [one for one in legends if "base" in one]


def test_the_lowest_drawn_plot_has_the_numbers_of_the_axis() -> None:
    def channel(metric, *values):
        trace = MachineTrace("a", "new", values[0], (0.0, 1.0, 2.0), values)
        return MachineChannel(metric, {}, "W", (trace,))

    power, nothing = channel("power", 1.0, 2.0, 3.0), channel("nothing", math.inf, math.inf, math.inf)
    for channels in ([power], [power, nothing], [power, power]):
        strips = machine_plots(channels).strips
        assert ["seconds since" in strip.picture for strip in strips] == [False] * (len(strips) - 1) + [True]
