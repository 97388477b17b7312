"""Compare the causes of perfgate with the trace diffs of HTA and TraceLens, on the same pairs.

    python benchmarks/causes_beside.py [FOLDER...] [--verbose]

A folder contains pairs as `benchmarks/causes.py` reads them. Only the tools that are installed are measured, and none
is a dependency of perfgate:

    pip install HolisticTraceAnalysis                              hta.trace_diff.TraceDiff.compare_traces
    pip install git+https://github.com/AMD-AGI/TraceLens           TraceLens.TraceDiff.TraceDiff

The rules are the same for all, and lean towards the other tools:

* A tool names the row with the largest difference of time, whatever its sign. Rows named `ProfilerStep#N` are left out,
  because their numbers differ. The kind of the cause does not matter here.
* The name is right if it contains a word of the true place. For TraceLens, the operator and all kernels of the row
  count as its name, for perfgate all places and calls of the cause.
* A finding is a row with a difference of at least 1 % of the step; for perfgate, a cause.
* HTA and TraceLens compare one run a side: the first. HTA gets all steps, and of a slow rank all ranks. TraceLens gets
  the first rank, or the slow one. It needs the arrows from launches to kernels (`ac2g`); a copy of the trace gets them
  where it has none. Traces of the CPU alone have no kernels, so TraceLens has no row.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAIRS = Path(__file__).resolve().parent.parent.parent / "shared" / "score" / "causes" / "pairs"
#: A smaller difference, as a share of the step, is not counted as a finding.
_LEAST = 0.01
#: A tool is also asked whether one of its first rows names the cause.
_FIRST = 3

#: The rows of a tool: names, and new minus base in s per step.
Rows = list[tuple[str, float]]


@dataclass(frozen=True)
class Pair:
    """A folder with two sides and the truth, the time of its step in s, and the number of its steps."""

    folder: Path
    truth: dict[str, Any]
    step: float
    steps: int

    def files(self, side: str) -> list[Path]:
        """The traces of the first run of a side."""
        runs = sorted((self.folder / side).iterdir())
        return sorted(runs[0].iterdir()) if runs[0].is_dir() else [runs[0]]

    def is_named(self, name: str) -> bool:
        """True if a name contains a word of each true place."""
        return all(any(word.lower() in name.lower() for word in words) for words in self.truth.get("where", ()))


def hta_rows(pair: Pair) -> Rows:
    """The rows of HTA's `compare_traces`."""
    from hta.common.trace import Trace
    from hta.trace_diff import LabeledTrace, TraceDiff

    sides = []
    for side in ("base", "new"):
        trace = Trace(trace_files=dict(enumerate(map(str, pair.files(side)))), trace_dir="")
        trace.parse_traces(use_multiprocessing=False)
        sides.append(LabeledTrace(label=side, t=trace))
    is_rank = pair.truth["kind"] == "slow rank"
    ranks = [list(range(len(pair.files(side)))) if is_rank else 0 for side in ("base", "new")]
    steps = [side.t.get_iterations() if hasattr(side.t, "get_iterations") else None for side in sides]
    table = TraceDiff.compare_traces(*sides, *ranks, *steps)
    counts = [max(len(found or ()), 1) for found in steps]
    change = table["new_total_duration"] / counts[1] - table["base_total_duration"] / counts[0]
    return [(str(name), float(value) / 1e6) for name, value in change.items() if "ProfilerStep" not in str(name)]


def tracelens_rows(pair: Pair) -> Rows:
    """The rows of TraceLens' `TraceDiff`, by the lowest common operator."""
    from TraceLens.TraceDiff.trace_diff import TraceDiff
    from TraceLens.TreePerf.tree_perf import TreePerfAnalyzer

    rank = int(pair.truth["ranks"][0]) if pair.truth["kind"] == "slow rank" else 0
    with tempfile.TemporaryDirectory() as folder:
        paths = [_with_arrows(pair.files(side)[rank], Path(folder) / f"{side}.json") for side in ("base", "new")]
        trees = [TreePerfAnalyzer.from_file(str(path), add_python_func=False).tree for path in paths]
    found = TraceDiff(*trees)
    found.merge_trees() if found.merged_tree is None else None
    table = found.generate_diff_stats()
    if table is None or table.empty:
        return []
    rows = []
    for name, group in table.groupby("lowest_common_ancestor_name"):
        times = [float(group[group.source == side].kernel_time.sum()) for side in ("trace1", "trace2")]
        words = "/".join([str(name), *map(str, group.cpu_op_name.unique()), *map(str, group.name.unique())])
        rows.append((words, (times[1] - times[0]) / 1e6 / pair.steps))
    return rows


def _with_arrows(source: Path, target: Path) -> Path:
    """A copy of a trace with an arrow from each launch to its kernels, as kineto writes them, if it has none."""
    data = source.read_bytes()
    document = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data, strict=False)
    events = document["traceEvents"] if isinstance(document, dict) else document
    if not any(event.get("cat") == "ac2g" for event in events):
        for event in list(events):
            number = (event.get("args") or {}).get("correlation")
            is_launch = event.get("cat") in ("cuda_runtime", "cuda_driver")
            if number is not None and (is_launch or event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")):
                place = {key: event[key] for key in ("pid", "tid", "ts")}
                end = {"ph": "s"} if is_launch else {"ph": "f", "bp": "e"}
                events.append({**end, **place, "id": number, "cat": "ac2g", "name": "ac2g"})
    target.write_text(json.dumps(document), encoding="utf-8")
    return target


def perfgate_rows(pair: Pair) -> Rows:
    """The causes of perfgate, of all runs."""
    rows = []
    for one in _report(pair.folder).causes:
        places = ["/".join(place) for place in (one.where, *one.places)]
        calls = [name for name, _ in one.gone + one.come]
        rows.append(("/".join([*places, *calls]), one.change_per_step if one.metric == "time" else pair.step))
    return rows


def _report(folder: Path) -> Any:
    from perfgate.causes.find import find_causes
    from perfgate.workspace.inputs import read_runs

    paths = ([str(run) for run in sorted((folder / side).iterdir())] for side in ("base", "new"))
    base, new = (read_runs(side, None, "corrected") for side in paths)
    return find_causes([run.call_trees for run in base], [run.call_trees for run in new])


def pairs_of(folder: Path) -> Iterator[Pair]:
    """Yield the pairs of a folder."""
    from perfgate.workspace.inputs import read_runs

    for path in sorted(folder.glob("*/truth.json")):
        truth = json.loads(path.read_text(encoding="utf-8"))
        (run,) = read_runs([str(sorted((path.parent / "base").iterdir())[0])], None, "corrected")
        times = next(series.values for series in run.series if series.key.metric == "step.time")
        yield Pair(path.parent, truth, float(times.mean()), len(times))


TOOLS: dict[str, Callable[[Pair], Rows]] = {"perfgate": perfgate_rows, "HTA": hta_rows, "TraceLens": tracelens_rows}


def main() -> None:
    """Run every tool that is installed on every pair, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*", type=Path, default=[PAIRS])
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    pairs = [pair for folder in options.folders for pair in pairs_of(folder)]
    print(f"{len(pairs)} pairs\n")
    heads = (
        "tool",
        "names it first",
        "in the first three",
        "findings a cause",
        "silent if unchanged",
        "false findings",
    )
    print(f"| {' | '.join((*heads, 'failed'))} |")
    print("|---|---|---|---|---|---|---|")
    for tool, rows_of in TOOLS.items():
        right = among = findings = quiet = noise = failed = 0
        for pair in pairs:
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    rows = sorted(rows_of(pair), key=lambda row: -abs(row[1]))
            except ModuleNotFoundError as error:
                print(f"| {tool} | not installed: {error.name} | | | | | |")
                break
            except Exception as error:  # another tool may fail on any trace
                failed += 1
                rows = []
                if options.verbose:
                    print(f"{tool} {pair.folder.name}: {type(error).__name__}: {error}")
            large = [row for row in rows if tool == "perfgate" or abs(row[1]) >= _LEAST * pair.step]
            if pair.truth["kind"] == "none":
                quiet, noise = quiet + (not large), noise + len(large)
            else:
                is_right = bool(large) and pair.is_named(large[0][0])
                right, findings = right + is_right, findings + len(large)
                among += any(pair.is_named(name) for name, _ in large[:_FIRST])
                if options.verbose:
                    first = f"{large[0][0][:100]} {large[0][1] * 1e6:+.0f} us" if large else "nothing"
                    print(
                        f"{tool} {pair.folder.name} {'right' if is_right else 'WRONG'}: {first}; {len(large)} findings"
                    )
        else:
            changed = [pair for pair in pairs if pair.truth["kind"] != "none"]
            same = len(pairs) - len(changed)
            ratio = f"{findings / max(len(changed), 1):.1f}"
            print(
                f"| {tool} | {right} of {len(changed)} | {among} | {ratio} | {quiet} of {same} | {noise} | {failed} |"
            )


if __name__ == "__main__":
    main()
