"""Compare reports with golden files; `without_sentences` leaves out the sentences of perfgate/words."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perfgate.words import answer, cause_words, numbers

GOLDEN = Path(__file__).parent / "golden"
#: The functions that make sentences. tests/words has their words.
SENTENCES: Mapping[ModuleType, tuple[str, ...]] = {
    answer: ("effect", "counts", "tally", "excluded_change", "learned_noise", "not_judged", "unknown_facts"),
    numbers: ("effect", "_data", "_noise", "explanation"),
    cause_words: ("step", "without_cause", "rest", "kind", "cost", "details", "follow"),
}


def check_golden(name: str, text: str) -> None:
    """Compare with a golden file; UPDATE_GOLDEN=1 writes it instead."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8", newline="\n")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; UPDATE_GOLDEN=1 writes it anew"


def without_sentences(render: Callable[..., str], *values: Any, **options: Any) -> str:
    """Render with the name of each function and its numbers as its sentence: `COST +1.47 [+1.28, +1.66] 79%`."""
    with pytest.MonkeyPatch.context() as patch:
        for module, names in SENTENCES.items():
            for name in names:
                patch.setattr(module, name, _masked(name.strip("_").upper(), getattr(module, name)))
        patch.setattr(numbers, "_NOT_MEASURED", "NOT MEASURED")
        return render(*values, **options)


def _masked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def mask(said: Any) -> Any:
        if isinstance(said, str) and said:
            blank = " " if said[0] == " " else ""
            return blank + " ".join([name, *(word for word in said.split() if not any(map(str.isalpha, word)))])
        if isinstance(said, tuple):
            return name, said[1]
        return [mask(one) for one in said] if isinstance(said, list) else said

    return lambda *values, **options: mask(function(*values, **options))
