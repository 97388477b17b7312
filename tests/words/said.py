"""A line of the golden file of sentences: a function of perfgate/words, the case, and the text that it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perfgate.core import NextStep, Problem, Verdict
from perfgate.words.cause_words import CauseGroup
from perfgate.words.in_short import ShortLine

#: A module of perfgate/words, a function or a constant of it, and the line.
Said = tuple[str, str, str]


def say(function: Callable[..., Any], case: str, *values: Any, **options: Any) -> Said:
    """Call a function of perfgate/words with plain values; `case` names what is special about them."""
    key = function.__name__ + (f"/{case}" if case else "")
    return _module(function.__module__), function.__name__, f"{key}: {shown(function(*values, **options))}".rstrip()


def constant(module: Any, name: str) -> list[Said]:
    """Return the lines of a constant: one for each text of a table."""
    value = getattr(module, name)
    texts = {f"{name}/{key}": one for key, one in value.items()} if isinstance(value, Mapping) else {name: value}
    return [(_module(module.__name__), name, f"{key}: {shown(one)}") for key, one in texts.items()]


def shown(value: Any) -> str:
    """Return a result as text: a step with its action, a verdict by its rule, several results in brackets."""
    if isinstance(value, NextStep):
        others = f" ({value.who}, {value.where})" if (value.who, value.where) != ("you", "here") else ""
        return f"[{value.action}] {value.text}{others}" + (f": {value.command}" if value.command else "")
    if isinstance(value, str):
        return value
    if isinstance(value, Verdict):
        return value.rule
    if isinstance(value, Problem):
        return value.message
    if isinstance(value, CauseGroup):
        return f"{value.number} {value.cause.kind} {shown(value.verdicts)}"
    if isinstance(value, ShortLine):
        return "  ".join(filter(None, (value.name, value.measured, value.allowed, value.message)))
    if isinstance(value, Mapping):
        return shown([shown(one) for one in value.values()])
    if isinstance(value, list | tuple) or hasattr(value, "__next__"):
        return f"[{' | '.join(shown(one) for one in value)}]"
    return str(value)


def _module(name: str) -> str:
    return name.rpartition(".")[2]
