"""The comment on a pull request, and the chart that it may hold."""

import re

import pytest
from any_report import HOSTILE, briefly, reports
from goldens import check_golden, without_sentences
from hypothesis import given
from msgspec.structs import replace
from sample_verdicts import FAILED_CHANGE
from samples import ALL_PASS, EVERY_OUTCOME, WITH_MANY

from perfgate.core import RunEstimate
from perfgate.reporters import github, markdown, untrusted_comment
from perfgate.reporters.markdown import COMMENT_LIMIT, marker
from perfgate.reporters.markdown import render_comment as render


@pytest.mark.parametrize("name", WITH_MANY)
def test_a_comment_is_a_marker_the_page_and_the_owners(name):
    report = WITH_MANY[name]
    owners = "\ncc @team/kernels\n" if name == "learned" else ""
    assert render(report) == f"{marker(report)}\n{markdown.render(report)}{owners}"


@pytest.mark.parametrize("name", ["every_outcome", "with_causes"])
def test_golden_of_an_unchecked_report(name):
    check_golden(f"{name}.unchecked.md", without_sentences(untrusted_comment.render, WITH_MANY[name]))


def test_it_fits_and_says_what_it_leaves_out():
    verdicts = tuple(replace(FAILED_CHANGE, metric=f"kernel.{'long' * 20}.{i}") for i in range(1000))
    text = render(replace(EVERY_OUTCOME, verdicts=verdicts))
    assert len(text.encode()) <= COMMENT_LIMIT
    assert "left out" in text
    assert text.startswith(marker(EVERY_OUTCOME))


@pytest.mark.parametrize("suite", [*HOSTILE, "a --> b", "gpt-small"])
def test_the_marker_is_one_hidden_line_whatever_the_suite_is_called(suite):
    line = marker(replace(ALL_PASS, suite=suite))
    assert re.fullmatch(r"<!-- perfgate comment: [\w.-]* -->", line, re.ASCII)
    assert render(replace(ALL_PASS, suite=suite)).startswith(f"{line}\n**")


def test_suites_have_markers_of_their_own():
    assert marker(ALL_PASS) == "<!-- perfgate comment: gpt-small -->"
    assert marker(replace(ALL_PASS, suite="gpt_small")) != marker(ALL_PASS)


CHART = re.compile(
    r"""```mermaid
xychart-beta
  title "[\w./% -]*"
  x-axis \[("(base|new) \d+"(, )?)+\]
  y-axis "[\w./% -]+" -?[\d.]+ --> -?[\d.]+
  line \[(-?[\d.]+(, )?)+\]
(  line \[(-?[\d.]+(, )?)+\]
)?```""",
    re.ASCII,
)


@briefly
@given(reports)
def test_a_chart_holds_nothing_that_is_not_its_own(report):
    lines = github.chart(report)
    assert not lines or CHART.fullmatch("\n".join(lines))


def test_a_chart_shows_every_run_and_the_tolerance():
    lines = github.chart(EVERY_OUTCOME)
    assert CHART.fullmatch("\n".join(lines))
    assert '  x-axis ["base 1", "base 2", "base 3", "new 1", "new 2"]' in lines
    assert "  line [360, 361, 362, 397.1, 395.7]" in lines
    assert "  line [379.1, 379.1, 379.1, 379.1, 379.1]" in lines


FEW = FAILED_CHANGE.runs[:2]
HUGE = tuple(RunEstimate("new", "x", 1e300, 1, 0) for _ in range(3))


@pytest.mark.parametrize("runs", [(), FEW, HUGE])
def test_no_chart_where_it_would_say_nothing_or_could_not_be_drawn(runs):
    report = replace(EVERY_OUTCOME, verdicts=(replace(FAILED_CHANGE, runs=runs),))
    assert github.chart(report) == []
    assert github.chart(ALL_PASS) == []
