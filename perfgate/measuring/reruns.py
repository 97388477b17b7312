"""`perfgate run --reruns N`: one run, and N more if its result is suspect.

The results stay where the command writes them, each file or folder that matches a glob is one run, and the output of
the command is shown. Before the next run they move into the folder of the runs, so that nothing old counts as new.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path

from perfgate.core import Report
from perfgate.measuring.programs import Command, RunFailed, run_once
from perfgate.measuring.until_settled import JudgeRuns, MeasuringOptions, Tell, until_settled


def run_again_if_suspect(
    options: MeasuringOptions, words: tuple[str, ...], measured: Sequence[str], judge_runs: JudgeRuns, tell: Tell
) -> Report:
    """Measure and judge; if the result is suspect, measure again and judge all runs together.

    Parameters
        options: `most_runs` counts the first run, too.
        words: the command. PERFGATE_RUN is the number of the run.
        measured: the results of the first run, if it was made already.
    """
    Path(options.keep).mkdir(parents=True, exist_ok=True)
    runs = _RunsInPlace(options, words, tell, [Path(path) for path in measured])
    return until_settled(options, runs.measure, judge_runs, "run", tell)


@dataclass(slots=True)
class _RunsInPlace:
    """Makes runs whose results stay in place until the next run."""

    options: MeasuringOptions
    words: tuple[str, ...]
    tell: Tell
    latest: list[Path]
    earlier: list[Path] = field(default_factory=list)

    def measure(self, number: int) -> list[Path]:
        """Make the run of a number; return all runs so far. Raises RunFailed."""
        if number == 1 and self.latest:
            return self.latest
        if number > 1:
            self.tell(f"suspect: measuring again, {number - 1} of {self.options.most_runs - 1}")
        old = [path for pattern in self.options.results for path in self._matches(pattern) if path not in self.latest]
        if old and number <= 2:
            self._move(old, "before")
        self.earlier += self._move(self.latest, str(number - 1))
        self.latest = []
        run_once(Command(self.words, Path.cwd(), {"PERFGATE_RUN": str(number)}, log=None), self.options.timeout)
        for pattern in self.options.results:
            found = self._matches(pattern)
            if not found:
                raise RunFailed(f"the command wrote nothing that matches {pattern}")
            self.latest += [path for path in found if path not in self.latest]
        return [*self.earlier, *self.latest]

    def _matches(self, pattern: str) -> list[Path]:
        """Return the files and folders that a glob matches, outside of the folder of the runs."""
        found = (Path(name) for name in sorted(glob(pattern, recursive=True)))
        return [path for path in found if Path(self.options.keep) not in path.parents]

    def _move(self, paths: Sequence[Path], name: str) -> list[Path]:
        """Move results into a folder of the runs; return where they are now."""
        folder = Path(self.options.keep) / name
        shutil.rmtree(folder, ignore_errors=True)
        moved = []
        for path in paths:
            target = folder / Path(*(part for part in Path(os.path.relpath(path)).parts if part != ".."))
            target.parent.mkdir(parents=True, exist_ok=True)
            moved.append(Path(shutil.move(path, target)))
        return moved
