"""Links that a pull request commits: perfgate writes and removes nothing outside of the checkout through them."""

from __future__ import annotations

import ntpath
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, steady, write_log, write_rules

from perfgate.baselines.stores import open_store, write_file
from perfgate.measuring.kept_runs import matching
from perfgate.workspace import commit_files, output_files
from perfgate.workspace.options import Refused

Command = Callable[..., Done]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links")

REPORTS = ["--json", "--junit", "--html", "--markdown", "--sarif"]


@pytest.fixture
def checkout(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone in which a check passes; `mine.txt` beside it belongs to somebody else."""
    here = folder / "checkout"
    here.mkdir()
    (folder / "mine.txt").write_text("mine")
    (folder / "elsewhere" / "pairs").mkdir(parents=True)
    (folder / "elsewhere" / "pairs" / "mine.txt").write_text("mine")
    monkeypatch.chdir(here)
    git("init", "-q")
    write_rules(here, "forward p95 under 120 ms")
    write_log(here / "new.log", forward=steady(100))
    return here


def git(*words: str) -> None:
    subprocess.run(["git", *words], check=True, capture_output=True)


def untouched(checkout: Path) -> bool:
    files = [path for path in checkout.parent.rglob("*") if checkout not in path.parents and path.is_file()]
    return len(files) == 2 and all(path.read_text() == "mine" for path in files)


DRIVES = [
    # a folder that is read, a report, and whether it would be read
    ("C:\\clone\\rules", "C:\\clone\\rules\\r.yaml", True),
    ("C:\\clone\\rules", "C:\\clone\\r.json", False),
    ("C:\\clone\\rules", "D:\\r.json", False),
    ("C:\\clone\\rules", "\\\\host\\share\\r.json", False),
    ("\\\\host\\share\\", "\\\\host\\share\\r.json", True),
    ("\\\\host\\share", "\\\\host\\other\\r.json", False),
    ("\\\\?\\C:\\clone", "C:\\clone\\r.json", False),  # both are real paths, so they have one form
    ("C:\\clone\\rules", "-", False),
]


@pytest.mark.parametrize(("read", "report", "is_read"), DRIVES)
def test_a_report_on_another_drive_is_no_input(
    monkeypatch: pytest.MonkeyPatch, read: str, report: str, is_read: bool
) -> None:
    with monkeypatch.context() as windows:
        windows.setattr(os, "path", ntpath)
        found = output_files._is_read_from(read, report)
    assert found == is_read


def test_rules_on_another_drive_are_outside_of_the_repository(
    perfgate: Command, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x")

    def other_drive(path: str, start: str = "") -> str:
        raise ValueError("path is on mount 'D:', start on mount 'C:'")

    monkeypatch.setattr(commit_files.os.path, "relpath", other_drive)
    done = perfgate("check", "new.log", "--policy-ref", "HEAD")
    assert (done.code, "is outside of the repository" in done.err) == (3, True), done.said


@pytest.mark.parametrize("option", REPORTS)
@pytest.mark.parametrize(
    ("link", "to", "given"),
    [
        ("report", "../mine.txt", "report"),
        ("report", "../new.txt", "report"),
        ("out", "..", "out/mine.txt"),
        ("report", "../mine.txt", "{}/report"),
        ("report", ".git/config", "report"),
        ("report", ".GIT/config", "report"),
    ],
    ids=["over a file", "a new file", "a folder", "an absolute path", "into .git", "into .git without case"],
)
def test_a_report_through_a_link_is_refused(
    perfgate: Command, checkout: Path, option: str, link: str, to: str, given: str
) -> None:
    (checkout / link).symlink_to(to)
    config = Path(".git/config").read_text()
    done = perfgate("check", "new.log", option, given.format(checkout))
    assert (done.code, "a link leads out of the repository" in done.err) == (2, True), done.said
    assert (untouched(checkout), Path(".git/config").read_text()) == (True, config)


def test_a_link_within_the_repository_and_a_folder_of_the_user_are_written_to(
    perfgate: Command, checkout: Path
) -> None:
    Path("real").mkdir()
    Path("out").symlink_to("real")
    (checkout.parent / "linked").symlink_to(checkout.parent / "elsewhere")
    assert perfgate("check", "new.log", "--json", "out/r.json", "--junit", "../linked/r.xml").code == 0
    assert Path("real/r.json").exists()
    assert (checkout.parent / "elsewhere/r.xml").exists()


@pytest.mark.parametrize("more", [[], ["--reruns", "1", "--results", "r.log"]], ids=["runs", "reruns"])
@pytest.mark.parametrize("way", ["link", "file"])
def test_a_folder_of_runs_that_the_pull_request_brings_is_refused(
    perfgate: Command, checkout: Path, more: list[str], way: str
) -> None:
    if way == "link":
        Path("perfgate-runs").symlink_to("../elsewhere")
        why = "leads out of the repository"
    else:
        Path("perfgate-runs").mkdir()
        Path("perfgate-runs/machine-before.json").symlink_to("../../mine.txt")
        git("add", "-f", "perfgate-runs/machine-before.json")
        why = "git tracks perfgate-runs/machine-before.json"
    done = perfgate("run", *more, "--", "sh", "-c", "cp new.log r.log; cat new.log")
    assert (done.code, why in done.err, untouched(checkout)) == (2, True, True), done.said
    assert not Path("r.log").exists()


def test_a_search_does_not_write_into_such_a_folder(perfgate: Command, checkout: Path) -> None:
    Path("kept").symlink_to("../elsewhere")
    for number in range(4):
        git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", str(number))
    words = ["--good", "HEAD~3", "--bad", "HEAD", "--keep", "kept", "--metric", "forward"]
    done = perfgate("bisect", *words, "--", "cat", "new.log")
    assert (done.code, "leads out" in done.err, untouched(checkout)) == (2, True, True), done.said


@pytest.mark.parametrize("link", ["_machines", "_machines/gpu-7", "_history", "_history/_ledger", "_history/_ledger/s"])
def test_no_store_writes_or_removes_through_a_link(checkout: Path, link: str) -> None:
    elsewhere = checkout.parent / "elsewhere"
    (checkout / "baselines" / link).parent.mkdir(parents=True)
    (checkout / "baselines" / link).symlink_to(elsewhere)
    store = open_store("baselines")
    for path in ("_machines/gpu-7/mine.txt", "_history/_ledger/s/2026-01/mine.txt", f"{link}/mine.txt"):
        if path.startswith(f"{link}/"):
            with pytest.raises(Refused, match="links are not followed"):
                write_file(store, path, b"x", replace=True)
    (elsewhere / "mine.txt").write_text("mine")
    with pytest.raises(OSError, match="links are not followed"):
        store.remove(f"{link}/mine.txt")
    (elsewhere / "mine.txt").unlink()
    assert untouched(checkout)


def test_links_to_everything_are_not_followed(folder: Path) -> None:
    """Each of them has all the others in it."""
    for name, to in (("a", "."), ("b", "."), ("c", "/"), ("d", "x/y")):
        (folder / name).symlink_to(to)
    (folder / "x/y").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    for name in ("r.json", "x/r.json", "x/y/r.json", "x/y/[1].json", ".hidden/r.json"):
        (folder / name).write_text("{}")
    every = {"r.json", "x/r.json", "x/y/r.json", "x/y/[1].json"}
    assert {str(path) for path in matching("**/*") if path.is_file()} == every
    assert matching("**/r.json") == {Path(name) for name in ("r.json", "x/r.json", "x/y/r.json")}
    assert matching(f"{folder}/x/**/r.json") == {folder / "x/r.json", folder / "x/y/r.json"}
    assert {str(path) for path in matching("x/**") if path.is_file()} == every - {"r.json"}
    assert matching("d/*.json") == {Path("d/r.json"), Path("d/[1].json")}
    assert matching("**/y/**/r.json") == {Path("x/y/r.json")}
    (folder / "x/y/z").mkdir()
    (folder / "x/y/z/r.json").write_text("{}")
    assert matching("x**/y/**/r.json") == {Path("x/y/r.json"), Path("x/y/z/r.json")}  # `x**` is a name
