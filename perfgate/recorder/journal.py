"""The file of a recording: lines are appended while it runs, and `finish` turns them into a results document.

The first line is the run without its series. Every other line is a piece of the run in the words of
`perfgate.results/1`. The recorder's last line says that the recording is closed; `add_reason` may add lines behind it:

    {"schema":"perfgate.recording/1","environment":{"world_size":8},"commit":null}
    {"metric":"forward","labels":{"rank":"0"},"unit":"ns","values":[361000123,362000456],"steps":[10,11]}
    {"metric":"memory.peak","labels":{"rank":"0"},"unit":"B","value":24589934592.0}
    {"environment":{"gpu":"NVIDIA H200"}}
    {"incomplete":"the training began at step 500, so earlier steps are missing"}
    {"call_tree":"..."}
    {"closed":true}

An `incomplete` line is a reason why the recording lacks something; readers warn with it. A `call_tree` is text as in
stored runs (`documents.tree_texts`).
The pieces of a series are in order of time. A piece without `steps` belongs to step 0; a series recorded only in step
0 has no steps. The last of several single values or facts counts. A killed program leaves at most one incomplete line.

The file has its final name from the start, so nobody mistakes older results for those of a run that died. Appended
lines survive the death of the process; if the disk has no room for a line, the whole line is removed.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from perfgate.recorder import RecorderError
from perfgate.recorder.recorded_series import Entry, RecordedSeries

try:
    import fcntl
except ImportError:  # Windows, where two recorders can write to one file
    fcntl = None  # type: ignore[assignment]

RECORDING = "perfgate.recording/1"
RESULTS = "perfgate.results/1"
#: A longer recording stays in lines: the values of a results document above 64 MiB are read from temporary files.
MAX_DOCUMENT = 56 << 20
#: The most values of a piece: readers split a longer line, and it would use much memory.
_VALUES_IN_A_LINE = 10_000
#: The beginning of a document, and of its reasons, as `_document` writes them.
_DOCUMENT = b'{"schema": "%s"' % RESULTS.encode()
_REASONS = b', "incomplete": ['
#: The beginning of a file that a recorder wrote, and may overwrite.
_OURS = re.compile(rb'\s*\{\s*"schema"\s*:\s*"perfgate\.(?:recording|results)/')


class Journal:
    """The open file of a recording, locked for this process.

    Raises RecorderError if the file cannot be written, is locked, or has other contents.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        except OSError as error:
            raise RecorderError(f"{path}: cannot write the recording: {error.strerror or error}") from None
        try:
            self._take(path)
        except BaseException:
            os.close(self._file)
            raise
        self._size = 0

    def _take(self, path: str) -> None:
        """Lock the open file and make it empty. Raises RecorderError if it is locked or not ours."""
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise RecorderError(f"{path}: not a regular file: record into a file")
        try:
            if fcntl:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            why = "another Recorder writes this file: close it first, or use another file"
            raise RecorderError(f"{path}: {why}") from None
        except OSError:
            pass  # a file system without locks
        head = os.read(self._file, 256)
        if head.strip() and not _OURS.match(head):
            raise RecorderError(f"{path}: the file is not a recording: use another name, or remove it")
        os.ftruncate(self._file, 0)

    def append(self, contents: Iterable[object]) -> None:
        """Append contents as lines of JSON. If that fails, the file stays unchanged.

        Raises OSError, also if another program has written to the file, as it can on file systems without locks.
        NaN and infinity are written as such: readers refuse them with the name of the metric.
        """
        lines = (json.dumps(content, separators=(",", ":")).encode() + b"\n" for content in contents)
        rest = memoryview(b"".join(lines))
        size = self._size + len(rest)
        if os.fstat(self._file).st_size != self._size:
            raise OSError("another program has written to it")
        try:
            os.lseek(self._file, self._size, os.SEEK_SET)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        self._size = size

    def finish(self) -> None:
        """Close the file and make it a results document, unless that is too large.

        Raises OSError if the disk has no room for the document: then the file stays a closed recording in lines.
        """
        try:
            self.append([{"closed": True}])
            document = b""
            if self._size <= MAX_DOCUMENT:
                with open(os.dup(self._file), "rb") as file:
                    file.seek(0)
                    document = _document(map(json.loads, file))
            mode = stat.S_IMODE(os.fstat(self._file).st_mode)
        finally:
            self.release()
        if document:
            _replace(self.path, document, mode)

    def release(self) -> None:
        """Close the file as it is. In a child process, the parent keeps its lock."""
        with suppress(OSError):  # a quota, for example: the values of the last write may be lost
            os.close(self._file)


def _replace(path: str, data: bytes, mode: int) -> None:
    """Replace the file in one step, so that a reader sees either the lines or the document. `mode`: its permissions."""
    folder, name = os.path.split(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def add_reason(path: str, reason: str) -> None:
    """Add to a finished results document or recording a reason why it is incomplete.

    Any other file stays as it is. Raises OSError if the file cannot be written.
    """
    with open(path, "r+b") as file:
        if fcntl:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return  # a recorder writes it
        text = json.dumps(reason)
        data = file.read()
        if data.startswith(_DOCUMENT):
            rest = data[len(_DOCUMENT) :]
            has_reasons = rest.startswith(_REASONS)  # then the new one goes before them
            reasons = b"%s%s, " % (_REASONS, text.encode()) if has_reasons else b"%s%s]" % (_REASONS, text.encode())
            data = _DOCUMENT + reasons + rest.removeprefix(_REASONS)
            _replace(os.path.realpath(path), data, stat.S_IMODE(os.fstat(file.fileno()).st_mode))
        elif _OURS.match(data) and data.endswith(b"\n") and RECORDING.encode() in data[:256]:
            file.write(b'{"incomplete":%s}\n' % text.encode())


def pieces(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    """Yield the values as pieces (lines of the file, see above), one or more for each series."""
    recorded: defaultdict[RecordedSeries, tuple[list[int], list[float]]] = defaultdict(lambda: ([], []))
    for series, step, number in entries:
        steps, values = recorded[series]
        steps.append(step)
        values.append(number)
    for series, (steps, values) in recorded.items():
        if series.single:
            yield {**series.head(), "value": values[-1]}
            continue
        for start in range(0, len(values), _VALUES_IN_A_LINE):
            part = slice(start, start + _VALUES_IN_A_LINE)
            in_steps = {"steps": steps[part]} if any(steps[part]) else {}
            yield {**series.head(), "values": values[part], **in_steps}


def _document(lines: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the lines of a recording as one results document; nothing if it has no series.

    Each series has a line of its own, so that the line number in an error message leads to it.
    """
    environment: dict[str, Any] = {}
    commit = call_tree = None
    incomplete: list[str] = []
    all_series: dict[tuple[str, tuple[tuple[str, str], ...]], dict[str, Any]] = {}
    for piece in lines:
        if "metric" in piece:
            key = piece["metric"], tuple(sorted(piece.get("labels", {}).items()))
            series = all_series.setdefault(key, {})
            if "values" not in series or "value" in piece:  # the first piece, or a single value: the last one counts
                series.update(piece)
                series.setdefault("steps", [0] * len(piece.get("values", ())))
            else:  # extend in place: a recording may have a million pieces
                series["values"].extend(piece["values"])
                series["steps"].extend(piece.get("steps", [0] * len(piece["values"])))
        elif "incomplete" in piece:
            incomplete.append(piece["incomplete"])
        elif "call_tree" in piece:
            call_tree = piece["call_tree"]
        else:
            environment |= piece.get("environment", {})
            commit = piece.get("commit", commit)
    for series in all_series.values():
        if not any(series.get("steps", ())):
            series.pop("steps", None)
    head = {"schema": RESULTS, "incomplete": incomplete, "environment": environment, "commit": commit}
    text = json.dumps({name: part for name, part in head.items() if part})[:-1] + ', "series": [\n'
    text += ",\n".join(json.dumps(series, separators=(",", ":")) for series in all_series.values())
    text += "\n]" + (f', "call_tree": {json.dumps(call_tree)}' if call_tree else "")
    return (text + "}\n").encode() if all_series else b""
