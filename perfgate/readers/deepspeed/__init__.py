"""DeepSpeed logs: wall-clock timers, throughput, and the training lines of open_clip and EVA-CLIP.

This module walks a log and gives each line to its reader: `timers` reads records of timers, `lines` other lines that
need no other line, `blocks` lines that do. `usual_lines` reads many plain records of timers in a long log at once.

Sources: deepspeedai/DeepSpeed `deepspeed/utils/timer.py` and `runtime/engine.py` (v0.1 to v0.18),
mlfoundations/open_clip `training/train.py`. Units: s, 1/s and B.

    [Rank 0] rank=0 time (ms) | forward: 359.87 | backward: 1026.01 | step: 161.82        until v0.10.0
    [Rank 0] time (ms) | fwd: 359.87 | bwd: 1026.01 | step: 161.82                        since v0.10.1

**Steps.** DeepSpeed prints no step number, so the steps of each rank are counted from 0. A record with `forward`,
`backward` or `step` (no suffix) ends its step. The `optimizer_*` and `*_microstep` records before it belong to the same
step (gradient accumulation prints several `*_microstep` records). Until the first record that ends a step, a timer name
that occurs again begins a new step. A step that is skipped on OVERFLOW prints no `optimizer_*` record, so its number is
not in those series. Lines with a count from 1 (`Global Steps: n`, `global_step=n`) belong to step n - 1.

**Runs.** A launcher's banner after the first record, or a step counter that goes back, begins a new run. After a
restart without a banner, the first steps are printed before the counter shows the restart. `Progress` finds how many
these are, and they move to the new run. If their number is unknown, the new run begins at the counter's line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfgate.core import Run
from perfgate.readers.builder import RunBuilder
from perfgate.readers.deepspeed import blocks, lines
from perfgate.readers.deepspeed.lines import Progress
from perfgate.readers.deepspeed.timers import WORD, Timers
from perfgate.readers.formats import Format
from perfgate.readers.runs import Runs
from perfgate.readers.text import InputFile

if TYPE_CHECKING:
    from perfgate.readers.deepspeed.usual_lines import UsualBlock, UsualLines
    from perfgate.readers.training_logs.megatron_times import MegatronTimes

NAME = "deepspeed"
METRICS = (
    "`forward`, `backward`, `backward_allreduce`, `step`, `*_microstep`, `optimizer_*`, any other timer as printed; "
    '`samples_per_second`, `memory.allocated`, `memory.peak_allocated{at="..."}`, ...; `collective.OP`, `.algbw`, '
    "`.busbw`, `.straggler`, labelled with the message size; `flops_profiler.forward_latency`, `.throughput`, ...; of "
    "open_clip and EVA-CLIP lines `batch_time`, `data_time`, `batch_rate`; of Megatron-DeepSpeed `time.PART` and "
    "`goodput`"
)
CHECKED = "DeepSpeed 0.19.8: a log that it wrote; public logs of 0.1 to 0.18"
FORMAT = Format(
    NAME,
    __name__,
    markers={
        "time (ms)": rf"time \(ms\)[ \t]*(?:\|(?!{lines.MEGATRON_TIMERS})|\r?$)",
        "SamplesPerSec=": r", (?:RunningAvg)?SamplesPerSec=",
        "iter time (s):": r"\bsteps: \d{1,18} .{0,300}?iter time \(s\): \S+ samples/sec:",
        "Batch (t):": r"Data \(t\): .*Batch \(t\): ",
    },
    hints={
        "comm op: ": r"comm op: \w+ \| .{0,200}?time \(ms\): ",
        "Comm. Op  ": r"Comm\. Op {2,}Message Size {2,}Count\b",
        "- DeepSpeed Flops Profiler -": "",
        "Max_MA ": r"\bMA \S{1,20} GB +Max_MA \S{1,20} GB +CA ",
    },
)
#: Names of numbers that are not read.
BESIDE = r"(?:RunningAvg)?SamplesPerSec|samples[ _]per[ _]second|(?:(?:fwd\+)?bwd )?FLOPS per GPU"

#: Metrics that are printed while an engine is still being built, and those that iteration lines leave to other lines.
_BEFORE_STEPS, _THROUGHPUT = ("memory.", "collective."), ("samples_per_second",)


class _LogRun(RunBuilder):
    """One run of a log while it is read."""

    def __init__(self, file: InputFile) -> None:
        super().__init__(file, NAME)
        self.timers = Timers(self)
        self.progress = Progress()
        #: The line of the last traceback, and how many timer records were before it; None if another record follows.
        self.traceback: tuple[int, int] | None = None
        #: The first line with `SamplesPerSec`, a running average; 0 without one.
        self.average = 0
        #: True if blocks were read, whose series must be put together at the end.
        self.has_blocks = False

    @property
    def has_measured(self) -> bool:
        """Return whether steps have begun, or a table of collectives was read."""
        return bool(self.finished) or any(not key.metric.startswith(_BEFORE_STEPS) for key in self.columns)

    def run(self, part: int | None = None) -> Run:
        world_size = self.facts.get("world_size")
        if isinstance(world_size, int) and 1 < self.timers.ranks < world_size:  # by default only one rank prints
            self.say("warning", f"{self.timers.ranks} ranks printed timers, but world_size is {world_size}")
        if self.traceback is not None and self.traceback[1] == self.timers.records:
            self.say("warning", "the log ends in a traceback", self.traceback[0])
        if self.average:
            self.say("warning", "`SamplesPerSec` (before v0.7) is a running average; left out", self.average)
        self.timers.finish()
        if self.has_blocks:
            blocks.summarise(self)
        return super().run(part)


class _Log:
    """A log while it is read: its runs, and a method for each kind of line (see `_LINES`)."""

    def __init__(self, file: InputFile) -> None:
        self.runs = Runs(lambda: _LogRun(file))
        self.has_launcher = False
        #: The times of the job; None before Megatron-DeepSpeed prints the first.
        self.times: MegatronTimes | None = None
        #: The reader of usual lines; None before the first long block.
        self.usual: UsualLines | None = None
        #: The readers of lines that need other lines; None before the first such line.
        self.blocks: tuple[blocks.MemoryUsage, blocks.CommsSummary, blocks.FlopsSummary] | None = None

    def usual_block(self, text: bytes, number: int) -> UsualBlock:
        """Take the plain records of timers out of a long block of lines, of which the first has this number."""
        if self.usual is None:
            from perfgate.readers.deepspeed.usual_lines import UsualLines  # not for a short log
            from perfgate.readers.training_logs.megatron_times import TIMER_WORDS

            self.usual = UsualLines(lambda: self.runs.run.timers, (*_LINES, *_AROUND, *TIMER_WORDS))
        return self.usual.block(text, number)

    def timers(self, number: int, line: str) -> None:
        """`time (ms) | NAME: 1.23 | ...`; there are several on a line if two writers collided."""
        self.runs.run.timers.read(number, line)
        if self.times is not None:
            self.times.timers(line)

    def throughput(self, number: int, line: str) -> None:
        """`epoch=0/micro_step=10/global_step=10, ..., CurrSamplesPerSec=..., MemAllocated=3.96GB, ...`."""
        if lines.CHAT_WORD in line:  # a line of DeepSpeed-Chat
            lines.add_chat(self.runs.run, line, number)
            self.runs.run.traceback = None
        for count, settings in lines.throughputs(line):
            # ranks or engines, which the line does not name, may be some steps apart: that is not a restart
            self._count("throughput", count, number, fraction=0.5)
            run = self.runs.run
            lines.add_throughput(run, settings, count - 1, number)
            run.traceback = None
            if "SamplesPerSec" in settings:
                run.average = run.average or number

    def trainer(self, number: int, line: str) -> None:
        """`Global Steps: 101 ... Data (t): 0.001 Batch (t): 1.856, 1057.47/s` of open_clip and EVA-CLIP."""
        if not (found := lines.TRAINER.search(line)):
            return
        if counted := lines.TRAINER_STEP.search(line):
            self._count("trainer", int(counted[1]), number)
        lines.add_trainer(self.runs.run, found, int(counted[1]) - 1 if counted else None, number)
        self.runs.run.traceback = None

    def iterations(self, number: int, line: str) -> None:
        """Iteration lines of Megatron-DeepSpeed; the throughput lines have `samples_per_second`, too."""
        for found, begin, end in lines.iterations(line):
            self._count("iteration", count := int(found[1]), number)
            lines.add_iteration(self.runs.run, line, (begin, end), max(count - 1, 0), number, leave=_THROUGHPUT)
            self.runs.run.traceback = None
        if self.times is not None:
            self.times.line(self.runs.run, line)

    def date(self, number: int, line: str) -> None:
        """`[before the start of training step] datetime: ...` and such lines of Megatron-DeepSpeed."""
        if self.times is None:
            from perfgate.readers.training_logs.megatron_times import MegatronTimes

            self.times = MegatronTimes()
        self.times.line(self.runs.run, line)

    def happened(self, number: int, line: str) -> None:
        """` successfully saved checkpoint at iteration 100 to ...` and such lines of Megatron-DeepSpeed."""
        if self.times is not None:
            self.times.happened(line)

    def pipeline(self, number: int, line: str) -> None:
        """`steps: 12 loss: 2.1234 iter time (s): 0.512 samples/sec: 125.0`."""
        for found in lines.PIPELINE.finditer(line):
            self._count("pipeline", int(found[1]), number)
            lines.add_pipeline(self.runs.run, found, number)
            self.runs.run.traceback = None

    def call(self, number: int, line: str) -> None:
        """`comm op: all_reduce | time (ms): 9.46 | msg size: 678.86 MB | ...` of a verbose comms logger."""
        for found in blocks.CALL.finditer(line):
            blocks.add_call(self.runs.run, found, number)
            self.runs.run.traceback = None

    def near_block(self, number: int, line: str) -> None:
        """Any line near memory, the table of the comms logger or a summary of the FLOPS profiler."""
        if self.blocks is None:
            self.blocks = (blocks.MemoryUsage(), blocks.CommsSummary(), blocks.FlopsSummary())
        for block in self.blocks:
            block.line(self.runs.run, number, line)
        self.runs.run.has_blocks = True

    def _count(self, counter: str, value: int, number: int, fraction: float = 1.0) -> None:
        """Take a step counter. Below `fraction` of its last value it begins a run, which gets the last steps before."""
        before = self.runs.run
        ended = before.timers.ended_steps
        self.runs.count(counter, value, number, fraction)
        if ended is None:  # several ranks print timers, or none does
            return
        if self.runs.run is before:
            before.progress.note(counter, value, ended)
            return
        steps = before.progress.steps_of_restart(counter, value, ended)
        if steps is not None and steps < ended:  # else nothing would be left to the run before
            if self.usual:
                self.usual.read_values()  # into the tables, whose rows are handed over
            before.timers.hand_over(self.runs.run.timers, ended - steps)
            self.runs.run.progress.note(counter, value, steps)
            moved = f"the step counter shows that the last {steps} steps before this line belong to the run after it"
            self.runs.run.say("warning", moved, number)

    def counter(self, number: int, line: str) -> None:
        """`[Rank 0] step=10, skipped=6, lr=[..]`."""
        for rank, count in lines.SKIPPED.findall(line):
            self._count(f"rank {rank}", int(count), number)
        if self.times is not None:
            self.times.moment(line)

    def launcher(self, number: int, line: str) -> None:
        """A line that a launcher prints once, before anything is measured."""
        if "[runner.py:" in line and "cmd =" not in line:  # of its lines, only that with the command comes once
            return
        self.has_launcher = True
        self.runs.banner(number)

    def version(self, number: int, line: str) -> None:
        """`DeepSpeed info: version=0.9.2, ...`, once for each engine: the start of a run if there is no launcher."""
        if not self.has_launcher:
            self.runs.banner(number)
        self.fact(number, line)

    def fact(self, number: int, line: str) -> None:
        """A line with the number of ranks or a version."""
        for name, pattern in lines.FACTS:
            if found := pattern.search(line):
                self.runs.run.fact(name, int(found[1]) if name == "world_size" else found[1], number)

    def traceback(self, number: int, line: str) -> None:
        """Keep the place of a traceback; the next record forgets it."""
        run = self.runs.run
        run.traceback = (number, run.timers.records)

    def whole_records(self, number: int, line: str) -> str:
        """Return the last line of a file, which has no line end, without its last record: it may be cut in a number."""
        start = lines.last_start(line)
        is_in_table = self.blocks is not None and any(block.is_open for block in self.blocks[1:])  # memory has no table
        if start is None and not (line.strip() and is_in_table):
            return ""
        self.runs.run.say("warning", "the last record is cut off; left out", number)
        return line[: start or 0]


#: By a word: the method that reads the lines with it. Lines near a word of `_AROUND` have the word "".
_LINES = {
    "": _Log.near_block,
    WORD: _Log.timers,
    "SamplesPerSec=": _Log.throughput,
    "Batch (t):": _Log.trainer,
    lines.ITERATION_WORD: _Log.iterations,
    lines.PIPELINE_WORD: _Log.pipeline,
    blocks.CALL_WORD: _Log.call,
    ", skipped=": _Log.counter,
    "Traceback (most recent call last):": _Log.traceback,
    "datetime: ": _Log.date,
    "time to initialize megatron (seconds): ": _Log.date,
    "successfully saved checkpoint": _Log.happened,
    "validation loss at ": _Log.happened,
    "Initializing TorchBackend in DeepSpeed": _Log.launcher,
    "Setting OMP_NUM_THREADS environment variable for each process": _Log.launcher,
    "[runner.py:": _Log.launcher,
    "DeepSpeed info: version=": _Log.version,
    "world_size": _Log.fact,
    "Process (global:": _Log.fact,
    "store-based barrier": _Log.fact,
    "torch version": _Log.fact,
}
#: Every line near one of these words is read: the lines of its block and of the next, and the line before.
_AROUND = (blocks.MEMORY_WORD, blocks.TABLE_WORD, blocks.FLOPS_WORD)


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a log: one, unless a restart was appended; every run has at least one series or an error."""
    log = _Log(file)
    for number, line, words, ended in file.lines(tuple(filter(None, _LINES)), _AROUND, log.usual_block):
        text = line if ended else log.whole_records(number, line)
        for word in words:
            if word in text:
                _LINES[word](log, number, text)
    if log.usual:
        log.usual.read_values()
        log.usual = None  # frees the memory of its tables
    if log.times is not None:
        log.times.clock.finish()
    return log.runs.finish()
