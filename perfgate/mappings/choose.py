"""Choose the mapping that reads a file.

A mapping that names a file with `files` reads it, even if a reader of perfgate knows this file: a format that perfgate
learns later must not change how the numbers of a repository are read. A `when` beside `files` must fit the file, too. A
mapping with `when` alone reads a file only if no mapping names this file and no reader knows it. Two mappings that fit
one file in the same way are an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec.structs import replace

from perfgate.core import Location, Problem, Run
from perfgate.core.file_mappings import EachMember, FileMapping
from perfgate.mappings.reading import read_mapped
from perfgate.mappings.table_rows import cells_between
from perfgate.readers import Recognition, Source, recognise
from perfgate.readers.detection import read_within_limits
from perfgate.readers.formats import JsonOutline
from perfgate.readers.line_blocks import clean
from perfgate.readers.text import InputFile
from perfgate.rules.syntax.sentence import glob_matches

#: The part of a file that `when` looks at, in bytes, and the most mappings that a message names.
_HEAD, _MOST_NAMED = 1 << 20, 8


def read_with_mappings(source: Source, mappings: Sequence[FileMapping], format: str | None = None) -> tuple[Run, ...]:
    """Return the runs of a file, read through the mapping that fits it, or else by a reader of perfgate.

    `mappings`: at least one. `format`: the name of a mapping or of a format, if the user gave one.
    """
    if format is not None:
        chosen = [mapping for mapping in mappings if mapping.name == format]
        return _read(InputFile(source), chosen[0], "--format") if chosen else recognise(source, format).read()
    file = InputFile(source)
    found = _named(file, mappings)
    if not found:
        recognised = recognise(file)
        file, found = recognised.file, _by_content(recognised, mappings)
        if not found:
            return _unmapped(recognised, mappings)
    if len(found) == 1:
        return _read(file, found[0], f"through {found[0].title}")
    names = " and ".join(mapping.title for mapping in found)
    step = "make their `files` or `when` narrower, or choose one with --format NAME"
    problem = Problem("error", f"{len(found)} mappings fit this file, {names}: {step}", Location(file.name))
    return (Run(file.name, "unknown", (), (problem,)),)


def fitting(source: Source, mappings: Sequence[FileMapping], *, is_named: bool) -> bool:
    """Return whether a mapping fits a file; with `is_named`, one that names it, else one with `when` alone."""
    file = InputFile(source)
    return bool(_named(file, mappings) if is_named else _by_content(recognise(file), mappings))


def names_file(mappings: Sequence[FileMapping], name: str) -> bool:
    """Return whether a mapping names a file."""
    return any(_is_named(mapping, name) for mapping in mappings)


def _named(file: InputFile, mappings: Sequence[FileMapping]) -> list[FileMapping]:
    return [mapping for mapping in mappings if _is_named(mapping, file.name) and _has(mapping, file)]


def _by_content(recognised: Recognition, mappings: Sequence[FileMapping]) -> list[FileMapping]:
    is_known = recognised.found is not None
    return [one for one in mappings if not is_known and not one.files and _has(one, recognised.file)]


def _read(file: InputFile, mapping: FileMapping, why: str) -> tuple[Run, ...]:
    """Read a file through a mapping. `why`: how the mapping was chosen, for the report."""
    if not file.head():
        problems = file.problems or [file.problem("error", "the file is empty")]
        return (Run(file.name, mapping.name, (), tuple(problems), recognised_by=why),)
    paths = (*(path for _, path in (*mapping.labels, *mapping.facts)), *filter(None, (mapping.step, mapping.commit)))
    names = {str(path.steps[-1]) for path in paths if path.steps} | {name.split(".")[-1] for name in mapping.ignore}
    # Numbers with these names are not measurements, so nobody is told that they are not read.
    beside = "|".join(map(re.escape, names))
    return read_within_limits(file, mapping.name, why, lambda one: read_mapped(one, mapping), beside)


def _unmapped(recognised: Recognition, mappings: Sequence[FileMapping]) -> tuple[Run, ...]:
    """Read a file that no mapping fits; if it is of no known format, the message names the mappings."""
    runs = recognised.read()
    if recognised.found is not None or not runs[0].problems:
        return runs
    *others, last = runs[0].problems
    names = ", ".join(mapping.name for mapping in mappings[:_MOST_NAMED])
    told = replace(last, message=f"{last.message}; no mapping of {mappings[0].at.file} fits ({names})")
    return (replace(runs[0], problems=(*others, told)),)


def _is_named(mapping: FileMapping, name: str) -> bool:
    """Return whether a glob of the mapping names a file; one with `/` is compared with the end of its path."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    for glob in mapping.files:
        wanted = [part for part in glob.split("/") if part not in ("", ".")]
        own = parts[-len(wanted) :] if wanted else ()
        if len(own) == len(wanted) and all(map(glob_matches, wanted, own)):
            return True
    return False


def _has(mapping: FileMapping, file: InputFile) -> bool:
    """Return whether the beginning of a file has everything that `when` names."""
    if not mapping.when:
        return True
    text = clean(file.head(_HEAD).decode("utf-8", "replace"))
    if mapping.kind in ("json", "jsonl"):
        outline = JsonOutline.of(text)
        return all(
            # An outline is at most three keys deep.
            outline.has(*["*" if isinstance(step, EachMember | int) else step for step in path.steps][:3])
            for path in mapping.when
        )
    words = {path.text for path in mapping.when}
    if mapping.kind == "lines":
        return all(word in text for word in words)
    # The last line may be cut off.
    rows = (cells_between(line, mapping.delimiter) for line in text.split("\n")[:-1] or [text])
    return any(words <= {cell.strip() for cell in row} for row in rows if row)
