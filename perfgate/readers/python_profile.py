r"""Profiles of Python: files of `cProfile` and `profile` (`-o FILE`, `dump_stats`), and what `pstats` prints.

    {("train.py", 12, "step"): (primitive calls, calls, own time, cumulative time, {callers})}      marshalled

             23 function calls (20 primitive calls) in 0.618 seconds
       ncalls  tottime  percall  cumtime  percall filename:lineno(function)
      29485/2    0.005    0.000    0.618    0.309 {built-in method builtins.next}

Source: CPython `Lib/cProfile.py`, `Lib/pstats.py` and `Python/marshal.c` (3.4 to 3.14). A profile is data of the module
`marshal`, whose `loads` also builds code objects and says itself that it is not safe. So it is parsed here, strictly:
dictionaries, tuples, texts and numbers, and nothing else; a profile has nothing else, and nothing is executed or built.

| metric | unit | from |
|---|---|---|
| `FILE:LINE(FUNCTION)`: `total` and `count` | s | cumulative time and primitive calls |
| `FILE:LINE(FUNCTION).self`: `total` and `count` | s | the function's own time, and all calls |
| `profile.time` | s | the own time of all functions, or as printed |
| `profile.calls` | 1 | all calls, or as printed |

A path loses what depends on the machine: it begins after `site-packages/` or `lib/python3.X/`, others are the file's
name. Functions of a file that then have one name are added up, as `Stats.strip_dirs` does; in a table the second one is
`NAME#2`. The printed table has 3 decimals, and may show only some functions.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from msgspec import Struct, field

from perfgate.readers.kit import Format, InputFile, Key, Run, RunBuilder, Runs, checked

NAME = "pstats"
METRICS = "`FILE:LINE(FUNCTION)` (`total`, `count`), `FILE:LINE(FUNCTION).self`, `profile.time`, `profile.calls`"
CHECKED = "Python 3.11: profiles that it wrote and printed; generated files in marshal versions 0 to 4"
FORMAT = Format(
    NAME,
    __name__,
    markers={"ncalls  tottime  percall  cumtime": ""},
    signature=(rb"[{\xfb](?:[)\xa9]\x03|[(\xa8]\x03\0\0\0)", "as a profile of Python does"),  # a key has 3 parts
)
_TOTAL = re.compile(
    r"(\d{1,18}) function calls (?:\(\d{1,18} primitive calls\) )?in (\S{1,40}) (?:CPU )?seconds", re.ASCII
)
_HEADER = "ncalls  tottime  percall  cumtime"
_CALLS = re.compile(r"(\d{1,18})(?:/(\d{1,18}))?", re.ASCII)
_FUNCTION = re.compile(r"(.{1,2000}?):(\d{1,9})\((.{1,2000})\)")
_LIBRARY = re.compile(r".*[/\\](?:site-packages|dist-packages|lib[/\\]python\d\.\d{1,2})[/\\]")
_CELLS = 6  # of a row of the printed table
#: The deepest level of tuples and dictionaries in a profile.
_DEEPEST = 6
#: The bit of a value in `marshal` that later values may refer to.
_KEPT = 0x80


class _Function(Struct):
    """One function: primitive calls and cumulative time, and all calls and own time."""

    primitive: int = 0
    cumulative: float = 0.0
    calls: int = 0
    own: float = 0.0


class _Profile(Struct):
    """The functions of a profile by their names."""

    run: RunBuilder
    functions: dict[str, _Function] = field(default_factory=dict)

    def add(self, name: str, primitive: int, calls: int, own: float, cumulative: float) -> None:
        """Add a function to those of the same name."""
        if name not in self.functions:
            self.run.file.count("series", before=self.run.problems)  # over the limit, these are reported, too
        one = self.functions.setdefault(name, _Function())
        one.primitive += primitive
        one.calls += calls
        one.own += own
        one.cumulative += cumulative

    def finish(self) -> None:
        """Make series of the functions."""
        for name, one in self.functions.items():
            self.run.aggregate(Key(name), "s", {"total": one.cumulative, "count": one.primitive})
            self.run.aggregate(Key(f"{name}.self"), "s", {"total": one.own, "count": one.calls})


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the run of a file of cProfile, or the runs of a text with tables of pstats."""
    return (_binary(file),) if file.head(1) in (b"{", b"\xfb") else _text(file)


def _short(path: str, line: int, function: str) -> str:
    """Return the name of a function as pstats prints it, without the folders of the machine."""
    if path == "~" and line == 0:
        return f"{{{function[1:-1]}}}" if function.startswith("<") and function.endswith(">") else function
    if not path.startswith("<"):
        in_library = _LIBRARY.sub("", path)
        path = path.replace("\\", "/").rpartition("/")[2] if in_library == path else in_library
    return f"{path}:{line}({function})"


class _DamagedError(Exception):
    """A fault in the bytes of a profile."""


class _Marshal:
    """A strict parser of the part of `marshal` that profiles use.

    A value begins with a byte: its kind, a letter, and in the high bit (`_KEPT`) whether later values may refer to it.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        #: The place of the next byte.
        self.at = 0
        #: The values that later ones may refer to, in the order in which they begin; None until a value has ended.
        self._known: list[object] = []

    def pairs(self) -> Iterator[tuple[object, object]]:
        """Yield the keys and values of the dictionary that the data are."""
        code = self._byte()
        if code & ~_KEPT != ord("{"):
            raise _DamagedError("it is not a dictionary")
        if code & _KEPT:
            self._known.append(None)
        while self.data[self.at : self.at + 1] != b"0":  # the end of a dictionary
            key = self._value(1)
            yield key, self._value(1)

    def _byte(self) -> int:
        (found,) = self._take(1)
        return found

    def _take(self, size: int) -> bytes:
        found = self.data[self.at : self.at + size]
        if size < 0 or len(found) < size:
            raise _DamagedError("it is cut off")
        self.at += size
        return found

    def _size(self) -> int:
        (size,) = struct.unpack("<i", self._take(4))
        return int(size)

    def _value(self, depth: int) -> object:
        """Return the next value, which is inside this number of tuples and dictionaries."""
        start, code = self.at, self._byte()
        kind, place = chr(code & ~_KEPT), len(self._known)
        if code & _KEPT:
            self._known.append(None)
        if kind == "r":
            index = self._size()
            if not 0 <= index < len(self._known):
                raise _DamagedError(f"it refers to a value that it lacks, at byte {start}")
            return self._known[index]
        value = self._container(kind, depth) if kind in "()[{" else self._atom(kind, start)
        if code & _KEPT:
            self._known[place] = value
        return value

    def _container(self, kind: str, depth: int) -> object:
        """Return a tuple, or None for a dictionary, which has the callers of a function: they are not read."""
        if depth > _DEEPEST or kind == "[":
            raise _DamagedError(f"it has more than functions and their callers, at byte {self.at}")
        if kind != "{":
            return tuple(self._value(depth + 1) for _ in range(self._size() if kind == "(" else self._byte()))
        while self.data[self.at : self.at + 1] != b"0":
            self._value(depth + 1)
            self._value(depth + 1)
        self.at += 1
        return None

    def _atom(self, kind: str, start: int) -> object:
        """Return a text or a number of this kind, which began at `start`."""
        if kind in "tuaA":
            return self._take(self._size()).decode("utf-8", "replace")
        if kind in "zZ":
            return self._take(self._byte()).decode("utf-8", "replace")
        if kind == "i":
            return self._size()
        if kind == "I":
            return int.from_bytes(self._take(8), "little", signed=True)
        if kind == "g":
            return struct.unpack("<d", self._take(8))[0]
        if kind == "l":  # a long integer: digits of 15 bits, whose number has the sign
            digits = self._size()
            parts = struct.unpack(f"<{abs(digits)}H", self._take(2 * abs(digits)))
            if abs(digits) > 8:
                raise _DamagedError(f"it has an integer of more than 120 bits, which no count has, at byte {start}")
            return (-1 if digits < 0 else 1) * sum(part << 15 * index for index, part in enumerate(parts))
        if kind != "f":
            raise _DamagedError(f"it has a value of the kind {kind!r}, which no profile has, at byte {start}")
        number, fault = checked(self._take(self._byte()).decode("ascii", "replace"), "1")  # a decimal as text
        if fault:
            raise _DamagedError(f"{fault}, at byte {start}")
        return number


def _binary(file: InputFile) -> Run:
    """Return the run of a file of cProfile."""
    run = RunBuilder(file, NAME)
    profile = _Profile(run)
    if (data := file.whole_bytes()) is None:
        run.say("error", file.limits.beyond("document_bytes", "this profile is larger"))
        return run.run()
    marshal = _Marshal(data)
    try:
        for key, value in marshal.pairs():
            if (fault := _add(profile, key, value)) is not None:
                run.say("error", f"{fault}; left out", None, f" (before byte {marshal.at})")
    except _DamagedError as damage:
        run.say("error", f"the profile is damaged: {damage}; {len(profile.functions)} functions were read")
    profile.finish()
    if functions := profile.functions.values():
        run.one_value(Key("profile.time"), "s", sum(one.own for one in functions))
        run.one_value(Key("profile.calls"), "1", sum(one.calls for one in functions))
    return run.run()


def _add(profile: _Profile, key: object, value: object) -> str | None:
    """Add an item of the dictionary, or return what is wrong with it."""
    if not isinstance(key, tuple) or len(key) != 3 or not isinstance(value, tuple) or len(value) != 5:
        return "an item is not a function with its times"
    path, line, function = key
    if not isinstance(path, str) or type(line) is not int or not isinstance(function, str):
        return "an item has no name of a function"
    name = _short(path, line, function)
    numbers = [checked(one, "s") for one in value[:4]]  # without the callers
    if any(fault for _, fault in numbers) or not all(type(count) is int for count in value[:2]):
        return f"{name}: its times or calls are not measurements"
    profile.add(name, primitive=value[0], calls=value[1], own=numbers[2][0], cumulative=numbers[3][0])
    return None


class _TextRun(RunBuilder):
    """The run of a printed table of functions."""

    def __init__(self, file: InputFile) -> None:
        super().__init__(file, NAME)
        self.profile = _Profile(self)
        #: The line of a header that has no row yet.
        self.header: int | None = None

    @property
    def has_measured(self) -> bool:
        """Return whether a function or a total was read."""
        return bool(self.profile.functions or self.finished)

    def run(self, part: int | None = None) -> Run:
        self.profile.finish()
        if self.header:
            self.say("warning", "a table has a header and no row", self.header)
        return super().run(part)


def _text(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a text, one for each table."""
    runs = Runs(lambda: _TextRun(file))
    in_rows = False
    for number, line, _, ended in file.lines():
        if "function calls" in line and (found := _TOTAL.search(line)) and ended:
            runs.banner(number)
            runs.run.value(Key("profile.time"), "s", found[2], number)
            runs.run.value(Key("profile.calls"), "1", found[1], number)
        elif _HEADER in line:
            if runs.run.profile.functions:
                runs.banner(number)  # a table without its first line
            in_rows, runs.run.header = True, number
        elif in_rows and line.strip():
            in_rows = _row(runs.run, line.strip(), number, ended)
        else:  # a blank line ends the rows, unless it is between the header and the first row
            in_rows = in_rows and runs.run.header is not None
    return runs.finish()


def _row(run: _TextRun, text: str, line: int, ended: bool) -> bool:
    """Read a row of a table, and return whether more may follow."""
    cells = text.split(None, _CELLS - 1)
    if (calls := _CALLS.fullmatch(cells[0])) is None:
        return run.header is not None  # other text may come before the first row
    run.file.coverage.lines.tell(line)  # `percall` follows from the others
    if not ended:
        run.say("warning", "the last row is cut off; left out", line)
        return False
    if len(cells) < _CELLS:
        run.say("error", "a row of functions cannot be read", line)
        return True
    found = _FUNCTION.fullmatch(cells[5])
    name = _short(found[1], int(found[2]), found[3]) if found else cells[5]
    (own, fault), (cumulative, other) = (checked(cells[at], "s") for at in (1, 3))
    run.header = None
    name = run.unique(Key(name), line).metric
    if fault or other:
        run.refuse(Key(name), fault or other or "", line)
    else:
        run.profile.add(name, int(calls[2] or calls[1]), int(calls[1]), own, cumulative)
    return True
