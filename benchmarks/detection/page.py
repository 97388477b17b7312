"""The tables of `docs/detection.md`, from the stored figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import models
import promise
import score

ALARMS = ("fail",)
OPEN = ("inconclusive", "suspect")


def tables(results: Mapping[str, Any]) -> dict[str, str]:
    """Every table by the name of its place on the page."""
    generated = results["generated"]
    return {
        "promise": _promise(results["promise"]),
        "cells": _cells(results["promise"]["cells"]),
        "familiar": _detectors(generated, list(models.FAMILIAR), intervals=True),
        "held-out": _detectors(generated, list(models.HELD_OUT), intervals=True),
        "levels": _levels(results["levels"]),
        "creep": _creep(results["creep"]),
        "real": _detectors(results["real"], _sources(results["real"]), intervals=False),
    }


def _promise(found: Mapping[str, Any]) -> str:
    """Return the rates of wrong answers: red for unchanged code, green for a change of twice the tolerance."""
    head = ["%", *(f"{what}, {100 * noise:g} %" for what in ("wrong red", "wrong green") for noise in promise.NOISE)]
    ours = ["**perfgate 5%**"]
    ours += [_percent(promise.together(found["cells"], noise, 0.0, "red")) for noise in promise.NOISE]
    ours += [_percent(promise.together(found["cells"], noise, 0.1, "green")) for noise in promise.NOISE]
    rows = [ours]
    for name, alarms in found["peers"].items():
        red = [_percent(alarms[f"{noise} 0.0"]) for noise in promise.NOISE]
        rows.append([name, *red, *(_percent(1 - alarms[f"{noise} 0.1"]) for noise in promise.NOISE)])
    return _table(head, rows)


def _cells(cells: Mapping[str, Mapping[str, float]]) -> str:
    """Every cell: base runs, noise, and what was answered about each change."""
    head = ["base runs", "noise"]
    for change in promise.CHANGES:
        name = f"+{100 * change:g} %" if change else "unchanged"
        head += [f"{name}: exit 0", "exit 1", "runs"]
    rows = []
    for base_runs in promise.BASE_RUNS:
        for noise in promise.NOISE:
            row = [str(base_runs), f"{100 * noise:g} %"]
            for change in promise.CHANGES:
                cell = cells[f"{base_runs} {noise} {change}"]
                row += [_percent(cell["green"]), _percent(cell["red"]), f"{cell['runs']:.2f}"]
            rows.append(row)
    return _table(head, rows)


def fill(page: str, results: Mapping[str, Any]) -> str:
    """The page with each table between its marks: `<!-- table NAME -->` and `<!-- end -->`."""
    filled = tables(results)

    def table(found: re.Match[str]) -> str:
        return f"<!-- table {found[1]} -->\n{filled[found[1]]}\n<!-- end -->"

    return re.sub(r"<!-- table (\S+) -->.*?<!-- end -->", table, page, flags=re.DOTALL)


def _sources(rates: Mapping[str, score.Rates]) -> list[str]:
    return list(next(iter(rates.values()))["0"])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _detectors(rates: Mapping[str, score.Rates], sources: Sequence[str], *, intervals: bool) -> str:
    head = ("fail %", "same code", "worst source", "cannot tell", "+5 %", "+10 %", "cannot tell", "+10 % passed")
    return _table(head, (_detector(name, found, sources, intervals) for name, found in rates.items()))


def _detector(name: str, rates: score.Rates, sources: Sequence[str], intervals: bool) -> list[str]:
    worst = max(sources, key=lambda source: _share(rates["0"], [source], ALARMS))
    return [
        f"**{name}**" if name.startswith("perfgate") else name,
        _rate(rates["0"], sources, ALARMS, intervals),
        f"{_percent(_share(rates['0'], [worst], ALARMS))} {worst}" if _share(rates["0"], [worst], ALARMS) else "0",
        _rate(rates["0"], sources, OPEN, False),
        _rate(rates["0.05"], sources, ALARMS, intervals),
        _rate(rates["0.1"], sources, ALARMS, intervals),
        _rate(rates["0.1"], sources, OPEN, False),
        _rate(rates["0.1"], sources, ("pass",), False),
    ]


def _hits(cells: Mapping[str, Mapping[str, int]], sources: Sequence[str], wanted: Sequence[str]) -> tuple[int, int]:
    hits = sum(cells[source].get(outcome, 0) for source in sources for outcome in wanted)
    return hits, sum(sum(cells[source].values()) for source in sources)


def _share(cells: Mapping[str, Mapping[str, int]], sources: Sequence[str], wanted: Sequence[str]) -> float:
    hits, n = _hits(cells, sources, wanted)
    return hits / n


def _rate(
    cells: Mapping[str, Mapping[str, int]], sources: Sequence[str], wanted: Sequence[str], intervals: bool
) -> str:
    hits, n = _hits(cells, sources, wanted)
    low, high = score.wilson(hits, n)
    return _percent(hits / n) + (f" [{_percent(low)}, {_percent(high)}]" if intervals else "")


def _percent(share: float) -> str:
    text = f"{100 * share:.1f}"
    return "0" if text == "0.0" else "100" if text == "100.0" else text


def _levels(found: Mapping[str, Mapping[str, float]]) -> str:
    groups = {"familiar": models.FAMILIAR, "held out": models.HELD_OUT}
    head = ["fails at tolerance 0, %, nominal 5", *(f"{name}, {x}" for name in groups for x in ("mean", "worst"))]
    rows = []
    for cell, shares in found.items():
        row = [cell]
        for sources in groups.values():
            worst = max(sources, key=lambda source: shares[source])
            mean = sum(shares[source] for source in sources) / len(sources)
            row += [_percent(mean), f"{_percent(shares[worst])} {worst}"]
        rows.append(row)
    return _table(head, rows)


def _creep(found: Mapping[str, Mapping[str, Sequence[int | None]]]) -> str:
    head = ("", "familiar, %", "held out, %", "median run", "within 25 runs, %")
    rows = []
    for name, firsts in found.items():
        both = [first for source in models.MODELS for first in firsts[source]]
        hits = sorted(first for first in both if first is not None)
        shares = [
            [first is not None for source in group for first in firsts[source]]
            for group in (models.FAMILIAR, models.HELD_OUT)
        ]
        soon = sum(first <= 25 for first in hits) / len(both)
        middle = str(hits[len(hits) // 2]) if hits else "-"
        rows.append([name, *(_percent(sum(share) / len(share)) for share in shares), middle, _percent(soon)])
    return _table(head, rows)
