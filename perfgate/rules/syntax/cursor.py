"""Read a sentence word by word: tokens with their columns, quantities with units, errors with a suggestion."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Literal, NoReturn

from msgspec import Struct

from perfgate.core.units import NUMBER, UNITS, Quantity
from perfgate.core.wording import is_statistic

#: The longest sentence, in characters.
MAX_LENGTH = 2000
KEYWORDS = (
    *("under", "below", "over", "above", "at", "most", "least", "within", "of", "and"),
    *("baseline", "anchor", "on", "each", "across", "rank", "ranks", "with", "largest"),
)
#: Words that may follow a number without a unit.
_AFTER_NUMBERS = (*KEYWORDS, "the", "median", "fastest", "slowest")
_TOKEN = re.compile(
    r"""
    (?P<quoted> "[^"]*" | `[^`]*` )
  | (?P<labels> \{ (?: [^{}"`] | "[^"]*" | `[^`]*` )* \} )
  | (?P<sign> <= | >= | [<>(),] )
  | (?P<word> [^\s(){}<>=,"`']+ )
  | (?P<blank> \s+ )
  | (?P<odd> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_UNEXPECTED = {
    **{mark: f"this quote ({mark}) is not closed: add the closing {mark}" for mark in '"`'},
    "'": 'single quotes cannot quote a name: write "name" or `name`',
    "=": "= is not a comparator: write `under`, `at most`, `over`, `at least`, <, <=, > or >=",
}
#: Units in words. By similar letters alone, another unit would be suggested for them.
_UNIT_WORDS = {
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("msec", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("hour", "hours"), "h"),
    "usec": "us",
    "minutes": "min",
    "percent": "%",
    "bytes": "B",
    "FLOPS": "FLOP/s",
    "TFLOPS": "TFLOP/s",
}
#: Comparators in other words, and the comparator of the rule language.
_COMPARATOR_WORDS: dict[tuple[str, ...], str] = {
    **dict.fromkeys((("no", "more", "than"), ("not", "more", "than"), ("no", "greater", "than")), "at most"),
    **dict.fromkeys((("no", "less", "than"), ("not", "less", "than"), ("no", "fewer", "than")), "at least"),
    **dict.fromkeys((("up", "to"), ("maximum",)), "at most"),
    ("minimum",): "at least",
    **{(word, "than"): "under" for word in ("less", "lower", "smaller", "fewer", "shorter")},
    **{(word, "than"): "over" for word in ("more", "greater", "higher", "larger", "longer")},
}
_OTHER_PERCENTILE = re.compile(r"(\d{1,2}(?:\.\d+)?|100)(?:p|st|nd|rd|th|%ile)")
_DIGITS = re.compile(r"[0-9]")
_NUMBER_WITH_COMMAS = re.compile(r"[-+]?[0-9]+(?:,[0-9]+)+")
#: A number with a comma before each three digits.
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+")


class Token(Struct, frozen=True):
    """One word or sign; `start` and `end` are columns in the sentence, from 0."""

    kind: Literal["quoted", "labels", "sign", "word", "end"]
    text: str
    start: int
    end: int
    #: True if no blank separates it from the token before.
    glued: bool = False


class SentenceError(Exception):
    """A mistake in a sentence, with the columns of the word to underline."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = max(end, start + 1)


def tokenize(text: str) -> list[Token]:
    """Split a sentence; the last token has the kind `end`. Raises SentenceError for an unexpected character."""
    tokens: list[Token] = []
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup
        if kind == "odd":
            odd = f'unexpected {found[0]}: write labels as {{rank="0"}}'
            raise SentenceError(_UNEXPECTED.get(found[0], odd), found.start(), found.end())
        if kind != "blank":
            glued = bool(tokens) and tokens[-1].end == found.start()
            tokens.append(Token(kind, found[0], found.start(), found.end(), glued))  # type: ignore[arg-type]
    return [*tokens, Token("end", "", len(text), len(text))]


class Cursor:
    """The tokens of a sentence, and the position of the next one. The parsers of the grammar are its subclasses.

    Raises SentenceError for a sentence that is too long or has an unexpected character.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise SentenceError(f"the sentence is too long: write at most {MAX_LENGTH} characters", 0, 1)
        self.text = text
        self.tokens = tokenize(text)
        self.position = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.position]

    def peek(self, ahead: int = 1) -> Token:
        """Return a token further ahead; beyond the end it is the last one."""
        return self.tokens[min(self.position + ahead, len(self.tokens) - 1)]

    def take(self) -> Token:
        """Return the next token and move past it."""
        token = self.token
        self.position = min(self.position + 1, len(self.tokens) - 1)
        return token

    def at(self, *words: str) -> bool:
        """Return whether the next tokens are these words."""
        # The text of a quoted name or of labels has its quotes or brackets, so it is never one of these words.
        # Nearly always, the first word differs, so it is compared first.
        here = self.tokens[self.position : self.position + len(words)]
        return here[0].text == words[0] and [token.text for token in here] == [*words]

    def accept(self, *words: str) -> bool:
        """Move past these words if they come next, and return whether they did."""
        found = self.at(*words)
        if found:
            self.position += len(words)
        return found

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        """Raise a SentenceError at a token; the message suggests a keyword if the word is similar to one."""
        self.fail_near(message, KEYWORDS, token)

    def fail_near(self, message: str, words: Iterable[str], token: Token | None = None) -> NoReturn:
        """Raise a SentenceError at a token; the message suggests one of these words if the token is similar to it."""
        token = token or self.token
        near = get_close_matches(token.text, list(words), n=1, cutoff=0.75) if token.kind == "word" else []
        if near and near[0] != token.text:
            message += f"; did you mean {near[0]!r}?"
        raise SentenceError(message, token.start, token.end)

    def quantity(self, *, signed: bool = False) -> Quantity:
        """Read a number with its unit, with or without a blank between them; `signed` allows ± before the number."""
        token = self.token
        text = token.text.removeprefix("±") if signed else token.text
        number = NUMBER.match(text) if token.kind == "word" else None
        if not number:
            self.fail("expected a quantity: a number with its unit, such as 50 ms or 5%")
        self.take()
        symbol, last = text[number.end() :], token
        if not symbol and self.at(","):
            self._refuse_comma(token)
        if not symbol and self.token.kind == "word" and self.token.text not in _AFTER_NUMBERS:
            last = self.take()
            symbol = last.text
        unit = UNITS.get(symbol)
        if symbol and unit is None:
            self._refuse_unit(symbol, last)
        written = f"{number[0]}{symbol}" if symbol in ("%", "x") else f"{number[0]} {symbol}".rstrip()
        quantity = Quantity(float(number[0]), unit, written)
        if not math.isfinite(quantity.value):
            self.fail(f"the number {written} is too large", token)
        return quantity

    def _refuse_unit(self, symbol: str, token: Token) -> NoReturn:
        """Refuse an unknown unit; suggest one by letter case, by its name in words, or by its letters."""
        meant = meant_unit(symbol)
        near = [meant] if meant else get_close_matches(symbol, UNITS, n=1)
        advice = f"did you mean {near[0]!r}?" if near else f"known units are {', '.join(UNITS)}"
        self.fail(f"unknown unit {symbol!r}; {advice}", token)

    def refuse_comparator(self) -> NoReturn:
        """Explain a missing comparator; suggest the right word for `95p`, `no more than 5 ms` and `max 5 ms`."""
        token, before = self.token, self.tokens[max(self.position - 1, 0)]
        if token.kind == "end":
            self.fail("the sentence ends before its clause: add one, such as `under 50 ms` or `within 5% of baseline`")
        if re.fullmatch(r"p\d+(\.\d+)?", token.text) and not is_statistic(token.text):
            self.fail(f"{token.text} is not a percentile: write p0 to p100")
        # In `95th of forward`, the next token is `of`, and the wrong word is before it.
        for word in (token, *([before] if token.text == "of" else [])):
            if meant := meant_percentile(word.text):
                self.fail(f"{word.text!r} is not a percentile: write `{meant}`", word)
        for phrase, comparator in _COMPARATOR_WORDS.items():
            if self.at(*phrase):
                end = self.peek(len(phrase) - 1).end
                message = f"`{' '.join(phrase)}` is not a comparator: write `{comparator}`"
                raise SentenceError(message, token.start, end)
        if before.text in ("max", "min") and token.kind == "word" and NUMBER.match(token.text):
            meant = "at most" if before.text == "max" else "at least"
            self.fail(f"`{before.text}` is a statistic, not a comparator: write `{meant}`", before)
        expected = "a statistic, a comparator (under, at most, over, at least) or `within`"
        self.fail(f"unexpected {token.text!r}: expected {expected}")

    def _refuse_comma(self, token: Token) -> None:
        """Raise SentenceError if a number continues after a comma: `0,05 s`, `1,000 ms`."""
        end, written = token, token.text
        while self.at(",") and self.token.glued and self.peek().glued and _DIGITS.match(self.peek().text):
            self.take()
            end = self.take()
            written += "," + end.text
        if end is token:
            return
        digits = _NUMBER_WITH_COMMAS.match(written)
        number = digits[0] if digits else written
        meant, whole = (f"`{number.replace(',', sign)}`" for sign in (".", ""))
        if number.count(",") > 1:
            meant = whole
        elif _THOUSANDS.fullmatch(number):
            meant = f"{whole}, or {meant} if the comma is the decimal point"
        message = f"a number has a decimal point and no commas: write {meant}"
        raise SentenceError(message, token.start, end.end)


def meant_unit(word: str) -> str | None:
    """Return the unit that a word means: `ms` for `msec`, `GB` for `gb`; None for another word."""
    if word in UNITS:
        return word
    same = [symbol for symbol in UNITS if symbol.lower() == word.lower()]
    return same[0] if same else _UNIT_WORDS.get(word) or _UNIT_WORDS.get(word.lower())


def meant_percentile(word: str) -> str | None:
    """Return the percentile that `95p` or `95th` means (`p95`), or None for another word."""
    found = _OTHER_PERCENTILE.fullmatch(word)
    return f"p{found[1]}" if found else None
