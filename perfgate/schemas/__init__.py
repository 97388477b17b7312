"""The JSON Schemas of everything that perfgate reads and writes; `perfgate schema NAME` prints them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

#: The documents with a schema.
NAMES = ("rules", "mappings", "results", "baseline", "report", "bisect", "history-events")
#: importlib.resources would take longer to import than a schema to read.
FOLDER = Path(__file__).parent


@cache
def schema(name: str) -> Any:
    """Return one schema as plain data; `name` is one of NAMES."""
    return json.loads((FOLDER / f"{name}.schema.json").read_bytes())
