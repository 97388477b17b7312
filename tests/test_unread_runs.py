"""Runs from which nothing could be read: the cause is the first line, and there are few others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, steady, write_log, write_rules

Command = Callable[..., Done]

DOCUMENT = json.dumps(
    {"schema": "perfgate.results/1", "series": [{"metric": "forward", "unit": "s", "values": [1, 2]}]}
)

CASES = {
    "mistyped": (None, "chnge.log: error: cannot be read: file not found; did you mean change.log?"),
    "elsewhere": (None, "slow.log: error: cannot be read: file not found; did you mean runs/slow.log?"),
    "text": (b"hello\n" * 9, "x.log: error: unknown format: no line is output of a tool that perfgate reads"),
    "binary": (bytes(range(128, 256)) * 40, "x.log: error: this is a binary file of an unknown kind: give what "),
    "empty": (b"", "x.log: error: the file is empty"),
    "cut": (DOCUMENT[:55].encode(), "x.log:1:56: error: the JSON document is cut off"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_cause_is_the_first_line_of_few(in_short: Command, folder: Path, case: str) -> None:
    data, first = CASES[case]
    write_rules(folder, *(f"metric{i} under 5 ms" for i in range(20)))
    (folder / "runs").mkdir()
    write_log(folder / "change.log", forward=steady(100))
    write_log(folder / "runs" / "slow.log", forward=steady(100))
    if data is not None:
        (folder / "x.log").write_bytes(data)
    done = in_short("check", first.split(":")[0])
    lines = done.out.splitlines()
    assert done.code == 3
    assert lines[0].startswith(first)
    assert "nothing was measured: 20 rules not judged" in lines
    assert lines[-1].startswith("ERROR  20 errors")
    assert len(lines) <= 7


def test_a_summary_and_the_annotations_say_the_cause_once(perfgate: Command, folder: Path) -> None:
    write_rules(folder, *(f"metric{i} under 5 ms" for i in range(20)))
    (folder / "x.log").write_bytes(b"")
    done = perfgate("check", "x.log", "--markdown", "m.md", "--comment", "c.md", "--json", "-", "--github")
    assert done.code == 3
    for text in (done.err, (folder / "m.md").read_text(), (folder / "c.md").read_text()):
        assert text.count("the file is empty") == 1
        assert text.count("nothing was measured: 20 rules not judged") == 1
        assert "metric7" not in text


def test_a_folder_of_many_runs_is_told_how_to_give_them(in_short: Command, folder: Path) -> None:
    write_rules(folder, "forward under 5 ms")
    (folder / "many").mkdir()
    for name in "abc":
        (folder / "many" / f"{name}.json").write_text(DOCUMENT)
    done = in_short("check", "many")
    assert "3 files here are runs of their own: did you mean many/*.json?" in " ".join(done.out.splitlines()[:2])
    assert (done.code, len(done.out.splitlines())) == (3, 6)


def test_what_was_searched_for_is_behind_verbose(in_short: Command, folder: Path) -> None:
    write_rules(folder, "forward under 5 ms")
    (folder / "x.log").write_text("hello\n")
    for words in (("check", "x.log"), ("inspect", "x.log")):
        assert "deepspeed" not in in_short(*words).said
        assert "--verbose lists the formats that were searched for" in in_short(*words).said
        assert "searched for deepspeed: 'time (ms)'" in in_short(*words, "--verbose").said


def test_compare_begins_with_the_cause_too(in_short: Command, folder: Path) -> None:
    write_log(folder / "base.log", forward=steady(100))
    lines = in_short("compare", "base.log", "--new", "bse.log").out.splitlines()
    assert lines[0] == "bse.log: error: cannot be read: file not found; did you mean base.log?"
    assert len(lines) <= 6


def test_a_run_that_could_be_read_keeps_the_table(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 5 ms")
    write_log(folder / "new.log", forward=steady(100))
    assert "outcome  metric" in perfgate("check", "new.log", "gone.log").out
