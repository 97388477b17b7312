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

    def that_run(self, mutant: Mutant, kills: Counter[tuple[str, str]], most: float = MOST) -> list[pytest.Item]:
        """Those that run the lines of a mutant, or any of its module for what is set at import: best killers first.

        `kills` counts by the name of a module or of a function and by test; `most` is in CPU seconds.
        """
        lines = self._by_line.get(mutant.module, {})
        first, last = mutant.lines if mutant.function else (min(lines, default=0), max(lines, default=0))
        reached = {nodeid for line in range(first, last + 1) for nodeid in lines.get(line, ())}
        spent, chosen, own = 0.0, [], f"/test_{mutant.module.rpartition('.')[2]}.py"

        def weakness(nodeid: str) -> tuple[float, str]:
            """Seconds for each of its kills; a test that has none yet gets a start, the smaller the farther it is."""
            start = 2.0 if own in nodeid else 0.2 if nodeid.startswith(NEAR) else 0.04
            known = kills[mutant.module, nodeid] + 20 * kills[f"{mutant.module}.{mutant.function}", nodeid]
            return (self.seconds[nodeid] + 0.005) / (known + start), nodeid

        for nodeid in sorted(reached, key=weakness):
            spent += self.seconds[nodeid]
            if spent <= most:
                chosen.append(self._items[nodeid])
        return chosen


def measured(items: Sequence[pytest.Item], modules: Mapping[str, Path], root: Path, failed: set[str]) -> Measurement:
    """Run the tests of every file that has changed since the last time, or of which a module has that they run.

    `failed` holds the tests that have failed so far; they are left out.
    """
    kept = root / KEPT
    kept.parent.mkdir(exist_ok=True)
    known = json.loads(kept.read_text()) if kept.exists() else {}
    digests = {name: digest([path]) for name, path in modules.items()}
    for path in dict.fromkeys(item.path for item in items):
        name, own = str(path.relative_to(root)), digest([path, root / "tests" / "conftest.py"])
        part = known.get(name, {"digest": ""})
        if part["digest"] != own or any(digests.get(module) != one for module, one in part["modules"].items()):
            tests = _run([item for item in items if item.path == path], modules, failed)
            run = {module for test in tests.values() for module in test["lines"]}
            known[name] = {"digest": own, "modules": {module: digests[module] for module in run}, "tests": tests}
            kept.write_text(json.dumps(known))
    return {name: known[name] for name in {str(item.path.relative_to(root)) for item in items}}


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


def digest(paths: Sequence[Path]) -> str:
    """The SHA-256 of the content of files."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
