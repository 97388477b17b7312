"""What a command takes from outside its arguments: the date, the limits, the commit, who is asking."""

from __future__ import annotations

import getpass
import os
import subprocess
from datetime import date, datetime, timezone

from perfgate.core.resource_limits import VARIABLE, Limits, parse_limits
from perfgate.workspace.errors import Refused


def now() -> datetime:
    """SOURCE_DATE_EPOCH where it is set, else the clock; in UTC, whole seconds. Raises Refused."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch:
        return datetime.now(timezone.utc).replace(microsecond=0)
    try:
        return datetime.fromtimestamp(int(epoch), timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise Refused(f"SOURCE_DATE_EPOCH is {epoch!r}, not a number of seconds") from None


def limits() -> Limits:
    """How much of an input is read, with what PERFGATE_LIMITS raises or lowers. Raises Refused."""
    try:
        return parse_limits(os.environ.get(VARIABLE, ""))
    except ValueError as error:
        raise Refused(f"{VARIABLE}: {error}") from None


def today() -> date:
    """The date that `expect_fail` is held against."""
    return now().date()


def head_commit() -> str | None:
    """Git's HEAD in the working directory, or None outside a repository."""
    return _git("rev-parse", "HEAD")


def who() -> str:
    """Who makes a decision: the Actions user, git's user, or the login name."""
    actor = os.environ.get("GITHUB_ACTOR") or _git("config", "user.name")
    if actor:
        return actor
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a passwd entry
        return "unknown"


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
