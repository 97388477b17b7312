"""The command that measures, as the section `run` of `perfgate.yaml` remembers it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from perfgate.core.runs import Location

#: The message of a command that needs a command to run, and gets none.
NO_COMMAND = "give the command to run after --; `perfgate init -- COMMAND...` remembers one, as `run:` in perfgate.yaml"
_OPERATORS = {"||", "&&", "|", "&", ";", "<", ">", ">>", "2>"}


class RunCommand(Struct, frozen=True):
    """A command with the placeholders `{run}` and `{results}`, and everything that it needs."""

    at: Location
    words: tuple[str, ...]
    #: Globs of the files that it writes, beside those in the folder `{results}`.
    results: tuple[str, ...] = ()
    #: The words of the command that builds a commit before it is measured.
    build: tuple[str, ...] = ()
    #: Environment variables.
    env: tuple[tuple[str, str], ...] = ()
    #: `perfgate run` makes pairs of it with the merge base.
    paired: bool = False


def is_for_a_shell(words: Sequence[str]) -> bool:
    """Return whether words look like a line for a shell. The last word may be that of `find -exec ... ;`."""
    if words[0].startswith("!") or not _OPERATORS.isdisjoint(words[:-1]):
        return True
    return any(word.startswith(">") or (word.endswith(";") and " " not in word) for word in words[:-1])
