"""CPU seconds and peak memory of large work, beside the floor of each: `python benchmarks/scale.py [--json FILE]`.

The floor is the least that any program would need for the same bytes: to inflate, to read, to parse or to import them.
Both are measured in the same minute, in fresh processes that take turns. `--json` writes `perfgate.results/1`: the
ratios of the rows.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import planned_scale
import speed
import traces

MANY_VALUES = 10_000_000
ROOT = Path(__file__).resolve().parent.parent
PERFGATE = [sys.executable, "-m", "perfgate"]
_IMPORT = "from perfgate.workspace.inputs import read_runs; read_runs([{!r}])"
#: Runs a command, and prints the CPU seconds and the peak memory in MiB of it and its processes.
CPU = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)" + (
    "; used = resource.getrusage(resource.RUSAGE_CHILDREN)"
    "; print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, file=sys.stderr)"
)


@dataclass(frozen=True, slots=True)
class Row:
    """Work, and what anybody would need for its bytes: commands that run in a folder."""

    work: str
    floor_of: str
    make: Callable[[Path], None]
    command: list[str]
    floor: list[str]


def python(program: str) -> list[str]:
    """The command that runs a program."""
    return [sys.executable, "-c", program]


def ranks(folder: Path, count: int = 16, megabytes: float = 5) -> None:
    """A run with a compressed trace for each rank."""
    (folder / "run").mkdir()
    traces.write_trace(folder / "one.json", megabytes)
    text = (folder / "one.json").read_text()
    for rank in range(count):
        own = text.replace('"rank": 0', f'"rank": {rank}', 1)
        (folder / f"run/rank{rank}.json.gz").write_bytes(gzip.compress(own.encode(), 1))


def trace(folder: Path) -> None:
    """One trace of 100 MB."""
    traces.write_trace(folder / "trace.json", 100)


def log(folder: Path) -> None:
    """A DeepSpeed log of 100 MB."""
    speed.write_log(folder / "train.log", steps=166_400)


def results(folder: Path) -> None:
    """A million values in ten series."""
    rng = random.Random(1)
    series = [
        {"metric": f"m{i}", "unit": "ms", "values": [round(rng.gauss(100, 2), 4) for _ in range(100_000)]}
        for i in range(10)
    ]
    (folder / "results.json").write_text(json.dumps({"schema": "perfgate.results/1", "series": series}))


def many_values(folder: Path) -> None:
    """Ten million values in four series, with all digits: a document of 200 MB, made a piece at a time."""
    rng = random.Random(1)
    with (folder / "results.json").open("w") as file:
        file.write('{"schema": "perfgate.results/1", "series": [')
        for i in range(4):
            file.write((", " if i else "") + f'{{"metric": "m{i}", "unit": "ms", "values": [100.5')
            for _ in range(MANY_VALUES // 40_000):
                piece = [rng.gauss(100, 2) for _ in range(10_000)]
                file.write(", " + json.dumps(piece)[1:-1])
            file.write("]}")
        file.write("]}")


def small(folder: Path) -> None:
    """A log of 60 steps and two limits."""
    speed.write_log(folder / "new.log", steps=60)
    (folder / "rules.yaml").write_text(speed.RULES)


def stored_runs(folder: Path) -> None:
    """Write a rule and a baseline of 2,000 runs of some 12 KB. A check compares ten of them."""
    from perfgate.baselines.files import STORED_RUN, BaselineFile, StoredLevel, StoredSeries, StoredSource
    from perfgate.baselines.places import environment_name

    rng = random.Random(1)
    (folder / "rules.yaml").write_text("version: 1\nrules:\n  - forward p95 within 5% of baseline\n")
    speed.write_log(folder / "new.log", steps=400)
    identity: dict[str, str | int | float | bool | None] = {"gpu": None, "gpu_count": None, "world_size": 1}
    level = StoredLevel("2026-01-01-0a1b2c3d", reason="first", by="bench", anchor=True)
    place = folder / "baselines" / "default" / environment_name(identity) / level.name
    place.mkdir(parents=True)
    for number in range(2_000):
        rows = [
            StoredSeries(
                name, "s", "samples", {"rank": "0"}, [round(rng.gauss(mean, mean / 50), 6) for _ in range(400)]
            )
            for name, mean in (("forward", 0.36), ("backward", 1.03), ("step", 0.16))
        ]
        time = f"2026-01-{1 + number // 1440:02}T{number // 60 % 24:02}:{number % 60:02}:00Z"
        sources = [StoredSource(f"{number}.log", "deepspeed", f"{number:064x}")]
        file = BaselineFile(
            "perfgate.baseline/1", "perfgate", "default", time, f"{number:040x}", level, "bench", identity, {},
            "deepspeed", sources, rows,
        )  # fmt: skip
        (place / f"{time.replace('-', '').replace(':', '')}-{number:08x}.json").write_bytes(STORED_RUN.encode(file))


def page(folder: Path) -> None:
    """A baseline of three runs and 60 rules."""
    names = ("forward", "backward", "backward_inner", "step")
    rules = "".join(f"  - {names[i % 4]} p{90 - i % 40} within 5% of baseline\n" for i in range(60))
    (folder / "rules.yaml").write_text(f"version: 1\nrules:\n{rules}")
    speed.write_log(folder / "new.log", steps=400)
    for run in range(3):
        text = (folder / "new.log").read_text().replace("forward: 36", f"forward: {36 + run}")
        (folder / f"base{run}.log").write_text(text)
    words = [*PERFGATE, "baseline", "approve", *(f"base{run}.log" for run in range(3)), "--reason", "first"]
    subprocess.run([*words, "--rules", "rules.yaml"], cwd=folder, env=environment(), check=True, capture_output=True)


_INFLATE = "import gzip, pathlib\nfor p in pathlib.Path('run').iterdir(): gzip.decompress(p.read_bytes())"
_HASH = "import hashlib, pathlib\nfor p in pathlib.Path('baselines').rglob('*.json'): hashlib.sha256(p.read_bytes())"
CHECK = [*PERFGATE, "check", "new.log", "--rules", "rules.yaml", "--env", "world_size=1"]
ROWS = (
    Row("16 compressed traces of 5 MB, one process", "inflate them", ranks,
        [*PERFGATE, "inspect", "run", "--workers", "1"],
        python(_INFLATE)),
    Row("a trace of 100 MB", "json.loads", trace, [*PERFGATE, "inspect", "trace.json"],
        python("import json; json.loads(open('trace.json').read())")),
    Row("a DeepSpeed log of 100 MB", "count its lines in Python", log, python(_IMPORT.format("train.log")),
        python("sum(1 for _ in open('train.log'))")),
    Row("results/1 with a million values", "json.loads", results, python(_IMPORT.format("results.json")),
        python("import json; json.loads(open('results.json').read())")),
    Row("results/1 with ten million values", "json.loads", many_values, [*PERFGATE, "inspect", "results.json"],
        python("import json; json.loads(open('results.json').read())")),
    Row("check with 2,000 stored runs", "read and hash them", stored_runs, CHECK,
        python(_HASH)),
    Row("check --html with 60 verdicts", "the same check without the page", page,
        [*CHECK[:-2], "--html", "page.html"], CHECK[:-2]),
    Row("a small check", "import numpy", small, CHECK, python("import numpy")),
)  # fmt: skip


def environment() -> dict[str, str]:
    """The environment of the commands: this code, and compiled files, as an installed package has them."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "", "NO_COLOR": "1"}


def cost(command: list[str], folder: Path) -> tuple[float, float]:
    """The CPU seconds and the peak resident memory in MiB of a command and its processes."""
    done = subprocess.run(
        python(CPU) + command, cwd=folder, env=environment(), capture_output=True, text=True, check=True
    )
    seconds, peak = done.stderr.split()[-2:]
    return float(seconds), float(peak)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--only", default="", metavar="TEXT", help="measure only the work with this text in its name")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--plan", action="store_true", help="measure the plan for large jobs at a hundredth of the size"
    )
    options = parser.parse_args()
    if options.plan:
        planned_scale.show(planned_scale.planned(cost, PERFGATE, stored_runs, environment()), options.json)
        return
    found = []
    print(f"{'work':44} {'CPU':>8} {'memory':>9}  {'floor':>8}  ratio")
    for row in (row for row in ROWS if options.only in row.work):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            row.make(folder)
            measured = [(cost(row.command, folder), cost(row.floor, folder)) for _ in range(options.repeat)]
        (seconds, peak), (floor, _) = (min(costs) for costs in zip(*measured, strict=True))
        print(f"{row.work:44} {seconds:6.2f} s {peak:5.0f} MiB  {floor:6.2f} s  {seconds / floor:5.1f}  {row.floor_of}")
        found.append({"metric": row.work.replace(" ", "_"), "unit": "x", "values": [seconds / floor]})
    if options.json:
        options.json.write_text(json.dumps({"schema": "perfgate.results/1", "series": found}))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
