"""The options that commands share, the commands that messages suggest, and the error that ends a command."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from perfgate.core import Acceptance
    from perfgate.readers.text import TraceMode


#: The path of a file with facts of the machine that `perfgate run` keeps beside its runs.
_KEPT_FACTS = re.compile(r"\bperfgate-runs/machine-\w+\.json$")


class Refused(Exception):
    """A command cannot go on: the message says what is wrong and what to do.

    Exit codes: 2 usage or configuration, 3 could not judge, 1 refused addition or approval, 128 + N ended by signal N.
    """

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class CommandOptions(Struct, frozen=True):
    """The options of a command that reads runs, rules or baselines, as the user gave them."""

    runs: tuple[str, ...] = ()
    rules: tuple[str, ...] = ("rules",)
    baselines: str = "baselines"
    suite: str | None = None
    env: tuple[str, ...] = ()
    format: str | None = None
    trace_mode: TraceMode = "corrected"
    #: The commit that was measured; None is git's HEAD.
    head: str | None = None
    policy_ref: str | None = None
    #: The commit of `policy_ref`, once it is known: a ref can move while runs are measured.
    policy_commit: str | None = None
    #: The runs are those that `perfgate run` kept, so a command does not have to name them.
    kept: bool = False

    @property
    def is_of_a_job(self) -> bool:
        """True for a check in CI by the rules of its own commit, such as a check of main. A pull request has a ref."""
        return bool(os.environ.get("CI")) and self.policy_ref is None


class HistoryPlace(Struct, frozen=True):
    """The part of a history that a command is about, as the user gave it; None means all."""

    baselines: str = "baselines"
    suite: str | None = None
    environment: str | None = None
    #: The branch whose first parents order the runs.
    ref: str | None = None
    #: The rules, which know renamed metrics.
    rules: tuple[str, ...] = ("rules",)


def acceptance(options: CommandOptions) -> Acceptance:
    """Return the words of the command that accepts these runs, without absolute paths and without defaults.

    They are the runs, the options for rules and baselines, and the options for reading the runs.
    """
    from perfgate.core import Acceptance  # `--help` does not need it

    runs = () if options.kept else tuple(map(typed_path, options.runs))
    rules = map(typed_path, options.rules if options.rules != ("rules",) else ())
    place = [word for rule in rules for word in ("--rules", rule)]
    place += ["--baselines", typed_path(options.baselines)] if options.baselines != "baselines" else []
    place += ["--suite", options.suite] if options.suite else []
    reading = ["--trace-mode", options.trace_mode] if options.trace_mode != "corrected" else []
    env = [fact for fact in map(typed_fact, options.env) if not (options.kept and _KEPT_FACTS.search(fact))]
    reading += [word for fact in env for word in ("--env", fact)]
    return Acceptance(runs, tuple(place), tuple(reading))


def shown_path(path: str) -> str:
    """Return a file as reports name it: relative to the working directory; outside of it the bare name."""
    relative = typed_path(path)
    return os.path.basename(relative) if relative.startswith("../") or relative == ".." else relative


def typed_path(path: str) -> str:
    """Return a path that works in a command in the working directory, and is not absolute.

    A URL is shown without user, password and query, which may be secret.
    """
    if path == "-":
        return path
    if "://" in path:
        scheme, _, rest = path.partition("://")
        place, slash, below = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
        return f"{scheme}://{place.rpartition('@')[2]}{slash}{below}"
    try:
        return Path(os.path.relpath(path)).as_posix()
    except ValueError:  # another drive
        return os.path.basename(path)


def typed_fact(option: str) -> str:
    """Return a value of `--env` as it is typed in the working directory."""
    return typed_path(option) if os.path.exists(option) else option
