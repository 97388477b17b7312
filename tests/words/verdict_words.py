"""The sentences of single verdicts: a change, a limit, a doubt, a note, a step; one case for each branch."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from math import log
from typing import Any

from msgspec.structs import replace
from said import Said, say

from perfgate.core import (
    Acceptance,
    Allowance,
    HostDifference,
    Key,
    Location,
    NextStep,
    PooledRuns,
    Quarantine,
    Run,
    SourceFile,
    Verdict,
)
from perfgate.core.baseline import HostLevel
from perfgate.core.details import WorkDifference, WorkPlace
from perfgate.core.results import ChangeResult, Doubt, Judgement, LimitResult, WorkResult
from perfgate.words import change, notes, steps, work

HERE = Acceptance(runs=("new.log",))
ON_MAIN = replace(HERE, ref="main", head="4f2a9c1d", expires=date(2026, 2, 1))
WITHOUT_STORE = replace(HERE, has_store=False)

AS_WORK: dict[str, Any] = {
    "rule": "r",
    "metric": "work",
    "labels": {},
    "statistic": None,
    "outcome": "fail",
    "reason": "more-work",
    "severity": "error",
    "exit_code": 1,
    "kind": "change",
    "unit": None,
    "message": "",
    "next_step": NextStep(),
    "at": Location("rules.yaml", 1, 1),
    "asks": "no more work than baseline",
}

CHANGE = ChangeResult(
    outcome="pass",
    reason="interval",
    estimate=0.031,
    low=0.012,
    high=0.05,
    base_value=0.361,
    new_value=0.372,
    base_runs=5,
    new_runs=1,
    tolerance=0.05,
)
DOUBTED = {"outcome": "undecided", "at_worst": 0.1, "not_excluded": 0.139, "high": 0.139}
SUSPECT = {"outcome": "undecided", "suspect": True}
OPEN = Judgement("undecided", "interval")
UNKNOWN_NOISE = {**DOUBTED, "reason": "noise-unknown", "base_runs": 1}
NOT_EXCLUDED = {**DOUBTED, "reason": "cannot-exclude"}
MESSAGES: dict[str, dict[str, Any]] = {
    "pass": {},
    "improved": {"improved": True, "estimate": -0.2, "low": -0.21, "high": -0.19, "new_value": 0.289},
    "fail": {"outcome": "fail", "at_worst": 0.1},
    "suspect": SUSPECT,
    "suspect, one run": {**SUSPECT, "at_worst": 0.1},
    "suspect, several runs": {**SUSPECT, "at_worst": 0.1, "new_runs": 3},
    "undecided": {"outcome": "undecided"},
    "undecided, excluded": {**DOUBTED, "not_excluded": 0.08},
    "pass, not excluded by the tolerance": {"outranked": OPEN, "at_worst": 0.1, "not_excluded": 0.08},
    "pass, without a promise": {"outranked": OPEN},
    "noise-unknown": UNKNOWN_NOISE,
    "cannot-exclude": NOT_EXCLUDED,
    "cannot-exclude, too few runs": {**NOT_EXCLUDED, "high": 0.05},
    "thin-tail": {"outcome": "undecided", "reason": "thin-tail"},
    "exact": {"reason": "exact"},
    "no relative change": {"estimate": None},
    "no relative change, equal": {"estimate": None, "new_value": 0.361},
}
CHANGE_STEPS: dict[str, dict[str, Any]] = {
    "pass": {},
    "improved": {"improved": True},
    "fail": {"outcome": "fail", "at_worst": 0.1},
    "pass, open": {"outranked": OPEN, "runs_needed": 3},
    "suspect": SUSPECT,
    "suspect, one run": {**SUSPECT, "at_worst": 0.1},
    "suspect, two runs": {**SUSPECT, "at_worst": 0.1, "new_runs": 2},
    "suspect, three runs": {**SUSPECT, "at_worst": 0.1, "new_runs": 3},
    "thin-tail": {"outcome": "undecided", "reason": "thin-tail"},
    "undecided": {"outcome": "undecided"},
    "undecided, 3 runs needed": {"outcome": "undecided", "runs_needed": 3},
    "undecided, 1 run needed": {"outcome": "undecided", "runs_needed": 1},
    "undecided, excluded": {**DOUBTED, "excluded": True},
    "noise-unknown": UNKNOWN_NOISE,
    "cannot-exclude, one run": {**NOT_EXCLUDED, "runs_needed": 3},
    "cannot-exclude, two runs": {**NOT_EXCLUDED, "runs_needed": 3, "new_runs": 2},
    "cannot-exclude, few base runs": {**NOT_EXCLUDED, "base_runs": 3},
    "cannot-exclude": NOT_EXCLUDED,
}
#: Between pairs, the other cases are these, too.
STEPS_OF_PAIRS = ("pass", "improved", "fail", "suspect", *(case for case in CHANGE_STEPS if case.startswith("undec")))
POOLED = PooledRuns("main", ("12f6784632", "e6f895e19e"), 0.068, 0.039, 0.098, decides=True)


def of_changes() -> Iterator[Said]:
    """Yield the sentences about changes of words/change."""
    for case, fields in MESSAGES.items():
        result = replace(CHANGE, **fields)
        yield say(change.change_message, case, "forward median", result, "baseline", ("s", None), "5%")
    yield say(change.change_message, "warm-up", "forward median", CHANGE, "anchor", ("s", "ms"), "5% and 2 ms", 3)
    of_a_pair = replace(CHANGE, **{**UNKNOWN_NOISE, "new_runs": 1})
    in_pairs = ("step median", of_a_pair, change.PAIRED_BASE, ("s", None), "5%")
    yield say(change.change_message, "noise-unknown, one pair", *in_pairs)
    yield say(change.pooled_note, "decides", POOLED)
    yield say(change.pooled_note, "the branch moved", replace(POOLED, decides=False))
    for case, fields in CHANGE_STEPS.items():
        yield say(change.change_next_step, case, replace(CHANGE, **fields), HERE)
    for case in STEPS_OF_PAIRS:
        yield say(change.paired_next_step, case, replace(CHANGE, **CHANGE_STEPS[case]))
    yield say(change.paired_next_step, "suspect, no pair is left", replace(CHANGE, **SUSPECT, new_runs=10), 10)


LIMIT = LimitResult(
    outcome="pass", reason="interval", estimate=0.0426, low=0.0401, high=0.0453, n=1662, n_effective=567.4, runs=1
)
LIMITS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # fields of the result, and options of the sentence
    "pass": ({}, {}),
    "fail": ({"outcome": "fail"}, {}),
    "suspect": (SUSPECT, {}),
    "undecided": ({"outcome": "undecided"}, {}),
    "pass, open": ({"outranked": OPEN}, {}),
    "pass, all values keep it": ({"outranked": OPEN, "high": None, "share": 0.0}, {"is_open": True}),
    "pass, too few values": ({"outranked": OPEN, "high": None, "share": 0.04}, {"is_open": True}),
    "every-value": ({"outcome": "fail", "reason": "every-value"}, {}),
    "open": ({"outcome": "undecided", "high": None}, {"is_open": True}),
    "cannot-exclude": ({"outcome": "undecided", "reason": "cannot-exclude"}, {}),
    "exact, one number": ({"low": 0.0426, "high": 0.0426, "n": None}, {}),
    "several runs": ({"n_effective": None, "runs": 3}, {}),
    "warm-up": ({}, {"dropped": 12}),
}


def of_limits() -> Iterator[Said]:
    """Yield the sentences about limits of words/change."""
    for case, (fields, options) in LIMITS.items():
        result = replace(LIMIT, **fields)
        yield say(
            change.limit_message, case, "forward p95", result, "under 50 ms", ("s", "ms"), confidence=0.95, **options
        )
    yield say(change.rank_values, "", "backward median", (0.21, 0.2), "s", "slowest", "median")
    where, asks = "rules/training.yaml:6", "under 50 ms"
    suspect = replace(LIMIT, **SUSPECT)
    yield say(change.limit_next_step, "pass", "forward p95", LIMIT, asks, where, None)
    failed, unknown = (replace(LIMIT, outcome=outcome) for outcome in ("fail", "undecided"))
    for case, result in {"fail": failed, "suspect": suspect, "undecided": unknown}.items():
        yield say(change.limit_next_step, case, "forward p95", result, asks, where, None)
    yield say(
        change.limit_next_step,
        "fail, a lower bound on a ref",
        "forward p95",
        failed,
        "at least 95%",
        where,
        None,
        "main",
    )
    yield say(change.limit_next_step, "suspect, values needed", "forward p95", suspect, asks, where, 59)
    yield say(change.limit_next_step, "undecided, open", "forward p95", unknown, asks, where, 59, may_pass=True)


def of_work() -> Iterator[Said]:
    """Yield the sentences of words/work."""
    place = WorkPlace("forward", "aten::item", "model.py(58): forward")
    syncs = WorkDifference("work.syncs", {}, {}, 1.0, 7.0, place=place)
    copies = WorkDifference("work.copies", {"kind": "DtoH"}, {"device": "0"}, 0.0, 6.0, place=place)
    blocks = WorkDifference("work.blocks", {}, {"device": "0"}, 4_291_000.0, 4_662_000.0)
    sent = WorkDifference("work.copied_bytes", {"kind": "HtoD"}, {"rank": "3"}, 2048.0, 4096.0)
    flop = WorkDifference("work.flops", {}, {}, 0.0, 3e9)
    one = WorkDifference("work.kernels", {}, {"device": "0"}, 251.0, 252.0, place=WorkPlace("", "cudaFree"))
    ranks = [replace(one, member={"device": "0", "rank": rank}) for rank in "01"]
    same = WorkResult(outcome="pass", reason="exact", counts=8, base_runs=3, new_runs=1)
    more, less = {"outcome": "fail", "reason": "more-work"}, {"outcome": "pass", "reason": "exact"}
    unclear = {"outcome": "undecided", "reason": "varied-work", "suspect": True}
    cases = {
        "same": same,
        "one count": replace(same, counts=1),
        "more": replace(same, grown=(syncs, copies, blocks), **more),
        "more, several": replace(same, grown=(syncs, copies, flop, blocks, sent), **more),
        "more, of ranks": replace(same, grown=tuple(ranks), **more),
        "more, of one rank": replace(same, grown=(sent,), **more),
        "less": replace(same, shrunk=(replace(one, base=252.0, new=251.0), replace(blocks, new=4e6)), **less),
        "allowed": replace(same, allowed=(one,)),
        "allowed, of those that vary": replace(same, allowed=(replace(blocks, varies=True),), varied=("work.blocks",)),
        "varied": replace(same, varied=("work.blocks", "work.memsets")),
        "varied, probably more": replace(same, varied=("work.blocks",), unclear=(blocks,), **unclear),
        "varied, not enough evidence": replace(same, counts=0, varied=("work.blocks",), **unclear),
    }
    for case, result in cases.items():
        yield say(work.work_message, case, result)
    failed = cases["more"]
    for case, accept in {"here": HERE, "on a ref": ON_MAIN, "without a store": WITHOUT_STORE}.items():
        yield say(work.work_next_step, case, failed, accept)
    yield say(work.work_next_step, "less", replace(failed, grown=(), shrunk=(one,)), HERE)
    yield say(work.work_next_step, "undecided", cases["varied, probably more"], HERE)
    yield say(work.work_next_step, "pass", same, HERE)
    verdict = Verdict(**(AS_WORK | {"work": (syncs,)}))
    yield say(work.is_work, "", verdict)
    yield say(work.largest_difference, "", verdict)
    yield say(work.first_difference, "", verdict)
    more = replace(verdict, work=(syncs, replace(blocks, new=4e6)))
    yield say(work.first_difference, "several", more)
    yield say(work.largest_difference, "none", replace(verdict, work=()))


ALLOWED = Allowance("forward", 0.22, "ada", "worth it", date(2026, 1, 31))
QUARANTINE = Quarantine("2026-12-22", "6 of 80 unchanged runs of main were red", ended=False)


def of_notes() -> Iterator[Said]:
    """Yield the sentences of words/notes; its constants are added by the test."""
    yield say(notes.unstored_parts, "", ["forward", "backward"])
    yield say(notes.uncalibrated, "looks", has_looks=True, can_calibrate=True, history=None)
    yield say(notes.uncalibrated, "no looks", has_looks=False, can_calibrate=False, history=None)
    yield say(notes.uncalibrated, "unlike the history", has_looks=True, can_calibrate=False, history=0.014)
    for effect in ("expired", "not-enough", "eased"):
        yield say(notes.allowance, effect, ALLOWED, effect)
    yield say(notes.one_of_many, "", 12, 0.95)
    yield say(notes.paired, "", 3, "in-turn", None)
    yield say(notes.paired, "known noise", 1, "one-process", 8)
    yield say(notes.order_effect, "removed", 0.002, 0.05)
    yield say(notes.order_effect, "large", 0.06, 0.05)
    yield say(notes.two_modes, "", 0.1, 0.12, 0.3, "s")
    yield say(notes.stalled, "", 3)
    yield say(notes.stalls, "", (3, 59), (3, 177), "+0.1%")
    yield say(notes.left_out, "", ["loss", "memory", "loss"])
    yield say(notes.less_work, "", -0.3, "work.flops", 0.31)
    yield say(notes.less_work, "from 0", None, "work.flops", 0.31)
    yield say(notes.of_best_values, "", "p99.9")
    yield say(notes.quarantine_over, "", QUARANTINE)
    yield say(notes.in_quarantine, "", QUARANTINE, "MESSAGE")
    yield say(notes.in_quarantine, "ended", replace(QUARANTINE, ended=True), "MESSAGE")
    for policy in ("warn", "skip"):
        yield say(notes.accepted_missing, policy, policy, "MESSAGE")
    yield say(notes.expected_failure, "", date(2026, 6, 1), "known", "fail", "MESSAGE")
    yield say(notes.with_earlier_runs, "", POOLED, "MESSAGE")
    yield say(notes.allowed_up_to, "", ALLOWED, "MESSAGE")


HOSTS = HostDifference(
    *(Key("forward"), "median", "worst", "main", HostLevel(("a100-1", "a100-2"), 12, 0.1, 0.004)),
    *(HostLevel(("a100-7",), 9, 0.104, 0.006), log(1.04), 0.03, 0.05),
)
DOUBTS: dict[str, Doubt] = {
    "kind": Doubt("measured-less", "kind", "samples", "aggregate", decides=True),
    "kind, one number": Doubt("measured-less", "kind", "value", "summary", decides=True),
    "new runs": Doubt("runs-disagree", "new-runs", 0.1, 0.13, decides=True),
    "base runs": Doubt("runs-disagree", "base-runs", 0.1, 0.13, decides=True),
    "gain": Doubt("implausible", "gain", 0.3, 0.01, decides=True),
    "gain to 0": Doubt("implausible", "gain", 0.3, 0.0, decides=True),
    "mean": Doubt("mean-moved", "mean", 0.1, 0.12, decides=False),
    "quarter": Doubt("warm-up", "quarter", 40, 10, decides=True),
    "quarter after a named warm-up": Doubt("warm-up", "quarter", 40, 13, decides=True, of="rule"),
    "mean after a named warm-up": Doubt("mean-moved", "mean", 0.1, 0.12, decides=False, of="rule"),
    "warm-up time": Doubt("warm-up", "warm-up time", 3.0, 21.0, decides=True),
    "warm-up steps": Doubt("warm-up", "warm-up steps", 3, 21, decides=True),
    "fewer values": Doubt("measured-less", "values", 60, 20, decides=True),
    "more calls": Doubt("measured-less", "calls", 2, 3, decides=True),
    "more ranks": Doubt("measured-less", "more-ranks", 8, 16, decides=True),
    "ranks": Doubt("measured-less", "ranks", 1, 0.5, decides=True),
    "ranks, also of the base": Doubt("measured-less", "ranks", 0.75, 0.5, decides=True),
    "steps": Doubt("measured-less", "steps", 1, 0.9, decides=True),
    "joined": Doubt("measured-less", "joined", 1, 0.9, decides=True),
    "hosts": Doubt("machine", "host-level", 0.1, 0.104, decides=True, of="slower", hosts=HOSTS),
    "one branch unknown": Doubt("machine", "host-level", 0.1, 0.104, True, "slower", replace(HOSTS, branch="")),
    "same host": Doubt("machine", "same-host", 0.0, 0.012, decides=True),
    "host": Doubt("machine", "host", "a100-1", "a100-7", decides=True),
    "cycles": Doubt("machine", "cycles", 0.0, 0.004, decides=True),
    "clock": Doubt("machine", "clock", 1.98e9, 1.41e9, decides=True),
    "clock of the base": Doubt("machine", "clock", 1.41e9, 1.98e9, decides=True),
    "lost time": Doubt("machine", "lost", 0.0, 0.12, decides=True, of="throttled by heat"),
}
DOUBT_STEPS = (
    "hosts",
    "clock",
    "lost time",
    "new runs",
    "quarter",
    "warm-up time",
    "gain",
    "ranks",
    "fewer values",
    "steps",
)


def of_doubts() -> Iterator[Said]:
    """Yield the sentences about doubts of words/notes."""
    for case, doubt in DOUBTS.items():
        yield say(notes.doubt_sentence, case, doubt, "s", None)
    for case in DOUBT_STEPS:
        yield say(notes.doubt_next_step, case, DOUBTS[case], WITHOUT_STORE, has_base=case != "ranks")
    yield say(notes.doubt_next_step, "gain, here", DOUBTS["gain"], HERE, has_base=True)
    yield say(notes.doubt_next_step, "gain, on main", DOUBTS["gain"], ON_MAIN, has_base=True)


FOLDERS = [("a/rank0.log", "a/rank1.log"), ("b.log",)]
FAILED = Verdict(
    *("forward within 5%", "forward", {}, "median", "fail", "interval", "error", 1, "change", "s", "MESSAGE"),
    *(NextStep("approve", "TEXT", command="APPROVE"), Location("rules.yaml", 7)),
)


def of_steps() -> Iterator[Said]:
    """Yield the sentences of words/steps."""
    for reference in ("baseline", "anchor"):
        yield say(steps.accept_change, reference, HERE, reference)
        yield say(steps.accept_change, f"{reference} on a ref", ON_MAIN, reference)
    yield say(steps.find_calls, "came", came=True)
    yield say(steps.find_calls, "went", came=False)
    yield say(steps.accept_change, "without a store", WITHOUT_STORE, "baseline")
    for case, accept in {"here": HERE, "on a ref": ON_MAIN, "without a store": WITHOUT_STORE}.items():
        yield say(steps.hold_gain, case, accept)
    for case, accept in {"here": HERE, "on a ref": ON_MAIN}.items():
        yield say(steps.make_baseline, case, accept)
        yield say(steps.complete_base, case, accept, FOLDERS)
    yield say(steps.complete_base, "too many files", HERE, [(f"{i}.log",) for i in range(11)])
    for otherwise in ("pass", "fail"):
        yield say(steps.expected_next_step, otherwise, otherwise)
    for reason in ("no-unit", "too-few-runs", "no-baseline", "throttled", "metric-absent"):
        yield say(steps.error_step, reason, reason, "TEXT")
    yield say(steps.error_step, "a whole step", "no-baseline", NextStep("approve", "TEXT"))
    yield say(steps.sources_of, "", [Run("a", "test", (), files=(SourceFile("a.log", "test", "00"),))])
    failed = NextStep("approve", "TEXT")
    yield say(steps.allow_step, "a change", failed, ON_MAIN, "forward", 0.123)
    yield say(steps.allow_step, "no relative change", failed, ON_MAIN, "forward", 0.0)
    yield say(steps.to_accept, "nothing", HERE, [])
    yield say(steps.to_accept, "approve", HERE, [FAILED])
    allowed = replace(FAILED, next_step=NextStep("allow", "TEXT", command="ALLOW"))
    yield say(steps.to_accept, "allow", ON_MAIN, [FAILED, allowed])
