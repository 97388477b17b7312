"""Chrome traces that are damaged, absurd, enormous or full of secrets: never a traceback, never a silent pass."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import errors, said
from trace_comparison import EXACT, differences, run_of
from trace_oracle import answers
from trace_texts import traces

from perfgate.readers.torch_trace.chunks import Buffer
from perfgate.readers.torch_trace.trace_file import TraceFile

SECRET = "hf_" + "x" * 31
OP = '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1100, "dur": 50, "args": {}}'
HEAD = '{"schemaVersion": 1, "traceEvents": [\n'
TAIL = "\n]}"


def event(**fields):
    return json.dumps({**json.loads(OP), **fields})


def step(number):
    return event(cat="user_annotation", name=f"ProfilerStep#{number}", ts=1000 + 2000 * number, dur=1500)


STEPS = [step(number) for number in range(4)]


def trace(*events, head=HEAD, tail=TAIL):
    """Two steps, these events, and two more steps, an event a line: the first of the events is on line 4."""
    return head + ",\n".join([*STEPS[:2], *events, *STEPS[2:]]) + tail


def read(text):
    data = text.encode() if isinstance(text, str) else text
    return run_of("trace.json", data, "corrected")


def step_times(run):
    return [round(1e6 * x) for s in run.series if s.key.metric == "step.time" for x in s.values.tolist()]


#: Events whose time cannot be: what they measured is missing, and that is an error of their line.
IMPOSSIBLE = {
    "no start": '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "dur": 50}',
    "start null": event(ts=None),
    "start NaN": OP.replace("1100", "NaN"),
    "start bare nan": OP.replace("1100", "nan"),
    "start infinite": OP.replace("1100", "Infinity"),
    "start beyond any clock": OP.replace("1100", "1e300"),
    "start of 400 digits": OP.replace("1100", "1" * 400),
    "start text": event(ts="soon"),
    "start a list": event(ts=[1]),
    "duration NaN": OP.replace("50", "NaN"),
    "duration negative": OP.replace("50", "-50"),
    "duration of an age": OP.replace("50", "1e300"),
    "duration text": event(dur="long"),
}


@pytest.mark.parametrize("line", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_time_that_cannot_be_is_an_error_of_its_line(line):
    run = read(trace(line))
    assert step_times(run) == [1500] * 4
    assert [problem.at.line for problem in run.problems if problem.severity == "error"] == [4]
    assert all("aten::mm" not in series.key.metric for series in run.series)


#: What no metric needs may be anything.
HARMLESS = {
    "infinite bandwidth": OP.replace("{}", '{"memory bandwidth (GB/s)": inf}'),
    "arguments a list": event(args=[1, {"a": []}]),
    "arguments null": event(args=None),
    "correlation a list": event(args={"correlation": [1], "External id": {"a": 1}}),
    "correlation text": event(args={"correlation": "7", "External id": ""}),
    "correlation enormous": OP.replace("{}", '{"correlation": 18446744073709551615, "stream": -1e400}'),
    "thread a list": event(tid=[1], pid={"a": 1}),
    "arguments 900 deep": OP.replace("{}", '{"a": ' + "[" * 900 + "]" * 900 + "}"),
    "one name twice": OP.replace('"dur": 50', '"dur": 7, "dur": 50'),
    "Windows path": OP.replace("{}", r'{"path": "C:\cuda\_init_.py"}'),
    "control characters": OP.replace("{}", '{"code": "a\n\tb\x01"}'),
}


@pytest.mark.parametrize("line", HARMLESS.values(), ids=HARMLESS)
def test_what_no_metric_needs_may_be_anything(line):
    run = read(trace(line))
    assert step_times(run) == [1500] * 4
    assert [round(1e6 * s.values[0]) for s in run.series if s.key.metric == "op.aten::mm"] == [50]


#: Elements that are no events at all.
STRANGE = ("null", "7", '"text"', "[]", "{}", "[[[{}]]]", '{"ph": 7, "name": {}, "cat": []}', '{"ph": "X"}')


@pytest.mark.parametrize("line", STRANGE)
def test_what_is_no_event_takes_nothing_with_it(line):
    run = read(trace(line, OP))
    assert step_times(run) == [1500] * 4
    assert any(series.key.metric == "op.aten::mm" for series in run.series)


ENORMOUS = {
    "nesting": lambda: OP.replace("{}", '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"),
    "nesting that never ends": lambda: OP.replace("{}}", '{"a": ' + "[" * 100_000),
    "text": lambda: event(args={"Call stack": "x" * 5_000_000}),
    "text of brackets": lambda: event(args={"Call stack": '}, {"]}' * 300_000}),
    "arguments": lambda: event(args={f"argument {i}": i for i in range(100_000)}),
    "blanks": lambda: OP + " " * 5_000_000,
    "line ends": lambda: OP + "\n" * 500_000,
    "events without anything": lambda: ",".join(["{}"] * 300_000),
    "names": lambda: ",".join(event(name=f"op {i}") for i in range(20_000)),
}


def kernel(at, name="k", **args):
    return event(cat="kernel", name=name, ts=1100 + at, dur=1, args={"device": 0, "stream": 7, **args})


TOO_MANY = {
    "devices": ([kernel(at, device=at) for at in range(300)], "error", "more than 256 devices"),
    "devices with memory": (
        [
            event(ph="i", cat="cpu_instant_event", name="[memory]", args={"Total Allocated": 1, "Device Id": at})
            for at in range(600)
        ],
        "error",
        "more than 256 devices",
    ),
    "collectives": (
        [kernel(at, "ncclDevKernel", **{"Collective name": f"c{at}"}) for at in range(5001)],
        "warning",
        "5001 names of collectives: rules can use only those with the most time",
    ),
    "letters of a name": ([kernel(0, "k" * 8193)], "warning", "names of kernels are longer than 8192 characters"),
}


@pytest.mark.parametrize(("events", "severity", "message"), TOO_MANY.values(), ids=TOO_MANY)
def test_what_is_too_much_for_rules_to_name_is_said(events, severity, message):
    found = [problem for problem in read(trace(*events)).problems if message in problem.message]
    assert [problem.severity for problem in found] == [severity]


@pytest.mark.parametrize("made", ENORMOUS.values(), ids=ENORMOUS)
def test_enormous_events_are_read_or_said(made):
    run = read(trace(made()))
    assert step_times(run) == [1500] * 4 or errors(run)


def test_the_events_may_come_last_behind_an_enormous_header():
    environment = json.dumps({f"VARIABLE_{i}": '"traceEvents": [' + "{" * 90 for i in range(30_000)})
    run = read(
        trace(OP, head=f'{{"schemaVersion": 1, "deviceProperties": [], "metadata": {environment}, "traceEvents": [')
    )
    assert step_times(run) == [1500] * 4
    assert not errors(run)


LEAKY = {
    "header": trace(
        head=f'{{"metadata": {{"env": {{"HF_TOKEN": "{SECRET}"}}}}, "HF_TOKEN": "{SECRET}", "traceEvents": ['
    ),
    "trailer": trace(tail=f'], "env": "{SECRET}", "distributedInfo": {{"rank": 0, "token": "{SECRET}"}}}}'),
    "damaged header": trace(head=f'{{"env": "HF_TOKEN="{SECRET}"", "traceEvents": ['),
    "cut trailer": trace(tail=f'], "env": "HF_TOKEN={SECRET}'),
    "argument": trace(event(args={"Call stack": SECRET, "correlation": SECRET})),
    "damaged event": trace(OP.replace("{}", f'{{"env": "HF_TOKEN="{SECRET}"}}')),
    "cut event": trace(tail=',\n{"ph": "X", "args": {"env": "' + SECRET),
    "time": trace(event(ts=SECRET)),
    "duration": trace(event(dur=SECRET)),
    "phase": trace(event(ph=SECRET)),
    "process name": trace(event(ph="M", name="process_name", args={"name": SECRET})),
    "no event": trace(f'"{SECRET}"'),
    "rank": trace(tail=f'], "distributedInfo": {{"rank": "{SECRET}", "world_size": "{SECRET}"}}}}'),
    "no trace at all": f'{{"traceEvents": {{"a": "{SECRET}"}}}}',
}


@pytest.mark.parametrize("text", LEAKY.values(), ids=LEAKY)
def test_secrets_of_a_trace_stay_in_it(text):
    run = read(text)
    assert SECRET[:12] not in repr(run)


#: Documents that begin like a trace and measure nothing.
EMPTY = ('{"traceEvents": []}', '{"traceEvents": null}', '{"traceEvents": 7}', '{"traceEvents": [', HEAD, HEAD + "7]}")


@pytest.mark.parametrize("text", EMPTY)
def test_a_trace_of_nothing_is_an_error(text):
    run = read(text)
    assert run.series == ()
    assert errors(run)


def test_peaks_of_known_devices_grow_beside_too_many_devices():
    events = [
        event(cat="cpu_instant_event", name="[memory]", ph="i", args={"Device Type": 1, "Device Id": device} | totals)
        for device, size in [*((number, 5) for number in range(600)), (3, 9)]
        for totals in [{"Total Allocated": size, "Total Reserved": size}]
    ]
    peaks = {str(series.key): series.values.tolist() for series in read(trace(*events)).series}
    assert peaks['memory.peak_allocated{device="3"}'] == [9]


def test_a_trace_stays_broken_after_a_second_list():
    text = '{"traceEvents": [' + OP.replace("50", "nan") + '], "traceEvents": []}'
    file = TraceFile(Buffer(iter([text.encode()])))
    assert [*file.chunks()]
    assert file.broken


def test_a_cut_gzip_is_an_error_and_what_came_before_it_is_read():
    data = gzip.compress(trace(*[event(name=f"op {i}", ts=i * 7 % 1009) for i in range(5000)]).encode())
    run = read(data[: len(data) * 3 // 4])
    assert step_times(run) == [1500] * 2
    assert errors(run)


@given(traces(), st.data())
def test_a_cut_trace_is_an_error_and_what_came_before_the_cut_is_read(text, data):
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    run = run_of("trace.json", cut.encode(), "corrected")
    assert errors(run)
    try:
        expected = answers(cut.encode())["corrected"]
    except ValueError:  # no event is whole
        assert run.series == ()
    else:
        assert [line for line in differences(run, expected, EXACT) if "rank" not in line and "world" not in line] == []


@given(traces(), st.data())
def test_no_damage_ends_in_a_traceback(text, data):
    damaged = bytearray(text.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    run = run_of("trace.json", bytes(damaged), "corrected")
    assert run.series or errors(run), said(run)


def test_events_around_a_broken_one_keep_their_threads():
    """The call tree has the calls of another thread under that thread, also where the text is repaired."""
    text = trace(*(event(name=f"aten::op{at}", tid=at % 2, ts=3000 + 60 * at) for at in range(9)))
    (sound,) = read(text).call_trees
    (repaired,) = read(text.replace('}},\n{"ph"', '}}\n{"ph"', 1)).call_trees
    assert "(other threads)" in {node.name for node in sound.nodes}
    assert [node.name for node in repaired.nodes] == [node.name for node in sound.nodes]
