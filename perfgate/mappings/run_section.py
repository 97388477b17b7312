"""Read the section `run` of `perfgate.yaml`. The schema has checked its shape already."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from perfgate.core import Problem, fact_text
from perfgate.core.run_command import RunCommand, is_for_a_shell
from perfgate.documents.yaml import Path, YamlDocument
from perfgate.rules.validate import problem_at


def load_run(document: YamlDocument, data: Mapping[str, Any], problems: list[Problem]) -> RunCommand | None:
    """Return the remembered command; None, and problems, if it has mistakes."""
    before = len(problems)

    def words(name: str) -> tuple[str, ...]:
        path: Path = ("run", name)
        try:
            return _words(data.get(name, ()))
        except ValueError as error:
            problems.append(problem_at(document, f"`{name}` {error}", path))
            return ()

    command, build = words("command"), words("build")
    if len(problems) > before:
        return None
    results = data.get("results", ())
    env = tuple((name, fact_text(value)) for name, value in data.get("env", {}).items())
    at = document.location(("run",), key=True)
    return RunCommand(at, command, (results,) if isinstance(results, str) else tuple(results), build, env)


def _words(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command. Raises ValueError with the reason for a text that only a shell could run."""
    if not isinstance(given, str):
        return tuple(given)
    try:
        found = tuple(shlex.split(given))
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {error}") from None
    if not found:
        raise ValueError("is empty")
    if is_for_a_shell(found):
        raise ValueError("runs without a shell: write sh -c '...'")
    return found
