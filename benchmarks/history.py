"""Score the search for change points on labelled histories, and measure how fast it and the stored history are.

    python benchmarks/history.py --kit ../shared/score/history [--part PART] [--draws N] [--peers]

`score.py` of the kit feeds real histories, labelled by people, and unchanged noise with injected steps, run by run.
The speed is that of generated histories of 1,000 runs with steps, correlated noise and outliers. The store is a
generated history of 10,000 runs with 100 metrics beside the baselines of examples/tiny-gpt. The page is that of
`history report` for 1,000 runs with 300 metrics, opened in Chromium if there is one. `--peers` prints the table
of `docs/detection.md`: our figures beside those that the kit's `TABLE.md` has for other tools, on the same data.
"""

from __future__ import annotations

import argparse
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import sha1
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from perfgate import find_change_points  # noqa: E402

Row = tuple[str, str, str]
#: Other tools, as the kit's table names them and as people know them.
PEERS = {
    "mozilla_t": "Mozilla's t-test (Perfherder)",
    "otava": "Apache Otava 0.8.0",
    "binseg_10log": "ruptures 1.1.10, Binseg",
    "pelt_mbic": "ruptures 1.1.10, PELT",
    "asv_steps": "asv 0.6.6",
}


def detect(values: list[float]) -> list[int]:
    """Return the indices that the kit asks for."""
    return [point.index for point in find_change_points(values)]


def labelled(kit: dict[str, Any]) -> list[Row]:
    """Return the figures against the labels."""
    found = kit["score_labelled"](detect)
    return [
        ("consensus F1", f"{found['consensus_f1']:.3f}", ">= 0.80"),
        ("plain F1", f"{found['f1']:.3f}", ">= 0.85"),
        ("shared recall", f"{found['shared_recall']:.2f}", ""),
        ("point precision", f"{found['point_precision']:.2f}", ""),
        ("cover", f"{found['cover']:.3f}", ""),
        ("CPU per history", f"{1000 * found['cpu_s'] / found['series']:.1f} ms", ""),
    ]


def injected(kit: dict[str, Any]) -> list[Row]:
    """Return the figures of histories that are fed run by run."""
    found = kit["score_injected"](detect)
    goals = {"<1%": ">= 0.90", "1-3%": ">= 0.75"}
    rows = [
        ("false points per 1,000 unchanged runs", f"{found['all']['false_per_1000']:.2f}", "<= 1"),
        ("found without a step in 5 runs", f"{found['sham']['in5']:.2f}", ""),
    ]
    for band, figures in found["by_noise"].items():
        rows.append((f"+5 % in 5 runs, noise {band}", f"{figures['+5%']['in5']:.2f}", goals.get(band, "")))
        rows.append((f"+3 %, +5 %, +10 % in 10 runs, noise {band}", _in_10(figures), ""))
    return rows


def drawn(kit: dict[str, Any], draws: int, runs: int = 240, warm: int = 40) -> list[Row]:
    """Return the figures of +5 % and of unchanged runs with other draws of the noise and other places of the step.

    The kit draws each history once: its 25 histories with 1-3 % noise have a standard error of 9 %.
    """
    rng = np.random.default_rng(1)
    found: dict[str, list[bool]] = {"<1%": [], "1-3%": []}
    false = fed = 0
    for history in [one for one in kit["load"]("inject") for _ in range(draws)]:
        values = _noise_of(kit, history, rng, runs)
        if values is None or len(set(values.tolist())) < 15:
            continue
        told = detect(values[:warm].tolist())
        for end in range(warm + 1, runs + 1):
            new = [i for i in detect(values[:end].tolist()) if all(abs(i - old) > 5 for old in told)]
            told, false = [*told, *new], false + len(new)
        fed += runs - warm
        band, at = kit["band"](kit["noise"](values)), int(rng.integers(110, 191))
        if band in found:
            values[at:] *= 1.05 if history["better"] == "lower" else 1 / 1.05
            old = [i for i in detect(values[:at].tolist()) if abs(i - at) <= 5]
            new = [i for i in detect(values[: at + 5].tolist()) if abs(i - at) <= 5]
            found[band].append(any(i not in old for i in new))
    rows = [(f"+5 % in 5 runs, noise {k}, {len(v)} draws", f"{np.mean(v):.2f}", "") for k, v in found.items()]
    return [*rows, (f"false points per 1,000 of {fed:,} unchanged runs", f"{1000 * false / fed:.2f}", "")]


def _noise_of(kit: dict[str, Any], history: dict[str, Any], rng: np.random.Generator, runs: int) -> Any:
    """Return a history without a change as the kit makes it, from other random numbers; None if it is too short."""
    values = np.array([v for v in history["values"] if np.isfinite(v) and v > 0])
    if history["kind"] == "human-multi":
        start = int(rng.integers(0, max(len(values) - runs, 0) + 1))
        return values[start : start + runs].copy() if len(values) >= runs else None
    logs = np.log(values)
    residuals = logs - kit["levels"](logs)
    starts = rng.integers(0, len(residuals) - 9, size=runs // 10)
    return np.exp(np.median(logs) + np.concatenate([residuals[i : i + 10] for i in starts]))


def _in_10(figures: dict[str, Any]) -> str:
    return ", ".join(f"{figures[size]['in10']:.2f}" for size in ("+3%", "+5%", "+10%"))


def speed(runs: int = 1000, histories: int = 200) -> list[Row]:
    """Return the CPU time of generated histories."""
    rng = np.random.default_rng(1)
    made = []
    for steps in rng.integers(0, 12, histories):
        noise = rng.standard_normal(runs + 1)
        values = np.exp(0.02 * (noise[1:] + 0.3 * noise[:-1]))
        values[rng.random(runs) < 0.02] *= 1.5
        for at in rng.integers(0, runs, steps):
            values[at:] *= rng.choice([0.93, 1.07])
        made.append(values)
    find_change_points(made[0])  # imports
    begin = time.process_time()
    for values in made:
        find_change_points(values)
    spent = (time.process_time() - begin) / histories
    return [(f"CPU of 10,000 histories of {runs:,} runs", f"{10_000 * spent:.0f} s", "<= 60 s")]


def store(runs: int = 10_000, metrics: int = 100, loose: int = 300) -> list[Row]:
    """Return the CPU seconds of commands with a history of `runs` runs; `loose` of them are not compacted."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "tiny-gpt"
        shutil.copytree(ROOT / "examples" / "tiny-gpt", place)
        check = [sys.executable, "-m", "perfgate", "check", "runs/change.log", "--quiet"]
        before = _seconds(check, place)
        written = fill(place / "baselines", runs, metrics, loose)
        after = _seconds(check, place)
        show = _seconds([sys.executable, "-m", "perfgate", "history", "show", "metric_042"], place)
        size = sum(path.stat().st_size for path in (place / "baselines" / "_history").rglob("*.json"))
    what = f"{runs:,} runs x {metrics} metrics"
    return [
        (f"`history show METRIC`, {what}", f"{show:.2f} s", "<= 2 s"),
        (f"`check` beside {what}", f"{1000 * (after - before):+.0f} ms", "<= +100 ms"),
        ("adding one run", f"{1000 * written / loose:.1f} ms", ""),
        (f"size of {what}", f"{size / 1e6:.0f} MB", ""),
    ]


def _seconds(command: Sequence[str], place: Path, times: int = 5) -> float:
    """Return the smallest CPU time of a command, which may fail. On an idle machine it is the time that it takes."""
    taken = []
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    for _ in range(times):
        before = os.times()
        subprocess.run(command, cwd=place, env=environment, capture_output=True, check=False)
        after = os.times()
        taken.append(sum(after[2:4]) - sum(before[2:4]))
    return min(taken)


#: Logs when the first plots can be used: the script adds a foot to each.
_WATCH = """<script>const look = () => document.querySelector(".foot") ? console.log("OPENED", performance.now()) :
requestAnimationFrame(look); requestAnimationFrame(look);</script>"""


def page(runs: int = 1000, metrics: int = 300) -> list[Row]:
    """Return the size of the page of trends, the CPU time that writes it, and the time until it is open."""
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder) / "baselines", runs, metrics, 1)
        report = [sys.executable, "-m", "perfgate", "history", "report", "--html", "trends.html"]
        show = [sys.executable, "-m", "perfgate", "history", "show"]
        spent, read = _seconds(report, Path(folder), 3), _seconds(show, Path(folder), 3)
        text = (Path(folder) / "trends.html").read_text(encoding="utf-8")
        opened = [found for _ in range(5) if (found := _opened(text, Path(folder))) is not None]
    what = f"{runs:,} runs x {metrics} metrics, every metric with a change"
    return [
        (f"size of the page, {what}", f"{len(text.encode()) / 1e6:.1f} MB", "<= 5 MB"),
        ("CPU of `history report`, and of `history show` alone", f"{spent:.2f} s, {read:.2f} s", ""),
        ("first plots in Chromium, median of 5", f"{1000 * sorted(opened)[2]:.0f} ms" if opened else "-", "<= 2 s"),
    ]


def _opened(text: str, folder: Path) -> float | None:
    """Return the seconds until a browser has drawn the first plots; None without a browser."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        return None
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)  # it forbids this script
    (folder / "watched.html").write_text(text.replace("<body>", f"<body>{_WATCH}"), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=1300,1000"]
    options += [f"--user-data-dir={folder / 'profile'}", f"--screenshot={folder / 'page.png'}"]
    done = subprocess.run(
        [browser, *options, (folder / "watched.html").as_uri()], capture_output=True, text=True, check=True, timeout=120
    )
    [said] = re.findall(r'"OPENED (\S+)"', done.stderr)
    return float(said) / 1000


def fill(baselines: Path, runs: int, metrics: int, loose: int) -> float:
    """Write a history with a step of 6 % into each metric; return the seconds that the loose runs took."""
    from perfgate.baselines.stores import open_store
    from perfgate.core import Key
    from perfgate.core.remembered_runs import HistoryRecord, HistoryRun, HistoryValue, SeriesName
    from perfgate.history.records import id_of_values
    from perfgate.history.store import add
    from perfgate.history.writing import write_months

    rng, identity = np.random.default_rng(1), {"gpu": None, "gpu_count": None, "world_size": 2}
    numbers = np.exp(0.01 * rng.standard_normal((runs, metrics)))
    numbers[int(0.6 * runs) :] *= 1.06
    judged = ("forward", "backward", "backward_allreduce", "optimizer_step", "step")
    known = dict(enumerate(judged))
    names = [SeriesName(Key(known.get(i, f"metric_{i:03}")), "median") for i in range(metrics)]
    records = []
    for i, row in enumerate(numbers.tolist()):
        commit, when = (
            sha1(str(i).encode()).hexdigest(),
            f"{datetime(2025, 1, 1) + timedelta(hours=i):%Y-%m-%dT%H:%M:%SZ}",
        )
        values = tuple(
            HistoryValue(name, "s", "lower", "samples", value, 0.0012, 1664, 567.0)
            for name, value in zip(names, row, strict=True)
        )
        run = HistoryRun(id_of_values(values, commit, when), when, commit, "main", context={"driver": "570.86"})
        records.append(HistoryRecord("tiny-gpt", identity, run, values))
    place = open_store(str(baselines))
    write_months(place, records[:-loose])
    begin = time.perf_counter()
    for record in records[-loose:]:
        add(place, record)
    return time.perf_counter() - begin


def peers(kit: Path, found: dict[str, Any], fed: dict[str, Any]) -> str:
    """Return a table with our figures and those of the kit's TABLE.md."""
    text = (kit / "TABLE.md").read_text(encoding="utf-8")
    main, bands = (_table(text, head) for head in ("| method | F1 |", "| method | <1%"))
    heads = ("tool", "consensus F1", "F1", "false points per 1,000 unchanged runs", "+5 % in 5 runs, all",
             "+5 % in 10 runs, noise < 1 %", "+5 % in 10 runs, noise 1-3 %", "ms per history")  # fmt: skip
    in10 = {band: fed["by_noise"][band]["+5%"]["in10"] for band in ("<1%", "1-3%")}
    ours = [f"{found['consensus_f1']:.2f}", f"{found['f1']:.2f}", f"{fed['all']['false_per_1000']:.1f}",
            f"{100 * fed['all']['+5%']['in5']:.0f} %", *(f"{100 * share:.0f} %" for share in in10.values()),
            f"{1000 * found['cpu_s'] / found['series']:.1f}"]  # fmt: skip
    rows = [["perfgate", *ours]]
    for name, shown in PEERS.items():
        one, band = main[name], bands[name]
        shares = [re.split("[/,]", next(v for k, v in band.items() if k.startswith(f"{size}:")))[1] for size in in10]
        cells = [f"{float(one[head]):.2f}" for head in ("consensus F1", "F1")]
        cells += [f"{float(one['false/1000 online']):.1f}", f"{100 * float(one['+5% in 5']):.0f} %"]
        rows.append([shown, *cells, *(f"{100 * float(share):.0f} %" for share in shares), one["ms/call"]])
    lines = ["| " + " | ".join(row) + " |" for row in (heads, ["---", *["--:"] * (len(heads) - 1)], *rows)]
    return "\n".join(lines)


def _table(text: str, head: str) -> dict[str, dict[str, str]]:
    """Return the rows of the table that begins with a head, by their first cell."""
    lines = text[text.index(head) :].splitlines()
    names, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in _until_blank(lines))
    return {row[0]: dict(zip(names, row, strict=True)) for row in rows[1:]}


def _until_blank(lines: Sequence[str]) -> Sequence[str]:
    return lines[: lines.index("")] if "" in lines else lines


def main() -> None:
    """Measure the parts that were asked for, and print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kit", type=Path, help="the folder with score.py")
    parser.add_argument("--part", choices=("labelled", "injected", "speed", "store", "page"), action="append")
    parser.add_argument("--draws", type=int, default=0, help="also draw each history of the kit this many times")
    parser.add_argument("--peers", action="store_true", help="print the table with other tools alone")
    options = parser.parse_args()
    parts = options.part or ["labelled", "injected", "speed", "store", "page"]
    rows: list[Row] = []
    if options.kit:
        warnings.simplefilter("ignore", ResourceWarning)
        kit = runpy.run_path(str(options.kit / "score.py"))
        if options.peers:
            print(peers(options.kit, kit["score_labelled"](detect), kit["score_injected"](detect)))
            return
        rows += labelled(kit) if "labelled" in parts else []
        rows += injected(kit) if "injected" in parts else []
        rows += drawn(kit, options.draws) if options.draws else []
    rows += speed() if "speed" in parts else []
    rows += store() if "store" in parts else []
    rows += page() if "page" in parts else []
    print("| figure | here | goal |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
