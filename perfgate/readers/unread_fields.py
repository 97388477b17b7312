"""The numbers of a JSON document that nobody read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from perfgate.documents.json import Path
from perfgate.readers.unmeasured import is_unmeasured
from perfgate.readers.values import number

#: The number of members of a longer list of objects that are examined, evenly spread.
_MEMBERS = 1000
_LONGEST = 80


class UnreadFields:
    """Walks a document, and counts the numbers at paths that are not among those read, by their names."""

    def __init__(self, read: Collection[Path], beside: str, most: int) -> None:
        self._read, self._beside = read, beside
        #: Of a document with more numbers, the fields in which some were read.
        self._names = set(map(_name, read)) if len(read) >= most else set[str]()
        self.found: Counter[str] = Counter()
        self.is_estimate = False

    def walk(self, data: Any, path: Path = (), name: str = "", weight: int = 1) -> None:
        """Count the numbers of a value and of its members.

        Parameters
        ----------
        data: the value.
        path, name: where it is; a name has no indices.
        weight: the number of members of the list that it stands for.
        """
        if path in self._read:
            return
        if isinstance(data, dict):
            for key, value in data.items():
                if not self._is_unmeasured(key):
                    self.walk(value, (*path, key), f"{name}.{key}" if name else key, weight)
        elif isinstance(data, list):
            for index, value, more in self._members(data):
                self.walk(value, (*path, index), name, weight * more)
        elif name not in self._names and _is_number(data):
            self.found[name[:_LONGEST]] += weight

    def _is_unmeasured(self, key: str) -> bool:
        """Return whether a key is the name of a setting, and not of a benchmark or a file."""
        return is_unmeasured(key, self._beside, is_field=not any(sign in key for sign in "/:[("))

    def _members(self, data: list[Any]) -> Iterator[tuple[int, Any, int]]:
        """Yield the members with their index, and how many of them each stands for."""
        every = max(1, len(data) // _MEMBERS)
        self.is_estimate = self.is_estimate or every > 1
        for index in range(0, len(data), every):
            yield index, data[index], min(every, len(data) - index)


def _name(path: Path) -> str:
    """Return a path without its indices."""
    return ".".join([key for key in path if type(key) is str])


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return "." in value and number(value) is not None  # other texts of digits are ids
    return isinstance(value, int | float) and not isinstance(value, bool)
