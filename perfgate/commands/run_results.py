"""Find the results of a command that ran for the first time: the files that it wrote, or the lines that it printed.

Files in the folder `{results}` win, then files of the working folder that a reader knows, then printed lines. If no
reader knows any of them, the mapping with the most times and rates is proposed.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Run
from perfgate.core.file_mappings import FileMapping, MappingSuggestion
from perfgate.core.units import SPEEDS
from perfgate.core.wording import listed
from perfgate.mappings.suggest import suggest
from perfgate.measuring.kept_runs import EVERYTHING, NewRun, result_of
from perfgate.recorder.watch import sidecar_of
from perfgate.workspace import surroundings
from perfgate.workspace.inputs import read_runs
from perfgate.workspace.options import Refused, shown_path

#: The most changed files that are read, and the greatest size of one in bytes.
_MOST_FILES, _LARGEST = 300, 1 << 30
#: The folders of tools, whose files are not results.
_OTHERS = {"__pycache__", "node_modules", "perfgate-runs", "perfgate-bisect", "site-packages"}
#: The number of printed lines that an error shows, the last ones, and the most characters of each.
_LAST_LINES, _LONGEST_LINE = 4, 150
#: The message about a command that neither writes nor prints a number.
WHOLE_COMMAND = (
    "no results, so the whole command is measured. To judge its parts, print times (`forward: 12.3 ms`, each step), or"
    " write JSON, CSV or perfgate.results/1 (perfgate.Recorder) to the folder {results}"
)


class RunResults(Struct, frozen=True):
    """The place and the format of the results of a command."""

    #: Globs of files in the working folder; empty for the files in `{results}`, and for printed lines.
    globs: tuple[str, ...]
    #: The format and the place, in words.
    said: str
    #: The proposed mapping that reads them; None if a reader knows them.
    mapping: MappingSuggestion | None = None


class FoundNumbers(Struct, frozen=True):
    """A file with numbers, by a glob for it; or printed lines, with an empty glob."""

    glob: str
    run: Run
    mapping: MappingSuggestion | None = None

    @property
    def worth(self) -> tuple[int, int]:
        """The number of its times and rates, and of all its metrics."""
        return sum(one.unit in SPEEDS for one in self.run.series), len(self.run.series)


def find_results(run: NewRun, globs: Sequence[str], format: str | None, mappings: Sequence[FileMapping]) -> RunResults:
    """Return the results of a run that has ended. Raises Refused (3) if nothing is readable, with what was found.

    `run`: was started with `EVERYTHING` as its globs. `globs`: the files that the user named; empty to search them.
    """
    own = result_of(run.results)
    if own is not None:  # the command wrote to `{results}`
        known = _read(own, format, mappings)
        if known is not None:
            return RunResults(tuple(globs), f"{known.format}, in {{results}}")
        return _mapped(run, dict.fromkeys(files_at(own), ""), globs)
    folder = run.side.folder.resolve()
    files = {path: glob_of_path(path.relative_to(folder)) for path in _changed(run, globs or EVERYTHING)}
    read = [(glob, _read(path, format, mappings)) for path, glob in files.items()]
    found = [FoundNumbers(glob, known) for glob, known in read if known is not None]
    if found:
        return _of_files(found, globs)
    printed = None if globs else _read(run.log, format, mappings)
    if printed is not None:
        return RunResults((), f"{printed.format}, in the output")
    return _mapped(run, files, globs)


def files_at(path: Path) -> list[Path]:
    """Return the file at a path, or all files below the folder there, in order."""
    paths = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [path for path in paths if path.is_file()]


def _changed(run: NewRun, globs: Sequence[str]) -> list[Path]:
    """Return the files that a run has made or changed, of those that can be results."""
    folder = run.side.folder.resolve()
    changed = replace(run.before, globs=tuple(globs)).changed()
    inside = [path for path in changed if 0 < path.stat().st_size < _LARGEST and path.is_relative_to(folder)]
    return [path for path in inside if _OTHERS.isdisjoint(path.relative_to(folder).parts)][:_MOST_FILES]


def _read(path: Path, format: str | None, mappings: Sequence[FileMapping]) -> Run | None:
    """Return the first run of a file or folder with numbers that a reader knows; None if there is none."""
    runs = read_runs([str(path)], format, mappings=mappings, with_calls=False)
    known = [run for run in runs if run.format != "unknown" and run.series]
    return known[0] if known else None


def _of_files(found: Sequence[FoundNumbers], globs: Sequence[str]) -> RunResults:
    """Return all files of the format with the most times and rates: a run may have one for each rank."""
    best = max(found, key=lambda one: one.worth)
    mine = tuple(dict.fromkeys(one.glob for one in found if one.run.format == best.run.format))
    others = [one.glob for one in found if one.run.format != best.run.format]
    also = f"; not used: {listed(others)} (choose with --results)" if others and not globs else ""
    return RunResults(tuple(globs) or mine, f"{best.run.format}, in {listed(mine)}{also}")


def _mapped(run: NewRun, files: dict[Path, str], globs: Sequence[str]) -> RunResults:
    """Return the file, or the printed lines, whose proposed mapping reads most. Raises Refused (3).

    `files`: the glob of each file of results.
    """
    found = [*_suggested(files if globs else {**files, run.log: ""}, run.log)]
    if not found:
        asks = any("{results}" in word for word in run.side.words)
        # The file beside the results has the time of the whole command.
        if not globs and not asks and Path(sidecar_of(run.results)).exists():
            return RunResults((), WHOLE_COMMAND)
        raise Refused(_nothing(run, files), 3)
    best = max(found, key=lambda one: one.worth)
    where = "the output" if best.mapping and best.mapping.file == run.log.name else best.glob or "{results}"
    said = f"{where}, by a proposed mapping (check its units in rules/perfgate.yaml)"
    return RunResults(tuple(globs) or ((best.glob,) if best.glob else ()), said, best.mapping)


def _suggested(files: Mapping[Path, str], log: Path) -> Iterator[FoundNumbers]:
    """Yield the files in which a proposed mapping reads numbers. `files`: their globs. `log`: the printed lines."""
    limits = surroundings.limits()
    for path, glob in files.items():
        with path.open("rb") as file:
            data = file.read(limits.document_bytes + 1)
        if b"\0" in data or len(data) > limits.document_bytes:
            continue
        one = suggest(path.name, data, limits, files="*.log" if path == log else None)
        if one is not None and one.metrics and not any(problem.severity == "error" for problem in one.problems):
            yield FoundNumbers(glob, one.read[0], one)


def _nothing(run: NewRun, files: dict[Path, str]) -> str:
    """Return the error for a command without readable results: what was found, and what to do."""
    names = [shown_path(str(path)) for path in files if path != run.log]
    wrote = listed(names) if names else "no file"
    lines = run.log.read_text("utf-8", "replace").strip().splitlines()
    last = "".join(f"\n  {line[:_LONGEST_LINE]}" for line in lines[-_LAST_LINES:])
    printed = f"{len(lines)} lines, the last are:{last}" if lines else "nothing"
    return (
        "nothing was written, because the results of the command are in no format that perfgate reads: it wrote"
        f" {wrote}; it printed {printed}\nlet it print its times (`forward: 12.3 ms`, in each step), or write JSON, CSV"
        " or perfgate.results/1 (perfgate.Recorder) to the folder {results}; or name its files with --results GLOB"
    )


def glob_of_path(path: Path) -> str:
    """Return a glob for the same file of later runs: `*` replaces numbers and the name of the host."""
    host = platform.node()
    parts = (re.sub(r"\d+(?:[-_.:T]+\d+)*", "*", part.replace(host, "*") if host else part) for part in path.parts)
    return "/".join(re.sub(r"[\[\]?]", "?", re.sub(r"\*+(?:[-_.]\*+)*", "*", part)) for part in parts)


def narrowed(globs: Sequence[str], runs: Sequence[Path]) -> tuple[str, ...]:
    """Return the file's name in place of its glob, if each run has one file of the same name; or else the globs."""
    names = {path.name for path in runs}
    if len(globs) == len(names) == 1 and "/" not in globs[0] and all(path.is_file() for path in runs):
        return tuple(names)
    return tuple(globs)
