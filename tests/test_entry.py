"""The group of all commands: names, help, suggestions, completion, and the environment in which a command runs."""

from __future__ import annotations

import io
import os
import resource
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

import perfgate.commands
from perfgate.cli import entry
from perfgate.cli.entry import ShortHelp, SuggestingGroup, main
from perfgate.workspace.options import Refused

Captured = pytest.CaptureFixture[str]
EVERYDAY = ["init", "check", "run", "compare", "inspect", "baseline", "history", "bisect", "doctor", "report"]


def context(**more: Any) -> click.Context:
    return click.Context(main, info_name="perfgate", **more)


def listed(text: str) -> list[str]:
    """The first words of the table of commands or options at the end of a help."""
    lines = text.partition("\nCommands:\n")[2] or text.partition("\nOptions:\n")[2]
    return [line.split()[0] for line in lines.splitlines() if line.startswith("  ") and line[2] != " "]


# --- names -----------------------------------------------------------------------------------------------------------


def test_every_file_of_commands_is_a_command() -> None:
    """Those of a group, such as `history_watch.py`, have its name in front."""
    files = [path for path in Path(perfgate.commands.__path__[0]).glob("*.py") if "\ndef command(" in path.read_text()]
    assert main.list_commands(context()) == sorted(path.stem for path in files if "_" not in path.stem)


def test_the_help_shows_everyday_commands_and_help_all_every_one(capsys: Captured) -> None:
    assert listed(main.get_help(context())) == EVERYDAY
    assert entry.run(["--help-all", "--version"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Usage: perfgate [OPTIONS] COMMAND")
    assert listed(said) == main.list_commands(context())
    assert entry.run(["--version", "--help-all"]) == 0
    assert capsys.readouterr().out.startswith("perfgate, version")


def test_a_shell_that_completes_a_line_sees_no_help(capsys: Captured) -> None:
    main.make_context("perfgate", ["--help-all"], resilient_parsing=True)
    assert capsys.readouterr() == ("", "")


def test_everyday_options_are_those_of_run_and_check() -> None:
    found = {option for name in ("run", "check") for option in options_of(name)}
    assert entry._OPTIONS - {"--help"} <= found  # which click adds itself
    # click keeps the option of the first help of a command, with -h if that was shown by perfgate.
    assert {listed(help_of(name))[-1] for name in ("check", "run")} <= {"--help", "-h,"}


def options_of(name: str) -> list[str]:
    command = main.get_command(context(), name)
    assert command is not None
    return [word for one in command.params for word in one.opts]


def help_of(name: str) -> str:
    command = main.get_command(context(), name)
    assert command is not None
    return command.get_help(click.Context(command, info_name=name))


def short() -> click.Command:
    """Return a command with an everyday option, a hidden one, and two rare ones."""

    @click.command(cls=ShortHelp)
    @click.option("--json", help="A report.")
    @click.option("--only", hidden=True)
    @click.option("--rare", help="For few.")
    @click.option("--number", type=int, help="For few, too.")
    @entry.help_all_option
    def command(**_: object) -> None:
        """Do it."""

    return command


def test_a_short_help_leaves_rare_options_and_hidden_ones_out(capsys: Captured) -> None:
    short().main(["--help"], standalone_mode=False)
    assert listed(capsys.readouterr().out) == ["--json", "--help-all", "--help"]


def test_the_whole_help_comes_before_a_mistake_in_other_options(capsys: Captured) -> None:
    short().main(["--number", "x", "--help-all"], standalone_mode=False)
    assert listed(capsys.readouterr().out) == ["--json", "--rare", "--number", "--help-all", "--help"]
    with short().make_context("short", ["--json", "x"]) as of_command:
        assert of_command.params == {"json": "x", "only": None, "rare": None, "number": None}


# --- mistyped words --------------------------------------------------------------------------------------------------

MEANT = [
    # a word, the commands that it may mean
    ("chek", ["check"]),
    ("aprove", ["baseline approve"]),
    ("quarantin", ["history quarantine"]),
    ("shw", ["baseline show", "history show", "rules show"]),
    ("explain", ["explain"]),
    ("accept", ["baseline approve"]),
    ("lint", ["rules check"]),
    ("validate", ["rules check"]),
    ("calibrat", ["rules --calibrate"]),
    ("plann", ["rules"]),
    ("selftst", ["rules"]),
    ("xyzzy", []),
]


@pytest.mark.parametrize(("word", "commands"), MEANT)
def test_what_a_mistyped_command_may_mean(word: str, commands: list[str]) -> None:
    assert main.near_commands(context(), word) == commands
    assert entry._OTHER_WORDS.keys() == {*entry._EARLIER, "accept", "lint", "validate"}


def test_every_command_of_a_group_is_found_by_its_name() -> None:
    for group in ("baseline", "history", "rules"):
        command = main.get_command(context(), group)
        assert isinstance(command, click.Group)
        names = command.list_commands(context())
        assert entry._GROUPS[group] == tuple(names)
    assert len(entry._GROUPS) == 3


UNKNOWN = [
    ("shw", "No such command 'shw'. Did you mean 'show'?"),
    ("s-w", "No such command 's-w'."),
    ("xyzzy", "No such command 'xyzzy'."),
    ("--show", None),
    ("", None),
]


@pytest.mark.parametrize(("word", "said"), UNKNOWN)
def test_a_group_suggests_one_command(word: str, said: str | None) -> None:
    group = SuggestingGroup("rules", {name: click.Command(name) for name in ("show", "shows", "check")})
    of_group = click.Context(group)
    show = group.get_command(of_group, "show")
    assert show is not None
    assert show.name == "show"
    if said is None:
        assert group.get_command(of_group, word) is None
    else:
        with pytest.raises(click.UsageError) as raised:
            group.get_command(of_group, word)
        assert raised.value.message == said
    assert group.get_command(click.Context(group, resilient_parsing=True), word) is None


def test_several_meanings_are_named() -> None:
    with pytest.raises(click.UsageError) as raised:
        main.get_command(context(), "shw")
    hint = "Did you mean 'baseline show' or 'history show' or 'rules show'?"
    assert raised.value.message == f"No such command 'shw'. {hint}"
    assert main.get_command(context(), "--shw") is None


EARLIER = [
    ("calibrate", "rules --calibrate", ["show", "--calibrate"]),
    ("plan", "rules", ["show"]),
    ("selftest", "rules", ["show"]),
]


@pytest.mark.parametrize(("word", "now", "arguments"), EARLIER)
def test_an_earlier_name_is_replaced_with_a_notice(word: str, now: str, arguments: list[str], capsys: Captured) -> None:
    name, command, rest = main.resolve_command(context(), [word, "x", "y"])
    assert (name, command and command.name, rest) == ("rules", "rules", [*arguments, "x", "y"])
    notice = f"`perfgate {word}` is now `perfgate {now}`; the old name will go in the next release\n"
    assert capsys.readouterr() == ("", notice)
    assert main.resolve_command(context(), ["rules", word])[2] == [word]
    assert capsys.readouterr() == ("", "")


def test_a_shell_is_offered_commands_and_options() -> None:
    found = main.shell_complete(context(), "hi")
    assert [(one.value, one.help) for one in found] == [
        ("history", "Remember every run of main, and show what changed.")
    ]
    assert [one.value for one in main.shell_complete(context(), "--h")] == ["--help-all", "--help"]


def test_the_variable_of_completion_is_that_of_click(monkeypatch: pytest.MonkeyPatch) -> None:
    """Click makes it of the name of the program, and so do the scripts that users have installed."""

    def complete(*_: object, **__: object) -> None:
        raise SystemExit(1)

    monkeypatch.setattr(main, "main", complete)
    monkeypatch.delenv("_PERFGATE_COMPLETE", raising=False)
    assert entry.run([]) == 2
    monkeypatch.setenv("_PERFGATE_COMPLETE", "bash_complete")
    assert entry.run([]) == 0


@pytest.mark.parametrize(("before", "inside"), [(None, "1"), ("4", "4")])
def test_numpy_gets_one_thread_unless_the_user_says_how_many(
    before: str | None, inside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if before is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", before)
    seen, command = [], click.Command("check")

    def imported(name: str) -> SimpleNamespace:
        seen.append((name, os.environ.get("OPENBLAS_NUM_THREADS")))
        return SimpleNamespace(command=command)

    monkeypatch.setattr(entry, "import_module", imported)
    assert main.get_command(context(), "check") is command
    assert seen == [("perfgate.commands.check", inside)]
    assert os.environ.get("OPENBLAS_NUM_THREADS") == before


# --- the process -----------------------------------------------------------------------------------------------------

EPOCHS = [
    # SOURCE_DATE_EPOCH before, and after; "" if it is refused
    (None, None),
    ("1767225600", "1767225600"),
    (" 12 ", " 12 "),
    ("-1", "-1"),
    ("", None),
    ("  ", None),
    ("1.5", ""),
    ("now", ""),
]


@pytest.mark.parametrize(("epoch", "after"), EPOCHS)
def test_the_date_of_the_source_is_a_number_or_not_set(
    epoch: str | None, after: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    if epoch is not None:
        monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    if after == "":
        with pytest.raises(click.UsageError, match="not a number of seconds"):
            entry._prepare_process()
        monkeypatch.setattr(main, "main", lambda *_, **__: 0)
        assert entry.run([]) == 2
    else:
        entry._prepare_process()
        assert os.environ.get("SOURCE_DATE_EPOCH") == after


LEAST = 256 << 20


@pytest.mark.parametrize(
    ("limits", "is_enough"),
    [
        ((LEAST, LEAST), True),
        ((LEAST - 1, 2 * LEAST), False),
        ((LEAST, LEAST - 1), True),  # the soft limit is the one that counts
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), True),
    ],
)
def test_numpy_needs_256_mib(limits: tuple[int, int], is_enough: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits if kind == resource.RLIMIT_AS else (0, 0))
    if is_enough:
        entry._prepare_process()
    else:
        with pytest.raises(Refused, match=r"limited to 255 MiB \(ulimit -v\): perfgate needs at least 256") as raised:
            entry._prepare_process()
        assert raised.value.exit_code == 3


@pytest.mark.parametrize(("encoding", "bytes_"), [("ascii", b"a->b"), ("cp1252", b"a->b"), ("utf-8", "a→b".encode())])
def test_stdout_prints_every_character(encoding: str, bytes_: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    entry._prepare_process()
    print("a→b", end="", flush=True)
    assert raw.getvalue() == bytes_


def test_bytes_that_are_no_text_are_an_error() -> None:
    entry._in_ascii(UnicodeEncodeError("ascii", "→", 0, 1, ""))
    with pytest.raises(UnicodeDecodeError):
        entry._in_ascii(UnicodeDecodeError("ascii", b"\xff", 0, 1, ""))


FAULTS: list[tuple[Exception, int, str]] = [
    (ImportError("failed to map segment from shared object"), 3, "error: there is not enough memory"),
    (ImportError("libx.so: cannot allocate memory"), 3, "error: there is not enough memory"),
    (ImportError("no such module"), 4, "internal error: ImportError"),
    (ValueError("Cannot allocate memory"), 4, "internal error: ValueError"),
    (Refused("nothing to do", 0), 0, "nothing to do\n"),
]


@pytest.mark.parametrize(("error", "code", "said"), FAULTS)
def test_what_an_error_means(
    error: Exception, code: int, said: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert entry._failed(error) == code
    out, err = capsys.readouterr()
    assert (out, err.startswith(said)) == ("", True), err
