"""`perfgate bisect` without arguments: the remembered command, the stored commit, and the first rule about a change."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from conftest import Done, Repository

Command = Callable[..., Done]
SCRIPT = "for i in range(30): print(f'step {i} took 10.{i % 7}1 ms')\n"


def test_a_bare_bisection(perfgate: Command, folder: Path) -> None:
    repository = Repository(folder)
    (folder / "baselines").mkdir()
    (folder / "baselines" / "README.md").write_text("")
    (folder / "rules").mkdir()
    (folder / "rules" / "bench.yaml").write_text("version: 1\nrules: [took under 9 s, took within 5% of baseline]\n")
    (folder / "rules" / "perfgate.yaml").write_text(
        f"run: {{command: '{sys.executable} bench.py'}}\n"
        "mappings: [{files: '*.log', lines: 'took {took} ms', metrics: {took: ms}}]\n"
    )
    (folder / "bench.py").write_text(SCRIPT)
    (folder / "first.log").write_text("".join(f"step {i} took 10.{i % 7}1 ms\n" for i in range(30)))
    repository.git("add", "bench.py")
    good = repository.commit("a gate")
    assert perfgate("baseline", "approve", "first.log", "--reason", "first").code == 0
    (folder / "bench.py").write_text(SCRIPT.replace("10.", "15."))
    repository.git("add", "bench.py")
    bad = repository.commit("slower")
    done = perfgate("bisect")
    assert f"searching the commits after the stored {good[:12]} for a change: took within 5% of baseline" in done.err
    assert done.code == 0, done.said
    assert bad[:10] in done.out
