"""Baselines that were read already, such as those of a git commit: nothing can change them any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfgate.core import Location, Problem


@dataclass(frozen=True, slots=True)
class SnapshotStore:
    """Files by their path; `refused` are those that must not be read, such as links, with the reason."""

    files: Mapping[str, bytes]
    shown: str
    refused: Mapping[str, str]

    def paths(self, folder: str = "") -> tuple[list[str], list[Problem]]:
        """Every file below a folder, sorted, and what was refused there or on the way to it."""
        inside = f"{folder}/" if folder else ""
        refused = {p: why for p, why in self.refused.items() if p.startswith(inside) or inside.startswith(f"{p}/")}
        found = sorted(path for path in self.files if path.startswith(inside))
        return found, [Problem("error", why, self.location(path)) for path, why in refused.items()]

    def read(self, path: str) -> bytes:
        """The bytes of a file. Raises OSError."""
        if path not in self.files:
            raise FileNotFoundError(2, "no such file")
        return self.files[path]

    def location(self, path: str) -> Location:
        """How messages name a stored file."""
        return Location(f"{self.shown}/{path}")
