"""Read `perfgate.yaml`: strict YAML, the schema, then the command and each mapping; every mistake has its place."""

from __future__ import annotations

import json
from collections.abc import Iterable

from msgspec import Struct, field

from perfgate.core import Location, Problem
from perfgate.core.file_mappings import FileMapping, MappingFiles
from perfgate.core.resource_limits import DEFAULT, Limits
from perfgate.core.run_command import RunCommand
from perfgate.documents.yaml import YamlDocument, load_document
from perfgate.mappings.mapping_item import MappingItem
from perfgate.mappings.run_section import load_run
from perfgate.rules.validate import violation_problems
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
        loader = _MappingLoader(load_document(name, data, limits))
        loader.load()
        problems += sorted(loader.problems, key=lambda one: (one.at.line or 0, one.at.column or 0))
        for mapping in loader.mappings:
            first = found.setdefault(mapping.name, mapping)
            if first is not mapping:
                message = f"the name {mapping.name!r} is used at {first.at} already: give one of them another `name`"
                problems.append(Problem("error", message, mapping.at))
        if command and loader.command:
            message = f"there is a command at {command.at} already: keep one section `run`"
            problems.append(Problem("error", message, loader.command.at))
        command = command or loader.command
    return MappingFiles(tuple(found.values()), command, tuple(problems))


class _MappingLoader(Struct):
    """Validates one file and turns it into mappings."""

    document: YamlDocument
    mappings: list[FileMapping] = field(default_factory=list)
    command: RunCommand | None = None
    problems: list[Problem] = field(default_factory=list)

    def load(self) -> None:
        self.problems += self.document.problems
        data = self.document.data
        if self.problems:
            return
        if not data:
            at = Location(self.document.name, 1, 1)
            step = "write `mappings:` (`perfgate inspect --suggest FILE` proposes one) or `run:` with the command"
            self.problems.append(Problem("error", f"the file is empty: {step}", at))
            return
        schema = json.loads((FOLDER / "mappings.schema.json").read_bytes())
        self.problems += violation_problems(self.document, schema)
        if self.problems:
            return
        if "run" in data:
            self.command = load_run(self.document, data["run"], self.problems)
        for number, item in enumerate(data.get("mappings", ())):
            before = len(self.problems)
            mapping = MappingItem(self.document, self.problems, item, ("mappings", number)).load()
            if len(self.problems) == before and mapping is not None:
                self.mappings.append(mapping)
