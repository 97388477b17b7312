"""Which findings there are between two sides of traces, and which of them has a node."""

from __future__ import annotations

import pytest
from made_alignments import ADD, MUL, ROWS, TANH, TOPK, Row, aligned, finding, kinds_of, noiseless

from perfgate.causes import kinds
from perfgate.causes import trace_findings as module
from perfgate.causes.align import Alignment, Finding
from perfgate.causes.noise import Noise
from perfgate.causes.paired import PairNoise
from perfgate.causes.trace_findings import find_in_traces

EDITS = {TOPK: "appeared", TANH: "fewer calls"}


def test_the_findings_of_traces() -> None:
    alignment = aligned(ROWS)
    found, notes = find_in_traces(alignment, noiseless(alignment), other_device=False)
    assert kinds_of(found) == EDITS | {ADD: "slower"}
    assert [(one.change, one.parents, set(one.nodes)) for one in found] == [
        (-20.0, (0,), {TANH}),
        (10.0, (1,), {TOPK}),
        (20.0, (0,), {ADD}),
    ]
    assert notes == []
    found, _ = find_in_traces(alignment, noiseless(alignment), other_device=True)
    assert kinds_of(found) == EDITS | {ADD: "slower"}


def test_a_slower_call_is_in_the_call_above_it() -> None:
    rows = [Row("forward", "range", 0, 10, 10), Row("mm", "operator", 1, 20, 90), Row("tanh", "operator", 2, 9, 99)]
    alignment = aligned(rows)
    alignment.new.wall[0] = 50.0
    found, _ = find_in_traces(alignment, noiseless(alignment), other_device=False)
    assert [(one.lead, one.parents, one.kind, one.change) for one in found] == [
        (3, (2,), "slower", 90.0),
        (2, (1,), "slower", 70.0),
        (0, (0,), "slower", 50.0),
    ]


def test_nodes_of_a_slow_rank_are_in_no_other_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = finding("slow rank", 9.0, MUL, nodes={MUL, ADD, TOPK})
    monkeypatch.setattr(module, "find_slow_ranks", lambda *_: slow)
    alignment = aligned(ROWS)
    noise = noiseless(alignment)
    found, _ = find_in_traces(alignment, noise, other_device=False)
    assert kinds_of(found) == {MUL: "slow rank", TANH: "fewer calls"}
    assert found[0] == slow
    assert kinds_of(find_in_traces(alignment, noise, other_device=True)[0]) == EDITS | {ADD: "slower"}
    assert kinds_of(find_in_traces(alignment, PairNoise(alignment), other_device=False)[0]) == EDITS


def test_recognised_nodes_are_in_no_other_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Finding("larger", frozenset({TOPK, ADD}), MUL, (1,), come=(TOPK,))
    monkeypatch.setattr(module, "recognised", lambda *_: [one])
    alignment = aligned(ROWS)
    noise = noiseless(alignment)
    found, _ = find_in_traces(alignment, noise, other_device=False)
    assert kinds_of(found) == {MUL: "larger", TANH: "fewer calls"}
    assert (found[0].change, found[0].error) == noise.change({TOPK, ADD})
    assert kinds_of(find_in_traces(alignment, noise, other_device=True)[0]) == EDITS | {ADD: "slower"}


def test_a_device_that_idles_is_part_of_the_first_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "waiting_nodes", lambda edit, _, claimed: {ADD} - claimed)
    alignment = aligned(ROWS)
    found, _ = find_in_traces(alignment, noiseless(alignment), other_device=False)
    assert [(one.lead, set(one.idle), set(one.nodes), one.change) for one in found] == [
        (TANH, {ADD}, {TANH, ADD}, 0.0),
        (TOPK, set(), {TOPK}, 10.0),
    ]


def test_operators_with_other_kernels_are_one_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "many_swaps", lambda edits, _: edits)
    claims: list[set[int]] = []
    monkeypatch.setattr(kinds, "find_machine", lambda _, __, claimed, **___: claims.append(set(claimed)))
    alignment = aligned(ROWS)
    found, notes = find_in_traces(alignment, noiseless(alignment), other_device=False)
    assert notes == ["2 operators run kernels with other names: they are compared by operator"]
    assert kinds_of(found) == {TANH: "replaced", ADD: "slower"}
    assert (set(found[0].nodes), found[0].change) == ({TANH, TOPK}, -10.0)
    found, _ = find_in_traces(alignment, noiseless(alignment), other_device=True)
    assert kinds_of(found) == {TOPK: "slower", TANH: "faster", ADD: "slower"}
    assert claims == [{TANH, TOPK}, set()]


def test_the_machine_and_the_host_have_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, host = finding("machine", 7.0, MUL), finding("host", 8.0, 2)
    claims: list[set[int]] = []

    def find_host(_: Alignment, __: Noise, ___: object, claimed: set[int]) -> Finding:
        claims.append(set(claimed))
        return host

    monkeypatch.setattr(kinds, "find_machine", lambda *_, **__: machine)
    monkeypatch.setattr(module, "find_host", find_host)
    alignment = aligned(ROWS)
    found, _ = find_in_traces(alignment, noiseless(alignment), other_device=False)
    assert kinds_of(found) == EDITS | {MUL: "machine", ADD: "slower", 2: "host"}
    assert claims == [{TOPK, TANH, MUL, ADD}]


def test_nodes_of_the_machine_are_in_no_other_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = finding("machine", 7.0, MUL, nodes={MUL, ADD})
    monkeypatch.setattr(kinds, "find_machine", lambda *_, **__: machine)
    alignment = aligned(ROWS)
    found, _ = find_in_traces(alignment, noiseless(alignment), other_device=False)
    assert kinds_of(found) == EDITS | {MUL: "machine"}


def test_nodes_of_edits_do_not_idle_because_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "waiting_nodes", lambda edit, _, claimed: {TANH, TOPK, MUL} - claimed)
    alignment = aligned(ROWS)
    found, _ = find_in_traces(alignment, noiseless(alignment), other_device=False)
    assert [(one.lead, set(one.idle)) for one in found] == [(TANH, {MUL}), (TOPK, set()), (ADD, set())]


def test_pairs_have_edits_and_slow_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    slower, alignment = finding("slower", 20.0, ADD), aligned(ROWS)
    monkeypatch.setattr(module, "find_paired_slowdowns", lambda _, __, claimed: [] if ADD in claimed else [slower])
    found, notes = find_in_traces(alignment, PairNoise(alignment), other_device=False)
    assert kinds_of(found) == EDITS | {ADD: "slower"}
    assert notes == []
