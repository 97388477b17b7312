"""Pairs among the runs that a command was given: the base of a pair stands in for the stored baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfgate.core import Baseline, Location, Problem, Run
from perfgate.core.wording import plural
from perfgate.judge.pairs import WORDS, is_paired, split_pairs
from perfgate.rules.ruleset import Ruleset
from perfgate.workspace.errors import Refused

_STEP = "give runs of the new code alone"


def with_pairs(
    runs: Sequence[Run], stored: Baseline, refusal: str | None = None
) -> tuple[tuple[Run, ...], Baseline, list[Problem]]:
    """The new side of all pairs, the baseline with their base side as its runs, and what is wrong with the pairs.

    Runs without pairs are returned as they are. The anchor and allowances stay those of the store. With a `refusal`
    the base side counts for nothing, and there is an error that says why: limits alone can be judged. Raises Refused
    for pairs beside runs without pairs.
    """
    pairs = split_pairs(runs)
    if pairs is None:
        return tuple(runs), stored, []
    alone = [run.name for run in runs if not is_paired(run)]
    if alone:
        raise Refused(f"{alone[0]} holds no pair, and other runs do: give pairs or runs, not both")
    problems = list(pairs.problems)
    if refusal is not None:
        problems.append(Problem("error", f"{refusal}; {_STEP}", Location(runs[0].source)))
        missing = "the base that pairs bring along does not count here"
        return pairs.new, replace(stored, place=None, runs=(), missing=missing, next_step=_STEP), problems
    place = f"paired base ({plural(len(pairs.base), 'pair')}, {WORDS[pairs.pairing]})"
    found = replace(stored, place=place, runs=pairs.base, pairing=pairs.pairing, unknown_facts=(), missing=None)
    return pairs.new, found, problems


def refusal_of_pairs(ruleset: Ruleset, policy_ref: str | None) -> str | None:
    """Why the base that a results file brings along does not count; None where it does.

    A pull request that is judged by another commit's rules and baselines shall not supply the base itself, unless
    those rules say that it may.
    """
    if ruleset.pairs == "refuse":
        return "pairs bring a base of their own, and the rules say `pairs: refuse`"
    if ruleset.pairs is None and policy_ref is not None:
        return (
            f"pairs bring a base of their own, and --policy-ref takes it from {policy_ref}, whose rules do not say "
            "`pairs: accept`"
        )
    return None
