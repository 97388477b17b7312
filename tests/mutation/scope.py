"""The functions that are mutated, and the mutants that count for nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import yaml
from mutants import Mutant, mutants

ROOT = Path(__file__).resolve().parent.parent.parent
#: What decides an outcome, an exit code, the commit or cause that is named, or what the history says.
CORE = (
    "perfgate/judge/*.py",
    "perfgate/judge/decide/*.py",
    "perfgate/judge/doubts/*.py",
    "perfgate/analysis/*.py",
    "perfgate/stats/*.py",
    "perfgate/bisect/*.py",
    "perfgate/causes/*.py",
    "perfgate/history/*.py",
    "perfgate/history/imports/*.py",
    "perfgate/cli/entry.py",
    "perfgate/cli/printing.py",
)


def equivalents() -> dict[str, str]:
    """The mutants that nothing can tell from the original, and why."""
    groups = yaml.safe_load((Path(__file__).parent / "equivalent.yaml").read_text(encoding="utf-8"))
    return {mutant: group["why"] for group in groups or () for mutant in group["mutants"]}


class Core:
    """The modules that are mutated: their files and their syntax by name."""

    def __init__(self) -> None:
        paths = [path for pattern in CORE for path in sorted(ROOT.glob(pattern)) if path.stem != "__init__"]
        self.paths = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}
        self.trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in self.paths.items()}

    def mutants(self) -> list[Mutant]:
        """All mutants."""
        return [mutant for name, tree in self.trees.items() for mutant in mutants(name, tree)]
