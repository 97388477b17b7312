"""Attacks by a cluster: `PYTHONPATH=tests python tests/attacks/clustered.py`; `--write` writes the table.

It needs Dask (`pip install distributed`). The workers of a real cluster give wrong answers to a check of a slow run of
three ranks, or another server is where the scheduler should be. An attack works if the check is green, has an internal
error, or does not end. Answers with invented numbers are no attack: who may add a worker is trusted.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from many import exit_code, write_table

from perfgate.workspace import cluster

BEGIN, END = "<!-- generated: tests/attacks/clustered.py -->\n", "<!-- end of clustered.py -->\n"
MOST_S = 40
RULES = "version: 1\nrules:\n  - step median under 150 ms\n  - step p90 under 150 ms\n"
#: What a worker sends instead of its packed answer `found`.
ANSWERS = (
    *("b''", "b'x'", "None", "'x'", "1", "[]", "zlib.compress(b'')", "zlib.compress(b'x')", "real(found)[:-3]"),
    *("real(found) + b'x'", "b'x' + real(found)", "zlib.compress(real(found))", "real(None)", "real([])", "real({})"),
    *("real(1)", "real('x')", "real([None])", "real([()])", "real([[]])", "real([1, 2, 3])", "real(['x'] * 3)"),
    *("real(list(found)[1:])", "real(list(found)[:1])", "real(list(found) * 2)", "real(iter(()))", "real(b'x')"),
    *("real(object())", "real([object()] * 3)", "real([(object(),)] * 3)", "real([None] * 3)", "real([()] * 3)"),
    *("real([found] * 3)", "real((found,))", "real(type)", "real([[]] * 3)", "real([((),)] * 3)", "fail(MemoryError)"),
    *(f"fail({name})" for name in ("RuntimeError", "ValueError", "KeyError", "ImportError", "OSError", "EOFError")),
    *("fail(RecursionError)", "fail(TimeoutError)", "fail(AssertionError)", "fail(StopIteration)", "1 / 0"),
    *(
        "fail(UnicodeError)",
        "fail(PermissionError)",
        "fail(Evil)",
        "fail(Refused)",
        "os._exit(0)",
        "os.kill(os.getpid(), 9)",
    ),
)
PATCH = """
def change(way):
    import os, pickle, zlib
    from perfgate.workspace import cluster, joined_ranks
    from perfgate.workspace.options import Refused
    class Evil(Exception):
        def __reduce__(self): return (int, ("x",))
    def fail(kind): raise kind("x")
    def real(found): return zlib.compress(pickle.dumps(found), 1)
    def packed(found): return eval(way, {**globals(), **locals(), "found": found})
    packed.__module__, packed.__qualname__ = "perfgate.workspace.cluster", "packed"
    cluster.packed = joined_ranks.packed = packed
"""


def servers() -> Iterator[tuple[str, bytes, float]]:
    """Yield a server where the scheduler should be: its name, what it sends, again and again, and its pauses."""
    yield from (("closes", b"", -1), ("silent", b"", 0.2), ("HTTP", b"HTTP/1.1 200 OK\r\n\r\nhello", 0.2))
    yield from (
        ("zeros", bytes(9999), 0),
        ("0xff", b"\xff" * 9999, 0),
        ("slow", b"\0", 0.2),
        ("random", os.urandom(99), 0),
    )
    yield from ((f"{size} frames", size.to_bytes(8, "little") * 3, 0.1) for size in (0, 1, 2**20, 2**31, 2**40, 2**63))
    yield from (
        ("TLS", bytes.fromhex("16030100020100"), 0.1),
        ("msgpack", b"\x01" + bytes(7) + b"\xdd\xff\xff\xff\xff", 0),
    )


def asked_at(kind: tuple[str, bytes, float]) -> int:
    """The exit code of a check that takes another server for a scheduler."""
    _, data, pause = kind
    with socket.create_server(("127.0.0.1", 0)) as server:
        until = time.monotonic() + MOST_S

        def serve() -> None:
            with suppress(OSError):
                while time.monotonic() < until:
                    threading.Thread(target=send, args=(server.accept()[0],), daemon=True).start()

        def send(one: socket.socket) -> None:
            with suppress(OSError), one:
                while pause >= 0 and time.monotonic() < until:
                    one.sendall(data)
                    time.sleep(pause)

        threading.Thread(target=serve, daemon=True).start()
        return checked(f"dask://127.0.0.1:{server.getsockname()[1]}")


def checked(address: str) -> int:
    """The exit code of a check; 4 if it does not end."""

    def late(*_: object) -> None:
        raise SystemError("it hangs")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(MOST_S)
    code = exit_code("check", "run", "--executor", address)
    signal.alarm(0)
    return code


def on_a_cluster() -> list[tuple[str, int]]:
    """Give each answer on a new worker process of one scheduler, which has perfgate from this checkout."""
    from distributed import LocalCluster

    found = []
    local = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, host="127.0.0.1")
    with local, local.get_client() as client:
        address = local.scheduler_address.replace("tcp", "dask")
        assert checked(address) == 1
        for way in ANSWERS:
            names: dict[str, Any] = {}
            exec(PATCH, names)
            client.wait_for_workers(1, timeout=90)
            while not client.run(names["change"], way):  # a worker that died may still be listed
                time.sleep(0.2)
            found.append((way, checked(address)))
    return found


def tried() -> dict[str, list[tuple[str, int]]]:
    """Try every attack; return the answer and the exit code of each."""
    cluster._PATIENCE_S, cluster.WITHOUT_WORKERS_S, cluster._LOOK_S = 3, 3.0, 0.5
    Path("rules").mkdir()
    Path("run").mkdir()
    Path("rules/rules.yaml").write_text(RULES)
    for rank in range(3):
        values = [0.3 if rank == 1 else 0.1] * 60
        series = [{"metric": "step", "unit": "s", "labels": {"rank": str(rank)}, "values": values}]
        Path(f"run/{rank}.json").write_text(json.dumps({"schema": "perfgate.results/1", "series": series}))
    assert exit_code("check", "run") == 1
    addresses = ("dask://127.0.0.1:1", "dask://127.0.0.1:99999", "dask://127.0.0.1:²", "tls://127.0.0.1:1")
    addresses += ("dask://[::1]:1", "dask://%00:1", "dask://127.0.0.1:0", "dask://-:1", "dask://a b:1", "tcp://\x00:1")
    found = {"the address of the scheduler": [(one, checked(one)) for one in addresses]}
    found["another server in its place"] = [(kind[0], asked_at(kind)) for kind in servers()]
    found["the answer of a worker"] = on_a_cluster()
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        results = tried()
        os.chdir("/")
    sys.exit(write_table(results, "attacked", BEGIN, END))
