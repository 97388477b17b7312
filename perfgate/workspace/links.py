"""Folders that a command writes to: a pull request can commit links there, which lead anywhere."""

from __future__ import annotations

import os

from perfgate.workspace.options import Refused
from perfgate.workspace.surroundings import known_to_git, refuse_link_out


def refuse_committed(folder: str, option: str) -> None:
    """Refuse a folder to write to that is a link out of the repository, or in which git tracks files. Raises Refused.

    A pull request can commit links there, through which perfgate would write or remove files elsewhere.
    """
    refuse_link_out(folder, option)
    tracked = known_to_git("--literal-pathspecs", "ls-files", "--", folder) or ""
    for name in [line for line in tracked.splitlines() if os.path.basename(line) != ".gitignore"][:1]:
        raise Refused(f"{option} {folder}: git tracks {name}: remove it from git, or name another folder with {option}")
