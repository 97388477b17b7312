"""A tolerance or a limit that no share reaches is a warning of `rules check`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done

from perfgate.analysis.tolerances import impossible_shares
from perfgate.rules.load import load_rules

IMPOSSIBLE = {
    "gpu.utilization within 2 of baseline": "write 2 pp or 2%",
    "mfu within 1 of baseline": "write 1 pp or 1%",
    "goodput within 3% and 100 pp of baseline": "write fewer",
    "goodput at least 90": "`at least 90` is a limit of 9000 % for a share: write 90%",
    "gpu.utilization over 85": "write 85%",
    "scaling.efficiency at most 2": "write 2%",
}
POSSIBLE = [
    "gpu.utilization within 2 pp of baseline",
    "gpu.utilization within 0.02 of baseline",
    "gpu.utilization within 2% of baseline",
    "queue.length within 2 of baseline",
    "step.time within 2 s of baseline",
    "goodput at least 90%",
    "scaling.efficiency at most 1.05",
    "scaling.efficiency at most 1.99",
    "step.time under 90 s",
    "loss under 90",
]


def warned(sentence: str) -> list[str]:
    ruleset, _ = load_rules([("r.yaml", f"version: 1\nrules:\n  - {sentence}\n".encode())])
    assert ruleset is not None
    return [problem.message for problem in impossible_shares(ruleset)]


@pytest.mark.parametrize(("sentence", "step"), IMPOSSIBLE.items())
def test_a_quantity_that_no_share_reaches_is_a_warning(sentence: str, step: str) -> None:
    (message,) = warned(sentence)
    assert ("never fails" in message) == ("within" in sentence)
    assert message.endswith(step)


@pytest.mark.parametrize("sentence", POSSIBLE)
def test_any_other_quantity_is_not(sentence: str) -> None:
    assert warned(sentence) == []


def test_the_command_names_the_line(perfgate: Callable[..., Done], folder: Path) -> None:
    (folder / "r.yaml").write_text("version: 1\nrules:\n  - goodput within 2 of baseline\n")
    done = perfgate("rules", "check", "r.yaml")
    said = "`within 2 of baseline` never fails: 200 percentage points of a share; write 2 pp or 2%"
    assert (done.code, done.err) == (0, f"r.yaml:3:5: warning: {said}\n")
