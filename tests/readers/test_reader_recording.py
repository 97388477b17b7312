"""Recordings that were not closed: whole lines are read, whatever is the matter with others."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import errors, run_of, said, steps_of, values_of

HEAD = '{"schema":"perfgate.recording/1","environment":{"gpu":"H200"},"commit":"4f2a9c1"}\n'
FORWARD = '{"metric":"forward","labels":{"rank":"0"},"unit":"ms","values":[361.0,362],"steps":[0,1]}\n'
MORE = '{"metric":"forward","labels":{"rank":"0"},"unit":"ms","values":[363],"steps":[2]}\n'
NOT_CLOSED = (
    "train.log: warning: the recording was not closed: the program ended early, could not write, or is still running; "
    "what it wrote so far is read"
)


def test_pieces_of_a_series_follow_each_other():
    run = run_of(HEAD + FORWARD + MORE)
    assert (run.format, run.commit, run.environment) == ("recording", "4f2a9c1", {"gpu": "H200"})
    assert values_of(run) == {'forward{rank="0"}': [0.361, 0.362, 0.363]}
    assert steps_of(run) == {'forward{rank="0"}': [0, 1, 2]}
    assert run.series[0].unit == "s"
    assert said(run) == [NOT_CLOSED]


def test_a_line_cut_short_is_what_killing_leaves():
    run = run_of(HEAD + FORWARD + MORE[:50])
    assert values_of(run) == {'forward{rank="0"}': [0.361, 0.362]}
    assert said(run) == [NOT_CLOSED]


def test_a_closed_recording_is_whole():
    assert said(run_of(HEAD + FORWARD + '{"closed":true}\n')) == []


def test_of_single_values_and_facts_the_last_counts():
    value = '{"metric":"memory.peak","unit":"KiB","value":%d}\n'
    run = run_of(HEAD + value % 1 + value % 3 + '{"environment":{"gpu":"H100","torch":"2.13"}}\n')
    assert values_of(run) == {"memory.peak": [3072.0]}
    assert run.series[0].kind == "value"
    assert run.environment == {"gpu": "H100", "torch": "2.13"}


def test_a_series_recorded_in_step_0_alone_has_no_steps():
    run = run_of(HEAD + '{"metric":"a","unit":"1","values":[1,2]}\n')
    assert steps_of(run) == {"a": None}
    assert steps_of(run_of(HEAD + '{"metric":"a","unit":"1","values":[1,2]}\n' + MORE.replace("forward", "b"))) == {
        "a": None,
        'b{rank="0"}': [2],
    }


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"metric":"a","unit":"s","values":[NaN]}', "a: nan s is not a measurement; left out"),
        ('{"metric":"a","unit":"s","values":[-1]}', "a: -1.0 s is not a measurement; left out"),
        ('{"metric":"a","unit":"s","value":-1}', "a: -1.0 s is not a measurement; left out"),
        ('{"metric":"a","unit":"mss","values":[1]}', "a series has an unknown unit: 'mss'"),
        ('{"metric":"a","unit":"s","vales":[1]}', "a series cannot be read: Object contains unknown field 'vales'"),
        ('{"metric":"a","unit":"s","values":[1],"steps":[1,2]}', "a series has no values, or another number of"),
        ('{"metric":"a","unit":"s"}', "a series has no values, or another number of steps"),
        ('{"metric":"a","unit":"s","values":[1,}', "a line cannot be read: this is not JSON"),
        ("[1, 2]", "a line cannot be read: this is not a JSON object"),
        ('{"opened": true}', "a line is not part of a recording"),
        ('{"environment": {"gpu": ["H200"]}}', "a fact is not a text, number or truth value"),
    ],
)
def test_problems_have_a_line_and_reading_goes_on(line, problem):
    run = run_of(HEAD + line + "\n" + FORWARD + '{"closed":true}\n')
    assert len(errors(run)) == 1
    assert errors(run)[0].startswith(f"train.log:2: error: {problem}")
    assert values_of(run) == {'forward{rank="0"}': [0.361, 0.362]}


def test_a_later_version_is_refused_by_name():
    run = run_of(HEAD.replace("/1", "/2") + FORWARD)
    assert errors(run) == [
        "train.log:1: error: the schema 'perfgate.recording/2' is unknown; perfgate reads 'perfgate.recording/1'"
    ]


def test_without_values_there_are_no_measurements():
    assert any("no measurements" in text for text in errors(run_of(HEAD)))


@given(cut=st.integers(0, len(HEAD + FORWARD + MORE)), values=st.lists(st.floats(0, 1e9), min_size=1, max_size=5))
def test_any_cut_is_said_and_what_is_read_was_written(cut, values):
    more = json.dumps({"metric": "a", "unit": "s", "values": values}) + "\n"
    whole = HEAD + FORWARD + MORE + more
    run = run_of(whole[: len(HEAD) + cut])
    assert NOT_CLOSED in said(run)
    assert not [text for text in errors(run) if "no measurements" not in text]
    assert values_of(run).get("a", values) == values
