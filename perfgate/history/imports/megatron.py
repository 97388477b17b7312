"""Golden values of Megatron-LM: `golden_values_*.json`. Each version of the file in git is a run.

The file has no time and no commit, so those of the commit that wrote the version are used. Outside of git, or for one
version alone, give them with `--time` and `--head`.
"""

from __future__ import annotations

from perfgate.history.imports.imported_runs import Imported, ImportFile, of_results

NAME = "megatron"
TITLE = "golden values of Megatron-LM, every version in git"


def claims(name: str, head: str) -> bool:
    """Return whether a file has golden values."""
    return '"step_interval"' in head or name.rsplit("/", 1)[-1].startswith("golden_values")


def read(file: ImportFile) -> Imported:
    """Return the run of one version."""
    return of_results(file, "megatron", None, None, {})
