"""`perfgate init -- COMMAND` makes a gate of pairs only if pairs are known to see smaller changes than stored runs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from perfgate.commands import init_gate
from perfgate.commands.init_from_command import FirstPairs, _chosen
from perfgate.commands.init_gate import FirstRuns, InitChoices
from perfgate.core.advice import Advice, FirstGate, MeasuredCommand, ProposedRule, StepTime
from perfgate.judge.pairs import Pairs
from perfgate.workspace.options import CommandOptions


@pytest.mark.parametrize(
    ("of_runs", "of_pairs", "is_paired", "note"),
    [
        (0.3, 0.2, True, "stored runs see +30.0% in step.time, and pairs +20.0% in step.time: the gate makes pairs"),
        (
            0.25,
            0.2,
            False,
            "stored runs see +25.0% in step.time, and pairs +20.0% in step.time: the gate stores 0 runs",
        ),
        (0.3, None, False, "stored runs see +30.0% in step.time, and pairs no time: the gate stores 0 runs"),
        (0.1, None, False, None),  # no pairs are made
        (None, 0.1, False, None),
    ],
)
def test_pairs_are_chosen_if_they_see_more(
    of_runs: float | None, of_pairs: float | None, is_paired: bool, note: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def advised(first: FirstRuns, gate: FirstGate, *, without_step: bool = False) -> tuple[FirstGate, dict[str, bytes]]:
        rule = ProposedRule("usual", "", "step.time", "", fails_from=of_pairs if gate.is_paired else of_runs)
        return replace(gate, advice=Advice((rule,), (), StepTime("step.time"), runs=3, most_runs=3)), {}

    monkeypatch.setattr(init_gate, "gate_from_runs", advised)
    first = FirstRuns(CommandOptions(), "training", (), {}, (), [], {})
    measured = MeasuredCommand("train", "", 3, 1.0, (), 0)
    gate = FirstGate("written", None, "", workflow="", files=(), measured=measured)
    made = FirstPairs(Pairs((), (), "in-turn"), 1.0, ())
    found, _ = _chosen(first, gate, InitChoices(), lambda: made)
    assert found.measured is not None
    assert found.is_paired == is_paired
    assert [one.startswith(note or "") for one in found.measured.notes] == ([] if note is None else [True])
