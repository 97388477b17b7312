"""JUnit XML: goldens, the strict schema, other readers, and files that no consumer takes for green."""

from pathlib import Path

import pytest
from any_report import briefly, reports
from goldens import check_golden, without_sentences
from hypothesis import given
from junitparser import JUnitXml
from lxml import etree
from msgspec.structs import replace
from sample_verdicts import ABSENT, FAILED_LIMIT, OPEN, SUSPECT, limit
from samples import ALL_PASS, EVERY_OUTCOME, SHORT_REPORTS, WITH_MANY

from perfgate.core import Location, Problem
from perfgate.reporters.junit import LONGEST_BODY, render
from perfgate.words import answer

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).with_name("junit10.xsd")))


def parsed(report, **options):
    root = etree.fromstring(render(report, **options).encode())
    SCHEMA.assertValid(root)
    return root


def cases(report, **options):
    return {case.get("name"): case for case in parsed(report, **options).iter("testcase")}


@pytest.mark.parametrize("name", ["every_outcome", "with_causes", "learned", "all_pass", "nothing_judged"])
def test_golden(name):
    check_golden(f"{name}.xml", without_sentences(render, SHORT_REPORTS[name]))


@pytest.mark.parametrize("name", WITH_MANY)
def test_samples_are_valid(name):
    parsed(WITH_MANY[name])


@briefly
@given(reports)
def test_any_text_gives_a_valid_file_with_one_result_a_case(report):
    root = parsed(report)
    names = [case.get("name") for case in root.iter("testcase")]
    assert len(names) == len(set(names)) >= 1
    assert all(len(case) <= 1 for case in root.iter("testcase"))
    assert len({case.get("classname") for case in root.iter("testcase")}) == 1
    JUnitXml.fromstring(render(report).encode())


@briefly
@given(reports)
def test_no_file_is_greener_than_the_exit_code(report):
    root = parsed(report)
    if report.exit_code:
        assert int(root.get("failures")) + int(root.get("errors")) > 0


MAPPING = [
    # verdict                                         child         type
    (limit(), "system-out", None),
    (FAILED_LIMIT, "failure", "perfgate.limit"),
    (replace(FAILED_LIMIT, kind="change"), "failure", "perfgate.regression"),
    (replace(FAILED_LIMIT, exit_code=0, severity="warning"), "skipped", "skipped"),
    (SUSPECT, "error", "perfgate.undecided"),
    (replace(SUSPECT, exit_code=0), "skipped", "skipped"),
    (OPEN, "skipped", "skipped"),
    (replace(OPEN, exit_code=3), "error", "perfgate.undecided"),
    (ABSENT, "error", "perfgate.metric_absent"),
    (limit(outcome="skipped", message="not here"), "skipped", "skipped"),
]


@pytest.mark.parametrize(("verdict", "child", "kind"), MAPPING)
def test_what_each_outcome_becomes(verdict, child, kind):
    report = replace(ALL_PASS, verdicts=(verdict,), exit_code=verdict.exit_code)
    [case] = cases(report).values()
    assert [element.tag for element in case] == ([child] if child else [])
    head = "warning, does not block: " if answer.is_warning(verdict) else ""
    assert case[0].get("type") == kind
    assert case[0].get("message") == (f"{head}{verdict.message}" if kind else None)
    assert case[0].text.startswith(f"{head}{verdict.message}")


def test_a_pass_has_its_evidence():
    [case] = cases(replace(ALL_PASS, verdicts=(limit(),))).values()
    lines = case.findtext("system-out").split("\n")
    assert "measured: 448 ms [442.1, 455]" in lines
    assert "allowed: under 500 ms" in lines
    assert "data: 1664 values in 1 run (effective sample size 612), 95% confidence" in lines


def test_another_reader_counts_the_same():
    [suite] = JUnitXml.fromstring(render(EVERY_OUTCOME).encode())
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (21, 3, 4, 3)
    properties = {prop.name: prop.value for prop in suite.properties()}
    assert properties["perfgate.warnings"] == "2"
    assert properties["environment.gpu"] == "NVIDIA H200"


def test_the_class_is_the_suite_and_the_environment():
    hostile = replace(ALL_PASS, suite="../a b", baseline="x/N\nVIDIA/1")
    assert {case.get("classname") for case in cases(hostile).values()} == {"perfgate..._a_b.N_VIDIA"}
    fresh = replace(ALL_PASS, baseline=None)
    assert {case.get("classname") for case in cases(fresh).values()} == {"perfgate.gpt-small.no-environment"}


def test_equal_names_are_numbered_in_the_order_of_the_rules():
    report = replace(
        ALL_PASS, verdicts=(limit(), replace(FAILED_LIMIT, rule=limit().rule, metric="forward", labels={}))
    )
    assert list(cases(report)) == ["forward p95 under 500 ms: forward #2", "forward p95 under 500 ms: forward"]


def test_problems_that_no_verdict_speaks_of_have_a_case():
    broken = Problem("error", "the document is cut", Location("a.json", 3))
    assert "perfgate.run" in cases(replace(ALL_PASS, exit_code=3, problems=(broken,)))
    assert "perfgate.run" not in cases(replace(ALL_PASS, problems=(broken,)))
    assert "perfgate.run" in cases(replace(ALL_PASS, verdicts=(), exit_code=3))


def test_a_report_that_judged_nothing_and_found_no_error_has_a_case_that_passes():
    (case,) = cases(replace(ALL_PASS, verdicts=())).values()
    assert [child.tag for child in case] == ["system-out"]


def test_hostile_strings_stay_readable():
    nasty = "\ud800 \x00 \ufffe ]]> \"' <b> \n"
    report = replace(EVERY_OUTCOME, verdicts=(replace(FAILED_LIMIT, message=nasty, metric=nasty),), problems=())
    [case] = cases(report).values()
    assert case[0].get("message") == "\\ud800 \\u0000 \\ufffe ]]> \"' <b> \\u000a"
    assert "\\ufffe ]]> \"' <b>" in case.get("name")
    assert case[0].text.startswith("\\ud800 \\u0000")


def test_a_long_body_is_cut_and_says_so():
    [case] = cases(replace(ALL_PASS, exit_code=1, verdicts=(replace(FAILED_LIMIT, message="µ" * 20_000),))).values()
    assert len(case[0].text.encode()) <= LONGEST_BODY
    assert "bytes in all" in case[0].text


def test_the_properties_count_for_the_limit_of_a_file():
    facts = {f"fact{i}": "x" * 400 for i in range(100)}
    report = replace(ALL_PASS, environment=facts, verdicts=tuple(limit(metric=f"m{i}") for i in range(300)))
    assert 80_000 < len(render(report, limit=100_000).encode()) <= 100_000


@pytest.mark.parametrize(("bad", "child"), [(0, "system-out"), (90, "error")])
def test_a_large_file_is_cut_and_keeps_its_totals(bad, child):
    verdicts = tuple(replace(FAILED_LIMIT, metric=f"m{i}") for i in range(bad))
    verdicts += tuple(limit(metric=f"m{i}") for i in range(bad, 200))
    report = replace(ALL_PASS, verdicts=verdicts, exit_code=1 if bad else 0)
    text = render(report, limit=20_000)
    assert len(text.encode()) <= 20_000
    kept = cases(report, limit=20_000)
    *_, last = kept
    assert last == f"{200 - len(kept) + 1} more omitted"
    assert kept[last][0].tag == child
    assert (parsed(report, limit=20_000).get("tests"), parsed(report, limit=20_000).get("failures")) == (
        "200",
        str(bad),
    )
