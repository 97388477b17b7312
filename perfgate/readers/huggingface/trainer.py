"""What the Hugging Face Trainer writes: `trainer_state.json`, `all_results.json`, and the rows that it prints.

    {"log_history": [{"loss": 2.1, "epoch": 0.5, "step": 500}, {"eval_runtime": 5.7, "eval_loss": 2.0, "step": 500},
                     {"train_runtime": 273.01, "train_samples_per_second": 3.663, "step": 1000}], "global_step": 1000}
    {"epoch": 3.0, "eval_runtime": 5.7, "train_runtime": 273.01, ...}                         all_results.json
    {'train_runtime': 273.01, 'train_samples_per_second': 3.663, 'epoch': 1.0}                 on the console
    {'train_runtime': '273', 'train_samples_per_second': '3.663', 'epoch': '1'}                since v5
    ***** train metrics *****                                                                  and rows below it

Source: huggingface/transformers `trainer.py`, `trainer_utils.py` (`speed_metrics`), `trainer_callback.py` (v3 to v5).

Every number of a row is a metric by its printed name, apart from `epoch`, `step` and `learning_rate`. Units:
`*_runtime` and `*_time` s, `*_per_second` 1/s, `*_mem_*` B, `total_flos` FLOP, the others 1. A row with step n (from 1)
belongs to step n - 1; what is printed has no steps. What stands once in the summary of a whole run (`train_*`,
`predict_*`, `test_*`, `total_flos`) is one value, and so is everything in `all_results.json`. On the console every
process may print the same summary without saying which it is: those values are kept as samples, and a warning says so.
Of the table of `log_metrics`, which is rounded, only what no row holds is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from perfgate.core import Key, Run
from perfgate.documents.json import load_json
from perfgate.readers.builder import RunBuilder, number
from perfgate.readers.huggingface import metrics_table as hf_metrics_table
from perfgate.readers.jsonrun import JsonRun, checked
from perfgate.readers.runs import Runs
from perfgate.readers.sniffing import is_json
from perfgate.readers.text import Document

NAME = "hf-trainer"

_NO_METRICS = ("epoch", "step", "learning_rate")
_SUMMARY = re.compile(r"(?:train|predict|test)_|total_flos$")
_LAUNCHER = "Setting OMP_NUM_THREADS environment variable for each process"
#: How far a row goes on that `rich` has wrapped.
_MAX_ROW = 1 << 14
_PAIR = re.compile(r"'([^'\s]{1,200})':\s*(?:'([^']*)'|([^\s,'{}\[\]()]+))\s*(?=[,}])")
_ROW = re.compile(r"'epoch':|'\w{1,200}_runtime':")


def unit_of(name: str) -> str:
    """The unit of a metric by its name."""
    if name.endswith(("_runtime", "_time")):
        return "s"
    if name.endswith("_per_second"):
        return "1/s"
    if name == "total_flos":
        return "FLOP"
    return "B" if "_mem_" in name else "1"


def read(document: Document) -> tuple[Run, ...]:
    """The run of a JSON file, or the runs of a log."""
    if not is_json(document.head(1 << 16).decode("utf-8", "replace")):
        return _Console(document).read()
    text = document.whole()
    if text is None:
        return (RunBuilder(document, NAME).run(),)
    loaded = load_json(text, document.name, document.limits)
    run = JsonRun(document, NAME, loaded)
    data = loaded.data if isinstance(loaded.data, dict) else {}
    history = data.get("log_history")
    if isinstance(history, list):
        _add_history(run, history)
    else:
        for name, value in data.items():
            if name not in _NO_METRICS and isinstance(value, int | float | str) and not _is_text(value):
                run.value(Key(name), unit_of(name), value, (name,))
    return (run.run(),)


def _add_history(run: JsonRun, history: list[object]) -> None:
    """The rows of a trainer state."""
    rows = [(index, row) for index, row in enumerate(history) if isinstance(row, dict)]
    stepped = all(type(row.get("step")) is int and 0 <= row["step"] < 1 << 53 for _, row in rows)
    for index, row in rows:
        for name, value in row.items():
            if name not in _NO_METRICS and isinstance(value, int | float | str) and not _is_text(value):
                step = max(row["step"] - 1, 0) if stepped else None
                run.sample(Key(name), unit_of(name), value, ("log_history", index, name), step=step)
    _summarise(run)


def _is_text(value: object) -> bool:
    """Words and truth values, which are no metrics."""
    return isinstance(value, bool) or (isinstance(value, str) and number(value) is None)


def _summarise(run: RunBuilder) -> None:
    """What stands once and speaks of the whole run is one value, of which no warm-up is dropped."""
    for key in [key for key in run.columns if _SUMMARY.match(key.metric)]:
        column = run.columns[key]
        if len(column.values) == 1:
            del run.columns[key]
            run.one_value(key, column.unit, column.values[0])


class _ConsoleRun(RunBuilder):
    """One run of a log while it is read."""

    def __init__(self, document: Document) -> None:
        super().__init__(document, NAME)
        #: Of each metric of the summary, the line on which it stands a second time.
        self.again: dict[Key, int] = {}
        #: What only tables hold so far.
        self.rounded: set[Key] = set()

    def run(self, part: int | None = None) -> Run:
        """The finished run."""
        for key, line in [*self.again.items()][:1]:
            count = len(self.columns[key].values)
            message = f"the summary ({key}, ...) stands {count} times, as of several processes; all are kept"
            self.say("warning", message, line)
        _summarise(self)
        return super().run(part)


class _Console:
    """A log while it is read."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.runs = Runs(lambda: _ConsoleRun(document))
        #: A row that has begun on an earlier line, and that line.
        self.begun = ""
        self.line = 0
        #: Whether rows of a table may follow.
        self.in_table = False

    def read(self) -> tuple[Run, ...]:
        """Every line with a quoted word, once; a row ends at its bracket, on its line or on a later one."""
        words = ("'", _LAUNCHER, hf_metrics_table.TITLE_WORD, hf_metrics_table.ROW_WORD)
        for line_number, line, _, ended in self.document.lines(words):
            if _LAUNCHER in line:
                self.runs.banner(line_number)
            if self._table(line_number, line, ended):
                continue
            self._rows(line_number, self._go_on(line))
            if not ended:
                break
        if _ROW.search(self.begun) or (self.begun and self.runs.run.has_measured):
            self.runs.run.say("warning", "the last row is cut off, and left out", self.line)
        return self.runs.finish()

    def _table(self, line_number: int, line: str, ended: bool) -> bool:
        """Read a line of a table; False for another."""
        if hf_metrics_table.TITLE.search(line):
            self.in_table = True
            return True
        row = hf_metrics_table.row_of(line) if self.in_table else None
        if row is None:
            self.in_table = False
            return False
        name, text = row
        key, run = Key(name), self.runs.run
        if not ended:
            run.say("warning", "the last row is cut off, and left out", line_number)
        elif name not in _NO_METRICS and number(text) is not None and (key not in run.columns or key in run.rounded):
            run.rounded.add(key)
            self._value(key, text, line_number)
        return True

    def _go_on(self, line: str) -> str:
        """The row that has begun with this line behind it; given up at another row, or when it is too long."""
        begun, self.begun = self.begun, ""
        if not begun or line.lstrip().startswith("{") or len(begun) + len(line) > _MAX_ROW:
            self._lost(begun)
            return line
        return f"{begun} {line}"

    def _lost(self, text: str) -> None:
        if _ROW.search(text):
            self.runs.run.say_some("warning", "a row that is broken off, and left out", self.line)

    def _rows(self, line_number: int, line: str) -> None:
        """Read every row in a line; the last may go on in the next line."""
        at = line.find("{'")
        while at >= 0:
            end = line.find("}", at)
            if end < 0:
                self.begun, self.line = line[at : at + _MAX_ROW], line_number
                return
            start = line.rfind("{'", at, end)  # of a row that was broken off the rest is read
            self._lost(line[at:start])
            row = line[start : end + 1]
            if _ROW.search(row):
                self._row(line_number, {name: quoted or plain for name, quoted, plain in _PAIR.findall(row)})
            at = line.find("{'", end)

    def _row(self, line: int, row: Mapping[str, str]) -> None:
        """One printed row; an epoch that goes back belongs to a new run."""
        epoch, fault = checked(row.get("epoch", ""), "1")
        if not fault and 0 <= epoch < 1 << 40:
            self.runs.count("epoch", round(epoch * 1_000_000), line)
        run = self.runs.run
        for name, text in row.items():
            if name in _NO_METRICS or number(text) is None:
                continue
            key = Key(name)
            if key in run.rounded:  # a table came first
                run.rounded.remove(key)
                del run.columns[key]
            self._value(key, text, line)

    def _value(self, key: Key, text: str, line: int) -> None:
        """One printed number, which says what is wrong with it if it is no measurement."""
        run, unit = self.runs.run, unit_of(key.metric)
        value, fault = checked(text, unit)
        if fault:
            run.refuse(key, fault, line)
            return
        column = run.column(key, unit)
        column.values.append(value)
        if _SUMMARY.match(key.metric) and len(column.values) == 2:
            run.again[key] = line
