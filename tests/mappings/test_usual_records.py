"""Records that are added at once give what they give if each is read in full: values, steps, runs and problems."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest
from test_mappings import changed, shown

from perfgate.mappings.choose import read_with_mappings
from perfgate.mappings.document import load_mappings
from perfgate.mappings.usual_records import UsualRecords
from perfgate.readers import Source


def records(chance: random.Random) -> list[dict[str, object]]:
    """Records of 40 steps; some are unusual."""
    found: list[dict[str, object]] = []
    for step in range(40):
        record: dict[str, object] = {"step": step % 25, "rank": step % 2, "ms": 10.5 + step, "loss": -1.5, "host": "a"}
        odd: list[dict[str, object]] = [
            *(
                {"ms": None},
                {"ms": "12.5"},
                {"ms": -1},
                {"ms": True},
                {"loss": "x"},
                *[{"host": "b"}] * 4,
                {"host": 1.5},
            ),
            *({"step": 3.0}, {"step": "7"}, {"step": 1.5}, {"rank": None}, {"more": 1}, {"rank": "1"}, {"ms": [1, 2]}),
        ]
        record |= chance.choice(odd) if chance.random() < 0.15 else {}
        found.append({name: record[name] for name in record if chance.random() > 0.01})
    return found


def as_csv(rows: list[dict[str, object]]) -> str:
    names = ("step", "rank", "ms", "loss", "host")
    cells = (",".join("" if row.get(name) is None else str(row[name]) for name in names) for row in rows)
    return "\n".join([",".join(names), *cells, ""])


def as_log(rows: list[dict[str, object]]) -> str:
    lines = [
        f"rank {row.get('rank')} | step {row.get('step')}: {row.get('ms')} ms, loss={row.get('loss')}" for row in rows
    ]
    return "\n".join([*lines, ""])


METRICS = "metrics: {ms: ms, loss: {unit: none, optional: true}}, step: step"
KINDS: dict[str, tuple[str, Callable[[list[dict[str, object]]], str]]] = {
    "jsonl": (f"jsonl: $, {METRICS}, labels: [rank]", lambda rows: "\n".join(map(json.dumps, rows))),
    "json": (
        f"json: 'log[*]', {METRICS}, labels: [rank], facts: {{gpu: $.gpu}}",
        lambda rows: json.dumps({"gpu": "x", "log": rows}),
    ),
    "facts": (
        f"jsonl: $, {METRICS}, labels: [rank], facts: {{host: host}}",
        lambda rows: "\n".join(map(json.dumps, rows)),
    ),
    "csv": (f"csv: comma, {METRICS}, labels: [rank], where: {{host: [a, b]}}", as_csv),
    "lines": (f"lines: 'rank {{rank}} | step {{step}}: {{ms}} ms, loss={{loss}}', {METRICS}, labels: [rank]", as_log),
}


@pytest.mark.parametrize("kind", KINDS)
def test_both_ways_read_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, write = KINDS[kind]
    mappings, problems = load_mappings([("perfgate.yaml", f"mappings: [{{files: '*', {text}}}]".encode())])
    assert not problems
    added = []
    add = UsualRecords.add

    def counted(self: UsualRecords, *given: int) -> int | None:
        added.append(found := add(self, *given))
        return found

    for seed in range(30):
        chance = random.Random(seed)
        data = write(records(chance)).encode()
        data = changed(data, chance) if seed % 2 else data
        with monkeypatch.context() as patch:
            patch.setattr(UsualRecords, "add", counted)
            own = read_with_mappings(Source("a", [data]), mappings)
        with monkeypatch.context() as patch:
            patch.setattr(UsualRecords, "fits", lambda mapping: False)
            other = read_with_mappings(Source("a", [data]), mappings)
        assert [shown(run) for run in own] == [shown(run) for run in other], seed
        assert [run.coverage for run in own] == [run.coverage for run in other], seed
    assert sum(step is not None for step in added) > 100
