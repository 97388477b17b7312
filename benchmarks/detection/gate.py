"""Ask perfgate: the one way from runs with known changes to the rates that the pages publish.

`ask` gives rules and runs to the function that `perfgate check` calls for its verdicts. tests/test_one_judge.py
compares its answers with those of the command.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import lru_cache

import numpy as np
from msgspec.structs import replace

from perfgate.core import Baseline, CalibratedPrior, Key, Run, Series, Verdict, read_only
from perfgate.core.results import LOOKS
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge
from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import Ruleset
from perfgate.stats.steady import RunValues

#: The function behind every rate of perfgate; results.json records it with each part.
THROUGH = f"{judge.__module__}.{judge.__qualname__}"
#: The metric that rules are about, its statistic without another one, and the rank that represents a run.
METRIC, STATISTIC, RANK = Key("time"), "median", "worst"
#: The place of the base runs; an anchor there is of the same level.
PLACE = "benchmark/any/1"
#: The exit codes in words.
WORDS = {0: "pass", 1: "fail", 3: "open"}
TODAY = date(2026, 1, 1)

Runs = Sequence[RunValues]


def ask(
    rules: str | tuple[str, ...], base: Runs, new: Runs, known: Baseline | None = None, *, strict: bool = False
) -> tuple[Verdict, ...]:
    """Return the verdict of each rule, as `perfgate check` makes it.

    Parameters
    ----------
    rules : rules about `time`, as YAML.
    base, new : the runs in seconds, oldest first: step times, or single numbers.
    known : what is known beside the base runs: calibrated noise, remembered runs, an anchor, how pairs were made.
    """
    return judge(case_of(rules, base, new, known, strict=strict))


def case_of(
    rules: str | tuple[str, ...], base: Runs, new: Runs, known: Baseline | None = None, *, strict: bool = False
) -> Case:
    """Return what `ask` gives to the judge."""
    stored = tuple(run_of(values, f"{PLACE}/{i}.json") for i, values in enumerate(base))
    found = tuple(run_of(values, f"new{i}.json") for i, values in enumerate(new))
    baseline = replace(known or Baseline(), place=PLACE, runs=stored)
    return Case(_ruleset((rules,) if isinstance(rules, str) else rules), found, baseline, TODAY, strict=strict)


def run_of(values: RunValues, source: str) -> Run:
    """Return a run with one metric."""
    array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    series = Series(METRIC, "s", "value" if np.ndim(values) == 0 else "samples", read_only(array.copy()))
    return Run(source, "perfgate.results/1", (series,))


def calibrated(s0: float, d0: float, learned_from: str | None = None, wander: float = 0.0) -> Baseline:
    """Return known noise between runs (s0, d0), of a calibration or of a branch whose level wanders."""
    known = CalibratedPrior(METRIC, STATISTIC, RANK, s0, d0, 0, learned_from=learned_from, wander=wander)
    return Baseline(priors=(known,))


def until_settled(rule: str, base: Runs, new: Runs, known: Baseline | None = None) -> tuple[int, int]:
    """Return the exit code and the number of new runs that it took: asked after each run, the first 0 or 1 ends."""
    looks = range(1, min(LOOKS, len(new)) + 1)
    code, look = 3, 0
    for look in looks:
        code = ask(rule, base, new[:look], known)[0].exit_code
        if code != 3:
            break
    return code, look


@lru_cache
def _ruleset(rules: tuple[str, ...]) -> Ruleset:
    text = "version: 1\nrules:\n" + "".join(f"  - {rule}\n" for rule in rules)
    ruleset, problems = load_rules([("rules.yaml", text.encode())])
    if ruleset is None:
        raise ValueError(f"{rules}: {problems}")
    return ruleset
