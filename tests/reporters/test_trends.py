"""The page of trends: its order and words, a golden page, one policy, and nothing that a hostile text could add."""

from __future__ import annotations

import base64
import hashlib
import json
import re

import html5lib
import numpy as np
import pytest
from any_report import HOSTILE
from goldens import check_golden
from lxml import html as lxml_html
from msgspec.structs import replace
from trend_samples import APPROVAL, COMMITS, LINE, RUNS, SMALL, history, series

from perfgate.core import Key, Location, Problem
from perfgate.core.remembered_runs import CommitLine, CommitNote, HistoryRun, SeriesName
from perfgate.core.run_history import LoadedHistory
from perfgate.core.wording import one_line
from perfgate.reporters.html import trend_page
from perfgate.reporters.html.trend_page import render
from perfgate.reporters.html.trend_runs import releases

ELEMENTS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "section", "h1", "h2", "h3", "p", "ul", "ol"),
    *("li", "a", "span", "strong", "code", "b", "i", "details", "summary", "div", "figure", "table", "thead", "tbody"),
    *("tr", "th", "td", "svg", "desc", "path", "text", "line", "rect", "article", "button", "input", "script"),
}
PAGE = render(SMALL, commit_address="https://example.org/commit/")


def page_of(text: str) -> lxml_html.HtmlElement:
    return lxml_html.fromstring(text)


def shown(element: lxml_html.HtmlElement) -> str:
    return " ".join(" ".join(element.itertext()).split())


def cards(text: str) -> dict[str, lxml_html.HtmlElement]:
    return {shown(card.find(".//h3")): card for card in page_of(text).xpath("//article")}


def test_golden() -> None:
    """Without the style and the script, a line for each element."""
    text = re.sub(r"(<style>|<script>).*?(</style>|</script>)", r"\1\2", PAGE, flags=re.DOTALL)
    text = re.sub(r"sha256-[^']*", "sha256", text)
    check_golden("trends.html", re.sub(r"(?<=>)(?=<(?!/))", "\n", text))


def test_the_newest_change_is_first_and_unchanged_metrics_are_last() -> None:
    assert list(cards(PAGE)) == ["backward median", "memory median", "forward median", "loading median"]
    sections = [shown(one) for one in page_of(PAGE).xpath("//main/section[.//article]/h2")]
    assert sections == ["3 metrics changed", "1 metric did not change"]


def test_the_conclusion_names_open_changes_alone() -> None:
    header = shown(page_of(PAGE).find(".//header"))
    assert header.startswith("▲ 1 metric became worse, and nobody approved it")
    assert "backward median +5.0% (+4.0% to +6.0%) in commit 10c0ffee10 (ada: Change 10), 2026-01-11" in header
    assert "forward" not in header
    calm = shown(page_of(render(history(series("forward", (0, 0.1))))).find(".//header"))
    assert calm.startswith("✓ No metric is worse without an approval")


def test_few_runs_are_no_good_news() -> None:
    header = page_of(render(history(series("forward", (0, 0.1), runs=RUNS[:3])))).find(".//header")
    assert shown(header).startswith("? Too few runs to see a change: 3 of 10")
    assert header.get("class") == "warning"


def test_a_change_says_its_commits_its_approval_and_the_machine() -> None:
    found = {name: shown(card) for name, card in cards(PAGE).items()}
    assert (
        "▲ +5.0% +4.0% to +6.0% worse 200 ms to 210 ms on 2026-01-11 in commit 10c0ffee10" in found["backward median"]
    )
    assert "the machine changed in the same run: driver from 570.86 to 580.65" in found["backward median"]
    assert "approved by carol on 2026-01-08: rotary embeddings (pull request 7)" in found["forward median"]
    assert "worse, went away" in found["memory median"]


def test_plots_mark_releases_and_the_machine_but_no_fact_that_changes_all_the_time() -> None:
    [plot] = cards(PAGE)["loading median"].xpath(".//figure/svg")
    assert [shown(tag) for tag in plot.xpath("./text[@class='tag']")] == ["v1.1", "v1.0"]
    [mark] = plot.xpath("./text[@class='machine']")
    assert shown(mark) == "driver from 570.86 to 580.65 ◆"
    assert "changes often, and is not marked: host" in shown(page_of(PAGE))


def test_a_release_is_at_the_first_run_that_has_it_although_runs_are_by_time() -> None:
    notes = [CommitNote(f"{i:040x}", "2026-01-01T00:00:00Z", "ada", f"Change {i}") for i in range(4)]
    line = CommitLine.of("main", [replace(note, tags=("v1",) if i == 1 else ()) for i, note in enumerate(notes)])
    runs = [HistoryRun(str(at), f"2026-01-0{at + 1}T00:00:00Z", notes[i].sha) for at, i in enumerate((2, 3, 0))]
    assert [(mark.at, mark.text) for mark in releases(runs, line)] == [(0, "v1")]


def test_metrics_that_are_not_measured_any_more_are_last_and_worry_nobody() -> None:
    ended = replace(series("backward", (0, 0.2), (10, 0.21)), missing_since=12)
    page = page_of(render(history(ended, series("forward", (0, 0.1)))))
    assert shown(page.find(".//header/h1")) == "✓ No metric is worse without an approval"
    assert [shown(one) for one in page.xpath("//main/section[.//article]/h2")] == [
        "1 metric did not change",
        "1 metric changed and ended",
    ]
    assert "12 newer runs do not have it" in shown(page)


def test_every_plot_has_a_name_and_a_description() -> None:
    page = page_of(PAGE)
    for plot in page.xpath("//figure/svg"):
        [title], [words] = (
            page.xpath(f"//*[@id='{plot.get(name)}']") for name in ("aria-labelledby", "aria-describedby")
        )
        assert shown(title).endswith("median: every run")
        assert shown(words).startswith("16 runs from 2026-01-01 to 2026-01-16, ")


def test_the_numbers_are_those_of_the_history() -> None:
    """The script reads them from the dots, with a resolution of 1/4000 of the height."""
    for one in SMALL.series:
        [plot] = cards(PAGE)[str(one.name)].xpath(".//figure/svg")
        [path] = plot.xpath(".//path[starts-with(@class, 'runs')]/@d")
        top, step = float(plot.get("data-top")), float(plot.get("data-step"))
        moves = np.cumsum([[int(x), int(y)] for x, y in re.findall(r"(-?\d+) ?(-?\d+)h0", path)], axis=0)
        assert moves[:, 0].tolist() == list(range(16))
        assert np.abs(top - step * moves[:, 1] - one.values).max() <= step / 2 * (1 + 1e-9)


def test_metrics_of_several_decades_have_a_logarithmic_axis() -> None:
    [card] = cards(render(history(series("grown", (0, 0.01), (8, 10.0))))).values()
    [plot] = card.xpath(".//figure/svg")
    assert plot.get("data-log") is not None
    assert [shown(one) for one in plot.xpath("./text[@class='value']")] == ["10 ms", "100 ms", "1 s", "10 s"]


@pytest.mark.parametrize("value", [0.0, -1.0, 1e-320, 1e300])
def test_unusual_numbers_do_not_stop_the_page(value: float) -> None:
    one = series("odd", (0, 1.0))
    found = cards(render(history(replace(one, values=one.values * 0 + value), series("forward", (0, 0.1)))))
    assert list(found) == ["forward median", "odd median"]


def test_of_a_long_history_plots_show_the_newest_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trend_page, "MOST_NUMBERS", 4 * 8)
    text = render(SMALL)
    assert "16, 2026-01-01 to 2026-01-16; plots show the newest 8" in shown(page_of(text))
    assert "+10.0%" in shown(cards(text)["forward median"])
    [path] = cards(text)["forward median"].xpath(".//path[starts-with(@class, 'runs')]/@d")
    assert (path.startswith("M8 "), path.count("h0")) == (True, 8)


def test_an_incomplete_history_says_so() -> None:
    [section] = page_of(PAGE).xpath("//main/section[contains(., 'incomplete')]")
    assert shown(section.find("h2")) == "This history is incomplete: 1 file cannot be used."
    assert shown(section.find("ul")) == "baselines/_history/gpt/x.json : is damaged: its hash is another one"


def test_commits_are_links_only_to_a_given_address() -> None:
    links = page_of(PAGE).xpath("//article//a[starts-with(@href, 'http')]/@href")
    assert f"https://example.org/commit/{COMMITS[10]}" in links
    assert "http" not in "".join(page_of(render(SMALL)).xpath("//a/@href"))


# --- nothing but its own script ----------------------------------------------------------------------------------


def policy_of(text: str) -> str:
    [policy] = page_of(text).xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    return str(policy)


def test_the_policy_allows_this_script_and_this_style_alone() -> None:
    page = page_of(PAGE)
    hashes = [
        base64.b64encode(hashlib.sha256(page.xpath(place)[0].text.encode()).digest()).decode()
        for place in ("//style", "//script[not(@type)]")
    ]
    assert policy_of(PAGE) == (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; "
        "base-uri 'none'; form-action 'none'"
    )


def assert_harmless(text: str) -> None:
    page = page_of(text)
    for element in page.iter():
        assert element.tag in ELEMENTS, element
        assert not [name for name in element.attrib if name.startswith("on") or name in ("style", "src", "srcdoc")]
        assert re.fullmatch(
            r"#m-[0-9a-f]{10}|https://example.org/commit/[0-9a-f]{40}", element.get("href", "#m-0123456789")
        )
        assert re.fullmatch(r"([tdm]-[0-9a-f]{10}|runs-\d+|search|status|aloud|links|)", element.get("id", ""))
        assert re.fullmatch(r"[a-z -]*", element.get("class", ""))
    assert len(page.xpath("//script[not(@type)]")) == len(page.xpath("//style")) == 1
    assert policy_of(text) == policy_of(PAGE)
    for runs in page.xpath("//script[@type='application/json']"):
        assert isinstance(json.loads(runs.text), dict)
    assert "##[" not in text


def hostile_history(text: str) -> LoadedHistory:
    """A history with the text in every place that others write."""
    runs = tuple(
        replace(run, tags=(text,) if at == 3 else (), context={text: text if at < 9 else "other"}, commit=COMMITS[at])
        for at, run in enumerate(RUNS)
    )
    one = series("forward", (0, 0.1), (9, 0.11), runs=runs)
    facts, approval = ((text, text, text),), replace(APPROVAL, by=text, reason=text)
    changed = replace(one.changes[0], facts=facts, approval=approval, last_good=replace(runs[8], commit=text))
    one = replace(
        one, name=SeriesName(Key(text, ((text, text),)), text), suite=text, environment=text, changes=(changed,)
    )
    commits = [replace(commit, author=text, subject=text, tags=(text,)) for commit in LINE.commits]
    found = history(one, series("x", (0, 1.0)), runs=runs, identity={text: text}, notes=(text,), suite=text)
    return replace(found, problems=(Problem("error", text, Location(text)),), line=CommitLine.of("main", commits))


@pytest.mark.parametrize(
    "text", [*HOSTILE, "</script><script>alert(1)</script>", "' onload='x", "\\u003c", "##[error]"]
)
def test_a_hostile_text_adds_nothing_and_is_shown_as_it_is(text: str) -> None:
    written = render(hostile_history(text), commit_address="https://example.org/commit/")
    assert_harmless(written)
    html5lib.HTMLParser(strict=True).parse(written)
    name = " ".join(one_line(f"{text} {text}").split())
    assert any(" ".join(one_line(text).split()) in found for found in cards(written)), name


def test_the_page_is_valid_html() -> None:
    html5lib.HTMLParser(strict=True).parse(PAGE)
    assert_harmless(PAGE)
    ids = re.findall(r' id="([^"]*)"', PAGE)
    assert len(ids) == len(set(ids))
