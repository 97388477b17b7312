"""Runs at URLs: a bucket of a real S3 server, a web server, and `file://`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from conftest import Done, steady, write_log, write_rules

from perfgate.core.wording import MACHINE_FILE
from perfgate.workspace import input_files
from perfgate.workspace.options import typed_path

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")
#: Servers and clients of these libraries leave sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

Command = Callable[..., Done]


@pytest.fixture
def runs(folder: Path) -> Path:
    """A rule, a log, and a folder with the logs of two ranks."""
    write_rules(folder, "forward median under 200 ms")
    write_log(folder / "new.log", forward=steady(100))
    for rank in range(2):
        path = write_log(folder / f"run/rank{rank}.log", forward=steady(100 + rank))
        path.write_text(path.read_text().replace("[Rank 0]", f"[Rank {rank}]"))
    (folder / "run/.hidden").write_text("no log")
    return folder


@pytest.fixture
def web(runs: Path) -> Iterator[str]:
    """The address of a web server for the folder."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *words: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(runs)))
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each block that was read from a URL."""
    sizes: list[int] = []
    real = input_files.opened_url

    def opened(url: str) -> tuple[Any, int]:
        file, size = real(url)
        read = file.read
        monkeypatch.setattr(file, "read", lambda count: sizes.append(len(data := read(count))) or data)
        return file, size

    monkeypatch.setattr(input_files, "opened_url", opened)
    return sizes


def series_of(done: Done) -> list[Any]:
    assert done.code == 0, done.said
    return [(one["labels"], one["statistics"]) for one in json.loads(done.out)["runs"][0]["series"]]


def test_a_folder_in_a_bucket_is_a_run(runs: Path, bucket: str, perfgate: Command, in_short: Command) -> None:
    files, top = fsspec.core.url_to_fs(bucket)
    files.put(str(runs / "run"), f"{top}/run", recursive=True)
    expected = perfgate("inspect", "run", "--json")
    for workers in ("1", "2"):
        assert series_of(perfgate("inspect", f"{bucket}/run/", "--json", "--workers", workers)) == series_of(expected)
    done = in_short("check", f"{bucket}/run")
    assert (done.code, f"{bucket}/run" in done.out) == (0, False)
    report = json.loads(perfgate("check", f"{bucket}/run", "--json", "-").out)
    assert [one["path"] for one in report["inputs"]] == [f"{bucket}/run/rank{rank}.log" for rank in range(2)]


def test_a_file_of_a_web_server_is_a_run(runs: Path, web: str, perfgate: Command) -> None:
    assert series_of(perfgate("inspect", f"{web}/new.log", "--json")) == series_of(
        perfgate("inspect", "new.log", "--json")
    )


def test_a_file_url_is_a_run(runs: Path, perfgate: Command) -> None:
    assert series_of(perfgate("inspect", f"file://{runs}/new.log", "--json")) == series_of(
        perfgate("inspect", "new.log", "--json")
    )
    assert "given twice" in perfgate("inspect", f"file://{runs}/new.log", f"file://{runs}/new.log").err


def test_a_folder_at_a_url_has_its_machine_beside_it(runs: Path, perfgate: Command) -> None:
    recording = next((Path(__file__).parent / "machine/fixtures").glob(f"*{MACHINE_FILE}"))
    for name in (f"run/rank0.log{MACHINE_FILE}", f"new.log{MACHINE_FILE}"):
        shutil.copy(recording, runs / name)
    for name in ("run", "new.log"):
        here, there = perfgate("inspect", name, "--json"), perfgate("inspect", f"file://{runs}/{name}", "--json")
        assert series_of(there) == series_of(here)
        assert "machine." in there.out


@pytest.mark.parametrize(
    ("path", "says"),
    [("/absent.log", "cannot be read: file not found"), ("/absent/", "cannot be read: file not found")],
)
def test_a_url_without_a_file_is_an_error(web: str, perfgate: Command, path: str, says: str) -> None:
    done = perfgate("inspect", f"{web}{path}")
    assert (done.code, f"{web}{path}".rstrip("/") in done.out, says in done.out) == (3, True, True), done.said


def test_an_empty_place_in_a_bucket_is_an_error(bucket: str, perfgate: Command) -> None:
    done = perfgate("inspect", f"{bucket}/absent")
    assert (done.code, "file or folder not found" in done.out) == (3, True), done.said


def test_a_file_url_that_leads_nowhere_is_an_error(runs: Path, perfgate: Command) -> None:
    (runs / "empty").mkdir()
    for name, says in (("absent", "cannot be read: file or folder not found"), ("empty", "without files")):
        done = perfgate("inspect", f"file://{runs}/{name}")
        assert (done.code, says in done.out) == (3, True), done.said


def test_the_files_of_a_folder_at_a_url_have_one_slash(runs: Path, perfgate: Command) -> None:
    (runs / "run/rank0.log").write_text("no log")
    (runs / "run/rank1.log").unlink()
    assert "/run/rank0.log: error" in perfgate("inspect", f"file://{runs}/run/").out


def test_a_server_that_does_not_answer_is_an_error(perfgate: Command, folder: Path) -> None:
    done = perfgate("inspect", "http://127.0.0.1:9/new.log")
    assert (done.code, "cannot be read: the server does not answer" in done.out) == (3, True), done.said


def test_an_unknown_kind_of_url_is_an_error(perfgate: Command, folder: Path) -> None:
    done = perfgate("inspect", "nonsense://bucket/new.log")
    assert (done.code, "nonsense:// is not a kind of URL that fsspec knows: write s3://" in done.out) == (3, True)


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("http://host/baselines", "http://host/baselines cannot be used for baselines: a web server does not list its"),
        ("htp://host/baselines", "htp://host/baselines cannot be used: htp:// is not a kind of URL that fsspec knows"),
    ],
)
def test_baselines_need_a_place_that_can_be_listed(runs: Path, perfgate: Command, place: str, says: str) -> None:
    done = perfgate("check", "new.log", "--baselines", place)
    assert (done.code, done.err.startswith(f"error: {says}")) == (2, True), done.said


def test_only_the_head_of_an_unknown_remote_file_is_fetched(runs: Path, perfgate: Command, fetched: list[int]) -> None:
    (runs / "notes.bin").write_bytes(bytes(range(256)) * (150 << 10))
    done = perfgate("inspect", f"file://{runs}/notes.bin")
    assert (done.code, "binary file of an unknown kind" in done.out) == (3, True), done.said
    assert 0 < sum(fetched) <= 17 << 20


def test_what_may_be_secret_is_never_shown(runs: Path, web: str, perfgate: Command) -> None:
    secret = web.replace("http://", "http://ada:hunter2@") + "/new.log?X-Amz-Signature=hunter2"
    for words in (["check", secret, "--json", "-"], ["inspect", secret], ["check", secret, "-v"]):
        assert "hunter2" not in perfgate(*words).said
    assert typed_path(secret) == f"{web}/new.log"
