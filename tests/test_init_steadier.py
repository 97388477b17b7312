"""`perfgate init` names CPU time or instructions where they are clearly steadier than the wall time, and says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from conftest import Done, same_code, steady, write_results

#: The centres of five runs in ms, and of instructions in millions.
NOISY, QUIET, COUNTS = (100, 108, 131, 95, 112), (94, 94.3, 94.6, 94.2, 94.4), (251, 251.1, 251, 250.9, 251)


def runs(
    folder: Path, wall: tuple[float, ...], environment: dict[str, str] | None = None, **more: object
) -> list[Path]:
    """Five runs with the wall time and other metrics of a step: name, centres, in ms or millions."""
    found = []
    for number, centre in enumerate(wall):
        rows = [("step.time", "ms", centre)]
        for name, centres in more.items():
            unit = "ms" if name.endswith("time") else "million"
            rows.append((f"step.{name}", unit, centres[number]))  # type: ignore[index]
        series = [
            {
                "metric": name,
                "unit": unit,
                "values": steady(value, n=60, spread=0.01 if unit == "ms" else 1e-4, seed=number),
            }
            for name, unit, value in rows
        ]
        found.append(write_results(folder / f"main-{number}.json", *series, environment=environment or {}))
    return found


@pytest.mark.parametrize(
    ("wall", "environment", "more", "chosen", "reason"),
    [
        (NOISY, {}, {"cpu_time": QUIET}, "step.cpu_time", "It does not see time that the program waits."),
        (NOISY, {}, {"cpu_time": QUIET, "instructions": COUNTS}, "step.instructions", "waiting and slower memory."),
        (NOISY, {}, {"cpu_time": NOISY, "instructions": COUNTS}, "step.instructions", "step.instructions replaces"),
        # As steady as the time itself.
        (QUIET, {}, {"cpu_time": QUIET}, "step.time", ""),
        # The program waits for a third of the time, or uses a GPU.
        (tuple(1.5 * x for x in QUIET), {}, {"cpu_time": QUIET, "instructions": COUNTS}, "step.time", ""),
        ((140, 141, 150, 139, 142), {"gpu": "NVIDIA H200"}, {"cpu_time": (138, 138, 138, 138, 138)}, "step.time", ""),
    ],
)
def test_the_rule_names_the_steadier_metric(
    perfgate: Callable[..., Done],
    folder: Path,
    wall: tuple[float, ...],
    environment: dict[str, str],
    more: dict[str, tuple[float, ...]],
    chosen: str,
    reason: str,
) -> None:
    done = perfgate("init", *runs(folder, wall, environment, **more))
    assert done.code == 0, done.said
    text = (folder / "rules" / "training.yaml").read_text(encoding="utf-8")
    sentences = yaml.safe_load(text)["rules"]
    assert {sentence.split()[0] for sentence in sentences} == {chosen}
    said = " ".join(done.said.split())
    in_comment = " ".join(text.replace("\n  #", "").split())
    assert reason in said
    assert reason in in_comment
    assert ("replaces" in said) == bool(reason)
    # The noise of the named metric has one figure, that of its rule.
    assert ("step.time, which differs more from run to run: by 12%," in said) == bool(reason)
    assert perfgate("check", same_code(folder / "main-0.json", 2)[1]).code == 0
