"""The newest runs that `perfgate run` or `perfgate init` kept."""

from __future__ import annotations

from pathlib import Path

from perfgate.measuring.programs import result_of
from perfgate.workspace.options import Refused, typed_path

#: The folder of the runs, if the user names no other.
KEEP = "perfgate-runs"


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
