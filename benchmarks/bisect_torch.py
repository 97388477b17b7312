"""Bisect a real torch program with 24 commits. One of them makes the work of a layer 20 % larger.

The program trains a small network on the CPU. It takes its steps under a `perfgate.Recorder`, so each commit runs
beside the first one, step by step. It traces the last steps with torch.profiler, so the answer has a cause. perfgate
needs no torch: name a Python that has it.

    python benchmarks/bisect_torch.py --python /path/to/python [--commit 15] [--whole-runs] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: One layer's width before and after the change: the work of a layer is proportional to its width.
WIDTH, WIDER = 1280, 1536
PROGRAM = """
import os
import perfgate
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

WIDTH = {width}
torch.manual_seed(0)
torch.set_num_threads(1)
encode = nn.Linear(512, 768)
mix = nn.Sequential(nn.Linear(768, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 768))
decode = nn.Linear(768, 512)
parts = nn.ModuleList([encode, mix, decode])
optimizer = torch.optim.SGD(parts.parameters(), lr=1e-3)
batch = torch.randn(128, 512)


def step():
    optimizer.zero_grad()
    with record_function("encode"):
        hidden = encode(batch)
    with record_function("mix"):
        hidden = mix(hidden)
    with record_function("decode"):
        loss = decode(hidden).square().mean()
    with record_function("backward"):
        loss.backward()
    with record_function("optimizer"):
        optimizer.step()


folder = os.environ["PERFGATE_RESULTS"]
profiler = profile(activities=[ProfilerActivity.CPU])
with perfgate.Recorder(folder + "/results.json") as recorder:
    for number in range({steps}):
        if number == {first_traced}:
            profiler.start()
        with recorder.step_span(), record_function(f"ProfilerStep#{{number}}"):
            step()
if {first_traced} < {steps}:
    profiler.stop()
    profiler.export_chrome_trace(folder + "/trace.json")
"""


def make_repository(folder: Path, count: int, changed: int, steps: int, traced: int) -> list[str]:
    """Make the repository; return its commits, oldest first."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q", "-b", "main")
    git("config", "user.name", "Ada")
    git("config", "user.email", "ada@example.org")
    commits = []
    for number in range(count):
        text = PROGRAM.format(width=WIDER if number >= changed else WIDTH, steps=steps, first_traced=steps - traced)
        (folder / "train.py").write_text(text + f"# revision {number}\n")
        git("add", "train.py")
        git("commit", "-q", "-m", "Widen the middle layer" if number == changed else f"Change {number}")
        commits.append(git("rev-parse", "HEAD"))
    return commits


def main() -> None:
    """Make the repository, bisect it, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python with torch")
    parser.add_argument("--commits", type=int, default=24, help="the number of commits")
    parser.add_argument("--commit", type=int, help="the commit that changes the program; otherwise a random one")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--metric", default="step.time")
    parser.add_argument("--whole-runs", action="store_true")
    parser.add_argument("--traced", type=int, default=32, help="the last steps are traced")
    parser.add_argument("--keep", help="make the repository in this new folder and keep it")
    asked = parser.parse_args()
    changed = asked.commit or random.SystemRandom().randrange(1, asked.commits)
    folder = Path(asked.keep or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    commits = make_repository(folder, asked.commits, changed, asked.steps, asked.traced)
    root = str(Path(__file__).resolve().parent.parent)
    command = [sys.executable, "-m", "perfgate", "bisect", "--good", commits[0], "--metric", asked.metric]
    command += ["--json", "answer.json", "--markdown", "answer.md", "--html", "answer.html"]
    command += ["--whole-runs"] * asked.whole_runs + ["--", asked.python, "train.py"]
    began = time.monotonic()
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": root}, check=False)
    minutes = (time.monotonic() - began) / 60
    found = json.loads((folder / "answer.json").read_text())
    best = found["commits"][0] if found["commits"] else {"commit": "none", "probability": 0.0}
    is_right = best["commit"] == commits[changed]
    causes = found.get("causes", [])
    named = sum("mix" in cause["where"] or "AddmmBackward0" in cause["where"] for cause in causes)
    print(
        f"exit {done.returncode}, {found['outcome']}, {'right' if is_right else 'WRONG'}: probability "
        f"{best['probability']:.3f}, {found['runs']} {'pairs' if found['paired'] else 'runs'}, {minutes:.1f} minutes, "
        f"change {found['change'] or 0:+.3f}, {len(causes)} causes, {named} of them in the layer"
    )


if __name__ == "__main__":
    main()
