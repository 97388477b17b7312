"""An SQLite database that nobody vouches for, opened to be read.

SQLite reads files, and a reader is given bytes, so that they go to a private temporary file first
(`Connection.deserialize` needs Python 3.11, and memory for the whole). What a hostile schema could run is shut off as
https://www.sqlite.org/security.html asks for: only the named tables can be read, as plain tables; no view, trigger,
virtual table, function or extension takes part; and work ends at a number of steps that depends on the size alone, so
that the same file always gives the same answer.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

MAX_BYTES = 4 << 30

#: Steps of SQLite's virtual machine: a scan takes less than one for each byte of a table.
_STEPS_PER_BYTE, _LEAST_STEPS, _STEPS_AT_ONCE = 16, 1 << 24, 1 << 16
_SCHEMA, _COLUMNS = "sqlite_master", "table_xinfo"
#: What damage makes the module raise; names that are no UTF-8 are decoded by it strictly.
_ERRORS = (sqlite3.Error, UnicodeError)


class DatabaseFault(Exception):
    """Why a database cannot be read, or not to its end."""


class Database:
    """The tables of a database that may be read."""

    def __init__(self, connection: sqlite3.Connection, allowed: Sequence[str]) -> None:
        self._connection = connection
        #: Rows of the schema that are real tables: virtual ones have no page of their own.
        schema = f"SELECT name FROM {_SCHEMA} WHERE type = 'table' AND rootpage > 0"
        self.tables = frozenset(name for (name,) in self._rows(schema)) & frozenset(allowed)

    def columns(self, table: str) -> frozenset[str]:
        """The names of a table's stored columns; generated ones would run functions. Raises DatabaseFault."""
        return frozenset(str(name) for _, name, *_, hidden in self._rows(f"PRAGMA {_COLUMNS}({table})") if hidden == 0)

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[tuple[object, ...]]:
        """The values of these columns, None for one that the table does not have. Raises DatabaseFault."""
        have = self.columns(table)
        return self._rows(f"SELECT {', '.join(name if name in have else 'NULL' for name in columns)} FROM {table}")

    def _rows(self, query: str) -> Iterator[tuple[object, ...]]:
        try:
            yield from self._connection.execute(query)
        except _ERRORS as error:
            raise DatabaseFault(_words(error)) from None


def _words(error: Exception) -> str:
    if str(error) == "interrupted":
        return "reading it takes more work than a file of its size should"
    return f"the database is damaged ({error})"


@contextmanager
def opened(blocks: Iterable[bytes], tables: Sequence[str]) -> Iterator[Database]:
    """The database with these bytes, as long as the context lasts. Raises DatabaseFault, and OSError of the disk."""
    with tempfile.TemporaryDirectory(prefix="perfgate-") as folder:
        path = Path(folder) / "database"
        size = _write(path, blocks)
        try:
            connection = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
        except _ERRORS as error:
            raise DatabaseFault(_words(error)) from None
        try:
            _shut_off(connection, tables, size)
            yield Database(connection, tables)
        finally:
            connection.close()


def _write(path: Path, blocks: Iterable[bytes]) -> int:
    """Write a file that nobody else can read; its size."""
    size = 0
    with path.open("xb") as file:
        for block in blocks:
            size += len(block)
            if size > MAX_BYTES:
                raise DatabaseFault(f"a database of more than {MAX_BYTES >> 30} GiB is not read: profile fewer steps")
            file.write(block)
    return size


def _shut_off(connection: sqlite3.Connection, tables: Sequence[str], size: int) -> None:
    """Let nothing happen but reading these tables, and not for ever."""
    readable = {*tables, _SCHEMA}
    left = max(_LEAST_STEPS, _STEPS_PER_BYTE * size) // _STEPS_AT_ONCE

    def authorise(action: int, what: str | None, _column: str | None, _file: str | None, source: str | None) -> int:
        """Let through what reads one of these tables, and not for a view or a trigger, which would be the source."""
        reads = action == sqlite3.SQLITE_READ and what in readable and source is None
        lists = action == sqlite3.SQLITE_PRAGMA and what == _COLUMNS
        return sqlite3.SQLITE_OK if reads or lists or action == sqlite3.SQLITE_SELECT else sqlite3.SQLITE_DENY

    def interrupt() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    for pragma in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON", "mmap_size=0"):
        try:
            connection.execute(f"PRAGMA {pragma}")
        except _ERRORS as error:
            raise DatabaseFault(_words(error)) from None
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.set_authorizer(authorise)
    connection.set_progress_handler(interrupt, _STEPS_AT_ONCE)
