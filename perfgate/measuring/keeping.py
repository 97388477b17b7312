"""Earlier runs of `perfgate run` in the same folder: they are moved aside, and never overwritten."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from perfgate.workspace.options import Refused

#: The names that `perfgate run` gives to files and folders: nothing else is moved.
_OWN = re.compile(
    r"(?:run|pair)-\d{3,}(?:-whole)?(?:\.json|\.FAILED\.txt|(?:\.log)?(?:\.machine)?)"
    r"|build-\w+(?:\.log|\.FAILED\.txt)?"
    r"|machine-\w+\.json"
    r"|\.machine-\w+\.json\.\w+\.tmp"  # a killed process leaves it
)
_IGNORE = ".gitignore"
_EARLIER = re.compile(r"earlier-(\d{3,})")


#: The folders that this process runs in, by their real path, each with its open descriptor, which has the lock.
_CLAIMED: dict[str, int] = {}


def make_folder(folder: Path) -> None:
    """Make a folder for runs if there is none; git leaves a new one out of `git add`. Raises OSError."""
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


def move_aside(folder: Path, keep: str, tell: Callable[[str], None]) -> None:
    """Move earlier runs into `earlier-001` of their folder, later ones into `earlier-002` and so on, and tell it.

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
        tell(f"the runs of an earlier `perfgate run` are now in {aside.as_posix()}")
