"""The folder of runs: made and claimed by one process, and the newest runs that `perfgate run` or `init` kept there."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from perfgate.measuring.new_runs import result_of
from perfgate.workspace.options import CommandOptions, Refused, typed_path
from perfgate.workspace.output_files import refuse_committed

#: The folder of the runs, if the user names no other.
KEEP = "perfgate-runs"
#: The newest report in it, for `perfgate explain`.
REPORT = "report.json"


def with_kept_runs(options: CommandOptions, use: str, tell: Callable[[str], None]) -> CommandOptions:
    """Return the options with the newest kept runs if the user named none, and print their age. Raises Refused."""
    if options.runs:
        return options
    runs, facts = kept_runs()
    # which runs these are and how old they are, because the program may have changed since
    minutes = max(0.0, time.time() - max(Path(run).stat().st_mtime for run in runs)) / 60
    age = f"{60 * minutes:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.0f} h"
    others = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
    tell(f"{use} {runs[0]}{others}, measured {age} ago; `perfgate run` measures again")
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


#: The names that `perfgate run` gives to files and folders: nothing else is moved.
_OWN = re.compile(
    r"(?:run|pair|failed|new-code|new-environment)-\d{3,}(?:-whole)?(?:\.json|\.FAILED\.txt|(?:\.log)?(?:\.machine)?)"
    r"|build-\w+(?:\.log|\.FAILED\.txt)?"
    r"|(?:machine-\w+|report)\.json"
    r"|\.(?:machine-\w+|report)\.json\.\w+\.tmp"  # a killed process leaves it
)
_IGNORE = ".gitignore"
_EARLIER = re.compile(r"earlier-(\d{3,})")
#: The folders that this process runs in, by their real path, each with its open descriptor, which has the lock.
_CLAIMED: dict[str, int] = {}


def make_folder(folder: Path) -> None:
    """Make a folder for runs if there is none; git leaves a new one out of `git add`. Raises OSError and Refused."""
    refuse_committed(str(folder))
    if folder.exists():
        folder.mkdir(exist_ok=True)
        return
    folder.mkdir(parents=True)
    (folder / _IGNORE).write_text("*\n", encoding="utf-8")


def claim(folder: Path, keep: str, command: str = "perfgate run") -> None:
    """Keep other processes from running in a folder until this one ends. Raises Refused if one does, and OSError."""
    if sys.platform == "win32" or os.path.realpath(folder) in _CLAIMED:  # no flock there
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise Refused(f"--keep {keep}: another `{command}` is writing there: name another folder") from None
    _CLAIMED[os.path.realpath(folder)] = descriptor


def move_aside(folder: Path, keep: str) -> None:
    """Move earlier runs into `earlier-001` of their folder, later ones into `earlier-002` and so on.

    Raises Refused if the folder has files that `perfgate run` did not write, and OSError.
    """
    found = sorted(path for path in folder.iterdir() if not _EARLIER.fullmatch(path.name) and path.name != _IGNORE)
    if others := [path.name for path in found if not _OWN.fullmatch(path.name)]:
        why = f"is not empty: it has {others[0]}, which `perfgate run` did not write"
        raise Refused(f"--keep {keep}: {why}; name another folder")
    if found:
        numbers = [int(name[1]) for path in folder.iterdir() if (name := _EARLIER.fullmatch(path.name))]
        aside = folder / f"earlier-{max(numbers, default=0) + 1:03d}"
        aside.mkdir()
        for path in found:
            path.rename(aside / path.name)
