"""The report as SARIF 2.1.0 (OASIS) for code scanning: every result is at the line of its rule.

GitHub requires more than the standard ("SARIF support for code scanning" in its documentation): relative paths, a
location for every result, at most 25,000 results and rules, and identifiers of at most 255 characters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from perfgate.core import Location, Report, Verdict
from perfgate.core.wording import clip, one_line, series_name
from perfgate.reporters.plain_json import encode
from perfgate.version import __version__
from perfgate.words import answer, cause_words, numbers
from perfgate.words.cause_words import CauseGroup

#: The tool. Releases are published under this address.
_DRIVER = {"name": "perfgate", "semanticVersion": __version__, "informationUri": "https://pypi.org/project/perfgate/"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
#: The largest number of results. A notification counts the others.
MOST_RESULTS = 5_000
#: The longest identifier and the longest text, in characters.
_LONGEST_ID, _LONGEST_TEXT = 255, 4_000
#: The rule of all problems, because they belong to no rule of the user.
_PROBLEM = "perfgate.problem"


def render(report: Report) -> str:
    """Return verdicts that need attention and problems of severity error as indented JSON, the worst first."""
    verdicts = [verdict for verdict in answer.worst_first(report.verdicts) if answer.needs_attention(verdict)]
    errors = [problem for problem in report.problems if problem.severity == "error"]
    causes = cause_words.by_verdict(report)
    also = answer.what_else(report)
    results = [_result(verdict, causes.get(id(verdict)), also) for verdict in verdicts]
    results += [
        _entry(_PROBLEM, "error", answer.problem_text(one), one.at, (_PROBLEM, one.at.file, one.message))
        for one in errors
    ]
    results = results[:MOST_RESULTS]
    left_out = len(verdicts) + len(errors) - len(results)
    ids: dict[str, int] = {}
    for result in results:
        result["ruleIndex"] = ids.setdefault(result["ruleId"], len(ids))
    run = {
        "tool": {"driver": {**_DRIVER, "rules": [_rule(name, verdicts) for name in ids]}},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(report, left_out)],
        "results": results,
    }
    return encode({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(name: str, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return the description of a rule: its sentence or id, and its reason."""
    verdict = next((verdict for verdict in verdicts if _id(verdict) == name), None)
    if verdict is None:
        return {"id": name, "shortDescription": _message("perfgate could not read or judge this")}
    return {
        "id": name,
        "shortDescription": _message(verdict.rule),
        "fullDescription": _message(verdict.why or verdict.asks or verdict.rule),
        "defaultConfiguration": {"level": "warning" if verdict.severity == "warning" else "error"},
    }


def _id(verdict: Verdict) -> str:
    return one_line(verdict.rule)[:_LONGEST_ID] or "rule"


def _text(verdict: Verdict, group: CauseGroup | None = None) -> str:
    cause = f"\nCause: {cause_words.line(group.cause)}" if group else ""
    step = f"\nNext: {answer.next_step(verdict.next_step)}" if verdict.next_step.text else ""
    parts = f"\nCode or environment: {text}" if (text := numbers.attributed(verdict)) else ""
    parts += "".join(f"\nExplained by: {line}" for line in numbers.explanation(verdict))
    return f"{verdict.outcome}: {verdict.message or numbers.what(verdict)}{cause}{step}{parts}"


def _result(verdict: Verdict, group: CauseGroup | None, also: str) -> dict[str, Any]:
    text = _text(verdict, group) + (f"\n{also}" if also and verdict.kind == "change" else "")
    identity = (verdict.rule, verdict.asks, series_name(verdict.metric, verdict.labels), verdict.source or "")
    entry = _entry(_id(verdict), "error" if verdict.exit_code else "warning", text, verdict.at, identity)
    # Metrics of one glob have the line of their rule in common, and differ in this name.
    name = clip(one_line(numbers.what(verdict)), _LONGEST_TEXT)
    entry["locations"][0]["logicalLocations"] = [{"fullyQualifiedName": name}]
    if verdict.owner:
        entry["properties"] = {"owner": one_line(verdict.owner)}
    return entry


def _entry(rule: str, level: str, text: str, at: Location, identity: Sequence[str]) -> dict[str, Any]:
    """Return a result of SARIF. `identity`: the texts by which code scanning knows the result again in a later run."""
    digest = hashlib.sha256("\0".join(identity).encode("utf-8", "backslashreplace")).hexdigest()
    return {
        "ruleId": rule,
        "level": level,
        "message": _message(text),
        "locations": [_location(at)],
        "partialFingerprints": {
            "perfgateVerdict/v1": digest,
            # GitHub tells alerts apart by this one only, and makes it from the line of the rule where it is absent. Its
            # form is HASH:NUMBER; the number counts equal hashes.
            "primaryLocationLineHash": f"{digest[:16]}:1",
        },
    }


def _invocation(report: Report, left_out: int) -> dict[str, Any]:
    """Return the exit code, and notifications: warnings of reading, gains, and the number of omitted results."""
    notes = [
        {"level": "warning", "message": _message(answer.problem_text(one)), "locations": [_location(one.at)]}
        for one in report.problems
        if one.severity == "warning"
    ]
    notes += [
        {"level": "note", "message": _message(_text(verdict)), "locations": [_location(verdict.at)]}
        for verdict in report.verdicts
        if verdict.improved and not answer.needs_attention(verdict)
    ]
    if left_out:
        notes.append({"level": "warning", "message": _message(f"{left_out} more results are in the JSON report")})
    return {
        "executionSuccessful": report.exit_code in (0, 1),
        "exitCode": report.exit_code,
        "toolExecutionNotifications": notes,
    }


def _location(at: Location) -> dict[str, Any]:
    """Return a place in a file. GitHub does not show a result without a line, so an unknown line becomes the first."""
    region = {"startLine": max(at.line or 1, 1)}
    if at.column:
        region["startColumn"] = max(at.column, 1)
    uri = quote(one_line(at.file).lstrip("/"), safe="/-._~") or "unknown"
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}


def _message(text: str) -> dict[str, str]:
    """Return a text without links: SARIF makes one of `[text](place)`."""
    lines = [one_line(line) for line in text.split("\n")]
    return {"text": clip("\n".join(lines), _LONGEST_TEXT).replace("](", "] (") or "(empty)"}
