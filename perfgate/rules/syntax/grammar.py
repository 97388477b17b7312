"""The grammar of a sentence: text in, `Sentence` out, or a SentenceError with the wrong word and the reason.

sentence   = ("no more" work "than" | "same" work "as") ["the"] "baseline"                exact counts of work
           | subject [STAT] [rank] [STAT] clause { "and" clause } [rank]  one STAT and one rank in all
subject    = STAT "of" sum | sum | ["the" "largest"] load
load       = NAME [ "{" labels "}" ] "with" kept { "and" kept }           the largest load that keeps limits
kept       = NAME [ "{" labels "}" ] [STAT] comparator QUANTITY
work       = ["device"] "work" | NAME [ "{" labels "}" ]                  all counts, or one: work.syncs
sum        = product { ("+" | "-") product }            operators have blanks on both sides
product    = operand { ("*" | "/") operand }
operand    = NUMBER | STAT "(" sum ")" | "(" sum ")" | NAME [ "{" labels "}" ]
rank       = "on" ["the"] ("worst" | "slowest" | "fastest" | "median") "rank" | "on each rank" | "across ranks"
clause     = comparator QUANTITY                                          a limit
           | comparator T { "and" T } ("above" | "below") reference       a change
           | comparator FACTOR ["of"] reference                           105% of, 1.1x
           | "within" ["±"] T { "and" T } "of" reference
reference  = "baseline" | "anchor" | ["the"] ("median" | "fastest" | "slowest") "rank"
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import NoReturn, cast, get_args

from perfgate.core import Comparator
from perfgate.core.units import NUMBER, Quantity
from perfgate.core.wording import is_statistic
from perfgate.rules.syntax.cursor import SentenceError, Token
from perfgate.rules.syntax.sentence import (
    ChangeClause,
    Clause,
    Expression,
    LimitClause,
    RankChoice,
    Reference,
    Selector,
    Sentence,
    StatisticOf,
    WorkClause,
    is_per_run,
)
from perfgate.rules.syntax.subject import COMPARATORS, SubjectParser

#: The counts of exact work that readers of profiles know, the most telling first.
COUNTS = (
    *("work.syncs", "work.allocations", "work.copies", "work.copied_bytes", "work.collectives"),
    *("work.collective_bytes", "work.flops", "work.kernels", "work.graph_launches", "work.blocks", "work.memsets"),
    *("work.launches", "work.ops"),
)
#: The words that may be between `on` and `rank`.
RANKS = ("worst", "each", "slowest", "fastest", "median")


def parse_sentence(text: str) -> Sentence:
    """Parse one sentence. Raises SentenceError."""
    parser = _Parser(text)
    if parser.begins_work():
        return parser.work_sentence()
    begin, statistic = parser.token, None  # the statistic may be before the subject, after it, or after the rank
    if is_statistic(begin.text) and parser.peek().text == "of":
        statistic = parser.take().text
        parser.take()
    start = parser.token.start
    subject = parser.largest_load() if parser.accept("the", "largest") else parser.sum()
    if parser.at("with") and isinstance(subject, Selector):
        subject = parser.with_limits(subject, is_condition=False)
    subject_text = text[start : parser.tokens[parser.position - 1].end]
    statistic = statistic or parser.statistic()
    rank = parser.rank()
    statistic = statistic or (parser.statistic() if rank else None)
    if isinstance(subject, StatisticOf):  # `p95(x)` alone means `x p95`
        if statistic is not None:
            parser.fail(f"two statistics, {subject.statistic} and {statistic}: keep one", begin)
        statistic, subject = subject.statistic, subject.of
    elif statistic is not None and is_per_run(subject):
        parser.fail(f"the subject already contains statistics: remove {statistic}", begin)
    clauses = [parser.clause()]
    while parser.accept("and"):
        clauses.append(parser.clause())
    rank = rank or parser.rank()
    references = [clause.asks.reference for clause in clauses if isinstance(clause.asks, ChangeClause)]
    if rank in ("each", "across") and any(reference.endswith("rank") for reference in references):
        parser.fail("to compare with another rank, choose one rank: write `on the slowest rank`", begin)
    if parser.token.kind != "end":
        parser.fail("the sentence should end here, or continue with `and`")
    return Sentence(text, subject, subject_text, statistic, rank, tuple(clauses))


def parse_expression(text: str) -> Expression:
    """Parse the definition of a derived metric: names, constants, + - * / and brackets. Raises SentenceError."""
    parser = _Parser(text)
    expression = parser.sum()
    if parser.token.kind != "end":
        parser.fail("expected an operator (+ - * /, with blanks on both sides) or the end")
    return expression


class _Parser(SubjectParser):
    """Reads all other parts of the grammar, with one method for each."""

    def rank(self) -> RankChoice | None:
        """Read `on the worst rank`, `on each rank` or `across ranks` if it comes next."""
        if self.accept("across", "ranks"):
            return "across"
        if not self.accept("on"):
            return None
        self.accept("the")
        choice = self.token.text
        if choice not in RANKS:
            self.fail("expected worst, each, slowest, fastest or median after `on`")
        self.take()
        if not self.accept("rank"):
            self.fail(f"expected `rank` after `on {choice}`")
        return cast(RankChoice, choice)

    def begins_work(self) -> bool:
        """Return whether the sentence is about exact work, perhaps misspelt."""
        word = self.token.text
        if word not in ("no", "not", "same"):
            return False
        is_named = any(self.peek(ahead).text.startswith(("work", "device")) for ahead in (1, 2))
        return is_named or self.at("no", "more") or (word == "same" and self.peek(2).text == "as")

    def work_sentence(self) -> Sentence:
        """Read `no more work than baseline`, `same device work as baseline` or `no more work.syncs than baseline`."""
        is_same = self.accept("same")
        if not is_same and not self.accept("no", "more"):
            self.fail("expected `no more` or `same` before `work`: `no more work than baseline`")
        start, device = self.token.start, self.accept("device")
        if self.accept("work"):
            subject = Selector("work.*")
        elif device:
            self.fail_near("expected `work` after `device`", ("work",))
        else:
            subject = self.work_counts()
        subject_text = self.text[start : self.tokens[self.position - 1].end]
        link = "as" if is_same else "than"
        if not self.accept(link):
            self.fail_near(f"expected `{link} baseline` after {subject_text!r}", (link,))
        self.accept("the")
        if not self.accept("baseline"):
            self.fail("expected `baseline`: work is compared with the stored runs")
        if self.token.kind != "end":
            self.fail("the sentence should end here")
        asks = WorkClause(is_same, device)
        clause = Clause(asks, self.text.strip())
        return Sentence(self.text, subject, subject_text, statistic=None, rank=None, clauses=(clause,))

    def work_counts(self) -> Selector:
        """Read the name or glob of counts of work, with labels."""
        start = self.token
        found = self.operand(depth=0) if start.kind in ("word", "quoted") else None
        if not isinstance(found, Selector) or not found.pattern.startswith("work."):
            message = "expected `work` or a count of it, such as work.syncs: `no more work than baseline`"
            near = get_close_matches(f"work.{start.text}", COUNTS, n=1, cutoff=0.85)
            self.fail_near(f"{message}; did you mean {near[0]!r}?" if near else message, ("work", "device"), start)
        if "device_time" in found.pattern:
            self.fail("device time is not a count: write `work.device_time within 1% of baseline`", start)
        return found

    def clause(self) -> Clause:
        """Read one clause: a limit or a change."""
        start = self.token.start
        asks: LimitClause | ChangeClause
        if self.accept("within"):
            both = self.accept("±") or (self.token.kind == "word" and self.token.text.startswith("±"))
            relative, absolute = self.tolerances(self.quantity(signed=both))
            if not self.accept("of"):
                self.fail("expected `of baseline`, `of anchor` or `of the median rank` after the tolerance")
            asks = ChangeClause(self.reference(), "both" if both else "worse", relative, absolute)
        else:
            comparator = next((found for words, found in COMPARATORS.items() if self.accept(*words)), None)
            asks = self.compared(comparator or self.refuse_comparator())
        return Clause(asks, self.text[start : self.tokens[self.position - 1].end])

    def compared(self, comparator: Comparator) -> LimitClause | ChangeClause:
        """Read the rest of a clause after its comparator: a limit, or a change if it names a reference."""
        start, quantity = self.token, self.quantity()
        second_tolerance = self.at("and") and NUMBER.match(self.peek().text)
        if second_tolerance or self.at("above") or self.at("below"):
            return self.above_or_below(comparator, quantity, start)
        ahead = 1 if self.at("the") else 0
        names_reference = self.peek(ahead).text in ("baseline", "anchor")
        # `under 50 ms on the worst rank` names no reference: it says on which rank the limit is.
        names_rank = self.peek(ahead + 1).text == "rank" and not self.at("on")
        if self.at("of") or names_reference or names_rank:
            return self.part_of(comparator, quantity, start)
        return LimitClause(comparator, quantity)

    def above_or_below(self, comparator: Comparator, quantity: Quantity, start: Token) -> ChangeClause:
        """Read the rest of `at most 3% above baseline`. `start`: its quantity."""
        relative, absolute = self.tolerances(quantity)
        if not (self.at("above") or self.at("below")):
            self.fail("expected `above baseline` or `below baseline` after two tolerances")
        side = self.take().text
        reference = self.reference()
        if comparator in ("over", "at least"):
            message = f"`{comparator} {quantity} {side} {reference}` limits or requires an improvement"
            self.refuse_improvement(start, message)
        return ChangeClause(reference, "upper" if side == "above" else "lower", relative, absolute)

    def part_of(self, comparator: Comparator, quantity: Quantity, start: Token) -> ChangeClause:
        """Read the rest of `at most 105% of baseline` or `at least 0.95x baseline`. `start`: its quantity."""
        if quantity.unit is None or quantity.unit.symbol not in ("%", "x"):
            self.fail(f"{quantity} of a reference is not possible: write a percentage or a factor (105%, 1.05x)", start)
        if quantity.number <= 0:
            self.fail(f"{quantity} of a reference can never fail: write more than 0", start)
        self.accept("of")
        reference = self.reference()
        upper = comparator in ("under", "at most")
        tolerance = quantity.value - 1 if upper else 1 - quantity.value
        tolerance = round(tolerance, 12)  # 105 % - 1 is 0.05, not 0.050000000000000044
        if tolerance < 0:
            message = f"`{comparator} {quantity} of {reference}` requires an improvement every time"
            self.refuse_improvement(start, message)
        return ChangeClause(reference, "upper" if upper else "lower", tolerance)

    def refuse_improvement(self, start: Token, message: str) -> NoReturn:
        advice = "limit how much worse it may get, such as `within 5% of baseline`"
        raise SentenceError(f"{message}: {advice}", start.start, start.end)

    def tolerances(self, first: Quantity) -> tuple[float | None, Quantity | None]:
        """Read further tolerances after `and`; return the relative one, a share, and the absolute one, each or None."""
        found = [first]
        while self.at("and") and NUMBER.match(self.peek().text):
            self.take()
            found.append(self.quantity())
        symbols = [quantity.unit.symbol if quantity.unit else "" for quantity in found]
        relative = [quantity for quantity, symbol in zip(found, symbols, strict=True) if symbol == "%"]
        absolute = [quantity for quantity, symbol in zip(found, symbols, strict=True) if symbol != "%"]
        last = self.tokens[self.position - 1]
        if len(relative) > 1 or len(absolute) > 1:
            self.fail("two tolerances must be one relative and one absolute: `within 5% and 2 ms of baseline`", last)
        if "x" in symbols:
            self.fail("a factor is not a tolerance: write `within 10% of baseline` or `at most 1.1x of baseline`", last)
        if any(quantity.number < 0 for quantity in found):
            self.fail("a tolerance cannot be negative", last)
        return (relative[0].value if relative else None), (absolute[0] if absolute else None)

    def reference(self) -> Reference:
        self.accept("the")
        for reference in get_args(Reference):
            if self.accept(*reference.split()):
                return cast(Reference, reference)
        self.fail("expected a reference: baseline, anchor, or the median, fastest or slowest rank")
