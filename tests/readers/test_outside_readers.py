"""Readers of other packages, which register under the entry point group `perfgate.readers`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

READER = """
import re

from perfgate.core import Key
from perfgate.readers import Format
from perfgate.readers.builder import RunBuilder

FORMAT = Format("mytool", "mytool_reader", markers={"mytool step": r"mytool step \\d+: "}, outline=OUTLINE)


def read(file):
    run = RunBuilder(file, "mytool")
    times = run.column(Key("step_time"), "s", per=1000)
    for number, line, _, ended in file.lines(("mytool step ",)):
        if found := re.search(r"mytool step (\\d+): (\\S+) ms", line):
            run.add(times, found[2], number, step=int(found[1]))
    return (run.run(),)
"""
SOUND = READER.replace("OUTLINE", "None")
LOG = "".join(f"mytool step {step}: {100 + step} ms\n" for step in range(30))


@pytest.fixture
def inspect(tmp_path):
    """Return a function that installs a reader and runs `perfgate inspect` on a log: (exit code, all output)."""

    def run(*arguments, text=LOG, reader=SOUND, entry="mytool_reader:FORMAT"):
        site = tmp_path / "site"
        (site / "mytool_reader-1.5.dist-info").mkdir(parents=True)
        (site / "mytool_reader-1.5.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: mytool-reader\nVersion: 1.5\n"
        )
        (site / "mytool_reader-1.5.dist-info" / "entry_points.txt").write_text(
            f"[perfgate.readers]\nmytool = {entry}\n"
        )
        (site / "mytool_reader.py").write_text(reader)
        (tmp_path / "run.log").write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "perfgate", "inspect", *arguments, "run.log"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}", "COLUMNS": "1000"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.parametrize("arguments", [(), ("--format", "mytool")])
@pytest.mark.parametrize("entry", ["mytool_reader:FORMAT", "mytool_reader"])
def test_an_installed_reader_reads_its_files(inspect, arguments, entry):
    code, output = inspect(*arguments, entry=entry)
    assert (code, "step_time" in output, "mytool" in output) == (0, True, True), output


def test_an_installed_reader_is_named_where_no_format_matches(inspect):
    code, output = inspect("--verbose", text="nothing\n")
    assert (code, "perfgate, recording, mytool" in output) == (3, True), output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("reader", "entry", "message"),
    [
        ("import nothing_of_that_name", "mytool_reader", "cannot be loaded: ModuleNotFoundError: No module named"),
        ("raise SystemExit(5)", "mytool_reader", "cannot be loaded: SystemExit: 5"),
        ("FORMAT = 3", "mytool_reader:FORMAT", "cannot be loaded: TypeError: the entry point names neither a Format"),
        ("", "mytool_reader:FORMAT", "cannot be loaded: AttributeError: "),
        (
            SOUND.replace('"mytool", "mytool', '"nsys", "mytool'),
            "mytool_reader",
            "cannot be loaded: ValueError: the format 'nsys' exists already",
        ),
        (
            SOUND.replace(r'r"mytool step \d+: "', 'r"("'),
            "mytool_reader",
            "cannot be loaded: error: missing ), unterminated subpattern",
        ),
    ],
)
def test_a_reader_that_cannot_be_loaded_is_one_line(inspect, reader, entry, message):
    code, output = inspect(reader=reader, entry=entry, text="nothing\n")
    assert (code, f"the reader 'mytool' of mytool-reader 1.5 {message}" in output) == (3, True), output
    assert "Traceback" not in output


def test_an_unknown_format_names_the_reader_that_is_broken(inspect):
    code, output = inspect("--format", "mytool", reader="import nothing_of_that_name", entry="mytool_reader")
    assert code != 0
    assert "--format mytool: no such format" in output
    assert "the reader 'mytool' of mytool-reader 1.5 cannot be loaded" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    raise KeyError('lost')", "failed: KeyError: 'lost'"),
        ("    return ()", "failed: TypeError: read() must return at least one Run"),
        ("    return None", "failed: TypeError: "),
    ],
)
def test_a_reader_that_fails_is_an_error_of_the_file(inspect, body, message):
    reader = SOUND.partition("    run = ")[0] + body + "\n"
    code, output = inspect(reader=reader)
    assert (code, f"the reader 'mytool' of mytool-reader 1.5 {message}" in output) == (3, True), output
    assert "Traceback" not in output


def test_a_rule_for_json_that_fails_is_reported_with_the_file(inspect):
    code, output = inspect(text='{"a": 1}', reader=READER.replace("OUTLINE", "lambda outline: 1 / 0"))
    assert (code, "of mytool-reader 1.5 failed: ZeroDivisionError" in output) == (3, True), output


def test_no_package_is_searched_for_a_format_of_perfgate(inspect):
    log = "[Rank 0] time (ms) | fwd: 1.00 | step: 2.00\n" * 30
    code, output = inspect(text=log, reader="print('imported')")
    assert (code, "imported" in output) == (0, False), output


def test_a_binary_file_is_recognised_by_the_signature_of_an_installed_reader(inspect):
    reader = SOUND.replace("markers=", 'signature=(rb"PK\\x03\\x04mytool", "as mytool does"), markers=')
    code, output = inspect("--verbose", text="PK\x03\x04mytool\n" + LOG, reader=reader)
    assert (code, "step_time" in output, "as mytool does" in output) == (0, True, True), output
