"""A comment on a pull request, from a report that code without a review wrote.

A forged report can contain any sentence, such as a command that "approves" it, and a reader trusts a comment of the
repository's own workflow. So the comment is made of the numbers and the known words of the verdicts. It has no command,
no code block and no link. Other text of the report appears only where nothing replaces it (names, owners, reasons of
quarantines, problems), as plain text. Messages, next steps, notes and commands of the report are never shown.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

from perfgate.core import Outcome, Report, Verdict
from perfgate.core.units import format_change
from perfgate.core.wording import clip, one_line, plural, without_commands
from perfgate.reporters.markdown import COMMENT_LIMIT, TABLE, Section, marker
from perfgate.words import answer, cause_words, numbers
from perfgate.words.cause_words import CauseGroup

#: In characters: one name, place or problem.
_LONGEST_TEXT = 300
#: A word or number that Markdown shows as it is. GitHub makes a link of `www` and of `GH-12`.
_PLAIN = re.compile(
    r"(?!.*(?:www|gh-\d))\(?(?:[A-Za-zµ0-9]+(?:[-_'./:][A-Za-zµ0-9]+)*[.,;:!?)]*|[-+±]?\d+(?:\.\d+)?%?[,)]*|→)",
    re.IGNORECASE,
)
_COMPARATORS = ("under", "at most", "over", "at least")
_REFERENCES = ("baseline", "anchor")
#: The next step for each outcome. The reviewer finds commands in the documentation, not in the report.
_STEPS: dict[Outcome, str] = {
    "fail": "find the cause, or ask a person who may write to the base to allow the change",
    "error": "read the log of the job: something is missing or cannot be compared",
    "undecided": "start the job again, or measure more runs: the data do not decide",
}
_UNCHECKED = "The report comes from unreviewed code. Its commands and explanations are not shown."


def render(report: Report) -> str:
    """Return the comment; a long one loses whole lines, and its last line counts them."""
    word, counts = answer.headline(report)
    origin = ", ".join(f"{name} {text(value)}" for name, value in answer.origin(report))
    lines = [
        marker(report),  # by it the next run finds the comment
        f"**{answer.SIGNS[report.outcome]} perfgate {word}: {counts}**",
        "",
        *([origin, ""] if origin else []),
        _UNCHECKED,
        "",
    ]
    room = COMMENT_LIMIT - 100  # in bytes; the last line below takes fewer than 100
    fitting, left_out = Section(head=(), rows=[*_rows(report)], tail=()).within(room, before=lines)
    lines += fitting
    lines += ["", f"{plural(left_out, 'line')} left out to keep this short."] if left_out else []
    return without_commands("\n".join(lines).rstrip("\n") + "\n")


def _rows(report: Report) -> Iterator[str]:
    """Yield the causes, a table of the other verdicts, owners, next steps, problems, and that the policy differs."""
    for group in cause_words.groups(report):
        yield from _cause(group)
    unexplained = list(filter(answer.needs_attention, answer.worst_first(cause_words.unexplained(report))))
    if unexplained:
        yield from TABLE
        yield from map(_row, unexplained)
        yield ""
    attention = list(filter(answer.needs_attention, answer.worst_first(report.verdicts)))
    for verdict in attention:
        yield from _owner(verdict)
    outcomes = {verdict.outcome for verdict in attention}
    yield from (f"- **{outcome}:** {step}" for outcome, step in _STEPS.items() if outcome in outcomes)
    if report.problems:
        yield from ("", "**Problems**", "")
        for problem in report.problems:
            yield f"- {problem.severity} at {text(str(problem.at))}: {text(answer.problem_text(problem))}"
    if report.policy.changes:
        changes = plural(len(report.policy.changes), "difference")
        yield from ("", f"The rules or baselines of the pull request have {changes} from those that judged.")


def _cause(group: CauseGroup) -> Iterator[str]:
    """Yield a cause as an item of a list, and the verdicts that follow from it below."""
    cause = group.cause
    where = text(cause_words.where(cause))
    yield f"- **{group.number} {text(cause_words.kind(cause))}:** {where} {text(cause_words.cost(cause))}"
    for verdict in group.verdicts:
        sign = f"{answer.SIGNS[verdict.outcome]} {verdict.outcome}{answer.effect(verdict)}"
        yield f"  - {sign}: {text(numbers.what(verdict))} {', '.join(map(text, numbers.measured(verdict)))}"
    yield ""


def _owner(verdict: Verdict) -> Iterator[str]:
    """Yield an item with the owner of a rule and its quarantine, without a mention; nothing without both."""
    parts = [f"owner {text(verdict.owner)}"] if verdict.owner else []
    if verdict.quarantine and verdict.is_quarantined:
        parts.append(f"quarantined until {text(verdict.quarantine.until)}: {text(verdict.quarantine.reason)}")
    if parts:
        yield f"- {text(numbers.what(verdict))}: {', '.join(parts)}"


def _row(verdict: Verdict) -> str:
    sign = f"{answer.SIGNS[verdict.outcome]} {verdict.outcome}{answer.effect(verdict)}"
    measured = "<br>".join(map(text, numbers.measured(verdict)))
    return f"| {sign} | {text(numbers.what(verdict))} | {measured} | {text(_allowed(verdict))} |"


def _allowed(verdict: Verdict) -> str:
    """Return what the rule allows, from its numbers; the sentence of the rule is text of the report."""
    if verdict.kind == "limit":
        known = verdict.comparator in _COMPARATORS and verdict.bound is not None
        return f"{verdict.comparator} {numbers.value_text(verdict.bound, verdict)}" if known else ""
    if verdict.tolerance is None:
        return ""
    reference = f" of {verdict.against}" if verdict.against in _REFERENCES else ""
    sign = "±" if verdict.two_sided else ""
    return f"within {sign}{format_change(verdict.tolerance).lstrip('+')}{reference}"


def text(untrusted: str) -> str:
    """Return text that Markdown shows as it is: no code, link, mention, reference or HTML.

    Plain words and numbers stay. Other punctuation is escaped, and followed by a space without width: GitHub looks for
    `@name`, `#12` and addresses in the text that it shows.
    """
    return _quoted(untrusted, "\\{}&#8203;")


def bare_text(untrusted: str) -> str:
    """Return text for a place without Markdown, such as a title: no link, mention or reference."""
    return _quoted(untrusted, "{}\u200b")


def _quoted(untrusted: str, form: str) -> str:
    """Return a text in which the signs of all words that are not plain have this form."""
    escapes = {ord(char): form.format(char) for char in string.punctuation}
    words = clip(one_line(untrusted), _LONGEST_TEXT).split(" ")
    return " ".join(word if _PLAIN.fullmatch(word) else word.translate(escapes) for word in words)
