"""The next step if the stored runs lack what a rule needs: their source files have it, not the runs that are judged."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.core import Acceptance, NextStep, Run
from perfgate.core.next_steps import command_line

#: More files than this are not listed.
_MOST_FILES = 10


def complete_base(accept: Acceptance, runs: Sequence[Sequence[str]]) -> NextStep:
    """Return the step that gives stored runs what they lack; `runs` are the source files of each of them.

    To approve the runs that are judged would make them their own base, and hide what they changed.
    """
    files = list(dict.fromkeys(name for sources in runs for name in _typed(sources)))
    command = command_line(["perfgate", "baseline", "add", *files, *accept.place, *accept.reading])
    where = "" if accept.ref is None else f"on {accept.ref}: "
    text = f"{where}add the source files of the stored runs again; if they are gone or lack it, measure main and add it"
    if not files or len(files) > _MOST_FILES:
        command = command_line(["perfgate", "baseline", "add", "RUN...", *accept.place, *accept.reading])
    who = "you" if accept.ref is None else f"someone who may write to {accept.ref}"
    return NextStep("add-base-runs", text, who=who, where=f"on {accept.ref}" if accept.ref else "here", command=command)


def sources_of(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """Return the source files of each run."""
    return [tuple(file.path for file in run.files) for run in runs]


def _typed(sources: Sequence[str]) -> list[str]:
    """Return what to type for the files of one run: their folder if there are several."""
    folders = {name.rpartition("/")[0] for name in sources}
    if len(sources) > 1 and len(folders) == 1 and (folder := folders.pop()):
        return [folder]
    return list(sources)
