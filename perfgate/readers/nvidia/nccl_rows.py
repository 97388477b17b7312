"""The rows of nccl-tests: lines without the text of launchers, rows that are whole, and the series of their numbers.

    # nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20
         1048576        262144     float     sum      -1node1:77:91 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7f
       78.12   13.42   12.61      0    77.90   13.46   12.65      0
    [1,0]<stdout>:      8      2   float     sum      -1[1,0]<stdout>:    65.43    0.00    0.00      0
    0:     1048576        262144     float     sum      -1    76.25   13.75   25.75      0

Source: NVIDIA/nccl-tests `src/common.cu`, `run` and `TimeTest`: a row is printed in three parts, and NCCL prints
between them if NCCL_DEBUG is INFO. `maxBytes` is reduced on a device with little memory, which is printed, too. mpirun
(`--tag-output`, Open MPI `orte/mca/iof`) tags what each process writes at once, so such a row has several tags. The
prefixes of `srun -l`, torchrun, pdsh and of logs with times are at the beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from perfgate.readers.kit import Key, Labels, Place, RunBuilder, checked, number

_TAG = re.compile(r"\[(\d{1,6},\d{1,9})\]<std(?:out|err)>:")
_PREFIX = re.compile(
    r"\s*(?:\d{4}-\d\d-\d\dT[\d:.,]{5,20}(?:Z|[+-]\d\d:?\d\d)?\s|\[(?:rank|default)?\d{1,6}\]:\s?"
    r"|\(\w{1,40} pid=\d{1,9}[^)]{0,80}\)\s|\d{1,6}: |[A-Za-z][\w.-]{0,80}: )"
)


def without_tags(line: str) -> tuple[str, str]:
    """Return the tag of mpirun (`1,0`) and the line without any; the tag is empty if there is none."""
    if ">:" not in line:
        return "", line
    found = _TAG.search(line)
    return (found[1], _TAG.sub("", line)) if found else ("", line)


def without_prefix(line: str) -> str:
    """Return a line without the prefixes that launchers and log collectors put before it."""
    while found := _PREFIX.match(line):
        line = line[found.end() :]
    return line


_METRIC_OF_COLUMN = {"time": "time", "cputime": "cpu_time", "algbw": "algbw", "busbw": "busbw"}
_SIZES = re.compile(r"minBytes (\d{1,18}) maxBytes (\d{1,18}) step: (\d{1,18})\((factor|bytes)\)")
_REDUCED = re.compile(r"Reducing maxBytes to (\d{1,18})")
#: The number of printed units in one s, or in one B/s.
_PER_SECOND = {"(ns)": 1e9, "(us)": 1e6, "(ms)": 1e3, "(s)": 1.0}
_PER_BYTE = {"(GB/s)": 1e-9, "(MB/s)": 1e-6}
_INTERRUPTED = re.compile(r"(?:[A-Za-z][\w.-]*:\d+(?::\d+)? )?(?:\[[^\]\s]{1,40}\] )?NCCL (?:INFO|WARN|TRACE)\b")
_REST = re.compile(r"[\s\d.eE+-]+(?:N/A[\s\d.eE+-]*)*")


class Announced(Struct, frozen=True):
    """The sizes in bytes that a program is going to measure, and the line that says so."""

    least: int
    most: int
    #: Each size is the one before times the step if it is a factor, else plus the step.
    step: int
    is_factor: bool
    line: int

    @property
    def count(self) -> int:
        """The number of rows of a whole table."""
        if not self.is_factor:
            return (self.most - self.least) // max(self.step, 1) + 1 if self.most >= self.least else 0
        count, size = 0, self.least
        while 0 < size <= self.most and count < 1000:  # a limit for a damaged line
            count, size = count + 1, size * max(self.step, 2)
        return count


def announced(line: str, at: int, before: Announced | None) -> Announced | None:
    """Return the sizes that a line announces, or those before with a reduced maximum; None for another line."""
    if found := _SIZES.search(line):
        return Announced(int(found[1]), int(found[2]), int(found[3]), found[4] == "factor", at)
    if before is not None and (found := _REDUCED.search(line)):
        return Announced(before.least, int(found[1]), before.step, before.is_factor, before.line)
    return None


def interrupted(text: str) -> str | None:
    """Return the beginning of a row that a message of NCCL interrupts; None for another line."""
    found = _INTERRUPTED.search(text)
    return text[: found.start()] if found else None


def length_of_rest(text: str) -> int:
    """Return how many numbers of a row a line has, before a message of NCCL if there is one; 0 for another line."""
    rest = _INTERRUPTED.split(text, 1)[0]
    return len(rest.split()) if _REST.fullmatch(rest) else 0


def _blank_columns(header: Sequence[str], cells: Sequence[str]) -> list[str]:
    """Return the columns redop and root that are blank in a row; none if other cells are missing.

    A row begins with size, count, type, redop (a word), root (a whole number) and the time, which has a point.
    """
    optional = [name for name in ("redop", "root") if name in header]
    missing = len(header) - len(cells)
    if not 0 < missing <= len(optional) or len(cells) < 5:
        return []
    if missing == len(optional):
        return optional if number(cells[3]) is not None else []
    if number(cells[3]) is not None:  # a number follows the type, so it is the root
        return ["redop"]
    return ["root"] if "." in cells[4] else []


#: The columns that are labels if rows differ in them.
DETAILS = ("type", "redop", "root")


class NcclValue(Struct, frozen=True):
    """One number of a row."""

    #: `place` (`out` or `in`), and the cells before the numbers by column: `size` in bytes as printed, and `DETAILS`.
    details: Mapping[str, str]
    #: `time`, `cpu_time`, `algbw` or `busbw`.
    metric: str
    printed: object
    #: How many printed units are one base unit.
    per: float
    at: Place
    #: True if the collective had a wrong result.
    wrong: bool

    def key(self, collective: str, varying: Sequence[str], labels: Labels) -> Key:
        """Return the key, with the size, the place, the `varying` details and more labels."""
        own = {name: text for name, text in self.details.items() if name in ("size", "place", *varying)}
        return Key.of(f"{collective}.{self.metric}", **{**own, **dict(labels)})


def values_of_row(cells: list[str], header: Sequence[str], units: Sequence[str], line: int) -> list[NcclValue] | str:
    """Return the numbers of a row, or why it cannot be read. `units` are those below the header; empty without them.

    The header has the columns time, algbw, busbw and #wrong for each place.
    """
    for name in _blank_columns(header, cells):
        cells.insert(header.index(name), "")
    if len(cells) < len(header):
        return f"{len(cells)} cells, but the header has {len(header)}"
    numbers = [index for index, name in enumerate(header) if name in _METRIC_OF_COLUMN]
    # text behind the last column is ignored, but text between the columns moves the numbers
    if len(cells) > len(header) and any(number(cells[index]) is None for index in numbers):
        return "words are where the header has numbers"
    first = numbers[0] if numbers else len(cells)
    details = {name: cell for name, cell in zip(header[:first], cells, strict=False) if cell}
    starts = [index for index, name in enumerate(header) if name in ("time", "cputime")]
    values = []
    for start, end, place in zip(starts, [*starts[1:], len(header)], ("out", "in"), strict=False):
        columns = dict(zip(header[start:end], cells[start:end], strict=True))
        wrong = (number(columns.get("#wrong", "")) or 0) > 0
        for name, text in columns.items():
            if metric := _METRIC_OF_COLUMN.get(name):
                per = _per(metric, units)
                values.append(NcclValue({**details, "size": cells[0], "place": place}, metric, text, per, line, wrong))
    return values


def _per(metric: str, units: Sequence[str]) -> float:
    """Return how many printed units of a metric are one base unit: all versions so far print us and GB/s."""
    known, usual = (_PER_SECOND, "(us)") if metric.endswith("time") else (_PER_BYTE, "(GB/s)")
    return known[next((unit for unit in units if unit in known), usual)]


def add_values(
    run: RunBuilder, collective: str, values: Sequence[NcclValue], varying: Sequence[str], labels: Labels = ()
) -> None:
    """Add the numbers of a table, with the details that are labels.

    A size that is measured again has samples; several that were rounded to 0 have a mean.
    """
    sound: dict[Key, list[NcclValue]] = {}
    for value in values:
        key = value.key(collective, varying, labels)
        if value.wrong:
            run.refuse(key, "the result of the collective is wrong; left out", value.at)
        else:
            sound.setdefault(key, []).append(value)
    for key, several in sound.items():
        unit = "s" if several[0].metric.endswith("time") else "B/s"
        if len(several) == 1:
            run.value(key, unit, several[0].printed, several[0].at, per=several[0].per)
        elif several[0].details["size"] == "0":
            _add_mean(run, key, unit, several)
        else:
            for value in several:
                run.sample(key, unit, value.printed, value.at, per=value.per)


def _add_mean(run: RunBuilder, key: Key, unit: str, values: Sequence[NcclValue]) -> None:
    """Add the mean of several small sizes that the tool rounds down to 0: these are different measurements."""
    total = 0.0
    for value in values:
        number, fault = checked(value.printed, unit)
        if fault:
            run.refuse(key, fault, value.at)
            return
        total += number / value.per
    run.aggregate(key, unit, {"mean": total / len(values), "count": float(len(values))})


def varying_details(values: Iterable[NcclValue]) -> list[str]:
    """Return the details in which rows differ."""
    each = list(values)
    return [name for name in DETAILS if len({value.details.get(name) for value in each}) > 1]
