"""The words of a sentence, with their columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

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


@dataclass(frozen=True, slots=True)
class Token:
    """One word or sign; `start` and `end` are columns in the sentence, from 0."""

    kind: Literal["quoted", "labels", "sign", "word", "end"]
    text: str
    start: int
    end: int
    #: Whether it stands directly behind the token before, without a blank.
    glued: bool = False


class SentenceError(Exception):
    """A sentence that cannot be understood, with the columns of the word to underline."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = max(end, start + 1)


def tokenize(text: str) -> list[Token]:
    """Split a sentence; the last token has the kind `end`. Raises SentenceError for a stray mark."""
    tokens: list[Token] = []
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup
        if kind == "blank":
            continue
        if kind == "odd":
            raise SentenceError(_stray(found[0]), found.start(), found.end())
        glued = bool(tokens) and tokens[-1].end == found.start()
        tokens.append(Token(kind, found[0], found.start(), found.end(), glued))  # type: ignore[arg-type]
    return [*tokens, Token("end", "", len(text), len(text))]


def _stray(mark: str) -> str:
    if mark in '"`':
        return f"this quote ({mark}) is not closed"
    if mark == "'":
        return 'single quotes do not quote names: write "name" or `name`'
    if mark == "=":
        return "a lone = is not a comparator: write `under`, `at most`, `over`, `at least`, <, <=, > or >="
    return f'a lone {mark} has no meaning here: labels are written {{rank="0"}}'
