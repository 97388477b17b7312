"""The overview page of XProf: one that it made (`fixtures/xprof`), and pages in the form of its source."""

import json

import pytest
from damage import check_changes, check_pieces, check_types
from reading import FIXTURES, errors, run_of, said, steps_of, values_of

PAGE = (FIXTURES / "xprof" / "overview_page.json").read_text()


def test_a_page_of_jax_on_a_cpu():
    run = run_of(PAGE)
    table = json.loads(PAGE)[1]
    names = [column["id"] for column in table["cols"]]
    rows = [[cell["v"] for cell in row["c"]] for row in table["rows"]]
    assert (run.format, said(run), dict(run.environment)) == ("xprof", [], {"gpu": "CPU"})
    assert values_of(run) == {
        f"step.{name}": [row[names.index(column)] / 1000 for row in rows]
        for column, name in (("stepTimeMs", "time"), ("hostComputeTimeMs", "host_compute"), ("otherTimeMs", "other"))
    }
    assert steps_of(run)["step.time"] == [int(row[0].removeprefix("train ")) for row in rows]


def tpu(rows):
    """A TPU has no column for the whole step."""
    analysis = {"cols": [], "rows": [], "p": {"mxu_utilization_percent": "41.5%", "hbm_utilization_percent": "0.0%"}}
    analysis["p"]["flop_rate_utilization_relative_to_roofline"] = "60.0%"
    summary = {"average": "12.2", "standard_deviation": "0.5", "minimum": "11.0", "maximum": "13.5"}
    columns = [{"id": "stepnum"}, {"id": "tcComputeTimeMs"}, {"id": "tcInfeedTimeMs"}, {"id": "tooltip"}]
    steps = {
        "cols": columns,
        "rows": [{"c": [{"v": cell} for cell in row]} for row in rows],
        "p": {f"steptime_ms_{name}": text for name, text in summary.items()},
    }
    return json.dumps([analysis, steps, {"cols": [], "rows": [], "p": {"device_type": "TPU v5e", "host_count": "1"}}])


def test_a_page_of_a_tpu():
    run = run_of(tpu([["5", 10.5, 0.0, "a"], ["6", 11.5, 0.25, "b"]]))
    assert (said(run), dict(run.environment)) == ([], {"gpu": "TPU v5e"})
    assert values_of(run) == {
        "step.tc_compute": [0.0105, 0.0115],
        "step.tc_infeed": [0, 0.00025],
        "mxu_utilization": [0.415],
        "flop_rate_utilization": [0.6],
        "step.time": [],
    }
    (time,) = (series for series in run.series if series.key.metric == "step.time")
    assert dict(time.aggregate) == pytest.approx({"mean": 0.0122, "stddev": 0.0005, "min": 0.011, "max": 0.0135})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (tpu([["5", None, 0.0, "a"]]), "step.tc_compute: null is not a number"),
        (tpu([["5", -1.0, 0.0, "a"]]), "step.tc_compute: -1.0 is negative"),
        (tpu([["5", 1.0, 0.0, "a"]]).replace('"12.2"', '"fast"'), 'step.time: "fast" is not a number'),
    ],
)
def test_pages_with_wrong_numbers(text, problem):
    assert problem in errors(run_of(text))[0]


def test_a_page_without_steps():
    page = json.loads(PAGE)
    page[1]["rows"] = []
    assert "the profile has no step" in errors(run_of(json.dumps(page)))[0]


@pytest.mark.parametrize("name", ["cols", "rows"])
@pytest.mark.parametrize("wrong", [5, {"a": 1}, "x"])
def test_a_table_without_a_list_is_an_error(name, wrong):
    page = json.loads(tpu([["5", 10.5, 0.0, "a"]]))
    page[1][name] = wrong
    assert errors(run_of(json.dumps(page, indent=1)))[0].endswith(f"error: {name!r} is not a list")


def test_damaged_pages():
    check_pieces(tpu([["5", 10.5, 0.0, "a"]]), "xprof")
    check_changes(tpu([["5", 10.5, 0.0, "a"]]), "xprof", times=50)
    check_types(tpu([["5", 10.5, 0.0, "a"]]), "xprof")
