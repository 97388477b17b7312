"""The page: goldens, valid HTML, nothing that a hostile text could add to it, and the same page from stored JSON."""

import re
import subprocess
import sys

import html5lib
import pytest
from any_report import HOSTILE, reports
from goldens import check_golden, without_sentences
from hypothesis import HealthCheck, Phase, given, settings
from lxml import html as lxml_html
from msgspec.structs import replace
from sample_details import EVIDENCE, WITH_EVIDENCE
from sample_verdicts import FAILED_LIMIT, change, limit
from samples import EVERY_OUTCOME, REPORTS, SHORT_REPORTS

from perfgate.core import OUTCOMES, Location, Problem, RelativeChange
from perfgate.core.details import ReportDetails, VerdictDetails
from perfgate.core.wording import one_line
from perfgate.reporters import json_report
from perfgate.reporters.html import sections
from perfgate.reporters.html.page import render
from perfgate.reporters.stored_report import read

ALL = {**REPORTS, "with_evidence": WITH_EVIDENCE}
PAGE = render(WITH_EVIDENCE)

ELEMENTS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section", "h1", "h2", "p", "ul"),
    *("li", "a", "span", "strong", "code", "pre", "i", "b", "details", "summary", "dl", "div", "dt", "dd", "figure"),
    *("figcaption", "table", "thead", "tbody", "tr", "th", "td", "svg", "path", "text", "rect", "tspan"),
    *("g", "line", "title", "desc"),
}
ATTRIBUTES = {
    *(
        "lang",
        "charset",
        "name",
        "content",
        "http-equiv",
        "class",
        "id",
        "href",
        "aria-hidden",
        "open",
        "scope",
        "tabindex",
    ),
    *("viewbox", "d", "style", "x", "y", "transform", "width", "height", "preserveaspectratio", "text-anchor"),
    *("x2", "y1", "y2", "role"),
}
STYLES = re.compile(
    r"((fill|stroke|stroke-[a-z]+|font-size|text-anchor|opacity|fill-opacity|padding-left): ?[-\w.(), ]+;? ?)*"
)


def page_of(text):
    return lxml_html.fromstring(text)


def shown(element):
    """All text below an element, blanks as a browser shows them."""
    return " ".join(" ".join(element.itertext()).split())


def assert_harmless(text):
    page = page_of(text)
    for element in page.iter():
        assert element.tag in ELEMENTS, element
        assert set(element.attrib) <= ATTRIBUTES, element.attrib
        assert re.fullmatch(r"#(verdict|cause)-\d+", element.get("href", "#verdict-0"))
        assert re.fullmatch(r"((verdict|cause)-\d+)?", element.get("id", ""))
        assert STYLES.fullmatch(element.get("style", "")), element.get("style")
        assert re.fullmatch(r"[a-z0-9 -]*", element.get("class", ""))
    [style] = page.xpath("//style")
    assert "url(" not in style.text
    assert "@import" not in style.text
    assert "##[" not in text
    assert "##vso[" not in text


# --- what it looks like ------------------------------------------------------------------------------------------


FRAGMENTS = {
    # a report, and the first and the last line of its parts that the page with every outcome does not have
    "with_causes": [('<section class="changed">', "</section>")],
    "with_evidence": [
        ('<details class="verdict fail" id="verdict-1" open>', "</details>\n</details>"),
        ("<h2>Time of a step</h2>", "</section>"),
        ("<h2>Approvals</h2>", "</section>"),
    ],
    "learned": [(f'<details class="verdict fail" id="verdict-{place}" open>', "</details>") for place in (0, 1)],
    "nothing_judged": [('<header class="error">', "</main>")],
}


def shown_page(report):
    """Without the pictures, which the tests of Chromium look at, and without the style sheet."""
    page = without_sentences(render, report)
    page = re.sub(r"(<svg viewBox=\"0 0 420[^>]*>).*?(</svg>)", r"\1\2", page, flags=re.DOTALL)
    return re.sub(r"<style>.*?</style>", "<style></style>", page, flags=re.DOTALL)


def test_golden():
    check_golden("every_outcome.html", shown_page(SHORT_REPORTS["every_outcome"]))


@pytest.mark.parametrize("name", FRAGMENTS)
def test_golden_of_parts(name):
    page, parts = shown_page(ALL[name]), []
    for first, last in FRAGMENTS[name]:
        begin = page.index(f"\n{first}") + 1
        parts.append(page[begin : page.index(f"\n{last}", begin)] + f"\n{last}\n")
    check_golden(f"{name}.html", "".join(parts))


def test_a_pass_offers_no_approval():
    page = page_of(render(ALL["all_pass"]))
    assert page.find(".//header").get("class") == "pass"
    assert page.xpath("//p[@class='approve']") == []


@pytest.mark.parametrize("name", ALL)
def test_the_page_is_valid_html(name):
    text = render(ALL[name])
    html5lib.HTMLParser(strict=True).parse(text)
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    assert_harmless(text)


def test_the_answer_comes_first_and_leads_to_its_verdict():
    page = page_of(PAGE)
    [heading] = page.xpath("//h1")
    assert shown(heading) == "✗ FAIL"
    [first, *_] = page.xpath("//header//li")
    assert "backward_allreduce" in shown(first)
    [target] = page.xpath(f"//details[@id='{first.xpath('.//a/@href')[0][1:]}']")
    assert "72.6 ms" in shown(target)


def test_what_failed_is_open_and_passes_are_folded():
    for details in page_of(PAGE).xpath("//details[contains(@class, 'verdict')]"):
        outcome = details.get("class").split()[1]
        assert outcome in OUTCOMES
        assert (details.get("open") is not None) == (outcome not in ("pass", "skipped"))


def pictures(index):
    [section] = page_of(PAGE).xpath(f"//details[@id='verdict-{index}']")
    return {shown(figure).split(" ")[0]: figure for figure in section.xpath(".//figure")}


def test_a_verdict_with_runs_has_three_pictures():
    found = pictures(1)
    assert list(found) == ["Interval", "Run", "Step"]
    drawn = {word: lxml_html.tostring(figure, encoding="unicode") for word, figure in found.items()}
    assert drawn["Interval"].count("var(--good)") == 1
    assert all(standing in drawn["Run"] for standing in ("past", "base", "new"))
    assert drawn["Step"].count("var(--bad)") > 1  # the tolerance, and a stall
    assert all("#0" not in text for text in drawn.values())


def test_the_ranks_of_a_verdict_are_named():
    assert "rank 3 (judged), rank 0 and 6 more (not drawn)" in shown(pictures(0)["Step"])


def test_facts_that_differ_are_marked_and_come_first():
    rows = page_of(PAGE).xpath("//tr[@class='differs']")
    assert [shown(row) for row in rows] == ["torch differs 2.8.0 2.9.0"]
    same = replace(WITH_EVIDENCE, verdicts=(), fact_changes=())
    assert not page_of(render(same)).xpath("//tr[@class='differs']")


def test_approvals_say_who_when_and_why():
    text = shown(page_of(PAGE))
    assert "0-bbbbbb 2025-12-01 ada a newer driver (#98) 1" in text
    assert "1-4f2a9c compared with 2026-01-01 grace fused the optimizer 1" in text


def test_a_part_that_only_one_side_holds_gives_no_shorter_bar():
    parts = (*EVIDENCE.breakdown, replace(EVIDENCE.breakdown[0], metric="step.memcpy", base=None))
    text = render(replace(WITH_EVIDENCE, verdicts=(), details=replace(EVIDENCE, breakdown=parts)))
    assert "The baseline does not have all parts" in text
    assert "The baseline does not have all parts" not in PAGE


def test_what_is_left_out_is_said(monkeypatch):
    monkeypatch.setattr(sections, "MOST_DRAWN", 3)
    page = page_of(render(replace(EVERY_OUTCOME, verdicts=tuple(change(metric=f"m{i}") for i in range(5)))))
    assert len(page.xpath("//figure")) == 3
    assert "Only the 3 worst verdicts have pictures" in shown(page)
    assert "The values behind 1 verdict were left out" in shown(page_of(PAGE))


# --- many verdicts -----------------------------------------------------------------------------------------------


def kernel(i, outcome="pass", by=0.0, **fields):
    code = {"exit_code": 1} if outcome == "fail" else {}
    given = {"rule": "kernel.* median at most 10% above baseline", "metric": f"kernel.k{i}", "outcome": outcome}
    return change(**{**given, "change": RelativeChange(by, by, by), **code, **fields})


#: A glob with 50 failures of growing size among 2,000 verdicts, a large change that is only a warning, and a limit.
LARGEST = replace(
    EVERY_OUTCOME,
    verdicts=(
        *(kernel(i, "fail" if i % 40 == 0 else "pass", i / 1000) for i in range(2000)),
        kernel(0, "fail", 9.0, rule="warned", metric="warned", exit_code=0, severity="warning"),
        limit(),
        FAILED_LIMIT,
    ),
)


@pytest.fixture(scope="module")
def largest():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sections, "MOST_DRAWN", 10)
        return page_of(render(LARGEST))


def test_blocking_failures_come_first_and_the_largest_of_them_first(largest):
    named = [shown(link).split()[2] for link in largest.xpath("//header//li/a")]
    assert named == ["kernel.k1960", "kernel.k1920", "kernel.k1880", "kernel.k1840", "kernel.k1800"]
    rules = [shown(cell) for cell in largest.xpath("//div[contains(@class, 'overview')]//th[@scope='row']")]
    assert rules == [kernel(0).rule, FAILED_LIMIT.rule, "warned", limit().rule]


def test_an_overview_has_a_row_for_every_rule(largest):
    [row, *_] = largest.xpath("//div[contains(@class, 'overview')]//tbody/tr")
    cells = [shown(cell) for cell in row]
    assert cells[1:5] == ["50", "0", "1950", "✗ kernel.k1960 median"]
    assert not page_of(PAGE).xpath("//div[contains(@class, 'overview')]")  # its five verdicts are one


def test_the_verdicts_of_a_glob_are_one_group_with_its_passes_folded(largest):
    [group] = largest.xpath("//details[contains(@class, 'group')]")
    assert shown(group.find("summary")) == f"✗ {kernel(0).rule} 50 failed, 1950 passed"
    assert len(group.xpath("./details[contains(@class, 'verdict')]")) == sections.MOST_OPEN
    rest = group.xpath("./details[@class='rest']")
    assert [shown(one.find("summary")) for one in rest] == ["40 more that need attention", "1950 that do not"]
    assert [one.get("open") for one in rest] == [None, None]
    assert len(largest.xpath("//details[contains(@class, 'verdict') and @open]")) == sections.MOST_OPEN
    assert len(largest.xpath("//details[contains(@class, 'verdict')]")) == len(LARGEST.verdicts)


# --- hostile texts -----------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow])
@given(reports)
def test_no_text_adds_an_element_an_attribute_or_a_link(report):
    text = render(report)
    assert_harmless(text)
    assert len(page_of(text).xpath("//details[contains(@class, 'verdict')]")) == len(report.verdicts)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_name_is_shown_as_it_is(hostile):
    text = render(
        replace(
            WITH_EVIDENCE,
            verdicts=(change(metric=hostile, member={"rank": hostile}, outcome="fail", exit_code=1),),
            problems=(Problem("error", hostile, Location(hostile), excerpt=hostile),),
            environment={hostile: hostile},
        )
    )
    assert_harmless(text)
    [what] = page_of(text).xpath("//summary/span[@class='what']")
    assert " ".join(one_line(hostile).split()) in shown(what)


# --- one report, one page ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_the_stored_report_gives_the_same_page(name):
    stored, _ = read(json_report.render(ALL[name]).encode(), "r.json")
    assert stored is not None
    assert render(stored) == render(ALL[name])


def test_another_process_gives_the_same_bytes():
    program = (
        "import sys; sys.path.insert(0, 'tests/reporters'); from sample_details import WITH_EVIDENCE;"
        "from perfgate.reporters.html.page import render; sys.stdout.buffer.write(render(WITH_EVIDENCE).encode())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.decode() == PAGE


@pytest.mark.parametrize("size", [1e-320, 1e-12, 1e300, 0.0, -1.0])
def test_numbers_beyond_any_axis_give_no_picture_and_no_error(size):
    runs = tuple(replace(run, estimate=size, values=(size,) * 12) for run in EVIDENCE.verdicts[1].runs)
    evidence = ReportDetails((VerdictDetails(0, "s", runs, allowed_high=size),))
    verdict = change(tolerance=size, change=replace(change().change, estimate=size, low=None, high=None))
    assert_harmless(render(replace(WITH_EVIDENCE, verdicts=(verdict,), details=evidence)))
