"""Read `perfgate.yaml`: strict YAML, the schema, then the command and each mapping; every mistake has its place."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from perfgate.core import Location, Problem, fact_text
from perfgate.core.file_mappings import FileMapping, MappingFiles, RunCommand, is_for_a_shell
from perfgate.core.resource_limits import DEFAULT, Limits
from perfgate.documents.yaml import YamlDocument, load_document
from perfgate.mappings.mapping_item import MappingItem
from perfgate.rules.validate import problem_at, violation_problems
from perfgate.schemas import FOLDER


def load_mappings(
    files: Iterable[tuple[str, bytes]], limits: Limits = DEFAULT
) -> tuple[tuple[FileMapping, ...], list[Problem]]:
    """Return the mappings of all files, and every mistake in them."""
    found = load_mapping_files(files, limits)
    return found.mappings, list(found.problems)


def load_mapping_files(files: Iterable[tuple[str, bytes]], limits: Limits = DEFAULT) -> MappingFiles:
    """Return the mappings of all files, the one command in them, and every mistake."""
    problems: list[Problem] = []
    found: dict[str, FileMapping] = {}
    command: RunCommand | None = None
    for name, data in files:
        mappings, own, mistakes = _loaded(load_document(name, data, limits))
        problems += sorted(mistakes, key=lambda one: (one.at.line or 0, one.at.column or 0))
        for mapping in mappings:
            first = found.setdefault(mapping.name, mapping)
            if first is not mapping:
                message = f"the name {mapping.name!r} is used at {first.at} already: give one of them another `name`"
                problems.append(Problem("error", message, mapping.at))
        if command and own:
            message = f"there is a command at {command.at} already: keep one section `run`"
            problems.append(Problem("error", message, own.at))
        command = command or own
    return MappingFiles(tuple(found.values()), command, tuple(problems))


def _loaded(document: YamlDocument) -> tuple[list[FileMapping], RunCommand | None, list[Problem]]:
    """Return the mappings of one file, its command, and every mistake in it."""
    problems, data = [*document.problems], document.data
    if not problems and not data:
        step = "write `mappings:` (`perfgate inspect --suggest FILE` proposes one) or `run:` with the command"
        problems.append(Problem("error", f"the file is empty: {step}", Location(document.name, 1, 1)))
    elif not problems:
        schema = json.loads((FOLDER / "mappings.schema.json").read_bytes())
        problems += violation_problems(document, schema)
    if problems:
        return [], None, problems
    mappings: list[FileMapping] = []
    command = load_run(document, data["run"], problems) if "run" in data else None
    for number, item in enumerate(data.get("mappings", ())):
        before = len(problems)
        mapping = MappingItem(document, problems, item, ("mappings", number)).load()
        if len(problems) == before and mapping is not None:
            mappings.append(mapping)
    return mappings, command, problems


def load_run(document: YamlDocument, data: Mapping[str, Any], problems: list[Problem]) -> RunCommand | None:
    """Return the command of the section `run`; None, and problems, if it has mistakes."""
    before = len(problems)

    def words(name: str) -> tuple[str, ...]:
        """Return the words of a field; if they are not a command, add a problem."""
        given = data.get(name, ())
        if not isinstance(given, str):
            return tuple(given)
        try:
            found, fault = tuple(shlex.split(given)), ""
        except ValueError as error:
            found, fault = (), f"cannot be split into words: {error}"
        if not found:
            fault = fault or "is empty"
        elif is_for_a_shell(found):
            fault = "runs without a shell: write sh -c '...'"
        if fault:
            problems.append(problem_at(document, f"`{name}` {fault}", ("run", name)))
        return found

    command, build = words("command"), words("build")
    if len(problems) > before:
        return None
    results = data.get("results", ())
    env = tuple((name, fact_text(value)) for name, value in data.get("env", {}).items())
    at = document.location(("run",), key=True)
    globs = (results,) if isinstance(results, str) else tuple(results)
    return RunCommand(at, command, globs, build, env, data.get("paired", False))
