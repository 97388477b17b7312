"""Every small fault that could be written into a module: its mutants, one changed syntax node each.

What decides nothing stays as it is: annotations, decorators, docstrings, f-strings and texts of several words, which
are those of messages. A mutant is known by its function and by the text that changes, so it outlives moved lines.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor"}
WORDS = {"pass": "fail", "fail": "pass", "lower": "higher", "higher": "lower", "up": "down", "down": "up"}
#: What decides is one word, or one of the two comparators that are two.
DECIDES = re.compile(r"[\w./-]+|at most|at least", re.ASCII)
#: Calls that make the words of a message, and keywords that guard or show a value but do not change it.
SPOKEN, SHOWN = {"counted", "listed"}, {"repr", "compare", "strict", "help", "metavar", "frozen", "dict", "kw_only"}
#: A mutant is told by the smallest piece around it of such a length, or by its statement.
TELLING = range(30, 200)


class Step(NamedTuple):
    """The way from one syntax node to one below it: `holder.field`, or the entry `index` of it, is `node`."""

    holder: ast.AST
    field: str
    index: int | None
    node: ast.AST

    def put(self, node: ast.AST) -> None:
        """Let another node stand in this place."""
        if self.index is None:
            setattr(self.holder, self.field, node)
        else:
            getattr(self.holder, self.field)[self.index] = node


@dataclass(frozen=True, eq=False)
class Mutant:
    """One change of a module. `function` is "" for what runs at import, `lines` are those of the innermost statement
    around it (of its head, where it has a body), and `statement` is the one at the top of the module that holds it."""

    module: str
    function: str
    change: str
    lines: tuple[int, int]
    statement: ast.stmt
    place: Step
    replacement: ast.AST

    def __str__(self) -> str:
        return f"{self.module}{self.function and '.'}{self.function}: {self.change}"

    def apply(self) -> None:
        """Write the change into the tree that the mutants were made from."""
        self.place.put(self.replacement)


def mutants(module: str, tree: ast.Module) -> list[Mutant]:
    """All mutants of a module, in the order of its text; the same change twice in a function counts once."""
    found: dict[str, Mutant] = {}
    for position, statement in enumerate(tree.body):
        if not isinstance(statement, ast.Import | ast.ImportFrom | ast.If):
            for mutant in _below(module, (Step(tree, "body", position, statement),)):
                found.setdefault(str(mutant), mutant)
    return list(found.values())


def _below(module: str, way: tuple[Step, ...]) -> Iterator[Mutant]:
    node = way[-1].node
    for replacement in replacements(node):
        yield _mutant(module, way, ast.fix_missing_locations(ast.copy_location(replacement, node)))
    for field, value in ast.iter_fields(node):
        children = enumerate(value) if isinstance(value, list) else ((None, value),)
        for index, child in children:
            if isinstance(child, ast.AST) and _may_decide(node, field, child):
                yield from _below(module, (*way, Step(node, field, index, child)))


def _may_decide(node: ast.AST, field: str, child: ast.AST) -> bool:
    if field in ("annotation", "returns", "decorator_list") or isinstance(child, ast.JoinedStr):
        return False
    if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
        return False
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
        return False
    if isinstance(node, ast.Call) and isinstance(child, ast.Constant) and _called(node) in SPOKEN:
        return False
    return not (isinstance(child, ast.keyword) and child.arg in SHOWN)


def _mutant(module: str, way: tuple[Step, ...], replacement: ast.AST) -> Mutant:
    nodes = [step.node for step in way]
    functions = [i for i, node in enumerate(nodes[:-1]) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    # The defaults of a function are set at import, though they stand in its head.
    inside = functions and way[functions[0] + 1].field != "args"
    names = [node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)] if inside else []
    around = next(node for node in reversed(nodes) if isinstance(node, ast.stmt))
    last = around.body[0].lineno - 1 if hasattr(around, "body") else around.end_lineno
    shown = _telling(nodes)
    before = _text(shown)
    way[-1].put(replacement)
    after = _text(replacement if shown is nodes[-1] else shown)
    way[-1].put(nodes[-1])
    lines, statement = (around.lineno, max(around.lineno, last)), way[0].node
    return Mutant(module, ".".join(names), f"{before} -> {after}", lines, statement, way[-1], replacement)


def _telling(nodes: list[ast.AST]) -> ast.AST:
    """The innermost of these nodes that says enough, and not too much."""
    known = nodes[-1]
    for node in reversed(nodes):
        if len(_text(node)) >= TELLING.stop:
            break
        known = node
        if isinstance(node, ast.stmt) or len(_text(node)) in TELLING:
            break
    return known


def _text(node: ast.AST) -> str:
    """A piece of a module in one line, of a statement with a body its head."""
    return next(line for line in ast.unparse(node).split("\n") if not line.startswith("@"))


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that could be in place of a node by mistake."""
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            yield ast.Compare(node.left, [*node.ops[:i], COMPARISONS[type(op)](), *node.ops[i + 1 :]], node.comparators)
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC and not _is_words(node):
        yield ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
    elif isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
        yield ast.AugAssign(node.target, ARITHMETIC[type(node.op)](), node.value)
        yield ast.Pass()
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield copy(node.operand)  # whose own place must not change
    elif isinstance(node, ast.Constant):
        yield from (ast.Constant(value) for value in _other_values(node.value))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute) and _called(node) in CALLS:
        yield ast.Call(_renamed(node.func), node.args, node.keywords)
    else:
        yield from _other_statements(node)


def _other_values(value: object) -> Iterator[object]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield value + 1 if value + 1 != value else value * 2
    elif isinstance(value, str) and DECIDES.fullmatch(value):
        yield WORDS.get(value, f"not {value}")


def _other_statements(node: ast.AST) -> Iterator[ast.AST]:
    """Conditions turned round, nothing returned, and statements that are gone."""
    if isinstance(node, ast.If) and _is_to_negate(node.test):
        yield ast.If(_not(node.test), node.body, node.orelse)
    elif isinstance(node, ast.While) and _is_to_negate(node.test):
        yield ast.While(_not(node.test), node.body, node.orelse)
    elif isinstance(node, ast.IfExp) and _is_to_negate(node.test):
        yield ast.IfExp(_not(node.test), node.body, node.orelse)
    elif isinstance(node, ast.comprehension):
        for i, test in enumerate(node.ifs):
            if _is_to_negate(test):
                yield ast.comprehension(node.target, node.iter, [*node.ifs[:i], _not(test), *node.ifs[i + 1 :]], 0)
    elif isinstance(node, ast.Return) and not isinstance(node.value, ast.Constant | None):
        yield ast.Return(ast.Constant(None))
    elif isinstance(node, ast.Raise | ast.Continue | ast.Break) or (
        isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    ):
        yield ast.Pass()


def _not(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _is_to_negate(test: ast.expr) -> bool:
    """Return whether no other mutant is the negation: that of `not a` is `a`, and that of `a == b` is `a != b`."""
    swapped = isinstance(test, ast.Compare) and not isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    return not (swapped or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)))


def _is_words(node: ast.BinOp) -> bool:
    """Return whether a sum is one of texts, as far as it shows."""
    return any(
        isinstance(one, ast.JoinedStr) or (isinstance(one, ast.Constant) and isinstance(one.value, str))
        for one in ast.walk(node)
    )


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _renamed(function: ast.Name | ast.Attribute) -> ast.expr:
    if isinstance(function, ast.Name):
        return ast.Name(CALLS[function.id], function.ctx)
    return ast.Attribute(function.value, CALLS[function.attr], function.ctx)
