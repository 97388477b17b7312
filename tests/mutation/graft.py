"""Put a mutant into a module that is imported already, in a process that is forked for it and ends with it.

Nothing on disk changes. A function takes over the changed code, wherever it is referred to; what a module sets at
import (constants, defaults, fields of a class) is set once more by the one statement that changed. What other modules
made of such a value when they were imported stays as it was.
"""

from __future__ import annotations

import ast
import gc
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

from msgspec import Struct
from mutants import Mutant

#: Functions that exist, by the code that they run.
Live = Mapping[CodeType, list[FunctionType]]


def live_functions(folder: str) -> Live:
    """Every function whose source lies below a folder."""
    found: dict[CodeType, list[FunctionType]] = {}
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename.startswith(folder):
            found.setdefault(one.__code__, []).append(one)
    return found


def graft(mutant: Mutant, tree: ast.Module, live: Live) -> None:
    """Let this process run the mutant; `tree` is the syntax of its module. Raises what the module would at import."""
    module = sys.modules[mutant.module]
    before = _compiled(tree, module)
    mutant.apply()
    if not mutant.function:
        _run_again(mutant.statement, tree, module)
        return
    for old, new in _pairs(before, _compiled(tree, module)):
        for function in live.get(old, ()) if old != new else ():
            function.__code__ = new


def _compiled(tree: ast.Module, module: ModuleType) -> CodeType:
    return compile(tree, str(module.__file__), "exec", dont_inherit=True)


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Everything that is defined in a piece of code, at any depth, before and after a change of one piece."""
    before, after = ([one for one in code.co_consts if isinstance(one, CodeType)] for code in (old, new))
    for pair in zip(before, after, strict=True) if len(before) == len(after) else ():
        yield pair
        yield from _pairs(*pair)


def _run_again(statement: ast.stmt, tree: ast.Module, module: ModuleType) -> None:
    """Run one statement of a module, and those that make something of what it sets; put all that in its place."""
    scope = dict(vars(module))
    future = ast.ImportFrom("__future__", [ast.alias("annotations")], 0)
    again, names, structs = [statement], _set_by(statement), set[str]()
    if isinstance(statement, ast.ClassDef):
        exec(_compiled(ast.fix_missing_locations(ast.Module([future, statement], [])), module), scope)
        structs = {statement.name} if _is_other_struct(vars(module)[statement.name], scope[statement.name]) else set()
    for later in tree.body[tree.body.index(statement) + 1 :]:
        made = later.args if isinstance(later, ast.FunctionDef) else later  # its defaults
        used = {one.id for one in ast.walk(made) if isinstance(one, ast.Name)}
        if isinstance(later, ast.Assign | ast.AnnAssign | ast.FunctionDef) and (names | structs) & used:
            again.append(later)
            names |= set() if made is not later else _set_by(later)
        elif isinstance(later, ast.ClassDef) and structs & used:
            again.append(later)
            structs.add(later.name)
    body = ast.fix_missing_locations(ast.Module([future, *again], []))
    exec(_compiled(body, module), scope)
    for name, new in scope.items():
        old = vars(module).get(name)
        if new is not old and name not in ("__builtins__", "annotations"):
            _replace(name, old, new, in_place=name not in structs)


def _set_by(statement: ast.stmt) -> set[str]:
    """The names that an assignment sets; a function or class changes in place."""
    return {one.id for one in ast.walk(statement) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def _is_other_struct(old: type, new: type) -> bool:
    """Whether a changed Struct has to take the place of the old one: its defaults and options cannot be set."""
    if not issubclass(new, Struct):
        return False
    assert issubclass(old, Struct)
    return _plain_defaults(new) != _plain_defaults(old) or _options(new) != _options(old)


def _options(struct: type[Struct]) -> list[Any]:
    found = struct.__struct_config__
    return [getattr(found, name) for name in dir(found) if not name.startswith("_")]


def _replace(name: str, old: Any, new: Any, *, in_place: bool = True) -> None:
    if isinstance(new, FunctionType) and new.__name__ == name:
        _take_defaults(inspect.unwrap(old), inspect.unwrap(new))
    elif isinstance(new, type) and in_place:
        for attribute, value in vars(new).items():
            known = vars(old).get(attribute)
            if attribute == "__init__" and is_dataclass(new):
                setattr(old, attribute, value)
            elif isinstance(value, FunctionType):
                _take_defaults(known, value)
            elif isinstance(value, str | int | float) and value != known and not attribute.startswith("__"):
                setattr(old, attribute, value)
    else:
        for module in [*sys.modules.values()]:
            if vars(module).get(name) is old:
                setattr(module, name, new)


def _plain_defaults(struct: type[Struct]) -> list[Any]:
    """The defaults of the fields that are values: two classes never share what makes a value for each instance."""
    return [one for one in struct.__struct_defaults__ if one is None or isinstance(one, str | int | float | tuple)]


def _take_defaults(old: FunctionType, new: FunctionType) -> None:
    old.__defaults__, old.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
