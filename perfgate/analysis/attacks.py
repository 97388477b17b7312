"""Attacks on a gate: ways for a pull request to pass with runs that a rule fails.

`rule_attacks` hides such runs from a rule, for example under another name. `workflow_attacks` looks for steps of a
GitHub workflow that turn the gate green. The rights of each event and of the token are described in
https://docs.github.com/en/actions/reference/security/secure-use.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.analysis.distortions import TELLING, reading, ways
from perfgate.analysis.plan import PAIRS
from perfgate.core import Key, Location, Run, Series, read_only
from perfgate.core.results import LOOKS
from perfgate.judge.doubts.copies import measured_twice
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge
from perfgate.rules.syntax.sentence import ChangeClause


class Attack(Struct, frozen=True):
    """An attack that would work, in words, and the place in the workflow or the rule that allows it."""

    what: str
    at: Location


#: Returns the replacement of a series that the rule reads; None to remove it.
_Hide = Callable[[Series], Series | None]


def _filled(series: Series, value: float) -> Series:
    """Return the series with this value in place of every number."""
    numbers = dict.fromkeys(series.aggregate, value)
    return replace(series, values=read_only(np.full(len(series.values), value)), aggregate=numbers)


#: The attacks that change a series, by their words.
_HIDDEN: Mapping[str, _Hide] = {
    "a run without the metric passes": lambda series: None,
    "a run with the metric under another name passes": lambda series: replace(
        series, key=Key.of(f"{series.key.metric}.hidden", **dict(series.key.labels))
    ),
    "a run with values that are not numbers passes": lambda series: _filled(series, float("nan")),
    "a run with infinite values passes": lambda series: _filled(series, float("inf")),
    "a run with no values passes": lambda series: replace(
        series, values=read_only(np.array([])), steps=None, aggregate={}
    ),
    "a run with another unit passes": lambda series: replace(series, unit="B" if series.unit != "B" else "s"),
}
_COPY = "a copy of a stored run passes as a new one"
_CLAIM = "a run that claims another `{}` passes: give the true one with --env, as the action does"


def rule_attacks(case: Case) -> tuple[list[Attack], int]:
    """Return the attacks on the rules that would work, and the number of those that were tried.

    `case.new` are runs that should pass. Only rules that fail on worse runs are attacked; the command `rules` names
    those that never fail.
    """
    found, count = list[Attack](), 0
    times = LOOKS if case.baseline.pairing is None else math.ceil(PAIRS / max(len(case.new), 1))  # as a gate measures
    stored = case.baseline.runs if case.baseline.pairing is None else case.baseline.runs * times
    case = replace(case, new=case.new * times, baseline=replace(case.baseline, runs=stored))
    for rule in case.ruleset.rules:
        own = replace(case, ruleset=replace(case.ruleset, rules=(rule,)))
        red = _red(own)
        if red is None:
            continue
        for what, attacked in _attacks(replace(own, new=red)):
            count += 1
            verdicts = judge(attacked)
            copies = measured_twice(attacked, verdicts, ()) if what == _COPY else []
            if not any(verdict.exit_code for verdict in verdicts) and not any(p.severity == "error" for p in copies):
                found.append(Attack(what, rule.at))
    return found, count


def _red(case: Case) -> tuple[Run, ...] | None:
    """Return worse runs that the only rule of the case fails; None if it fails none."""
    (rule,), unchanged = case.ruleset.rules, judge(case)
    for way in ways(rule, case.ruleset, case.new, unchanged):
        for amount in TELLING:
            worse = tuple(way.applied(run, amount) for run in case.new)
            if any(verdict.exit_code == 1 for verdict in judge(replace(case, new=worse))):
                return worse
    return None


def _attacks(case: Case) -> Iterator[tuple[str, Case]]:
    """Yield each attack on the only rule of a case, with the case that hides its failing runs in this way."""
    (rule,) = case.ruleset.rules
    reads = reading(rule, case.ruleset)
    for what, hide in _HIDDEN.items():
        hidden = ([hide(one) if reads(one.key) else one for one in run.series] for run in case.new)
        runs = zip(case.new, hidden, strict=True)
        yield what, replace(case, new=tuple(replace(run, series=tuple(filter(None, some))) for run, some in runs))
    is_change = any(isinstance(clause.asks, ChangeClause) for clause in rule.clauses)
    if is_change and case.baseline.place is not None and case.baseline.pairing is None:
        yield _COPY, replace(case, new=(replace(case.baseline.runs[0], source="copy", files=()),))
    for fact in sorted({one.fact for one in rule.when} - (case.facts.keys() - case.claimed)):
        facts = {**case.facts, fact: "another"}
        claimed = tuple(replace(run, environment={**run.environment, fact: "another"}) for run in case.new)
        yield _CLAIM.format(fact), replace(case, new=claimed, facts=facts)


#: The keys and indices that lead to a value of a workflow.
_Path: TypeAlias = tuple[str | int, ...]
#: Returns the place of a value, or of the nearest one around it.
Locate: TypeAlias = Callable[[_Path], Location]
#: Events that run the workflow of the base, with its secrets, for a pull request.
_PRIVILEGED = ("pull_request_target", "workflow_run", "issue_comment")
#: A ref that is the code of a pull request.
_CODE_OF_PULL = re.compile(r"github\.head_ref|pull_request\.head\.|workflow_run\.head_|refs/pull/|issue\.number")
#: Text that the author of a pull request writes: a script that contains it runs it as a command.
_WRITTEN = re.compile(
    r"\$\{\{[^}]*(?:github\.head_ref|pull_request\.(?:title|body|head\.ref|head\.label)|comment\.body|issue\.title)"
)
#: The action of perfgate as a step uses it.
_ACTION = re.compile(r"(?:[\w.-]+/perfgate(?:/action)?@.+|\./)")
#: A command that judges, up to the end of the command.
_JUDGES = re.compile(r"\bperfgate (?:check|run|report)\b[^\n;&|]*")
#: A command that judges, with its exit code dropped.
_SWALLOWED = re.compile(r"\bperfgate (?:check|run|report)\b[^\n;&|]*\|\|[ \t]*(?:true|:|exit 0|echo)")
#: A command that judges by a branch or tag, which code of the clone can move, and not by a hash.
_MOVABLE = re.compile(r"\bperfgate check\b[^\n;&|]*--policy-ref[ =][\"']?(?!\$|[0-9a-f]{40})\w")
#: A script that tests that the gate can fail.
_WANTS_RED = re.compile(r"""test "?\$\{?\w+\}?"? (?:=|-eq) [1-9]|! *perfgate """)
#: The rights of a token that can neither write the code nor set a check.
_HARMLESS = ("security-events",)


def workflow_attacks(document: Any, locate: Locate) -> list[Attack]:
    """Return the attacks that would turn the gate of a workflow green; none for one that judges no pull request."""
    found: list[Attack] = []
    for job in (jobs := _jobs_of_pulls(document, locate)):
        found += job.of_token(document.get("permissions"))
        found += job.of_steps()
        found += job.of_skipping([one.job for one in jobs]) if job.gates else ()
    return found


def judges_pull_requests(document: Any) -> bool:
    """Return whether a workflow runs perfgate for pull requests."""
    return any(job.gates for job in _jobs_of_pulls(document, lambda path: Location("")))


def _jobs_of_pulls(document: Any, locate: Locate) -> list[_Job]:
    """Return the jobs of a workflow that runs for pull requests; none of another one."""
    data = _mapping(document)
    events, jobs = _names(data.get("on")), _mapping(data.get("jobs")).items()
    is_privileged = any(event in _PRIVILEGED for event in events)
    if not is_privileged and "pull_request" not in events:
        return []
    return [_Job(locate, ("jobs", name), job, is_privileged) for name, job in jobs if isinstance(job, dict)]


class _Job(Struct, frozen=True):
    """A job of a workflow for pull requests; `is_privileged` if an event of `_PRIVILEGED` starts it."""

    locate: Locate
    path: _Path
    job: Mapping[str, Any]
    is_privileged: bool

    @property
    def steps(self) -> Sequence[tuple[int, Mapping[str, Any]]]:
        return _steps(self.job)

    @property
    def gates(self) -> bool:
        return any(_is_gate(step) for _, step in self.steps)

    def attack(self, what: str, *path: str | int) -> Attack:
        return Attack(what, self.locate((*self.path, *path)))

    @property
    def fetched(self) -> _Path | None:
        """The place in the job that fetches the code of a pull request; a usual checkout does for `pull_request`."""
        for number, step in self.steps:
            ref = str(_with(step).get("ref", ""))
            if str(step.get("uses", "")).startswith("actions/checkout@") and (
                not self.is_privileged or _CODE_OF_PULL.search(ref)
            ):
                return ("steps", number, "with", "ref")
            if self.is_privileged and re.search(r"gh pr checkout|git fetch .*pull/", _script(step)):
                return ("steps", number, "run")
        return None

    def of_token(self, outer: Any) -> Iterator[Attack]:
        """Yield the attacks by the token of the job."""
        if self.fetched is None:
            return
        if self.is_privileged:
            what = "your workflow runs the code of a pull request with the rights of the base"
            yield self.attack(what, *self.fetched)
        own, place = (self.job["permissions"], self.path) if "permissions" in self.job else (outer, ())
        may_write = [own] if own in ("write-all", None) else []
        if isinstance(own, dict):
            may_write = [name for name, right in own.items() if right == "write" and name not in _HARMLESS]
        whom = "pull requests of forks" if self.is_privileged else "the code of pull requests"
        if may_write and own is None:
            yield self.attack(f"your workflow sets no permissions, so it may give a token that writes to {whom}")
        elif may_write:
            within = (*place, "permissions", *([may_write[0]] if isinstance(own, dict) else []))
            yield Attack(f"your workflow gives a token that may write to {whom}", self.locate(within))

    def of_steps(self) -> Iterator[Attack]:
        """Yield the attacks by single steps."""
        earlier = ""
        for number, step in self.steps:
            script, attack = _script(step), self.attack
            if _WRITTEN.search(script):
                yield attack("a title or branch name becomes a command of your script", "steps", number, "run")
            if not _is_gate(step):
                earlier += script
                continue
            if earlier and _MOVABLE.search(script):
                what = "an earlier step can move the ref of the rules: resolve it before, and give its hash"
                yield attack(what, "steps", number, "run")
            if step.get("continue-on-error") not in (None, False):
                yield attack("the job goes on if the gate fails", "steps", number, "continue-on-error")
            if _SWALLOWED.search(script):
                yield attack("the script drops the exit code of the gate", "steps", number, "run")
            yield from self.of_policy(number, script, _with(step))

    def of_policy(self, number: int, script: str, options: Mapping[str, Any]) -> Iterator[Attack]:
        """Yield the attacks by rules of the pull request, or without a baseline."""
        own = "a pull request is judged by its own rules"
        commands = [found[0] for found in _JUDGES.finditer(script) if not found[0].startswith("perfgate report")]
        commands = [] if _WANTS_RED.search(script) else commands
        if any("--policy-ref" not in command for command in commands):
            yield self.attack(f"{own}: the command has no --policy-ref", "steps", number, "run")
        if "policy-ref" in options and not options["policy-ref"]:
            yield self.attack(f"{own}: policy-ref is empty", "steps", number, "with", "policy-ref")
        if any(branch.strip() in ("*", "**") for branch in str(options.get("policy-branches", "")).splitlines()):
            what = "a branch that nobody protects has the rules that judge"
            yield self.attack(what, "steps", number, "with", "policy-branches")
        lenient = re.search(r"--missing-baseline[ =](?:warn|skip)", script)
        if lenient or options.get("missing-baseline") in ("warn", "skip"):
            place = ("run",) if lenient else ("with", "missing-baseline")
            what = "results that claim another environment have no baseline, and pass"
            yield self.attack(what, "steps", number, *place)

    def of_skipping(self, jobs: Sequence[Mapping[str, Any]]) -> Iterator[Attack]:
        """Yield the ways to skip the job: for GitHub, a skipped job is a success, and so is one that ignores errors."""
        if self.job.get("continue-on-error") not in (None, False):
            yield self.attack("the workflow goes on if the gate fails", "continue-on-error")
        others = [job for job in jobs if self.path[1] in _names(job.get("needs")) and _asks_needs(job)]
        if "if" in self.job and "always()" not in str(self.job["if"]) and not others:
            yield self.attack("a skipped check is green: a pull request that `if` leaves out is not judged", "if")
        reports = [number for number, step in self.steps if _is_gate(step) and _with(step).get("report")]
        if reports and "needs" in self.job and not _asks_needs(self.job):
            what = "a measuring job that is skipped is not missed: the input needs is not given"
            yield self.attack(what, "steps", reports[0])


def _is_gate(step: Mapping[str, Any]) -> bool:
    return bool(_ACTION.fullmatch(str(step.get("uses", "")))) or bool(_JUDGES.search(_script(step)))


def _asks_needs(job: Mapping[str, Any]) -> bool:
    """Return whether a gate of the job gets the results of the jobs that it needs, so that it sees skipped ones."""
    return any(_is_gate(step) and "toJSON(needs)" in str(_with(step).get("needs", "")) for _, step in _steps(job))


def _steps(job: Mapping[str, Any]) -> Sequence[tuple[int, Mapping[str, Any]]]:
    steps = job.get("steps")
    return [(n, one) for n, one in enumerate(steps) if isinstance(one, dict)] if isinstance(steps, list) else []


def _with(step: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(step.get("with"))


def _mapping(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}


def _script(step: Mapping[str, Any]) -> str:
    """Return the script of a step, with continued lines joined."""
    return str(step.get("run", "")).replace("\\\n", " ")


def _names(found: Any) -> list[str]:
    """Return the names in a text, a list or a mapping."""
    return [found] if isinstance(found, str) else [str(one) for one in found or ()]
