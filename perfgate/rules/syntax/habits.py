"""What people write out of habit, and the word of the rule language for it."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: The first words of what others call a comparator.
_COMPARATORS: dict[tuple[str, ...], str] = {
    ("no", "more", "than"): "at most",
    ("not", "more", "than"): "at most",
    ("no", "greater", "than"): "at most",
    ("up", "to"): "at most",
    ("maximum",): "at most",
    ("no", "less", "than"): "at least",
    ("not", "less", "than"): "at least",
    ("no", "fewer", "than"): "at least",
    ("minimum",): "at least",
    **{(word, "than"): "under" for word in ("less", "lower", "smaller", "fewer", "shorter")},
    **{(word, "than"): "over" for word in ("more", "greater", "higher", "larger", "longer")},
}
_PERCENTILE = re.compile(r"(\d{1,2}(?:\.\d+)?|100)(?:p|st|nd|rd|th|%ile)")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+")


def percentile(word: str) -> str | None:
    """The percentile that `95p` or `95th` means: `p95`."""
    found = _PERCENTILE.fullmatch(word)
    return f"p{found[1]}" if found else None


def comparator(words: Sequence[str]) -> tuple[str, int] | None:
    """The comparator that the words begin with, in our terms, and how many of them it takes."""
    for phrase, meant in _COMPARATORS.items():
        if tuple(words[: len(phrase)]) == phrase:
            return meant, len(phrase)
    return None


def number(written: str) -> str:
    """What to write for a number with commas: `0.05` for `0,05`; `1,000` may mean either of two."""
    decimal = f"`{written.replace(',', '.')}`"
    if not _THOUSANDS.fullmatch(written):
        return decimal
    whole = f"`{written.replace(',', '')}`"
    return whole if written.count(",") > 1 else f"{whole}, or {decimal} if the comma is a decimal one"
