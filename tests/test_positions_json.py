import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.core.resource_limits import Limits
from perfgate.documents.json import load_json
from perfgate.documents.json_tokens import cut_back

TEXT = '{"series": [{"values": [1,\n  2, 3],\n "name": "a \\" ]} b"}], "é": {}}'
TOO_DEEP = (
    "lists and objects are nested deeper than the limit depth=64 allows; "
    "to raise the limit, set PERFGATE_LIMITS=depth=128"
)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ((), "f:1:1"),
        (("series",), "f:1:12"),
        (("series", 0, "values", 1), "f:2:3"),
        (("series", 0, "values", 7), "f:1:24"),
        (("series", 0, "name"), "f:3:10"),
        (("é",), "f:3:30"),
        (("absent", 3), "f:1:1"),
    ],
)
def test_locate(path, place):
    assert str(load_json(TEXT, "f").locate(path)) == place


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ('{"a": 1}', []),
        ('{"a": 1,\n "a": {"b": 2}, "a": {"b": 3}}', ["f:2:22: error: the key 'a' occurs twice; the last one counts"]),
        ('[{"a": 1, "\\u0061": 2}]', ["f:1:21: error: the key 'a' occurs twice; the last one counts"]),
        (
            "[1, NaN, -Infinity]",
            ["f:1:5: error: NaN is not a finite number", "f:1:10: error: -Infinity is not a finite number"],
        ),
        ("[" + "9" * 250 + "e99]", ["f:1:2: error: " + "9" * 40 + " is not a finite number"]),
        ("[-1.5E+999]", ["f:1:2: error: -1.5E+999 is not a finite number"]),
        ("[1e999]", ["f:1:2: error: 1e999 is not a finite number"]),
        ("[" + "9" * 5000 + "]", ["f:1:2: error: " + "9" * 40 + " is not a finite number"]),
        ("[1,\n2", ["f:2:2: error: the JSON document is cut off"]),
        ('["a', ["f:1:2: error: the JSON document is cut off"]),
        ("[1 2]", ["f:1:4: error: this is not JSON: Expecting ',' delimiter"]),
        ("[" * 64 + "]" * 64, []),
        ("[" * 65 + "]" * 65, [f"f:1:65: error: {TOO_DEEP}"]),
        ("[" * 200_000, [f"f:1:65: error: {TOO_DEEP}"]),
        ('{"a":' * 100_000, [f"f:1:321: error: {TOO_DEEP}"]),
        ('"\\ud800"', ["f:1:1: error: a string has half a surrogate pair"]),
        ('"\\ud83d\\ude00"', []),
    ],
)
def test_problems(text, problems):
    assert [str(problem) for problem in load_json(text, "f").problems] == problems


def test_many_faults_are_counted():
    problems = load_json(json.dumps([math.nan] * 50), "f").problems
    assert len(problems) == 21
    assert "and 30 more" in problems[-1].message


def test_faults_know_their_paths():
    assert [fault.path for fault in load_json('{"a": [1, NaN]}', "f").faults] == [("a", 1)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def paths(data, path=()):
    yield path, data
    members = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, member in members:
        yield from paths(member, (*path, key))


@given(data=JSON, indent=st.sampled_from([None, 1]))
def test_every_value_is_found_where_it_stands(data, indent):
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    document = load_json(text, "f")
    assert (document.data, document.problems) == (data, ())
    lines = text.split("\n")
    for path, value in paths(data):
        at = document.locate(path)
        rest = "\n".join([lines[at.line - 1][at.column - 1 :], *lines[at.line :]])
        assert json.JSONDecoder().raw_decode(rest)[0] == value


@pytest.mark.parametrize(
    ("text", "fits"), [('[{"a": 1}, []]', True), ('[["[[{{\\"[", {}]]', True), ("[{}, {}, {}]", False)]
)
def test_brackets_in_strings_are_no_lists(text: str, *, fits: bool) -> None:
    document = load_json(text, "f", Limits(containers=3))
    assert (document.data == json.loads(text)) == fits
    assert fits or "has more lists and objects than the limit containers=3" in document.problems[0].message


@given(data=st.lists(JSON, max_size=5), cut=st.integers(0, 200))
def test_cut_documents_keep_whole_members(data, cut):
    text = json.dumps(data)
    kept = cut_back(text[:cut])
    if kept is not None:
        found = load_json(kept, "f").data
        assert found is None or found == data[: len(found)]


@given(text=st.text(alphabet='[]{}",:\\ 1eN\nnult', max_size=60))
def test_nothing_raises(text):
    document = load_json(text, "f")
    document.locate(("a", 0))
    cut_back(text)
