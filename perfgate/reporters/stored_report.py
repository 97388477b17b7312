"""Read a stored report (`perfgate.report/1`): the inverse of `json_report`.

A stored report can come from anywhere, for example from the artifact of a fork, so everything in it is checked: the
schema is strict, and a document that this version would not write is refused. Callers compute the outcome again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from perfgate.core import (
    BROKEN_PROMISES,
    NO_STEP,
    Fact,
    Key,
    Location,
    MeanChange,
    NextStep,
    Outcome,
    Policy,
    Problem,
    Report,
    Severity,
    SourceFile,
    UnruledChange,
    Verdict,
)
from perfgate.core.coverage import Coverage
from perfgate.core.details import FactChange, ReportDetails
from perfgate.core.resource_limits import Limits
from perfgate.documents.json import JsonDocument, Path, load_json
from perfgate.documents.structs import violation
from perfgate.reporters import json_report
from perfgate.reporters.json_report import CauseDocument, CauseSummary, from_documents
from perfgate.reporters.plain_json import picked, stable

#: The largest report in bytes: about ten thousand verdicts.
MAX_BYTES = 16 << 20
#: The longest text in characters: far more than any name or message that perfgate writes.
LONGEST_TEXT = 1 << 16
_LIMITS = Limits(depth=16)
_LARGEST_INTEGER = 1 << 62
#: Outcomes that older versions wrote.
_OLDER = ("suspect", "inconclusive")
#: The value of an absent field.
_ABSENT = object()


class _ProblemDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A problem as the JSON has it."""

    severity: Severity
    message: str
    file: str
    line: int | None
    column: int | None
    metric: str | None
    labels: dict[str, str]
    excerpt: str | None


class _ReportDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A report as the JSON has it. Fields with a default are absent in older reports."""

    schema: Literal["perfgate.report/1"]
    outcome: Outcome
    exit_code: Literal[0, 1, 2, 3, 4]
    counts: dict[str, int]
    verdicts: tuple[Verdict, ...]
    problems: tuple[_ProblemDocument, ...]
    inputs: tuple[SourceFile, ...]
    environment: dict[str, Fact]
    policy: Policy
    suite: str
    baseline: str | None
    approve_command: str | None
    evidence: ReportDetails
    accept: NextStep | None = None
    geometric_means: tuple[MeanChange, ...] = ()
    unruled: tuple[UnruledChange, ...] = ()
    unruled_count: int = 0
    unknown_facts: tuple[str, ...] = ()
    fact_changes: tuple[FactChange, ...] = ()
    causes: tuple[CauseDocument, ...] = ()
    cause_summary: CauseSummary | None = None
    identical: bool = False
    coverage: Coverage | None = None


def read(data: bytes, name: str) -> tuple[Report | None, list[Problem]]:
    """Return the report in a file called `name`, or None, and the problems. Its outcome is not checked."""
    if len(data) > MAX_BYTES:
        return None, [_refused(name, f"is larger than {MAX_BYTES >> 20} MiB, the limit for reports")]
    try:
        document = load_json(data.decode("utf-8"), name, _LIMITS)
    except UnicodeDecodeError:
        return None, [_refused(name, "is not UTF-8 text")]
    if document.problems:
        return None, list(document.problems)
    schema = document.data.get("schema") if isinstance(document.data, dict) else None
    if schema != json_report.SCHEMA:
        found = f"has the schema {str(schema)[:60]!r}" if schema else "has no schema"
        advice = f"write a {json_report.SCHEMA} with `perfgate check --json`"
        return None, [_refused(name, f"{found}, so it is not a report: {advice}")]
    excess = next(_beyond_bounds(document.data), None)
    if excess is not None:
        return None, [_at(document, excess, "is too long or too large for a report")]
    return _converted(document)


def _converted(document: JsonDocument) -> tuple[Report | None, list[Problem]]:
    """Make a report of a document, and write it again: a difference is a problem."""
    data = _with_outcomes_of_today(document.data)
    try:
        form = msgspec.convert(_with_steps(data), _ReportDocument)
    except msgspec.ValidationError as error:
        found = violation(error)
        return None, [_at(document, _as_written(document, found.path), found.message)]
    report = _report(form)
    written = load_json(json_report.render(report), document.name).data
    # `written` counts outcomes as perfgate names them now. The counts of the document are compared below.
    other = _difference({**data, "counts": written["counts"]}, written)
    if other is not None:
        return None, [_at(document, other, f"{'.'.join(map(str, other))} is not what perfgate writes")]
    if form.counts != dict(Counter(one["outcome"] for one in document.data["verdicts"])):
        message = "the counts do not match the verdicts: the report was altered"
        return report, [Problem("error", message, document.locate(("counts",)))]
    return report, []


def _with_outcomes_of_today(data: dict[str, Any]) -> dict[str, Any]:
    """Return the document with the outcomes of today for `suspect` and `inconclusive`, which older versions wrote."""
    data = dict(data)
    verdicts, policy = data.get("verdicts"), data.get("policy")
    if isinstance(verdicts, list):
        data["verdicts"] = list(map(_of_today, verdicts))
    if isinstance(policy, dict) and policy.get("own_outcome") in _OLDER:  # its exit code is not stored
        data["policy"] = {**policy, "own_outcome": "undecided"}
    if data.get("outcome") in _OLDER:
        severities = [one.get("severity") for one in data.get("problems") or () if isinstance(one, dict)]
        data["outcome"] = "error" if "error" in severities else "undecided"
        if data.get("exit_code") == 0:
            data["outcome"] = "pass"
    return data


def _of_today(verdict: Any) -> Any:
    """Return a verdict with its outcome of today. What `on_inconclusive` made of it is only in the exit code.

    1 is a failure, 3 is undecided, and 0 is a pass. With a reason in BROKEN_PROMISES, 0 is undecided, too: a pass
    promises to exclude `at_worst`, so this is the 0 of a rule that only warns.
    """
    outcome = verdict.get("outcome") if isinstance(verdict, dict) else None
    if outcome == "suspect":
        return {**verdict, "outcome": "undecided", "suspect": True}
    if outcome != "inconclusive":
        return verdict
    if verdict.get("exit_code") == 1:
        return {**verdict, "outcome": "fail"}
    is_kept = verdict.get("exit_code") == 0 and verdict.get("reason") not in BROKEN_PROMISES
    return {**verdict, "outcome": "pass" if is_kept else "undecided"}


def _with_steps(data: dict[str, Any]) -> dict[str, Any]:
    """Return the document with each next step as one value: JSON has a sentence, `next_step`, and parts, `next`."""
    verdicts = data.get("verdicts")
    if not isinstance(verdicts, list) or not all(isinstance(verdict, dict) for verdict in verdicts):
        return data
    with_steps = []
    for verdict in verdicts:
        sentence = verdict.get("next_step")
        older = {"action": "other", "text": sentence} if sentence else {}
        with_steps.append({**verdict, "next_step": verdict.get("next", older)})
    return {**data, "verdicts": with_steps}


def _as_written(document: JsonDocument, path: Path) -> Path:
    """Return the path in the document itself of a path after `_with_steps`."""
    if path[:1] != ("verdicts",) or path[2:3] != ("next_step",):
        return path
    return (*path[:2], "next", *path[3:]) if "next" in document.data["verdicts"][path[1]] else path[:3]


def _report(form: _ReportDocument) -> Report:
    problems = []
    for one in form.problems:
        key = None if one.metric is None else Key(one.metric, tuple(sorted(one.labels.items())))
        problems.append(Problem(one.severity, one.message, Location(one.file, one.line, one.column), key, one.excerpt))
    return Report(
        problems=tuple(problems),
        accept=form.accept or _older_acceptance(form.approve_command, form.policy.ref),
        details=form.evidence,
        causes=from_documents(form.causes, form.cause_summary),
        **picked(form, "outcome", "exit_code", "verdicts", "inputs", "environment", "policy", "suite", "baseline"),
        **picked(form, "geometric_means", "unruled", "unruled_count", "unknown_facts", "fact_changes"),
        **picked(form, "identical", "coverage"),
    )


def _older_acceptance(command: str | None, ref: str | None) -> NextStep:
    """Return the step that accepts the result, from an older report, which has only the command."""
    if command is None:
        return NO_STEP
    allows = ref is not None and " allow " in command  # `perfgate baseline allow ...`
    text = f"To allow these results on {ref}" if allows else "To approve these results"
    return NextStep("other", text, command=command)


def _beyond_bounds(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the places of texts and integers that are too large for a report; the loader limits nesting."""
    is_text, is_integer = isinstance(value, str), isinstance(value, int)
    if (is_text and len(value) > LONGEST_TEXT) or (is_integer and abs(value) > _LARGEST_INTEGER):
        yield path
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _beyond_bounds(name, path)
            yield from _beyond_bounds(item, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _beyond_bounds(item, (*path, index))


def _difference(given: Any, written: Any, path: Path = ()) -> Path | None:
    """Return the first place where two documents differ: an unknown or absent field, or another value."""
    members: dict[str | int, tuple[Any, Any]]
    if isinstance(given, dict) and isinstance(written, dict):
        members = {name: (given.get(name, _ABSENT), written.get(name, _ABSENT)) for name in (*given, *written)}
    elif isinstance(given, list) and isinstance(written, list) and len(given) == len(written):
        members = dict(enumerate(zip(given, written, strict=True)))
    else:
        known = stable(given) if isinstance(given, float) else given  # older reports have all digits
        same = known == written and isinstance(given, bool) == isinstance(written, bool)  # True equals 1
        return None if same else path
    for name, both in members.items():
        difference = _difference(*both, (*path, name))
        if difference is not None:
            return difference
    return None


def _refused(name: str, what: str) -> Problem:
    return Problem("error", what, Location(name))


def _at(document: JsonDocument, path: Path, message: str) -> Problem:
    message = f"{message}; this version of perfgate does not write such a {json_report.SCHEMA}"
    return Problem("error", message, document.locate(path))
