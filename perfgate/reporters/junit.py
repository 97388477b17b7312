"""The report as JUnit XML: one case per verdict, valid for the strict schema of Jenkins (junit-10.xsd).

The junit-xml package builds the document. This module works around its faults: it crashes on lone surrogates, deletes
control characters, reads a failure without a text as a pass, allows several results in one case (consumers disagree
on them), and writes attributes that are not in the strict schema.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from itertools import accumulate

from junit_xml import TestCase, TestSuite, to_xml_report_string

from perfgate.core import OUTCOMES, Report, Verdict
from perfgate.core.wording import clip, one_line, series_name, without_bracket_commands
from perfgate.words import answer, beside, cause_words, numbers
from perfgate.words.cause_words import CauseGroup

#: The largest body of a case, and the largest file, in bytes. Consumers cut or refuse larger ones.
LONGEST_BODY = 16 * 1024
LONGEST_FILE = 10 * 1024 * 1024
#: The longest name or one-line message, in characters.
_LONGEST_LINE = 500
#: The beginning of the message of a warning.
_WARNED = "warning, does not block"
#: A case has no time of its own, but consumers misread a missing time and 0.
_SECONDS = 1e-6


def render(report: Report, *, limit: int = LONGEST_FILE) -> str:
    """Return the report as one suite, the worst case first, in at most `limit` bytes if its properties fit.

    In a larger file, one case that counts them replaces the last cases. The totals of the suite still count all cases.
    """
    suite = TestSuite(f"perfgate {_line(report.suite)}".rstrip(), _cases(report), properties=_properties(report))
    root = ET.fromstring(to_xml_report_string([suite], prettyprint=False, encoding="utf-8"))
    for element in root.iter():
        element.attrib.pop("disabled", None)
        if "time" in element.attrib:
            element.set("time", f"{float(element.attrib['time']):.6f}")
    document = _document(root)
    if len(document.encode()) > limit:
        _leave_out_last_cases(root[0], limit - 4096)  # room for the suite and the case that counts
        document = _document(root)
    return document


def _document(root: ET.Element) -> str:
    """Return the XML text. Character references break what a CI system would read as a command."""
    ET.indent(root)
    text = re.sub(r"^(\s*):(?=:)", r"\1&#58;", ET.tostring(root, encoding="unicode"), flags=re.MULTILINE)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{without_bracket_commands(text, "&#35;")}\n'


def _properties(report: Report) -> dict[str, str]:
    properties = {
        "perfgate.outcome": report.outcome,
        "perfgate.exit_code": str(report.exit_code),
        "perfgate.warnings": str(sum(map(answer.is_warning, report.verdicts))),
        "perfgate.baseline": report.baseline or "none",
        "perfgate.policy.ref": report.policy.ref or "none",
        "perfgate.policy.commit": report.policy.commit or "none",
        "perfgate.policy.rules_sha256": report.policy.rules_sha256,
        "perfgate.policy.baselines_sha256": report.policy.baselines_sha256,
        **({"perfgate.coverage": " ".join(lines)} if (lines := beside.coverage(report)) else {}),
        **({"perfgate.unknown_facts": ", ".join(report.unknown_facts)} if report.unknown_facts else {}),
        **({"perfgate.what_else_changed": also} if (also := answer.what_else(report)) else {}),
        **{f"perfgate.owner.{one.rule}": one.owner for one in report.verdicts if one.owner},
        **{f"environment.{name}": str(fact) for name, fact in sorted(report.environment.items())},
    }
    return {_line(name): _line(value) for name, value in properties.items()}


def _cases(report: Report) -> list[TestCase]:
    """Return one case per verdict, and one for errors that no verdict shows."""
    classname = _classname(report)
    # Numbers follow the order of the rules, so that a case keeps its name when its outcome changes.
    names = _unique(_case_name(verdict) for verdict in report.verdicts)
    named = sorted(zip(report.verdicts, names, strict=True), key=lambda pair: OUTCOMES.index(pair[0].outcome))
    causes = cause_words.by_verdict(report)
    also = answer.what_else(report)
    cases = [_case(verdict, name, classname, causes.get(id(verdict)), also) for verdict, name in named]
    return [*_run_case(report, classname), *cases]


def _classname(report: Report) -> str:
    """Return suite and environment in safe characters: consumers split this at dots or use it as a file name."""
    path = (report.baseline or "").split("/")  # SUITE/ENVIRONMENT/LEVEL
    environment = path[1] if len(path) > 1 else "no-environment"
    return re.sub(r"[^A-Za-z0-9_.-]", "_", f"perfgate.{clip(report.suite or 'no-suite', 200)}.{clip(environment, 200)}")


def _case_name(verdict: Verdict) -> str:
    """Return the name of a case. It does not depend on the measured values."""
    source = "" if verdict.source is None else f"{_line(verdict.source)}: "
    return f"{source}{_line(verdict.rule)}: {_line(series_name(verdict.metric, verdict.labels))}"


def _unique(names: Iterable[str]) -> list[str]:
    """Return the names, with ` #2`, ` #3`, ... after repeated ones."""
    uses: dict[str, int] = {}
    for name in names:
        unique = name
        while unique in uses:
            uses[name] += 1
            unique = f"{name} #{uses[name]}"
        uses[unique] = 1
    return list(uses)


def _case(verdict: Verdict, name: str, classname: str, group: CauseGroup | None, also: str) -> TestCase:
    """Return the case of a verdict, with at most one child, because consumers disagree on cases with several."""
    case = TestCase(name, classname, elapsed_sec=_SECONDS)
    message, body = _line(verdict.message) or verdict.outcome, _body(verdict, group, also)
    if verdict.outcome == "pass":
        case.stdout = body
    elif verdict.outcome == "skipped":
        case.add_skipped_info(message, body)
    elif answer.is_warning(verdict):  # JUnit has no warnings; consumers show a pass in green and this in yellow
        case.add_skipped_info(_line(f"{_WARNED}: {message}"), f"{_WARNED}: {body}")
    elif verdict.outcome == "fail":
        case.add_failure_info(message, body, "perfgate.limit" if verdict.kind == "limit" else "perfgate.regression")
    else:
        kind = verdict.reason if verdict.outcome == "error" else verdict.outcome
        case.add_error_info(message, body, f"perfgate.{_line(kind).replace('-', '_')}")
    return case


def _run_case(report: Report, classname: str) -> list[TestCase]:
    """Return a case for errors that no verdict shows, so that the file never passes when the exit code is not 0.

    Without a verdict and without an error, as of two equal files, one case passes: consumers refuse an empty file.
    """
    problems = answer.unrelated_errors(report)
    is_shown = any(verdict.exit_code and answer.needs_attention(verdict) for verdict in report.verdicts)
    if report.verdicts and (report.exit_code == 0 or (is_shown and not problems)):
        return []
    case = TestCase("perfgate.run", classname, elapsed_sec=_SECONDS)
    if report.exit_code == 0 and not problems:
        case.stdout = _clip_bytes(": ".join(answer.headline(report)))
        return [case]
    lines = [one_line(f"{problem.at}: {answer.problem_text(problem)}") for problem in problems]
    lines.append(": ".join(answer.headline(report)))
    case.add_error_info(clip(lines[0], _LONGEST_LINE), _clip_bytes("\n".join(lines)), "perfgate.run")
    return [case]


def _body(verdict: Verdict, group: CauseGroup | None, also: str) -> str:
    """Return all details of a verdict, because some consumers lose the attributes; `also` says what else changed."""
    lines = [
        verdict.message or verdict.outcome,
        f"cause: {cause_words.line(group.cause)}" if group else "",
        f"next: {answer.next_step(verdict.next_step)}" if verdict.next_step.text else "",
        also if verdict.kind == "change" else "",
    ]
    lines += [f"{name}: {text}" for name, text in numbers.facts(verdict)]
    return _clip_bytes("\n".join(one_line(line) for line in lines if line))


def _line(text: str) -> str:
    return clip(one_line(text), _LONGEST_LINE)


def _clip_bytes(text: str) -> str:
    encoded = text.encode()
    if len(encoded) <= LONGEST_BODY:
        return text
    kept = encoded[: LONGEST_BODY - 64].decode(errors="ignore")
    return f"{kept}\n... {len(encoded)} bytes in all"


def _leave_out_last_cases(suite: ET.Element, room: int) -> None:
    """Keep the properties and the first cases that fit into `room` bytes, and add a case that counts the others."""
    cases, properties = suite.findall("testcase"), suite.findall("properties")
    room -= sum(len(ET.tostring(one, "utf-8")) for one in properties)
    kept = sum(size <= room for size in accumulate(len(ET.tostring(case, "utf-8")) for case in cases))
    suite[:] = [*properties, *cases[:kept]]
    count = len(cases) - kept
    note = ET.SubElement(suite, "testcase", {**cases[0].attrib, "name": f"{count} more omitted"})
    is_bad = any(case.find("failure") is not None or case.find("error") is not None for case in cases[kept:])
    result = ET.SubElement(note, "error", type="perfgate.omitted") if is_bad else ET.SubElement(note, "system-out")
    result.text = f"WARN: {count} more cases would make this file too large; the JSON report has them all"
