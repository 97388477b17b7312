"""`when`: facts of the environment that must hold for a rule to be judged."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from perfgate.core import Fact
from perfgate.core.units import NUMBER
from perfgate.rules.syntax.sentence import glob_matches

_COMPARED = re.compile(r"\s*(<=|>=|==|<|>|!=)\s*(.+?)\s*")


@dataclass(frozen=True, slots=True)
class Condition:
    """One fact and what it has to be: `world_size` and `>= 8`, `gpu` and `*H100*`."""

    fact: str
    operator: Literal["<", "<=", ">", ">=", "!=", "=="]
    operand: str

    def __str__(self) -> str:
        return f"{self.fact} {self.operator} {self.operand}"

    def holds(self, facts: Mapping[str, Fact]) -> bool | None:
        """Whether the fact is as asked; None when it is not known, or is no number where one is compared."""
        value = facts.get(self.fact)
        if value is None:
            return None
        if self.operator in ("==", "!="):
            return glob_matches(self.operand, fact_text(value)) == (self.operator == "==")
        try:
            number, bound = float(fact_text(value)), float(self.operand)
        except ValueError:
            return None
        if math.isnan(number):
            return None
        return {"<": number < bound, "<=": number <= bound, ">": number > bound, ">=": number >= bound}[self.operator]


def parse_condition(fact: str, text: str) -> Condition:
    """Read one line of `when`. Raises ValueError, which says why, for a comparison that could never hold."""
    found = _COMPARED.fullmatch(text)
    if (found[2] if found else text.strip())[:1] in ("<", ">", "=", "!"):
        raise ValueError("is no comparison: write <, <=, >, >=, == or != and what to compare with")
    if not found:
        return Condition(fact, "==", text.strip())
    if found[1] not in ("==", "!=") and not NUMBER.fullmatch(found[2]):
        raise ValueError("compares with something that is no number")
    return Condition(fact, found[1], found[2])  # type: ignore[arg-type]


def fact_text(value: Fact) -> str:
    """A fact as text, as YAML and JSON write it: true, 8, 8.5, NVIDIA H200."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
