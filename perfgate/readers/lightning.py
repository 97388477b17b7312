r"""Reports of Lightning's profilers: SimpleProfiler, AdvancedProfiler and PyTorchProfiler, 0.x to 2.6.

Source: Lightning-AI/pytorch-lightning `src/lightning/pytorch/profilers/`, before 2.0 `pytorch_lightning/profiler`. A
report begins with `FIT Profiler Report`, without the stage before 1.3, and other tools print the table of
SimpleProfiler without a title. The label `stage` is Lightning's own name of it (`fit`, `validate`, ...).

**SimpleProfiler** prints a row for each action, with its mean, its total and since 1.2 its calls.

    Action              \t|  Mean duration (s)\t|  Total time (s)                                             to 1.1
    Action  \t|  Mean duration (s)\t|Num calls      \t|  Total time (s) \t|  Percentage %   \t|            1.2 to 1.5
    |  Action  \t|  Mean duration (s)\t|  Num calls      \t|  Total time (s) \t|  Percentage %   \t|       since 1.6

Names of actions may contain bars, so rows are split from the right. The numbers have 5 significant digits, and are
nested: a batch is inside an epoch, so a sum of rows means nothing. Percentages are not read. The row of the total, the
wall time since the profiler was made, is `time.total`; `time_split` splits it. Unit: s.

**AdvancedProfiler and PyTorchProfiler** print sections, `Profile stats for: ACTION[ rank: 0]`: text of Python's
`pstats`, or a table of operators (`torch_table`). PyTorchProfiler before 1.3 has a section for each action: the
label `action` distinguishes their operators.

          23 function calls (20 primitive calls) in 0.618 seconds
       Ordered by: cumulative time
       ncalls  tottime  percall  cumtime  percall filename:lineno(function)
      29485/2    0.005    0.000    0.618    0.309 {built-in method builtins.next}

The action's total is the time in the first line. A function, `ACTION.FUNCTION`, has its cumulative time as the total
and its primitive calls as the count. `percall`, their ratio rounded to 3 decimals, is not read. Unit: s. The table may
show only some functions (`List reduced from 76 to 10`), and paths are stripped, so two functions may have one name.

**Runs.** A process prints one report for each stage, so a second report of the same stage and rank belongs to another
run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from perfgate.readers.kit import Format, InputFile, Key, Run, RunBuilder, Runs
from perfgate.readers.time_split import add_times, profiler_metrics
from perfgate.readers.torch_columns import Amount, add_amounts
from perfgate.readers.torch_table import Labels, OpTable
from perfgate.readers.values import number as number_of

NAME = "lightning"
METRICS = (
    "the action as printed (quote names that begin with `[`), labelled with its stage; `ACTION.function`; operators as "
    "in torch-table; `time.PART` and `goodput` of SimpleProfiler"
)
CHECKED = "Lightning 1.9.5 and 2.6: reports that they wrote; public reports of 0.8 to 2.x"
FORMAT = Format(
    NAME, __name__, markers={"Mean duration (s)": r"Action[ \t]*\|[ \t]*Mean duration \(s\)", "Profile stats for: ": ""}
)
_TITLE_WORDS, _SECTION_WORDS = "Profiler Report", "Profile stats for: "
_TITLE = re.compile(r"(?:\b(FIT|VALIDATE|TEST|PREDICT|TUNE) )?\bProfiler Report(?:: rank (\d{1,9}))?\s*$")
_RANK = re.compile(r" rank: (\d{1,9})$")
_MEAN = "Mean duration (s)"
_STATISTICS = {_MEAN: "mean", "Num calls": "count", "Total time (s)": "total"}
#: Documentation and people print calls with thousands commas.
_COMMAS = re.compile(r"\d{1,3}(?:,\d{3})+", re.ASCII)
_DIGIT = re.compile(r"\d")
_SHORTEST_RULE = "-" * 20
_TOTAL = re.compile(r"\d+ function calls (?:\(\d+ primitive calls\) )?in (\S+) (?:CPU )?seconds", re.ASCII)
_CALLS = re.compile(r"\d+(?:/\d+)?", re.ASCII)
_FUNCTIONS = "ncalls  tottime"
_FUNCTION_CELLS = 6


class _Reports:
    """The reports of a file while its lines are read."""

    def __init__(self, file: InputFile) -> None:
        self.runs = Runs(lambda: RunBuilder(file, NAME))
        #: The open table or section; a section is read in both of its forms.
        self._parts: list[_SimpleTable | _FunctionStats | OpTable] = []
        #: The stage and rank of each report of this run.
        self._seen: set[tuple[tuple[str, str], ...]] = set()
        #: The labels of the last title, and its line until something follows it.
        self._labels: Labels = {}
        self._title_line: int | None = None
        #: True if sections of this report may follow, and the line of the last one.
        self._has_sections = False
        self._section_line = 0

    def line(self, number: int, line: str, ended: bool) -> None:
        """Read the next line: a title, the header of a table or of a section, or a line of the open section."""
        if _TITLE_WORDS in line and (title := _TITLE.search(line)):
            self.close()
            labels = {"stage": (title[1] or "").lower(), "rank": title[2] or ""}
            self._labels = {name: value for name, value in labels.items() if value}
            self._title_line, self._has_sections = number, False
        elif _MEAN in line and ended:  # a table of SimpleProfiler, which is a report of its own
            self.close()
            own = self._labels if self._title_line else {}  # else the table has no title
            self._begin(number, own)
            self._parts = [_SimpleTable(self.runs.run, own, line)]
            self.runs.run.table("a report of Lightning", number)
            self._has_sections = False
        elif _SECTION_WORDS in line and ended:
            self._section(number, line.partition(_SECTION_WORDS)[2].strip())
        else:
            for part in self._parts:
                part.line(number, line, ended)

    def close(self) -> None:
        """End the open table or section."""
        for part in self._parts:
            part.close()
        sections = [part for part in self._parts if not isinstance(part, _SimpleTable)]
        if sections and not any(part.has_begun for part in sections):
            message = "a section has a title, but nothing that can be read"
            self.runs.run.say("warning", message, self._section_line)
        self._parts = []

    def _section(self, number: int, action: str) -> None:
        """Begin the section of an action, which belongs to the report above or to a report without a title."""
        self.close()
        rank = _RANK.search(action)
        own = {"rank": rank[1]} if rank else {}
        action = action[: rank.start()] if rank else action
        if self._title_line is None and not self._has_sections:  # a report without a title
            self._labels = {}
        labels = {**self._labels, **own}
        if self._title_line or not self._has_sections:  # the first section of a report
            self._begin(number, labels)
        self._has_sections = True
        name = {} if action == "records" else {"action": action}  # since 1.3 there is one section for all actions
        run = self.runs.run
        self._section_line = number
        self._parts = [_FunctionStats(run, labels, action), OpTable(run, {**labels, **name})]

    def _begin(self, number: int, labels: Labels) -> None:
        """Begin a report with these labels; if the run has such a report, it belongs to the next run."""
        report = tuple(sorted(labels.items()))
        if report in self._seen:
            before = self.runs.run
            self.runs.banner(self._title_line or number)
            if self.runs.run is not before:  # the one before has a measurement
                self._seen.clear()
        self._seen.add(report)
        self._title_line = None


class _SimpleTable:
    """One table of SimpleProfiler while its lines are read."""

    def __init__(self, run: RunBuilder, labels: Labels, header: str) -> None:
        self._run, self._labels = run, labels
        before, _, after = header.partition(_MEAN)
        bars = (_MEAN + after.rstrip()).split("|")
        #: Since 1.2 each row ends with a bar. Since 1.6 it begins with one: the header has two bars before the mean.
        self._closed = bars[-1] == ""
        self._opened = before.count("|") > 1
        #: The statistic of each column behind the action; None for one that is not read.
        self._statistics = [_STATISTICS.get(bar.strip()) for bar in bars if bar]
        #: The text of a logger before the table, up to the first action.
        self._lead = before[: max(before.rfind("Action"), 0)]
        self._last_row: int | None = None
        self._ended = False
        #: True after the rule at the end, which tables have since 1.6.
        self._is_whole = False
        #: The seconds of each action, and those in the row of the total.
        self._totals: dict[str, float] = {}
        self._total: float | None = None

    def line(self, number: int, line: str, ended: bool) -> None:
        """Read the next line; a line without a line end may be cut inside a number, so it is not a row."""
        text = line.rstrip()
        if self._ended or not text:
            self._ended = self._ended or self._last_row is not None  # a blank line before the first row ends nothing
        elif text.endswith(_SHORTEST_RULE):
            self._ended = self._is_whole = self._last_row is not None
        elif not ended:
            self._run.say("warning", "the last row is cut off; left out", number)
            self._ended = True
        else:
            self._row(number, text)

    def close(self) -> None:
        """End the table: since 1.6 a table without its last rule may have lost rows."""
        if self._opened and self._last_row is not None and not self._ended:
            self._run.say("warning", "the table has no rule at its end: rows may be missing", self._last_row)
        is_fit = self._labels.get("stage", "fit") == "fit"
        found = profiler_metrics(self._totals, self._total, is_whole=self._is_whole) if is_fit else {}
        self._ended = True
        # `time.*` have no label stage: they are those of `fit`.
        add_times(self._run, found, {name: value for name, value in self._labels.items() if name == "rank"})

    def _row(self, number: int, text: str) -> None:
        """Read a row, from the right, or pass over what another program printed."""
        printed, *cells = (text.removesuffix("|") if self._closed else text).rsplit("|", len(self._statistics))
        numbers = {name: cell.strip() for name, cell in zip(self._statistics, cells, strict=False) if name}
        if _COMMAS.fullmatch(numbers.get("count", "")):
            numbers["count"] = numbers["count"].replace(",", "")
        action = self._action(printed)
        seconds = number_of(numbers.get("total", ""))
        if action == "Total" and numbers.get("mean") == "-":
            self._total = self._total if seconds is None else seconds
            return
        if len(cells) < len(self._statistics) or all(number_of(cell) is None for cell in numbers.values()):
            if "\t|" in text or (self._opened and text.lstrip(" >").startswith("|")):  # bars of a row, perhaps quoted
                self._run.say("error", "a row of the table cannot be read", number)
            return
        self._last_row = number
        self._run.table_row()
        if seconds is not None:
            self._totals[action] = seconds
        amounts = {statistic: Amount(cell) for statistic, cell in numbers.items()}
        _add(self._run, action, self._labels, amounts, number)

    def _action(self, cell: str) -> str:
        """Return the action without the text of a logger before it: that of the header, except for digits (times)."""
        lead = cell[: len(self._lead)]
        if _DIGIT.sub("0", lead) == _DIGIT.sub("0", self._lead):
            return cell[len(lead) :].strip()
        bare = cell.strip(" \t>")
        return (bare.removeprefix("|") if self._opened else bare).strip()


class _FunctionStats(Struct):
    """One section of AdvancedProfiler while its lines are read."""

    _run: RunBuilder
    _labels: Labels
    _action: str
    #: True from the time of the action on.
    has_begun: bool = False
    _in_rows: bool = False
    _rows: int = 0

    def line(self, number: int, line: str, ended: bool) -> None:
        """Read the next line: the time of the action, the header of the functions, or a function."""
        if self._in_rows:
            self._function(number, line.strip(), ended)
        elif _FUNCTIONS in line:
            self._in_rows = True
        elif "function calls" in line:
            found = _TOTAL.search(line)
            self.has_begun = True
            if found and ended:
                _add(self._run, self._action, self._labels, {"total": Amount(found[1])}, number)
            else:
                self._run.say("warning", "the time of the action is cut off; left out", number)

    def close(self) -> None:
        """End the section; it does not show whether rows are missing at its end."""

    def _function(self, number: int, text: str, ended: bool) -> None:
        """Read the row of a function, or pass over what another program printed."""
        if not text:  # a blank line ends the rows, unless it is before the first
            self._in_rows = not self._rows
        elif not ended:
            self._run.say("warning", "the last row is cut off; left out", number)
        else:
            cells = text.lstrip("> ").split(None, _FUNCTION_CELLS - 1)
            if not _CALLS.fullmatch(cells[0] if cells else ""):
                return
            if len(cells) < _FUNCTION_CELLS:
                self._run.say("error", "a row of functions cannot be read", number)
                return
            self._rows += 1
            amounts = {"total": Amount(cells[3]), "count": Amount(cells[0].rpartition("/")[2])}
            _add(self._run, f"{self._action}.{cells[5]}", self._labels, amounts, number)


def _add(run: RunBuilder, printed: str, labels: Labels, amounts: Mapping[str, Amount], line: int) -> None:
    """Add the statistics of an action or a function; a name that occurs again is `NAME#2`."""
    run.file.coverage.lines.tell(line)  # the other numbers of the line follow from these
    key = run.unique(Key.of(printed, **labels), line)
    add_amounts(run, key, "s", amounts, line)


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a file; there are several if a stage is reported again."""
    reports = _Reports(file)
    for number, line, _, ended in file.lines():
        reports.line(number, line, ended)
    reports.close()
    return reports.runs.finish()
