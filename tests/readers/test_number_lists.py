"""Lists of numbers in results, decoded by type: the same values and problems as reading a document item by item."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import run_of, runs_of, said, steps_of

from perfgate.core.resource_limits import Limits
from perfgate.readers import Source, read
from perfgate.readers import recorded as results
from perfgate.readers.recorded import number_lists

ODD = ("NaN", "-Infinity", "1e999", "-2", "-0", "-0.0", "01", "1.", ".5", "+1", "true", "null", '"1"', "[1]", "{}", "")
ODD += ("1E5", "9007199254740993", "1" + "0" * 250, "9" * 400, "1e-400", "18446744073709551616", "2.5", "\u0661")
NUMBERS = st.one_of(
    st.floats(0, 1e6).map(repr), st.floats(0, 1e-300).map(repr), st.integers(0, 2**64).map(str), st.sampled_from(ODD)
)
LISTS = st.lists(NUMBERS, min_size=1, max_size=9).map(", \n".join)
NAMES = st.sampled_from(["a", "b", '\\"values\\": [1', 'x\\\\"values', "\\u0041", "values", "\\ud800"])


def everything(text: str, *, by_type: bool) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(number_lists, "_PIECE", 4)
        if not by_type:
            patch.setattr(results, "without_lists", lambda text: None)
        return [
            (
                [(str(one.key), one.unit, one.kind, one.values.tobytes(), one.aggregate) for one in run.series],
                steps_of(run),
                said(run),
                run.commit,
            )
            for run in runs_of(text, "perfgate")
        ]


@st.composite
def documents(draw):
    """Results with lists of any kind, some of them with a damaged letter or two."""
    series = draw(st.lists(st.tuples(NAMES, LISTS, st.none() | LISTS), min_size=1, max_size=3))
    unit, seed = draw(st.sampled_from(["s", "ms", "B", "1"])), draw(st.integers(0, 99))
    rows = [
        f'{{"metric": "{name}", "unit": "{unit}", "values" : [{values}]' + (f', "steps": [{steps}]' if steps else "")
        for name, values, steps in series
    ]
    text = '{"schema": "perfgate.results/1",\n "series": [' + "},\n ".join(rows) + "}]}"
    rng = random.Random(seed)
    for _ in range(seed % 3):
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice('",:[]{}1.- \\') + text[at + rng.randrange(3) :]
    return text


@given(documents())
def test_a_document_is_read_as_if_item_by_item(text):
    assert everything(text, by_type=True) == everything(text, by_type=False)


@pytest.mark.parametrize(
    "text",
    [
        '"values": [1, 2], "values": [3]',
        '"values": [1, 2], "value": 3',
        '"values": [], "steps": []',
        '"values": [1, 2], "steps": []',
        '"values": [1, 2], "steps": [1]',
        '"values": [1, 2], "steps": [1.0, 2]',
        '"values": [1, 2], "steps": [-1, 2]',
        '"values": [1, 2], "steps": [9223372036854775807, 9223372036854775808]',
        '"\\u0076alues": [0, 1]',
        '"value\\u0073": [0, 1], "steps": [7, 8]',
        '"values": [1, 2], "labels": {"values": "x"}',
        '"values": [1, 2], "labels": {"values": [1]}',
        '"values": [1, 2], "lables": {}',
        '"values": [1,, 2]',
        '"values": [1, 2,]',
        '"values": [,1]',
        '"values": [1 2]',
        '"values": [1, 2',
        '"values": [1,\u00a02]',
    ],
)
def test_odd_series(text):
    document = '{"schema": "perfgate.results/1", "series": [{"metric": "a", "unit": "s", ' + text + "}]}"
    assert everything(document, by_type=True) == everything(document, by_type=False)


def test_a_usual_document_has_only_its_numbers_decoded_by_type(monkeypatch):
    monkeypatch.setattr(number_lists, "_PIECE", 50)
    values, steps = [at / 7 for at in range(100)], [*range(100, 200)]
    row = {"metric": "a", "unit": "ms", "values": values, "steps": steps}
    found = number_lists.without_lists(json.dumps({"schema": "perfgate.results/1", "series": [row]}))
    assert found is not None
    rest, lists = found
    assert json.loads(rest)["series"] == [row | {"values": [0], "steps": [1]}]
    assert [one.tolist() for one in lists] == [values, steps]


def test_a_fault_in_a_long_list_has_its_place(monkeypatch):
    monkeypatch.setattr(number_lists, "_PIECE", 50)
    lines = ",\n".join("-1.5" if at == 70 else "1.5" for at in range(100))
    run = run_of(
        '{"schema": "perfgate.results/1", "series": [{"metric": "a", "unit": "s", "values": [\n' + lines + "]}]}"
    )
    assert len(run.series[0].values) == 99
    assert said(run) == ["train.log:72:1: error: a: -1.5 is negative, so it is not a measurement; left out"]


def test_a_document_beyond_the_limit_says_how_to_record_less():
    text = '{"schema": "perfgate.results/1", "series": [{"metric": "a", "unit": "s", "values": [' + "1.5, " * 1000
    (run,) = read(Source("results.json", [text.encode()], Limits(document_bytes=1024)))
    assert said(run)[0] == (
        "results.json: error: this document is larger than the limit document_bytes=1KiB allows; to raise the limit, "
        "set PERFGATE_LIMITS=document_bytes=2KiB (reading needs five times as much memory), or record fewer values: "
        "every tenth step, or an `aggregate`"
    )
