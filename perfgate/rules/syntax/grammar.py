"""The grammar of a sentence: text in, `Sentence` out, or a SentenceError that says which word and why.

sentence   = subject [STAT] [rank] clause { "and" clause } [rank]
subject    = STAT "of" sum | sum
sum        = product { ("+" | "-") product }            operators stand between blanks
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

import math
import re
from typing import NoReturn, cast, get_args

from perfgate.core import Comparator
from perfgate.core.statistic_names import STATISTICS, is_statistic
from perfgate.core.units import Quantity
from perfgate.rules.syntax import habits
from perfgate.rules.syntax.cursor import Cursor
from perfgate.rules.syntax.sentence import (
    Arithmetic,
    ChangeClause,
    Clause,
    Expression,
    LabelTest,
    LimitClause,
    Number,
    RankChoice,
    Reference,
    Selector,
    Sentence,
    StatisticOf,
    is_per_run,
    selectors,
)
from perfgate.rules.syntax.tokens import SentenceError, Token

#: The words of a comparator, and the comparator.
COMPARATORS: dict[tuple[str, ...], Comparator] = {
    ("under",): "under",
    ("below",): "under",
    ("<",): "under",
    ("at", "most"): "at most",
    ("<=",): "at most",
    ("over",): "over",
    ("above",): "over",
    (">",): "over",
    ("at", "least"): "at least",
    (">=",): "at least",
}
_RANKS = ("worst", "each", "slowest", "fastest", "median")
_LABEL = re.compile(r"""\s*([A-Za-z_][\w.-]*)\s*(!?=)\s*("[^"]*"|`[^`]*`|[^\s,{}="`']+)\s*(,|$)""")
_CONSTANT = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
#: Far more than anyone reads; an expression is evaluated by recursion.
MAX_OPERATORS = 100


def parse_sentence(text: str) -> Sentence:
    """Parse one sentence. Raises SentenceError."""
    return _Parser(text).sentence()


def parse_expression(text: str) -> Expression:
    """Parse the definition of a derived metric: names, constants, + - * / and brackets, no globs or statistics."""
    parser = _Parser(text)
    expression = parser.sum()
    if parser.token.kind != "end":
        parser.fail("an operator (+ - * /, between blanks) or the end is expected here")
    return expression


def _against_rank(clause: Clause) -> bool:
    return isinstance(clause.asks, ChangeClause) and clause.asks.reference.endswith("rank")


class _Parser(Cursor):
    """One method for each line of the grammar."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.operators = 0

    # --- the sentence --------------------------------------------------------------------------------------------

    def sentence(self) -> Sentence:
        begin = self.token
        statistic: str | None = None
        if is_statistic(begin.text) and self.peek().text == "of":
            statistic = self.take().text
            self.take()
        start = self.token.start
        subject = self.sum()
        subject_text = self.text[start : self.tokens[self.position - 1].end]
        if statistic is None and self.token.kind == "word" and is_statistic(self.token.text):
            statistic = self.take().text
        rank = self.rank()
        if statistic is None and rank and self.token.kind == "word" and is_statistic(self.token.text):
            statistic = self.take().text
        if isinstance(subject, StatisticOf):
            statistic, subject = self.unwrap(subject, statistic, begin)
        elif statistic is not None and is_per_run(subject):
            self.fail(f"the subject already holds statistics; {statistic} of it has no meaning", begin)
        clauses = self.clauses()
        rank = rank or self.rank()
        if rank in ("each", "across") and any(_against_rank(clause) for clause in clauses):
            self.fail("comparing with another rank takes one rank: write `on the slowest rank`", begin)
        if self.token.kind != "end":
            self.fail("the sentence should end here, or go on with `and`")
        return Sentence(self.text, subject, subject_text, statistic, rank, clauses)

    def unwrap(self, subject: StatisticOf, statistic: str | None, begin: Token) -> tuple[str, Expression]:
        """`p95(x)` alone is the same as `x p95`."""
        if statistic is not None:
            self.fail(f"two statistics, {subject.statistic} and {statistic}: keep one", begin)
        return subject.statistic, subject.of

    def rank(self) -> RankChoice | None:
        if self.accept("across", "ranks"):
            return "across"
        if not self.at("on"):
            return None
        self.take()
        self.accept("the")
        choice = self.token.text
        if choice not in _RANKS:
            self.fail("expected worst, each, slowest, fastest or median after `on`")
        self.take()
        if not self.accept("rank"):
            self.fail(f"expected `rank` after `on {choice}`")
        return cast(RankChoice, choice)

    # --- the subject ---------------------------------------------------------------------------------------------

    def sum(self, depth: int = 0) -> Expression:
        left = self.product(depth)
        while self.token.kind == "word" and self.token.text in ("+", "-"):
            left = self.combine(left, self.take(), self.product(depth))
        return left

    def product(self, depth: int) -> Expression:
        left = self.operand(depth)
        while self.token.kind == "word" and self.token.text in ("*", "/"):
            left = self.combine(left, self.take(), self.operand(depth))
        return left

    def combine(self, left: Expression, operator: Token, right: Expression) -> Expression:
        for selector in (*selectors(left), *selectors(right)):
            if selector.is_glob:
                self.fail(
                    f"{selector.pattern!r} may match several metrics: arithmetic is between single ones",
                    operator,
                )
        for side, other in ((left, right), (right, left)):
            if is_per_run(side) and not is_per_run(other) and not isinstance(other, Number):
                self.fail(
                    "one side is a statistic of a run and the other a value per step: write STAT(...) on both",
                    operator,
                )
        self.operators += 1
        if self.operators > MAX_OPERATORS:
            self.fail(f"an expression has at most {MAX_OPERATORS} operators", operator)
        return Arithmetic(operator.text, left, right)  # type: ignore[arg-type]

    def operand(self, depth: int) -> Expression:
        if depth > 20:
            self.fail("brackets are nested more than 20 deep")
        if self.token.kind == "sign" and self.token.text == "(":
            return self.bracket(depth)
        if self.token.kind == "word" and self.peek().text == "(" and self.peek().glued:
            return self.call(depth)
        if self.token.kind == "word" and _CONSTANT.fullmatch(self.token.text):
            return self.constant()
        return self.selector()

    def constant(self) -> Number:
        value = float(self.token.text)
        if not math.isfinite(value):
            self.fail(f"{self.token.text} is too large a number")
        self.take()
        return Number(value)

    def bracket(self, depth: int) -> Expression:
        self.take()
        inside = self.sum(depth + 1)
        if not self.accept(")"):
            self.fail("a closing bracket is missing here")
        return inside

    def call(self, depth: int) -> Expression:
        name = self.take()
        if not is_statistic(name.text):
            meant = habits.percentile(name.text)
            words = f"write `{meant}`" if meant else f"use p0 to p100, {', '.join(STATISTICS)}"
            self.fail(f"{name.text!r} is not a statistic: {words}", name)
        inside = self.bracket(depth)
        if is_per_run(inside):
            self.fail("a statistic of a statistic has no meaning", name)
        return StatisticOf(name.text, inside)

    def selector(self) -> Selector:
        token = self.token
        if token.kind not in ("word", "quoted"):
            self.fail("a metric is expected here" + ("" if token.kind == "end" else f", not {token.text!r}"))
        self.take()
        quoted = token.kind == "quoted"
        name = token.text[1:-1] if quoted else token.text
        if not name:
            self.fail("a metric's name is empty", token)
        labels: tuple[LabelTest, ...] = ()
        if self.token.kind == "labels":
            labels = self.labels(self.take())
        return Selector(name, quoted, labels)

    def labels(self, token: Token) -> tuple[LabelTest, ...]:
        body, position, tests = token.text[1:-1], 0, []
        while position < len(body):
            found = _LABEL.match(body, position)
            if not found or (found[4] == "," and found.end() == len(body)):
                start = token.start + 1 + position
                raise SentenceError('labels are written {rank="0", name!="warm*"}', start, token.end - 1)
            tests.append(LabelTest(found[1], found[3][1:-1] if found[3][0] in '"`' else found[3], found[2] == "!="))
            position = found.end()
        return tuple(tests)

    # --- the clauses ---------------------------------------------------------------------------------------------

    def clauses(self) -> tuple[Clause, ...]:
        found = [self.clause()]
        while self.accept("and"):
            found.append(self.clause())
        return tuple(found)

    def clause(self) -> Clause:
        start = self.token.start
        if self.accept("within"):
            asks: LimitClause | ChangeClause = self.within()
        else:
            asks = self.compared(self.comparator())
        return Clause(asks, self.text[start : self.tokens[self.position - 1].end])

    def comparator(self) -> Comparator:
        for words, comparator in COMPARATORS.items():
            if self.accept(*words):
                return comparator
        if self.token.kind == "end":
            self.fail("the sentence ends before it says what is asked: `under 50 ms`, `within 5% of baseline`")
        if re.fullmatch(r"p\d+(\.\d+)?", self.token.text) and not is_statistic(self.token.text):
            self.fail(f"{self.token.text} is not a percentile: they go from p0 to p100")
        self.refuse_habits()
        self.fail(
            f"expected a statistic, a comparator (under, at most, over, at least) or `within`, not {self.token.text!r}"
        )

    def refuse_habits(self) -> None:
        """Say the right word for what is written out of habit: `95p`, `no more than 5 ms`, `max 5 ms`."""
        before = self.tokens[max(self.position - 1, 0)]
        for token in (self.token, *([before] if self.token.text == "of" else [])):
            if meant := habits.percentile(token.text):
                self.fail(f"a percentile is written `{meant}`, not {token.text!r}", token)
        if found := habits.comparator([self.peek(ahead).text for ahead in range(3)]):
            meant, length = found
            message = f"write `{meant}` for this"
            raise SentenceError(message, self.token.start, self.peek(length - 1).end)
        if before.text in ("max", "min") and self.is_number(self.token):
            meant = "at most" if before.text == "max" else "at least"
            self.fail(f"`{before.text}` is a statistic here: write `{meant}` for a bound", before)

    def within(self) -> ChangeClause:
        both = self.accept("±")
        start = self.token
        if not both and start.text.startswith("±") and start.kind == "word":
            both = True
        relative, absolute = self.tolerances(self.quantity(signed=both))
        if not self.accept("of"):
            self.fail("expected `of baseline`, `of anchor` or `of the median rank` after the tolerance")
        return ChangeClause(self.reference(), "both" if both else "worse", relative, absolute)

    def compared(self, comparator: Comparator) -> LimitClause | ChangeClause:
        start = self.token
        quantity = self.quantity()
        joined = self.at("and") and self.is_number(self.peek())
        if joined or self.at("above") or self.at("below"):
            return self.beside(comparator, quantity, start)
        if self.at("of") or self.at_reference():
            return self.part_of(comparator, quantity, start)
        return LimitClause(comparator, quantity)

    def beside(self, comparator: Comparator, quantity: Quantity, start: Token) -> ChangeClause:
        """`at most 3% above baseline`."""
        relative, absolute = self.tolerances(quantity)
        if not (self.at("above") or self.at("below")):
            self.fail("expected `above baseline` or `below baseline` after two tolerances")
        side = self.take().text
        reference = self.reference()
        if comparator in ("over", "at least"):
            self.improving(
                start,
                f"`{comparator} {quantity} {side} {reference}` bounds a change on its improving side, or asks for one",
            )
        return ChangeClause(reference, "upper" if side == "above" else "lower", relative, absolute)

    def part_of(self, comparator: Comparator, quantity: Quantity, start: Token) -> ChangeClause:
        """`at most 105% of baseline`, `at least 0.95x baseline`."""
        if quantity.unit is None or quantity.unit.symbol not in ("%", "x"):
            self.fail(f"a part of a reference is a percentage or a factor (105%, 1.05x), not {quantity}", start)
        if quantity.number <= 0:
            self.fail(f"a part of a reference is more than 0, not {quantity}: this could never fail", start)
        self.accept("of")
        reference = self.reference()
        upper = comparator in ("under", "at most")
        tolerance = quantity.value - 1 if upper else 1 - quantity.value
        tolerance = round(tolerance, 12)  # 105 % - 1 is 0.05, not 0.050000000000000044
        if tolerance < 0:
            self.improving(start, f"`{comparator} {quantity} of {reference}` asks every change to be an improvement")
        return ChangeClause(reference, "upper" if upper else "lower", tolerance)

    def improving(self, start: Token, message: str) -> NoReturn:
        raise SentenceError(message + ": write what may get worse, `within 5% of baseline`", start.start, start.end)

    def tolerances(self, first: Quantity) -> tuple[float | None, Quantity | None]:
        """One tolerance, or a relative and an absolute one joined by `and`."""
        found = [first]
        while self.at("and") and self.is_number(self.peek()):
            self.take()
            found.append(self.quantity())
        relative = [q for q in found if q.unit is not None and q.unit.symbol == "%"]
        absolute = [q for q in found if q not in relative]
        last = self.tokens[self.position - 1]
        if len(relative) > 1 or len(absolute) > 1:
            self.fail("`and` joins one relative and one absolute tolerance: `within 5% and 2 ms of baseline`", last)
        if any(q.unit is not None and q.unit.symbol == "x" for q in absolute):
            self.fail(
                "a tolerance is a percentage or a quantity: write `at most 1.1x of baseline` or `within 10%`",
                last,
            )
        if any(q.number < 0 for q in found):
            self.fail("a tolerance is not negative", last)
        return (relative[0].value if relative else None), (absolute[0] if absolute else None)

    def at_reference(self) -> bool:
        ahead = 1 if self.at("the") else 0
        named = self.peek(ahead).text in ("baseline", "anchor")
        return named or (self.peek(ahead + 1).text == "rank" and not self.at("on"))

    def reference(self) -> Reference:
        self.accept("the")
        for reference in get_args(Reference):
            if self.accept(*reference.split()):
                return cast(Reference, reference)
        self.fail("expected a reference: baseline, anchor, or the median, fastest or slowest rank")
