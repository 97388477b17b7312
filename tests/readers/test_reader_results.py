import json
from importlib.resources import files

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import errors, run_of, runs_of, steps_of, values_of

from perfgate.core.units import UNITS

SCHEMA = json.loads(files("perfgate").joinpath("schemas/results.schema.json").read_text(encoding="utf-8"))
VALUES = {"metric": "a", "unit": "s", "values": [1.0, 2.0]}


def document(**fields):
    return {"schema": "perfgate.results/1", **fields}


def series(**fields):
    return document(series=[{**VALUES, **fields}])


def without(field, **fields):
    return document(series=[{name: value for name, value in {**VALUES, **fields}.items() if name != field}])


ACCEPTED = [
    *SCHEMA["examples"],
    series(),
    series(labels={"rank": "0"}, steps=[3, 4]),
    series(labels={"metric": "x", "cls": "y"}),
    series(values=[1, 2]),
    without("values", value=3),
    without("values", unit="%", value=-3.5),
    without("values", aggregate={"mean": 1, "count": 3, "total": 3.0, "min": 1, "max": 1, "median": 1, "stddev": 0}),
    document(runs=[{"series": [VALUES]}, {"series": [VALUES], "commit": "abc", "environment": {"gpu": "H200"}}]),
    document(series=[VALUES], commit=None, environment={"a": 1, "b": 1.5, "c": True, "d": "x"}),
    *(series(unit=unit) for unit in ("1", *UNITS)),
]
REFUSED = [
    {},
    [],
    3,
    document(),
    document(series=[]),
    document(runs=[]),
    document(series=[VALUES], runs=[{"series": [VALUES]}]),
    document(runs=[{"series": [VALUES]}], commit="abc"),
    {**series(), "schema": "perfgate.results/2"},
    {"series": [VALUES]},
    document(series=[VALUES], comit="abc"),
    document(series=[VALUES], commit=3),
    document(series=[VALUES], environment={"gpu": None}),
    document(series=[VALUES], environment={"gpu": ["a"]}),
    document(series=[VALUES], environment={"": 1}),
    document(series=[3]),
    document(series={"a": VALUES}),
    without("metric"),
    without("unit"),
    without("values"),
    series(metric=""),
    series(metric=3),
    series(unit="mss"),
    series(unit=None),
    series(value=3),
    series(values=None),
    series(values=[]),
    series(values=["1"]),
    series(values=[True]),
    series(values=[None]),
    series(labels={"rank": 0}),
    series(labels={"": "0"}),
    series(steps=[-1, 2]),
    series(steps=[1.5, 2]),
    series(steps=[2**63, 2]),
    series(valuess=[1]),
    without("values", value="3"),
    without("values", value=3, steps=[1]),
    without("values", value=3, steps=[]),
    without("values", aggregate={}),
    without("values", aggregate={"men": 1}),
    without("values", aggregate={"mean": "1"}),
    without("values", aggregate={"mean": 1, "count": 1.5}),
    without("values", aggregate={"mean": 1, "count": -1}),
]


@pytest.mark.parametrize("written", ACCEPTED, ids=json.dumps)
def test_schema_and_reader_accept(written):
    jsonschema.Draft7Validator(SCHEMA).validate(written)
    for run in runs_of(json.dumps(written), "perfgate"):
        assert not run.problems
        assert run.series


@pytest.mark.parametrize("written", REFUSED, ids=json.dumps)
def test_schema_and_reader_refuse(written):
    assert not jsonschema.Draft7Validator(SCHEMA).is_valid(written)
    assert any(errors(run) for run in runs_of(json.dumps(written), "perfgate"))


def test_every_field_of_the_schema_is_described_with_an_example():
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    definitions = SCHEMA["definitions"]
    for owner in (SCHEMA, *definitions.values()):
        for name, field in owner["properties"].items():
            shown = definitions[field["$ref"].rpartition("/")[2]] if "$ref" in field else field
            assert shown["description"].endswith("."), name
            assert shown["examples"], name


def test_values_are_in_base_units():
    (run,) = runs_of(json.dumps(series(unit="ms", values=[7.89, 0])))
    assert (run.series[0].unit, run.series[0].kind, values_of(run)) == ("s", "samples", {"a": [7.89 / 1000, 0.0]})
    assert values_of(run_of(json.dumps(without("values", unit="GiB", value=2)))) == {"a": [2.0 * 2**30]}
    assert values_of(run_of(json.dumps(series(unit="%", values=[50])))) == {"a": [0.5]}


def test_a_number_that_is_too_large_in_base_units_is_no_warning_of_numpy():
    huge = {"metric": "rate", "unit": "GB/s", "values": [1e308, 1.0]}
    assert values_of(run_of(json.dumps(document(series=[huge])))) == {"rate": [float("inf"), 1e9]}


def test_aggregates_keep_their_count():
    run = run_of(json.dumps(without("values", unit="ms", aggregate={"mean": 200, "count": 40})))
    assert run.series[0].aggregate == {"mean": 0.2, "count": 40.0}
    assert (run.series[0].kind, run.series[0].values.size) == ("aggregate", 0)


def test_runs_commits_and_environments():
    first, second = runs_of(
        json.dumps(
            document(runs=[{"series": [VALUES], "commit": "abc"}, {"series": [VALUES], "environment": {"gpu": "H200"}}])
        )
    )
    assert (first.part, first.commit, first.environment) == (1, "abc", {})
    assert (second.part, second.commit, second.environment) == (2, None, {"gpu": "H200"})


def test_values_that_cannot_be_true_are_left_out_with_their_steps():
    run = run_of(
        '{"schema": "perfgate.results/1", "series": [{"metric": "a", "unit": "s", "steps": [1, 2, 3, 4],\n'
        '"values": [1.0, NaN,\n  1e999, -2]}]}'
    )
    assert (values_of(run), steps_of(run)) == ({"a": [1.0]}, {"a": [1]})
    assert [(problem.at.line, problem.at.column, str(problem.key)) for problem in run.problems] == [
        (2, 17, "a"),
        (3, 3, "a"),
        (3, 10, "a"),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"metric": "a", "unit": "s", "vales": [1]}', ":2:39: error: unknown field 'vales'; did you mean 'values'?"),
        ('{"metric": "a", "unit": "s", "values": [1, "x"]}', ":2:44: error: an item of 'values' is text, not a number"),
        ('{"metric": "a", "unit": "mss", "values": [1]}', ":2:25: error: unknown unit 'mss'; did you mean 'ms'?"),
        ('{"metric": "a", "unit": "s", "values": [1], "steps": [1, 2]}', ":2:1: error: a: 2 steps for 1 values"),
        (
            '{"metric": "a", "unit": "s", "unit": "s", "value": 1}',
            ":2:38: error: the key 'unit' occurs twice; the last one counts",
        ),
    ],
)
def test_problems_have_a_place(text, problem):
    whole = '{"schema": "perfgate.results/1", "series": [\n' + text + ',\n{"metric": "b", "unit": "s", "value": 1}]}'
    run = run_of(whole)
    assert errors(run) == ["train.log" + problem]
    assert "b" in values_of(run)


def test_duplicate_series_are_an_error():
    run = run_of(json.dumps(document(series=[VALUES, {**VALUES, "values": [9]}])))
    assert values_of(run) == {"a": [1.0, 2.0]}
    assert "a: occurs twice; using the first" in errors(run)[0]


@given(
    written=st.dictionaries(
        st.text(min_size=1, max_size=5), st.lists(st.floats(0, 1e300), min_size=1, max_size=9), min_size=1, max_size=5
    )
)
def test_what_is_written_is_read(written):
    text = json.dumps(
        document(series=[{"metric": name, "unit": "s", "values": each} for name, each in written.items()])
    )
    run = run_of(text)
    assert {series.key.metric: series.values.tolist() for series in run.series} == written
    assert not run.problems
