r"""Reports of Lightning's profilers: SimpleProfiler, AdvancedProfiler and PyTorchProfiler, 0.x to 2.6.

Source: Lightning-AI/pytorch-lightning `src/lightning/pytorch/profilers/`, before 2.0 `pytorch_lightning/profiler`. A
report begins with `FIT Profiler Report`, without the stage before 1.3, and other tools print the table of
SimpleProfiler without any title. The label `stage` is Lightning's own name of it (`fit`, `validate`, ...).

AdvancedProfiler and PyTorchProfiler print sections, `Profile stats for: ACTION[ rank: 0]`, of `function_stats` and of
`op_table`. PyTorchProfiler before 1.3 has a section for each action: the label `action` tells their operators apart.

**Runs.** A process prints one report a stage, so that a second report of the same stage (and rank) is of another run.
"""

from __future__ import annotations

import re
from typing import Protocol

from perfgate.core import Run
from perfgate.readers.aggregates import AggregateRun, Labels
from perfgate.readers.lightning.function_stats import FunctionStats
from perfgate.readers.lightning.simple_table import HEADER, SimpleTable
from perfgate.readers.runs import Runs
from perfgate.readers.text import Document
from perfgate.readers.torch_text.op_table import OpTable

NAME = "lightning"

_TITLE_WORDS, _SECTION_WORDS = "Profiler Report", "Profile stats for: "
_TITLE = re.compile(r"(?:\b(FIT|VALIDATE|TEST|PREDICT|TUNE) )?\bProfiler Report(?:: rank (\d{1,9}))?\s*$")
_RANK = re.compile(r" rank: (\d{1,9})$")


class _Part(Protocol):
    """What reads the lines of a table."""

    def line(self, number: int, line: str, ended: bool) -> None: ...

    def close(self) -> None: ...


class _ReportRun(AggregateRun):
    """One run while its reports are read."""

    def __init__(self, document: Document) -> None:
        super().__init__(document, NAME)
        #: The stage and rank of each report.
        self.reports: set[tuple[tuple[str, str], ...]] = set()


class _Reports:
    """The reports of a document while it is read."""

    def __init__(self, document: Document) -> None:
        self.runs = Runs(lambda: _ReportRun(document))
        self._parts: list[_Part] = []
        #: The labels of the last title, and its line until something has followed it.
        self._labels: Labels = {}
        self._title_line: int | None = None
        #: Whether sections of this report may follow.
        self._has_sections = False

    def line(self, number: int, line: str, ended: bool) -> None:
        """The next line: a title, the header of a table, a section's, or one of what has begun."""
        if _TITLE_WORDS in line and (title := _TITLE.search(line)):
            self._close()
            self._labels = _labels(stage=(title[1] or "").lower(), rank=title[2])
            self._title_line, self._has_sections = number, False
        elif HEADER in line and ended:
            self._table(number, line)
        elif _SECTION_WORDS in line and ended:
            self._section(number, line.partition(_SECTION_WORDS)[2].strip())
        else:
            for part in self._parts:
                part.line(number, line, ended)

    def finish(self) -> tuple[Run, ...]:
        """The runs of the document."""
        self._close()
        return self.runs.finish()

    def _close(self) -> None:
        for part in self._parts:
            part.close()
        self._parts = []

    def _table(self, number: int, header: str) -> None:
        """A table of SimpleProfiler, which is a report of its own."""
        self._close()
        labels = self._begin(number, self._labels if self._title_line else {})
        self._parts = [SimpleTable(self.runs.run, labels, header)]
        self._has_sections = False

    def _section(self, number: int, action: str) -> None:
        """A section of a report: of pstats text, or of a table of operators."""
        self._close()
        rank = _RANK.search(action)
        own = _labels(rank=rank[1]) if rank else {}
        action = action[: rank.start()] if rank else action
        if self._title_line is None and not self._has_sections:
            self._labels = {}
        labels = {**self._labels, **own}
        if self._title_line or not self._has_sections:
            self._begin(number, labels)
        self._has_sections = True
        name = {} if action == "records" else {"action": action}
        run = self.runs.run
        self._parts = [FunctionStats(run, labels, action), OpTable(run, {**labels, **name})]

    def _begin(self, number: int, labels: Labels) -> Labels:
        """A report with these labels; where the run has one already, it is of the next run."""
        report = tuple(sorted(labels.items()))
        if report in self.runs.run.reports:
            self.runs.banner(self._title_line or number)
        self.runs.run.reports.add(report)
        self._title_line = None
        return labels


def _labels(**labels: str | None) -> Labels:
    return {name: value for name, value in labels.items() if value}


def read(document: Document) -> tuple[Run, ...]:
    """The runs of a document; more than one where a stage is reported again."""
    reports = _Reports(document)
    for number, line, _, ended in document.lines():
        reports.line(number, line, ended)
    return reports.finish()
