"""The bytes of a stored run, which its numbers are read from when they are needed."""

from __future__ import annotations

import hashlib

from msgspec import Struct

from perfgate.baselines.files import STORED_RUN, BaselineFile
from perfgate.baselines.stores import Store
from perfgate.workspace.options import Refused


class RunBytes(Struct, frozen=True):
    """The bytes of a stored run whose hash fits: in memory, or in the store, where they are read again on demand."""

    store: Store
    path: str
    #: The end of the file, which has its hash.
    end: bytes
    kept: bytes | None

    def read(self) -> bytes:
        """Return the bytes. Raises Refused, also if they are no longer the same."""
        if self.kept is not None:
            return self.kept
        at = self.store.location(self.path)
        try:
            data = self.store.read(self.path)
        except OSError as error:
            raise Refused(f"{at}: cannot be read any more: {error.strerror or error}", 3) from None
        if not data.endswith(self.end) or not STORED_RUN.is_whole(data):
            raise Refused(f"{at}: was changed while it was read: run the command again", 3)
        return data

    def file(self) -> BaselineFile:
        """Return the whole stored run. Raises Refused, also if it is unsound."""
        file, wrong = STORED_RUN.decode(str(self.store.location(self.path)), self.read())
        if file is None:
            raise Refused(str(wrong[0]), 3)
        return file

    def samples(self) -> bytes:
        """Return a hash of the series. Raises Refused."""
        data = self.read()
        begin = data.find(b'"series": [')
        return hashlib.sha256(memoryview(data)[begin : data.find(b"\n  ]", begin)]).digest()
