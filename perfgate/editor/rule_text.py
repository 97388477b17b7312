"""Functions for a rule file that is being edited: its problems, the words that can follow, and explanations.

The grammar decides which words are offered: a word fits if the sentence so far and this word begin a valid sentence.
A half-written file is often not valid YAML, so the sentence at a place is found by lines, not by the YAML structure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Literal

from msgspec import Struct

from perfgate.core import Problem, Severity
from perfgate.core.conditions import CONDITIONS
from perfgate.core.resource_limits import DEFAULT
from perfgate.core.units import NUMBER, UNITS
from perfgate.core.wording import MAPPING_FILE, STATISTICS
from perfgate.documents.yaml import load_document
from perfgate.mappings.document import load_mappings
from perfgate.rules.explain import RANKS, explain
from perfgate.rules.load import check_rules, readable_rulesets
from perfgate.rules.repair import absent_metrics
from perfgate.rules.syntax.cursor import SentenceError
from perfgate.rules.syntax.grammar import parse_expression, parse_sentence

#: For each suite, the metrics of its stored runs with their base units.
StoredMetrics = Mapping[str, Mapping[str, str]]
#: No mark is longer, and nothing is offered after this column: a sentence is far shorter, and both take time.
_LONGEST = 4000
#: The fields at the top of a file, and those that a rule file may have.
_KEY = re.compile(r"^([A-Za-z_]\w*):", re.MULTILINE)
_FIELDS = frozenset({"version", "suite", "environment", "pairs", "conditions", "unread", "renames", "model"})
_FIELDS |= {"defaults", "metrics", "rules"}


class Mark(Struct, frozen=True):
    """A problem of the text, in one line from `start` to before `end`."""

    line: int
    start: int
    end: int
    severity: Severity
    message: str


def is_mapping_file(path: str, text: str) -> bool:
    """Return whether a file is `perfgate.yaml`, which says how to read a team's own files, and has no rules."""
    return PurePath(path).name == MAPPING_FILE and "rules" not in _KEY.findall(text)


def is_rule_file(path: str, text: str) -> bool:
    """Return whether a YAML text is a rule file: by its fields, or because it is in a folder `rules`."""
    if is_mapping_file(path, text):
        return False
    keys = set(_KEY.findall(text))
    return {"version", "rules"} <= keys or (PurePath(path).parent.name == "rules" and keys <= _FIELDS)


def marks(name: str, text: str, stored: StoredMetrics | None = None) -> list[Mark]:
    """Return the problems of a rule file, or of a file with mappings.

    `name`: the file, as messages name it. `text`: its text, which may be half written. `stored`: the metrics of the
    stored runs, by suite; a rule gets a warning for each metric that its suite does not have.
    """
    files = [(name, text.encode("utf-8", "replace"))]
    lines = text.splitlines()
    if is_mapping_file(name, text):
        return [_mark(problem, lines) for problem in load_mappings(files)[1]]
    known = {metric for metrics in (stored or {}).values() for metric in metrics}
    _, problems = check_rules(files, metrics=known)
    for ruleset in readable_rulesets(files) if stored else ():
        problems += absent_metrics(ruleset, stored.get(ruleset.suite, {}) if stored else {})
    return [_mark(problem, lines) for problem in problems]


def _mark(problem: Problem, lines: list[str]) -> Mark:
    """Return the mark of a problem, whose line and column count from 1 and may be behind the end of the text."""
    line = min((problem.at.line or 1), len(lines)) - 1
    if line < 0:  # the text is empty
        return Mark(0, 0, 1, problem.severity, problem.message)
    length = len(lines[line])
    is_behind = (problem.at.line or 1) > len(lines)  # YAML misses something at the end of the file
    start = max(length - 1, 0) if is_behind else min((problem.at.column or 1) - 1, length)
    # The excerpt underlines the wrong word; without one, the mark is the rest of the line, as far as anybody reads it.
    width = problem.excerpt.splitlines()[-1].count("^") if problem.excerpt else min(length - start, _LONGEST)
    return Mark(line, start, start + max(width, 1), problem.severity, problem.message)


class Hint(Struct, frozen=True):
    """A text about the part of a line from `start` to before `end`."""

    text: str
    line: int
    start: int
    end: int


def hint(name: str, text: str, line: int, column: int) -> Hint | None:
    """Return the explanation of the rule at a place; None if there is no rule, or if it is wrong."""
    data = text.encode("utf-8", "replace")
    document = load_document(name, data, DEFAULT)
    place = (line + 1, column + 1)  # as positions in a document count
    for ruleset in readable_rulesets([(name, data)]):
        for rule in ruleset.rules:
            begin = (rule.at.line or 0, rule.at.column or 0)
            ends = [value.end for value in document.values.values() if (value.line, value.column) == begin]
            if begin <= place <= max(ends, default=(0, 0)):
                own = document.lines[line]
                start = begin[1] - 1 if place[0] == begin[0] else len(own) - len(own.lstrip())
                return Hint(explain(rule, ruleset), line, start, max(len(own.rstrip()), start + 1))
    return None


OfferKind = Literal["metric", "statistic", "comparator", "unit", "reference", "rank", "word"]
#: Words that can be offered, their kind and their meaning.
_Words = tuple[str, OfferKind, str]
#: A name that is tried in place of any metric. It must not be a unit or another word of the language.
_ANY_METRIC = "metric"
#: The begun word at the end of a text, a metric that needs no quotes, and the quoted and plain words of a text.
_PARTIAL = re.compile(r"""[^\s(){}<>=,"`']*$""")
_PLAIN_NAME = re.compile(r"""[^\s(){}<>=,"`']+""")
_WORDS_BEFORE = re.compile(r"""["`]([^"`]+)["`]|([^\s(){}<>=,"`']+)""")
#: The statistics of a sentence, with their meanings.
_MEANINGS = {**STATISTICS, **{f"p{n}": f"the {n}th percentile" for n in (50, 90, 95, 99)}, "p99.9": "a high percentile"}


def _rank_words(name: str) -> tuple[str, str]:
    """Return the words for a name of `RANKS`, such as `on the slowest rank`, and their end after a word was typed."""
    if name == "across":
        return "across ranks", "ranks"
    return f"on {name if name == 'each' else f'the {name}'} rank", name


#: Words with their kind and meaning, the most used ones first; also the rest of words whose begin was typed.
_WORDS: tuple[_Words, ...] = (
    ("under", "comparator", "a limit: below this value"),
    ("at most", "comparator", "a limit: this value or less"),
    ("over", "comparator", "a limit: above this value"),
    ("at least", "comparator", "a limit: this value or more"),
    ("within", "comparator", "a tolerance, such as within 5% of baseline"),
    ("most", "comparator", "at most"),
    ("least", "comparator", "at least"),
    ("of baseline", "reference", "compare with the newest stored level"),
    ("of anchor", "reference", "compare with the oldest stored level that still counts"),
    ("above baseline", "reference", "compare with the newest stored level"),
    ("below baseline", "reference", "compare with the newest stored level"),
    ("of the median rank", "reference", "compare with another rank of the same run"),
    ("baseline", "reference", "the newest stored level"),
    ("anchor", "reference", "the oldest stored level that still counts"),
    ("the median rank", "reference", "another rank of the same run"),
    *((words, "rank", meaning) for name, meaning in RANKS.items() for words in _rank_words(name)),
    ("rank", "rank", "one of the ranks of a run"),
    ("and", "word", "a second tolerance, or a second clause"),
    ("largest", "word", "the largest load of a sweep that keeps a limit"),
    ("with", "word", "limits that the largest load of a sweep has to keep"),
    ("more", "word", "no more work than baseline"),
    ("work", "word", "all counts of what a step asks of host and device"),
    ("device work", "word", "all counts of what a step asks of the device"),
    ("than baseline", "reference", "compare exactly with the newest stored level"),
    ("as baseline", "reference", "compare exactly with the newest stored level"),
)
#: Sentences about exact work, which are offered whole.
_WORK = ("no more work than baseline", "no more device work than baseline", "same work as baseline")
#: The text before a sentence in its line: `- `, `assert: `, or both, and a quote.
_BEFORE_SENTENCE = re.compile(r"""\s*(?:-\s+(?:\{?\s*assert:\s+)?|assert:\s+)(['"]?)""")
#: The text before the expression of a derived metric: `NAME: ` and a quote.
_BEFORE_EXPRESSION = re.compile(r"""\s+[^\s:#][^:#]*:\s+(['"]?)""")
#: A field of a rule that is not its sentence, such as `id: `.
_OTHER_FIELD = re.compile(r"[a-z_]+:(?:\s|$)")


class Written(Struct, frozen=True):
    """The part of a rule's sentence, or of a derived metric's expression, before a place; `column`: where it begins."""

    kind: Literal["sentence", "expression"]
    text: str
    column: int


def written_before(text: str, line: int, column: int) -> Written | None:
    """Return the part of the sentence or expression before a place; None for a place outside of both."""
    lines = text.splitlines()
    before = lines[line][:column] if line < len(lines) else ""
    section = _section(lines, line)
    if section not in ("rules", "metrics") or len(before) > _LONGEST:
        return None
    found = (_BEFORE_SENTENCE if section == "rules" else _BEFORE_EXPRESSION).match(before)
    if found is None or (section == "rules" and not found[1] and _OTHER_FIELD.match(before, found.end())):
        return None  # another field, such as `- id: ...`, is not a sentence
    rest = before[found.end() :]
    if found[1] == "'":
        rest = rest.replace("''", "'")  # YAML doubles a quote
    return Written("sentence" if section == "rules" else "expression", rest, found.end())


def _section(lines: list[str], line: int) -> str:
    """Return the field at the top of the file that a line belongs to; nothing for a line before all fields."""
    for above in range(min(line, len(lines) - 1), -1, -1):
        if found := _KEY.match(lines[above]):
            return found[1]
    return ""


class Offer(Struct, frozen=True):
    """Words that can be written at a place; they replace the columns from `start` to the place."""

    text: str
    kind: OfferKind
    meaning: str
    start: int


def offers(text: str, line: int, column: int, stored: StoredMetrics | None = None) -> list[Offer]:
    """Return what can be written at a place of a rule file, the likeliest first; nothing outside of a sentence.

    `text`: the whole file. `line`, `column`: the place. `stored`: the metrics of the stored runs of each suite.
    """
    written = written_before(text, line, column)
    if written is None:
        return []
    partial = _PARTIAL.search(written.text)
    begun = partial[0] if partial else ""
    number = NUMBER.match(begun) if written.kind == "sentence" else None
    begun = begun[number.end() :] if number else begun  # `50m`: the unit is begun
    before = written.text[: len(written.text) - len(begun)]
    start = column - len(begun)
    metrics = _metrics(text, stored or {})
    found = [Offer(*offer, start) for offer in _fitting(written, before, metrics)]
    # If no word begins so, an editor may still find one that contains the letters.
    return [offer for offer in found if offer.text.startswith(begun)] or found


def _fitting(written: Written, before: str, metrics: Mapping[str, str]) -> Iterator[_Words]:
    """Yield the words that can follow `before`, the text without its begun word. `metrics`: see `_metrics`."""
    if before.split() == ["the", "largest"]:
        yield from ((name, "word", "a condition of the sweep") for name in sorted(CONDITIONS))
    elif can_begin(written, f"{before}{_ANY_METRIC}"):
        for name, meaning in metrics.items():
            yield (name if _PLAIN_NAME.fullmatch(name) else f'"{name}"'), "metric", meaning
        if not before.strip():
            yield from ((sentence, "word", "exact counts of what a step asks for") for sentence in _WORK)
            yield "the largest", "word", "the largest load of a sweep that keeps a limit"
            yield from ((f"{name} of", "statistic", meaning) for name, meaning in _MEANINGS.items())
    elif written.kind == "sentence":
        yield from _fitting_in_sentence(written, before, metrics)


def _fitting_in_sentence(written: Written, before: str, metrics: Mapping[str, str]) -> Iterator[_Words]:
    """Yield the words that can follow `before` in a sentence, where no metric can follow."""
    counts = [name for name in metrics if name.startswith("work.") and can_begin(written, before + name)]
    yield from ((name, "metric", metrics[name]) for name in counts)  # `no more work.syncs`
    words_before = ((quoted or word) for quoted, word in _WORDS_BEFORE.findall(before))
    bases = {unit.base for unit in UNITS.values()}  # the meaning of a measured metric is its base unit
    base = next((metrics[word] for word in words_before if metrics.get(word) in bases), None)
    for symbol, unit in UNITS.items():
        if (base in (None, unit.base) or symbol == "%") and can_begin(written, before + symbol):
            yield symbol, "unit", f"a unit of {unit.base}" if unit.base != "1" else "a share or a factor"
    for name, meaning in _MEANINGS.items():
        if can_begin(written, before + name):
            yield name, "statistic", meaning
    for words, kind, meaning in _WORDS:
        # `and` can join a second tolerance, but parses only with its number.
        if can_begin(written, before + words) or (words == "and" and can_begin(written, f"{before}and 1 s")):
            yield words, kind, meaning


def can_begin(written: Written, text: str) -> bool:
    """Return whether a valid sentence (or expression) can begin with a text, whose last word is complete."""
    try:
        parse_sentence(text) if written.kind == "sentence" else parse_expression(text)
    except SentenceError as error:
        return error.start >= len(text)  # only the end is wrong: more words must follow
    return True


def _metrics(text: str, stored: StoredMetrics) -> dict[str, str]:
    """Return the derived metrics of the file and the stored ones of its suites, with their unit or definition.

    If nothing is stored for its suites, those of all suites are returned.
    """
    found: dict[str, str] = {}
    suites = []
    for ruleset in readable_rulesets([("rules.yaml", text.encode("utf-8", "replace"))]):
        suites.append(ruleset.suite)
        found |= {name: metric.text for name, metric in ruleset.metrics.items()}
    for suite in [suite for suite in suites if suite in stored] or stored:
        found |= stored[suite]
    return found
