"""What a command reads besides its arguments: the date, the limits, the commit, the user."""

from __future__ import annotations

import getpass
import os
import subprocess
from datetime import date, datetime, timezone
from pathlib import Path

from perfgate.core.resource_limits import DEFAULT, VARIABLE, Limits, parse_limits
from perfgate.workspace.options import Refused

#: No object is replaced by another, no path is a pattern, and git never asks for a password.
_GIT = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_LITERAL_PATHSPECS": "1", "GIT_TERMINAL_PROMPT": "0"}


def now() -> datetime:
    """Return the time of SOURCE_DATE_EPOCH, or else of the clock; in UTC, whole seconds. Raises Refused."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch:
        return datetime.now(timezone.utc).replace(microsecond=0)
    try:
        return datetime.fromtimestamp(int(epoch), timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise Refused(f"SOURCE_DATE_EPOCH is {epoch!r}, not a number of seconds") from None


def limits() -> Limits:
    """Return how much of an input is read, as PERFGATE_LIMITS raises or lowers it. Raises Refused."""
    given = os.environ.get(VARIABLE)
    try:
        return parse_limits(given) if given else DEFAULT
    except ValueError as error:
        raise Refused(f"{VARIABLE}: {error}") from None


def today() -> date:
    """Return the date that rules and allowances expire by."""
    return now().date()


def head_commit() -> str | None:
    """Return git's HEAD in the working directory, or None outside a repository."""
    return _known_to_git("rev-parse", "HEAD")


def who() -> str:
    """Return the user who makes a decision: of GitHub Actions, of git, or of the login."""
    actor = os.environ.get("GITHUB_ACTOR") or _known_to_git("config", "user.name")
    if actor:
        return actor
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a passwd entry
        return "unknown"


def git(
    *arguments: str, what: str, stdin: bytes | None = None, cwd: Path | None = None, timeout_s: float = 120
) -> bytes:
    """Run git and return its output.

    Parameters
    ----------
    what: the beginning of the message if git fails, such as `main cannot be read`.
    cwd: the working directory of git.

    Raises Refused (3).
    """
    env = os.environ | _GIT
    try:
        done = subprocess.run(
            ["git", *arguments], input=stdin, capture_output=True, cwd=cwd, timeout=timeout_s, check=False, env=env
        )
    except FileNotFoundError:
        raise Refused(f"{what}: git is not installed", 3) from None
    except (OSError, subprocess.SubprocessError) as error:
        raise Refused(f"{what}: {error}", 3) from None
    if done.returncode == 0:
        return done.stdout
    message = " ".join(done.stderr.decode("utf-8", "backslashreplace").split())
    why = message or "there is no such commit in this clone; fetch it (actions/checkout: fetch-depth: 0)"
    raise Refused(f"{what}: {why}", 3)


def _known_to_git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, timeout=10, check=True, env=os.environ | _GIT)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace").strip() or None
