"""Attacks on one gate, by the thousand: `PYTHONPATH=tests python tests/attacks/many.py`; `--write` writes the table.

Each attack hides one of the runs that a rule fails, in one of many ways that need no invented numbers. The table is in
`docs/threat-model.md`. An attack works if the exit code is 0.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from conftest import steady

PAGE = Path(__file__).resolve().parents[2] / "docs" / "threat-model.md"
BEGIN, END = "<!-- generated: tests/attacks/many.py -->\n", "<!-- end -->\n"
#: The sentences of the rules; each fails on a run that is three times as slow.
RULES = [
    *(f"step {statistic} within 10% of baseline" for statistic in ("median", "mean", "p90", "min", "max")),
    *(f"step {statistic} under 150 ms" for statistic in ("median", "mean", "p90", "min", "max")),
    *("st* within 10% of baseline", "st* under 150 ms", "speed over 5 /s", "speed within 10% of baseline"),
    *("step / other under 2", "step p50 on each rank under 150 ms", "step p90 across ranks under 150 ms"),
    *("step within 10% of baseline and within 50% of anchor", "step within 10% and 1 ms of baseline"),
    "step within 10% of baseline and under 1 s",
]
#: The same about exact work: each fails on a step with twice the calls.
WORK_RULES = ["no more work than baseline", "same work as baseline", "no more work.syncs than baseline"]
HUGE = 10**400
Document = dict[str, Any]
#: Changes the document of a failing run, or returns the bytes of the file; `stored` is a run of the baseline.
Hide = Callable[[Document, Document], bytes | None]


def document(slower: float, seed: int) -> Document:
    """Return a run on two ranks."""
    times = [steady(0.1 * slower, n=60, seed=2 * seed + rank) for rank in range(2)]
    series = [row("step", "s", values, rank) for rank, values in enumerate(times)]
    series += [row("other", "s", steady(0.1, n=60, seed=90 + seed + rank), rank) for rank in range(2)]
    series += [row("speed", "1/s", [1 / value for value in values], rank) for rank, values in enumerate(times)]
    counts = {"work.syncs": [3.0, 4.0] * 30, "work.kernels": [250.0, 250.0, 310.0] * 20}
    calls = 2 if slower > 1 else 1
    series += [row(name, "count", [calls * one for one in of], rank) for name, of in counts.items() for rank in (0, 1)]
    return {"schema": "perfgate.results/1", "environment": {"gpu": "H100"}, "series": series}


def row(metric: str, unit: str, values: list[float], rank: int) -> Document:
    labels = {"rank": str(rank)}
    return {"metric": metric, "unit": unit, "labels": labels, "values": values, "steps": [*range(len(values))]}


def each(change: Callable[[Document], object]) -> Hide:
    """Change the judged series."""

    def hide(run: Document, stored: Document) -> None:
        for one in run["series"]:
            if one["metric"] != "other":
                change(one)

    return hide


def whole(change: Callable[[Document, Document], object]) -> Hide:
    return lambda run, stored: change(run, stored) and None


def raw(change: Callable[[bytes], bytes]) -> Hide:
    return lambda run, stored: change(json.dumps(run).encode())


def put(name: str, value: object) -> Hide:
    return each(lambda one: one.__setitem__(name, value))


def values(change: Callable[[list[float]], list[Any]]) -> Hide:
    def changed(one: Document) -> None:
        one["values"] = change(one["values"])
        one["steps"] = one["steps"][: len(one["values"])] or [0]

    return each(changed)


def _only(run: Document, keep: Callable[[Document], bool]) -> None:
    run["series"] = [one for one in run["series"] if keep(one)]


def _replay(factor: float, digits: int, order: int) -> Hide:
    def hide(run: Document, stored: Document) -> None:
        run["series"] = copy.deepcopy(stored["series"])
        for one in run["series"]:
            one["values"] = [round(value * factor, digits) for value in one["values"]][::order]

    return hide


def _without(*metrics: str) -> Hide:
    return whole(lambda run, _: _only(run, lambda one: one["metric"] not in metrics))


def _machine(text: str) -> Hide:
    """Keep the run, and put a file about its machine beside it."""

    def hide(run: Document, stored: Document) -> None:
        Path("new.json.machine").write_text(text)

    return hide


def _sensors(**values: float) -> str:
    series = [{"metric": name, "unit": "1", "values": [value] * 60} for name, value in values.items()]
    return json.dumps({"schema": "perfgate.results/1", "series": series})


def _tree(**changes: object) -> Hide:
    """Give the run a call tree."""
    sound = {"ranks": [""], "steps": 3, "groups": 1, "names": [["step", "step"], ["mm", "kernel"]], "parents": [-1, 0]}
    sound |= {"called": [0, 1], "first": [0, 9], "counts": [1, 2], "busy": [9, 9], "wall": [9, 9]}
    return whole(lambda run, _: run.__setitem__("call_tree", json.dumps({**sound, **changes})))


def _channels() -> Iterator[Hide]:
    """Yield ways to add a recording of sensors with forged values, times and labels."""
    source = random.Random(11)
    names = ("machine.steal", "machine.throttled", "clock.sm", "power", "machine.energy", "machine.elapsed", "step")
    forged: tuple[Any, ...] = (0, 1, 0.5, -1, 1e308, -1e308, HUGE, "1", None, True, 5e-324)
    times: tuple[Any, ...] = (
        *(range(60), range(60, 0, -1), [0] * 60, [-5] * 60, [2**63] * 60, [0.5] * 60, [HUGE] * 60, [None] * 60),
        *(range(59), [], None, "x"),
    )
    for _ in range(40):
        series = []
        for name in source.sample(names, 3):
            labels = source.choice(({}, {"device": "0"}, {"rank": "1"}, {"device": "\u00b2"}, [], {"device": 1}))
            of, steps = source.sample(forged, 2), source.choice(times)
            one = {"metric": name, "unit": source.choice(("1", "Hz", "s", "W", "count", "", None)), "labels": labels}
            one["values"] = [source.choice(of) for _ in range(60)]
            series.append({**one, "steps": [*steps]} if isinstance(steps, (range, list)) else {**one, "steps": steps})
        text = json.dumps({"schema": "perfgate.results/1", "environment": {"host": "x"}, "series": series})
        yield _machine(source.choice((text, text, text[: len(text) // 2], text + text)))


TREE = "a call tree beside the values is forged or damaged"
WORK = "counts of exact work are left out, fewer, renamed or no counts"
MACHINE = "a file about the machine that is damaged, or claims that the machine was slow"
COPIES = "a stored run is given as a new one, with other digits, order or factor"
#: The ways, by kind.
WAYS: dict[str, list[Hide]] = {
    "the metric is missing, renamed or has another unit": [
        whole(lambda run, _: _only(run, lambda one: one["metric"] == "other")),
        *(put("metric", name) for name in ("Step", "step ", "step.hidden", "", "step\n", "\u0455tep")),
        *(put("unit", unit) for unit in ("ms ", "B", "1", "", "furlong", None)),
    ],
    "values that are not numbers, negative, 0 or absent": [
        *(
            values(lambda old, x=x: [x] * len(old))  # type: ignore[misc]
            for x in (float("nan"), float("inf"), -float("inf"), True, None, "0.1", [], {}, 0.0, -0.1, 10**400)
        ),
        *(values(lambda old, x=x: [*old[:-1], x]) for x in (float("nan"), None, "x")),  # type: ignore[misc]
        values(lambda old: []),
    ],
    "a rank, steps or values are left out": [
        whole(lambda run, _: _only(run, lambda one: one["labels"]["rank"] == "7")),
        *(values(lambda old, n=n: old[:n]) for n in (1, 2)),  # type: ignore[misc]
        each(lambda one: one.pop("values")),
        put("aggregate", {"mean": 0.1}),
        put("labels", {}),
    ],
    "a damaged file": [
        *(raw(lambda data, share=share: data[: int(len(data) * share)]) for share in (0, 0.01, 0.5, 0.9, 0.999)),
        raw(lambda data: data + data),
        raw(lambda data: b"\x00" + data),
        raw(lambda data: data.replace(b'"series"', b'"Series"')),
        raw(lambda data: data.replace(b'"schema"', b'"schema": "perfgate.results/1", "schema"')),
        raw(lambda data: b"[" * 5000),
    ],
    COPIES: [
        *(_replay(1.0, 12, order) for order in (1, -1)),
        *(_replay(factor, digits, 1) for factor, digits in ((1.0, 9), (1.01, 12), (0.95, 12), (1.04, 10))),
    ],
    # A count of 0 is no attack: a step may need no synchronisation any more.
    WORK: [
        *(_without(*names) for names in (("work.syncs",), ("work.kernels",), ("work.syncs", "work.kernels"))),
        *(values(lambda old, n=n: old[:n]) for n in (0, 1, 30)),  # type: ignore[misc]
        *(
            values(lambda old, x=x: [x] * len(old))  # type: ignore[misc]
            for x in (float("nan"), -1.0, -0.5, 0.5, None, True, "3", 1e308, 10**400)
        ),
        *(put("metric", name) for name in ("work", "work.", "work.syncs2", "Work.syncs", "work.syncs ")),
        *(put("unit", unit) for unit in ("s", "B", "")),
        put("aggregate", {"mean": 3.5}),
        whole(lambda run, _: _only(run, lambda one: one["labels"]["rank"] == "0")),
        whole(lambda run, _: _only(run, lambda one: not one["metric"].startswith("work"))),
        put("labels", {"device": "0"}),
        each(lambda one: one["labels"].update(hidden="1")),
    ],
    MACHINE: [
        *(_machine(text) for text in ("", "{}", "[]", "\x00", "{", "[" * 5000, _sensors())),
        _machine(_sensors(**{"machine.steal": 0.9})),
        _machine(_sensors(**{"machine.steal": -1.0, "clock.sm": 0.0})),
        _machine(_sensors(**{"clock.sm": -1e308, "machine.throttled": 2.0, "step": 0.1})),
        *_channels(),
    ],
    TREE: [
        _tree(),
        *(
            whole(lambda run, _, text=text: run.__setitem__("call_tree", text))
            for text in ("", "{", "[" * 9999, "null")
        ),
        *(_tree(**{name: [0, number]}) for name in ("wall", "busy", "counts") for number in (0, -9, 2**53, HUGE)),
        *(_tree(**{name: [[1, number]]}) for name in ("memory", "blocks") for number in (-9, 2**53, HUGE)),
        *(_tree(steps=steps) for steps in (0, -1, HUGE)),
        *(_tree(parents=parents) for parents in ([-1, 1], [-1, -1], [0, 0])),
        _tree(ranks=["0", "1"], rank_nodes=[1], rank_walls=[[HUGE], [-HUGE]]),
        _tree(ranks=["0"] * 99_999),
        _tree(pooled=[0, 1], peak=1e308),
    ],
    "another environment is claimed": [
        *(whole(lambda run, _, gpu=gpu: run["environment"].update(gpu=gpu)) for gpu in ("H200", "", "h100 "))
    ],
}


def attacks() -> Iterator[tuple[str, str, Hide]]:
    """Yield the kind, the rule and the way of each attack."""
    for kind, ways in WAYS.items():
        for hide in ways:
            # A limit is not compared with a stored run: a copy of one would be an invented number.
            compared = [rule for rule in RULES if "of baseline" in rule]
            rules = {COPIES: compared, WORK: WORK_RULES, TREE: [*compared[:3], *WORK_RULES]}.get(kind, RULES)
            yield from ((kind, rule, hide) for rule in rules)


def exit_code(*words: str) -> int:
    from perfgate.cli.entry import run

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return run(list(words))


def tried() -> dict[str, list[tuple[str, int]]]:
    """Try every attack in a scratch folder; return the rule and the exit code of each, by kind."""
    found: dict[str, list[tuple[str, int]]] = {kind: [] for kind in WAYS}
    stored = [document(1, seed) for seed in range(4)]
    Path("rules").mkdir()
    for number, one in enumerate(stored):
        Path(f"base-{number}.json").write_text(json.dumps(one))
    every = [*RULES, *WORK_RULES]
    for number, rule in enumerate(every):
        Path("rules/rules.yaml").write_text(f"version: 1\nsuite: s{number}\nrules:\n  - {rule}\n")
        words = [f"base-{one}.json" for one in range(4)]
        assert exit_code("baseline", "approve", *words, "--reason", "first") == 0, rule
        Path("new.json").write_text(json.dumps(document(3, 9)))
        assert exit_code("check", "new.json", "new.json") in (1, 2), rule
        assert exit_code("check", "new.json") in (1, 3), f"{rule} does not stop a slow run"
    for kind, rule, hide in attacks():
        suite = f"s{every.index(rule)}"
        Path("new.json.machine").unlink(missing_ok=True)
        Path("rules/rules.yaml").write_text(f"version: 1\nsuite: {suite}\nrules:\n  - {rule}\n")
        run = document(3, 9)
        data = hide(run, stored[0])
        Path("new.json").write_bytes(data if data is not None else json.dumps(run).encode())
        found[kind].append((rule, exit_code("check", "new.json")))
    return found


def write_table(found: dict[str, list[tuple[str, int]]], head: str, begin: str, end: str) -> int:
    """Print the table and what worked; `--write` puts it into the page. Return 1 if anything worked."""
    lines = [f"| {head} | attacks | work |", "|---|---|---|"]
    rows = {**found, "all": [pair for pairs in found.values() for pair in pairs]}
    lines += [
        f"| {kind} | {len(pairs):,} | {sum(code in (0, 4) for _, code in pairs)} |" for kind, pairs in rows.items()
    ]
    table = "\n".join(lines) + "\n"
    worked = [f"{kind}: {name} ({code})\n" for kind, pairs in found.items() for name, code in pairs if code in (0, 4)]
    print(table + "".join(worked))
    if "--write" in sys.argv:
        before, _, rest = PAGE.read_text().partition(begin)
        PAGE.write_text(before + begin + "\n" + table + "\n" + end + rest.partition(end)[2])
    return int(bool(worked))


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        found = tried()
    return write_table(found, "hidden by", BEGIN, END)


if __name__ == "__main__":
    sys.exit(main())
