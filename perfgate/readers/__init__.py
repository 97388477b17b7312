"""From bytes to runs: how a file finds its reader. The registry of formats is `formats.FORMATS`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

from perfgate.core import Run
from perfgate.core.resource_limits import OverLimit
from perfgate.documents.json import load_json
from perfgate.readers.builder import MAX_FAULTS
from perfgate.readers.documentation import about
from perfgate.readers.joining import join_runs, with_missing_ranks
from perfgate.readers.registry import FORMATS, Format
from perfgate.readers.sniffing import binary, console, is_json, shape_of
from perfgate.readers.source import Source
from perfgate.readers.text import Document, clean

__all__ = ["FORMATS", "Format", "Recognition", "Source", "join_runs", "read", "recognise", "with_missing_ranks"]

#: How much of a file is looked at, a little first: the seed log's first timer is on line 2022.
_WINDOWS = (1 << 16, 1 << 20, 8 << 20)
#: No marker is longer.
_MARKER_LENGTH = 4096


@dataclass(frozen=True, slots=True)
class Recognition:
    """Which format a file has and why; without one, `why` says what is the matter with it."""

    found: Format | None
    why: str
    #: The file, not yet consumed.
    document: Document

    @property
    def format(self) -> str:
        """The name of the format, or `unknown`."""
        return self.found.name if self.found else "unknown"

    def read(self) -> tuple[Run, ...]:
        """The runs of the file: never none, for a file that cannot be read is one run with an error and no series."""
        if self.found:
            return tuple(replace(run, recognised_by=self.why) for run in self._runs(self.found))
        known = self.document.problems
        new = [] if self.why in {problem.message for problem in known} else [self.document.problem("error", self.why)]
        return (Run(self.document.name, self.format, (), (*known, *new)),)

    def _runs(self, found: Format) -> tuple[Run, ...]:
        """What the reader of the format finds; of a file beyond a limit, why it is not read."""
        try:
            runs = found.read(self.document)
            self._check_names(runs)
            return runs
        except OverLimit as over:
            problems = (*self.document.problems, *over.before[:MAX_FAULTS], over.problem)
            return (Run(self.document.name, found.name, (), problems),)

    def _check_names(self, runs: Iterable[Run]) -> None:
        """Refuse what no table could show. Raises OverLimit."""
        limits = self.document.limits
        for run in runs:
            texts = chain(
                (str(series.key) for series in run.series),
                (problem.message for problem in run.problems),
                (f"{name} {value}" for name, value in run.environment.items()),
                (run.commit or "",),
            )
            if any(len(text) > limits.name_bytes for text in texts):
                message = limits.beyond("name_bytes", "a name in this file is longer")
                raise OverLimit(self.document.problem("error", message))


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
        forced = next((known for known in FORMATS if format == known.name), None)
        return Recognition(forced, "--format" if forced else f"there is no format {format!r}: {_names()}", document)
    for known in FORMATS:
        if known.magic and document.head(len(known.magic)) == known.magic:
            return Recognition(known, "the file is an SQLite database", document)
    for window in _WINDOWS:
        head = document.head(window)
        found = _look(clean(head.decode("utf-8", "replace")))
        if found:
            return Recognition(*found, document)
        if len(head) < window:
            break
    hinted = _earliest(clean(head.decode("utf-8", "replace")), "hints")
    if hinted:
        return Recognition(*hinted, document)
    return Recognition(None, _not_recognised(document, head, len(head) < window), document)


def _unreadable(document: Document) -> str | None:
    """Why nothing can be read from a file, whatever its format."""
    head = document.head(_WINDOWS[0])
    if not head:
        return document.problems[0].message if document.problems else "the file is empty"
    if not head.strip(b" \t\r\n\0") and len(head) < _WINDOWS[0]:
        return "the file is empty but for blanks"
    kind = binary(head, document.name)
    return f"this is {kind}" if kind else None


def _look(text: str) -> tuple[Format, str] | None:
    """The format of a text that begins so, and why."""
    if is_json(text):
        shape = shape_of(text)
        for known in FORMATS:
            why = known.fits(shape)
            if why:
                return known, why
        late = next((known for known in FORMATS if known.late_key and re.search(known.late_key, text)), None)
        if late:
            return late, f"a JSON document with {late.late_key.split(chr(34))[1]!r}"
        if not _text_follows(text):
            return None
    return _earliest(text)


def _earliest(text: str, kind: Literal["markers", "hints"] = "markers") -> tuple[Format, str] | None:
    """The format whose marker comes first in a text; each is looked for only as far as an earlier one was found."""
    best: tuple[int, Format, str] | None = None
    for known in FORMATS:
        for words, pattern in (known.markers if kind == "markers" else known.hints).items():
            end = best[0] + _MARKER_LENGTH if best else len(text)
            start = _first(words, pattern, text, end)
            if start is not None and (best is None or start < best[0]):
                best = (start, known, words)
    if best is None:
        return None
    position, known, words = best
    return known, f"found {words!r} on line {text.count(chr(10), 0, position) + 1}"


def _first(words: str, pattern: str, text: str, end: int) -> int | None:
    """Where a marker stands first; its words are looked for before its pattern, which is slower."""
    at = text.find(words, 0, end)
    if at < 0 or not pattern:
        return at if at >= 0 else None
    match = re.compile(pattern, re.MULTILINE).search(text, 0, end)
    return match.start() if match else None


def _text_follows(text: str) -> bool:
    """Whether a log goes on behind the JSON document that it begins with."""
    return any("Extra data" in problem.message for problem in load_json(text, "").problems)


def _not_recognised(document: Document, head: bytes, whole: bool) -> str:
    """What was looked for, in a file that no reader knows."""
    text = head.decode("utf-8", "replace")
    forced = f"; --format NAME forces one ({_names()})"
    loaded = load_json(text, document.name, document.limits) if whole else None
    if is_json(text) or (loaded and not loaded.faults):
        fault = loaded.problems if loaded else ()
        if fault:
            place = f"line {fault[0].at.line}, column {fault[0].at.column}"
            return f"JSON of no known format; on {place}: {fault[0].message}{forced}"
        keys = [path[0] for path in shape_of(text).tokens if len(path) == 1 and path != ("*",)]
        return f"JSON of no known format; at its top it has {', '.join(keys[:8]) or 'no keys'}{forced}"
    printed = console(clean(text))
    if printed:
        return printed
    subject = about(clean(text))
    if subject:
        return subject
    looked = "; ".join(f"{known.name}: {' or '.join(map(repr, known.markers))}" for known in FORMATS if known.markers)
    return f"no known format; looked for {looked}, and for known JSON documents{forced}"


def _names() -> str:
    return ", ".join(known.name for known in FORMATS)
