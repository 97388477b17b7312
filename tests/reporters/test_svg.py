"""Pictures as text: scales, ticks, paths, and elements that no text leaves."""

from __future__ import annotations

import pytest

from perfgate.core.units import UNITS
from perfgate.reporters import svg
from perfgate.reporters.svg import PictureScale, SafeText, element, ends, round_numbers, value_ticks


@pytest.mark.parametrize(
    ("low", "high", "unit", "is_log", "labels"),
    [
        (0.0162, 0.0184, "ms", False, "17 ms, 18 ms"),
        (0.0, 1.0, "%", False, "0%, 25%, 50%, 75%, 100%"),
        (-2e-3, 2e-3, "ms", False, "−2 ms, −1 ms, 0 ms, 1 ms, 2 ms"),
        (3 * 2**30, 9 * 2**30, "GiB", False, "4 GiB, 6 GiB, 8 GiB"),
        (0.001, 9.0, "ms", True, "1 ms, 10 ms, 100 ms, 1 s"),
        (0.001, 1e6, "s", True, "1 ms, 1 s, 1000 s, 1000000 s"),
        (1.0, 1.4, "s", True, "1 s, 1.1 s, 1.2 s, 1.3 s, 1.4 s"),
        (1.0, 1.0, "s", False, ""),
    ],
)
def test_ticks_are_round_in_their_unit(low: float, high: float, unit: str, is_log: bool, labels: str) -> None:
    assert ", ".join(tick.label for tick in value_ticks(low, high, UNITS[unit], 4, is_log=is_log)) == labels


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e12])
def test_there_are_never_more_ticks_than_asked_for(size: float) -> None:
    for tenths in range(1, 100):
        assert 2 <= len(round_numbers(size, size * (1 + tenths / 10), 4)) <= 5


@pytest.mark.parametrize(
    ("values", "also", "options", "expected"),
    [
        ([0.0, 10.0], (), {"room": 0.1}, (-1.0, 11.0)),
        ([5.0], (), {}, (4.75, 5.25)),
        ([0.0], (), {}, (-1.0, 1.0)),
        ([*[1.0, 2.0] * 50, 90.0], (), {"outside": 0.01, "room": 0}, (1.0, 2.0)),
        ([*[1.0, 2.0] * 50, 2.4], (), {"outside": 0.01, "room": 0}, (1.0, 2.4)),
        ([*[1.0, 2.0] * 50, 90.0], (80.0,), {"outside": 0.01, "room": 0}, (1.0, 90.0)),
        ([1.0, 100.0], (), {"is_log": True, "room": 0.5}, (0.1, 1000.0)),
        ([1e300], (), {}, None),
        ([1e-320], (), {}, None),
        ([], (), {}, None),
    ],
)
def test_ends_of_an_axis(
    values: list[float], also: tuple[float, ...], options: dict[str, float], expected: tuple[float, float] | None
) -> None:
    found = ends(values, also, **options)  # type: ignore[arg-type]
    assert found == (expected if expected is None else pytest.approx(expected))


def test_scales() -> None:
    assert [PictureScale(0, 10, 200, 0).place(value) for value in (0, 5, 10, 20)] == [200, 100, 0, -200]
    assert [round(PictureScale(1, 100, 0, 50, is_log=True).place(value), 9) for value in (1, 10, 100)] == [0, 25, 50]


def test_paths() -> None:
    assert svg.polyline([(0, 1), (2.5, 3)]) == "M0 1L2.5 3"
    assert svg.dots([(0, 512), (1, 489), (3, 493)]) == "M0 512h0m1-23h0m2 4h0"
    assert svg.dots([]) == ""
    assert svg.steps([(0, 5, 10), (5, 9, 7), (11, 12, 7)]) == "M0 10H5V7H9M11 7H12"
    assert svg.verticals([1, 2.5], 0, 9) == "M1 0V9M2.5 0V9"


def test_an_axis_has_a_line_and_a_label_for_each_tick() -> None:
    ticks = value_ticks(0.0, 2.0, UNITS["s"], 2)
    drawn = svg.grid(ticks, PictureScale(0.0, 2.0, 100, 0), 420)
    assert drawn.startswith('<line x2="420" y1="100" y2="100" class="grid"></line><text x="-8" y="104"')
    below = svg.labels_below([(0.0, "a"), (50.0, "b"), (100.0, "c")], 20)
    assert [word.split('"')[0] for word in below.split('text-anchor="')[1:]] == ["start", "end"]


def test_text_and_attributes_are_escaped() -> None:
    assert element("b", "<&\"'\u202e", class_="\"'<>") == (
        '<b class="&quot;&#x27;&lt;&gt;">&lt;&amp;&quot;&#x27;\\u202e</b>'
    )
    assert element("p", element("b", "1"), SafeText("&amp;"), hidden=True, title=None) == "<p hidden><b>1</b>&amp;</p>"
    with pytest.raises(ValueError, match="is not a name of an attribute"):
        element("p", **{"a b": "c"})
    with pytest.raises(ValueError, match="is not a name of an element"):
        element("p x")
