"""Answers of real searches over a made list, for golden files and for the schema."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from perfgate.bisect.measurements import Measurement, Model
from perfgate.bisect.ranges import MetricValue, SearchedRange
from perfgate.bisect.search import NotMeasurable, SearchResult, Terms, search
from perfgate.bisect.session import BisectFolder, StoredMeasurement
from perfgate.commands.bisect_answer import AnswerParts, answer
from perfgate.core.causes import BisectReport


class Versions:
    """Versions of a package with a step time of 100 ms and 1 % of noise, and `change` from `gap` on."""

    #: True to measure each version by turns with the first one, which takes its step time out.
    paired = False

    def __init__(self, count: int, gap: int, change: float, broken: tuple[int, ...] = (), runs: int = 50) -> None:
        self.random, self.count, self.gap, self.change = np.random.default_rng(4), count, gap, change
        self.broken, self.runs = broken, runs
        self.folder = BisectFolder(Path("perfgate-bisect"), [])

    def measure(self, position: int) -> Measurement:
        number = len(self.folder.stored)
        name, why = f"torch==2.{position}.0", "does not build: the command ended with exit code 1"
        log_value = (0.0 if self.paired else math.log(0.1)) + self.level(position) + self.random.normal(0, 0.01)
        skipped = why if position in self.broken else None
        value = None if skipped else math.exp(log_value)
        self.folder.stored.append(
            StoredMeasurement(
                number, position, name, 0, 60.0 * number, self.paired, "", value, log_value, 0.0, skipped,
                started=0 if skipped else 1 + self.paired,
            )
        )  # fmt: skip
        if skipped:
            raise NotMeasurable(skipped)
        return self.folder.measurement(self.folder.stored[-1])

    def level(self, position: int) -> float:
        """Return the logarithm of the step time over that of the first version."""
        return math.log1p(self.change) * (position >= self.gap)

    def cost(self, position: int) -> float:
        return 1.0

    def may_go_on(self) -> bool:
        return True

    def report(self) -> BisectReport:
        result = search(Model(self.count, paired=self.paired), Terms(most_runs=self.runs), self, self.folder.evidence())
        names = tuple(f"torch==2.{position}.0" for position in range(self.count))
        facts = MetricValue("step_time", "median", "1" if self.paired else "s", "lower", 0.1, 0.0)
        return answer(AnswerParts(SearchedRange(names), self.folder, result, 0.02, facts, "perfgate-bisect"))


class Pairs(Versions):
    """Versions that take their steps by turns with the first one."""

    paired = True


class TwoChanges(Versions):
    """Versions with a further change, `also`, from `also_from` on."""

    def __init__(self, count: int, gap: int, change: float, also_from: int, also: float) -> None:
        super().__init__(count, gap, change)
        self.also_from, self.also = also_from, also

    def level(self, position: int) -> float:
        return super().level(position) + math.log1p(self.also) * (position >= self.also_from)


def broken_end() -> BisectReport:
    """A search whose first item does not run."""
    fault = "an end cannot be measured: torch==2.0.0 ended with exit code 1"
    result = SearchResult.unknown(fault, runs=0)
    items, folder = SearchedRange(("torch==2.0.0", "torch==2.1.0")), BisectFolder(Path("perfgate-bisect"), [])
    return answer(AnswerParts(items, folder, result, 0.02, None, "perfgate-bisect"))


ANSWERS = {
    "found": lambda: Versions(12, 7, 0.06).report(),
    "found-pairs": lambda: Pairs(12, 7, 0.06).report(),
    "found-two-items": lambda: Versions(2, 1, 0.1).report(),
    "shared-blame": lambda: Versions(12, 7, 0.06, broken=(6, 7)).report(),
    "not-reproduced": lambda: Versions(12, 7, 0.0).report(),
    "undecided": lambda: Versions(12, 7, 0.05, runs=5).report(),
    "broken-end": broken_end,
}
