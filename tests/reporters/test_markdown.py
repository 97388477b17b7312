"""Markdown: goldens, what a renderer makes of hostile names, and the budget."""

import re

import pytest
from any_report import HOSTILE, briefly, reports, text
from goldens import check_golden, without_sentences
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace
from sample_verdicts import FAILED_LIMIT, change
from samples import EVERY_OUTCOME, WITH_MANY

from perfgate.core import OUTCOMES
from perfgate.reporters import github, untrusted_comment
from perfgate.reporters.markdown import code, prose, render
from perfgate.words import answer, cause_words

SUMMARY = r"(\d+ skipped|\d+ verdicts? with a cause|\d+ passed|Environment|Run by run|Findings and next steps)"
OUR_HTML = re.compile(rf"<details(?: open)?><summary>{SUMMARY}</summary>\n|</details>\n|<br>")


def tokens(markdown):
    """All tokens as GitHub would see them, those within lines too."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    for token in parser.parse(markdown):
        yield token
        yield from token.children or []


def rendered_text(markdown):
    return "".join(token.content for token in tokens(markdown) if token.type in ("text", "code_inline"))


def assert_harmless(markdown):
    for token in tokens(markdown):
        assert token.type not in ("link_open", "image", "s_open", "em_open", "heading_open", "hr", "blockquote_open")
        if token.type in ("html_block", "html_inline"):
            assert OUR_HTML.fullmatch(token.content)
        if token.type == "text":  # what GitHub makes links of outside of code
            assert not re.search(r"://|www\.|@|#\d|GH-\d", token.content)


@pytest.mark.parametrize("name", ["every_outcome", "with_causes", "learned", "nothing_judged"])
def test_golden(name):
    check_golden(f"{name}.md", without_sentences(render, WITH_MANY[name]))


@pytest.mark.parametrize("name", WITH_MANY)
def test_samples_are_harmless(name):
    assert_harmless(render(WITH_MANY[name]))


@briefly
@given(reports)
def test_no_text_adds_a_row_a_link_or_html(report):
    markdown = render(report)
    assert_harmless(markdown)
    if report.exit_code == 3 and answer.unread_runs(report):
        assert markdown.count("<summary>Environment") == bool(report.environment)
        return
    found = [token.type for token in tokens(markdown)]
    skipped = sum(verdict.outcome == "skipped" for verdict in report.verdicts)
    passed = sum(verdict.outcome == "pass" for verdict in report.verdicts)
    explained = sum(len(group.verdicts) for group in cause_words.groups(report))
    news = len(report.verdicts) - passed - skipped - explained
    tables = (passed > 0) + (news > 0) + (explained > 0)
    assert found.count("tr_open") == len(report.verdicts) - skipped + tables
    assert found.count("td_open") == 4 * (len(report.verdicts) - skipped)
    folded = (news > 0) + (explained > 0) + (skipped > 0) + (passed > 0) + bool(report.environment)
    assert found.count("html_block") == 2 * (folded + bool(github.chart(report)))


@given(text)
def test_code_shows_exactly_the_text(text):
    [paragraph] = [token for token in tokens(code(text)) if token.type == "inline"]
    assert [child.type for child in paragraph.children] == ["code_inline"]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_cell_holds_a_hostile_name(hostile):
    report = replace(EVERY_OUTCOME, verdicts=(change(metric=hostile, outcome="fail", exit_code=1),), problems=())
    cells = [token for token in tokens(render(report)) if token.type == "td_open"]
    assert len(cells) == 4


PROSE = [
    ("p95 of forward is 72.6 ms [58.1, 123.1]", r"`p95` of forward is 72.6 ms \[58.1, 123.1\]"),
    ("it keeps `under 5 ms`; 3 runs", "it keeps `under 5 ms`; 3 runs"),
    ("see backward_inner, step.", "see `backward_inner`, step."),
    ("+3.1% (of 5%) at tokens/s → run-to-run", "+3.1% (of 5%) at tokens/s → run-to-run"),
    ("@octocat #1 GH-1 www.a.b", "`@octocat` `#1` `GH-1` `www.a.b`"),
    ("a_b`c`d", "`a_b` `c`d"),
    (
        'run perfgate baseline approve a.log --reason "too slow".',
        'run `perfgate baseline approve a.log --reason "too slow"`.',
    ),
    ("perfgate check runs/a.log; then read it", "`perfgate check runs/a.log`; then read it"),
    ("perfgate could not read a.log", "perfgate could not read `a.log`"),
]


@pytest.mark.parametrize(("text", "markdown"), PROSE)
def test_prose_keeps_words_and_wraps_the_rest(text, markdown):
    assert prose(text) == markdown


def test_the_first_line_names_the_tool():
    assert render(EVERY_OUTCOME).startswith("**✗ perfgate FAIL: 4 failed")
    assert untrusted_comment.render(EVERY_OUTCOME).split("\n")[1].startswith("**✗ perfgate FAIL: 4 failed")


def test_the_reason_of_a_rule_is_not_folded_away():
    markdown = render(replace(EVERY_OUTCOME, verdicts=(FAILED_LIMIT,)))
    [row] = [line for line in markdown.split("\n") if line.startswith("| ✗ fail")]
    assert f"<br>{FAILED_LIMIT.why} |" in row
    assert "n_eff" not in markdown


@pytest.mark.parametrize(("count", "opened"), [(1, True), (10, True), (11, False)])
def test_few_findings_are_unfolded(count, opened):
    verdicts = tuple(replace(FAILED_LIMIT, metric=f"m{i}") for i in range(count))
    markdown = render(replace(EVERY_OUTCOME, verdicts=verdicts))
    assert ("<details open><summary>Findings and next steps</summary>" in markdown) == opened


def test_no_bar_begins_anywhere_but_at_0():
    chart = github.chart(EVERY_OUTCOME)
    assert [line.split()[0] for line in chart[5:-1]] == ["line", "line"]


def test_every_outcome_appears():
    markdown = render(EVERY_OUTCOME)
    assert all(outcome in rendered_text(markdown) for outcome in OUTCOMES)


@briefly
@given(st.integers(600, 12_000))
def test_the_budget_is_kept_and_what_is_left_out_is_counted(limit):
    whole, markdown = render(EVERY_OUTCOME), render(EVERY_OUTCOME, limit=limit)
    assert len(markdown.encode()) <= limit
    assert_harmless(markdown)
    assert ("left out" in markdown) == (markdown != whole)
    assert markdown.count("<details") == markdown.count("</details>")
