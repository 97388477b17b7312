"""Build and run a command for the items of a list, such as commits or package versions, as a search asks for them.

An item of `--over` runs in the working directory. A commit is built once, in a worktree that stays until the end.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from socket import socket
from statistics import fmean

from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.core.file_mappings import FileMapping
from perfgate.measuring.command_cost import cost_beside
from perfgate.measuring.kept_runs import ProgramSide, build, new_run
from perfgate.measuring.lockstep import listening
from perfgate.measuring.paired_run import NoTurns, SideFailed, read_sides, steps_by_turns, write_pair
from perfgate.measuring.programs import RunFailed, Stopped, finish
from perfgate.measuring.worktrees import add_worktree, remove_worktree, side_in
from perfgate.workspace.commit_files import Commit

#: The environment variable with which the command gets the name of its item.
ITEM = "PERFGATE_ITEM"


class ItemProgram(Struct, frozen=True):
    """The commands for each item. Times are in seconds; words may have the placeholders {item}, {run} and {results}."""

    command: tuple[str, ...]
    build: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    timeout: float = 600.0
    hook_timeout: float = 60.0
    format: str | None = None
    #: The mappings of files of the team's own tools.
    mappings: Sequence[FileMapping] = ()
    #: Further environment variables.
    env: tuple[tuple[str, str], ...] = ()


class ItemFailed(RunFailed):
    """The program of one item of a pair failed; `item` is its position."""

    def __init__(self, why: str, item: int) -> None:
        super().__init__(why)
        self.item = item


class ItemRunner(Struct):
    """Runs items, which methods name by their position in `names`. Make it with `item_runner`."""

    program: ItemProgram
    #: The folder of all files: those of runs and builds, and worktrees.
    folder: Path
    names: Sequence[str]
    #: The commit of each item; empty for items in the working directory.
    commits: Sequence[Commit]
    #: The socket at which two programs take turns.
    listener: socket
    #: The seconds of each build and run, to estimate the cost of the next one.
    build_times: list[float] = field(default_factory=list)
    run_times: list[float] = field(default_factory=list)
    #: How often the command was started.
    started: int = 0

    def run(self, item: int, number: int) -> Path:
        """Run an item; return the file or folder that it wrote. `number`: that of the run. Raises RunFailed."""
        side, began = self._side(item), time.monotonic()
        with new_run(self.folder / "runs" / f"{number:03d}", side, number, self.program.results) as run:
            self.started += 1
            with cost_beside(run.results):
                finish(run.start(), self.program.timeout)
            found = run.collect()
        self.run_times.append(time.monotonic() - began)
        return found

    def run_pair(self, base: int, item: int, number: int) -> Path:
        """Run two items by turns; return the file of the pair. Raises NoTurns, ItemFailed and RunFailed."""
        positions = {"base": base, "new": item}
        sides = {}
        for name, position in positions.items():
            try:
                sides[name] = self._side(position)
            except Stopped:
                raise
            except RunFailed as error:
                raise ItemFailed(str(error), position) from None
        top, program = self.folder / "runs" / f"{number:03d}", self.program
        times = program.hook_timeout, program.timeout
        self.started += len(sides)
        began = time.monotonic()  # the builds have times of their own
        try:
            found = steps_by_turns(self.listener, top, sides, number, program.results, times)
            path = top / "pair.json"
            write_pair(path, read_sides(found, program.format, program.mappings), number, pairing="in-turn")
        except NoTurns:
            shutil.rmtree(top, ignore_errors=True)
            raise
        except SideFailed as error:  # for the user, an item failed: a search has no sides
            raise ItemFailed(error.why, positions[error.side]) from None
        self.run_times.append(time.monotonic() - began)
        return path

    def cost(self, item: int) -> float:
        """Return the expected seconds of a run of an item, with its build if it is not built; 1 before all runs."""
        run = fmean(self.run_times) if self.run_times else 1.0
        return run if self._is_built(item) or not self.build_times else run + fmean(self.build_times)

    def _side(self, item: int) -> ProgramSide:
        """Check out and build an item, if that is not done; return its command. Raises RunFailed and Refused."""
        name, program = self.names[item], self.program
        command = tuple(word.replace("{item}", name) for word in program.command)
        builder = tuple(word.replace("{item}", name) for word in program.build)
        side = ProgramSide(command)
        if self.commits:
            top = self._top(item)
            if add_worktree(self.commits[item], top):
                self._mark(item).unlink(missing_ok=True)  # it was built in a folder that is gone
            side = side_in(self.commits[item], top, command)
        side = replace(side, environment={**side.environment, **dict(program.env), ITEM: name})
        if builder and not self._is_built(item):
            began, path = time.monotonic(), self.folder / "builds" / f"{item:05d}"
            # `build` needs a new folder: remove what an earlier build of this item left
            for old in path.parent.glob(f"{path.name}*") if path.parent.exists() else ():
                shutil.rmtree(old) if old.is_dir() else old.unlink()
            build(path, replace(side, words=builder), program.timeout)
            self._mark(item).touch()
            self.build_times.append(time.monotonic() - began)
        return side

    def _is_built(self, item: int) -> bool:
        return not self.program.build or self._mark(item).exists()

    def _mark(self, item: int) -> Path:
        """Return the path of the file that exists once an item is built."""
        place = self._top(item) if self.commits else self.folder / "builds" / f"{item:05d}"
        return place.with_name(f"{place.name}.built")

    def _top(self, item: int) -> Path:
        return (self.folder / "worktrees" / self.commits[item].sha[:12]).resolve()

    def remove_worktrees(self) -> None:
        """Remove all worktrees of this search, also those that an interrupted search left."""
        if not self.commits:
            return
        top = self.folder / "worktrees"
        for path in [path for path in top.glob("*") if path.is_dir()]:
            remove_worktree(self.commits[0], path.resolve())  # any commit: it names the repository
        shutil.rmtree(top, ignore_errors=True)


@contextmanager
def item_runner(
    program: ItemProgram, folder: Path, names: Sequence[str], commits: Sequence[Commit]
) -> Iterator[ItemRunner]:
    """Yield the runner of items, and remove its worktrees in the end, also after a signal."""
    with ExitStack() as stack:
        runner = ItemRunner(program, folder, names, commits, stack.enter_context(listening()))
        stack.callback(runner.remove_worktrees)
        yield runner
