"""Every format that perfgate reads, and how a file finds its reader.

A reader is one module, listed once in `READERS`, with
* `NAME` for `--format`, and `TITLE`, what the format is in words for people;
* `MARKERS`: of text formats, what to look for (in words) and the pattern that finds it; the earliest match in a file
  decides, and of two at one place the one that is listed first;
* `fits(shape)`: of JSON formats, why a document of this shape (`sniffing.Shape`) is the format's; else None;
* `read(document)`: one Run for each run in the file, never none. It walks a `text.Document` once, by lines, as a whole
  or by blocks of bytes; never raises for bad data, but says it in problems (`building.RunBuilder` helps); adds
  `document.problems`; opens nothing; and knows nothing of baselines, rules or the clock.
A new format is that file, its line below, and a folder in tests/readers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from perfgate.model import Run
from perfgate.positions import load_json
from perfgate.readers import deepspeed, results, timeit
from perfgate.readers.joining import join_runs
from perfgate.readers.sniffing import Shape, binary, is_json, shape_of
from perfgate.readers.source import Source
from perfgate.readers.text import Document, clean

__all__ = ["READERS", "Reader", "Recognition", "Source", "join_runs", "read", "recognise"]


class Reader(Protocol):
    """What a module in `READERS` provides."""

    @property
    def NAME(self) -> str:
        """What `--format` calls it."""

    @property
    def TITLE(self) -> str:
        """What the format is, in words."""

    @property
    def MARKERS(self) -> Mapping[str, re.Pattern[str]]:
        """What to look for in text: words for it, and the pattern."""

    def fits(self, shape: Shape) -> str | None:
        """Why a JSON document of this shape is of the format, or None."""

    def read(self, document: Document) -> tuple[Run, ...]:
        """The runs of a document, at least one."""


READERS: tuple[Reader, ...] = (
    deepspeed,
    timeit,
    results,
)

#: How much of a file is looked at, a little first: the seed log's first timer is on line 2022.
_WINDOWS = (1 << 16, 1 << 20, 8 << 20)
#: No marker is longer.
_MARKER_LENGTH = 4096


@dataclass(frozen=True, slots=True)
class Recognition:
    """Which format a file has and why; without a reader, `why` says what is the matter with it."""

    reader: Reader | None
    why: str
    #: The file, not yet consumed.
    document: Document

    @property
    def format(self) -> str:
        """The name of the format, or `unknown`."""
        return self.reader.NAME if self.reader else "unknown"

    def read(self) -> tuple[Run, ...]:
        """The runs of the file: never none, for a file that cannot be read is one run with an error and no series."""
        if self.reader:
            return tuple(replace(run, recognised_by=self.why) for run in self.reader.read(self.document))
        known = self.document.problems
        new = [] if self.why in {problem.message for problem in known} else [self.document.problem("error", self.why)]
        return (Run(self.document.name, self.format, (), (*known, *new)),)


def read(source: Source, format: str | None = None) -> tuple[Run, ...]:
    """The runs of a file, its format recognised by content unless it is given; `recognise(...).read()` in one."""
    return recognise(source, format).read()


def recognise(source: Source, format: str | None = None) -> Recognition:
    """Find the reader of a file by what it holds, or take the one named `format`."""
    document = Document(source)
    said = _unreadable(document)
    if said:
        return Recognition(None, said, document)
    if format is not None:
        reader = next((reader for reader in READERS if format == reader.NAME), None)
        return Recognition(reader, "--format" if reader else f"there is no format {format!r}: {_names()}", document)
    for window in _WINDOWS:
        head = document.head(window)
        found = _look(clean(head.decode("utf-8", "replace")))
        if found:
            return Recognition(*found, document)
        if len(head) < window:
            break
    return Recognition(None, _not_recognised(document, head, len(head) < window), document)


def _unreadable(document: Document) -> str | None:
    """Why nothing can be read from a file, whatever its format."""
    head = document.head(_WINDOWS[0])
    if not head:
        return document.problems[0].message if document.problems else "the file is empty"
    if not head.strip(b" \t\r\n\0") and len(head) < _WINDOWS[0]:
        return "the file is empty but for blanks"
    kind = binary(head)
    return f"this is {kind}" if kind else None


def _look(text: str) -> tuple[Reader, str] | None:
    """The reader of a text that begins so, and why."""
    if is_json(text):
        shape = shape_of(text)
        for reader in READERS:
            why = reader.fits(shape)
            if why:
                return reader, why
        if not _text_follows(text):
            return None
    return _earliest(text)


def _earliest(text: str) -> tuple[Reader, str] | None:
    """The reader whose marker comes first in a text; each is looked for only as far as an earlier one was found."""
    best: tuple[int, Reader, str] | None = None
    for reader in READERS:
        for words, pattern in reader.MARKERS.items():
            match = pattern.search(text, 0, best[0] + _MARKER_LENGTH if best else len(text))
            if match and (best is None or match.start() < best[0]):
                best = (match.start(), reader, words)
    if best is None:
        return None
    position, reader, words = best
    return reader, f"found {words!r} on line {text.count(chr(10), 0, position) + 1}"


def _text_follows(text: str) -> bool:
    """Whether a log goes on behind the JSON document that it begins with."""
    document = load_json(text, "")
    return any("Extra data" in problem.message for problem in document.problems)


def _not_recognised(document: Document, head: bytes, whole: bool) -> str:
    """What was looked for, in a file that no reader knows."""
    text = head.decode("utf-8", "replace")
    forced = f"; --format NAME forces one ({_names()})"
    if is_json(text) or (whole and not load_json(text, "").faults):
        fault = load_json(text, document.name).problems if whole else ()
        if fault:
            place = f"line {fault[0].at.line}, column {fault[0].at.column}"
            return f"JSON of no known format; on {place}: {fault[0].message}{forced}"
        keys = [path[0] for path in shape_of(text).tokens if len(path) == 1 and path != ("*",)]
        return f"JSON of no known format; at its top it has {', '.join(keys[:8]) or 'no keys'}{forced}"
    looked = "; ".join(
        f"{reader.NAME}: {' or '.join(map(repr, reader.MARKERS))}" for reader in READERS if reader.MARKERS
    )
    return f"no known format; looked for {looked}, and for known JSON documents{forced}"


def _names() -> str:
    return ", ".join(reader.NAME for reader in READERS)
