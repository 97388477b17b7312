"""One run of the user's command: where it writes, what it wrote, and what it means that it failed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path

from perfgate.measuring.programs import Command, Program, described, last_words
from perfgate.workspace import inputs
from perfgate.workspace.errors import Refused


class Unfinished(Exception):
    """Why no further run can be had: a command that failed, hangs, or wrote nothing."""


@dataclass(frozen=True, slots=True)
class Side:
    """What is run: the words of a command, with `{run}` and `{results}` to be filled in, and where."""

    words: tuple[str, ...]
    folder: Path = field(default_factory=Path.cwd)
    environment: Mapping[str, str] = field(default_factory=dict)

    def command(self, place: Place, number: int) -> Command:
        """The command of one run. The words and the environment tell it its number and where to write."""
        filled = tuple(
            word.replace("{run}", str(number)).replace("{results}", str(place.results)) for word in self.words
        )
        told = {"PERFGATE_RUN": str(number), "PERFGATE_RESULTS": str(place.results), **self.environment}
        return Command(filled, self.folder, told, place.log)


@dataclass(frozen=True, slots=True)
class Place:
    """Where one run is kept: the folder of its files, what it printed, and the mark of one that failed."""

    results: Path

    @property
    def log(self) -> Path:
        """What the command printed."""
        return self.results.with_name(self.results.name + ".log")

    @classmethod
    def made(cls, folder: Path) -> Place:
        """A new folder. Raises Refused where it cannot be made."""
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise Refused(f"{inputs.shown_path(str(folder))}: cannot keep runs there: {error.strerror}") from None
        return cls(folder.resolve())

    def mark_failed(self, why: str) -> None:
        """Say beside the files that they are not of a whole run."""
        self.results.with_name(self.results.name + ".FAILED.txt").write_text(why + "\n", encoding="utf-8")


def start(command: Command) -> Program:
    """Start a command. Raises Unfinished where that cannot be."""
    try:
        return Program(command)
    except OSError as error:
        raise Unfinished(f"{command.words[0]} cannot be started: {error.strerror or error}") from None


@contextmanager
def kept(place: Place) -> Iterator[None]:
    """Mark the files of a run that does not end well, however it ends."""
    try:
        yield
    except BaseException as error:
        place.mark_failed(str(error) or type(error).__name__)
        raise


def run_once(command: Command, timeout: float) -> None:
    """Run a command to its end, and end what it leaves behind. Raises Unfinished where it fails or hangs."""
    program = start(command)
    try:
        code = program.wait(timeout)
        words = last_words(command.log)
        if code is None:
            raise Unfinished(f"the command hangs: it was ended after {timeout:g} s")
        if code:
            raise Unfinished(f"the command {described(code)}" + (f": {words}" if words else ""))
    finally:
        program.end()


@dataclass(frozen=True, slots=True)
class Written:
    """Files that match globs, as they were before a run; what is new or changed after it is the run's."""

    globs: tuple[str, ...]
    folder: Path
    before: Mapping[Path, tuple[int, int, int]]

    @classmethod
    def before_run(cls, globs: Sequence[str], folder: Path) -> Written:
        """Look at what is there."""
        return cls(tuple(globs), folder, _stamps(globs, folder))

    def collect(self, place: Place) -> Path:
        """Copy what was written into the run's folder; the file or folder that is the run. Raises Unfinished."""
        for path, stamp in sorted(_stamps(self.globs, self.folder).items()):
            if self.before.get(path) != stamp and not path.is_relative_to(place.results):
                target = place.results / _inside(path, self.folder.resolve())
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)
        files = [path for path in place.results.rglob("*") if path.is_file() and not path.name.startswith(".")]
        if not files and self.globs:
            raise Unfinished(f"the command wrote nothing that matches {' or '.join(self.globs)}")
        if not files and place.log.stat().st_size == 0:
            raise Unfinished("the command printed nothing and wrote nothing to $PERFGATE_RESULTS ({results})")
        if not files:
            return place.log
        return files[0] if len(files) == 1 else place.results


def _inside(path: Path, folder: Path) -> Path:
    """Where a file is kept: as it lies in the folder of the command, or with its whole path where it lies elsewhere."""
    return path.relative_to(folder if path.is_relative_to(folder) else path.anchor)


def _stamps(globs: Sequence[str], folder: Path) -> dict[Path, tuple[int, int, int]]:
    """The files that match, with what changes when one is written."""
    found = (Path(name) for pattern in globs for name in glob(str(folder / pattern), recursive=True))
    files = {path.resolve(): path.stat() for path in found if path.is_file()}
    return {path: (stat.st_mtime_ns, stat.st_size, stat.st_ino) for path, stat in files.items()}
