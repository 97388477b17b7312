"""Measure and judge by turns, until the rules have their answers or runs or time are used up.

All verdicts are judged after every run; each time is a look (`run_again_if_suspect` judges only after the first and
after the last one). The looks share the error rate of a rule (`perfgate.stats.sequential`), so the chance that any of
them is wrong stays below the rate that the rule allows. A doubt, or a failure that only one run shows, does not end the
runs before the last look.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.core import Fact, Location, Problem, Report, Verdict
from perfgate.core.runs import TENANTS
from perfgate.core.wording import MACHINE_FILE
from perfgate.judge.report import with_problems
from perfgate.measuring.command_cost import command_cost, move_results, sampled_into
from perfgate.measuring.kept_runs import EVERYTHING, NewRun, ProgramSide, make_folder, matching, new_folder, new_run
from perfgate.measuring.programs import Program, RunFailed, finish, pinned
from perfgate.recorder.watch import sampled
from perfgate.words import in_short
from perfgate.workspace.options import shown_path
from perfgate.workspace.output_files import replace_file
from perfgate.workspace.surroundings import machine_facts

StopRule = Literal["final", "never", "unless-suspect"]
#: Shows a line to the user.
Tell = Callable[[str], None]
#: Shows what is being made while a block runs. It gets a text, and the seconds that are left at most, if known.
Watch = Callable[[str, float | None], AbstractContextManager[None]]


class MeasuringOptions(Struct, frozen=True):
    """The number of runs that `perfgate run` makes, and the place of its files. Times are in seconds."""

    #: Globs of the files that the command writes, relative to its folder, beside `$PERFGATE_RESULTS`.
    results: tuple[str, ...] = ()
    most_runs: int = 10
    #: When to stop before `most_runs`: if every verdict is final, never, or unless the first run leaves a doubt.
    stop: StopRule = "final"
    time_budget: float | None = None
    #: How long a process may take for a step, or for a whole run that has no steps.
    timeout: float = 600.0
    #: The folder in which the runs are kept.
    keep: str = "perfgate-runs"
    #: The processors that the programs may use; None for all.
    cpus: frozenset[int] | None = None
    #: Further environment variables of the programs.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Shows the user that a run is being made; None shows nothing.
    watch: Watch | None = None
    #: The runs that are made even if every verdict is final before.
    fewest_runs: int = 1

    @property
    def looks(self) -> tuple[int, ...] | None:
        """The numbers of runs after which verdicts may end the measuring; None if they are judged as `check` does."""
        if self.stop == "unless-suspect":
            return None
        return tuple(range(1, self.most_runs + 1)) if self.stop == "final" else (self.most_runs,)


#: Returns the globs of the results of the first run, which began with `EVERYTHING`.
FindResults = Callable[[NewRun], Sequence[str]]
#: Makes the run or pair of a number; returns the files or folders of all so far, in one list that it keeps up to date
#: if it moves them. Raises RunFailed.
MeasureRun = Callable[[int], Sequence[Path]]
#: Judges the runs so far. It gets their files, and the facts of the machine by the files that contain them.
JudgeRuns = Callable[[Sequence[Path], Mapping[str, Mapping[str, Fact]]], Report]


def run_until_settled(options: MeasuringOptions, words: tuple[str, ...], judge_runs: JudgeRuns, tell: Tell) -> Report:
    """Run a command until every verdict is final, or as `options` say. Raises Refused for usage errors."""
    side, folder = ProgramSide(words, environment=options.environment, cpus=options.cpus), new_folder(options.keep)
    made: list[Path] = []

    def measure(number: int) -> list[Path]:
        with new_run(folder / f"run-{number:03d}", side, number, options.results) as run:
            with sampled(run.results) as note, command_cost(note):  # `note` adds the cost to the samples' file
                finish(run.start(), options.timeout)
            made.append(run.collect(tell))
        return made

    return until_settled(options, measure, judge_runs, "run", tell)


def run_again_if_suspect(
    options: MeasuringOptions, words: tuple[str, ...], measured: Sequence[str], judge_runs: JudgeRuns, tell: Tell
) -> Report:
    """Make one run; if it leaves a verdict open, make all other runs, and judge all of them together.

    The results stay where the command writes them, and its output is shown. Each file or folder that matches a glob is
    one run. Before the next run they move into the folder of the runs, so that an old result does not count as new.

    `options`: `most_runs` counts the first run, too. `words`: the command. PERFGATE_RUN is the number of the run.
    `measured`: the results of the first run, if it was made already.
    """
    keep = Path(options.keep)
    make_folder(keep)
    made = [Path(path) for path in measured]  # the results of all runs, those of the latest one last
    latest = list(made)
    first = 2 if made else 1

    def measure(number: int) -> list[Path]:
        nonlocal latest
        if number < first:
            return made
        if number > 1:
            tell(f"not settled: measuring again, {number - 1} of {options.most_runs - 1}")
        there = chain.from_iterable(_matches(pattern, keep) for pattern in options.results)
        old = [path for path in dict.fromkeys(there) if path not in latest]
        if old and number == first:  # of earlier commands; before later runs, `latest` has all that matches
            move_results(old, keep / "before")
        made[len(made) - len(latest) :] = move_results(latest, keep / str(number - 1))
        latest = []  # filled below: the samples go beside the results of this run
        with sampled_into(keep / f"run-{number:03d}", latest):
            with pinned(options.cpus):
                program = Program(words, Path.cwd(), {"PERFGATE_RUN": str(number), **options.environment})
            finish(program, options.timeout)
            results = [_matches(pattern, keep) for pattern in options.results]
            if [] in results:
                raise RunFailed(f"the command wrote nothing that matches {options.results[results.index([])]}")
            latest += dict.fromkeys(chain.from_iterable(results))
        made.extend(latest)
        return made

    return until_settled(options, measure, judge_runs, "run", tell)


def _matches(pattern: str, keep: Path) -> list[Path]:
    """Return the files and folders that a glob matches, outside of the folder of the runs."""
    found = sorted(path for path in matching(pattern) if not path.absolute().is_relative_to(keep.absolute()))
    return [path for path in found if not path.name.endswith(MACHINE_FILE)]


def until_settled(
    options: MeasuringOptions, measure: MeasureRun, judge_runs: JudgeRuns, noun: str, tell: Tell
) -> Report:
    """Measure and judge until every verdict is final, or runs or time are used up. A failed run is an error.

    `noun`: the word for what `measure` makes, such as `run` or `pair`.
    """
    report, fault, said = None, None, None
    unjudged: Sequence[Path] = ()
    facts = noted_facts(options, "before")
    for number, left in _numbers(options, noun, tell):
        head = f"{noun} {number} of at most {options.most_runs}"
        try:
            with options.watch(head, left) if options.watch else nullcontext():
                paths = measure(number)
            facts |= noted_facts(options, "after")
            if options.stop == "unless-suspect" and 1 < number < options.most_runs:
                unjudged = paths  # judged after the last run: without `looks`, each judgement has the whole error rate
                continue
            unjudged = ()
            report = judge_runs(paths, facts)
        except RunFailed as error:  # or a signal, which may come at any place
            fault = f"{noun} {number}: {error}; what was measured is kept"
            break
        waiting = [verdict for verdict in report.verdicts if is_open(verdict)]
        progress = "all decided" if report.verdicts else ""
        if waiting:
            progress = f"open: {in_short.names(waiting)}"
        if progress != said or not progress:  # a log shows only what is new
            tell(f"{head}: {progress}".rstrip(": "))
        said = progress
        # an error of a whole run, not of one metric: other runs would have it, too
        is_broken = any(problem.severity == "error" and problem.key is None for problem in report.problems)
        is_final = is_broken or (not waiting and number >= options.fewest_runs)
        if is_final and options.stop != "never":
            break
    if report is None or unjudged:  # no run was judged, or a later one failed or had no time
        report = judge_runs(unjudged, facts)
    if fault is None:
        return report
    return with_problems(report, [Problem("error", fault, Location(shown_path(options.keep)))])


def _numbers(options: MeasuringOptions, noun: str, tell: Tell) -> Iterator[tuple[int, float | None]]:
    """Yield the number of each run until runs or time are used up, and the most seconds that are left.

    These are the seconds that this run and all later ones take at most; None if that is unknown.
    """
    began = time.monotonic()
    spent = longest = 0.0
    for number in range(1, options.most_runs + 1):
        now = time.monotonic() - began
        longest, spent = max(longest, now - spent), now
        left = []
        if number > 1:
            left.append(spent / (number - 1) * (options.most_runs - number + 1))
        if options.time_budget is not None:
            if number > 1 and spent + longest > options.time_budget:
                tell(f"{noun} {number} would exceed the time budget of {options.time_budget:g} s")
                return
            left.append(max(options.time_budget - spent, 0.0))
        yield number, min(left, default=None)


def is_open(verdict: Verdict) -> bool:
    """Return whether more runs may change a verdict, or separate the effects of code and environment.

    They may change a doubt, and a change for the worse that only one run shows. They do not change a failed limit, a
    failed comparison with the anchor, or one without noise: a program that does the same would only measure the same.
    """
    if verdict.attribution is not None and not verdict.attribution.settled:
        return True
    if verdict.outcome == "error":
        return verdict.reason == "too-few-runs"
    if verdict.outcome == "fail":
        # `at_worst` is set only for a change that is compared with the noise
        has_noise = verdict.at_worst is not None and verdict.reason != "exact"
        return has_noise and verdict.new is not None and verdict.new.runs == 1
    return verdict.outcome == "undecided"


def noted_facts(options: MeasuringOptions, when: str) -> dict[str, Mapping[str, Fact]]:
    """Write the facts of the machine to a file; return them by its name. `when` is `before` or `after`."""
    ended = TENANTS if when == "after" else ""  # a program that just ended may still count as a user of the GPU
    facts = {name: fact for name, fact in machine_facts()[0].items() if name != ended}
    name = f"{options.keep}/machine-{when}.json"
    replace_file(name, (json.dumps(facts, indent=1, sort_keys=True) + "\n").encode())
    return {name: facts}


class RepeatedRuns(Struct, frozen=True):
    """The runs of one command: their files or folders, the seconds of each, and the files of the machine's facts."""

    paths: tuple[Path, ...]
    seconds: tuple[float, ...]
    facts: tuple[str, ...]


def repeated_runs(options: MeasuringOptions, words: tuple[str, ...], find: FindResults, tell: Tell) -> RepeatedRuns:
    """Run a command `options.most_runs` times. Raises RunFailed, Stopped after a signal, and the errors of `find`.

    `find` looks at all files that the first run wrote. Its globs decide which files belong to each run.
    """
    folder, globs = new_folder(options.keep), EVERYTHING
    side = ProgramSide(words, environment=options.environment)
    facts, paths, seconds = noted_facts(options, "before"), list[Path](), list[float]()
    for number in range(1, options.most_runs + 1):
        head = f"run {number} of {options.most_runs}"
        left = (options.most_runs - number + 1) * max(seconds) if seconds else None
        with new_run(folder / f"run-{number:03d}", side, number, globs) as run:
            began = time.monotonic()
            watch = options.watch(head, left) if options.watch else nullcontext()
            with watch, sampled(run.results) as note, command_cost(note):
                finish(run.start(), options.timeout)
            seconds.append(time.monotonic() - began)
            if number == 1:
                globs = tuple(find(run))
            own = replace(run, before=replace(run.before, globs=globs))  # only what `find` chose belongs to the run
            paths.append(own.collect(tell))
        tell(f"{head}: {seconds[-1]:.3g} s")
    facts |= noted_facts(options, "after")
    return RepeatedRuns(tuple(paths), tuple(seconds), tuple(facts))
