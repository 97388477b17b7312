"""The command line itself: help, suggestions, exit codes of accidents, and what goes to which stream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from conftest import Done, approve_steady, steady, write_log, write_rules

from perfgate.cli.entry import main

Command = Callable[..., Done]


def commands(group: click.Group, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += commands(command, (*prefix, name)) if isinstance(command, click.Group) else [(*prefix, name)]
    return found


@pytest.mark.parametrize("words", [(), *commands(main)], ids=" ".join)
def test_every_command_explains_itself_with_an_example(perfgate: Command, words: tuple[str, ...]) -> None:
    done = perfgate(*words, "--help")
    assert done.code == 0
    assert "\\b" not in done.out
    if words:
        assert f"Example: perfgate {' '.join(words)}" in done.out


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("bisect", "--good", "HEAD~1", "--metric", "x", "--json", "--", "true"), "--json"),
        (("bisect", "--good", "HEAD~1", "--metric", "x", "--html", "--", "true"), "--html"),
        (("run", "--results", "x.json", "--json", "--", "true"), "--json"),
        (("doctor", "--json", "--", "true"), "--json"),
        (("check", "--markdown", "--", "x.json"), "--markdown"),
        (("history", "report", "--html", "--"), "--html"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "",
)
def test_the_end_of_options_is_not_a_file(perfgate: Command, folder: Path, words: tuple[str, ...], option: str) -> None:
    done = perfgate(*words)
    assert (done.code, f"{option} needs a file; - is stdout" in done.err) == (2, True), done.said
    assert not list(folder.iterdir())


def test_the_help_lists_every_command_with_what_it_does(perfgate: Command) -> None:
    short = perfgate("--help").out
    assert "  check " in short
    assert "  schema " not in short
    _, found, listed = perfgate("--help-all").out.partition("\nCommands:\n")
    assert found
    assert [line.split()[0] for line in listed.splitlines()] == main.list_commands(click.Context(main))
    assert "  check       Judge new runs by the rules and the stored baseline.\n" in listed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chek", "x"], "check"),
        (["baseline", "aprove"], "approve"),
        (["check", "--jnit", "x"], "--junit"),
        (["schema", "rule"], "rules"),
        (["check"], "make runs with `perfgate run`"),
        (["rules", "explain", "--rules", "rules", "slwo"], "slow"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_right_one(
    perfgate: Command, folder: Path, words: list[str], said: str
) -> None:
    (folder / "rules").mkdir()
    (folder / "rules" / "r.yaml").write_text("version: 1\nrules:\n  - {id: slow, assert: forward under 1 s}\n")
    done = perfgate(*words)
    assert done.code == 2
    assert said in done.err


def test_an_internal_error_is_one_line_and_exit_4(
    perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(request: object) -> None:
        raise RuntimeError("a fault\nover two lines")

    monkeypatch.setattr("perfgate.commands.check.check", broken)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    write_rules(folder, "forward under 1 s")
    done = perfgate("check", "new.log")
    assert (done.code, done.out, len(done.err.splitlines())) == (4, "", 1)
    details = Path(done.err.split()[-1])
    assert "a fault" in details.read_text()


def test_an_interrupt_ends_with_130(perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(request: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("perfgate.commands.check.check", interrupted)
    assert perfgate("check", "new.log").code == 130


@pytest.fixture
def passing(folder: Path) -> Path:
    write_rules(folder, "forward under 1 s")
    write_log(folder / "new.log", forward=steady(100))
    return folder


def shell(script: str, folder: Path) -> int:
    program = f'perfgate() {{ "{sys.executable}" -m perfgate "$@"; }}\n{script}'
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    return subprocess.run(
        ["bash", "-c", program], cwd=folder, env=environment, capture_output=True, check=False
    ).returncode


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("perfgate check new.log", 0),
        ("cat new.log | perfgate check -", 0),
        ("perfgate check new.log >&- 2>/dev/null", 2),
        ("set -o pipefail; perfgate check new.log --json - | true", 2),
        ("perfgate check new.log > /dev/full", 2),
        ("perfgate inspect new.log --json --values > /dev/full", 2),
        ("perfgate check < /dev/null -", 3),
        ("perfgate check /dev/zero", 3),
        ("perfgate check <(cat new.log)", 0),
    ],
)
def test_streams(passing: Path, script: str, code: int) -> None:
    write_log(passing / "new.log", forward=steady(100, n=5000))
    assert shell(script, passing) == code


def test_colour_is_asked_for_and_refused_by_the_environment(
    perfgate: Command, passing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b" not in perfgate("check", "new.log").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" in perfgate("check", "new.log").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in perfgate("check", "new.log").out


# --- inspect, rules, schema --------------------------------------------------------------------------------------


def test_inspect_prints_what_was_read(perfgate: Command, passing: Path) -> None:
    document = json.loads(perfgate("inspect", "new.log", "--json", "--values").out)
    (found,) = document["runs"]
    (series,) = found["series"]
    assert (document["schema"], found["source"], found["format"]) == ("perfgate.inspect/1", "new.log", "deepspeed")
    assert (series["metric"], series["labels"], series["unit"], series["kind"], series["n"]) == (
        "forward",
        {"rank": "0"},
        "s",
        "samples",
        200,
    )
    assert series["statistics"]["median"] == pytest.approx(0.1, rel=0.01)
    assert len(series["values"]) == 200
    assert "values" not in perfgate("inspect", "new.log", "--json").out
    table = perfgate("inspect", "new.log").out
    assert 'forward{rank="0"}' in table
    assert "200" in table


def test_inspect_says_once_what_several_runs_share(perfgate: Command, folder: Path) -> None:
    for number, name in enumerate("abcdefg"):
        more = "Traceback (most recent call last):\n" if name != "d" else ""
        (folder / f"{name}.log").write_text(f"time (ms) | fwd: 1.0{number} | bwd: 2.00\n{more}")
    said = perfgate("inspect", *(f"{name}.log" for name in "abcdefg")).out
    assert said.count("traceback") == 1
    shared = "(the same in b.log, c.log, e.log, f.log and 1 more)"
    assert f"a.log:2: warning: the log ends in a traceback {shared}\n\nnumbers read: all 2\n\nb.log: deepspeed" in said
    steps = "".join(f"iter {step % 3}: loss 2.0, time {step}.00ms, mfu 1.00%\n" for step in range(1, 7))
    (folder / "twice.log").write_text(steps)
    said = perfgate("inspect", "twice.log").out
    assert ("twice.log (run 2)" in said, said.count("this file has 3 runs"), "the same in" in said) == (True, 1, False)


def test_inspect_shows_many_ranks_in_a_row_with_the_slowest_by_name(perfgate: Command, folder: Path) -> None:
    ranks = [{"forward": [100.0 + rank + 50 * (rank == 7)] * 4} for rank in range(9)]
    write_log(folder / "many.log", ranks)
    table = perfgate("inspect", "many.log").out
    (row,) = (line.split() for line in table.splitlines() if line.startswith("forward"))
    slowest, fastest = ["157", "ms", "rank", "7"], ["100", "ms", "rank", "0"]
    assert row == ["forward", "9", "median", "104", "ms", *slowest, *fastest, "57%"]
    assert "--each-rank shows a row for each rank" in table
    each = perfgate("inspect", "many.log", "--each-rank").out
    assert ("--each-rank" in each, each.count("forward{rank=")) == (False, 9)
    write_log(folder / "few.log", ranks[:8])
    assert perfgate("inspect", "few.log").out.count("forward{rank=") == 8


def test_inspect_names_files_as_given_and_exits_3_for_damage(perfgate: Command, passing: Path) -> None:
    given = str(passing / "new.log")
    assert json.loads(perfgate("inspect", given, "--json").out)["runs"][0]["source"] == given
    (passing / "bad.log").write_text("[Rank 0] time (ms) | forward: nan\n")
    done = perfgate("inspect", "bad.log", "--json")
    assert done.code == 3
    assert json.loads(done.out)["runs"][0]["problems"][0]["line"] == 1


def test_a_forced_format_is_used_and_an_unknown_one_is_an_error(perfgate: Command, passing: Path) -> None:
    assert perfgate("inspect", "new.log", "--format", "deepspeed").code == 0
    assert perfgate("inspect", "new.log", "--format", "timeit").code == 3
    done = perfgate("check", "new.log", "--format", "deepsped")
    assert (done.code, "did you mean 'deepspeed'?" in done.err) == (2, True)


def test_rules_check_lists_good_files_and_every_mistake(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 1 s", name="rules/good.yaml")
    assert perfgate("rules", "check").out == "rules/good.yaml: 1 rule\n"
    write_rules(folder, "forward undr 1 s", "forward under 5 mss", name="rules/bad.yaml")
    done = perfgate("rules", "check")
    assert done.code == 2
    assert "rules/bad.yaml:3:14: error" in done.err
    assert "rules/bad.yaml:4:22: error" in done.err
    assert done.err.count("^") >= 2


def test_rules_explain_says_what_a_rule_means(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward p95 under 50 ms", "forward within 5% of baseline")
    done = perfgate("rules", "explain")
    assert done.code == 0
    assert "95th percentile of forward" in done.out
    assert "at least 59 independent values" in done.out
    assert "5% worse" in done.out


@pytest.mark.parametrize("name", ["rules", "results", "baseline", "report", "bisect"])
def test_schema_prints_a_json_schema(perfgate: Command, name: str) -> None:
    assert json.loads(perfgate("schema", name).out)["$schema"].startswith("http://json-schema.org/draft-07")


def test_the_user_card_works_as_it_stands(perfgate: Command, passing: Path) -> None:
    (passing / "rules" / "rules.yaml").write_text(
        "version: 1\nsuite: gpt-small\nrules:\n"
        "  - backward_allreduce p95 under 50 ms\n  - forward_backward within 5% of baseline\n"
    )
    approve_steady(
        perfgate, write_log(passing / "new.log", backward_allreduce=steady(10), forward_backward=steady(300))
    )
    write_log(passing / "new.log", backward_allreduce=steady(10, seed=2), forward_backward=steady(300, seed=3))
    assert perfgate("check", "new.log").code == 0


@pytest.mark.parametrize("name", ["run", "check"])
def test_the_help_shows_everyday_options_and_help_all_every_one(perfgate: Command, name: str) -> None:
    short, long = perfgate(name, "--help").out, perfgate(name, "--help-all").out
    assert "--json" in short
    assert "--policy-ref" not in short
    assert "--policy-ref" in long


@pytest.mark.parametrize(
    ("words", "now"),
    [
        (["plan"], "perfgate rules"),
        (["selftest", "x"], "perfgate rules"),
        (["calibrate"], "perfgate rules --calibrate"),
    ],
)
def test_an_earlier_name_of_a_command_works_with_a_notice(perfgate: Command, words: list[str], now: str) -> None:
    done = perfgate(*words)
    assert done.err.startswith(f"`perfgate {words[0]}` is now `{now}`; the old name will go in the next release\n")
    assert done.code == perfgate(*now.split()[1:], *words[1:]).code
