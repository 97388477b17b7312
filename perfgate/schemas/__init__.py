"""The JSON Schemas of everything that perfgate reads and writes; `perfgate schema NAME` prints them."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

NAMES = ("rules", "results", "baseline", "report")


def schema_text(name: str) -> str:
    """The text of one schema; `name` is one of NAMES."""
    return (files("perfgate.schemas") / f"{name}.schema.json").read_text(encoding="utf-8")


@cache
def schema(name: str) -> Any:
    """One schema as plain data."""
    return json.loads(schema_text(name))
