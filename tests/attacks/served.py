"""Attacks by a server: `PYTHONPATH=tests python tests/attacks/served.py`; `--write` writes the table.

`perfgate history watch` has one ticket to open and one to close. GitHub or the webhook gives a hostile answer to one of
its requests, or somebody edited a ticket. An attack works if the command ends with 0 without the ticket, takes longer
than `MOST_S`, has an internal error, prints a secret or a command of CI, or if another host is asked.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from conftest import steady
from many import write_table

sys.path.append(str(Path(__file__).resolve().parents[1] / "history"))
from github_server import BOT, GitHub, _Handler
from server_answers import ANSWERS, FIELDS, KINDS, PLACES, SCRIPTS, SECRET, changed, edits, parts

from perfgate.cli.entry import run
from perfgate.commands import history_watch
from perfgate.workspace import github

BEGIN, END = "<!-- generated: tests/attacks/served.py -->\n", "<!-- end of served.py -->\n"
MOST_S = 30


class Hostile(_Handler):
    """Answers one kind of request with what is attacked with."""

    place, answer = ("", ""), None

    def do(self) -> None:
        if self.command != self.place[0] or not self.path.partition("?")[0].endswith(self.place[1]):
            return super().do()
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.attack(type(self).answer)

    do_GET = do_POST = do_PATCH = do_DELETE = do

    def attack(self, answer: Any) -> None:
        if answer == "limited pages":
            self.github.asked.append("")
            link = {"Link": '<SELF>; rel="next"'}
            answer = (200, link, b"[]") if len(self.github.asked) % 2 else (429, {"Retry-After": "299"}, b"")
        if isinstance(answer, str):
            for data, pause in parts(answer):
                self.wfile.write(data)
                time.sleep(pause)
            return
        if not isinstance(answer, bytes):
            status, headers, body = answer
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            answer = f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode("latin-1", "replace") + body
        known = {"EVIL": EVIL.url, "TOKEN": self.headers["Authorization"] or self.path}
        known["SELF"] = f"{self.github.url}{self.path}"
        for name, value in known.items():
            answer = answer.replace(name.encode(), value.encode())
        self.wfile.write(answer)


EVIL = GitHub()


def history() -> None:
    """Make a repository whose main became 8 % slower."""
    Path("rules").mkdir()
    Path("rules/rules.yaml").write_text("version: 1\nrules:\n  - forward within 5% of baseline\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    for number in range(24):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", f"c{number}"], check=True)
        values = steady(0.1 if number < 14 else 0.108, seed=number, spread=0.002)
        series = [{"metric": "forward", "unit": "s", "values": values}]
        Path("run.json").write_text(json.dumps({"schema": "perfgate.results/1", "series": series}))
        assert run(["history", "add", "run.json", "--time", f"2026-01-01T{number:02}:00:00Z", "--ref", "main"]) == 0


def late(*_: object) -> None:
    raise TimeoutError("it hangs")


def watched(github: GitHub, *words: str) -> int:
    """The exit code of the command; 4 if it hangs, prints what it must not, or if another host was asked."""
    said = io.StringIO()
    names = {"API_URL": github.url, "REPOSITORY": "o/r", "TOKEN": SECRET, "SERVER_URL": "https://github.example"}
    os.environ.update({f"GITHUB_{name}": value for name, value in names.items()}, CI="true")
    signal.alarm(MOST_S)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = run(["history", "watch", "--webhook", f"{github.url}/hook/{SECRET}", *words])
    except TimeoutError:
        code = 4
    signal.alarm(0)
    if waited[0] > 7200 or SECRET in said.getvalue() or EVIL.asked or re.search(r"(?m)^::|\x1b", said.getvalue()):
        code = 4
    waited[0] = 0
    return code


#: The pauses of the command, in s: nobody waits for them.
waited = [0.0]


def slept(seconds: float) -> None:
    waited[0] += seconds


def is_told(github: GitHub, event: str) -> bool:
    """Whether there is an open ticket about the event."""
    own = [one for one in github.issues if one["user"] == BOT and one["state"] == "open"]
    return any(one["body"].startswith(f"<!-- perfgate event: {event} open ") for one in own)


def outcome(github: GitHub, event: str, *words: str) -> int:
    """The exit code of the command; 3 instead of 0 if the ticket is there: then the attack failed."""
    code = watched(github, *words)
    code = 3 if code == 0 and is_told(github, event) else code
    github.close()
    return code


def tried() -> dict[str, list[tuple[str, int]]]:
    """Try every attack; return what was attacked, how, and the exit code of each."""
    history_watch.sleep = github.sleep = slept  # type: ignore[attr-defined]
    github._TIMEOUT, github._DEADLINE = 1, 3
    github.monotonic = lambda: time.monotonic() + waited[0]
    signal.signal(signal.SIGALRM, late)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, -1))  # a file without end is no harm to this machine
    history()
    first = server()
    assert watched(first) == 0
    body = first.issues[0]["body"]
    event = body.split()[3]
    found: dict[str, list[tuple[str, int]]] = {kind: [] for kind in KINDS}
    for place in PLACES:
        for answer in ANSWERS:
            hostile = server(place, answer, gone=body)
            found[KINDS[0]].append((f"{place} {str(answer)[:70]}", outcome(hostile, event)))
        for field in FIELDS if place[1] not in ("graphql", "labels", f"hook/{SECRET}") else ():
            hostile = server(place, field, gone=body)
            found[KINDS[1]].append((f"{place} {str(field)[:70]}", outcome(hostile, event)))
    for edited in edits(body):
        hostile = server()
        hostile.open(edited)
        found[KINDS[2]].append((edited[:90], outcome(hostile, event)))
    for script in SCRIPTS:
        subprocess.run(f"rm -rf a; mkdir a; F=a/{event}.json; {script}", shell=True, check=True)
        hostile = server()
        hostile.open(body)
        found[KINDS[3]].append((script, outcome(hostile, event, "--answers", "a")))
    return found


def server(place: tuple[str, str] = ("", ""), answer: Any = None, *, gone: str = "") -> GitHub:
    """Return a GitHub that is hostile at one request; it has a ticket about an event that is over."""
    github = GitHub()
    handler = type("H", (Hostile,), {"github": github, "place": place, "answer": answer})
    if isinstance(answer, tuple) and len(answer) == 2:
        handler = type("F", (Field,), {"github": github, "place": place, "answer": answer})
    github.server.RequestHandlerClass = handler
    github.server.daemon_threads, github.server.block_on_close = True, False
    github.labels.add("perfgate")
    if gone:
        github.open(re.sub(r"event: \w+", "event: 0123abcd", gone))
    return github


class Field(_Handler):
    """Does what is asked, and answers with another value of one field."""

    place, answer = ("", ""), None

    def done(self, path: str, document: Any) -> tuple[int, Any, dict[str, str]]:
        status, found, headers = super().done(path, document)
        name, value = type(self).answer  # type: ignore[misc]
        if isinstance(value, str):
            value = value.replace("EVIL", EVIL.url).replace("TOKEN", SECRET)
        if self.command == self.place[0] and path.endswith(self.place[1]):
            found = changed(found, name, value)
        return status, found, headers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        results = tried()
        os.chdir("/")
    sys.exit(write_table(results, "attacked", BEGIN, END))
