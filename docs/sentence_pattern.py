r"""The grammar of a sentence as one regular expression, for editors that only know the JSON Schema of rule files.

The expression accepts every valid sentence, and some others: it does not count brackets, and it knows neither the units
of metrics nor which bound requires an improvement. It is written in the common part of ECMA 262 and Python's `re`. A
word ends where the next character cannot belong to it, so that no part can match in two ways, and matching is fast.

`python docs/make_reference.py` writes it to `rules.schema.json`; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import get_args

from perfgate.core.units import NUMBER, UNITS
from perfgate.core.wording import STATISTICS
from perfgate.rules.syntax.grammar import RANKS
from perfgate.rules.syntax.sentence import Reference
from perfgate.rules.syntax.subject import COMPARATORS

_LETTER = r"""[^\s(){}<>=,"`']"""
#: The end of a word.
_END = f"(?!{_LETTER})"
_NAME = f"{_LETTER}+{_END}"
_QUOTED = '(?:"[^"]+"|`[^`]+`)'
_LABEL = r"""\s*[A-Za-z_][^\s{}=,!"`']*\s*!?=\s*(?:"[^"]*"|`[^`]*`|[^\s,{}="`']+)\s*"""
_LABELS = rf"\{{(?:{_LABEL}(?:,{_LABEL})*)?\}}"


def sentence_pattern() -> str:
    """Return the regular expression of a whole sentence, anchored at both ends."""
    statistic = f"(?:{_any(STATISTICS)}|p[0-9]{{1,3}}(?:\\.[0-9]+)?)"
    operand = rf"(?:(?:{statistic})?\(\s*)*(?:{_NAME}|{_QUOTED})\s*(?:{_LABELS}\s*)?(?:\)\s*)*"
    subject = rf"(?:{statistic}{_END}\s*of{_END}\s*)?{operand}(?:[-+*/]{_END}\s*{operand})*"
    labelled = rf"(?:{_NAME}|{_QUOTED})\s*(?:{_LABELS}\s*)?"
    kept = rf"{labelled}(?:{statistic}{_END}\s*)?(?:{_comparators()}){_quantity()}"
    load = rf"(?:the{_END}\s*largest{_END}\s*)?{labelled}with{_END}\s*{kept}(?:and{_END}\s*{kept})*"
    rank = rf"(?:across{_END}\s*ranks{_END}|on{_END}\s*(?:the{_END}\s*)?(?:{_any(RANKS)}){_END}\s*rank{_END})\s*"
    given = rf"{statistic}{_END}\s*"
    judged = rf"{load}|{subject}(?:{given}(?:{rank})?|{rank}(?:{given})?)?"
    clause = _clause()
    return rf"^\s*(?:{_work()}|(?:{judged}){clause}(?:and{_END}\s*{clause})*(?:{rank})?)$"


def _work() -> str:
    """Return the expression of a sentence about exact work."""
    counts = rf"(?:device{_END}\s*)?work{_END}\s*|(?:work\.{_NAME}|\"work\.[^\"]+\"|`work\.[^`]+`)\s*(?:{_LABELS}\s*)?"
    more, same = _words(("no", "more")), _words(("same",))
    return rf"(?:{more}(?:{counts})than|{same}(?:{counts})as){_END}\s*(?:the{_END}\s*)?baseline{_END}\s*"


def _clause() -> str:
    """Return the expression of a clause, with the blanks after it."""
    quantity = _quantity()
    tolerance = rf"{quantity}(?:and{_END}\s*{quantity})?"
    reference = rf"(?:the{_END}\s*)?(?:{'|'.join(_words(name.split()) for name in get_args(Reference))})"
    change = rf"{tolerance}(?:above|below){_END}\s*{reference}"
    part = rf"{quantity}(?:of{_END}\s*)?{reference}"
    within = rf"within{_END}\s*(?:±\s*){{0,2}}{tolerance}of{_END}\s*{reference}"
    return rf"(?:{within}|(?:{_comparators()})(?:{change}|{part}|{quantity}))"


def _comparators() -> str:
    return "|".join(_words(words) for words in sorted(COMPARATORS, key=lambda words: (-len(words), words)))


def _quantity() -> str:
    """Return the expression of a number with its unit, with the blanks after it."""
    return rf"{NUMBER.pattern}(?:\s*(?:{_any(UNITS)}))?{_END}\s*"


def _words(words: Iterable[str]) -> str:
    """Return the expression of words or signs in a row, with the blanks after them."""
    return "".join(rf"{re.escape(word)}{_END if word.isalpha() else ''}\s*" for word in words)


def _any(words: Iterable[str]) -> str:
    """Return the expression of any of these words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))
