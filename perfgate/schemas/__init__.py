"""The JSON Schemas of everything that perfgate reads and writes; `perfgate schema NAME` prints them."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

NAMES = ("rules", "mappings", "results", "baseline", "report", "bisect")


FOLDER = files("perfgate.schemas")


@cache
def schema(name: str) -> Any:
    """Return one schema as plain data; `name` is one of NAMES."""
    return json.loads((FOLDER / f"{name}.schema.json").read_bytes())
