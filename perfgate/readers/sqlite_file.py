"""Read an untrusted SQLite database.

SQLite reads files, but a reader gets bytes, so the bytes are written to a private temporary file first
(`Connection.deserialize` needs Python 3.11, and memory for the whole database). As
https://www.sqlite.org/security.html asks, a hostile schema cannot run anything: only the named tables can be read, as
plain tables, without views, triggers, virtual tables, functions and extensions. The number of steps has a limit that
depends only on the size, so the same file always gives the same result.
"""

from __future__ import annotations

import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

MAX_BYTES = 4 << 30
#: Steps of SQLite's virtual machine: how many a byte of the database allows, how many are allowed in any case, and
#: after how many they are counted. A scan takes less than one step for each byte of a table.
_STEPS_PER_BYTE, _LEAST_STEPS, _STEPS_AT_ONCE = 16, 1 << 24, 1 << 16
#: The table of the tables, and the pragma that lists the columns of a table.
_SCHEMA, _COLUMNS = "sqlite_master", "table_xinfo"


class DatabaseFault(Exception):
    """The database cannot be read, or not completely."""


class Database:
    """The tables of a database whose names match a pattern."""

    def __init__(self, connection: sqlite3.Connection, allowed: re.Pattern[str]) -> None:
        self._connection = connection
        # Virtual tables have no root page.
        schema = f"SELECT name FROM {_SCHEMA} WHERE type = 'table' AND rootpage > 0"
        every = frozenset(str(name) for (name,) in self._rows(schema))
        #: The names of its tables that can be read.
        self.tables = frozenset(filter(allowed.fullmatch, every))
        #: The names of its other tables, which cannot be read.
        self.others = every - self.tables

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[tuple[object, ...]]:
        """Yield the values of these columns, None for a column that the table lacks. Raises DatabaseFault."""
        # Generated columns run functions, and are not read.
        have = {name for _, name, *_, hidden in self._rows(f"PRAGMA {_COLUMNS}({table})") if hidden == 0}
        return self._rows(f"SELECT {', '.join(name if name in have else 'NULL' for name in columns)} FROM {table}")

    def _rows(self, query: str) -> Iterator[tuple[object, ...]]:
        with _faults():
            yield from self._connection.execute(query)


@contextmanager
def _faults() -> Iterator[None]:
    """Turn errors of SQLite into DatabaseFault, and those of decoding names, which a damaged file can cause."""
    try:
        yield
    except (sqlite3.Error, UnicodeError) as error:
        work = "reading it takes too much work for a file of its size"
        raise DatabaseFault(work if str(error) == "interrupted" else f"the database is damaged ({error})") from None


@contextmanager
def opened(blocks: Iterable[bytes], tables: re.Pattern[str]) -> Iterator[Database]:
    """Open the database with these bytes for a `with` block. Raises DatabaseFault, and OSError of the disk.

    `tables` matches the names of the tables that can be read, and nothing but letters, digits and `_`.
    """
    with tempfile.TemporaryDirectory(prefix="perfgate-") as folder:
        path, size = Path(folder) / "database", 0
        with path.open("xb") as file:
            for block in blocks:
                size += len(block)
                if size > MAX_BYTES:
                    most = f"{MAX_BYTES >> 30} GiB"
                    raise DatabaseFault(f"a database of more than {most} is not read: profile fewer steps")
                file.write(block)
        with _faults():
            connection = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            _shut_off(connection, tables, size)
            yield Database(connection, tables)
        finally:
            connection.close()


def _shut_off(connection: sqlite3.Connection, tables: re.Pattern[str], size: int) -> None:
    """Allow nothing but to read these tables, with a limited number of steps."""
    left = max(_LEAST_STEPS, _STEPS_PER_BYTE * size) // _STEPS_AT_ONCE

    def authorise(action: int, what: str | None, _column: str | None, _file: str | None, source: str | None) -> int:
        """Allow to read one of these tables, but not from a view or trigger, which would be the source."""
        is_readable = what == _SCHEMA or bool(tables.fullmatch(what or ""))
        reads = action == sqlite3.SQLITE_READ and is_readable and source is None
        lists = action == sqlite3.SQLITE_PRAGMA and what == _COLUMNS
        return sqlite3.SQLITE_OK if reads or lists or action == sqlite3.SQLITE_SELECT else sqlite3.SQLITE_DENY

    def interrupt() -> bool:
        """Return whether to stop, because no steps are left."""
        nonlocal left
        left -= 1
        return left < 0

    with _faults():
        for pragma in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON", "mmap_size=0"):
            connection.execute(f"PRAGMA {pragma}")
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.set_authorizer(authorise)
    connection.set_progress_handler(interrupt, _STEPS_AT_ONCE)
