"""The report as GitHub's Markdown, for step summaries and for comments on pull requests: the worst verdict first.

Names, paths and messages are untrusted. A part of them that is not a plain word or number becomes a code span, because
a code span has no links, mentions, images or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from msgspec import Struct

from perfgate.core import Problem, Report, Verdict
from perfgate.core.wording import clip, one_line, plural, without_commands
from perfgate.reporters.github import chart
from perfgate.words import answer, beside, cause_words, numbers
from perfgate.words.cause_words import CauseGroup

#: The largest summary and comment in bytes of UTF-8; GitHub refuses 1 MiB, and more than 65,536 characters.
LIMIT, COMMENT_LIMIT = 900_000, 60_000
#: In characters: the suite in the marker of a comment; one name, path or message.
_LONGEST_SUITE, _LONGEST_TEXT = 100, 2_000
TABLE = ("| outcome | metric | measured | allowed |", "|---|---|---|---|")
#: The most findings that are unfolded, and the most verdicts that are named below their cause, and its next steps.
_MOST_OPEN, _MOST_NAMED, _MOST_STEPS = 10, 8, 2
_LEFT_OUT = "{} left out to keep this short; the JSON report is complete."
#: A user or a team, as GitHub mentions them, and how many are mentioned at most.
_MENTION = re.compile(r"@[A-Za-z0-9](?:-?[A-Za-z0-9])*(?:/[A-Za-z0-9][A-Za-z0-9_-]*)?")
_MOST_MENTIONED = 10
#: A command without backticks: its words, then at least one option, path or quoted text.
_COMMAND = r"perfgate(?: [a-z]+){1,2}(?: (?:-\S+|\"[^\"`]*\"|[^\s`\"']*'[^'`]*'|[^\s`\"]*[/._=][^\s`\"]*[^\s`\".,;:]))+"
#: The parts of a text: a code span or a command, blanks, a word or a single backtick.
_TOKEN = re.compile(rf"(?:`([^`]+)`|\b({_COMMAND}))|(\s+)|([^\s`]+|`)")
_WORD = r"/?[A-Za-zµ]+(?:[-'/][A-Za-z]+)*"
_NUMBER = r"[-+±]?\d+(?:\.\d+)?(?:e[-+]?\d+)?%?"
_PLAIN = re.compile(rf"[(\[]*(?:{_WORD}|{_NUMBER}|→)?[)\].,;:!?]*")


def render(report: Report, *, limit: int = LIMIT) -> str:
    """Return the report in at most `limit` bytes. A longer report loses whole rows, and the last line counts them."""
    word, counts = answer.headline(report)
    origin = ", ".join(f"{name} {code(value)}" for name, value in answer.origin(report))
    lines = [f"**{answer.SIGNS[report.outcome]} perfgate {word}: {counts}**", "", *([origin, ""] if origin else [])]
    lines += [prose(also), ""] if (also := answer.what_else(report)) else []
    room, left_out = limit - _size([_LEFT_OUT.format("1000000000 rows")]), 0  # room for the last line, too
    for section in _sections(report):
        fitting, omitted = section.within(room, lines)
        lines += fitting
        left_out += omitted
    if left_out:
        lines.append(_LEFT_OUT.format(plural(left_out, "row")))
    return without_commands("\n".join(lines).rstrip("\n") + "\n")


def render_comment(report: Report) -> str:
    """Return a comment on a pull request. Its first line is the `marker`, by which the next run finds and edits it."""
    head, foot = marker(report) + "\n", ""
    if report.policy.ref is not None:  # otherwise the author of a pull request would choose who gets a message
        foot = mentions(verdict.owner or "" for verdict in report.verdicts if verdict.exit_code)
    return head + render(report, limit=COMMENT_LIMIT - len((head + foot).encode())) + foot


def mentions(owners: Iterable[str]) -> str:
    """Return a line that mentions users and teams; empty if no owner is a user or a team."""
    known = dict.fromkeys(owner for owner in owners if _MENTION.fullmatch(owner))
    return f"\ncc {' '.join([*known][:_MOST_MENTIONED])}\n" if known else ""


def marker(report: Report) -> str:
    """Return the first line of every comment about a suite; GitHub does not show it."""
    suite = re.sub(r"[^A-Za-z0-9_.-]", "_", report.suite or "no-suite")[:_LONGEST_SUITE]
    return f"<!-- perfgate comment: {suite} -->"


class Section(Struct, frozen=True):
    """Rows that can be left out one by one, the last first, and the lines around them, shown only with a row."""

    head: Sequence[str]
    rows: Sequence[str]
    tail: Sequence[str] = ("",)

    def within(self, room: int, before: Sequence[str] = ()) -> tuple[list[str], int]:
        """Return the lines that fit into `room` bytes after those `before`, and the number of rows that do not fit."""
        room -= _size([*before, *self.head, *self.tail])
        kept = sum(size <= room for size in accumulate(_size([row]) for row in self.rows))
        lines = [*self.head, *self.rows[:kept], *self.tail] if kept else []
        return lines, len(self.rows) - kept


def _size(lines: Iterable[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)


def _sections(report: Report) -> Iterator[Section]:
    """Yield the sections after the title, the most important first; the last ones are left out first."""
    unread = answer.unread_runs(report) if report.exit_code == 3 else []
    yield Section((), [_problem(problem) for problem in unread])
    yield Section((), [answer.not_judged(report)] if unread and report.verdicts else [])
    # Verdicts about runs that were not read only repeat why.
    verdicts = [] if unread else answer.worst_first(cause_words.unexplained(report))
    attention = [verdict for verdict in verdicts if answer.needs_attention(verdict)]
    skipped = [verdict for verdict in verdicts if verdict.outcome == "skipped"]
    passed = [verdict for verdict in verdicts if verdict.outcome == "pass"]
    yield from _causes(report)
    yield Section(TABLE, [_row(verdict) for verdict in attention])
    yield _folded("Findings and next steps", (), list(_items(attention)), is_open=len(attention) <= _MOST_OPEN)
    yield Section(("**Problems**", ""), [] if unread else [_problem(problem) for problem in report.problems])
    head, *differences = answer.rule_differences(report.policy) or [""]
    yield Section((prose(head), ""), [f"- {prose(line.strip())}" for line in differences])
    if report.accept.command and report.outcome != "pass":
        yield Section((prose(f"{report.accept.text}:"), ""), [fenced([report.accept.command])])
    head, *changes = answer.unruled(report) or [""]
    yield Section((f"**{prose(head)}**", ""), [f"- {prose(line)}" for line in changes])
    drawn = chart(report)  # of Mermaid
    yield _folded("Run by run", (), ["\n".join(drawn)] if drawn else [])
    yield _folded(f"{len(skipped)} skipped", (), [_item(verdict) for verdict in skipped])
    yield _folded(f"{len(passed)} passed", TABLE, [_row(verdict) for verdict in passed])
    facts = [f"- {code(name)}: {code(str(fact))}" for name, fact in sorted(report.environment.items())]
    lines = (*answer.unknown_facts(report), *answer.learned_noise(report.verdicts))
    yield _folded("Environment", (), [*facts, *(f"- {prose(line)}" for line in lines)])
    yield Section((), [prose(line) for line in beside.unread(report)], ())


def _causes(report: Report) -> Iterator[Section]:
    """Yield each cause as an item, then the verdicts that follow from causes, folded."""
    if report.causes is None:
        return
    groups = cause_words.groups(report)
    left = cause_words.rest(report.causes) if groups else cause_words.without_cause(report.causes)
    notes = [f"- {prose(text)}" for text in (left, *report.causes.notes)]
    head = (f"**What changed:** {prose(cause_words.step(report.causes))}", "")
    yield Section(head, [*map(_cause, groups), *notes])
    explained = [verdict for group in groups for verdict in group.verdicts]
    if explained:
        first, *others = map(_item, explained)
        rows = [*map(_row, explained), f"\n{first}", *others]  # an empty line ends the table
        yield _folded(f"{plural(len(explained), 'verdict')} with a cause", TABLE, rows)


def _cause(group: CauseGroup) -> str:
    """Return a cause as an item of a list, with the verdicts that follow from it, in short, below it."""
    cause = group.cause
    lines = [
        f"- **{group.number} {prose(cause_words.kind(cause))}:** {code(cause_words.where(cause))} "
        f"{prose(cause_words.cost(cause))}",
        *(f"  - {label}: {code(text)}" for label, text in cause_words.details(cause)),
    ]
    if group.verdicts:
        named = ", ".join(f"{one.outcome} {code(cause_words.brief(one))}" for one in group.verdicts[:_MOST_NAMED])
        more = f" and {len(group.verdicts) - _MOST_NAMED} more" if len(group.verdicts) > _MOST_NAMED else ""
        lines.append(f"  - {cause_words.follow(len(group.verdicts))}: {named}{more}")
        reasons = dict.fromkeys((one.rule, one.why) for one in group.verdicts[:_MOST_NAMED] if one.why)
        lines += [f"  - why {code(rule)}: {prose(why)}" for rule, why in reasons]
        lines += [f"  - **next:** {prose(step)}" for step in cause_words.steps(group)[:_MOST_STEPS]]
    return "\n".join(lines)


def _folded(summary: str, head: Sequence[str], rows: Sequence[str], *, is_open: bool = False) -> Section:
    opened = "<details open>" if is_open else "<details>"
    return Section((f"{opened}<summary>{summary}</summary>", "", *head), rows, ("", "</details>", ""))


def _row(verdict: Verdict) -> str:
    """Return a row of the table, with the reason of the rule. Only a pass has its notes here, others in their item."""
    shows_notes = verdict.outcome == "pass" and answer.shows_notes(verdict)
    notes = [f"<br>{prose(text)}"] if (text := numbers.attributed(verdict)) else []
    notes += [f"<br>{prose(note)}" for note in verdict.notes if shows_notes]
    if verdict.outcome == "pass" and verdict.improved and verdict.next_step.text:
        notes.append(f"<br>**next:** {answer.next_step(verdict.next_step, prose, code)}")
    if answer.needs_attention(verdict) and verdict.why:
        notes.append(f"<br>{prose(verdict.why)}")
    quarantined = " (quarantined)" if verdict.is_quarantined else ""
    cells = (
        f"{answer.SIGNS[verdict.outcome]} {verdict.outcome}{quarantined}",
        code(numbers.what(verdict)) + "".join(notes),
        "<br>".join(map(prose, numbers.measured(verdict))),
        prose(numbers.allowed(verdict)),
    )
    return f"| {' | '.join(map(table_cell, cells))} |"


def _items(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield an item for each verdict; verdicts that say the same are one, with all their rules."""
    groups: dict[tuple[object, ...], list[Verdict]] = {}
    for one in verdicts:
        # `explained_by` has mappings, which no key may contain. Equal messages are about the same metric.
        says = (one.outcome, one.message, one.next_step, one.why, one.owner, one.notes, bool(one.explained_by))
        groups.setdefault(says, []).append(one)
    for first, *others in groups.values():
        rules = [f"  - rule: {code(str(one.at))} {code(one.rule)}{answer.effect(one)}" for one in others]
        yield "\n".join([_item(first), *dict.fromkeys(rules)])


def _item(verdict: Verdict) -> str:
    """Return the details of a verdict as an item of a list. No line begins with untrusted text."""
    details = [
        f"**next:** {answer.next_step(verdict.next_step, prose, code)}" if verdict.next_step.text else "",
        f"rule: {code(str(verdict.at))} {code(verdict.rule)}{answer.effect(verdict)}",
        # The row of a verdict that needs attention has its `why`.
        f"why: {prose(verdict.why)}" if verdict.why and not answer.needs_attention(verdict) else "",
        f"owner: {code(verdict.owner)}" if verdict.owner else "",
        f"explained by: {prose('; '.join(numbers.explanation(verdict)))}" if verdict.explained_by else "",
        f"note: {prose('; '.join(verdict.notes))}" if verdict.notes else "",
    ]
    lines = [f"- **{verdict.outcome}:** {prose(verdict.message)}", *(f"  - {detail}" for detail in details if detail)]
    return "\n".join(lines)


def _problem(problem: Problem) -> str:
    line = f"- {problem.severity} at {code(str(problem.at))}: {prose(answer.problem_text(problem))}"
    if problem.excerpt is None:
        return line
    excerpt = fenced(problem.excerpt.split("\n"))
    return "\n".join([line, "", *(f"  {part}" for part in excerpt.split("\n"))])


def prose(text: str) -> str:
    """Return untrusted text as a sentence: plain words and numbers stay, the rest becomes code spans."""
    pieces: list[str] = []
    for span, command, blank, word in _TOKEN.findall(clip(one_line(text), _LONGEST_TEXT)):
        piece = code(span or command) if span or command else blank or _word(word)
        if pieces and pieces[-1].endswith("`") and piece.startswith("`"):
            pieces.append(" ")  # the fences of two spans must not become one
        pieces.append(piece)
    return "".join(pieces)


def _word(word: str) -> str:
    if _PLAIN.fullmatch(word):
        return re.sub(r"[\[\]]", r"\\\g<0>", word)
    name = word.rstrip(".,;:")
    return code(name) + word[len(name) :] if name else word


def code(text: str) -> str:
    """Return untrusted text as a code span; it may contain backticks."""
    text = clip(one_line(text), _LONGEST_TEXT) or "(empty)"
    fence = "`" * (_longest_fence(text) + 1)
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{blank}{text}{blank}{fence}"


def fenced(lines: Sequence[str]) -> str:
    """Return untrusted lines as a code block."""
    text = "\n".join(one_line(line) for line in lines)
    fence = "`" * max(3, _longest_fence(text) + 1)
    return f"{fence}\n{text}\n{fence}"


def _longest_fence(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def table_cell(markdown: str) -> str:
    r"""Return Markdown for a table, where a bar ends a cell even in code; renderers disagree on `\\|`."""
    return markdown.replace("\\|", "\\u007c").replace("|", "\\|")
