"""Pairs that are given as runs: their base side takes the place of the stored baseline."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from perfgate.core import Baseline, Location, NextStep, Problem, Run
from perfgate.core.wording import plural
from perfgate.judge.pairs import is_paired, split_pairs
from perfgate.rules.ruleset import Ruleset
from perfgate.words.notes import PAIRINGS
from perfgate.workspace.options import Refused

_NEW_ALONE = NextStep("fix-input", "give runs of the new code only")


def refusal_of_pairs(ruleset: Ruleset, policy_ref: str | None) -> str | None:
    """Return why the base in a file of pairs does not count, or None if it does.

    A pull request that is judged by another commit must not supply the base itself, unless the rules of that commit
    accept it.
    """
    if ruleset.pairs == "refuse":
        return "pairs bring a base of their own, and the rules say `pairs: refuse`"
    if ruleset.pairs is None and policy_ref is not None:
        return (
            f"pairs bring a base of their own, but --policy-ref takes the base from {policy_ref}, whose rules do not "
            "say `pairs: accept`"
        )
    return None


def with_pairs(
    runs: Sequence[Run], stored: Baseline, refusal: str | None = None
) -> tuple[tuple[Run, ...], Baseline, list[Problem]]:
    """Return the new side of all pairs, the baseline with their base side as its runs, and what is wrong with them.

    Runs without pairs are returned unchanged. The anchor and the allowances remain those of the store. With a `refusal`
    the base side does not count: only limits can be judged, and an error says why. Raises Refused for a mix of pairs
    and runs without pairs.
    """
    pairs = split_pairs(runs)
    if pairs is None:
        return tuple(runs), stored, []
    alone = [run.name for run in runs if not is_paired(run)]
    if alone:
        raise Refused(f"{alone[0]} has no pair, and other runs have: give pairs or runs, not both")
    problems = list(pairs.problems)
    if refusal is not None:
        problems.append(Problem("error", f"{refusal}; {_NEW_ALONE}", Location(runs[0].source)))
        missing = "the base in the pairs does not count here"
        return pairs.new, replace(stored, place=None, runs=(), missing=missing, next_step=_NEW_ALONE), problems
    place = f"paired base ({plural(len(pairs.base), 'pair')}, {PAIRINGS[pairs.pairing]})"
    found = replace(stored, place=place, runs=pairs.base, pairing=pairs.pairing, unknown_facts=(), missing=None)
    return pairs.new, found, problems
