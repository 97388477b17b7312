"""The build command of a side or an item, which runs once before its program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfgate.measuring.programs import ProgramSide, RunFailed, Stopped, finish, new_run

_OPERATORS = {"||", "&&", "|", "&", ";", "<", ">", ">>", "2>"}


def build(path: Path, side: ProgramSide, timeout: float) -> None:
    """Run the build command of a side; its log is beside `path`. Raises RunFailed, and Stopped after a signal.

    Parameters
    ----------
    path : a new folder, for the files of the build.
    side : the words of the command, and where it runs.
    timeout : its longest time in seconds.
    """
    try:
        with new_run(path, side, 0) as run:
            finish(run.start(), timeout)
    except Stopped:  # the user stopped the command: that says nothing about the build
        raise
    except RunFailed as error:
        hint = "; --build runs no shell: write sh -c '...'" if _is_for_a_shell(side.words) else ""
        raise RunFailed(f"does not build: {error}{hint}") from None


def _is_for_a_shell(words: Sequence[str]) -> bool:
    """Return whether words look like a line for a shell. The last word may be that of `find -exec ... ;`."""
    if words[0].startswith("!") or not _OPERATORS.isdisjoint(words[:-1]):
        return True
    return any(word.startswith(">") or (word.endswith(";") and " " not in word) for word in words[:-1])
