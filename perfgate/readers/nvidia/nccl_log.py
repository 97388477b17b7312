"""A log of nccl-tests in sections, one for each program that printed into it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from perfgate.readers.kit import MAX_FAULTS, InputFile, Key, Labels, RecordRuns, Run, RunBuilder, number
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
#: The number of printed units in one s, or in one B/s.
_PER_SECOND = {"(ns)": 1e9, "(us)": 1e6, "(ms)": 1e3, "(s)": 1.0}
_PER_BYTE = {"(GB/s)": 1e-9, "(MB/s)": 1e-6}


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

    @property
    def ranks(self) -> int:
        """The number of printed ranks."""
        return len(self.gpus)

    def end_row(self) -> None:
        """Keep an error if a row was interrupted, and its end did not come."""
        if self.open_row:
            self.errors.append(("a row is interrupted by a message of NCCL", self.open_row[1], ": its end is missing"))
        self.open_row = None

    def end(self) -> None:
        """Keep an error if the table ends before its last announced size, or did not come."""
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
    """A log of one or several programs while it is read; with tags, each process has its own sections."""

    def __init__(self, document: InputFile) -> None:
        self.file = document
        self.sections: list[_Section] = []
        #: By tag: the section that its lines belong to.
        self.current: dict[str, _Section] = {}
        #: What was printed since the last row of a table: the name and the variables of the next program.
        self.next_name = ""
        self.next_settings: dict[str, str] = {}
        #: Problems of no section, and the samples of another program (`nccl_tests` adds them).
        self.other = RunBuilder(document, NAME)

    def runs(self) -> tuple[Run, ...]:
        """Return the runs of the log, at least one; problems without a table belong to the first run."""
        for section in self.sections:
            section.end()
        tables = [section for section in self.sections if section.header or section.average]
        for section in tables:
            if heading := self.file.heading(section.line):  # `=== 8 nodes ===`
                section.settings["heading"] = heading
        runs, labels = RecordRuns(self.file, NAME), _labels(tables)
        # by collective: the details in which its rows differ
        varying = {
            name: varying_details(value for one in tables if one.name == name for value in one.values)
            for name in dict.fromkeys(section.name for section in tables)
        }
        for section, own in zip(tables, labels, strict=True):
            run = runs.run_of((section.name, own))  # another run for each repetition
            if section is tables[0]:
                self._report_others(run, tables)
                run.problems += self.other.problems
            _finish(run, section, varying[section.name], own, tables)
        if not tables:
            self._report_others(self.other, tables)
            return (self.other.run(),)
        return (*runs.finish(), *((self.other.run(),) if self.other.has_measured else ()))

    def _report_others(self, run: RunBuilder, tables: Sequence[_Section]) -> None:
        """Report the errors of all sections that are not among these."""
        for section in self.sections:
            if section not in tables:
                section.report(run)

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
            names = {*PROGRAM.findall(line)}
            variables = dict(_VARIABLE.findall(line))
            if section.header:
                self.next_name = names.pop() if len(names) == 1 else self.next_name
                self.next_settings |= variables
            else:
                section.name = names.pop() if len(names) == 1 else section.name
                section.settings |= variables
                for name, pattern in _SETTINGS.items():
                    if found := pattern.search(line):
                        section.settings[name] = found[1]


def _labels(sections: Sequence[_Section]) -> list[Labels]:
    """Return the labels of each section: its ranks, settings and details that differ between the sections."""
    labels: list[dict[str, str]] = [{} for _ in sections]
    several = len({section.ranks for section in sections if section.ranks}) > 1
    tagged = len({section.tag for section in sections}) > 1
    for section, own in zip(sections, labels, strict=True):
        own.update({"ranks": str(section.ranks)} if several and section.ranks else {})
        own.update({"rank": section.tag.partition(",")[2]} if tagged else {})
    for name in dict.fromkeys(section.name for section in sections):
        same = [at for at, section in enumerate(sections) if section.name == name]
        for setting in sorted({setting for at in same for setting in sections[at].settings}):
            if len({sections[at].settings.get(setting) for at in same}) > 1:
                for at in same:
                    labels[at] |= {setting: sections[at].settings.get(setting, "unset")}
        for detail in varying_details(value for at in same for value in sections[at].values):
            for at in same:  # a section may have one type, or rows of several
                own_values = {value.details.get(detail) for value in sections[at].values}
                only = own_values.pop() if len(own_values) == 1 else None
                labels[at].update({} if only is None else {detail: only})
        if not name and len(same) > 1 and not tagged:  # perhaps not of one program, so no repetitions
            for place, at in enumerate(same, 1):
                labels[at]["section"] = str(place)
    return [tuple(sorted(own.items())) for own in labels]


def _finish(
    run: RunBuilder, section: _Section, varying: Sequence[str], labels: Labels, tables: Sequence[_Section]
) -> None:
    """Add a section to its run: errors, facts, values with these labels, and the average."""
    section.report(run)
    for gpu, line in section.gpus:
        run.fact("gpu", gpu, line)
    if section.ranks and len({one.ranks for one in tables if one.ranks}) == 1:
        run.facts |= {"gpu_count": section.ranks, "world_size": section.ranks}
    collective = section.name or "collective"
    if not section.values and not section.errors:
        at = section.line or (section.average[1] if section.average else None)
        run.say("error", "a table has no row that can be read", at, f": {collective}")
    add_values(run, collective, section.values, varying, labels)
    if section.average is not None:
        run.value(Key(f"{collective}.avg_busbw", labels), "B/s", *section.average, per=1e-9)


def _take_row(section: _Section, number: int, text: str) -> bool:
    """Read a row, or a part of one; return False if the line is neither."""
    if section.open_row and 0 < nccl_rows.length_of_rest(text) < len(section.header):
        begun, number = section.open_row
        section.open_row, text = None, f"{begun} {text}"
    if not _ROW.match(text):
        return False
    section.end_row()
    if (before := nccl_rows.interrupted(text)) is not None:
        section.open_row = (before, number)
    else:
        section.values += _row(section, number, text.split())
        section.rows += 1
    return True


def _row(section: _Section, line: int, cells: list[str]) -> Iterator[NcclValue]:
    """Yield the numbers of one row. The header has the columns time, algbw, busbw and #wrong for each place."""
    header = section.header
    blank, pairs = nccl_rows.blank_columns(header, cells), zip(header, cells, strict=False)
    # used if there are too many cells; a row with too few gets its blanks below
    has_numbers = all(number(cell) is not None for name, cell in pairs if name in nccl_rows.METRIC_OF_COLUMN)
    is_short = len(cells) + len(blank) < len(header)
    if is_short or (len(cells) > len(header) and not has_numbers):  # other text is between the numbers
        detail = "words are where the header has numbers"
        if is_short:
            detail = f"{len(cells)} cells, but the header has {len(header)}"
        if len(section.errors) <= 2 * MAX_FAULTS:  # a run lists MAX_FAULTS of them, and counts the others
            section.errors.append((_UNREADABLE, line, f": {detail}"))
        else:
            section.more_rows += 1
        return
    for name in blank:
        cells.insert(header.index(name), "")
    first = next((at for at, name in enumerate(header) if name in nccl_rows.METRIC_OF_COLUMN), len(cells))
    details = {name: cell for name, cell in zip(header[:first], cells, strict=False) if cell}
    starts = [at for at, name in enumerate(header) if name in ("time", "cputime")]
    for start, end, place in zip(starts, [*starts[1:], len(header)], ("out", "in"), strict=False):
        columns = {header[at]: cells[at] for at in range(start, end)}
        wrong = (number(columns.get("#wrong", "")) or 0) > 0
        for name, metric in nccl_rows.METRIC_OF_COLUMN.items():
            if name in columns:
                # without a line of units, the unit is the usual one, which all versions so far print
                known, usual = (_PER_SECOND, "(us)") if metric.endswith("time") else (_PER_BYTE, "(GB/s)")
                per = known[next((unit for unit in section.units if unit in known), usual)]
                yield NcclValue(cells[0], details, place, metric, columns[name], per, line, wrong)
