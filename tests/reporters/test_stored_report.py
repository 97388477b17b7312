"""Stored reports read back: exactly what was written, and nothing that was not."""

import json
from collections import Counter
from pathlib import Path

import pytest
from any_report import briefly, reports
from hypothesis import given
from msgspec.structs import replace
from samples import EVERY_OUTCOME, MANY, REPORTS

from perfgate.core.causes import Cause, CauseReport
from perfgate.core.verdicts import verdict_ids
from perfgate.reporters import json_report
from perfgate.reporters.plain_json import stable
from perfgate.reporters.stored_report import LONGEST_TEXT, MAX_BYTES, read


@pytest.mark.parametrize("report", [*REPORTS.values(), MANY])
def test_a_report_comes_back_as_it_was(report):
    found, problems = read(json_report.render(report).encode(), "r.json")
    assert problems == []
    assert found == report


def test_a_report_of_an_earlier_version_is_read():
    """`report-1.json` is an old report, with the messages of its time. Never write it anew."""
    text = Path(__file__).with_name("report-1.json").read_text(encoding="utf-8")
    found, problems = read(text.encode(), "report-1.json")
    assert problems == []
    assert found is not None
    assert [verdict.rule for verdict in found.verdicts] == ["allreduce-tail"]
    assert [run.judged for run in found.details.verdicts[0].runs] == [True, False]
    rounded = json.loads(text, parse_float=lambda digits: stable(float(digits)))  # it has all digits
    assert json.loads(json_report.render(found)) == rounded


OLDER = Path(__file__).with_name("report-2.json").read_text(encoding="utf-8")


def older(*path, to):
    """The JSON of a report of an earlier version with one value changed."""
    return changed(OLDER, *path, to=to)


def test_outcomes_of_an_earlier_version_are_those_of_today():
    """`report-2.json` has a suspect limit, an inconclusive one, and one with `on_inconclusive: error`."""
    found, problems = read(OLDER.encode(), "report-2.json")
    assert problems == []
    assert found is not None
    assert [(one.outcome, one.suspect) for one in found.verdicts] == [
        ("undecided", True),
        ("pass", False),
        ("undecided", False),
    ]
    assert (found.outcome, found.counts) == ("undecided", {"undecided": 2, "pass": 1})


OLD_VERDICTS = [
    # what an old verdict states                                          how it is read
    ({"exit_code": 0}, "pass"),
    ({"exit_code": 1}, "fail"),
    ({"exit_code": 3}, "undecided"),
    ({"exit_code": 2}, "undecided"),  # forged: no inconclusive verdict had it
    ({"exit_code": 0, "reason": "cannot-exclude"}, "undecided"),
    ({"exit_code": 0, "reason": "noise-unknown"}, "undecided"),
    ({"exit_code": 0, "reason": "thin-tail"}, "pass"),
    ({"exit_code": 0, "outcome": "suspect"}, "undecided"),
]


@pytest.mark.parametrize(("fields", "outcome"), OLD_VERDICTS)
def test_an_old_outcome_never_becomes_better(fields, outcome):
    document = json.loads(OLDER)
    document["verdicts"][1].update(fields)
    document["counts"] = Counter(one["outcome"] for one in document["verdicts"])
    found, problems = read(json.dumps(document).encode(), "r.json")
    assert problems == []
    assert found is not None
    assert found.verdicts[1].outcome == outcome


def test_old_counts_are_compared_with_old_outcomes():
    _, [problem] = read(older("counts", to={"undecided": 2, "pass": 1}), "r.json")
    assert "the report was altered" in problem.message


def test_a_problem_outranks_an_open_answer_of_an_old_report():
    found, _ = read(older("problems", to=json.loads(WHOLE)["problems"]), "r.json")
    assert found is not None
    assert found.outcome == "error"


def test_an_old_outcome_of_the_working_tree_is_left_open():
    found, _ = read(older("policy", "own_outcome", to="inconclusive"), "r.json")
    assert found is not None
    assert found.policy.own_outcome == "undecided"


@briefly
@given(reports)
def test_any_report_gives_the_same_bytes_again(report):
    text = json_report.render(report)
    found, problems = read(text.encode(), "r.json")
    assert problems == []
    assert found is not None
    assert json_report.render(found) == text


def edited(*path, to):
    """The JSON of a report with one value changed."""
    return changed(json_report.render(EVERY_OUTCOME), *path, to=to)


def changed(text, *path, to):
    """The JSON document with one value changed."""
    document = json.loads(text)
    *parents, last = path
    target = document
    for part in parents:
        target = target[part]
    target[last] = to
    return json.dumps(document).encode()


WHOLE = json_report.render(EVERY_OUTCOME).encode()
REFUSED = [
    # what is stored                                      what is said of it
    (b"", "the JSON document is cut off"),
    (WHOLE[: len(WHOLE) // 2], "the JSON document is cut off"),
    (b"[]", "has no schema"),
    (b"{}", "has no schema"),
    (b'{"schema": "perfgate.inspect/1"}', "has the schema 'perfgate.inspect/1'"),
    (b'{"schema": {"perfgate.report/1": 1}}', "has the schema"),
    (b'{"schema": "perfgate.report/1"}', "the field 'outcome' is missing"),
    (b"\xff\xfe{}", "is not UTF-8 text"),
    (b" " * (MAX_BYTES + 1), "is larger than 16 MiB"),
    (b"[" * 100_000, "nested deeper"),
    (WHOLE.replace(b'"bound": 0.05', b'"bound": NaN'), "NaN is not a finite number"),
    (WHOLE.replace(b'"bound": 0.05', b'"bound": 1e999'), "1e999 is not a finite number"),
    (WHOLE.replace(b'"exit_code": 1,', b'"exit_code": 1, "exit_code": 0,', 1), "the key 'exit_code' occurs twice"),
    (WHOLE.replace(b"gpt-small", b"\\ud800", 1), "half a surrogate pair"),
    (edited("outcome", to="PASS"), "'outcome' is 'PASS', which is not one of the known values"),
    (edited("outcome", to=None), "'outcome'"),
    (edited("exit_code", to=True), "'exit_code' is true or false, not a whole number"),
    (edited("exit_code", to=-1), "'exit_code' is -1, which is not one of the known values"),
    (edited("verdicts", to={}), "'verdicts' is an object, not a list"),
    (edited("verdicts", 0, to=[]), "an item of 'verdicts' is a list, not an object"),
    (edited("verdicts", 0, "outcome", to="passed"), "'outcome' is 'passed', which is not one of the known values"),
    (edited("verdicts", 0, "metric", to=3), "'metric' is a whole number, not text"),
    (edited("verdicts", 0, "bound", to="50 ms"), "'bound' is text, not a number or null"),
    (edited("verdicts", 0, "labels", to={"rank": 0}), "a value of 'labels' is a whole number, not text"),
    (edited("verdicts", 0, "at", to="rules.yaml:1"), "'at' is text, not an object"),
    (edited("verdicts", 0, "at", to={"file": "x"}), "verdicts.0.at.line is not what perfgate writes"),
    (edited("verdicts", 0, "html", to="<b>"), "verdicts.0.html is not what perfgate writes"),
    (edited("verdicts", 0, "new", "n", to=10**30), "is too long or too large for a report"),
    (edited("verdicts", 0, "message", to="x" * (LONGEST_TEXT + 1)), "is too long or too large"),
    (edited("html", to="<script>"), "unknown field 'html'"),
    (edited("verdicts", 0, "next_step", to="do as I say"), "verdicts.0.next_step is not what perfgate writes"),
    (edited("verdicts", 0, "next", to=None), "'next_step' is null, not an object"),
    (edited("verdicts", 0, "next", to="run it"), "'next_step' is text, not an object"),
    (edited("verdicts", 0, "next", "action", to="obey"), "'action' is 'obey', which is not one of the known values"),
    (edited("environment", to={"gpu": None}), "a value of 'environment' is null"),
    (edited("problems", 0, "severity", to="fatal"), "'severity' is 'fatal', which is not one of the known values"),
]


@pytest.mark.parametrize(("data", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_is_no_report_is_refused_with_its_place(data, said):
    report, [problem] = read(data, "r.json")
    assert report is None
    assert problem.severity == "error"
    assert said in problem.message
    assert problem.at.file == "r.json"


def test_a_fault_has_its_line():
    text = json_report.render(EVERY_OUTCOME)
    line = text[: text.index('"statistic"')].count("\n") + 1
    _, [problem] = read(text.replace('"statistic": "p95"', '"statistic": 95', 1).encode(), "r.json")
    assert str(problem.at).startswith(f"r.json:{line}:")


def test_forged_counts_are_said():
    report, [problem] = read(edited("counts", to={"pass": 20}), "r.json")
    assert report == EVERY_OUTCOME
    assert "the report was altered" in problem.message


def test_the_excerpt_of_a_problem_is_kept():
    report = REPORTS["nothing_judged"]
    assert report.problems[0].excerpt
    found, _ = read(json_report.render(report).encode(), "r.json")
    assert found == replace(report)


LONE = {"\ud800": "a", "b": "c"}
UNSTORABLE = [
    {"labels": LONE},
    {"metric": "\ud800", "labels": {}, "rule": f"\\ud800 {EVERY_OUTCOME.verdicts[0].asks}"},
    {"member": LONE},
]


@pytest.mark.parametrize("fields", UNSTORABLE, ids=["labels", "metric", "member"])
def test_a_verdict_with_half_a_surrogate_pair_keeps_its_name(fields):
    verdicts = (replace(EVERY_OUTCOME.verdicts[0], **fields),) * 2
    cause = Cause("slower", ("a",), "time", 1.0, 1.0, 1.0, None, verdicts=verdict_ids(verdicts))
    causes = CauseReport((cause,), 1.0, 1.0, 1.0, 1.0, 1, 1)
    text = json_report.render(replace(EVERY_OUTCOME, verdicts=verdicts, causes=causes))
    found, problems = read(text.encode(), "r.json")
    assert problems == []
    assert json_report.render(found) == text


def test_names_that_utf8_cannot_hold_keep_their_place():
    labels = {"\ud800": "a", "\x9b": "b"}
    report = replace(EVERY_OUTCOME, environment=labels, verdicts=(replace(EVERY_OUTCOME.verdicts[0], labels=labels),))
    text = json_report.render(report)
    found, _ = read(text.encode(), "r.json")
    assert json_report.render(found) == text
