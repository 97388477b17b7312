"""Pairs among the runs that a command was given: the base of a pair stands in for the stored baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfgate.app.errors import Refused
from perfgate.judge.messages import counted
from perfgate.judge.pairs import WORDS, is_paired, split_pairs
from perfgate.model import Baseline, Problem, Run


def with_pairs(runs: Sequence[Run], stored: Baseline) -> tuple[tuple[Run, ...], Baseline, list[Problem]]:
    """The new side of all pairs, the baseline with their base side as its runs, and the pairs that lack a side.

    Runs without pairs are returned as they are. The anchor and allowances stay those of the store. Raises Refused for
    pairs beside runs without pairs.
    """
    pairs = split_pairs(runs)
    if pairs is None:
        return tuple(runs), stored, []
    alone = [run.name for run in runs if not is_paired(run)]
    if alone:
        raise Refused(f"{alone[0]} holds no pair, and other runs do: give pairs or runs, not both")
    place = f"paired base ({counted(len(pairs.base), 'pair')}, {WORDS[pairs.pairing]})"
    found = replace(stored, place=place, runs=pairs.base, pairing=pairs.pairing, unknown_facts=(), missing=None)
    return pairs.new, found, list(pairs.problems)
