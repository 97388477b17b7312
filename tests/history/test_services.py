"""The package of a service, such as wandb, runs apart: what it prints, repeats or waits for does no harm."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done
from histories import filled, steps

from perfgate.core.run_history import LoadedHistory
from perfgate.history.exports import SERVICES
from perfgate.workspace import services

Command = Callable[..., Done]
KEY = "5ec4e7" * 7
EXPORT = ("history", "export", "--format", "wandb", "--to", "out")
HOSTILE = "\n::error::x\n\x1b[2J##vso[task.complete result=Succeeded]\u202e\n"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a stub needs a fork")


def prints(found: LoadedHistory, target: str) -> list[str]:
    os.write(1, HOSTILE.encode())
    subprocess.run(["sh", "-c", "cat >&2"], input=HOSTILE.encode(), check=True)
    assert input_is_empty()
    return ["written"]


def input_is_empty() -> bool:
    return os.read(0, 1) == b""


def repeats_the_key(found: LoadedHistory, target: str) -> list[str]:
    basic = base64.b64encode(f"api:{KEY}".encode()).decode()
    raise RuntimeError(f"{HOSTILE}Basic {basic} bearer x{KEY} {KEY} https://me:{KEY[:9]}@host/x refused")


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions here exist only in this process; the threads of pytest-xdist do no harm in a fork of it."""
    monkeypatch.setattr(services.threading, "active_count", lambda: 1)


def waits(found: LoadedHistory, target: str) -> list[str]:
    sleeping = subprocess.Popen(["sleep", "99"])
    Path("pid").write_text(str(sleeping.pid))
    time.sleep(99)
    return []


def loses(found: LoadedHistory, target: str) -> list[str]:
    os.write(2, f"{HOSTILE}WARNING Fatal error. Some run data will not be synced {KEY}".encode())
    return ["written"]


def ends(found: LoadedHistory, target: str) -> list[str]:
    os.write(2, HOSTILE.encode())
    os._exit(0)


CASES = [
    # what the package does, the exit code, and what is printed
    (prints, 0, "written\n"),
    (repeats_the_key, 2, "… … … https://…host/x refused"),
    (waits, 3, "wandb: the service did not answer everything within"),
    (loses, 3, "wandb: the server did not take everything: WARNING Fatal error. Some run data will not be synced …"),
    (ends, 3, "wandb: it ended without an answer: \\u001b[2J#\\vso[task.complete result=Succeeded]\\u202e"),
]


@pytest.mark.parametrize(("does", "code", "said"), CASES, ids=lambda one: getattr(one, "__name__", ""))
def test_a_service_prints_no_command_and_no_key_and_ends(
    folder: Path,
    perfgate: Command,
    monkeypatch: pytest.MonkeyPatch,
    does: Callable[[LoadedHistory, str], list[str]],
    code: int,
    said: str,
) -> None:
    filled(folder, steps((3, 0.1)))
    monkeypatch.setitem(SERVICES, "wandb", does)
    monkeypatch.setattr(services, "_LIMIT_S", 5.0 if does is waits else 60.0)
    kept = [os.dup(number) for number in (1, 2)]
    with open("printed", "wb") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    try:
        done = perfgate(*EXPORT)
    finally:
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
            os.close(old)
    everything = done.said + Path("printed").read_text()
    assert (done.code, said in done.said) == (code, True), done.said
    assert not any(bad in everything for bad in ("\n::", "\x1b", "##vso[", "\u202e", KEY[:9], "YXBpO"))
    if does is waits:
        state = Path(f"/proc/{Path('pid').read_text()}/stat")
        assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_only_a_package_that_prints_losses_is_asked_for_them() -> None:
    assert services.sent_apart(loses, (None, ""), {}) == ["written"]


def test_another_process_keeps_what_is_set(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIVEN", "mine")
    names = {"GIVEN": "ours", "NOT_GIVEN": "ours"}
    assert services.sent_apart(lambda *names: [os.environ[one] for one in names], [*names], names) == ["mine", "ours"]
    assert "NOT_GIVEN" not in os.environ


def test_a_failure_without_words_has_a_name() -> None:
    def fails() -> list[str]:
        raise TimeoutError

    with pytest.raises(services.Refused, match="TimeoutError"):
        services.sent_apart(fails, [], {})
