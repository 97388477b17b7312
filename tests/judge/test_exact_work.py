"""The counts of exact work that are compared, the reasons to refuse them, and the place where a count grew."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any, cast

import numpy as np
import pytest
from msgspec.structs import replace
from stories import TODAY, bare, run_of

from perfgate.core import Allowance, Key, Location, NextStep, Problem, Run, Series, read_only
from perfgate.core.call_trees import CallNode, CallTree, NodeKind
from perfgate.core.details import WorkDifference
from perfgate.judge.evidence import CannotJudge, Evidence
from perfgate.judge.exact_work import ask_work, less_work, with_places, work_evidence
from perfgate.judge.question import WorkQuestion
from perfgate.judge.subjects import JudgedRuns, find_subjects

NO_MORE, DEVICE = "no more work than baseline", "no more device work than baseline"


def counted(text: str, source: str = "new.json", **fields: Any) -> Run:
    """A run of these counts: `ops 5 5; copies{kind=DtoH,device=0} 2`; `device_time` is in seconds."""
    rows = []
    for row in filter(None, text.split("; ")):
        name, *values = row.split()
        metric, _, labels = name.rstrip("}").partition("{")
        key = Key.of(f"work.{metric}", **dict(label.split("=") for label in labels.split(",") if label))
        array = read_only(np.array([float(value) for value in values]))
        rows.append(Series(key, "s" if "time" in metric else "count", "samples", array))
    return run_of(*rows, source=source, **fields)


def evidence_of(rule: str, new: Sequence[Run], base: Sequence[Run], **fields: Any) -> tuple[Evidence, Sequence[Any]]:
    asked = bare(rule, new, base, **fields)
    one = asked.ruleset.rules[0]
    runs = JudgedRuns.of(asked.new, asked.baseline, asked.ruleset.metrics, asked.ruleset.conditions)
    subjects = find_subjects(one.sentence, runs)
    return work_evidence(one, one.clauses[0], subjects, asked, runs), subjects


def question(rule: str, new: Sequence[Run], base: Sequence[Run], **fields: Any) -> WorkQuestion:
    return ask_work(*evidence_of(rule, new, base, **fields))


def told(asked: WorkQuestion) -> list[str]:
    """Each count: its labels, then the steps of each base run and of each new run."""

    def steps(side: Sequence[np.ndarray]) -> str:
        return " | ".join(" ".join(f"{value:g}" for value in run) for run in side)

    members = (replace(one.key, labels=(*one.key.labels, *one.member)) for one in asked.counts)
    pairs = zip(members, asked.counts, strict=True)
    return [f"{str(key).removeprefix('work.')}: {steps(one.base)} → {steps(one.new)}" for key, one in pairs]


# --- which counts are compared ---------------------------------------------------------------------------------------

ALL = "kernels 3; launches 3; ops 5; syncs 0"
COMPARED = [
    # a rule, the counts of the base run and of the new run, and what is compared
    (NO_MORE, ALL, ALL, ["kernels: 3 → 3", "launches: 3 → 3", "ops: 5 → 5", "syncs: 0 → 0"]),
    ("same work as baseline", ALL, ALL, ["kernels: 3 → 3", "launches: 3 → 3", "ops: 5 → 5", "syncs: 0 → 0"]),
    (DEVICE, ALL, ALL, ["kernels: 3 → 3", "syncs: 0 → 0"]),
    ("no more work.ops than baseline", ALL, ALL, ["ops: 5 → 5"]),
    (NO_MORE, "ops 5 6", "ops 7 8 9", ["ops: 5 6 → 7 8 9"]),
    (NO_MORE, "ops 5; device_time 1", "ops 5; device_time 1", ["ops: 5 → 5"]),
    (
        NO_MORE,
        "ops{rank=0} 5; ops{rank=1} 6",
        "ops{rank=0} 7; ops{rank=1} 8",
        ['ops{rank="0"}: 5 → 7', 'ops{rank="1"}: 6 → 8'],
    ),
    (NO_MORE, "ops 5", "ops 5; syncs 2", ["ops: 5 → 5"]),
    # A run without a copy made none if it shows the kernels of that device, and without a collective if it shows those
    # or the operators.
    *(
        (NO_MORE, "kernels 3", f"kernels 3; {name} 2", [f"{name}: 0 → 2", "kernels: 3 → 3"])
        for name in ("copies", "copied_bytes", "collectives", "collective_bytes")
    ),
    *(
        (NO_MORE, f"ops 3; {name} 2", "ops 3", [f"{name}: 2 → 0", "ops: 3 → 3"])
        for name in ("collectives", "collective_bytes")
    ),
    *((NO_MORE, "ops 3", f"ops 3; {name} 2", ["ops: 3 → 3"]) for name in ("copies", "copied_bytes")),
    (
        NO_MORE,
        "kernels{device=0} 3",
        "kernels{device=0} 3; copies{device=0} 2",
        ['copies{device="0"}: 0 → 2', 'kernels{device="0"}: 3 → 3'],
    ),
    (
        NO_MORE,
        "kernels{device=1} 3; kernels{device=0} 3",
        "kernels{device=0} 3; kernels{device=1} 3; copies{device=0} 2",
        ['copies{device="0"}: 0 → 2', 'kernels{device="0"}: 3 → 3', 'kernels{device="1"}: 3 → 3'],
    ),
    (NO_MORE, "kernels{device=1} 3", "kernels{device=1} 3; copies{device=0} 2", ['kernels{device="1"}: 3 → 3']),
    (
        NO_MORE,
        "kernels{device=1,rank=0} 3",
        "kernels{device=1,rank=0} 3; copies{device=0,rank=0} 2",
        ['kernels{device="1", rank="0"}: 3 → 3'],
    ),
    # What no step can have is no count.
    *((NO_MORE, f"ops 5; syncs {other}", "ops 5; syncs 1", ["ops: 5 → 5"]) for other in ("0.5", "-1", "1 -1", "1 0.5")),
]


@pytest.mark.parametrize(("rule", "base", "new", "expected"), COMPARED)
def test_the_counts_that_are_compared(rule: str, base: str, new: str, expected: list[str]) -> None:
    asked = question(rule, [counted(new)], [counted(base)])
    assert sorted(told(asked)) == expected
    assert (asked.is_same, asked.base_runs, asked.new_runs) == (rule.startswith("same"), 1, 1)


def summary(kind: Any = "aggregate", values: Sequence[float] = (), unit: str = "count", **printed: float) -> Series:
    return Series(Key("work.syncs"), unit, kind, read_only(np.array(values, np.float64)), aggregate=printed)


SINGLE = [
    # what the new run tells of its synchronisations, and what is compared with the one of the base
    (summary(min=2, max=2), ["syncs: 1 → 2"]),
    (summary(min=0, max=0), ["syncs: 1 → 0"]),
    (summary("value", [4]), ["syncs: 1 → 4"]),
    (summary(min=2, max=3), None),
    (summary(min=1.5, max=1.5), None),
    (summary(min=-1, max=-1), None),
    (summary(min=2), None),
    (summary(max=2), None),
    (summary(mean=2), None),
    (summary("samples"), None),
]


@pytest.mark.parametrize(("row", "expected"), SINGLE)
def test_a_summary_counts_if_all_steps_are_alike(row: Series, expected: list[str] | None) -> None:
    if expected is None:
        with pytest.raises(CannotJudge, match=r"^a new run has no whole count of work\.syncs for each step, which"):
            question(NO_MORE, [run_of(row)], [counted("syncs 1")])
    else:
        assert told(question(NO_MORE, [run_of(row)], [counted("syncs 1")])) == expected


def test_a_count_that_is_a_time_in_some_run_is_not_compared() -> None:
    sides = [run_of(summary("value", [4], unit="s"), *counted("ops 1").series)], [counted("ops 1; syncs 1")]
    assert told(question(NO_MORE, *sides)) == told(question(NO_MORE, *reversed(sides))) == ["ops: 1 → 1"]


def test_every_run_is_compared_but_a_base_run_that_was_not_counted() -> None:
    asked = question(NO_MORE, [counted("ops 4"), counted("ops 5")], [counted("ops 1"), run_of(), counted("ops 2")])
    assert told(asked) == ["ops: 1 | 2 → 4 | 5"]
    assert (asked.base_runs, asked.new_runs) == (3, 2)


ONE = "ops{rank=0,device=0} 1; kernels 1"
NAMES = [
    (NO_MORE, "work"),
    (DEVICE, "work"),
    ("no more work.ops than baseline", "work.ops"),
    ('\'no more work.ops{rank="0", device="0"} than baseline\'', 'work.ops{rank="0", device="0"}'),
]


@pytest.mark.parametrize(("rule", "name"), NAMES)
def test_a_clause_about_work_is_named_by_what_it_counts(rule: str, name: str) -> None:
    found, _ = evidence_of(rule, [counted(ONE)], [counted(ONE)])
    assert str(found.subject.key) == name
    assert len(found.subject.base_views) == 1


# --- allowances ------------------------------------------------------------------------------------------------------

ALLOWED = [
    # the allowances of the commit: metric, share, last day; how much more kernels are accepted
    ([], 0.0),
    ([("work", 0.2, TODAY)], 0.2),
    ([("work.kernels", 0.2, TODAY)], 0.2),
    ([("work.k*", 0.2, TODAY)], 0.2),
    ([("work.ops", 0.2, TODAY), ("kernels", 0.3, TODAY), ("worker", 0.4, TODAY)], 0.0),
    ([("work", 0.2, date(2025, 12, 31))], 0.0),
    ([("work", 0.2, TODAY), ("work.kernels", 0.3, TODAY), ("work.*", 0.1, TODAY)], 0.3),
    ([("work", 0.2, TODAY), ("work.kernels", 0.3, date(2025, 12, 31))], 0.2),
]


@pytest.mark.parametrize(("given", "share"), ALLOWED)
def test_the_largest_allowance_of_today_counts(given: list[tuple[str, float, date]], share: float) -> None:
    allowances = tuple(Allowance(metric, up_to, "ada", "worth it", until) for metric, up_to, until in given)
    asked = question(NO_MORE, [counted("kernels 3")], [counted("kernels 3")], allowances=allowances)
    assert dict(asked.allowances) == {"work.kernels": share}
    grown = [WorkDifference("work.kernels", {}, {}, 100.0, new) for new in (100 * (1 + share), 100 * (1 + share) + 1)]
    assert [asked.allows(one) for one in grown] == [True, False]
    assert not asked.allows(WorkDifference("work.ops", {}, {}, 100.0, 101.0))


def test_waits_and_allocations_come_before_the_counts_that_follow() -> None:
    known = ["work.other", "work.ops", "work.kernels", "work.allocations", "work.syncs"]
    assert sorted(known, key=WorkQuestion.order) == known[::-1]


# --- what cannot be compared -----------------------------------------------------------------------------------------

PLAIN = run_of(Series(Key("x"), "s", "value", read_only(np.ones(1))))
SYNCS, UNREAD = (
    'work.syncs{rank="0"}, which the baseline has',
    "not judged, because b.json has no metrics: b.json:3: cut",
)
BROKEN = run_of(source="b.json", problems=(Problem("error", "cut", Location("b.json", 3)),))
APPROVE = 'perfgate baseline approve RUN... --reason "..."'

REFUSED: list[tuple[list[Run], list[Run], dict[str, Any], tuple[str, str, str | None]]] = [
    # the new runs, the base runs, the baseline; the reason, the message, and the command of the next step
    ([counted("ops 1")], [counted("ops 1; syncs{rank=0} 1")], {}, ("metric-absent", f"a new run has no {SYNCS}", None)),
    (
        [counted("ops 1; syncs 1"), counted("ops 1")],
        [counted("ops 1; syncs 1")],
        {},
        ("metric-absent", "a new run has no work.syncs, which the baseline has", None),
    ),
    ([BROKEN], [counted("ops 1")], {}, ("no-data", UNREAD, None)),
    ([BROKEN, counted("ops 1")], [counted("ops 1")], {}, ("metric-absent", UNREAD, None)),
    ([counted("ops 1")], [], {}, ("no-baseline", "there is no baseline to compare work with", APPROVE)),
    ([counted("ops 1")], [], {"missing": "no level fits"}, ("no-baseline", "no level fits", APPROVE)),
    (
        [counted("ops 1")],
        [],
        {"next_step": NextStep("make-baseline", "make it", command="do")},
        ("no-baseline", "there is no baseline to compare work with", "do"),
    ),
    (
        [run_of(*counted("ops 1").series, *PLAIN.series)],
        [PLAIN],
        {},
        ("no-baseline", "the baseline gpt/h100/level has no counts of work", "perfgate baseline add RUN..."),
    ),
    ([PLAIN], [counted("ops 0.5")], {}, ("metric-absent", "the new runs have no counts of work (test)", None)),
    # Each of the new runs lacks some counts, and the base has none that is whole.
    (
        [counted("syncs 1", partial=True), PLAIN],
        [counted("ops 0.5")],
        {},
        ("metric-absent", "no step was counted", None),
    ),
]


@pytest.mark.parametrize(("new", "base", "fields", "expected"), REFUSED)
def test_what_cannot_be_compared_is_refused(
    new: list[Run], base: list[Run], fields: dict[str, Any], expected: tuple[str, str, str | None]
) -> None:
    with pytest.raises(CannotJudge) as raised:
        question(NO_MORE, new, base, **fields)
    assert (raised.value.reason, str(raised.value), raised.value.next_step.command) == expected


# --- less work -------------------------------------------------------------------------------------------------------

LESS = [
    # the counts of the base runs and of the new runs, and the witness with its share
    ("flops 100; blocks 8; kernels 8; ops 8", "flops 50; blocks 6; kernels 6; ops 6", ("work.flops", 0.5)),
    ("blocks 8; kernels 8; ops 8", "blocks 6; kernels 4; ops 2", ("work.blocks", 0.25)),
    ("kernels 8; ops 8", "kernels 4; ops 2", ("work.kernels", 0.5)),
    ("ops 8", "ops 2", ("work.ops", 0.75)),
    ("flops 100; ops 8", "ops 2", ("work.ops", 0.75)),
    ("ops 8", "flops 1; ops 2", ("work.ops", 0.75)),
    ("flops 0; ops 8", "flops 0; ops 2", ("work.ops", 0.75)),
    ("flops 1", "flops 0", ("work.flops", 1.0)),
    ("flops 0.5; ops 8", "flops 0; ops 2", ("work.ops", 0.75)),
    ("flops 100; ops 8", "flops 100; ops 2", None),
    ("flops 100; ops 8", "flops 120; ops 2", None),
    ("flops 1000", "flops 989", ("work.flops", 0.011)),
    ("flops 1000", "flops 991", None),
    ("flops 8 | flops 12", "flops 5", ("work.flops", 0.5)),
    ("flops 10", "flops 4 | flops 6", ("work.flops", 0.5)),
    ("flops 8 12", "flops 4 5 6", ("work.flops", 0.5)),
    ("syncs 8", "syncs 2", None),
]


@pytest.mark.parametrize(("base", "new", "expected"), LESS)
def test_the_count_that_shows_that_a_program_does_less(base: str, new: str, expected: tuple[str, float] | None) -> None:
    sides = ([counted(run) for run in side.split(" | ")] for side in (new, base))
    found = less_work(evidence_of(NO_MORE, *sides)[0])
    if found is None or expected is None:
        assert found == expected
    else:
        assert found[0] == expected[0]
        assert found[1] == pytest.approx(expected[1])


# --- places ----------------------------------------------------------------------------------------------------------


def tree(*nodes: str, rank: str = "") -> CallTree:
    """A step of such nodes: two blanks more a level, a name, the kind, the calls, and `@ line` of the program."""
    found, counts, above = [CallNode("step", "step", -1)], [1.0], [0]
    for node in nodes:
        depth = (len(node) - len(node.lstrip())) // 2
        text, _, source = node.strip().partition(" @ ")
        name, kind, count = text.rsplit(" ", 2)
        found.append(CallNode(name, cast(NodeKind, kind), above[depth], source))
        counts.append(float(count))
        above[depth + 1 :] = [len(found) - 1]
    calls = np.array(counts)[:, None]
    return CallTree(rank, tuple(found), calls, calls, calls)


def place(base: Sequence[CallTree], new: Sequence[CallTree], metric: str = "syncs", **fields: Any) -> str | None:
    difference = WorkDifference(f"work.{metric}", fields.get("labels", {}), fields.get("member", {}), 1.0, 2.0)
    (found,) = with_places([difference], [run_of(call_trees=base)], [run_of(call_trees=new)])
    assert replace(found, place=None) == difference
    return f"{found.place.part} / {found.place.call} / {found.place.source}" if found.place else None


WAIT, SYNC = "cudaStreamSynchronize", "cudaStreamSynchronize runtime"
ENGINE = "autograd::engine::evaluate_function: AddBackward operator"
PLACES = [
    # the calls of the base run and of the new run; part, call and line
    (["fwd range 1"], ["fwd range 1", f"  {SYNC} 1"], f"fwd / {WAIT} / "),
    (["fwd range 1", f"  {SYNC} 1"], ["fwd range 1", f"  {SYNC} 2"], f"fwd / {WAIT} / "),
    (["fwd range 1", f"  {SYNC} 2"], ["fwd range 1", f"  {SYNC} 2"], None),
    (["fwd range 1", f"  {SYNC} 2"], ["fwd range 1", f"  {SYNC} 1"], None),
    ([], [f"{SYNC} 0.000001"], None),
    ([], [f"{SYNC} 0.0000011"], f" / {WAIT} / "),
    # A call that the step makes itself is in no part.
    ([], [f"{SYNC} 1"], f" / {WAIT} / "),
    ([], ["item operator 1", f"  {SYNC} 1"], " / item / "),
    # The call is the first operator, without what the autograd engine puts before its name.
    ([], ["fwd range 1", "  item operator 1", "    copy_ operator 1", f"      {SYNC} 1"], "fwd / item / "),
    ([], ["fwd range 1", "  a operator 1", "    b range 1", f"      {SYNC} 1"], "fwd / a / "),
    ([], ["bwd range 1", f"  {ENGINE} 1", f"    {SYNC} 1"], "bwd / AddBackward / "),
    # The line is the nearest one of the call, of whichever path has one.
    ([], ["fwd range 1 @ a.py(1)", "  item operator 1 @ a.py(2)", f"    {SYNC} 1"], "fwd / item / a.py(2)"),
    ([], ["fwd range 1 @ a.py(1)", f"  {SYNC} 1 @ a.py(3)"], f"fwd / {WAIT} / a.py(3)"),
    (
        [],
        ["fwd range 1", "  o operator 1 @ o.py(1)", f"    {SYNC} 1", "  item operator 1", f"    {SYNC} 2"],
        "fwd / item / ",
    ),
    (
        [],
        ["fwd range 1", "  item operator 1", f"    {SYNC} 1", "    b operator 1 @ b.py(1)", f"      {SYNC} 1"],
        "fwd / item / b.py(1)",
    ),
    # The part with the most growth, and in it the call with the most.
    (
        [],
        [
            "a range 1",
            "  o operator 1",
            f"    {SYNC} 3",
            "b range 1",
            "  p operator 1",
            f"    {SYNC} 2",
            "  q operator 1",
            f"    {SYNC} 2.5",
        ],
        "b / q / ",
    ),
    (["a range 1", f"  {SYNC} 9"], ["a range 1", f"  {SYNC} 10", "b range 1", f"  {SYNC} 5"], f"b / {WAIT} / "),
]


@pytest.mark.parametrize(("base", "new", "expected"), PLACES)
def test_the_place_where_a_count_grew(base: list[str], new: list[str], expected: str | None) -> None:
    assert place([tree(*base)], [tree(*new)]) == expected


def test_an_operator_of_the_engine_that_the_step_calls_is_in_no_part() -> None:
    found = place([tree()], [tree(f"{ENGINE} 1")], metric="ops")
    assert found == " / AddBackward / "


CALLS = {
    # a call, its kind; the counts that it is in, of those that have a test of their own, and of all others
    ("cudaStreamSynchronize", "runtime"): ["syncs"],
    ("cudaMalloc", "runtime"): ["allocations"],
    ("cudaGraphLaunch", "runtime"): ["graph_launches"],
    ("cudaLaunchKernel", "runtime"): [],
    ("cudaStreamSynchronize", "range"): [],
    ("cudaMalloc", "range"): [],
    ("cudaGraphLaunch", "range"): [],
    ("gemm", "kernel"): ["kernels", "blocks", "launches"],
    ("Memset (Device)", "copy"): ["memsets"],
    ("Memcpy DtoH", "copy"): ["copies", "copied_bytes"],
    ("nccl:all_reduce", "collective"): ["collectives", "collective_bytes"],
    ("ncclDevKernel", "communication"): ["collectives", "collective_bytes"],
    ("aten::mm", "operator"): ["ops", "flops"],
}


@pytest.mark.parametrize(("call", "kind"), CALLS)
def test_the_calls_that_each_count_counts(call: str, kind: str) -> None:
    counts = [name for names in CALLS.values() for name in names]
    new = [tree(f"{call} {kind} 1")]
    labels = {name: {"kind": "DtoH"} if name.startswith("cop") else {} for name in counts}
    assert {name for name in counts if place([tree()], new, name, labels=labels[name])} == {*CALLS[call, kind]}


def test_copies_of_one_kind_are_found_among_others() -> None:
    new = [tree("a range 1", "  Memcpy HtoD copy 9", "b range 1", "  Memcpy DtoH copy 1")]
    found = [place([tree()], new, metric="copies", labels=labels) for labels in ({"kind": "DtoH"}, {})]
    assert found == ["b / Memcpy DtoH / ", "a / Memcpy HtoD / "]


def test_the_step_itself_is_no_call() -> None:
    base, new = (replace(tree(), nodes=(CallNode("aten::mm", "operator", -1),), counts=np.array([[n]])) for n in (1, 2))
    assert place([base], [new], metric="ops") is None


RANKS = [
    # the rank of the difference, and the part of the call: rank 0 has more in a, rank 1 in b
    ({"rank": "0"}, "a"),
    ({"rank": "1"}, "b"),
    ({}, "a"),
    ({"device": "1"}, "a"),
]


@pytest.mark.parametrize(("member", "part"), RANKS)
def test_the_calls_of_a_rank_are_those_of_its_tree(member: dict[str, str], part: str) -> None:
    ranks = [tree("a range 1", f"  {SYNC} 9", rank="0"), tree("b range 1", f"  {SYNC} 1", rank="1")]
    assert place([tree(rank="0"), tree(rank="1")], ranks, member=member) == f"{part} / {WAIT} / "


def test_a_tree_of_no_rank_is_of_every_rank() -> None:
    found = place([tree()], [tree("a range 1", f"  {SYNC} 9")], member={"rank": "1"})
    assert found == f"a / {WAIT} / "


def test_a_step_makes_the_calls_of_the_mean_of_its_trees() -> None:
    calls = "a range 1", f"  {SYNC} 1"
    assert place([tree(*calls)], [tree(*calls), tree(*calls)]) is None
    assert place([tree(*calls), tree(*calls)], [tree(*calls)]) is None
    assert place([tree(*calls), tree()], [tree(*calls), tree(*calls)]) is not None


def test_a_side_without_calls_leaves_the_place_unknown() -> None:
    difference = WorkDifference("work.syncs", {}, {}, 1.0, 2.0)
    traced, plain = run_of(call_trees=[tree(f"{SYNC} 1")]), run_of()
    assert with_places([difference], [plain], [traced]) == with_places([difference], [traced], [plain]) == (difference,)
