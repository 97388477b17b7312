"""The refusals of ranks that are gone or ended early, of mixed units, and of values that were left out."""

from __future__ import annotations

import pytest
from stories import run_of, series
from test_presence import BASELINE, run, said, values

from perfgate.core import Key, Location, Problem, Run


def of_ranks(*ranks: str, source: str = "new.json", lengths: tuple[int, ...] = ()) -> Run:
    """A run in which x takes a second on each rank, in this number of steps; the rank "" has no label."""
    counts = lengths or (9,) * len(ranks)
    each = [
        series("x", "s", [1.0] * count, **({"rank": rank} if rank else {}))
        for rank, count in zip(ranks, counts, strict=True)
    ]
    return run_of(*each, source=source)


SILENT, ITS_FOLDER = "find out why that process wrote nothing", "if these are the files of one run, one for each rank"
GONE_RANKS: list[tuple[list[Run], list[Run], str]] = [
    # the new runs, the stored ones, and the answer
    (
        [of_ranks("0")],
        [of_ranks("0", "1", "2")],
        f"rank-gone: x: new.json lacks rank 1, rank 2, which the baseline has. {SILENT}",
    ),
    (
        [of_ranks("0")],
        [of_ranks("0", "")],
        f"rank-gone: x: new.json lacks the series without rank, which the baseline has. {SILENT}",
    ),
    (
        [of_ranks("0", "1"), of_ranks("0", source="b.json")],
        [],
        f"rank-gone: x: b.json lacks rank 1, which other new runs have. {SILENT}; {ITS_FOLDER}, give their folder",
    ),
    (
        [of_ranks("0", "1"), of_ranks("0", source="b.json")],
        [of_ranks("0")],
        f"rank-gone: x: b.json lacks rank 1, which other new runs have. {SILENT}; {ITS_FOLDER}, give their folder",
    ),
]


@pytest.mark.parametrize(("new", "base", "answer"), GONE_RANKS)
def test_a_rank_that_is_gone(new: list[Run], base: list[Run], answer: str) -> None:
    assert said(f"x {BASELINE}", new, base) == answer


DIED = "that process seems to have died early: run it again"
CUT = [
    # the numbers of values of the ranks, and the answer
    ((9, 9, 4), f"too-few-samples: x: in new.json, rank 2 has 4 values; others have 9. {DIED}"),
    ((10, 10, 5), "pass"),
]


@pytest.mark.parametrize(("lengths", "answer"), CUT)
def test_a_rank_that_ended_early(lengths: tuple[int, ...], answer: str) -> None:
    new = of_ranks(*(str(rank) for rank in range(len(lengths))), lengths=lengths)
    assert said("x under 9 s", [new], []) == answer


def test_a_metric_that_cannot_be_judged_says_why() -> None:
    bytes_of_x = run_of(values("x", 1.0, unit="B"), source="b.json")
    assert said(f"x {BASELINE}", [run("x")], [bytes_of_x]) == (
        "unit-mismatch: x has different units: B and s. write it in one unit, or under another name"
    )
    left_out = Problem("error", "the value is nan", Location("new.json", 7), Key("x"))
    assert said("x under 9 s", [run("x", problems=(left_out,))], []) == (
        "not-a-number: x: a value was left out: new.json:7: the value is nan. find out why the job wrote it"
    )
    assert (
        said(f"x {BASELINE}", [], [run("x")]) == "no-data: x: there is no new run. find out why the program wrote none"
    )
