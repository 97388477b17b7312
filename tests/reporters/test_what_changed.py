"""The pictures of what changed: boxes within their callers, causes where they are, any number of ranks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import html as lxml_html
from msgspec.structs import replace
from samples import WITH_CAUSES

from perfgate.core.causes import CauseReport, PlaceTime, RankTime
from perfgate.reporters.html import what_changed
from perfgate.reporters.html.page import render

assert WITH_CAUSES.causes is not None
CAUSES: CauseReport = WITH_CAUSES.causes


@st.composite
def trees(draw: st.DrawFn) -> tuple[PlaceTime, ...]:
    """Trees in which a place takes at least as long as what it calls."""
    parents = [draw(st.integers(0, max(at - 1, 0))) for at in range(draw(st.integers(1, 12)))]
    times = [[draw(st.floats(0, 1)) for _ in parents] for _ in range(2)]
    for at in range(len(parents) - 1, 0, -1):
        for side in times:
            side[parents[at]] += side[at]
    return tuple(
        PlaceTime(f"p{at}", parent if at else -1, times[0][at], times[1][at]) for at, parent in enumerate(parents)
    )


@given(trees())
def test_a_box_is_within_its_caller_and_beside_its_neighbours(places: tuple[PlaceTime, ...]) -> None:
    picture = what_changed.tree(replace(CAUSES, tree=places))
    if picture is None:
        assert places[0].base == places[0].new == 0
        return
    boxes = {box.label: box for box in picture.boxes}
    for at, place in enumerate(places):
        if place.name in boxes:
            below = [boxes[child.name] for child in places[at + 1 :] if child.parent == at and child.name in boxes]
            edges = [boxes[place.name].x, *(edge for box in below for edge in (box.x, box.x + box.width))]
            assert all(left <= right + 0.002 for left, right in pairwise(edges))
            assert edges[-1] <= boxes[place.name].x + boxes[place.name].width + 0.02


def test_the_width_of_a_box_tells_what_both_sides_have_and_what_one_has() -> None:
    picture = what_changed.tree(CAUSES)
    assert picture is not None
    boxes = {box.label: box for box in picture.boxes}
    assert (boxes["aten::mm"].shared, boxes["aten::mm"].changed, boxes["aten::mm"].grew) == (70, 30, True)
    gone, come = boxes["softmax_kernel"], boxes["softmax_sum_kernel"]
    assert [(box.shared, box.changed, box.grew) for box in (gone, come)] == [(0, 100, False), (0, 100, True)]
    assert {box.label: box.mark for box in picture.boxes if box.mark} == {"sm90_gemm_nt": 1, "softmax_sum_kernel": 2}
    assert "7 smaller places" in boxes


_STEP = PlaceTime("step", -1, 1.0, 1.0)


@pytest.mark.parametrize(
    "places",
    [
        (),
        (PlaceTime("step", 0, 1.0, 1.0),),
        (_STEP, PlaceTime("its own caller", 1, 1.0, 1.0)),
        (_STEP, PlaceTime("a second step", -1, 1.0, 1.0)),
        (_STEP, PlaceTime("negative", 0, -1.0, 1.0)),
        (_STEP, PlaceTime("huge", 0, 1e300, 1.0)),
        (PlaceTime("empty", -1, 0.0, 0.0),),
    ],
)
def test_what_is_no_tree_gives_no_picture(places: tuple[PlaceTime, ...]) -> None:
    assert what_changed.tree(replace(CAUSES, tree=places)) is None


def test_a_deep_and_large_tree_is_cut_and_it_is_said() -> None:
    chain = tuple(PlaceTime("f", at - 1, 1.0, 1.0) for at in range(10_000))
    picture = what_changed.tree(replace(CAUSES, tree=chain))
    assert picture is not None
    assert picture.height <= 400
    assert "below the lowest level" in picture.left_out


def _ranks(count: int, slow: int) -> tuple[RankTime, ...]:
    return tuple(
        RankTime(str(at), 1.0, 0.2, 1.5 if at == slow else 1.0, 0.2 if at == slow else 0.7) for at in range(count)
    )


@pytest.mark.parametrize(("count", "slow"), [(2, 1), (64, 0), (1024, 517), (1000, 999)])
def test_the_slow_rank_is_marked_among_any_number(count: int, slow: int) -> None:
    cause = replace(CAUSES.causes[0], ranks=(str(slow),))
    picture = what_changed.ranks(replace(CAUSES, causes=(cause,), ranks=_ranks(count, slow)))
    assert picture is not None
    assert picture.culprit_work.count("M") == 1
    assert picture.work.count("M") < 128
    ((place, name),) = picture.marks
    assert name == f"rank {slow}"
    assert place == pytest.approx(100 * (slow + 0.5) / count, abs=1)
    assert picture.rows[0].rank == str(slow)
    page = render(replace(WITH_CAUSES, causes=replace(CAUSES, causes=(cause,), ranks=_ranks(count, slow))))
    assert f'd="{picture.work}"' in page


def test_a_report_has_one_finding_a_cause() -> None:
    page = lxml_html.fromstring(render(WITH_CAUSES))
    head = [" ".join(" ".join(item.itertext()).split()) for item in page.xpath("//header//li")]
    assert [line[:20] for line in head] == [
        "1 slow rank 2 (the o",
        "2 replaced: forward ",
        "3 more memory at the",
        "? undecided: backwar",
    ]
    follows = page.xpath("//div[@id='cause-1']//li/a/@href")
    assert follows == ["#verdict-0", "#verdict-2"]
    for index in (0, 2, 3):
        (verdict,) = page.xpath(f"//details[@id='verdict-{index}']")
        assert verdict.get("open") is not None
        assert verdict.xpath(".//p[@class='cause-of']/a/@href")
