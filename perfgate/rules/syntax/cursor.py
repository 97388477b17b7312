"""Reading a sentence word by word: what stands next, quantities with their units, and what to say of a wrong word."""

from __future__ import annotations

import math
import re
from difflib import get_close_matches
from typing import NoReturn

from perfgate.core.units import NUMBER, UNITS, Quantity, find_unit
from perfgate.rules.syntax import habits
from perfgate.rules.syntax.tokens import SentenceError, Token, tokenize

MAX_LENGTH = 2000
_DIGITS = re.compile(r"[0-9]")
_NUMBER_WITH_COMMAS = re.compile(r"[-+]?[0-9]+(?:,[0-9]+)+")

KEYWORDS = (
    *("under", "below", "over", "above", "at", "most", "least", "within", "of", "and"),
    *("baseline", "anchor", "on", "each", "across", "rank", "ranks"),
)
#: Words that may stand behind a bare number, and are no misspelt units.
_AFTER_NUMBERS = (*KEYWORDS, "the", "median", "fastest", "slowest")

#: What people write for a unit, where the nearest symbol by letters would be another.
_SPELT_OUT = {
    "sec": "s",
    "secs": "s",
    "second": "s",
    "seconds": "s",
    "msec": "ms",
    "millisecond": "ms",
    "milliseconds": "ms",
    "usec": "us",
    "minutes": "min",
    "hour": "h",
    "hours": "h",
    "percent": "%",
    "bytes": "B",
    "FLOPS": "FLOP/s",
    "TFLOPS": "TFLOP/s",
}


class Cursor:
    """A place in the tokens of a sentence. Raises SentenceError for a sentence that is too long or has stray marks."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise SentenceError(f"a sentence has at most {MAX_LENGTH} characters", 0, 1)
        self.text = text
        self.tokens = tokenize(text)
        self.position = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.position]

    def peek(self, ahead: int = 1) -> Token:
        """A token further on; the last one beyond the end."""
        return self.tokens[min(self.position + ahead, len(self.tokens) - 1)]

    def take(self) -> Token:
        """The next token, and go past it."""
        token = self.token
        self.position = min(self.position + 1, len(self.tokens) - 1)
        return token

    def at(self, *words: str) -> bool:
        """Whether the next tokens are these words."""
        return all(self.peek(i).kind in ("word", "sign") and self.peek(i).text == word for i, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Go past these words if they stand next."""
        found = self.at(*words)
        if found:
            self.position += len(words)
        return found

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        """Stop at a word; a misspelt keyword is suggested."""
        token = token or self.token
        near = get_close_matches(token.text, KEYWORDS, n=1, cutoff=0.75) if token.kind == "word" else []
        if near and near[0] != token.text:
            message += f"; did you mean {near[0]!r}?"
        raise SentenceError(message, token.start, token.end)

    def is_number(self, token: Token) -> bool:
        """Whether a token begins with a number."""
        return token.kind == "word" and NUMBER.match(token.text) is not None

    def quantity(self, *, signed: bool = False) -> Quantity:
        """Read a number with its unit, glued or not; `signed` lets ± stand before it."""
        token = self.token
        text = token.text.removeprefix("±") if signed else token.text
        found = NUMBER.match(text) if token.kind == "word" else None
        if not found:
            self.fail("a quantity is expected here: a number with its unit, such as 50 ms or 5%")
        self.take()
        self.refuse_comma(token, found.end() == len(text))
        symbol, last = text[found.end() :], token
        if not symbol and self.token.kind == "word" and self.token.text not in _AFTER_NUMBERS:
            last = self.take()
            symbol = last.text
        unit = find_unit(symbol) if symbol else None
        if symbol and unit is None:
            self.fail(f"unknown unit {symbol!r}" + _near_unit(symbol), last)
        written = f"{found[0]}{symbol}" if symbol in ("%", "x") else f"{found[0]} {symbol}".rstrip()
        quantity = Quantity(float(found[0]), unit, written)
        if not math.isfinite(quantity.value):
            self.fail(f"{written} is too large a number", token)
        return quantity

    def refuse_comma(self, token: Token, is_bare: bool) -> None:
        """A number that goes on behind a comma, `0,05 s`, has another form here. Raises SentenceError."""
        end, written = token, token.text
        while is_bare and self.at(",") and self.token.glued and self.peek().glued and _DIGITS.match(self.peek().text):
            self.take()
            end = self.take()
            written += "," + end.text
        if end is not token:
            digits = _NUMBER_WITH_COMMAS.match(written)
            shown = habits.number(digits[0] if digits else written)
            raise SentenceError(f"numbers have a decimal point and no commas: write {shown}", token.start, end.end)


def _near_unit(symbol: str) -> str:
    """The unit that was meant, by letter case, by its name in words, or by its letters; else all of them."""
    same = [known for known in UNITS if known.lower() == symbol.lower()]
    spelt = [_SPELT_OUT[symbol]] if symbol in _SPELT_OUT else []
    near = same or spelt or get_close_matches(symbol, UNITS, n=1)
    return f"; did you mean {near[0]!r}?" if near else f": known are {', '.join(UNITS)}"
