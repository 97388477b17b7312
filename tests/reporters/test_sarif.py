"""SARIF: goldens, the standard's form, and results that code scanning can show."""

import json
import re

import jsonschema
import pytest
from any_report import briefly, reports
from goldens import check_golden, without_sentences
from hypothesis import given
from msgspec.structs import replace
from sample_verdicts import ABSENT, FAILED_LIMIT, OPEN
from samples import ALL_PASS, EVERY_OUTCOME, SHORT_REPORTS, WITH_MANY
from sarif_schema import SARIF

from perfgate import __version__
from perfgate.core import Location
from perfgate.reporters.sarif import MOST_RESULTS, render
from perfgate.words import answer

VALIDATOR = jsonschema.Draft7Validator(SARIF)


def run(report):
    document = json.loads(render(report))
    VALIDATOR.validate(document)
    [one] = document["runs"]
    return one


@pytest.mark.parametrize("name", ["every_outcome", "with_causes", "all_pass", "nothing_judged"])
def test_golden(name):
    text = without_sentences(render, SHORT_REPORTS[name])
    check_golden(f"{name}.sarif", text.replace(f'"semanticVersion": "{__version__}"', '"semanticVersion": "VERSION"'))


@pytest.mark.parametrize("report", WITH_MANY.values(), ids=WITH_MANY)
def test_a_result_for_every_verdict_that_does_not_pass_the_worst_first(report):
    news = [verdict for verdict in answer.worst_first(report.verdicts) if answer.needs_attention(verdict)]
    errors = [problem for problem in report.problems if problem.severity == "error"]
    results = run(report)["results"]
    assert [result["ruleId"] for result in results] == [v.rule for v in news] + ["perfgate.problem"] * len(errors)
    for verdict, result in zip(news, results, strict=False):
        assert result == {**run(replace(report, verdicts=(verdict,)))["results"][0], "ruleIndex": result["ruleIndex"]}
    assert len({json.dumps(result["partialFingerprints"]) for result in results}) == len(results)


@briefly
@given(reports)
def test_any_report_is_valid_and_every_result_has_its_rule(report):
    one = run(report)
    rules = one["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in one["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert "](" not in result["message"]["text"]


def test_a_result_stands_at_its_rule():
    [result] = run(replace(ALL_PASS, exit_code=1, outcome="fail", verdicts=(FAILED_LIMIT,)))["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "rules/training.yaml"}, "region": {"startLine": 6, "startColumn": 5}}
    assert (result["ruleId"], result["level"]) == ("allreduce-tail", "error")
    assert result["message"]["text"].startswith(f"fail: {FAILED_LIMIT.message}\nNext: {FAILED_LIMIT.next_step.text}")


@pytest.mark.parametrize(
    ("file", "uri"),
    [("a b.yaml", "a%20b.yaml"), ("/abs", "abs"), ("", "unknown"), ("x\n:y", "x%5Cu000a%3Ay"), ("µ", "%C2%B5")],
)
def test_a_file_of_any_name_is_a_relative_reference(file, uri):
    [result] = run(replace(ALL_PASS, verdicts=(replace(FAILED_LIMIT, at=Location(file)),)))["results"]
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]) == (uri, {"startLine": 1})


def test_what_passes_is_no_result_and_what_does_not_block_a_warning():
    levels = {result["ruleId"]: result["level"] for result in run(EVERY_OUTCOME)["results"]}
    assert "forward p95 under 500 ms" not in levels
    assert levels["peak-memory"] == levels[OPEN.rule] == "warning"
    assert levels["allreduce-tail"] == levels[ABSENT.rule] == levels["perfgate.problem"] == "error"


def test_a_result_keeps_its_identity_when_its_numbers_change():
    other = replace(FAILED_LIMIT, message="another", new=None, member={"rank": "1"})
    prints = [
        run(replace(ALL_PASS, verdicts=(verdict,)))["results"][0]["partialFingerprints"]
        for verdict in (FAILED_LIMIT, other, replace(FAILED_LIMIT, metric="x"))
    ]
    assert prints[0] == prints[1] != prints[2]


def test_failures_of_one_glob_are_alerts_of_their_own():
    """GitHub compares this fingerprint only, and without it makes one from the line, which is that of the rule."""
    failures = [replace(FAILED_LIMIT, metric=f"kernel.k{i}", rule="kernel.* p95 under 50 ms") for i in range(3)]
    results = run(replace(ALL_PASS, verdicts=tuple(failures)))["results"]
    hashes = [result["partialFingerprints"]["primaryLocationLineHash"] for result in results]
    assert all(re.fullmatch(r"[0-9a-f]{16}:1", one) for one in hashes)
    assert len(set(hashes)) == 3
    names = [result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] for result in results]
    assert names == [f'kernel.k{i}{{stage="train"}} p95 on rank 3' for i in range(3)]


def test_the_tool_has_a_version_and_an_address():
    driver = run(ALL_PASS)["tool"]["driver"]
    assert driver["semanticVersion"] == __version__
    assert driver["informationUri"].startswith("https://")


def test_whether_it_could_judge_is_said_of_the_run():
    [invocation] = run(WITH_MANY["nothing_judged"])["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 2)
    [invocation] = run(EVERY_OUTCOME)["invocations"]
    assert invocation["executionSuccessful"]
    assert [note["message"]["text"] for note in invocation["toolExecutionNotifications"]] == ["the last line is cut"]


def test_more_results_than_are_shown_are_counted():
    verdicts = tuple(replace(FAILED_LIMIT, metric=f"m{i}") for i in range(MOST_RESULTS + 3))
    one = run(replace(ALL_PASS, verdicts=verdicts))
    assert len(one["results"]) == MOST_RESULTS
    [note] = one["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"].startswith("3 more")
