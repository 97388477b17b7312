"""The mutation tester itself: which mutants it makes, that a graft takes effect everywhere, and which tests it runs."""

from __future__ import annotations

import ast
import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from graft import graft, live_functions
from mutants import mutants
from scope import Core, equivalents
from selection import LONGEST, MOST, Selection

CHANGES = [
    # a function's body, and every change of it
    ("return a < b", ["a <= b", "None"]),
    ("return a == b == 1", ["!= b == 1", "== b != 1", "== b == 2", "None"]),
    ("return a + b * 2", ["a - b * 2", "a + b / 2", "a + b * 3", "None"]),
    ("return -a", ["return a", "None"]),
    ("return not a", ["return a", "None"]),
    ("return a and b", ["a or b", "None"]),
    ("return min(a, b)", ["max(a, b)", "None"]),
    ("return a.any()", ["a.all()", "None"]),
    ("if a:\n        b()", ["if not a:", "pass"]),
    ("if a > b:\n        raise ValueError", ["if not a > b:", "a >= b", "pass"]),
    ("if a is None:\n        return", ["a is not None"]),
    ("a += 1", ["a -= 1", "pass", "a += 2"]),
    ("return [x for x in a if x]", ["if not x", "None"]),
    ("return 1 if a else 0", ["if not a", "2 if a", "else 1", "None"]),
    ("return 'pass'", ["return 'fail'"]),
    ("return 'at most'", ["'not at most'"]),
    ("return True", ["False"]),
    ("return 1e100", ["2e+100"]),
    ("while a:\n        break", ["while not a:", "pass"]),
    # what decides nothing
    ("return 'words of a message'", []),
    ("return f'{a + 1} of {b}'", ["None"]),
    ("return 'a' + b", ["'not a' + b", "None"]),
    ("return counted(a, 'run')", ["None"]),
    ("return zip(a, b, strict=True)", ["None"]),
    ("'''Say so.'''", []),
]


@pytest.mark.parametrize(("body", "changes"), CHANGES)
def test_every_change_of_a_function(body: str, changes: list[str]) -> None:
    found = mutants("m", ast.parse(f"@decorated(1)\ndef f(a: int, b: Literal[1, 2]) -> 'int':\n    {body}\n"))
    assert len(found) == len(changes), [str(mutant) for mutant in found]
    for change in changes:
        assert any(change in mutant.change for mutant in found), change
    assert {mutant.function for mutant in found} <= {"f"}


def test_making_mutants_leaves_the_syntax_as_it_was() -> None:
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    before = ast.dump(tree, include_attributes=True)
    assert len(mutants("m", tree)) > 50
    assert ast.dump(tree, include_attributes=True) == before


MODULE = """
from dataclasses import dataclass, field
from functools import cached_property, partial, wraps
from msgspec import Struct
from msgspec.json import encode

LIMIT = 3

def twice(function):
    @wraps(function)
    def called(*arguments):
        return function(*arguments) * 2
    return called

@twice
def over(x, by=1):
    return x + by

def under(x, limit=LIMIT):
    return x < limit

LIMITS = (LIMIT, 9)
TABLE = {"up": lambda x: x < LIMIT}
ADD_FOUR = (lambda more: lambda x: x + more)(4)

@dataclass(frozen=True, slots=True)
class Point:
    x: int = 5
    y: int = field(init=False, default=1)

    @property
    def far(self):
        return self.x > 7

class Row(Struct, array_like=True):
    cell: int = 5

class Page(Struct):
    rows: list[Row]

ENCODE = partial(encode, Page([Row()]))
"""

GRAFTS = [
    # what a change leaves, and what is another value then
    ("LIMIT = 4", "m.LIMIT", 4),
    ("LIMIT = 4", "user.LIMIT", 4),
    ("LIMIT = 4", "user.LIMITS", (4, 9)),
    ("LIMIT = 4", "user.under(3)", True),
    ("LIMIT = 4", "m.TABLE['up'](3)", True),
    ("return x - by", "user.over(3)", 4),
    ("def over(x, by=2):", "user.over(3)", 10),
    ("TABLE = {'up': lambda x: x <= LIMIT}", "user.TABLE['up'](3)", True),
    ("return function(*arguments) / 2", "m.over(3)", 2.0),
    ("(lambda more: lambda x: x + more)(5)", "user.ADD_FOUR(1)", 6),
    ("x: int = 6", "user.Point().x", 6),
    ("y: int = field(init=False, default=2)", "user.Point().y", 2),
    ("return self.x >= 7", "user.Point(7).far", True),
    ("class Row(Struct, array_like=False):", "user.ENCODE()", b'{"rows":[{"cell":5}]}'),
    ("cell: int = 6", "user.Row().cell", 6),
    ("cell: int = 6", "user.ENCODE()", b'{"rows":[[6]]}'),
]


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], tuple[ModuleType, ModuleType]]]:
    """A module, and another that uses all of it."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mutated_sample.py").write_text(MODULE)
    (tmp_path / "sample_user.py").write_text("from mutated_sample import *\n")
    yield lambda: (importlib.import_module("mutated_sample"), importlib.import_module("sample_user"))
    for name in ("mutated_sample", "sample_user"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("change", "expression", "value"), GRAFTS)
def test_a_graft_takes_effect_wherever_the_module_is_used(
    change: str, expression: str, value: Any, sample: Callable[[], tuple[ModuleType, ModuleType]], tmp_path: Path
) -> None:
    module, user = sample()
    tree = ast.parse(MODULE)
    (mutant,) = [one for one in mutants("mutated_sample", tree) if str(one).endswith(f"-> {change}")]
    names = {"m": module, "user": user}
    assert eval(expression, names) != value
    graft(mutant, tree, live_functions(str(tmp_path)))
    assert eval(expression, names) == value


def test_tests_are_chosen_by_the_lines_they_run() -> None:
    times = {
        "far::a": 0.1,
        "far::b": 0.2,
        "tests/judge/c": 0.2,
        "slow": LONGEST + 1,
        "elsewhere": 0.1,
        "long": MOST - 0.2,
    }
    lines = {name: {"m": [9]} if name == "elsewhere" else {"m": [2, 3]} for name in times}
    held = {name: {"seconds": seconds, "lines": lines[name]} for name, seconds in times.items()}
    items: Any = [SimpleNamespace(nodeid=name) for name in times]
    tests = Selection(items, {"file": {"tests": held}})
    tree = ast.parse("def f():\n    a = 1\n    return a + 2\nX = 3\n")
    inside, at_import = (
        next(one for one in mutants("m", tree) if one.change.startswith(word)) for word in ("a = 1", "X")
    )
    names = [item.nodeid for item in tests.that_run(inside, Counter())]
    assert names == ["tests/judge/c", "far::a", "far::b"]
    names = [item.nodeid for item in tests.that_run(inside, Counter({("m", "far::b"): 9}))]
    assert names[0] == "far::b"
    assert "elsewhere" in [item.nodeid for item in tests.that_run(at_import, Counter())]


def test_every_equivalent_mutant_is_there_and_has_a_reason() -> None:
    known = equivalents()
    assert known.keys() <= {str(mutant) for mutant in Core().mutants()}
    assert all(len(why) > 20 for why in known.values())


def test_the_core_is_all_that_decides() -> None:
    names = Core().paths
    assert {
        "perfgate.judge.decide.change",
        "perfgate.stats.bounds",
        "perfgate.judge.report",
        "perfgate.cli.entry",
    } <= names.keys()
