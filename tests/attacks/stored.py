"""Attacks on what is stored: `PYTHONPATH=tests python tests/attacks/stored.py`; `--write` writes the table.

Numbers, texts and places of a report, or of one file below `baselines/`, are changed at random, always the same ones.
An attack on a report works if `perfgate report` ends with 0 for a failure, one on a stored file if `perfgate check`
passes a slow run. Either works if a command that reads it has an internal error.
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from many import document, exit_code, write_table

BEGIN, END = "<!-- generated: tests/attacks/stored.py -->\n", "<!-- end of stored.py -->\n"
ATTACKS = 700
VALUES = (
    *(
        None,
        True,
        False,
        0,
        -1,
        10**400,
        2**63,
        1e308,
        1e-320,
        0.5,
        "",
        "x",
        "\x00",
        "::error::x",
        "A" * 5000,
        "nan",
        "1",
    ),
    *([], {}, [[]], [None], {"a": 1}, ["x"] * 300, "2026-01-01T00:00:00Z", "9999-99-99", "../../../etc/passwd"),
)
FACTORS = (-1, 0, 1e-9, 1e9, 1e300, 1e-300)
#: What reads a report, beside `report` itself, and what reads the files below `baselines/`, beside `check`.
OF_REPORT = (
    ("explain", "step", "r.json"),
    ("explain", "step p90 within 10% of baseline", "r.json"),
    ("report", "r.json", "--markdown", "m.md", "--junit", "j.xml", "--html", "h.html", "--sarif", "s.json"),
)
OF_STORE = (
    *(("check", "ok.json"), ("history", "report"), ("history", "events"), ("history", "export", "--to", "x.csv")),
    *(("history", "compact"), ("baseline", "verify"), ("baseline", "list"), ("rules",), ("attack", "ok.json")),
)
RULES = "version: 1\nsuite: s\nrules:\n  - step within 10% of baseline\n  - step p90 within 10% of baseline\n"


def places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of each value in a document."""
    members = value.items() if isinstance(value, dict) else enumerate(value[:6]) if isinstance(value, list) else ()
    for name, member in members:
        yield (*before, name)
        yield from places(member, (*before, name))


def at(document: Any, place: tuple[Any, ...]) -> Any:
    for name in place:
        document = document[name]
    return document


def changed(source: random.Random, document: Any) -> Any:
    """Return a document after one to three changes."""
    document = copy.deepcopy(document)
    for _ in range(source.choice((1, 1, 1, 2, 3))):
        known = [*places(document)]
        *outer, name = source.choice(known)
        parent, way = at(document, tuple(outer)), source.randrange(5)
        old = parent[name]
        if way == 0 and isinstance(parent, dict):
            del parent[name]
        elif way == 1 and isinstance(parent, list):
            parent.append(copy.deepcopy(old))
        elif way == 2:
            parent[name] = copy.deepcopy(at(document, source.choice(known)))
        elif way == 3 and type(old) in (int, float):
            parent[name] = old * source.choice(FACTORS)
        else:
            parent[name] = source.choice(VALUES)
    return document


def prepared() -> None:
    """Make a gate with a baseline, calibrated noise and a history, one half of it compacted, and two reports."""
    Path("rules").mkdir()
    Path("rules/rules.yaml").write_text(RULES)
    runs = [f"base-{number}.json" for number in range(8)]
    for number, name in enumerate(runs):
        Path(name).write_text(json.dumps(document(1, number)))
    subprocess.run(["git", "init", "-q"], check=True)
    assert exit_code("baseline", "approve", *runs[:4], "--reason", "first") == 0
    for number, name in enumerate(runs[4:]):
        commit = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", name]
        subprocess.run(commit, check=True)
        assert exit_code("history", "add", name) == 0
        if number == 1:
            exit_code("history", "compact")
    assert exit_code("rules", "--calibrate", *runs) in (0, 3)
    for name, slower in (("slow.json", 1.4), ("ok.json", 1.0)):
        Path(name).write_text(json.dumps(document(slower, 31)))
    assert exit_code("check", "slow.json", "--json", "bad-report.json") == 1
    assert exit_code("check", "ok.json") == 0


def tried() -> dict[str, list[tuple[str, int]]]:
    """Try every attack in a scratch folder; return the commands and the exit code of each, 0 or 4 if it works."""
    source = random.Random(31)
    prepared()
    report = json.loads(Path("bad-report.json").read_text())
    found: dict[str, list[tuple[str, int]]] = {"a stored report": [], "a file below `baselines/`": []}
    for _ in range(ATTACKS):
        Path("r.json").write_text(json.dumps(changed(source, report)))
        words = source.choice(OF_REPORT)
        found["a stored report"].append(
            (" ".join(words[:2]), 4 if exit_code(*words) == 4 else exit_code("report", "r.json"))
        )
    files = [path for path in sorted(Path("baselines").rglob("*")) if path.is_file()]
    shutil.copytree("baselines", "kept")
    for _ in range(ATTACKS):
        path, words = source.choice(files), source.choice(OF_STORE)
        path.write_text(json.dumps(changed(source, json.loads(path.read_text()))))
        code = exit_code("check", "slow.json")
        code = 4 if exit_code(*words) == 4 else code
        found["a file below `baselines/`"].append((f"{path}: {' '.join(words[:2])}", code))
        shutil.rmtree("baselines")
        shutil.copytree("kept", "baselines")
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        results = tried()
        os.chdir("/")
    sys.exit(write_table(results, "changed", BEGIN, END))
