"""Which tests run which lines of the decision core, and how long they take."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import coverage
import pytest
from mutants import Mutant

#: Where the last measurement is kept, below the root.
KEPT = Path("build") / "mutation.json"
#: CPU seconds that the tests of one mutant take together at most; a test that takes longer than LONGEST is not run.
MOST, LONGEST = 15.0, 5.0
#: Tests of the judge and of statistics themselves, which are tried before those of whole commands.
NEAR = ("tests/judge", "tests/stats", "tests/measuring")

#: A test: its seconds, and its lines by module. Tests by file, each with the digest that they hold for.
Lines = dict[str, list[int]]
Measurement = dict[str, Any]


class Selection:
    """The tests by the lines that they run."""

    def __init__(self, items: Sequence[pytest.Item], measurement: Measurement) -> None:
        found = {nodeid: test for part in measurement.values() for nodeid, test in part["tests"].items()}
        self.seconds = {nodeid: test["seconds"] for nodeid, test in found.items() if test["seconds"] <= LONGEST}
        self._items = {item.nodeid: item for item in items if item.nodeid in self.seconds}
        self._by_line: dict[str, dict[int, list[str]]] = {}
        for nodeid in self._items:
            for module, lines in found[nodeid]["lines"].items():
                for line in lines:
                    self._by_line.setdefault(module, {}).setdefault(line, []).append(nodeid)

    def that_run(self, mutant: Mutant, kills: Counter[tuple[str, str]]) -> list[pytest.Item]:
        """Those that run the lines of a mutant, or any of its module for what is set at import: best killers first."""
        lines = self._by_line.get(mutant.module, {})
        first, last = mutant.lines if mutant.function else (min(lines, default=0), max(lines, default=0))
        reached = {nodeid for line in range(first, last + 1) for nodeid in lines.get(line, ())}
        spent, chosen, own = 0.0, [], f"/test_{mutant.module.rpartition('.')[2]}.py"

        def weakness(nodeid: str) -> tuple[float, str]:
            """Seconds for each of its kills; a test that has none yet gets a start, the smaller the farther it is."""
            start = 2.0 if own in nodeid else 0.2 if nodeid.startswith(NEAR) else 0.04
            return (self.seconds[nodeid] + 0.005) / (kills[mutant.module, nodeid] + start), nodeid

        for nodeid in sorted(reached, key=weakness):
            spent += self.seconds[nodeid]
            if spent <= MOST:
                chosen.append(self._items[nodeid])
        return chosen


def measured(items: Sequence[pytest.Item], modules: Mapping[str, Path], root: Path, failed: set[str]) -> Measurement:
    """Run the tests of every file that has changed since the last time, or all where a module has.

    `failed` holds the tests that have failed so far; they are left out.
    """
    kept = root / KEPT
    known = json.loads(kept.read_text()) if kept.exists() else {}
    common = _digest([*modules.values(), root / "tests" / "conftest.py"])
    found: Measurement = {}
    for path in dict.fromkeys(item.path for item in items):
        name, digest = str(path.relative_to(root)), common + _digest([path])
        found[name] = known.get(name, {})
        if found[name].get("digest") != digest:
            tests = _run([item for item in items if item.path == path], modules, failed)
            found[name] = {"digest": digest, "tests": tests}
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps(found))
    return found


def _run(items: Sequence[pytest.Item], modules: Mapping[str, Path], failed: set[str]) -> dict[str, Any]:
    tracer = coverage.Coverage(data_file=None, config_file=False, include=[str(path) for path in modules.values()])
    tracer.set_option("run:disable_warnings", ["no-data-collected"])
    seconds: dict[str, float] = {}
    tracer.start()
    for item in items:
        tracer.switch_context(item.nodeid)
        begun = time.process_time()
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        seconds[item.nodeid] = time.process_time() - begun
    tracer.stop()
    tests = {nodeid: {"seconds": spent, "lines": {}} for nodeid, spent in seconds.items() if nodeid not in failed}
    for module, path in modules.items():
        for line, nodeids in tracer.get_data().contexts_by_lineno(str(path)).items():
            for nodeid in tests.keys() & set(nodeids):
                tests[nodeid]["lines"].setdefault(module, []).append(line)
    return tests


def _digest(paths: Sequence[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
