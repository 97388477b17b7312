"""`perfgate run`: the user's command in fresh processes, one after the other, until the rules have their answers.

All verdicts are looked at after every run. Each of at most N looks uses 1/N of every rule's error rate (Bonferroni),
so the chance that any look is wrong stays what the rule allows. A suspicion ends nothing: it counts at the last look.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from perfgate.commands.check import CheckRequest, check
from perfgate.core import Location, Problem, Report, Verdict
from perfgate.judge.report import with_problems
from perfgate.measuring.one_run import Place, Side, Unfinished, Written, kept, run_once
from perfgate.workspace import inputs
from perfgate.workspace.errors import Refused
from perfgate.workspace.machine import machine_facts
from perfgate.workspace.options import typed_path
from perfgate.workspace.rule_source import policy_source, read_rules

#: Reasons of an error that one run more may settle.
_CURABLE = ("too-few-runs",)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything that `perfgate run` is told. Times are in seconds."""

    check: CheckRequest
    #: Globs of what the command writes, relative to where it runs, beside `$PERFGATE_RESULTS`.
    results: tuple[str, ...] = ()
    runs: int = 10
    #: Whether all of them are made, whatever the answers, which are then one look at the end.
    every: bool = False
    time_budget: float | None = None
    #: How long a process may be silent (take no step), or a whole run may take where it takes none.
    timeout: float = 600.0
    #: Where the runs are kept.
    keep: str = "perfgate-runs"


#: Makes the run or pair of a number, and returns the file or folder that holds it. Raises Unfinished.
Measure = Callable[[int], Path]
Tell = Callable[[str], None]


class Stopped(Unfinished):
    """A signal has asked for the end."""


def run(request: RunRequest, words: tuple[str, ...], tell: Tell) -> Report:
    """Run a command until its verdicts are settled. Raises Refused for usage errors."""
    side, folder = Side(words), folder_of(request)

    def measure(number: int) -> Path:
        place = Place.made(folder / f"run-{number:03d}")
        with kept(place):
            written = Written.before_run(request.results, side.folder)
            run_once(side.command(place, number), request.timeout)
            return written.collect(place)

    return until_settled(request, measure, "run", tell)


def until_settled(request: RunRequest, measure: Measure, noun: str, tell: Tell) -> Report:
    """Measure and judge until every verdict is settled, or runs or time are spent; a fault is exit 3 with why."""
    if early := _rules_in_error(request):
        return early
    began, longest = time.monotonic(), 0.0
    paths: list[Path] = []
    report, fault = None, None
    _note_facts(request, "before")
    with signals():
        for number in range(1, request.runs + 1):
            spent = time.monotonic() - began
            if request.time_budget is not None and number > 1 and spent + longest > request.time_budget:
                tell(f"the time budget of {request.time_budget:g} s has no room for {noun} {number}")
                break
            try:
                paths.append(measure(number))
                _note_facts(request, "after")
                report = _look(request, paths)
            except Unfinished as error:
                fault = f"{noun} {number}: {error}"
                break
            longest = max(longest, time.monotonic() - began - spent)
            tell(progress(report, noun, number, request.runs))
            if is_settled(report) and not request.every:
                break
    return _with_fault(request, report, fault, noun)


def is_settled(report: Report) -> bool:
    """Whether one run more could not change any answer but by accident."""
    broken = any(problem.severity == "error" and problem.key is None for problem in report.problems)
    return broken or not any(map(is_open, report.verdicts))


def is_open(verdict: Verdict) -> bool:
    """Whether a verdict may still be settled by runs; a suspicion is open until the last one."""
    if verdict.outcome == "error":
        return verdict.reason in _CURABLE
    return verdict.suspect or verdict.outcome in ("inconclusive", "suspect")


def progress(report: Report, noun: str, number: int, most: int) -> str:
    """What is open after a run, and what it would take."""
    waiting = [verdict for verdict in report.verdicts if is_open(verdict)]
    head = f"{noun} {number} of at most {most}: {len(report.verdicts) - len(waiting)} settled, {len(waiting)} open"
    lines = [f"  {v.metric} {v.statistic or ''}: {v.outcome}; {v.next_step}" for v in waiting[:5]]
    more = [f"  and {len(waiting) - 5} more"] if len(waiting) > 5 else []
    return "\n".join([head, *lines, *more])


def _look(request: RunRequest, paths: list[Path]) -> Report:
    """The verdicts of all runs so far, at the share of the error rate that a look has which may end them."""
    names = tuple(typed_path(str(path)) for path in paths)
    facts = tuple(str(Path(request.keep) / f"machine-{when}.json") for when in ("before", "after"))
    options = replace(request.check.options, runs=names, env=(*facts, *request.check.options.env))
    return check(replace(request.check, options=options, looks=1 if request.every else request.runs))


def _rules_in_error(request: RunRequest) -> Report | None:
    """The report of rules that cannot be used: nothing is run for them. Raises Refused."""
    options = request.check.options
    ruleset, _, _ = read_rules(policy_source(options.policy_ref), options.rules, options.suite)
    return None if ruleset is not None else check(request.check)


def folder_of(request: RunRequest) -> Path:
    """Where runs are kept: a new or empty folder. Raises Refused."""
    folder = Path(request.keep)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(f"--keep {request.keep}: holds something already: remove it, or name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"--keep {request.keep}: cannot be made: {error.strerror or error}") from None
    return folder


def _note_facts(request: RunRequest, when: str) -> None:
    """The facts of the machine, beside the runs."""
    facts, _ = machine_facts()
    path = Path(request.keep) / f"machine-{when}.json"
    path.write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _with_fault(request: RunRequest, report: Report | None, fault: str | None, noun: str) -> Report:
    """The last report, with why there were no more runs; without any run the report of the rules alone."""
    if report is None:
        report = replace(check(request.check), verdicts=(), problems=())
    if fault is None:
        return report
    kept_in = inputs.shown_path(request.keep)
    return with_problems(report, [Problem("error", f"{fault}; what was measured is kept", Location(kept_in))])


@contextmanager
def signals() -> Iterator[None]:
    """SIGTERM and SIGINT end the measurement in order, with what was measured; a second one changes nothing."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        for known in before:
            signal.signal(known, signal.SIG_IGN)
        raise Stopped(f"stopped by {signal.Signals(number).name}")

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        for number in before:
            signal.signal(number, stop)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
