"""Files and printed rows of the Hugging Face Trainer: `trainer_state.json`, `all_results.json`, console, tables.

    {"log_history": [{"loss": 2.1, "epoch": 0.5, "step": 500}, {"eval_runtime": 5.7, "eval_loss": 2.0, "step": 500},
                     {"train_runtime": 273.01, "train_samples_per_second": 3.663, "step": 1000}], "global_step": 1000}
    {"epoch": 3.0, "eval_runtime": 5.7, "train_runtime": 273.01, ...}                         all_results.json
    {'train_runtime': 273.01, 'train_samples_per_second': 3.663, 'epoch': 1.0}                 on the console
    {'train_runtime': '273', 'train_samples_per_second': '3.663', 'epoch': '1'}                since v5
    ***** train metrics *****                                                                  log_metrics
      epoch                      =        3.0
      total_flos                 =   498078GF
      train_mem_gpu_peaked_delta =      128MB
      train_runtime              = 0:04:33.01

Source: huggingface/transformers `trainer.py`, `trainer_utils.py` (`speed_metrics`), `trainer_callback.py`,
`trainer_pt_utils.py` (`metrics_format`), v3 to v5.

Every number of a row is a metric by its printed name, apart from `epoch`, `step` and `learning_rate`. Units:
`*_runtime` and `*_time` s, `*_per_second` 1/s, `*_mem_*` B, `total_flos` FLOP, the others 1. A row with step n (from 1)
belongs to step n - 1; printed rows have no steps. A metric that is once in the summary of a whole run (`train_*`,
`predict_*`, `test_*`, `total_flos`) is one value, and so is everything in `all_results.json`. On the console every
process may print the same summary without its rank: those values are kept as samples, with a warning. Beside a `loss`,
`train_*` are the times and rates so far: `running.train_runtime`. The table of `log_metrics` is rounded, so only
metrics that no row has are read from it: numbers have 4 decimals, times hundredths of a second, MB are 1024**2 bytes
and GF 1024**3 operations, both rounded down.

`time.total` is `train_runtime`, the whole of `Trainer.train`. `time.evaluation` is the sum of `eval_*runtime` in the
rows before it: an evaluation after the training has a later row. The Trainer prints no time of steps, data or
checkpoints, so the rest is `time.other`, and goodput is unknown. perfgate's callback records these times. Without an
evaluation, and with several rows of `train_runtime` (of several processes or trainings), there is no `time.*`. After
a resume, `trainer_state.json` also has the evaluations before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from perfgate.core.goodput import EVALUATION, metrics, with_rest
from perfgate.readers.alike_lines import AlikeLines
from perfgate.readers.digit_runs import Floats
from perfgate.readers.kit import Format, InputFile, JsonOutline, JsonSource, Key, Run, RunBuilder, Runs, load_json
from perfgate.readers.time_split import add_times
from perfgate.readers.values import checked, items, mapping, number

NAME = "hf-trainer"
METRICS = (
    "every number by its printed name: `train_runtime`, `train_samples_per_second`, `eval_loss`, ...; "
    "`time.evaluation` and `time.total` of a training"
)
CHECKED = "transformers 3 to 5, from its sources; console logs and a trainer_state.json of public repositories"
#: Numbers of a trainer state that are not in its rows.
BESIDE = "total_flos|best_metric|_wandb"


def _outline(outline: JsonOutline) -> str | None:
    """Hugging Face: a trainer state with its `log_history`, or the flat results with `*_runtime` and `*_per_second`."""
    if outline.is_list("log_history") and outline.has("global_step"):
        return "a JSON document with 'log_history'"
    names = [path[0] for path in outline.tokens if len(path) == 1]
    flat = all(any(name.endswith(end) for name in names) for end in ("_runtime", "_per_second"))
    return "a JSON document with '*_runtime' and '*_per_second'" if flat else None


FORMAT = Format(
    NAME,
    __name__,
    markers={
        "_runtime':": r"'(?:train|eval|predict|test)\w{0,200}_runtime':",
        " metrics *****": r"\*{5} \w{1,40} metrics \*{5}[ \t]*\r?$",
    },
    keys="log_history|.*_runtime",
    outline=_outline,
)
_WHOLE, _EVALUATION_ROW = "train_runtime", re.compile(r"eval_(?:\w+_)?runtime")
#: The share of the whole by which the parts may exceed it: times are printed with 4 digits.
_ROUNDING = 1e-3
_NO_METRICS = ("epoch", "step", "learning_rate")
_SUMMARY = re.compile(r"(?:train|predict|test)_|total_flos$")
_LAUNCHER = "Setting OMP_NUM_THREADS environment variable for each process"
_MAX_ROW = 1 << 14  # the longest row that `rich` has wrapped over several lines
_PAIR = re.compile(r"'([^'\s]{1,200})':\s*(?:'([^']*)'|([^\s,'{}\[\]()]+))\s*(?=[,}])")
#: Epochs have up to 6 decimals, so a millionth is a step of their counter; larger epochs are not counted.
_EPOCH_PARTS, _MOST_EPOCHS = 1_000_000, 1 << 40
_ROW = re.compile(r"'epoch':|'\w{1,200}_runtime':")
_TITLE_WORD, _TABLE_WORD = " metrics *****", " = "
_TITLE = re.compile(r"\*{5} \w{1,40} metrics \*{5}\s*$")
_TABLE_ROW = re.compile(r"(?:.*[\s:\]>])?(\w{1,200}) *= +(\S[^=]{0,40}?)\s*")
_TIME = re.compile(r"(?:(\d{1,9}) days?, )?(\d{1,2}):(\d\d):(\d\d(?:\.\d{1,9})?)")
_LONGEST_TABLE_ROW = 400
_SUFFIXES = {"MB": 1 << 20, "GF": 1 << 30}


def unit_of(name: str) -> str:
    """Return the unit of a metric by its name."""
    if name.endswith(("_runtime", "_time")):
        return "s"
    if name.endswith("_per_second"):
        return "1/s"
    if name == "total_flos":
        return "FLOP"
    return "B" if "_mem_" in name else "1"


def _times_in(row: Mapping[str, object]) -> Iterator[tuple[bool, float]]:
    """Yield the times in a row up to a wrong one: True and the s of a training, or False and the s of an evaluation."""
    for name, value in row.items():
        if (name == _WHOLE and "loss" not in row) or _EVALUATION_ROW.fullmatch(name):  # beside a loss: the time so far
            seconds, fault = checked(value, "s")
            if fault:
                return
            yield name == _WHOLE, seconds


def _add_times(run: RunBuilder, times: Sequence[tuple[bool, float]]) -> None:
    """Add the parts of the training, if there is only one, with evaluations before its end; none if they exceed it."""
    trainings = [at for at, (is_whole, _) in enumerate(times) if is_whole]
    if len(trainings) == 1 and (evaluation := sum(seconds for _, seconds in times[: trainings[0]])):
        whole = times[trainings[0]][1]
        add_times(run, metrics(with_rest({EVALUATION: evaluation}, whole, rounding=_ROUNDING * whole) or {}))


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the run of a JSON file, or the runs of a log."""
    if not file.is_json():
        return _Console(file).read()
    loaded = load_json(file.whole() or "{}", file.name, file.limits)
    run = RunBuilder(file, NAME, JsonSource(loaded))
    data = mapping(loaded.data)
    history = data.get("log_history")
    rows = [(index, row) for index, row in enumerate(items(history)) if isinstance(row, dict)]
    have_steps = all(type(row.get("step")) is int and 0 <= row["step"] < 1 << 53 for _, row in rows)
    for index, row in rows:
        step = max(row["step"] - 1, 0) if have_steps else None
        for name, value in _metrics(row):
            run.sample(_key(name, row), unit_of(name), value, ("log_history", index, name), step=step)
    _add_times(run, [one for _, row in rows for one in _times_in(row)])
    run.single_values(_SUMMARY)
    for name, value in _metrics({} if isinstance(history, list) else data):
        run.value(Key(name), unit_of(name), value, (name,))
    run.report_problems(numbers=False)  # a value that is not finite was refused with its metric
    return (run.run(),)


def _metrics(row: Mapping[str, Any]) -> Iterator[tuple[str, int | float | str]]:
    """Yield the numbers of a row, perhaps in quotes; words and truth values are not metrics."""
    for name, value in row.items():
        if _is_metric(name, value):
            yield name, value


def _is_metric(name: str, value: object) -> bool:
    is_number = number(value) is not None if isinstance(value, str) else type(value) in (int, float)
    return name not in _NO_METRICS and is_number


def _key(name: str, row: Collection[str]) -> Key:
    # transformers 5 prints the times and rates so far with `include_num_input_tokens_seen`, beside a loss
    return Key(f"running.{name}" if name.startswith("train_") and "loss" in row else name)


def _table_row(line: str) -> tuple[str, str] | None:
    """Return the name and the value of a row of a table, the value in base units; None for another line."""
    found = _TABLE_ROW.fullmatch(line) if len(line) <= _LONGEST_TABLE_ROW else None
    if not found:
        return None
    name, text = found.groups()
    if time := _TIME.fullmatch(text):
        days, hours, minutes, seconds = time.groups()
        return name, repr(86400 * int(days or 0) + 3600 * int(hours) + 60 * int(minutes) + float(seconds))
    factor = _SUFFIXES.get(text[-2:])
    return name, str(int(text[:-2]) * factor) if factor and text[:-2].isdecimal() else text


class _ConsoleRun(RunBuilder):
    """A run of a console log; at its end its summary and its times are known."""

    def __init__(self, file: InputFile) -> None:
        super().__init__(file, NAME)
        self.again: dict[Key, int] = {}  # for each metric of the summary that is printed twice, the second line
        self.times: list[tuple[bool, float]] = []  # see `_times_in`
        self.rounded: set[Key] = set()  # metrics that are only in tables so far

    def run(self, part: int | None = None) -> Run:
        for key, line in [*self.again.items()][:1]:  # one stands for all
            times = f"{len(self.columns[key].values)} times, once by each process; all are kept"
            self.say("warning", f"the summary ({key}, ...) was printed {times}", line)
        self.single_values(_SUMMARY)
        _add_times(self, self.times)
        return super().run(part)


class _Console:
    """A console log while it is read."""

    def __init__(self, file: InputFile) -> None:
        self.file = file
        self.alike = AlikeLines(file)  # reads rows like one that it was told about many at once
        self.runs = Runs(lambda: _ConsoleRun(file))
        #: A row that began on an earlier line, and that line.
        self.begun, self.line = "", 0
        self.in_table = False  # True if rows of a table may follow

    def read(self) -> tuple[Run, ...]:
        """Read every line with a quoted word, once; a row ends at its bracket, on its line or on a later one."""
        for line_number, line, _, ended in self.file.lines(("'", _LAUNCHER, _TITLE_WORD, _TABLE_WORD)):
            self.file.is_odd |= bool(self.begun) or self.in_table  # odd lines are read one by one
            if _LAUNCHER in line:
                self.runs.banner(line_number)  # the next run begins
            if self._table(line_number, line, ended):
                continue
            self._rows(line_number, self._go_on(line))
            self.file.is_odd |= bool(self.begun)
            if not ended:
                break
        if _ROW.search(self.begun) or (self.begun and self.runs.run.has_measured):  # `epoch` is at its end
            self.runs.run.say("warning", "the last row is cut off; left out", self.line)
        return self.runs.finish()

    def _table(self, line_number: int, line: str, ended: bool) -> bool:
        """Read the title or a row of a table of `log_metrics`; return False for another line."""
        if _TITLE.search(line):
            self.in_table = True
            self.runs.run.table("metrics of the trainer", line_number)
            return True
        row = _table_row(line) if self.in_table else None
        self.in_table = row is not None
        if row:
            key, text, run = Key(row[0]), row[1], self.runs.run
            run.table_row()
            if not ended:
                run.say("warning", "the last row is cut off; left out", line_number)
            elif _is_metric(*row) and (key not in run.columns or key in run.rounded):
                run.rounded.add(key)
                self._value(key, text, line_number)
        return self.in_table

    def _go_on(self, line: str) -> str:
        """Return the row that has begun with this line added; it ends at another row, or if it is too long."""
        begun, self.begun = self.begun, ""
        if not begun or line.lstrip().startswith("{") or len(begun) + len(line) > _MAX_ROW:
            self._lost(begun)
            return line
        return f"{begun} {line}"

    def _lost(self, text: str) -> None:
        """Report a text that is skipped, if it is a part of a row."""
        if _ROW.search(text):
            self.runs.run.say("warning", "a row is broken off; left out", self.line)

    def _rows(self, line_number: int, line: str) -> None:
        """Read every row in a line; the last may go on in the next line."""
        at = line.find("{'")
        while at >= 0:
            end = line.find("}", at)
            if end < 0:
                self.begun, self.line = line[at : at + _MAX_ROW], line_number
                return
            start = line.rfind("{'", at, end)  # behind a row that was broken off, the next one is read
            self._lost(line[at:start])
            if _ROW.search(line, start, end + 1):
                # The value is the last group: 2 in quotes, or 3.
                pairs = [(found, found.lastindex or 2) for found in _PAIR.finditer(line, start, end + 1)]
                self._row(line_number, {found[1]: (found[group], found.start(group)) for found, group in pairs})
            at = line.find("{'", end)

    def _row(self, line: int, row: Mapping[str, tuple[str, int]]) -> None:
        """Read a printed row: each name's text and its place in the line. An epoch that goes back begins a new run."""
        text, at = row.get("epoch", ("", -1))
        epoch, fault = checked(text, "1")
        if not fault and 0 <= epoch < _MOST_EPOCHS:
            self.runs.count("epoch", round(epoch * _EPOCH_PARTS), line)
            self.alike.step(text, at, first=None, follow=self._follow)
            self.alike.plain()
        run = self.runs.run
        run.times += _times_in({name: text for name, (text, _) in row.items()})
        # `times` and `again` need each such row:
        run.file.is_odd |= any(name.endswith("_runtime") or _SUMMARY.match(name) for name in row if "loss" not in row)
        for name, (text, at) in row.items():
            if not _is_metric(name, text):
                continue
            key = _key(name, row)
            if key in run.rounded:  # a table came first
                run.rounded.remove(key)
                del run.columns[key]
            self._value(key, text, line)
            if key in run.columns:
                self.alike.number(run.columns[key], text, at)

    def _follow(self, epochs: Floats) -> Callable[[], None] | None:
        """Count the epochs of rows that are read at once: see `Runs.follow`."""
        return self.runs.follow("epoch", np.round(epochs * _EPOCH_PARTS)) if epochs.max() < _MOST_EPOCHS else None

    def _value(self, key: Key, text: str, line: int) -> None:
        run = self.runs.run
        run.sample(key, unit_of(key.metric), text, line)
        if _SUMMARY.match(key.metric) and key in run.columns and len(run.columns[key].values) == 2:
            run.again.setdefault(key, line)
