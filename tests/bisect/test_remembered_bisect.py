"""`perfgate bisect` without arguments: the remembered command, the stored commit, and the first rule about a change."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Repository, steady, write_results, write_rules

Command = Callable[..., Done]
SCRIPT = "for i in range(30): print(f'step {i} took 10.{i % 7}1 ms')\n"


@pytest.mark.parametrize("first", ["A100", "H100"])
def test_good_is_the_newest_commit_of_all_environments(
    perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    repository = Repository(folder)
    write_rules(folder, "took within 5% of baseline")
    second = "H100" if first == "A100" else "A100"
    for day, gpu in enumerate((first, second)):
        write_results(folder / f"{gpu}.json", {"metric": "took", "unit": "s", "values": steady(1, seed=day)})
        repository.git("add", "-A")
        repository.git("commit", "-q", "-m", f"measured on {gpu}")
        newest = repository.git("rev-parse", "HEAD")
        monkeypatch.setenv("SOURCE_DATE_EPOCH", f"{1767225600 + 86400 * day}")
        words = ("--env", f"gpu={gpu}", "--reason", "first")
        assert perfgate("baseline", "approve", f"{gpu}.json", *words).code == 0
    assert f"searching the commits after the stored {newest[:12]} for" in perfgate("bisect", "--", "true").err


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
