"""Attacks on the place of the history: without what it knows of the hosts, a slower change on a faster host passes."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, Repository, write_rules
from test_hosts import remember, results, slower_on_7

from perfgate.baselines.stores import DirectoryStore, open_store
from perfgate.history.writing import compact

Command = Callable[..., Done]
Check = Callable[..., tuple[int, list[tuple[str, str]]]]
Way = Callable[[Path, pytest.MonkeyPatch], None]
#: A user who may read nothing that is not for everybody.
NOBODY = 65534


def prepared(perfgate: Command, folder: Path, *words: str, rule: str = "forward within 2% of baseline") -> Check:
    """A check of code that is 17 % slower, on a faster host; it returns its exit code and the history's problems."""
    write_rules(folder, rule)
    base = [results(folder, f"base{i}.json", 0.1, "gpu-03", i) for i in range(5)]
    assert perfgate("baseline", "approve", *base, "--reason", "first", *words).code == 0
    new = [results(folder, f"new{i}.json", 0.1, "gpu-07", 20 + i) for i in range(3)]

    def check(*more: str) -> tuple[int, list[tuple[str, str]]]:
        report = json.loads(perfgate("check", *new, *words, *more, "--json", "-").out)
        problems = [(one["severity"], f"{one['file']}: {one['message']}") for one in report["problems"]]
        return report["exit_code"], [one for one in problems if "_history" in one[1]]

    return check


@pytest.fixture
def check(perfgate: Command, folder: Path) -> Check:
    found = prepared(perfgate, folder)
    assert found() == (0, [])  # only the history makes it red
    remember(folder, slower_on_7(1 / 1.17))
    assert found() == (3, [])
    return found


def environment(folder: Path) -> Path:
    (found,) = folder.glob("baselines/_history/default/*")
    return found


def replaced(place: Path, put: Callable[[Path, Path], object]) -> None:
    """Move a folder out of the repository, and put something in its place."""
    outside = place.rename(next(one for one in place.parents if one.name == "baselines").parent.with_suffix(".outside"))
    put(place, outside)


def touched(place: Path, _: Path) -> None:
    place.write_text("")


def fails(monkeypatch: pytest.MonkeyPatch, function: str, error: int) -> None:
    """Let a function of a folder's store fail below the history."""
    original: Callable[..., Any] = getattr(os if function == "scandir" else DirectoryStore, function)

    def failing(*words: Any) -> Any:
        if "_history" in str(words[-1]):
            raise OSError(error, os.strerror(error), str(words[-1]))
        return original(*words)

    monkeypatch.setattr(os if function == "scandir" else DirectoryStore, function, failing)


def damaged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compact(open_store(str(folder / "baselines")))
    (month,) = environment(folder).iterdir()
    month.write_bytes(month.read_bytes()[:-30])


def another_month(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the sound file of another month, with other runs, in the place of this one."""
    store = open_store(str(folder / "baselines"))
    runs = sorted(environment(folder).glob("*/*.json"))
    kept = {run: run.read_bytes() for run in runs[2:]}
    for run in kept:
        run.unlink()
    compact(store)
    (short,) = environment(folder).iterdir()
    (month := runs[0].parent).mkdir()
    for run, data in kept.items():
        run.write_bytes(data)
    content = short.read_bytes()
    compact(store)
    (whole,) = environment(folder).iterdir()
    assert not month.exists()
    whole.write_bytes(content)


WAYS: dict[str, Way] = {
    "a link": lambda folder, _: replaced(folder / "baselines/_history", Path.symlink_to),
    "a link in the place of an environment": lambda folder, _: replaced(environment(folder), Path.symlink_to),
    "a file": lambda folder, _: replaced(folder / "baselines/_history", touched),
    "a file in the place of an environment": lambda folder, _: replaced(environment(folder), touched),
    "a list that is refused": lambda _, monkeypatch: fails(monkeypatch, "scandir", errno.EACCES),
    "a list that fails": lambda _, monkeypatch: fails(monkeypatch, "scandir", errno.EIO),
    "files that are refused": lambda _, monkeypatch: fails(monkeypatch, "read", errno.EACCES),
    "files that fail": lambda _, monkeypatch: fails(monkeypatch, "read", errno.EIO),
    "files that are listed, but not there": lambda _, monkeypatch: fails(monkeypatch, "read", errno.ENOENT),
    "a damaged month": damaged,
    "a month with fewer runs": another_month,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_history_that_cannot_be_read_is_no_pass(
    check: Check, perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    WAYS[way](folder, monkeypatch)
    code, problems = check()
    assert code == 3
    assert {severity for severity, _ in problems} == {"error"}
    assert all("the verdicts depend on the history" in message for _, message in problems)
    done = perfgate("baseline", "verify")
    assert (done.code, "_history" in done.err) == (3, True), done.said
    assert len(done.err.splitlines()) == len(set(done.err.splitlines()))
    assert perfgate("history", "show").code == 3


@pytest.mark.parametrize("way", WAYS)
def test_a_run_is_no_pass_although_its_program_removes_what_cannot_be_read(
    check: Check, perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The history is read before the program starts, and its errors stay although the program removes it."""
    WAYS[way](folder, monkeypatch)
    program = "cp new$((PERFGATE_RUN - 1)).json $PERFGATE_RESULTS; rm -r baselines"
    done = perfgate("run", "--runs", "3", "--every", "--json", "report.json", "--", "sh", "-c", program)
    problems = [one for one in json.loads(Path("report.json").read_text())["problems"] if "_history" in one["file"]]
    assert done.code == 3, done.said
    assert {one["severity"] for one in problems} == {"error"}
    assert all("the verdicts depend on the history" in one["message"] for one in problems)


def test_a_run_says_that_no_baseline_can_be_listed(
    check: Check, perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = os.scandir

    def failing(path: Path) -> Any:
        if Path(path).parts[:1] == ("baselines",):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return original(path)

    monkeypatch.setattr(os, "scandir", failing)
    done = perfgate("run", "--runs", "1", "--", "sh", "-c", "cp new0.json $PERFGATE_RESULTS")
    assert (done.code, "baselines: error: cannot be read: Permission denied" in done.said) == (3, True), done.said
    assert "--reason" not in done.said


def test_a_folder_that_this_user_may_not_list_is_no_pass(check: Check, folder: Path) -> None:
    place, is_root = folder / "baselines/_history", os.geteuid() == 0
    place.chmod(0)
    folder.chmod(0o755)  # the folders above it are for their owner alone, but this one is the working directory
    try:
        os.seteuid(NOBODY if is_root else os.geteuid())
        code, problems = check()
    finally:
        os.seteuid(0 if is_root else os.geteuid())
        place.chmod(0o755)
    assert code == 3
    ((severity, message),) = problems
    assert (severity, "cannot be read: Permission denied" in message) == ("error", True)


@pytest.mark.parametrize("way", ["a link", "a file", "a list that is refused"])
def test_a_rule_that_needs_no_history_is_judged_without_it(
    perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    check = prepared(perfgate, folder, rule="forward under 1 s")
    remember(folder, slower_on_7(1 / 1.17))
    WAYS[way](folder, monkeypatch)
    code, ((severity, message),) = check()
    assert (code, severity, "no rule here needs the history" in message) == (0, "warning", True)


@pytest.mark.parametrize("way", ["a link", "a link in the place of an environment", "a file"])
def test_a_commit_whose_history_cannot_be_read_is_no_pass(
    check: Check, repository_here: Repository, folder: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    assert check("--policy-ref", "main") == (3, [])
    WAYS[way](folder, monkeypatch)
    repository_here.commit("another place")
    code, ((severity, message),) = check("--policy-ref", "main")
    assert (code, severity) == (3, "error")
    assert "is a link, and links are not followed" in message or "is not a folder" in message


@pytest.fixture
def repository_here(check: Check, folder: Path) -> Repository:
    found = Repository(folder)
    found.commit("a history")
    return found


def test_a_bucket_that_does_not_list_the_history_is_no_pass(
    bucket: str, perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import s3fs

    check = prepared(perfgate, folder, "--baselines", bucket)
    assert check() == (0, [])
    send = s3fs.S3FileSystem._call_s3

    async def refusing(self: Any, method: str, *words: Any, **options: Any) -> Any:
        if "_history" in str((words, options)):
            raise PermissionError(errno.EACCES, "Access Denied")
        return await send(self, method, *words, **options)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", refusing)
    code, ((severity, message),) = check()
    assert (code, severity, "cannot be read" in message) == (3, "error", True)


@pytest.mark.parametrize("way", ["a link", "a list that is refused"])
def test_a_file_url_that_cannot_be_listed_is_no_pass(
    perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    pytest.importorskip("fsspec")
    check = prepared(perfgate, folder, "--baselines", f"file://{folder}/baselines")
    remember(folder, slower_on_7(1 / 1.17))
    assert check() == (3, [])
    WAYS[way](folder, monkeypatch)
    code, ((severity, message),) = check()
    assert (code, severity, "_history" in message) == (3, "error", True)
