"""Every sentence of perfgate/words once, in one golden file; UPDATE_GOLDEN=1 writes it anew."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import pkgutil
from collections.abc import Iterator
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from types import ModuleType

from ledger_and_runner import of_runners, of_the_ledger
from report_words import of_attributions, of_calculations, of_causes, of_numbers, of_the_answer, of_the_short_answer
from said import Said, constant
from told_events import of_events
from told_history import of_the_history
from told_ticket import of_tickets
from verdict_words import of_changes, of_doubts, of_limits, of_notes, of_steps, of_work

import perfgate.words
from perfgate.core.wording import listed, plural

GOLDEN = Path(__file__).parent / "golden" / "sentences.txt"
MODULES = [
    importlib.import_module(f"perfgate.words.{found.name}") for found in pkgutil.iter_modules(perfgate.words.__path__)
]
CALLS = (
    of_changes,
    of_limits,
    of_doubts,
    of_notes,
    of_steps,
    of_numbers,
    of_calculations,
    of_the_answer,
    of_the_short_answer,
    of_causes,
    of_attributions,
    of_the_history,
    of_events,
    of_tickets,
    of_work,
    of_the_ledger,
    of_runners,
)


def public_names(module: ModuleType) -> Iterator[str]:
    """Yield the names of the functions and the constants that a module defines."""
    for node in ast.parse(inspect.getsource(module)).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = [one.id for one in targets if isinstance(one, ast.Name)]
        names += [node.name] if isinstance(node, ast.FunctionDef) else []
        yield from (name for name in dict.fromkeys(names) if not name.startswith("_"))


def sentences() -> list[Said]:
    """Return all lines by module, the constants first, and those of one function together."""
    constants = (constant(module, name) for module in MODULES for name in public_names(module) if name.isupper())
    lines = [*chain.from_iterable(constants), *chain.from_iterable(call() for call in CALLS)]
    first = {said[:2]: at for at, said in reversed([*enumerate(lines)])}
    return sorted(lines, key=lambda said: (said[0], first[said[:2]]))


def test_the_sentences() -> None:
    groups = ((module, [line for *_, line in found]) for module, found in groupby(sentences(), key=itemgetter(0)))
    text = "\n".join(f"## {module}\n" + "".join(f"{line}\n" for line in lines) for module, lines in groups)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8"), f"{GOLDEN} differs; UPDATE_GOLDEN=1 writes it anew"


def test_every_function_and_constant_has_a_line() -> None:
    has_line = {said[:2] for said in sentences()}
    for module in MODULES:
        name = module.__name__.rpartition(".")[2]
        assert [one for one in public_names(module) if (name, one) not in has_line] == [], f"{name} has no line"


def test_words_are_counted() -> None:
    assert [plural(n, "run") for n in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]
    assert listed(["a", "b"]) == "a, b"
    assert listed(list("abcde")) == "a, b, c, d, e"
    assert listed(list("abcdef")) == "a, b, c, d, e and 1 more"
    assert listed(list("abcdef"), most=2) == "a, b and 4 more"
    assert listed([]) == ""
