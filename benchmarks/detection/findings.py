"""The sentences of `docs/detection.md` that name a rate, from the stored figures."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import models
import promise
import score

#: {source: {outcome: how often}} of one detector and slowdown.
Cells: TypeAlias = Mapping[str, Mapping[str, int]]

_GROUPS = (list(models.FAMILIAR), list(models.HELD_OUT))


def shown(generated: Mapping[str, score.Rates], real: Mapping[str, score.Rates], creep: Mapping[str, Any]) -> str:
    """Return what the tables of detectors show, one paragraph for each finding."""

    def both(name: str, slower: str, outcome: str) -> str:
        one, other = (percent(share(generated[name][slower], group, outcome)) for group in _GROUPS)
        return f"{one} %" if one == other else f"{one} and {other} %"

    ours = ("one new run", "two new runs", "up to three new runs")
    one, two, three = (both(f"perfgate 5%, {name}", "0.1", "fail") for name in ours)
    red, n = hits(generated["perfgate 5%, up to three new runs"]["0"], [*models.MODELS], "fail")
    steps = [
        100 * share(generated[name]["0"], group, "fail")
        for name in ("benchstat, steps", "pyperf compare_to", "criterion")
        for group in _GROUPS
    ]
    everywhere = list(real["5% on medians"]["0"])
    plain, crowded = (
        percent(share(real[name]["0"], everywhere, "fail"))
        for name in ("5% on medians", "perfgate 5%, up to three new runs")
    )
    budget = creep["budget 2%, creep"]
    firsts = [first for source in models.MODELS for first in budget[source]]
    found = [first for first in firsts if first is not None]
    soon = sum(first <= 25 for first in found)
    sentences = (
        f"**One new run finds {one} of changes of +10 % at `within 5%`, two find {two}, and up to three find {three}** "
        "(familiar noise, and noise of other kinds). perfgate says if one run is not enough: "
        f"{both('perfgate 5%, one new run', '0.1', 'open')} of +10 % are exit 3 after one run, and "
        f"{both('perfgate 5%, up to three new runs', '0.1', 'pass')} pass after up to three.",
        f"Of {n:,} unchanged cases, {red or 'none'} are red after up to three runs. "
        f"{both('perfgate 5%, one new run', '0', 'pass')} pass after one run, and "
        f"{both('perfgate 5%, up to three new runs', '0', 'pass')} after up to three.",
        f"At `within 2%`, {both('perfgate 2%, one new run', '0.05', 'fail')} of +5 % are red after one run, and "
        f"{both('perfgate 2%, up to three new runs', '0.05', 'fail')} after up to three.",
        f"`--strict` makes a suspicion red: {both('perfgate 5%, one new run, strict', '0.1', 'fail')} of +10 % after "
        f"one run, and {both('perfgate 5%, one new run, strict', '0', 'fail')} of unchanged code.",
        f"Tests on steps (benchstat, pyperf, criterion) alarm on unchanged code in {min(steps):.0f} to "
        f"{max(steps):.0f} % of the cases, because the steps of one run are not independent.",
        f"The plain rule of 5 % on medians finds {both('5% on medians', '0.1', 'fail')} of +10 % from one run, and "
        f"alarms on {both('5% on medians', '0', 'fail')} of unchanged code. But it does not see that a machine is "
        f"noisy: on the crowded machine it alarms in {plain} % of unchanged cases, perfgate in {crowded} %.",
        f"The budget detects a creep of .2 % per run in {len(found)} of {len(firsts)} histories, and within 25 runs in "
        f"{percent(soon / len(firsts))} %.",
    )
    return "\n".join(textwrap.fill(f"- {one}", 120, subsequent_indent="  ") for one in sentences)


def quieter(found: Mapping[str, Mapping[str, float]]) -> str:
    """Return what a history costs that was half as noisy as the machine is now."""
    green, red = (
        [percent(promise.together(found, noise, change, what)) for noise in promise.NOISE]
        for change, what in ((0.1, "green"), (0.0, "red"))
    )
    noises = ", ".join(f"{100 * noise:g}" for noise in promise.NOISE)
    return textwrap.fill(
        f"If the machine is now twice as noisy as in the history, the F test finds that in most cases, not in all: at "
        f"a noise of {noises} %, wrong green is {', '.join(green)} % and wrong red {', '.join(red)} %.",
        120,
    )


def hits(cells: Cells, sources: Sequence[str], outcome: str) -> tuple[int, int]:
    """Return how often an outcome was given, and the number of cases."""
    found = sum(cells[source].get(outcome, 0) for source in sources)
    return found, sum(sum(cells[source].values()) for source in sources)


def share(cells: Cells, sources: Sequence[str], outcome: str) -> float:
    """Return the share of an outcome."""
    found, n = hits(cells, sources, outcome)
    return found / n


def percent(part: float) -> str:
    """Return a share as the tables write it, in percent."""
    text = f"{100 * part:.1f}"
    return "0" if text == "0.0" else "100" if text == "100.0" else text
