"""Measure the speed of perfgate, as ratios to something that everybody knows, in one run.

    python benchmarks/speed.py [--json FILE] [--repeat 7]

Each figure is a median of fresh processes or repetitions that alternate with what they are compared with, so that a
busy machine slows both sides. `--json` writes `perfgate.results/1`, which the rules in `rules/` judge.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

GOALS = {
    "help_to_python": "perfgate --help against `python -c pass`; the goal is under 6, some 100 ms",
    "check_to_scipy_stats": "a small check against `python -c 'import scipy.stats'`; the goal is under 0.35",
    "read_to_plain_loop": "reading a log against a plain loop with one regular expression; the goal is under 1.2",
    "results_to_json": "reading results with 200,000 values against `json.loads`; the goal is under 1",
    "memory_to_file": "peak memory while reading a log against the size of the log",
    "log_check_to_scipy_stats": "the same of a log of 1 MB; the goal is under 0.4",
    "rule_time": "CPU time of judging one rule, of 1,000; the goal is at most 0.3 ms",
    "report_to_judge": "the same with the values that a report draws and the JSON report",
}

RULES = "version: 1\nrules:\n  - forward p95 under 1 s\n  - backward median under 2 s\n"


def write_log(path: Path, steps: int = 1664) -> None:
    """A DeepSpeed log: three timer lines a step, and a line of the trainer now and then."""
    rng = random.Random(7)
    stamp = "[2026-02-20 09:55:01,105] [INFO] [logging.py:77:log_dist] [Rank 0] rank=0 time (ms)"
    with path.open("w") as file:
        for step in range(steps):
            f, b, a, s = (rng.gauss(mean, mean / 50) for mean in (362.0, 1030.0, 9.0, 160.0))
            if step % 100 == 0:
                file.write(f"2026-02-20 | INFO | Global Steps: {step + 1} Data (t): 0.001 Batch (t): 1.8, 1057.4/s")
            file.write(
                f"{stamp} | optimizer_allgather: {s / 2:.2f} | optimizer_gradients: {a:.2f} | optimizer_step: {a:.2f}\n"
            )
            for suffix in ("_microstep", ""):
                timers = {"forward": f, "backward": b + a, "backward_inner": b, "backward_allreduce": a, "step": s}
                file.write(stamp + "".join(f" | {name}{suffix}: {value:.2f}" for name, value in timers.items()) + "\n")


def plain_loop(path: Path) -> int:
    """Read the log as a script of five minutes does; the yardstick for the reader."""
    timers: dict[str, list[float]] = {}
    pattern = re.compile(r"\| (\w+): ([\d.]+)")
    with path.open() as file:
        for line in file:
            for name, value in pattern.findall(line):
                timers.setdefault(name, []).append(float(value))
    return len(timers)


def read_log(path: Path) -> int:
    """The same through the reader."""
    from perfgate.workspace.inputs import read_runs

    return len(read_runs([str(path)])[0].series)


def write_results(path: Path, values: int = 200_000) -> None:
    """Results in ten series."""
    rng = random.Random(7)
    series = [
        {"metric": f"m{at}", "unit": "ms", "values": [round(rng.gauss(100, 2), 4) for _ in range(values // 10)]}
        for at in range(10)
    ]
    path.write_text(json.dumps({"schema": "perfgate.results/1", "series": series}))


def alternate(one: Callable[[], object], two: Callable[[], object], repeat: int) -> tuple[float, float]:
    """The median seconds of two functions that take turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeat):
        for function, found in zip((one, two), times, strict=True):
            began = time.perf_counter()
            function()
            found.append(time.perf_counter() - began)
    return statistics.median(times[0]), statistics.median(times[1])


def process(*words: str, folder: Path) -> Callable[[], object]:
    """A fresh Python process; a command that fails stops the benchmark.

    It may keep what it compiles, as an installed package does: without that, the first use is measured each time.
    """
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": ""}
    return lambda: subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, check=True, capture_output=True
    )


def rule_seconds(path: Path, rules: int = 1000) -> tuple[float, float]:
    """CPU seconds a rule of many rules against five base runs: judging alone, and with a report in JSON."""
    from datetime import date

    from perfgate.core import Baseline, Report
    from perfgate.core.details import ReportDetails
    from perfgate.judge.details import within_budget
    from perfgate.judge.evidence import Case
    from perfgate.judge.verdicts import judge, judge_with_details
    from perfgate.reporters.json_report import render
    from perfgate.rules.load import load_rules
    from perfgate.workspace.inputs import read_runs

    names = ("forward", "backward", "backward_inner", "step")
    sentences = "".join(f"  - {names[i % 4]} p{90 - i % 40} within 5% of baseline\n" for i in range(rules))
    ruleset, _ = load_rules([("many.yaml", f"version: 1\nrules:\n{sentences}".encode())])
    assert ruleset is not None
    run, *base = (read_runs([str(path)])[0] for _ in range(6))
    case = Case(ruleset, (run,), Baseline("benchmark", tuple(base)), date(2026, 1, 1))

    def report() -> str:
        verdicts, details = judge_with_details(case)
        return render(Report(verdicts, details=ReportDetails(*within_budget(verdicts, details))))

    assert len(judge(case)) == rules
    assert report()
    seconds: list[list[float]] = [[], []]
    for _ in range(5):  # the quietest of five, because other programs only add
        for function, found in zip((lambda: judge(case), report), seconds, strict=True):
            began = time.process_time()
            function()
            found.append((time.process_time() - began) / rules)
    return min(seconds[0]), min(seconds[1])


def peak_memory(path: Path) -> int:
    """Bytes that reading allocates at most, beside what the result holds anyway."""
    tracemalloc.start()
    read_log(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def measure(folder: Path, repeat: int) -> dict[str, tuple[float, str]]:
    """Every figure, with its unit."""
    log, rules = folder / "train.log", folder / "rules.yaml"
    write_log(log)
    write_log(folder / "small.log", steps=60)
    rules.write_text(RULES)
    check = ("-m", "perfgate", "check", "--rules", "rules.yaml")
    help_time, python = alternate(
        process("-m", "perfgate", "--help", folder=folder), process("-c", "pass", folder=folder), repeat
    )
    small, scipy_stats = alternate(
        process(*check, "small.log", folder=folder), process("-c", "import scipy.stats", folder=folder), repeat
    )
    whole, scipy_again = alternate(
        process(*check, "train.log", folder=folder), process("-c", "import scipy.stats", folder=folder), repeat
    )
    gc.disable()  # as the command does
    read, plain = alternate(lambda: read_log(log), lambda: plain_loop(log), 5 * repeat)
    write_results(results := folder / "results.json")
    typed, untyped = alternate(lambda: read_log(results), lambda: json.loads(results.read_bytes()), 3 * repeat)
    rule, reported = rule_seconds(log)
    gc.enable()
    return {
        "help_to_python": (help_time / python, "x"),
        "check_to_scipy_stats": (small / scipy_stats, "x"),
        "log_check_to_scipy_stats": (whole / scipy_again, "x"),
        "read_to_plain_loop": (read / plain, "x"),
        "results_to_json": (typed / untyped, "x"),
        "memory_to_file": (peak_memory(log) / log.stat().st_size, "x"),
        "rule_time": (rule, "s"),
        "report_to_judge": (reported / rule, "x"),
    }


def main() -> None:
    """Measure, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write perfgate.results/1")
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), options.repeat)
    for name, (value, unit) in figures.items():
        shown = f"{1000 * value:8.2f} ms" if unit == "s" else f"{value:8.3f} {unit} "
        print(f"{name:24s} {shown}  {GOALS.get(name, '')}")
    if options.json:
        series = [{"metric": name, "unit": unit, "value": value} for name, (value, unit) in figures.items()]
        Path(options.json).write_text(json.dumps({"schema": "perfgate.results/1", "series": series}, indent=2) + "\n")


if __name__ == "__main__":
    main()
