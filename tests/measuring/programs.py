"""Programs for the tests of pairs, written to a folder: each takes steps of about a millisecond."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

#: A recorded loop. `{trouble}` happens in step 10, on the side that has TROUBLE in its environment or arguments.
HOOKED = """
import os, signal, subprocess, sys, time
from perfgate import Recorder
steps = int(os.environ.get("STEPS", 30))
with Recorder(os.path.join(os.environ["PERFGATE_RESULTS"], "results.json")) as rec:
    for i in range(steps):
        if i == 10 and "trouble" in sys.argv:
            {trouble}
        with rec.step_span():
            begin = time.perf_counter()
            while time.perf_counter() - begin < 0.001 * float({factor}):
                pass
        with open({turns!r}, "a") as file:
            file.write(os.environ.get("PERFGATE_SIDE", "?")[0] + str(i) + " ")
"""

#: A program that knows nothing of perfgate: it prints its times as DeepSpeed does.
PLAIN = """
import os, sys, numpy as np
centre = float(sys.argv[1]) * (1 + 0.001 * int(os.environ["PERFGATE_RUN"]))
rng = np.random.default_rng([int(os.environ["PERFGATE_RUN"]), int(10 * centre)])
for i, x in enumerate(rng.normal(centre, centre / 200, 60)):
    print(f"[2026-01-01 00:00:00,000] [INFO] [logging.py:77:log_dist] [Rank 0] time (ms) | forward: {x:.4f}")
"""


def hooked(folder: Path, trouble: str = "pass", factor: str = "1", name: str = "train.py") -> list[str]:
    """The words that run a recorded loop."""
    path = folder / name
    path.write_text(HOOKED.format(trouble=trouble, factor=factor, turns=str(folder / "turns.txt")))
    return [sys.executable, str(path)]


def plain(folder: Path, centre: float = 100.0, name: str = "plain.py") -> list[str]:
    """The words that run a program which takes no turns."""
    path = folder / name
    path.write_text(PLAIN)
    return [sys.executable, str(path), str(centre)]


def processes_that_stay(text: str) -> list[str]:
    """The command lines that hold a text, of processes that run on; a killed one has a moment to end."""
    until = time.monotonic() + 5
    while (found := _processes_that_mention(text)) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def _processes_that_mention(text: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        if int(entry.name) == os.getpid():
            continue
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line:
            found.append(line)
    return found


def noisy_pair(
    change: float, seed: int, *, shared: float = 0.05, own: float = 0.003, inside: float = 0.01, n: int = 100
) -> tuple[list[float], list[float]]:
    """Step times of a pair: noise that both sides share, what each drew at its start, and noise of each step."""
    rng = np.random.default_rng(seed)
    common = rng.normal(0, shared) + np.cumsum(rng.normal(0, shared / 20, n))
    base, new = (
        np.exp(common + rng.normal(0, own) + rng.normal(0, inside, n) + extra) for extra in (0.0, np.log1p(change))
    )
    return base.tolist(), new.tolist()
