"""The tables of `docs/detection.md`, from the stored figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import edges
import findings
import ideas
import models
import pooling
import promise
import quiet
import score
from findings import percent, share

Rows = Mapping[str, Mapping[str, Any]]


def tables(results: Rows) -> dict[str, str]:
    """Every table by the name of its place on the page."""
    found = {name: part["found"] for name, part in results.items()}
    generated, real = (found[name] | found[f"{name} peers"] for name in ("generated", "real"))
    sources = list(next(iter(real.values()))["0"])
    return {
        "measured": _measured(results),
        "promise": _promise(found["promise"], found["promise peers"]),
        "goals": _goals(found["promise"]),
        "cells": _cells(found["promise"]),
        "quiet": _quiet(found["quiet"]),
        "edges": _edges(found["edges"]),
        "other-noise": _other_noise(found["other noise"]),
        "history": _history(found["promise"], found["history"]),
        "quieter": findings.quieter(found["quieter"]),
        "wander": _wander(found["wander"]),
        "kit": _kit(found["kit"]),
        "pooling": _pooling(found["pooling"]),
        "familiar": _detectors(generated, list(models.FAMILIAR), intervals=True),
        "held-out": _detectors(generated, list(models.HELD_OUT), intervals=True),
        "levels": _levels(found["levels"]),
        "creep": _creep(found["creep"]),
        "real": _detectors(real, sources, intervals=False),
        "ideas": _ideas(found["ideas"]),
        "findings": findings.shown(generated, real, found["creep"]),
    }


def fill(page: str, results: Rows) -> str:
    """The page with each table between its marks: `<!-- table NAME -->` and `<!-- end -->`."""
    filled = tables(results)

    def table(place: re.Match[str]) -> str:
        return f"<!-- table {place[1]} -->\n{filled[place[1]]}\n<!-- end -->"

    return re.sub(r"<!-- table (\S+) -->.*?<!-- end -->", table, page, flags=re.DOTALL)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


#: What each part measures, and what one draw is.
_PARTS = {
    "generated": ("familiar noise, noise of other kinds", "a case of one source and slowdown"),
    "promise": ("what exit 0 and exit 1 promise", "a case of one cell"),
    "quiet": ("quiet runs", "a case of one cell"),
    "edges": ("edge cases", "a case of one row"),
    "other noise": ("noise of other shapes", "a case of one cell, for each number of base runs"),
    "history": ("noise from the history", "a case of one cell"),
    "quieter": ("noise from a history that was quieter", "a case of one cell"),
    "wander": ("a history that wanders", "a case of one cell, for each number of base runs"),
    "kit": ("noise from real histories", "a place in one history, for one number of base runs"),
    "pooling": ("pooled doubt", "a history of one row"),
    "levels": ("confidence intervals", "a case of one source"),
    "creep": ("creep", "a history of one source"),
    "real": ("real runs", "a case of one workload, clock and slowdown"),
    "ideas": ("priors from machine data", "a case of one workload; of each noise model there are a fifth"),
    "paired": ("[pairs](paired-runs.md#how-a-pair-is-judged)", "a case of one cell"),
}


def _measured(results: Rows) -> str:
    """Return how each part was measured."""
    head = ["table", "draws of perfgate", "of other tools", "a draw"]
    rows = []
    for name, (what, draw) in _PARTS.items():
        others = results.get(f"{name} peers")
        counts = [f"{part['draws']:,}" if part else "" for part in (results[name], others)]
        rows.append([what, *counts, draw])
    asked = sorted({results[name]["through"] for name in _PARTS})
    return f"perfgate was asked through {', '.join(f'`{one}`' for one in asked)}.\n\n{_table(head, rows)}"


def _promise(found: Rows, others: Mapping[str, Mapping[str, float]]) -> str:
    """Return the rates of wrong answers: red for unchanged code, green for a change of twice the tolerance."""
    head = ["%", *(f"{what}, {100 * noise:g} %" for what in ("wrong red", "wrong green") for noise in promise.NOISE)]
    ours = ["**perfgate 5%, up to three new runs**"]
    ours += [percent(promise.together(found, noise, 0.0, "red")) for noise in promise.NOISE]
    ours += [percent(promise.together(found, noise, 0.1, "green")) for noise in promise.NOISE]
    rows = [ours]
    for name, alarms in others.items():
        red = [percent(alarms[f"{noise} 0.0"]) for noise in promise.NOISE]
        rows.append([name, *red, *(percent(1 - alarms[f"{noise} 0.1"]) for noise in promise.NOISE)])
    return _table(head, rows)


def _goals(found: Rows) -> str:
    """Return the goals, and what was measured over 3, 5 and 10 base runs."""

    def worst(change: float, what: str, noises: Sequence[float], which: Any) -> str:
        return f"{100 * which(promise.together(found, noise, change, what) for noise in noises):.1f} %"

    calm, usual = promise.NOISE[:2], promise.NOISE[:3]
    runs = max(promise.together(found, noise, 0.0, "runs") for noise in calm)
    rows = [
        ("wrong red, at any noise", "at most 1.5 %", worst(0.0, "red", promise.NOISE, max)),
        ("wrong green, at any noise", "at most 6 %", worst(0.1, "green", promise.NOISE, max)),
        ("unchanged code green, at a noise up to 3 %", "at least 95 %", worst(0.0, "green", calm, min)),
        ("new runs until then, on average", "at most 1.4", f"{runs:.2f}"),
        ("+20 % red, at a noise up to 5 %", "at least 95 %", worst(0.2, "red", usual, min)),
        ("+20 % green, at a noise up to 5 %", "at most 1 %", worst(0.2, "green", usual, max)),
    ]
    return _table(["", "goal", "measured"], rows)


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
                row += [percent(cell["green"]), percent(cell["red"]), f"{cell['runs']:.2f}"]
            rows.append(row)
    return _table(head, rows)


def _quiet(found: Rows) -> str:
    """Return the answers about quiet runs, with three and with five base runs."""
    head = ["tolerance", "noise", "change"]
    for base_runs in quiet.BASE_RUNS:
        head += [f"{base_runs} base runs: exit 0", "exit 1", "runs"]
    rows = []
    for tolerance, noise, changes in quiet.ROWS:
        for change in changes:
            row = [tolerance.replace("%", " %"), f"{100 * noise:g} %", f"+{100 * change:g} %" if change else "none"]
            for base_runs in quiet.BASE_RUNS:
                cell = found[f"{tolerance} {noise} {change} {base_runs}"]
                row += [percent(cell["green"]), percent(cell["red"]), f"{cell['runs']:.2f}"]
            rows.append(row)
    return _table(head, rows)


def _edges(found: Rows) -> str:
    """Return the answers about edge cases."""
    head = ["case", "noise", "unchanged: exit 0", "exit 1", "runs"]
    head += [one for change in edges.CHANGES[1:] for one in (f"{100 * change:g} % worse: exit 0", "exit 1", "runs")]
    rows = []
    for name, noise in edges.CASES:
        cells = [found[f"{name} {noise} {change}"] for change in edges.CHANGES]
        shown = [one for cell in cells for one in (percent(cell["green"]), percent(cell["red"]), f"{cell['runs']:.2f}")]
        rows.append([name, f"{100 * noise:g} %", *shown])
    return _table(head, rows)


def _other_noise(found: Rows) -> str:
    """Return how often unchanged code is red and green if the noise is not normal."""
    head = ["noise of unchanged code", *(f"{100 * one:g} %: exit 1" for one in quiet.SPREADS)]
    head += [f"{100 * one:g} %: exit 0" for one in quiet.SPREADS]
    rows = []
    for kind in quiet.KINDS:
        cells = [found[f"{kind} {spread}"] for spread in quiet.SPREADS]
        rows.append([kind, *(percent(one["red"]) for one in cells), *(percent(one["green"]) for one in cells)])
    return _table(head, rows)


def _history(without: Rows, known: Rows) -> str:
    """Return the answers without a history and with one, over 3, 5 and 10 base runs."""
    head = ["noise", "", "unchanged: exit 0", "exit 1", "runs", "+10 %: exit 0", "exit 1", "+20 %: exit 0", "exit 1"]
    rows = []
    for noise in promise.NOISE:
        for name, cells in (("without", without), ("**with history**", known)):
            row = [f"{100 * noise:g} %" if cells is without else "", name]
            for change in promise.CHANGES:
                row += [percent(promise.together(cells, noise, change, what)) for what in ("green", "red")]
                row += [] if change else [f"{promise.together(cells, noise, change, 'runs'):.2f}"]
            rows.append(row)
    return _table(head, rows)


def _wander(found: Mapping[str, Mapping[str, float]]) -> str:
    """Return the shares of answers about unchanged code and +10 %, with and without the wander of the level."""
    head = ["each run keeps", "", "unchanged: exit 0", "exit 1", "+10 %: exit 0", "exit 1"]
    rows = []
    for kept in quiet.KEPT:
        for name, shown in (("without", "noise alone"), ("with", "**noise and wander**")):
            cells = [found[f"{kept} {name} {change}"] for change in (0.0, 0.1)]
            shares = [percent(cell[answer]) for cell in cells for answer in ("green", "red")]
            rows.append([f"{100 * kept:g} %" if name == "without" else "", shown, *shares])
    return _table(head, rows)


def _kit(found: Rows) -> str:
    """Return the answers about real histories."""
    head = ["noise", "", "unchanged: exit 0", "exit 1", "+10 %: exit 0", "exit 1", "+20 %: exit 0", "exit 1"]
    rows = []
    for band in ("below 3 %", "3 % and more"):
        for name in ("without", "with history"):
            cells = [found[f"{band} {change}"][name] for change in promise.CHANGES]
            shares = [percent(cell[what]) for cell in cells for what in ("green", "red")]
            rows.append([band if name == "without" else "", name, *shares])
    return _table(head, rows)


def _pooling(found: Mapping[str, Mapping[str, Sequence[int | None]]]) -> str:
    """Return what pooling adds, for each change."""
    head = ["noise", "change", "alone: false", "found", "merges", "pooled: false", "found", "merges"]
    rows = []
    for case in pooling.CASES:
        noise, change, creep = case
        what = f"+{100 * creep:g} % a merge" if creep else f"+{100 * change:g} %" if change else "none"
        firsts = found[pooling.name_of(case)]
        shown = [cell for name in ("alone", "pooled") for cell in pooling.shown(firsts[name], bool(change or creep))]
        rows.append([f"{100 * noise:g} %", what, *shown])
    return _table(head, rows)


def _ideas(found: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Return the shares of each prior by source: missed by intervals, and +10 % found."""
    sources = list(next(iter(found.values())))
    rows = [[name, *(" / ".join(map(percent, found[name][one])) for one in sources)] for name in ideas.IDEAS]
    return _table(["prior", *sources], rows)


def _detectors(rates: Mapping[str, score.Rates], sources: Sequence[str], *, intervals: bool) -> str:
    head = ("fail %", "same code", "worst source", "cannot tell", "+5 %", "+10 %", "cannot tell", "+10 % passed")
    return _table(head, (_detector(name, found, sources, intervals) for name, found in rates.items()))


def _detector(name: str, rates: score.Rates, sources: Sequence[str], intervals: bool) -> list[str]:
    worst = max(sources, key=lambda source: share(rates["0"], [source], "fail"))
    alarms = share(rates["0"], [worst], "fail")
    return [
        f"**{name}**" if name.startswith("perfgate") else name,
        _rate(rates["0"], sources, intervals),
        f"{percent(alarms)} {worst}" if alarms else "0",
        percent(share(rates["0"], sources, "open")),
        _rate(rates["0.05"], sources, intervals),
        _rate(rates["0.1"], sources, intervals),
        percent(share(rates["0.1"], sources, "open")),
        percent(share(rates["0.1"], sources, "pass")),
    ]


def _rate(cells: findings.Cells, sources: Sequence[str], intervals: bool) -> str:
    hits, n = findings.hits(cells, sources, "fail")
    low, high = score.wilson(hits, n)
    return percent(hits / n) + (f" [{percent(low)}, {percent(high)}]" if intervals else "")


def _levels(found: Mapping[str, Mapping[str, float]]) -> str:
    groups = {"familiar": models.FAMILIAR, "held out": models.HELD_OUT}
    head = [
        "intervals that exclude the truth, %, nominal 5",
        *(f"{name}, {x}" for name in groups for x in ("mean", "worst")),
    ]
    rows = []
    for cell, shares in found.items():
        row = [cell]
        for sources in groups.values():
            worst = max(sources, key=lambda source: shares[source])
            mean = sum(shares[source] for source in sources) / len(sources)
            row += [percent(mean), f"{percent(shares[worst])} {worst}"]
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
        rows.append([name, *(percent(sum(share) / len(share)) for share in shares), middle, percent(soon)])
    return _table(head, rows)
