"""A log of nccl-tests in sections, one for each program that printed into it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

from msgspec import Struct, field

from perfgate.readers.kit import MAX_FAULTS, InputFile, Key, Labels, RecordRuns, Run, RunBuilder
from perfgate.readers.nvidia import nccl_rows
from perfgate.readers.nvidia.nccl_rows import NcclValue, add_values, varying_details, without_prefix

NAME = "nccl-tests"
#: A line that matters has one of these words; a row has two blanks.
WORDS = (
    *("algbw", "(GB/s)", "_perf", "nThread", "NCCL_", "Using devices"),
    *("#  Rank", "#   Rank", "Reducing maxBytes", "Avg bus bandwidth", "Out of bounds", " failure ", "  "),
)
_HEADER = re.compile(r"#\s*(size\b.{0,300}\balgbw\b.*)")
_UNITS = re.compile(r"#\s*(\(B\).*)")
#: The name of the collective in the name of the program.
PROGRAM = re.compile(r"([A-Za-z]\w{0,60}?)_perf(?:_mpi)?\b")
_RANK = re.compile(r"#\s+Rank\s+\d+ .{0,300}?\bdevice\s+\d+ \[[^\]]*\] (\S.*)")
_AVERAGE = re.compile(r"# Avg bus bandwidth\s*: (\S+)")
_FAILED = re.compile(r"# Out of bounds values\s*: (\d+) FAILED|Test (?:NCCL|CUDA) failure .*")
_ROW = re.compile(r"\s*\d+\s+\d+\s+[a-z]\w*\s")
#: Lines that only these programs print, before a table.
_BEGINNING = re.compile(r"#\s*(?:Collective test starting: |nThread +\d|Using devices|nccl-tests version )")
#: The settings that a program prints; if they differ in a log, they are labels.
_SETTINGS = {
    "threads": re.compile(r"\bnThread +(\d+)"),
    "gpus": re.compile(r"\bnGpus +(\d+)"),
    "agg_iters": re.compile(r"\bagg iters: *(\d+)"),
    "graph": re.compile(r"\bgraph: *(\d+)"),
}
_UNREADABLE = "a row cannot be read"
_VARIABLE = re.compile(r"\b(NCCL_[A-Z0-9_]{1,60})=(\S{1,60})")


class _Section(Struct, eq=False):
    """The output of one program."""

    #: The collective that it measures.
    name: str = ""
    #: The tag that mpirun puts before its lines, `JOB,RANK`; "" without tags.
    tag: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    #: The columns of its table, and the line of the header; empty before it.
    header: list[str] = field(default_factory=list)
    line: int = 0
    units: list[str] = field(default_factory=list)
    values: list[NcclValue] = field(default_factory=list)
    #: The printed average, and its line.
    average: tuple[str, int] | None = None
    #: True after the last line of the table: the next header is that of another program. Before that, a second header
    #: is taken for the same table.
    is_over: bool = False
    #: The announced sizes, and the number of rows so far.
    sizes: nccl_rows.Announced | None = None
    rows: int = 0
    #: The line that announced the test; 0 without one.
    announced: int = 0
    #: The beginning of a row that a message of NCCL interrupted, and its line.
    open_row: tuple[str, int] | None = None
    #: The name of each rank's GPU, and its line.
    gpus: list[tuple[str, int]] = field(default_factory=list)
    #: Errors: message, line and detail.
    errors: list[tuple[str, int, str]] = field(default_factory=list)
    #: The number of unreadable rows beyond those in `errors`.
    more_rows: int = 0
    #: The labels of its series, and the details that are labels of its rows.
    labels: dict[str, str] = field(default_factory=dict)
    varying: Sequence[str] = ()

    def end_row(self) -> None:
        """Keep an error if a row was interrupted, and its end did not come."""
        if self.open_row:
            self.errors.append(("a row is interrupted by a message of NCCL", self.open_row[1], ": its end is missing"))
        self.open_row = None

    def end(self) -> None:
        """Keep an error if the table did not come, or ends before its last announced size and has no average."""
        self.end_row()
        sizes = self.sizes
        if self.announced and not self.header:
            self.errors.append(("a test was announced, and has no table", self.announced, f": {self.name}"))
        elif sizes is not None and self.header and self.rows < sizes.count and self.average is None:
            detail = f": it has {self.rows} of the {sizes.count} sizes, and no average at its end"
            self.errors.append(("the table is cut off", self.line, detail))

    def report(self, run: RunBuilder) -> None:
        """Report the errors to a run."""
        for message, line, detail in self.errors:
            run.say("error", message, line, detail)
        for _ in range(self.more_rows):
            run.say("error", _UNREADABLE)


class NcclLog:
    """A log of one or several programs while it is read; with tags, each process has its own sections.

    After the header of its table, a section ends at a line of `_BEGINNING`, or at another header if it `is_over`.
    """

    def __init__(self, document: InputFile) -> None:
        self.file = document
        self.sections: list[_Section] = []
        #: By tag: the section that its lines belong to.
        self.current: dict[str, _Section] = {}
        #: What was printed since the last row of a table: the name and the variables of the next program.
        self.next_name = ""
        self.next_settings: dict[str, str] = {}
        #: Problems of no section, and the samples of the all_reduce benchmark (`nccl_tests` adds them).
        self.other = RunBuilder(document, NAME)

    def runs(self) -> tuple[Run, ...]:
        """Return the runs of the log, at least one; problems without a table belong to the first run."""
        tables = [section for section in self.sections if section.header or section.average]
        runs = RecordRuns(self.file, NAME)
        first = runs.first if tables else self.other
        for section in self.sections:
            section.end()
            if not section.header and not section.average:
                section.report(first)
            elif heading := self.file.heading(section.line):  # `=== 8 nodes ===`
                section.settings["heading"] = heading
        if not tables:
            return (self.other.run(),)
        if not self.other.has_measured:  # else it is a run of its own, with its problems
            self.other.close()
            first.problems += self.other.problems
        _label(tables)
        has_ranks = len({len(section.gpus) for section in tables if section.gpus}) == 1
        for section in tables:
            labels = tuple(sorted(section.labels.items()))
            run = runs.run_of((section.name, labels))  # another run for each repetition
            _finish(run, section, labels, has_ranks)
        return (*runs.finish(), *((self.other.run(),) if self.other.has_measured else ()))

    def _begin(self, tag: str) -> _Section:
        """Return a new section for the lines with this tag."""
        self.file.count("runs")
        section = self.current[tag] = _Section(self.next_name, tag, dict(self.next_settings))
        self.next_name, self.next_settings = "", {}
        self.sections.append(section)
        return section

    def line(self, number: int, line: str, tag: str, ended: bool) -> None:
        """Take a line of a process; one without a line end may be a part of a row."""
        section = self.current.get(tag) or self._begin(tag)
        if not ended:
            if section.header and _ROW.match(without_prefix(line)):
                self.other.say("warning", "the last row is cut off; left out", number)
            return
        if section.header and _take_row(section, number, without_prefix(line)):
            return
        if found := _HEADER.search(line):
            section = self._begin(tag) if section.header and section.is_over else section
            section.header, section.line = found[1].split(), number
            # `next_name` was printed after an earlier header of this table, or in lines of another tag
            section.name = section.name or self.next_name
            self.next_name = ""
            return
        if _BEGINNING.search(line) and section.header:
            section = self._begin(tag)
        self._fact(section, number, line)

    def _fact(self, section: _Section, number: int, line: str) -> None:
        """Take what a line says about the program of a section, or of the next one."""
        section.sizes = nccl_rows.announced(line, number, section.sizes) or section.sizes
        if "Collective test starting" in line:
            section.announced = number
        if found := _UNITS.search(line):
            section.units = re.findall(r"\([^)]{1,20}\)", found[1])
        elif found := _RANK.search(line):
            section.gpus.append((found[1].strip(), number))
        elif found := _AVERAGE.search(line):
            section.average, section.is_over = section.average or (found[1], number), True
        elif found := _FAILED.search(line):
            section.errors.append(("the test failed", number, f": {found[0].strip('# ')[:120]}"))
        elif "test concluded" in line:
            section.is_over = True
        else:
            self._settings(section, line)

    def _settings(self, section: _Section, line: str) -> None:
        """Take the name and the settings of a program: the next one, if the header of a table came before."""
        names = {*PROGRAM.findall(line)}
        name = names.pop() if len(names) == 1 else ""  # of several names, it is not known which one runs
        variables = dict(_VARIABLE.findall(line))
        if section.header:
            self.next_name = name or self.next_name
            self.next_settings |= variables
            return
        section.name = name or section.name
        section.settings |= variables
        for setting, pattern in _SETTINGS.items():
            if found := pattern.search(line):
                section.settings[setting] = found[1]


def _label(tables: Sequence[_Section]) -> None:
    """Give each section its labels: the rank of its tag; its number of ranks, settings and details if they differ."""
    _label_different(tables, "ranks", [str(len(section.gpus) or "") for section in tables])
    has_tags = len({section.tag for section in tables}) > 1
    if has_tags:
        for section in tables:
            if section.tag:
                section.labels["rank"] = section.tag.partition(",")[2]
    for name in dict.fromkeys(section.name for section in tables):
        alike = [section for section in tables if section.name == name]
        _label_alike(alike)
        if not name and not has_tags:  # perhaps not of one program, so no repetitions
            _label_different(alike, "section", [str(number) for number, _ in enumerate(alike, 1)])


def _label_alike(sections: Sequence[_Section]) -> None:
    """Label the sections of one collective; a detail is a label of a section if all its rows have the same."""
    for setting in {*chain.from_iterable(section.settings for section in sections)}:
        _label_different(sections, setting, [section.settings.get(setting, "unset") for section in sections])
    varying = varying_details(chain.from_iterable(section.values for section in sections))
    for section in sections:
        section.varying = varying
        for detail in varying:
            values = {value.details.get(detail, "") for value in section.values}
            if len(values) == 1 and "" not in values:
                section.labels[detail] = values.pop()


def _label_different(sections: Sequence[_Section], label: str, values: Sequence[str]) -> None:
    """Give each section its value of a label if they are not all alike; without a value (""), it gets none."""
    if len({*values} - {""}) > 1:
        for section, value in zip(sections, values, strict=True):
            if value:
                section.labels[label] = value


def _finish(run: RunBuilder, section: _Section, labels: Labels, has_ranks: bool) -> None:
    """Add a section to its run: errors, facts, values with these labels, and the average.

    `has_ranks`: all sections that print their ranks have the same number.
    """
    section.report(run)
    for gpu, line in section.gpus:
        run.fact("gpu", gpu, line)
    if section.gpus and has_ranks:
        run.facts["gpu_count"] = run.facts["world_size"] = len(section.gpus)
    collective = section.name or "collective"
    if not section.values and not section.errors:
        at = section.line or (section.average[1] if section.average else None)
        run.say("error", "a table has no row that can be read", at, f": {collective}")
    add_values(run, collective, section.values, section.varying, labels)
    if section.average is not None:
        run.value(Key(f"{collective}.avg_busbw", labels), "B/s", *section.average, per=1e-9)


def _take_row(section: _Section, number: int, text: str) -> bool:
    """Read a row, or a part of one; return False if the line is neither."""
    if section.open_row and 0 < nccl_rows.length_of_rest(text) < len(section.header):  # more of that row
        begun, number = section.open_row
        section.open_row, text = None, f"{begun} {text}"
    if not _ROW.match(text):
        return False
    section.end_row()
    if (before := nccl_rows.interrupted(text)) is not None:
        section.open_row = (before, number)
    else:
        section.rows += 1
        values = nccl_rows.values_of_row(text.split(), section.header, section.units, number)
        if not isinstance(values, str):
            section.values += values
        elif len(section.errors) <= 2 * MAX_FAULTS:  # a run lists MAX_FAULTS rows, and counts those beyond
            section.errors.append((_UNREADABLE, number, f": {values}"))
        else:
            section.more_rows += 1
    return True
