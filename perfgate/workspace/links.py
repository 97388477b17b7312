"""Links that a pull request can commit: nothing is read, written or removed through one outside of the repository."""

from __future__ import annotations

import os
from pathlib import Path

from perfgate.workspace.options import Refused
from perfgate.workspace.surroundings import known_to_git


def refuse_link_out(path: str, option: str) -> None:
    """Refuse a path that `leads_out` of the repository. Raises Refused."""
    if leads_out(path):
        raise Refused(f"{path} is a link that leads out of the repository: name the folder itself with {option}")


def leads_out(path: str) -> bool:
    """Return whether a link in a path of the repository leads out of it or into `.git`: a pull request can commit one.

    Without a repository, it is the working directory that no link may lead out of.
    """
    here = Path(os.path.realpath("."))
    named, real = Path(os.path.normpath(here / path)), Path(os.path.realpath(path))
    top = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)
    if real == named or top not in (Path(os.path.realpath(folder)) for folder in named.parents):
        return False
    return real == top or not real.is_relative_to(top) or ".git" in real.relative_to(top).parts


def refuse_committed(folder: str, option: str) -> None:
    """Refuse a folder to write to that is a link out of the repository, or in which git tracks files. Raises Refused.

    A pull request can commit links there, through which perfgate would write or remove files elsewhere.
    """
    refuse_link_out(folder, option)
    tracked = known_to_git("--literal-pathspecs", "ls-files", "--", folder) or ""
    for name in [line for line in tracked.splitlines() if os.path.basename(line) != ".gitignore"][:1]:
        raise Refused(f"{option} {folder}: git tracks {name}: remove it from git, or name another folder with {option}")
