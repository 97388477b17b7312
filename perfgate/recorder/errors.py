"""How a recording says that something is wrong."""

from __future__ import annotations


class RecorderError(RuntimeError):
    """A recorder that cannot be used so: a file that another one records, a closed recording, an unknown rank."""


class RecorderWarning(UserWarning):
    """Something that a measurement must not end a training for: a full disk, a value that is no number."""
