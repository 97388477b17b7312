"""An editor offers the words that fit at each place of a sentence. `|` is the cursor."""

from __future__ import annotations

import pytest

from perfgate.editor.rule_text import offers

STORED = {
    "default": {"forward": "s", "step.time": "s", "memory.allocated": "B", "odd name": "s"}
    | {"work.syncs": "count", "work.device_time": "s"}
}


def at(sentence: str, head: str = "version: 1\nmetrics:\n  share: forward / step.time\nrules:\n") -> dict[str, str]:
    """The offers at the cursor, by their text, with their kind."""
    before, _, after = (head + sentence).partition("|")
    line, column = before.count("\n"), len(before.rpartition("\n")[2])
    found = offers(before + after, line, column, STORED)
    for offer in found:
        begun = before[len(before) - (column - offer.start) :]
        assert " " not in begun
    return {offer.text: offer.kind for offer in found}


PLACES = [
    ("- |", ["forward", "step.time", '"odd name"', "share", "p95 of"], ["under", "ms", "and"]),
    ("- assert: |", ["forward", "share"], ["under"]),
    ("- {assert: |", ["forward"], ["under"]),
    ("- id: a\n    assert: |", ["forward"], ["under"]),
    ("- '|", ["forward"], ["under"]),
    ("- p95 of |", ["forward"], ["under", "p95 of"]),
    ("- p99(|", ["forward"], ["under"]),
    ("- forward / |", ["step.time"], ["under"]),
    ("- forward |", ["p95", "under", "at most", "within", "on the slowest rank", "across ranks"], ["forward", "ms"]),
    ("- forward p95 |", ["under", "within", "on each rank"], ["median", "forward"]),
    ("- forward u|", ["under"], ["within"]),
    ("- forward at |", ["most", "least"], ["under", "at most"]),
    ("- forward on the |", [], ["under"]),
    ("- forward under 50 |", ["ms", "s", "and", "%"], ["MB", "forward", "of baseline"]),
    ("- forward under 50m|", ["ms", "min"], ["s", "MB"]),
    ("- memory.allocated under 50 |", ["MB", "GiB"], ["ms"]),
    ("- share under 50 |", ["%", "ms"], []),
    ("- unknown under 50 |", ["MB", "ms", "/s"], ["forward"]),
    ("- forward under 50 ms |", ["and", "on the worst rank"], ["ms", "of baseline"]),
    ("- forward within 5% |", ["of baseline", "of anchor", "of the median rank", "and"], ["under", "ms"]),
    ("- forward within 5% of |", ["baseline", "anchor", "the median rank"], ["of baseline", "ms"]),
    ("- forward at most 3% |", ["above baseline", "and"], ["under", "of baseline"]),
    ("- forward at most 105% |", ["above baseline", "of baseline", "baseline"], ["under"]),
    ("- the |", ["largest"], ["forward"]),
    ("- the largest |", ["request_rate", "concurrency"], ["forward", "under"]),
    ("- the largest request_rate |", ["with"], ["under", "forward"]),
    ("- the largest request_rate with |", ["forward"], ["under"]),
    ("- the largest request_rate with forward under 5 |", ["ms", "s"], ["forward"]),
    ("- the largest request_rate with forward under 5 ms |", ["at least", "within", "and"], ["forward"]),
    ("- n|", ["no more work than baseline", "no more device work than baseline"], ["forward"]),
    ("- no |", ["more"], ["work"]),
    ("- no more |", ["work", "device work", "work.syncs"], ["forward", "work.device_time", "under"]),
    ("- no more work |", ["than baseline"], ["as baseline", "under"]),
    ("- no more work.syncs than |", ["baseline"], ["anchor"]),
    ("- same work |", ["as baseline"], ["than baseline", "under"]),
    ("- forward under 5 ms and |", ["over", "within"], ["forward", "ms"]),
]


@pytest.mark.parametrize(("sentence", "offered", "others"), PLACES, ids=[row[0] for row in PLACES])
def test_what_can_follow_is_offered_and_nothing_else(sentence: str, offered: list[str], others: list[str]) -> None:
    found = at("  " + sentence)
    assert [text for text in offered if text not in found] == []
    assert [text for text in others if text in found] == []


@pytest.mark.parametrize(
    "text", ["  - id: |", "  - {assert: x < 1, why: |", "  # |", "suite: |", "  - forward under |"]
)
def test_elsewhere_nothing_is_offered(text: str) -> None:
    assert at(text) == {}


def test_derived_metrics_get_names_of_metrics_only() -> None:
    found = at("", "version: 1\nmetrics:\n  share: forward / |\nrules:\n")
    assert set(found.values()) == {"metric"}
    assert "forward" in found


def test_the_begun_word_is_replaced() -> None:
    text = "version: 1\nrules:\n  - forw"
    [offer] = [offer for offer in offers(text, 2, 8, STORED) if offer.text == "forward"]
    assert (offer.start, offer.meaning) == (4, "s")


def test_a_file_of_another_suite_gets_the_metrics_of_its_suite() -> None:
    stored = {"a": {"only_a": "s"}, "b": {"only_b": "s"}}
    text = "version: 1\nsuite: b\nrules:\n  - "
    assert {"only_b"} == {offer.text for offer in offers(text, 3, 4, stored) if offer.kind == "metric"}
