"""Megatron-LM logs and golden values: iteration lines, timers in their two forms, and memory.

    time (ms) | forward-compute: 32054.16 | backward-params-all-reduce: 26.06 | optimizer: 342.01         until 2022
    (min, max) time across ranks (ms):                                                                    since 2022
        forward-backward ...............................: (1232.10, 1233.45)
    max time across ranks (ms):                         one number in each row
    times across ranks (ms):                            `  forward-backward:` and below it `     rank  0: 1232.10`

Source: NVIDIA/Megatron-LM `megatron/core/timers.py`, `megatron/training/training.py` and `utils.py`; for iteration
lines see `deepspeed.lines`. All times are means over the iterations since the last such line.

| metric | unit | printed as |
|---|---|---|
| `iteration_time` | s | `elapsed time per iteration (ms)` |
| `throughput_per_gpu`, `samples_per_second`, `tokens_per_second`, ... | FLOP/s, 1/s | see `deepspeed.lines` |
| `skipped_iterations`, `nan_iterations`, `lm_loss` and other losses | 1 | `number of skipped iterations`, ... |
| timers by their printed names, `forward-compute`, `optimizer`, ... | s | labels: ranks (`min`, `max`), or rank |
| `time.PART`, `goodput` | s, 1 | see `training_logs.megatron_times` |
| `memory.allocated`, `.peak_allocated`, `.reserved`, `.peak_reserved` | B | `memory (MB) | ...`; label rank |

A skipped iteration is shorter than the others, and is kept; `skipped_iterations` shows where they are. Iteration n is
step n - 1; the lines below it belong to the same step, and the lines before the first iteration belong to step 0.

DeepSpeed's timers and memory in a log of Megatron-DeepSpeed are read as in the format deepspeed. If such a log begins
with those timers, its format is deepspeed.

Golden values of functional tests are `{"iteration-time": {"start_step": 1, "end_step": 50, "step_interval": 5,
"values": {"1": 8.01, "5": 1.63}}, ...}`, values as a list until 2025: `iteration_time` (s), `memory.allocated` and
`memory.peak_allocated` (B), and `lm_loss`, `num_zeros` and the like, in 1; "nan" is a step that was not logged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from perfgate.readers.alike_lines import AlikeLines
from perfgate.readers.deepspeed import lines
from perfgate.readers.deepspeed.blocks import MEMORY_WORD, MESSAGE_WORD, MemoryUsage
from perfgate.readers.deepspeed.timers import RECORD, Timers, record_fields
from perfgate.readers.kit import Format, InputFile, JsonOutline, JsonSource, Key, Path, Run, RunBuilder, Runs, load_json
from perfgate.readers.training_logs.megatron_times import DATE_WORD, HAPPENED_WORDS, INITIALIZE_WORD, MegatronTimes
from perfgate.readers.values import items, mapping

NAME = "megatron"
METRICS = (
    "`iteration_time`, `throughput_per_gpu`, `tokens_per_second`, `memory.peak_allocated`, losses, timers as printed; "
    "`time.PART` and `goodput` of a log with dates"
)
CHECKED = "Megatron-LM's sources of 2021 to 2025; public logs and golden values"


def _outline(outline: JsonOutline) -> str | None:
    """Megatron-LM: objects with `start_step`, `step_interval` and `values` under the names of metrics."""
    names = {path[0] for path in outline.tokens if path[1:] == ("step_interval",)}
    found = any(outline.has(name, "start_step") and outline.has(name, "values") for name in names)
    return "a JSON document of Megatron-LM golden values" if found else None


FORMAT = Format(
    NAME,
    __name__,
    markers={  # without the timers of the start, which are above DeepSpeed's
        "elapsed time per iteration": r"\biteration\s{1,40}\d+/\s{0,40}\d+ \|.{0,300}?elapsed time per iteration",
        "across ranks (ms):": r"across ranks \(ms\):(?!\s{0,20}(?:load-checkpoint|model-and-opt))",
        "time (ms) |": rf"time \(ms\) \|{lines.MEGATRON_TIMERS}",
    },
    keys="step_interval",
    outline=_outline,
)
#: Numbers of an iteration that are no times or rates.
BESIDE = r"grad norm|params norm|num zeros"
_BLOCK = re.compile(r"(\(min, max\) time|max time|times) across ranks \(ms\):")
_PAIR = re.compile(r"\(([^\s,()]{1,40}), ([^\s,()]{1,40})\)")
_OF_RANK = re.compile(r"\s{3,12}rank\s{1,20}(\d{1,9}): (\S{1,40})")
_NAME = re.compile(r"(?:\S{1,99}:)?\s{2}(\S[^:|]{0,99}):")
_MEMORY = re.compile(
    r"(?:\[Rank (\d{1,9})\] )?(?:\([^()]{1,80}\) )?"
    r"memory \(MB\) \| allocated: ([^\s|\[]+) \| max allocated: ([^\s|\[]+)"
    r"(?: \| reserved: ([^\s|\[]+) \| max reserved: ([^\s|\[]+))?"
)
_MEMORY_METRICS = ("memory.allocated", "memory.peak_allocated", "memory.reserved", "memory.peak_reserved")
_DEEPSPEED = re.compile(r"(?:\[Rank -?\d{1,9}\]|rank=-?\d{1,9}) {0,9}time \(ms\)")
_WORLD_SIZE = re.compile(r"(?:using world size: |\bworld_size \.{3,80} )(\d{1,9})")
_LAUNCHER = "using world size: "
#: Lines with one of these words have more than their numbers, so they are read one by one.
_ODD_WORDS = (MESSAGE_WORD, "memory (MB)", _LAUNCHER, DATE_WORD, INITIALIZE_WORD, *HAPPENED_WORDS)
_RECORD_WORDS = (lines.ITERATION_WORD, "time (ms)", "memory (MB)")
#: Golden values with known names and units; all others are counts and losses.
_GOLDEN = {
    "iteration-time": ("iteration_time", "s"),
    "mem-allocated-bytes": ("memory.allocated", "B"),
    "mem-max-allocated-bytes": ("memory.peak_allocated", "B"),
}


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a log, or the one run of golden values."""
    return (_golden(file),) if file.is_json() else _Log(file).read()


class _LogRun(RunBuilder):
    """A run of a log, with the timers of DeepSpeed in it."""

    def __init__(self, file: InputFile) -> None:
        super().__init__(file, NAME)
        self.timers = Timers(self)  # DeepSpeed's records have a rank

    @property
    def has_measured(self) -> bool:
        """Return whether iterations have begun: memory is printed while the model is still being built."""
        return any(not key.metric.startswith("memory.") for key in self.columns)

    def run(self, part: int | None = None) -> Run:
        self.timers.finish()
        return super().run(part)


class _Block(Struct, frozen=True):
    """The block of timers `... across ranks (ms):` whose rows may follow."""

    #: `(min, max) time`, `max time`, `times`, or empty if no rows may follow.
    kind: str = ""
    #: With `times`: the timer whose ranks follow.
    timer: str = ""
    is_empty: bool = False  # True until the run's last table, perhaps of an earlier block, has a row (`table_row`)


class _Log:
    """A log while it is read."""

    def __init__(self, file: InputFile) -> None:
        self.file = file
        self.runs = Runs(lambda: _LogRun(file))
        self.times = MegatronTimes()
        self.usage = MemoryUsage()  # of DeepSpeed
        self.alike = AlikeLines(file)  # reads lines like one that it was told about many at once
        self.alike.current, self.alike.context = 0, _Block()

    @property
    def block(self) -> _Block:
        """The block so far, on which the meaning of a line depends."""
        return self.alike.context  # type: ignore[return-value]

    def read(self) -> tuple[Run, ...]:
        for number, line, _, ended in self.file.lines(around=(MEMORY_WORD,)):  # its message is above
            if ended:
                self._line(number, line)
                self.usage.line(self.runs.run, number, line)
            elif any(word in line for word in _RECORD_WORDS) or (self.block.kind and ": " in line):
                self.runs.run.say("warning", "the last record is cut off; left out", number)
        self.times.clock.finish()
        return self.runs.finish()

    def _line(self, number: int, line: str) -> None:
        """Read the values of a line by the words in it, then its facts and its date."""
        if lines.ITERATION_WORD in line:
            self._iterations(number, line)
        elif "time (ms)" in line:
            self._timers(number, line)
        elif "across ranks (ms)" in line:
            self._begin_block(number, line)
        elif self.block.kind:
            self._row(number, line)
        if not any(word in line for word in _ODD_WORDS) and not _DEEPSPEED.search(line):
            self.alike.plain()
        if "memory (MB)" in line:
            self._memory(number, line)
        elif "world" in line:
            self._fact(number, line)
        if any(word in line for word in (DATE_WORD, lines.ITERATION_WORD, INITIALIZE_WORD)):
            self.times.line(self.runs.run, line)
        elif any(word in line for word in HAPPENED_WORDS):
            self.times.happened(line)

    def _begin_block(self, number: int, line: str) -> None:
        """Begin a block of timers; without a title that can be read, its rows are passed over."""
        found = _BLOCK.search(line)
        self.alike.context = _Block(found[1], is_empty=True) if found else _Block(is_empty=self.block.is_empty)
        if found:
            self.runs.run.table("timers", number)
            self.alike.call(lambda number, _: self.runs.run.table("timers", number))  # also for lines like it

    def _iterations(self, number: int, line: str) -> None:
        for found, begin, end in lines.iterations(line):
            count = int(found[1])
            self.runs.count("iteration", count, number)
            self.alike.current = max(count - 1, 0)
            self.alike.context = _Block(is_empty=self.block.is_empty)
            self.alike.step(found[1], found.start(1), 1, self.runs.follow, "iteration")  # the first is 1
            lines.add_iteration(self.runs.run, line, (begin, end), self.alike.current, number)

    def _timers(self, number: int, line: str) -> None:
        """`time (ms) | NAME: 1.23 | ...`; there are several on a line if two writers collided."""
        if _DEEPSPEED.search(line):
            self.runs.run.timers.read(number, line)
            return
        starts = [match.end() for match in RECORD.finditer(line)]
        ends = [line.rfind("time (ms)", 0, start) for start in starts[1:]] + [len(line)]
        for start, end in zip(starts, ends, strict=False):
            for name, text, at in record_fields(self.runs.run, line, start, end, number):
                self._add(Key(name), text, number, at)

    def _add(self, key: Key, text: str, number: int, at: int) -> None:
        """Add the number of a timer, whose text begins at the place `at` of the line; -1 if it is not there."""
        (run := self.runs.run).table_row()
        if self.block.is_empty:
            self.alike.context = replace(self.block, is_empty=False)
            self.alike.call(lambda *_: self.runs.run.table_row())
        column = run.column(key, "s", 1000)
        run.add(column, text, number, self.alike.current)
        self.alike.number(column, text, at)
        if self.times.timer(key, text):  # a part of the job's time, also in lines like this one
            self.alike.call(lambda _, __, value: self.times.timer(key, repr(value)), (text, at))

    def _row(self, number: int, line: str) -> None:
        """Read a row of a block; lines of other kinds, which another process may have printed, are passed over."""
        if self.block.kind != "times":
            self._range_row(number, line)
        elif of_rank := _OF_RANK.search(line):
            self.alike.same(*of_rank.span(1))
            if self.block.timer:
                key = Key.of(self.block.timer, rank=of_rank[1])
                self._add(key, of_rank[2], number, of_rank.start(2))
        elif found := _NAME.fullmatch(line.rstrip()):
            self.alike.same(*found.span(1))
            self.alike.context = replace(self.block, timer=found[1])

    def _range_row(self, number: int, line: str) -> None:
        """Read a row `NAME ....: (1232.10, 1233.45)`, or `NAME ....: 1233.45` of a block of `max time`."""
        name, text, at = _split(line)
        self.alike.same(0, at)
        is_max = self.block.kind == "max time"
        pair = None if is_max else _PAIR.fullmatch(text)
        if name and pair:
            self._add(Key.of(name, ranks="min"), pair[1], number, at + pair.start(1))
            self._add(Key.of(name, ranks="max"), pair[2], number, at + pair.start(2))
        elif name:
            for ranks in ("max",) if is_max else ("min", "max"):  # a pair that cannot be read is refused for both
                self._add(Key.of(name, ranks=ranks), text, number, at)

    def _memory(self, number: int, line: str) -> None:
        """`[Rank 0] (after 1 iterations) memory (MB) | allocated: 1.5 | max allocated: 2.5 | ...`; MB is 1024**2."""
        run = self.runs.run
        for found in _MEMORY.finditer(line):
            labels = {"rank": found[1]} if found[1] else {}
            for metric, text in zip(_MEMORY_METRICS, found.groups()[1:], strict=True):
                if text is not None:
                    run.add(run.column(Key.of(metric, **labels), "B", 2.0**-20), text, number, self.alike.current)

    def _fact(self, number: int, line: str) -> None:
        """Read the world size; the line of a launcher begins a new run."""
        if _LAUNCHER in line:
            self.runs.banner(number)
            self.alike.current = self.alike.current if self.runs.run.has_measured else 0  # 0: a new run has begun
        if "config.py" not in line and (found := _WORLD_SIZE.search(line)):  # DeepSpeed counts data-parallel ranks
            self.runs.run.fact("world_size", int(found[1]), number)


def _split(line: str) -> tuple[str, str, int]:
    """Return name, text and place of the text in a row `   NAME ....: TEXT`, dotted to 48 letters; "" for others."""
    left, colon, text = line.rstrip().rpartition(": ")
    dotted = left.rpartition("   ")[2].lstrip()
    stem = dotted.rstrip(".")
    if not colon or len(dotted) < 48 or len(dotted) > 400 or not stem.endswith(" "):
        return "", "", 0
    return stem.strip(), text, len(left) + len(colon)


def _golden(file: InputFile) -> Run:
    """Return the run of a file of golden values."""
    loaded = load_json(file.whole() or "{}", file.name, file.limits)
    run = RunBuilder(file, NAME, JsonSource(loaded))
    for name, series in mapping(loaded.data).items():
        if name == "iteration_timing_avg":  # a number, not a series
            run.value(Key("iteration_time"), "s", series, (name,))
        elif isinstance(series, dict):
            metric, unit = _GOLDEN.get(name, (lines.plain(name), "1"))
            for step, value, path in _golden_values(series):
                if value != "nan":
                    run.sample(Key(metric), unit, value, (name, "values", *path), step=step)
    run.report_problems(numbers=False)  # a value that is not finite was refused with its metric
    return run.run()


def _golden_values(series: dict[str, Any]) -> Iterator[tuple[int, object, Path]]:
    """Yield the step, the value, and the path below `values` of each value."""
    values, start, interval = (series.get(name) for name in ("values", "start_step", "step_interval"))
    if isinstance(values, dict):
        for step, value in values.items():
            if step.isascii() and step.isdigit() and len(step) < 18:
                yield max(int(step) - 1, 0), value, (step,)
    first = start if isinstance(start, int) and 0 <= start < 1 << 53 else 0
    each = interval if isinstance(interval, int) and 0 < interval < 1 << 32 else 1
    for index, value in enumerate(items(values)):
        yield first + index * each, value, (index,)  # such files count from 0
