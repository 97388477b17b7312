"""The grammar of a subject: a metric, an expression, or the largest load of a sweep (`grammar` has all of it)."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import NoReturn

from perfgate.core import Comparator
from perfgate.core.units import NUMBER
from perfgate.core.wording import STATISTICS, is_statistic
from perfgate.rules.syntax.cursor import Cursor, SentenceError, Token, meant_percentile
from perfgate.rules.syntax.sentence import (
    Arithmetic,
    Expression,
    KeptLimit,
    LabelTest,
    LargestLoad,
    LimitClause,
    Number,
    Selector,
    StatisticOf,
    is_per_run,
    selectors,
)

#: The words of a comparator, and the comparator.
COMPARATORS: dict[tuple[str, ...], Comparator] = {
    **{(word,): "under" for word in ("under", "below", "<")},
    ("at", "most"): "at most",
    ("<=",): "at most",
    **{(word,): "over" for word in ("over", "above", ">")},
    ("at", "least"): "at least",
    (">=",): "at least",
}
_CLAUSE_STARTS = {"within", *(words[0] for words in COMPARATORS)}
_LABEL = re.compile(r"""\s*([A-Za-z_][\w.-]*)\s*(!?=)\s*("[^"]*"|`[^`]*`|[^\s,{}="`']+)\s*(,|$)""")
_CONSTANT = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
#: The most operators of one expression: some functions follow it by recursion.
MAX_OPERATORS = 100


class SubjectParser(Cursor):
    """Reads a subject, with one method for each part of its grammar."""

    #: The number of operators read so far.
    operators = 0

    def statistic(self) -> str | None:
        """Read a statistic if one comes next."""
        return self.take().text if self.token.kind == "word" and is_statistic(self.token.text) else None

    def sum(self, depth: int = 0, operators: tuple[str, str] = ("+", "-")) -> Expression:
        """Read a sum of products or, with other operators, a product of operands. `depth`: the open brackets."""
        is_sum = operators == ("+", "-")
        part = partial(self.sum, depth, ("*", "/")) if is_sum else partial(self.operand, depth)
        left = part()
        while self.token.kind == "word" and self.token.text in operators:
            operator, right = self.take(), part()
            glob = next((one.pattern for one in (*selectors(left), *selectors(right)) if one.is_glob), None)
            if glob is not None:
                self.fail(f"{glob!r} may match several metrics: arithmetic needs the name of one metric", operator)
            # A constant fits numbers of runs and values of steps.
            other = right if is_per_run(left) else left
            if is_per_run(left) != is_per_run(right) and not isinstance(other, Number):
                message = "one side has one number per run, the other a value per step"
                self.fail(f"{message}: write STAT(...) on both sides", operator)
            self.operators += 1
            if self.operators > MAX_OPERATORS:
                self.fail(f"the expression has too many operators: write at most {MAX_OPERATORS}", operator)
            left = Arithmetic(operator.text, left, right)  # type: ignore[arg-type]
        return left

    def operand(self, depth: int) -> Expression:
        """Read a number, a statistic in brackets, a sum in brackets, or a name with its labels."""
        if depth > 20:
            self.fail("brackets are nested too deep: write at most 20 inside one another")
        token = self.token
        is_call = token.kind == "word" and self.peek().text == "(" and self.peek().glued
        if is_call and not is_statistic(token.text):
            self._refuse_statistic(token)
        if self.accept("(") or (is_call and self.accept(token.text, "(")):
            inside = self.sum(depth + 1)
            if not self.accept(")"):
                self.fail("a closing bracket is missing: add )")
            if is_call and is_per_run(inside):
                self.fail("a statistic of a statistic is not possible: remove one of them", token)
            return StatisticOf(token.text, inside) if is_call else inside
        if token.kind not in ("word", "quoted"):
            self.fail("expected a metric" + ("" if token.kind == "end" else f", not {token.text!r}"))
        self.take()
        if token.kind == "word" and _CONSTANT.fullmatch(token.text):
            if not math.isfinite(float(token.text)):
                self.fail(f"the number {token.text} is too large", token)
            return Number(float(token.text))
        name = token.text[1:-1] if token.kind == "quoted" else token.text
        if not name:
            self.fail("the name of the metric is empty: write it between the quotes", token)
        labels = self.labels(self.take()) if self.token.kind == "labels" else ()
        return Selector(name, token.kind == "quoted", labels)

    def _refuse_statistic(self, token: Token) -> NoReturn:
        meant = meant_percentile(token.text)
        advice = f"write `{meant}`" if meant else f"use p0 to p100, {', '.join(STATISTICS)}"
        self.fail(f"{token.text!r} is not a statistic: {advice}", token)

    def labels(self, token: Token) -> tuple[LabelTest, ...]:
        """Return the conditions in braces."""
        body, position, tests = token.text[1:-1], 0, []
        while position < len(body):
            found = _LABEL.match(body, position)
            if not found or (found[4] == "," and found.end() == len(body)):
                start = token.start + 1 + position
                raise SentenceError('write labels as {rank="0", name!="warm*"}', start, token.end - 1)
            name, operator, value, _ = found.groups()
            tests.append(LabelTest(name, value[1:-1] if value[0] in '"`' else value, negated=operator == "!="))
            position = found.end()
        return tuple(tests)

    def largest_load(self) -> LargestLoad:
        """Read `request_rate with p99_ttft under 500 ms` after `the largest`."""
        of = self.name("a condition, such as request_rate, after `the largest`")
        if not self.at("with"):
            self.fail("expected `with` and a limit, such as `with p99_ttft under 500 ms`")
        return self.with_limits(of, is_condition=True)

    def with_limits(self, of: Selector, *, is_condition: bool) -> LargestLoad:
        """Read `with` and its limits. `of`: the condition or the metric that was read before."""
        if NUMBER.match(self.peek().text):
            self.fail("expected a metric after `with`; did you mean 'within'?", self.take())
        if of.is_glob:
            self.fail(f"{of.pattern!r} may match several metrics: write the name of one")
        self.take()
        limits = [self.kept_limit()]
        while self.at("and") and not self.is_clause_next():
            self.take()
            limits.append(self.kept_limit())
        return LargestLoad(of, is_condition, tuple(limits))

    def kept_limit(self) -> KeptLimit:
        """Read one limit: `p99_ttft under 500 ms`."""
        of = self.name("a metric after `with`")
        statistic = self.statistic()
        comparator = next((found for words, found in COMPARATORS.items() if self.accept(*words)), None)
        return KeptLimit(of, statistic, LimitClause(comparator or self.refuse_comparator(), self.quantity()))

    def name(self, what: str) -> Selector:
        """Read the name of one metric or condition, with its labels."""
        start = self.token
        found = self.operand(depth=0) if start.kind in ("word", "quoted") else None
        if not isinstance(found, Selector) or found.is_glob:
            self.fail(f"expected {what}", start)
        return found

    def is_clause_next(self) -> bool:
        """Return whether the token after the next begins a clause or is a number; otherwise it is a name."""
        token = self.peek(1)
        return token.text in _CLAUSE_STARTS or bool(NUMBER.match(token.text))
