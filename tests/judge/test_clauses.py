"""What has to be there before a clause is judged: every run, every rank, one unit and enough values."""

from __future__ import annotations

from typing import Any

import pytest
from stories import bare, run_of, series

from perfgate.core import Run
from perfgate.judge.verdicts import judge


def ranks(*names: str, source: str = "new.json", n: int = 9, unit: str = "s", value: float = 1.0) -> Run:
    """A run of x on these ranks; "" is a series without a rank."""
    rows = [series("x", unit, [value] * n, **({"rank": name} if name else {})) for name in names]
    return run_of(*rows, source=source)


def lengths(**rows: int) -> Run:
    """A run of x whose ranks hold so many values; `alone` is a series without a rank."""
    held = [series("x", "s", [1.0] * n, **({} if name == "alone" else {"rank": name[1:]})) for name, n in rows.items()]
    return run_of(*held)


ABSENT: list[tuple[str, dict[str, Any], str]] = [
    # a rule, the new runs and the stored ones, and what is said
    (
        "x within 5% of baseline",
        {"new": [], "base": [ranks("0")]},
        "no-data: x: there is no new run. find out why the program wrote none",
    ),
    (
        "x + y under 9 s",
        {"new": [run_of(series("x", "s", [1.0] * 9), series("y", "B", [1.0] * 9))]},
        "not-available: x + y: x in s + y in B has no known unit. see `perfgate inspect`",
    ),
    (
        "x under 9 s",
        {"new": [ranks("0"), run_of(source="b.json")]},
        "metric-absent: b.json has no metric x; other runs have it. "
        "find out why it is no longer written, or change the rule",
    ),
    (
        "x under 9 s",
        {"new": [run_of(source="b.json")], "base": [ranks("0")]},
        "metric-absent: b.json has no metric x; the baseline has it. "
        "find out why it is no longer written, or change the rule",
    ),
    (
        "x under 9 s",
        {"new": [ranks("0")], "base": [ranks("0", "1", "2")]},
        "rank-gone: x: new.json lacks rank 1, rank 2, which the baseline has. find out why that process wrote nothing",
    ),
    (
        "x under 9 s",
        {"new": [ranks("", "0"), ranks("0", source="b.json")]},
        "rank-gone: x: b.json lacks the series without rank, which other new runs have. find out why that process "
        "wrote nothing; if these are the files of one run, one for each rank, give their folder",
    ),
    (
        "x on each rank within 5% of anchor",
        {"new": [ranks("0", value=1.2)], "base": [ranks("0", value=1.2)], "anchor": (ranks("0", "7"),)},
        "fail; rank-gone: a run does not have x on every rank. find out why",
    ),
    (
        "x under 9 s",
        {"new": [ranks("0")], "base": [ranks("0", unit="1/s")]},
        "unit-mismatch: x has different units: 1/s and s. write it in one unit, or under another name",
    ),
    (
        "x under 9 s",
        {"new": [lengths(r0=40, r1=40, r2=19)]},
        "too-few-samples: x: in new.json, rank 2 has 19 values; others have 40. "
        "that process seems to have died early: run it again",
    ),
    (
        "x under 9 s",
        {"new": [lengths(alone=19, r1=40, r2=41)]},
        "too-few-samples: x: in new.json, the series without rank has 19 values; others have 40. "
        "that process seems to have died early: run it again",
    ),
    (
        "x under 9 s",
        {"new": [lengths(r0=0)]},
        "too-few-samples: x median on rank 0 has no value after warm-up. run more steps",
    ),
    ("x under 9 s", {"new": [lengths(r0=40, r1=40, r2=20)]}, "pass"),
    ("x under 9 s", {"new": [lengths(r0=20, r1=60)]}, "pass"),
    (
        "x under 9 s",
        {"new": [lengths(r0=19, r1=60)]},
        "too-few-samples: x: in new.json, rank 0 has 19 values; others have 39.5. "
        "that process seems to have died early: run it again",
    ),
]


@pytest.mark.parametrize(("rule", "held", "said"), ABSENT)
def test_what_is_not_there_is_said_with_the_way_on(rule: str, held: dict[str, Any], said: str) -> None:
    found = judge(bare(rule, **held))
    words = [
        f"{one.reason}: {one.message}. {one.next_step.text}" if one.outcome == "error" else one.outcome for one in found
    ]
    assert "; ".join(words) == said


def test_a_rank_that_is_gone_is_named() -> None:
    """Only the anchor knows it: of the ranks that are there, each has its verdict."""
    here = ranks("0", value=1.2)
    _, gone = judge(bare("x on each rank within 5% of anchor", [here], [here], anchor=(ranks("0", "7"),)))
    assert dict(gone.member) == {"rank": "7"}


@pytest.mark.parametrize("where", ["new", "base"])
def test_no_rank_hides_another_that_holds_no_number(where: str) -> None:
    """Of a derived metric, for what a file holds is refused when it is read."""
    good = run_of(
        *(series(name, "s", [1.0] * 9, rank=str(r)) for name in ("forward", "backward_allreduce") for r in range(3)),
        *(series("backward", "s", [1.0] * 9, rank=str(r)) for r in range(3)),
    )
    rows = [
        series(one.key.metric, "s", [0.0] * 9, rank="1") if one.key.label("rank") == "1" else one for one in good.series
    ]
    sides = {"new": [good], "base": [good], where: [run_of(*rows)]}
    (found,) = judge(bare("comm_share on the fastest rank within 5% of baseline", **sides))
    assert (found.reason, found.message) == (
        "not-a-number",
        "comm_share median on rank 1 has values that are not finite numbers",
    )
