"""Baselines in an object store: a real S3 server on the loopback interface, and `file://`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, write_rules, write_run

from perfgate.baselines.places import UnsafeName

#: To look for the packages is much quicker than to import them, which each process that collects tests would do.
IS_COMPLETE = find_spec("s3fs") and find_spec("moto")
#: Servers and clients of these libraries leave sockets to the garbage collector.
pytestmark = [
    pytest.mark.skipif(not IS_COMPLETE, reason="needs s3fs and moto"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

Command = Callable[..., Done]


def test_the_gate_works_with_a_bucket(bucket: str, perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    first, second = write_run(folder / "first.json", seed=1), write_run(folder / "second.json", seed=2)
    at = ["--baselines", bucket]
    assert perfgate("check", first, *at).code == 3
    assert perfgate("baseline", "approve", first, "--reason", "first", *at).code == 0
    assert perfgate("baseline", "add", second, *at).code == 0
    report = json.loads(perfgate("check", write_run(folder / "new.json", seed=3), *at, "--json", "-").out)
    assert (report["outcome"], report["verdicts"][0]["base"]["runs"]) == ("pass", 2)
    slow = [write_run(folder / f"slow{seed}.json", 150, seed=seed) for seed in range(4, 7)]
    assert perfgate("check", *slow, *at).code == 1
    assert "2 runs" in perfgate("baseline", "list", *at).out
    assert perfgate("baseline", "verify", *at).code == 0
    assert not (folder / "s3:").exists()


def test_the_history_lives_in_the_bucket_too(bucket: str, perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    at = ["--baselines", bucket]
    for seed in range(3):
        run = write_run(folder / f"run{seed}.json", seed=seed)
        done = perfgate("history", "add", run, "--time", f"2026-01-0{seed + 1}", *at)
        assert done.code == 0, done.said
    before = perfgate("history", "show", "--json", *at)
    assert (before.code, len(json.loads(before.out)["series"][0]["values"])) == (0, 3)
    assert perfgate("history", "compact", "--all", *at).code == 0
    assert perfgate("history", "show", "--json", *at).out == before.out
    assert "3 runs in the history" in perfgate("baseline", "verify", *at).out


def test_a_check_lists_a_folder_once(bucket: str, perfgate: Command, folder: Path, monkeypatch: Any) -> None:
    from perfgate.baselines.bucket import BucketStore

    write_rules(folder, "forward within 5% of baseline")
    at = ["--baselines", bucket]
    first = write_run(folder / "first.json", seed=1)
    assert perfgate("baseline", "approve", first, "--reason", "first", *at).code == 0
    assert perfgate("history", "add", first, "--time", "2026-01-01", *at).code == 0
    listed: list[str] = []
    files = type(BucketStore(bucket)._files)
    find = files.find
    monkeypatch.setattr(files, "find", lambda self, top, **how: listed.append(str(top)) or find(self, top, **how))
    assert perfgate("check", *[write_run(folder / f"new{seed}.json", seed=seed) for seed in (3, 4)], *at).code == 0
    below = [path.partition("/baselines/")[2] for path in listed]
    assert ([path.split("/")[0] for path in below], len({*below})) == (["default", "_history"], 2)


def test_the_printed_command_writes_to_the_bucket(bucket: str, perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    assert perfgate("check", write_run(folder / "run.json"), "--baselines", bucket, "--json", "r.json").code == 3
    command = json.loads((folder / "r.json").read_text())["approve_command"]
    name, *words = shlex.split(command)
    assert (name, words[words.index("--baselines") + 1]) == ("perfgate", bucket)
    assert perfgate(*words).code == 0
    assert "1 run" in perfgate("baseline", "list", "--baselines", bucket).out
    assert not (folder / "s3:").exists()


def test_of_two_writers_of_one_name_the_second_is_told(bucket: str) -> None:
    from perfgate.baselines.bucket import BucketStore

    one, other = BucketStore(bucket), BucketStore(bucket)
    one.write("suite/env/level/run.json", b"one")
    with pytest.raises(FileExistsError):
        other.write("suite/env/level/run.json", b"other")
    assert other.read("suite/env/level/run.json") == b"one"
    with pytest.raises(UnsafeName):
        one.write("../run.json", b"")
    one.paths()  # the sizes are known now
    one.write("suite/env/level/run.json", b"longer", replace=True)
    assert one.read("suite/env/level/run.json") == b"longer"
    one.remove("suite/env/level/run.json")
    assert other.paths() == ([], [])


def test_a_damaged_object_and_a_server_that_is_gone_are_said(
    bucket: str, perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import s3fs

    write_rules(folder, "forward within 5% of baseline")
    run, at = write_run(folder / "run.json"), ["--baselines", bucket]
    assert perfgate("baseline", "approve", run, "--reason", "first", *at).code == 0
    files = s3fs.S3FileSystem()
    (path,) = files.find(bucket.removeprefix("s3://"))
    files.pipe_file(path, b"{}")
    assert perfgate("check", run, *at).code == 3
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3fs.S3FileSystem.clear_instance_cache()
    done = perfgate("check", run, *at, "--missing-baseline", "skip")
    assert done.code == 3
    assert "cannot be read" in " ".join(done.said.split())


def test_a_file_url_is_a_store_too(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    at = ["--baselines", f"file://{folder}/elsewhere"]
    first, second, new = (write_run(folder / f"run{seed}.json", seed=seed) for seed in range(3))
    assert perfgate("baseline", "approve", first, second, "--reason", "first", *at).code == 0
    assert perfgate("check", new, *at).code == 0


def test_an_unknown_kind_of_bucket_is_said(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    done: Any = perfgate("check", write_run(folder / "run.json"), "--baselines", "ftpx://host/x")
    assert (done.code, "ftpx" in done.err) == (2, True)


def test_a_check_lists_once_and_reads_each_run_once(
    bucket: str, perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import s3fs

    write_rules(folder, "forward within 5% of baseline")
    at = ["--baselines", bucket]
    runs = [write_run(folder / f"{seed}.json", seed=seed) for seed in range(4)]
    assert perfgate("baseline", "approve", *runs[:3], "--reason", "first", *at).code == 0
    asked: list[str] = []
    send = s3fs.S3FileSystem._call_s3

    async def noted(self: Any, method: str, *words: Any, **options: Any) -> Any:
        asked.append(method)
        return await send(self, method, *words, **options)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", noted)
    assert perfgate("check", runs[3], *at).code == 0
    assert asked[:4] == ["list_objects_v2", *["get_object"] * 3]
    # Of an empty folder, here the history, s3fs also asks if it is an object.
    assert asked[4:] == ["list_objects_v2", "head_object", "list_objects_v2"]
