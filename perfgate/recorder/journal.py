"""The file of a recording: lines are appended while it runs, and it becomes one results document when it is closed.

The file has its final name from the start, so that no older results can be taken for those of a run that died. What
has been appended survives the death of the process; a line that the disk has no room for is taken back as a whole.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from perfgate.recorder.errors import RecorderError
from perfgate.recorder.form import assemble, document_lines, line

try:
    import fcntl
except ImportError:  # Windows, where nobody is kept from recording into one file twice
    fcntl = None  # type: ignore[assignment]

#: A longer recording stays in lines when it is closed: readers take results as a whole, and refuse them above 64 MiB.
MAX_DOCUMENT = 56 << 20

_OURS = re.compile(rb'\s*\{\s*"schema"\s*:\s*"perfgate\.(?:recording|results)/')


class Journal:
    """An open file of a recording, which nobody else records into.

    Raises RecorderError if the file cannot be written, is recorded by somebody else, or holds something else.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        except OSError as error:
            raise RecorderError(f"{path}: cannot record there: {error.strerror or error}") from None
        try:
            self._take(path)
        except BaseException:
            os.close(self._file)
            raise
        self._size = 0

    def _take(self, path: str) -> None:
        """Make the file this recording's own, and empty."""
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise RecorderError(f"{path}: is no regular file: record into a file")
        try:
            if fcntl:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"{path}: is being recorded already: close that Recorder first, or give each a file of its own"
            raise RecorderError(message) from None
        except OSError:
            pass  # a file system without locks
        head = os.read(self._file, 256)
        if head.strip() and not _OURS.match(head):
            raise RecorderError(f"{path}: holds something that is no recording: give another name, or remove it")
        os.ftruncate(self._file, 0)

    def append(self, contents: Iterable[object]) -> None:
        """Add lines. Raises OSError, and the file is as it was before."""
        rest = memoryview(b"".join(map(line, contents)))
        size = self._size + len(rest)
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
        """Close the file, as a results document if it is not too large.

        Raises OSError if the disk has no room for that: then the recording is whole, and says so, but stays in lines.
        """
        try:
            self.append([{"closed": True}])
            document = assemble(self._lines()) if self._size <= MAX_DOCUMENT else None
            mode = stat.S_IMODE(os.fstat(self._file).st_mode)
        finally:
            self.release()
        if document and document["series"]:
            self._replace(b"".join(document_lines(document)), mode)

    def release(self) -> None:
        """Leave the file as it is. In a child process this leaves the parent's lock alone, too."""
        os.close(self._file)

    def _lines(self) -> Iterator[dict[str, Any]]:
        with open(os.dup(self._file), "rb") as file:
            file.seek(0)
            yield from map(json.loads, file)

    def _replace(self, data: bytes, mode: int) -> None:
        """In one step: a reader sees the lines or the document."""
        folder, name = os.path.split(self.path)
        handle, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, mode)
            os.replace(temporary, self.path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
