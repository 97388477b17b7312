"""The newest runs that `perfgate run` or `perfgate init` kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from perfgate.measuring.programs import result_of
from perfgate.workspace.options import CommandOptions, Refused, typed_path

#: The folder of the runs, if the user names no other.
KEEP = "perfgate-runs"
#: The newest report in it, for `perfgate explain`.
REPORT = "report.json"


def with_kept_runs(options: CommandOptions, use: str, tell: Callable[[str], None]) -> CommandOptions:
    """Return the options with the newest kept runs if the user named none, and print their age. Raises Refused."""
    if options.runs:
        return options
    runs, facts = kept_runs()
    tell(f"{use} {_told_age(runs)}")
    return replace(options, runs=runs, env=(*facts, *options.env), kept=True)


def kept_runs(keep: str = KEEP) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the newest runs or pairs in a folder, and the files with the facts of their machine. Raises Refused."""
    folder = Path(keep)
    pairs = sorted(folder.glob("pair-[0-9]*.json"))
    logs = [log for log in sorted(folder.glob("run-[0-9]*.log")) if not log.with_suffix(".FAILED.txt").exists()]
    runs = pairs or [result_of(log.with_suffix("")) or log for log in logs]
    if not runs:
        raise Refused(f"no run was given, and {keep}/ has none: make runs with `perfgate run`, or give their files")
    facts = sorted(folder.glob("machine-*.json"))
    return tuple(typed_path(str(run)) for run in runs), tuple(typed_path(str(path)) for path in facts)


def _told_age(runs: Sequence[str]) -> str:
    """Return which runs these are and how old they are, because the program may have changed since."""
    minutes = max(0.0, time.time() - max(Path(run).stat().st_mtime for run in runs)) / 60
    age = f"{60 * minutes:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.0f} h"
    others = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
    return f"{runs[0]}{others}, measured {age} ago; `perfgate run` measures again"
