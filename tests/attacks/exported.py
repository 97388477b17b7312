"""Attacks by a server of wandb: `PYTHONPATH=tests python tests/attacks/exported.py`; `--write` writes the table.

It needs wandb. `perfgate history export --format wandb --to online` gets a hostile answer, to its first request or to
all later ones. An attack works if the command has an internal error or a traceback, takes longer than `MOST_S`, prints
the key, a command of CI or an escape, leaves a process for more than 10 s, or if another host gets the key.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from conftest import steady
from many import write_table

sys.path.append(str(Path(__file__).resolve().parents[1] / "history"))
from server_answers import ANSWERS, parts

from perfgate.cli.entry import run

BEGIN, END = "<!-- generated: tests/attacks/exported.py -->\n", "<!-- end of exported.py -->\n"
MOST_S = 60
KEY = "5ec4e7" * 6 + "5ec4"
SECRETS = (KEY, base64.b64encode(f"api:{KEY}".encode()).decode().rstrip("="))
TEXT = "\x1b[2J##vso[task.complete result=Succeeded]"
#: The answer to a run that begins, as wandb expects it.
BUCKET = {"id": "x", "name": "n", "displayName": "d", "project": {"name": "p", "entity": {"name": "e"}}}
BEGUN = (200, {}, json.dumps({"data": {"upsertBucket": {"bucket": BUCKET, "inserted": True}}}).encode())
#: Answers of such a server alone.
OWN: tuple[Any, ...] = (
    *((200, {}, json.dumps({"errors": [{"message": text}]}).encode()) for text in ("TOKEN", f"\n::error::x\n{TEXT}")),
    *((401, {}, body) for body in (b"TOKEN", TEXT.encode(), b"\n::error::x")),
    *(f"HTTP/1.1 {status} {TEXT} ::error::x\r\nContent-Length: 0\r\n\r\n".encode() for status in (400, 401, 403, 500)),
    (200, {}, json.dumps({"data": {"upsertBucket": {"bucket": {**BUCKET, "name": f"../../{TEXT}"}}}}).encode()),
    (200, {}, json.dumps({"data": {"upsertBucket": {"bucket": {**BUCKET, "displayName": TEXT}}}}).encode()),
)


class Server(BaseHTTPRequestHandler):
    """Answers the first requests of a run, or the later ones, with what is attacked with; `asked` has the keys."""

    answer: Any = None
    is_late = False
    asked: ClassVar[list[str]] = []

    def do(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.asked.append(self.headers["Authorization"] or "")
        self.close_connection = True
        answer = BEGUN if self.is_late and b"UpsertBucket" in body else self.answer
        try:
            if isinstance(answer, str):
                for data, pause in parts(answer):
                    self.wfile.write(data)
                    time.sleep(pause)
                return
            if not isinstance(answer, bytes):
                status, headers, text = answer
                lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
                answer = f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode("latin-1", "replace") + text
            for name, value in {"EVIL": EVIL, "TOKEN": self.headers["Authorization"] or "", "SELF": self.path}.items():
                answer = answer.replace(name.encode(), value.encode())
            self.wfile.write(answer)
        except OSError:
            return

    do_GET = do_POST = do_PUT = do

    def log_message(self, *words: object) -> None:
        pass


class Elsewhere(Server):
    """Another host, which wants the key."""

    answer, asked = (200, {}, b"{}"), []


def served(handler: type[Server], host: str) -> str:
    server = ThreadingHTTPServer((host, 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://{host}:{server.server_port}"


EVIL = served(Elsewhere, "127.0.0.2")


def exported(answer: Any, is_late: bool, target: str = "online") -> int:
    """The exit code of an export; 4 if the attack works, 3 instead of 0."""
    url = served(type("S", (Server,), {"answer": answer, "is_late": is_late, "asked": []}), "127.0.0.1")
    Elsewhere.asked.clear()
    limit = "import perfgate.workspace.services as one; one._LIMIT_S = 8; from perfgate.__main__ import main; main()"
    words = ["history", "export", "--format", "wandb", "--to", target]
    one = subprocess.Popen(
        [sys.executable, "-c", limit, *words], start_new_session=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "WANDB_BASE_URL": url, "WANDB_API_KEY": KEY, "HOME": os.getcwd()},
    )  # fmt: skip
    try:
        said = one.communicate(timeout=MOST_S)[0].decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(one.pid, signal.SIGKILL)
        return 4
    told = any(secret in key for key in Elsewhere.asked for secret in SECRETS)
    is_bad = told or any(secret in said for secret in SECRETS) or "Traceback" in said
    is_bad = is_bad or re.search(r"(?m)^::|\x1b|##vso\[", said) is not None or one.returncode not in (0, 2, 3)
    is_bad = is_bad or not has_ended()
    if is_bad and "SHOW" in os.environ:
        print(str(answer)[:90], is_late, one.returncode, said[-700:], file=sys.stderr, flush=True)
    return 4 if is_bad else 3


def has_ended() -> bool:
    """Whether the process that wandb starts ends soon after its parent."""
    for _ in range(20):
        if b"wandb-core" not in subprocess.run(["ps", "-eo", "args"], capture_output=True, check=True).stdout:
            return True
        time.sleep(0.5)
    return False


def tried() -> dict[str, list[tuple[str, int]]]:
    """Try every attack; return the answer and the exit code of each."""
    subprocess.run(["git", "init", "-q"], check=True)
    for number in range(3):
        series = [{"metric": "forward", "unit": "s", "values": steady(0.1, seed=number)}]
        Path("run.json").write_text(json.dumps({"schema": "perfgate.results/1", "series": series}))
        assert run(["history", "add", "run.json", "--time", f"2026-01-01T{number:02}:00:00Z", "--ref", "main"]) == 0
    answers, folders = (*OWN, *ANSWERS[::4]), ("/dev/null", "no\nwhere", "/proc/x", "..")
    return {
        "the first answer": [(str(one)[:70], exported(one, False)) for one in answers],
        "later answers": [(str(one)[:70], exported(one, True)) for one in answers],
        "a folder that is odd": [(one, exported(None, False, one)) for one in folders],
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        results = tried()
        os.chdir("/")
    sys.exit(write_table(results, "attacked", BEGIN, END))
