"""Run the package of a service in a process of its own: it prints what its server says, and may never end."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from perfgate.workspace.options import Refused
from perfgate.workspace.parallel import allow_read_only_mappings

#: The time for everything that is sent, and the time for the process to end after that, in s.
_LIMIT_S, _GRACE_S = 1800.0, 10.0
#: The end of what the package printed that is looked at, in bytes.
_TAIL = 1 << 16
#: What may be a secret: a server can repeat the key that it got.
_SECRET = re.compile(r"(?i)\b(?:basic|bearer)\s+\S+|(?<=//)[^/@\s]+@|[\w+=-]{30,}")


def without_secrets(text: str) -> str:
    """Return a text of a service without words that may be a key or a password."""
    return _SECRET.sub("…", text)


def sent_apart(
    send: Callable[..., list[str]], given: Sequence[Any], environment: dict[str, str], lost: str | None = None
) -> list[str]:
    """Return what `send` returns, which runs in another process and prints nothing here.

    `environment`: variables for the process that are not set. `lost`: what the package prints if the server did not
    take everything; None if it raises an error. Raises ImportError without its package, and Refused (2) if it fails,
    and (3) if it takes too long, ends without an answer, or prints `lost`.
    """
    allow_read_only_mappings()
    is_forked = sys.platform == "linux" and threading.active_count() == 1
    context = multiprocessing.get_context("fork") if is_forked else multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="perfgate-") as folder:
        printed = Path(folder, "printed")
        answers, give = context.Pipe(duplex=False)
        process = context.Process(target=_send, args=(send, given, environment, str(printed), give))
        process.start()
        give.close()
        try:
            if not answers.poll(_LIMIT_S):
                raise Refused(f"the service did not answer everything within {_LIMIT_S / 60:g} minutes", 3)
            lines, missing, failure = answers.recv()
        except EOFError:
            raise Refused(f"it ended without an answer: {_last_line(printed)}", 3) from None
        else:
            process.join(_GRACE_S)
        finally:
            _end(process.pid)
            process.join()
        if missing:
            raise ImportError(missing)
        if not failure and lost is not None and lost in _tail(printed):
            raise Refused(f"the server did not take everything: {_last_line(printed)}", 3)
        if failure:
            raise Refused(without_secrets(failure))
        return list(lines)


def _send(
    send: Callable[..., list[str]], given: Sequence[Any], environment: dict[str, str], printed: str, give: Connection
) -> None:
    """Run `send` in this process, which is another one; give its lines, a missing package, and a failure."""
    if hasattr(os, "setsid"):
        os.setsid()  # what it starts ends with it
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.update({name: value for name, value in environment.items() if name not in os.environ})
    with open(printed, "wb") as file, open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        give.send((send(*given), "", ""))
    except ImportError as error:
        give.send(([], str(error), ""))
    except Exception as error:  # each service has its own exceptions
        give.send(([], "", str(error) or type(error).__name__))


def _end(process: int | None) -> None:
    """End a process with all that it started, which `setsid` made its group; without groups, only the process."""
    with suppress(OSError):
        if process is not None and hasattr(os, "killpg"):
            os.killpg(process, signal.SIGKILL)
        elif process is not None:
            os.kill(process, signal.SIGTERM)


def _tail(printed: Path) -> str:
    """Return the end of what the package printed."""
    with suppress(OSError), printed.open("rb") as file:
        file.seek(max(file.seek(0, 2) - _TAIL, 0))
        return file.read().decode("utf-8", "replace")
    return ""


def _last_line(printed: Path) -> str:
    lines = [line for line in _tail(printed).splitlines() if line.strip()]
    return without_secrets(lines[-1][:300]) if lines else "it printed nothing"
