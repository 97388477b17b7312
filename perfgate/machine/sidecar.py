"""The file with the metrics of the machine during a run, and the process that writes it.

It lies beside the results, and has their name with `.machine` at the end: `results.json.machine` for `results.json`.
Globs for results do not match it, and perfgate reads it together with the results.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from perfgate.core.runs import MACHINE_FILE

#: How long the sampler may take to start, and to write its file, in s.
_PATIENCE_S = 10.0


def sidecar_of(path: str | os.PathLike[str]) -> str:
    """Return the name of the file beside a file or folder of results."""
    return os.fspath(path).rstrip("/") + MACHINE_FILE


class SamplerProcess:
    """A running sampler. It ends by itself if this process dies."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._told: list[dict[str, str | float]] = []
        command = [sys.executable, "-m", "perfgate.machine.sampler", path]
        # A rank of its own would be put into the name of the file.
        environment = {name: value for name, value in os.environ.items() if name not in _OF_A_RANK}
        # A folder `perfgate` in the working directory must not hide this package; Python 3.10 looks there first.
        package = str(Path(__file__).resolve().parents[2])
        environment |= {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join([package, *_given_path()])}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=environment,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it is ready, or it has ended
        self._process.stdout.close()

    def note(self, metric: str, value: float, unit: str) -> None:
        """Let the sampler write a value of the whole run, too."""
        self._told.append({"metric": metric, "value": value, "unit": unit})

    def end(self) -> None:
        """Let the sampler write its file."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(b"".join(json.dumps(one).encode() + b"\n" for one in self._told))
            self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _given_path() -> list[str]:
    given = os.environ.get("PYTHONPATH")
    return [given] if given else []


_OF_A_RANK = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE"})


@contextmanager
def sampled(path: str | os.PathLike[str]) -> Iterator[Callable[[str, float, str], None]]:
    """Sample the machine while a block runs, into the file beside the results in `path`. Never raises by itself.

    The block gets a function that notes a value of the whole run there: its metric, its value and its unit.
    """
    process = None
    with suppress(OSError):  # no room for a process, or a folder that cannot be written
        process = SamplerProcess(sidecar_of(path))
    try:
        yield process.note if process is not None else lambda metric, value, unit: None
    finally:
        if process is not None:
            process.end()
