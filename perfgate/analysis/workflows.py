"""Attacks by a GitHub workflow: events, tokens and steps that let a pull request turn the gate green.

The rights of each event and of the token are described in
https://docs.github.com/en/actions/reference/security/secure-use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from perfgate.analysis.attacks import Attack
from perfgate.analysis.scripts import JUDGES, LONGEST, WANTS_RED, judges_by_a_branch, plain_script, what_drops_the_code
from perfgate.core import Location

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
    r"\$\{\{(?:(?!\$\{\{|\}\}).)*?"
    r"(?:github\.head_ref|pull_request\.(?:title|body|head\.ref|head\.label)|comment\.body|issue\.title)"
)
#: A call that imports the modules of the working directory, which a pull request can write.
_IMPORTS_ALL = re.compile(r"\bpython[\d.]*(?: +(?!-\w*[IP])[\w.=-]+){0,6}? +-m +perfgate\b")
#: The action of perfgate as a step uses it; `./` in perfgate's own repository.
_ACTION = re.compile(r"(?:[\w.-]+/perfgate(?:/action)?@.+|\./)")
#: A part of a condition that is true for every pull request of a workflow that is green so far; its group is an event.
_TRUE = re.compile(r"(?:true|always\(\)|success\(\)|! *cancelled\(\)|github\.event_name == '(\w+)')", re.I)
#: The rights of a token that can neither write the code nor set a check.
_HARMLESS = ("security-events",)


def workflow_attacks(document: Any, locate: Locate) -> list[Attack]:
    """Return the attacks that would turn the gate of a workflow green; none if it judges no pull requests."""
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
    pulls = frozenset(events).intersection(("pull_request", *_PRIVILEGED))
    own = {name: job for name, job in jobs if pulls and isinstance(job, dict)}
    return [_Job(locate, ("jobs", name), job, pulls, _shell(job, data)) for name, job in own.items()]


class _Job(Struct, frozen=True):
    """A job of a workflow for pull requests."""

    locate: Locate
    path: _Path
    job: Mapping[str, Any]
    #: The events of pull requests that start it: `pull_request`, and those of `_PRIVILEGED`.
    events: frozenset[str]
    #: The shell of steps that name none; "" for that of GitHub.
    shell: str

    @property
    def is_privileged(self) -> bool:
        return not self.events.isdisjoint(_PRIVILEGED)

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
        # the permissions of the job, or else those of the workflow; GitHub's default may write
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
            script = _script(step)
            if len(str(step.get("run", ""))) > LONGEST:
                yield self.attack(f"only {LONGEST:,} characters of this script are read", "steps", number, "run")
            if _WRITTEN.search(script):
                yield self.attack("a title or branch name becomes a command of your script", "steps", number, "run")
            if not _is_gate(step):
                earlier += script
                continue
            if earlier and judges_by_a_branch(script):
                what = "an earlier step can move the ref of the rules: resolve it before, and give its hash"
                yield self.attack(what, "steps", number, "run")
            yield from self.of_gate(number, step, script)

    def of_gate(self, number: int, step: Mapping[str, Any], script: str) -> Iterator[Attack]:
        """Yield the attacks by a step that judges."""
        if step.get("continue-on-error") not in (None, False):
            yield self.attack("the job goes on if the gate fails", "steps", number, "continue-on-error")
        if self.fetched and _IMPORTS_ALL.search(script) and "PYTHONSAFEPATH" not in str((script, step.get("env"))):
            what = "`python -m perfgate` imports modules of the pull request: use `perfgate`, or give python -I"
            yield self.attack(what, "steps", number, "run")
        dropped = what_drops_the_code(script, str(step.get("shell", self.shell)))
        if dropped is not None:
            yield self.attack(dropped, "steps", number, "run")
        yield from self.of_policy(number, script, _with(step))

    def of_policy(self, number: int, script: str, options: Mapping[str, Any]) -> Iterator[Attack]:
        """Yield the attacks by rules of the pull request, or without a baseline."""
        own = "a pull request is judged by its own rules"
        commands = [found[0] for found in JUDGES.finditer(script) if not found[0].startswith("perfgate report")]
        commands = [] if WANTS_RED.search(script) else commands  # a test of the gate has its own rules
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
        # a gate in one of these jobs sees that this job was skipped
        others = [job for job in jobs if self.path[1] in _names(job.get("needs")) and _asks_needs(job)]
        skipped = "a skipped {} is green: a pull request that `if` leaves out is not judged"
        if not _is_true(self.job.get("if", True), self.events) and not others:
            yield self.attack(skipped.format("check"), "if")
        gates = [number for number, step in self.steps if _is_gate(step)]
        if not any(_is_true(dict(self.steps)[number].get("if", True), self.events) for number in gates):
            yield self.attack(skipped.format("step"), "steps", gates[0], "if")
        reports = [number for number, step in self.steps if _is_gate(step) and _with(step).get("report")]
        if reports and "needs" in self.job and not _asks_needs(self.job):
            what = "a measuring job that is skipped is not missed: the input needs is not given"
            yield self.attack(what, "steps", reports[0])


def _is_gate(step: Mapping[str, Any]) -> bool:
    return bool(_ACTION.fullmatch(str(step.get("uses", "")))) or bool(JUDGES.search(_script(step)))


def _is_true(condition: Any, events: frozenset[str]) -> bool:
    """Return whether a condition is true for every pull request, by which one of `events` starts the job.

    `||` is not read if there are inner parentheses.
    """
    text = str(condition).strip().removeprefix("${{").removesuffix("}}")
    alternatives = [text] if "(" in text.replace("()", "") else text.split("||")
    return any(all(_is_true_part(part.strip(), events) for part in one.split("&&")) for one in alternatives)


def _is_true_part(part: str, events: frozenset[str]) -> bool:
    found = _TRUE.fullmatch(part)
    return found is not None and (found[1] is None or found[1] in events)


def _shell(*places: Mapping[str, Any]) -> str:
    """Return the shell that the first of a job and its workflow names for all steps."""
    named = [_mapping(_mapping(place.get("defaults")).get("run")).get("shell") for place in places]
    own = "pwsh" if "windows" in str(places[0].get("runs-on")) else ""
    return str(next(filter(None, named), own))


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
    """Return the script of a step, or its first characters, with continued lines joined, and without comments."""
    return plain_script(str(step.get("run", ""))[:LONGEST])


def _names(found: Any) -> list[str]:
    """Return the names in a text, a list or a mapping; none of anything else."""
    if isinstance(found, str):
        return [found]
    return [str(one) for one in found] if isinstance(found, list | dict) else []
