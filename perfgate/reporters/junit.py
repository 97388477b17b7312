"""The report as JUnit XML: one case a verdict, valid after the strict schema of Jenkins (junit-10.xsd).

The junit-xml package builds the document. What it gets wrong is kept away from it, or put right afterwards: it crashes
on lone surrogates, deletes control characters, takes a failure without a text for a pass, allows several results in
one case (which consumers read differently), and writes attributes that the strict schema does not know.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from itertools import accumulate

from junit_xml import TestCase, TestSuite, to_xml_report_string

from perfgate.core import Report, Verdict
from perfgate.core.wording import clip, one_line
from perfgate.reporters import phrases

#: In bytes. Consumers cut or refuse what is larger.
LONGEST_BODY = 16 * 1024
LONGEST_FILE = 10 * 1024 * 1024
#: In characters: names and one-line messages.
_LONGEST_LINE = 500
#: What the runner of GitHub Actions would take for a command where the document goes to stdout.
_COMMAND = re.compile(r"^(\s*)::", re.MULTILINE)
#: No case has a time of its own, but consumers misread a time that is missing or 0.
_SECONDS = 1e-6


def render(report: Report, *, limit: int = LONGEST_FILE) -> str:
    """The report as a document of one suite, the worst case first.

    In a file of more than `limit` bytes the last cases give way to one that counts them; the totals of the suite stay
    those of all cases.
    """
    suite = TestSuite(f"perfgate {_line(report.suite)}", _cases(report), properties=_properties(report))
    root = ET.fromstring(to_xml_report_string([suite], prettyprint=False, encoding="utf-8"))
    for element in root.iter():
        element.attrib.pop("disabled", None)
        if "time" in element.attrib:
            element.set("time", f"{float(element.attrib['time']):.6f}")
    document = _document(root)
    if len(document.encode()) > limit:
        _leave_out_last_cases(root[0], limit - 4096)  # what is not a case needs some room, too
        document = _document(root)
    return document


def _document(root: ET.Element) -> str:
    """The XML, in which no line is a command of GitHub's where the file is printed: a reference says the same."""
    ET.indent(root)
    text = re.sub(r"^(\s*):(?=:)", r"\1&#58;", ET.tostring(root, encoding="unicode"), flags=re.MULTILINE)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text.replace("##[", "#&#35;[")}\n'


def _properties(report: Report) -> dict[str, str]:
    properties = {
        "perfgate.outcome": report.outcome,
        "perfgate.exit_code": str(report.exit_code),
        "perfgate.warnings": str(sum(map(phrases.is_warning, report.verdicts))),
        "perfgate.baseline": report.baseline or "none",
        "perfgate.policy.ref": report.policy.ref or "none",
        "perfgate.policy.rules_sha256": report.policy.rules_sha256,
        "perfgate.policy.baselines_sha256": report.policy.baselines_sha256,
        **{f"environment.{name}": str(fact) for name, fact in sorted(report.environment.items())},
    }
    return {_line(name): _line(value) for name, value in properties.items()}


def _cases(report: Report) -> list[TestCase]:
    """A case for every verdict, and one for what kept perfgate from judging at all."""
    classname = _classname(report)
    # Numbered in the order of the rules, so that a case keeps its name when its outcome changes.
    names = _unique(_case_name(verdict) for verdict in report.verdicts)
    named = sorted(zip(report.verdicts, names, strict=True), key=lambda pair: phrases.badness(pair[0]))
    cases = [_case(verdict, name, classname) for verdict, name in named]
    return [*_run_case(report, classname), *cases]


def _classname(report: Report) -> str:
    """Consumers split it at dots, and one of them takes it for a file name: only harmless characters."""
    path = (report.baseline or "").split("/")
    environment = path[1] if len(path) > 1 else "no-environment"
    return re.sub(r"[^A-Za-z0-9_.-]", "_", f"perfgate.{clip(report.suite, 200)}.{clip(environment, 200)}")


def _case_name(verdict: Verdict) -> str:
    source = "" if verdict.source is None else f"{_line(verdict.source)}: "
    return f"{source}{_line(verdict.rule)}: {_line(phrases.name_of(verdict))}"


def _unique(names: Iterable[str]) -> list[str]:
    """The names, with ` #2`, ` #3`, ... after those that were there before."""
    given: dict[str, None] = {}
    last: dict[str, int] = {}
    for name in names:
        number = last.get(name, 0) + 1
        candidate = name if number == 1 else f"{name} #{number}"
        while candidate in given:
            number += 1
            candidate = f"{name} #{number}"
        given[candidate] = None
        last[name] = number
    return list(given)


def _case(verdict: Verdict, name: str, classname: str) -> TestCase:
    """A case with at most one child, because consumers disagree on cases with several."""
    case = TestCase(name, classname, elapsed_sec=_SECONDS)
    message, body = _line(verdict.message) or verdict.outcome, _body(verdict)
    if verdict.outcome == "skipped" or (verdict.outcome == "inconclusive" and phrases.is_warning(verdict)):
        case.add_skipped_info(message, body)
    elif phrases.is_warning(verdict):
        case.stdout = f"WARN: {body}"
    elif verdict.outcome == "fail":
        case.add_failure_info(message, body, "perfgate.limit" if verdict.kind == "limit" else "perfgate.regression")
    elif verdict.outcome != "pass":
        kind = verdict.reason if verdict.outcome == "error" else verdict.outcome
        case.add_error_info(message, body, f"perfgate.{_line(kind).replace('-', '_')}")
    return case


def _run_case(report: Report, classname: str) -> list[TestCase]:
    """A case that fails for what no verdict says, so that no file is greener than the exit code."""
    problems = phrases.loose_errors(report)
    is_said = any(verdict.exit_code and phrases.is_news(verdict) for verdict in report.verdicts)
    if report.verdicts and (report.exit_code == 0 or (is_said and not problems)):
        return []
    case = TestCase("perfgate.run", classname, elapsed_sec=_SECONDS)
    lines = [one_line(f"{problem.at}: {phrases.complaint(problem)}") for problem in problems]
    lines.append(": ".join(phrases.answer(report)))
    case.add_error_info(clip(lines[0], _LONGEST_LINE), _clip_bytes("\n".join(lines)), "perfgate.run")
    return [case]


def _body(verdict: Verdict) -> str:
    """All there is to say of a verdict; consumers show this where they lose the attributes."""
    lines = [verdict.message or verdict.outcome, f"next: {verdict.next_step}" if verdict.next_step else ""]
    lines += [f"{name}: {text}" for name, text in phrases.facts(verdict)]
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
    """Keep the first cases, as many as fit into `room` bytes, and put a case that counts the others after them."""
    cases = suite.findall("testcase")
    kept = sum(size <= room for size in accumulate(len(ET.tostring(case, "utf-8")) for case in cases))
    suite[:] = [*suite.findall("properties"), *cases[:kept]]
    count = len(cases) - kept
    note = ET.SubElement(suite, "testcase", {**cases[0].attrib, "name": f"{count} more omitted"})
    is_bad = any(case.find("failure") is not None or case.find("error") is not None for case in cases[kept:])
    result = ET.SubElement(note, "error", type="perfgate.omitted") if is_bad else ET.SubElement(note, "system-out")
    result.text = f"WARN: {count} more cases would make this file too large; the JSON report holds them all"
