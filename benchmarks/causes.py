"""Score the causes of changes: the rate of pairs of traces whose one known cause comes first.

    python benchmarks/causes.py [FOLDER...] [--verbose] [--stored]
    python benchmarks/causes.py --timers 200 [--seed 1] [--runs 3]

A folder contains pairs: `NAME/base/` and `NAME/new/` with one folder a run and one trace a rank, and `NAME/truth.json`
with `kind`, `where` (for each place, words; the named path must contain one of them), `change_per_step` in s,
and `ranks` (the culprits of a slow rank). The default is `../shared/score/causes/pairs`.

With `--stored` the base runs are approved, and the new runs are checked against them by a rule on the step. With
`--timers`, the pairs are logs of DeepSpeed and Megatron-LM that `timer_pairs.py` makes from the seed.

Prints a line for each pair and a table by kind. Exits with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from msgspec.structs import replace
from timer_pairs import pairs, write

from perfgate.baselines.approvals import Approval, approve
from perfgate.causes.find import find_causes
from perfgate.commands.check import check
from perfgate.commands.preparing import CheckRequest
from perfgate.commands.report_details import causes_of
from perfgate.core.causes import Cause, CauseReport
from perfgate.workspace.inputs import read_runs
from perfgate.workspace.options import CommandOptions

#: So strict that no pair passes: causes are only looked for if something did not.
_RULES = "version: 1\nrules:\n  - step.time within 0.01% of baseline\n  - step.time under 1 ns\n"
PAIRS = Path(__file__).resolve().parent.parent.parent / "shared" / "score" / "causes" / "pairs"


@dataclass(frozen=True)
class Score:
    """The causes that were found for one pair."""

    name: str
    truth: dict[str, Any]
    report: CauseReport

    @property
    def first(self) -> Cause | None:
        """The first cause, if there is one."""
        return next(iter(self.report.causes), None)

    @property
    def is_right(self) -> bool:
        """True if the first cause has the right kind and place, or if nothing was found where nothing is."""
        if self.truth["kind"] == "none" or self.first is None:
            return self.truth["kind"] == "none" and self.first is None
        named = "/".join(self.first.where).lower()
        places = all(any(word.lower() in named for word in words) for words in self.truth.get("where", ()))
        return self.first.kind == self.truth["kind"] and places

    @property
    def has_right_ranks(self) -> bool:
        """True if the first cause names the culprits, and no other rank."""
        return self.first is not None and list(self.first.ranks) == self.truth.get("ranks")

    @property
    def has_right_size(self) -> bool:
        """True if the true change is within the interval of the first cause."""
        change = self.truth.get("change_per_step")
        return self.first is not None and change is not None and self.first.low <= change <= self.first.high

    @property
    def gap(self) -> float:
        """The change of the step that neither causes nor the rest account for, as a share of the change."""
        change = self.report.new_step - self.report.base_step
        times = sum(cause.change_per_step for cause in self.report.causes if cause.metric == "time")
        return abs(change - times - self.report.rest) / max(abs(change), 1e-12)


def score(folder: Path, *, stored: bool) -> Score:
    """Read one pair, and find its causes."""
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    base, new = ([str(run) for run in sorted((folder / side).iterdir())] for side in ("base", "new"))
    if stored:
        return Score(folder.name, truth, checked(base, new))
    sides = [[run.call_trees for run in read_runs(side)] for side in (base, new)]
    return Score(folder.name, truth, find_causes(*sides))


def checked(base: list[str], new: list[str]) -> CauseReport:
    """The causes that `check` finds with a stored base."""
    with tempfile.TemporaryDirectory() as folder:
        rules, baselines = Path(folder) / "rules.yaml", f"{folder}/baselines"
        rules.write_text(_RULES, encoding="utf-8")
        options = CommandOptions(runs=tuple(base), rules=(str(rules),), baselines=baselines)
        approve(options, Approval("the base"))
        found = check(CheckRequest(replace(options, runs=tuple(new)))).causes
    assert found is not None, "every verdict passed"
    return found


def score_logs(count: int, seed: int, runs: int) -> list[Score]:
    """Make pairs of logs, and find their causes."""
    scores = []
    with tempfile.TemporaryDirectory() as folder:
        for pair in pairs(count, seed, runs):
            base, new = (read_runs(side) for side in write(pair, Path(folder)))
            report = causes_of(base, new)
            assert report is not None
            own = pair.truth
            truth = {"kind": own.kind, "where": [[own.where]], "ranks": list(own.ranks), "change_per_step": own.change}
            scores.append(Score(pair.name, truth, report))
    return scores


def show(found: Score, *, verbose: bool) -> None:
    """Print a line for a pair, and its causes if they are wrong or wanted."""
    print("right" if found.is_right else "WRONG", found.name, found.truth["kind"], f"{len(found.report.causes)} found")
    for cause in found.report.causes if verbose or not found.is_right else ():
        scale, unit = (1e6, "us") if cause.metric == "time" else (1 / (1 << 20), "MiB")
        size = ", ".join(f"{value * scale:.0f}" for value in (cause.change_per_step, cause.low, cause.high))
        print(f"      {cause.kind}: {' / '.join(cause.where)}: {size} {unit} {' '.join(cause.ranks)}")


def main() -> None:
    """Score all pairs, and print the table and the goals."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*", type=Path, default=[PAIRS])
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--stored", action="store_true")
    parser.add_argument("--timers", type=int, default=0, metavar="COUNT", help="pairs of logs to make")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3, help="runs of each side of a pair of logs")
    options = parser.parse_args()
    if options.timers:
        judge(score_logs(options.timers, options.seed, options.runs), verbose=options.verbose)
    scores = [
        score(path.parent, stored=options.stored)
        for folder in options.folders
        for path in sorted(folder.glob("*/truth.json"))
    ]
    judge(scores, verbose=options.verbose)


def judge(scores: list[Score], *, verbose: bool) -> NoReturn:
    """Print the table and the goals, and exit."""
    by_kind: dict[str, list[Score]] = defaultdict(list)
    for found in scores:
        by_kind[found.truth["kind"]].append(found)
        show(found, verbose=verbose)
    print("\n| cause | pairs | right first | findings | size in interval |\n|---|---|---|---|---|")
    for kind, group in sorted(by_kind.items()):
        counts = sum(one.is_right for one in group), sum(len(one.report.causes) for one in group)
        print(f"| {kind} | {len(group)} | {counts[0]} | {counts[1]} | {sum(one.has_right_size for one in group)} |")
    changed = [one for one in scores if one.truth["kind"] != "none"]
    ranked = [one for one in scores if one.truth["kind"] == "slow rank"]
    goals = {
        "right cause first, at least 90 %": sum(one.is_right for one in changed) >= 0.9 * len(changed),
        "findings a cause, at most 1.1": sum(len(one.report.causes) for one in changed) <= 1.1 * len(changed),
        "no finding on unchanged pairs": all(one.is_right for one in by_kind.get("none", ())),
        "culprit ranks, at least 95 %": sum(one.has_right_ranks for one in ranked) >= 0.95 * len(ranked),
        "closed within 1 %": all(one.gap <= 0.01 for one in scores),
    }
    print()
    for goal, reached in goals.items():
        print("reached" if reached else "MISSED", goal)
    sys.exit(0 if all(goals.values()) else 1)


if __name__ == "__main__":
    main()
