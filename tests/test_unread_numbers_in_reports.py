"""Numbers that a reader leaves out: `inspect` and reports name them, and `unread: error` blocks."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done

Command = Callable[..., Done]

RESULT = {"duration": 51.2, "completed": 100, "request_throughput": 1.95, "mean_ttft_ms": 90.1, "date": "2026-01-01"}
LINE = "numbers read: 4 of 6; not read: frobnication_time, queue.depth"
RULES = "version: 1\n{}rules:\n  - mean_ttft under 1 s\n"


@pytest.fixture
def file(folder: Path) -> str:
    more = {"frobnication_time": 1.5, "queue": {"depth": 3}, "seed": 7, "num_prompts": 100}
    (folder / "new.json").write_text(json.dumps(RESULT | more))
    (folder / "rules").mkdir(exist_ok=True)
    return "new.json"


def test_inspect_ends_with_what_was_read(perfgate: Command, file: str, folder: Path) -> None:
    assert perfgate("inspect", file).out.splitlines()[-1] == LINE
    (folder / "all.json").write_text(json.dumps(RESULT))
    assert perfgate("inspect", "all.json").out.splitlines()[-1] == "numbers read: all 4"
    (run,) = json.loads(perfgate("inspect", file, "--json").out)["runs"]
    assert [one["name"] for one in run["coverage"]["unread"]] == ["frobnication_time", "queue.depth"]


@pytest.mark.parametrize(
    ("setting", "code", "says"), [("", 0, True), ("unread: ignore\n", 0, False), ("unread: error\n", 3, True)]
)
def test_rules_say_what_unread_numbers_do(
    perfgate: Command, file: str, folder: Path, setting: str, code: int, says: bool
) -> None:
    (folder / "rules" / "r.yaml").write_text(RULES.format(setting))
    done = perfgate("check", file, "--json", "r.json", "--markdown", "m.md", "--html", "p.html")
    assert done.code == code
    for text in (done.out, (folder / "m.md").read_text(), (folder / "p.html").read_text()):
        assert ("frobnication_time" in text.replace("\\", "")) == says
    assert ("coverage" in json.loads((folder / "r.json").read_text())) == (setting != "unread: ignore\n")
    if code:
        assert "new.json: error: numbers are not read (frobnication_time, queue.depth)" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("output", "setting", "code"),
    [("took ~ 12.5 ms\n", "", 0), ("took ~ 12.5 ms\n", "unread: error\n", 3), ("fine\n", "unread: error\n", 0)],
)
def test_numbers_that_a_whole_command_prints_are_unread(
    perfgate: Command, folder: Path, output: str, setting: str, code: int
) -> None:
    (folder / "rules").mkdir(exist_ok=True)
    (folder / "rules" / "r.yaml").write_text(f"version: 1\n{setting}rules:\n  - command.time under 9 s\n")
    time = {"metric": "command.time", "unit": "s", "value": 2.0}
    (folder / "run.log").write_text(output)
    (folder / "run.log.machine").write_text(json.dumps({"schema": "perfgate.results/1", "series": [time]}))
    done = perfgate("check", "run.log")
    assert (done.code, "numbers read: 0 of 1; not read: took" in done.out) == (code, "took" in output), done.said


def test_files_that_differ_in_an_unknown_field_are_no_repetitions(perfgate: Command, folder: Path) -> None:
    (folder / "rules").mkdir(exist_ok=True)
    (folder / "rules" / "r.yaml").write_text(RULES.format(""))
    for name in ("a", "b"):
        (folder / f"{name}.json").write_text(json.dumps(RESULT | {"routing": name, "date": name, "run_id": name}))
    done = perfgate("check", "a.json", "b.json")
    assert done.code == 3
    assert "routing is b here and a in a.json, so these are not repetitions" in " ".join(done.out.split())
    (folder / "rules" / "r.yaml").write_text(RULES.format("conditions: [routing]\n"))
    assert "no repetitions" not in perfgate("check", "a.json", "b.json").out
