"""Temporary files for values that are too many for memory."""

from __future__ import annotations

import tempfile
from errno import EMFILE, ENFILE
from io import FileIO

from perfgate.large_values.array import ScratchFile
from perfgate.workspace.options import Refused


def open_scratch() -> ScratchFile:
    """Return a file without a name. Opening it, and writing to it, raise Refused if the folder is full."""
    try:
        return _Scratch(tempfile.TemporaryFile(buffering=0))
    except OSError as error:
        raise _no_room(error) from None


class _Scratch:
    def __init__(self, file: FileIO) -> None:
        self._file = file
        self.seek, self.close = file.seek, file.close

    def write(self, data: memoryview) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            raise _no_room(error) from None

    def readinto(self, data: memoryview) -> int:
        return self._file.readinto(data)


def _no_room(error: OSError) -> Refused:
    if error.errno in (EMFILE, ENFILE):
        return Refused("too many temporary files of very many values are open: raise the limit (ulimit -n)", 3)
    folder = tempfile.gettempdir()
    why = error.strerror or error
    return Refused(
        f"{folder} has no room for the temporary files of very many values ({why}): free some, or let TMPDIR name a"
        " folder with more",
        3,
    )
