import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import errors, run_of, said, steps_of, values_of

ONE = {"computation": "forward", "times": [0.4, 0.2], "mean_time": 0.3, "profile_steps": 2}
PRINTED = """\
2024-08-11 10:58:05,131 - __main__ - INFO - Running profile for: small
ProfilingResult(
    computation='forward_backward',
    times=[
    │   0.25,
    │   nan,
    │   0.5
    ],
    mean_time=0.26,
    profile_steps=3
)
"""
SOURCE_CODE = """\
class ProfilingResult(BaseModel):
    times: List[float] = Field(..., description="Raw list of measured times")

def profile() -> ProfilingResult:
    return ProfilingResult(
        computation=computation,
        times=times.tolist(),
    )
"""


def test_one_result():
    run = run_of(json.dumps(ONE))
    assert (values_of(run), steps_of(run)) == ({"forward": [0.4, 0.2]}, {"forward": None})
    assert (run.series[0].unit, run.series[0].kind, run.problems) == ("s", "samples", ())


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"small": ONE, "large": ONE}, ['forward{name="small"}', 'forward{name="large"}']),
        ([{**ONE, "name": "small"}, {**ONE, "name": "large"}], ['forward{name="small"}', 'forward{name="large"}']),
        ([ONE, ONE], ['forward{index="0"}', 'forward{index="1"}']),
        ([ONE, {**ONE, "computation": "backward"}], ["forward", "backward"]),
        ({"small": {"times": [1]}}, ["small"]),
        ({"times": [1]}, ["time"]),
        ({"times": ONE}, ['forward{name="times"}']),
        ([{"a": 1}, ONE, 3], ["forward"]),
    ],
)
def test_names(document, expected):
    assert [*values_of(run_of(json.dumps(document, indent=1)))] == expected


def test_a_log_of_results():
    text = "".join(
        f"INFO - Running profile for: {name}\nGPT config: \n{json.dumps({'d_model': 768}, indent=4)}\n"
        f"INFO - Profile result: \n{json.dumps(ONE, indent=4)}\n\n\n"
        for name in ("small", "large")
    )
    run = run_of("nohup: ignoring input\n" + text)
    assert [*values_of(run)] == ['forward{name="small"}', 'forward{name="large"}']
    assert not run.problems


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_unread_numbers_of_each_document_of_a_log_count_once(count):
    (coverage,) = run_of("log\n" + '{"times": [0.4, 0.2], "other_ms": 7.25}\n' * count).coverage
    assert (coverage.read, [(one.name, one.count) for one in coverage.unread]) == (2 * count, [("other_ms", count)])


def test_results_on_one_line_behind_a_prefix():
    run = run_of(f"INFO result: {json.dumps(ONE)}{json.dumps(ONE)}\nINFO ProfilingResult(times=[1.5], n=None)\n")
    assert values_of(run) == {'forward{index="0"}': [0.4, 0.2], 'forward{index="1"}': [0.4, 0.2], "time": [1.5]}


def test_printed_results_and_source_code():
    run = run_of(SOURCE_CODE + PRINTED)
    assert values_of(run) == {'forward_backward{name="small"}': [0.25, 0.5]}
    assert [(problem.at.line, str(problem.key)) for problem in run.problems] == [(14, 'forward_backward{name="small"}')]


def test_printed_results_are_never_evaluated():
    run = run_of("Result(times=[__import__('os').getpid()])\nResult(times=[1.0])\n")
    assert values_of(run) == {"time": [1.0]}


@pytest.mark.parametrize("bad", ["NaN", "Infinity", "-Infinity", "1e999", "-0.5", '"0.1"', "true", "null", "9" * 5000])
@pytest.mark.parametrize("log", [False, True])
def test_times_that_cannot_be_true(bad, log):
    text = '{"computation": "forward",\n "times": [0.1,\n' + bad + ", 0.2]}\n"
    run = run_of("INFO log\n" + text if log else text)
    assert values_of(run) == {"forward": [0.1, 0.2]}
    (problem,) = run.problems
    assert (problem.severity, problem.at.line, str(problem.key)) == ("error", 3 + log, "forward")


@pytest.mark.parametrize("times", ["[]", "{}", "null", "3"])
def test_no_times_is_an_error(times):
    run = run_of('{"computation": "forward", "times": ' + times + "}", "timeit")
    assert any("no measurements" in error for error in errors(run))
    assert run.series == ()


def test_profile_steps_that_do_not_agree_are_a_warning():
    assert said(run_of(json.dumps({**ONE, "profile_steps": 3}))) == [
        "train.log:1: warning: forward: profile_steps is 3, but there are 2 times"
    ]


def test_a_duplicate_key_is_an_error():
    run = run_of('{"computation": "forward",\n"times": [1.0], "times": [2.0]}')
    assert errors(run) == ["train.log:2:26: error: the key 'times' occurs twice; the last one counts"]


def test_a_cut_document_keeps_the_results_before_the_cut():
    text = json.dumps([ONE, {**ONE, "computation": "backward"}])
    run = run_of(text[:-20])
    assert values_of(run) == {"forward": [0.4, 0.2]}
    assert errors(run) == [f"train.log:1:{len(text) - 20 + 1}: error: the JSON document is cut off"]
    assert run.problems[0].key is None


def test_a_cut_log_is_an_error():
    text = "log\n" + json.dumps(ONE, indent=1) + "\n" + json.dumps(ONE, indent=1)[:-9]
    run = run_of(text)
    assert values_of(run) == {"forward": [0.4, 0.2]}
    assert errors(run) == ["train.log:11: error: the document that begins here is cut off at the end of the file"]


def test_a_cut_document_on_one_line_of_a_log_is_an_error():
    for end in range(2, len(json.dumps(ONE)) - 1):
        run = run_of("log\n" + json.dumps(ONE) + "\n" + json.dumps(ONE)[:end], "timeit")
        assert values_of(run) == {"forward": [0.4, 0.2]}
        assert errors(run) == ["train.log:3: error: the document that begins here is cut off at the end of the file"]


def test_a_result_that_is_broken_off_by_a_log_line_is_an_error():
    text = 'log\n{"times": [\n 0.1,\nINFO something\n' + json.dumps(ONE) + "\n"
    run = run_of(text)
    assert values_of(run) == {"forward": [0.4, 0.2]}
    assert errors(run) == ["train.log:2: error: the document that begins here is broken off by another line"]


TIMES = st.lists(st.floats(0, 1e9), min_size=1, max_size=6)
RESULTS = st.dictionaries(st.text(min_size=1, max_size=8), TIMES, min_size=1, max_size=5)


@given(results=RESULTS, indent=st.sampled_from([None, 1]), log=st.booleans())
def test_what_is_written_is_read(results, indent, log):
    text = json.dumps({name: {"computation": "f", "times": times} for name, times in results.items()}, indent=indent)
    run = run_of("started\n" + text + "\n" if log else text)
    assert {series.key.label("name"): series.values.tolist() for series in run.series} == results
    assert not run.problems


DOCUMENT = json.dumps([{"computation": name, "times": [1.25, 10.5, 100.75]} for name in "abcd"], indent=1).encode()
LOG = ("INFO\n" + PRINTED.replace("nan", "12.5") + DOCUMENT.decode()).encode()


@given(data=st.sampled_from([DOCUMENT, LOG]), cut=st.integers(0, len(LOG)))
def test_a_cut_never_changes_a_value(data, cut):
    whole = values_of(run_of(data))
    for key, values in values_of(run_of(data[:cut], "timeit")).items():
        assert values == whole[key]


GOOD = "Result(computation='forward', times=[0.1, 0.1, 0.1, 0.1, 0.1])\n"


@pytest.mark.parametrize(
    "bad",
    [
        "Result(computation='forward', times=[0.1, 1.2.3, 5.0])\n",
        "Result(computation='forward', times=[05, 5.0])\n",
        "Result(computation='forward', times=[9.0, 9.0], times=[0.1, 0.1])\n",
        "Result(computation='forward', times=[1" + "-1" * 600 + "])\n",
    ],
)
def test_a_printed_result_that_cannot_be_read_is_said(bad):
    found = errors(run_of(GOOD + bad))
    assert len(found) == 1
    assert ":2: error" in found[0] or "cannot be read" in found[0]


@pytest.mark.parametrize("member", ['{"computation": "b", "tims": [5.0]}', '{"computation": "b", "times": {"x": 1}}'])
def test_a_result_without_its_times_beside_others_is_said(member):
    document = f'[{{"computation": "a", "times": [0.1, 0.1]}}, {member}]'
    assert any("has no list `times`" in said for said in errors(run_of(document)))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('x\n{"computation": "a",\nWARNING: x\n"times": [0.5]}\nb: {"times": [1]}\n', [2]),
        ('x\n{"computation": "a",\nWARNING: x\n "times": [\n0.5]}\n: {"times": [1]}\n', [2]),
        ('{"times": [1]}\n{"lr": 1,\nWARNING: x\n{"times": [2]}\n', []),
        ('{"times": [1]}\n"times": [2]}\n', []),
    ],
)
def test_a_document_that_is_broken_off_before_its_times_is_an_error(text, lines):
    run = run_of(text, "timeit")
    assert [problem.at.line for problem in run.problems if "broken off" in problem.message] == lines
    assert all(problem.severity == "error" for problem in run.problems)
