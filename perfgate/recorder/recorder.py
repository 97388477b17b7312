"""`perfgate.Recorder`: times and numbers of a running program, in a file that perfgate reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, NoReturn, SupportsFloat

from perfgate.core.wording import ELAPSED, PROFILE_MEMORY, PROFILE_TIME, START_TIME, WHOLE_TIME
from perfgate.recorder.counters import COUNTED, ProcessCounters
from perfgate.recorder.journal import RECORDING
from perfgate.recorder.process import Turns, known_facts, path_of_rank, place_in_job
from perfgate.recorder.profiled_work import LoopWork, StepWork
from perfgate.recorder.recorded_series import (
    SPAN_UNIT,
    Labels,
    RecordedSeries,
    SeriesTable,
    as_number,
    check_facts,
    check_reason,
    check_step,
)
from perfgate.recorder.spans import Arguments, CountedSpan, CudaSpan, Result, StepSpan, TimedSpan, marked, timed
from perfgate.recorder.watch import watch
from perfgate.recorder.writer import Writer, warn

if TYPE_CHECKING:
    from perfgate.core.runs import Fact

#: The metric of `Recorder.step_span`.
STEP_TIME = "step.time"


class Recorder:
    """Records one process of one run into a file; after `close` the file is a `perfgate.results/1` document.

    A recording above 56 MiB, or without any value, stays in lines, which perfgate reads, too.

        with perfgate.Recorder("results.json", environment={"gpu": "NVIDIA H200"}) as rec:
            for batch in loader:
                with rec.step_span(), rec.span("forward"):
                    loss = model(batch)

    In a job of several processes, each writes its own file, and every series has the label rank. Threads may share a
    recorder; a forked process needs its own. A process can record a file only once.

    Until `close`, the file is a recording, which perfgate reads with a warning. After a crash or SIGKILL it contains
    all but the last second. An exception that leaves the `with` block leaves such a file, too. A full disk is a warning
    and is tried again; the program continues.

    Parameters
    ----------
    path : the file. Rank 3 writes `run/results-rank3.json` for `run/results.json`; `{rank}` in a path is replaced.
    rank, world_size : of this process. The default is torch.distributed if initialised, else the environment variables
        RANK or LOCAL_RANK, and WORLD_SIZE.
    environment : facts about the run, by name. World size, and torch's version and the GPU if torch is imported, are
        added.
    commit : of the measured code.
    counters : record the CPU time of every span and step, too, and its instructions and cycles if the machine counts
        them: `forward.cpu_time`, `step.instructions`, ... of all threads of this process. A span then takes 4 µs more.
    work : profile four steps after the fifth with torch.profiler, and keep the exact work of the last three:
        `work.ops`, ... and the call tree. A loop has five steps more than `step.time`: these and the next one.
        `time.profile` and `memory.profile` record the cost. Another profiler or fewer than 9 steps are one warning.
    machine : watch the machine meanwhile, in a process of its own that writes `results.json.machine` for
        `results.json`: clocks, power, throttling, steal, ... One process of a host does so. It takes 0.2 s to start.
    goodput : record the time from here to `close` as `time.total`, if there is a `step_span` and no turns are taken.
        perfgate splits it by the sums of `step.time`, `data_time`, `checkpoint_time` and `evaluation_time`, which must
        not be inside each other, and of `compile_time` in the steps: `time.step`, ..., `time.other`, and `goodput`, the
        share of the steps.

    Raises
    ------
    RecorderError : if the file cannot be written, or the rank is unknown or impossible.
    ValueError : for an invalid fact or commit.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        rank: int | None = None,
        world_size: int | None = None,
        environment: Mapping[str, Fact] | None = None,
        commit: str | None = None,
        counters: bool = False,
        machine: bool = False,
        goodput: bool = False,
        work: bool = False,
    ) -> None:
        #: When the recording began, in ns; None if the time of the whole run is not recorded.
        self._began = perf_counter_ns() if goodput else None
        self.rank, self.world_size = place_in_job(rank, world_size)
        self._given = dict(environment or {})
        check_facts(self._given, commit)
        self._written = self._facts()
        label = None if self.rank is None or self.world_size == 1 else str(self.rank)
        self._series = SeriesTable({} if label is None else {"rank": label})
        self._times = self._series.times  # every span looks here
        self._doubted: set[RecordedSeries] = set()  # those with a warning about an invalid value
        #: The file of this process.
        self.path = path_of_rank(os.fspath(path), label)
        self._writer = Writer(self.path, {"schema": RECORDING, "environment": self._written, "commit": commit})
        self._turns = Turns(self.rank, self.world_size)
        self._work = LoopWork(self._writer, is_wanted=work)
        self._watch = watch(self.path, self.rank, self._add_mark, warn, starts=machine)
        self._counters = ProcessCounters() if counters else None
        self._counted: dict[RecordedSeries, tuple[RecordedSeries, ...]] = {}
        if self._counters is not None and self._counters.refusal:
            warn(f"{self.path}: only CPU time is recorded, without instructions and cycles: {self._counters.refusal}")

    def _facts(self) -> dict[str, Fact]:
        return {**({"world_size": self.world_size} if self.world_size else {}), **known_facts(), **self._given}

    def _add_mark(self, elapsed: float, step: int) -> None:
        """Record when a step began, in s since the sampler's first reading."""
        self._writer.add(self._series.find(ELAPSED, "s"), elapsed, step)

    def span(self, metric: str, labels: Labels | None = None) -> TimedSpan:
        """Time a `with` block on the host's monotonic clock, as a value of `metric` in nanoseconds.

        It does not wait for the GPU: see `cuda_span`. A span can also be started and stopped by hand. With `work`, the
        work of the block has its name. Raises ValueError for an invalid name or label.
        """
        return marked(self._span(metric, labels), metric, self._work.mark)

    def _span(self, metric: str, labels: Labels | None = None) -> TimedSpan:
        series = self._times.get(metric) if labels is None else None
        series = series or self._series.find(metric, SPAN_UNIT, labels)
        if self._counters is None:
            return TimedSpan(self._writer, series)
        # The series of counts: `forward.cpu_time` beside `forward`, and `step.cpu_time` beside `step.time`.
        if (counted := self._counted.get(series)) is None:
            stem, labels = series.metric.removesuffix(".time"), series.labels
            names = self._counters.names
            counted = tuple(self._series.find(f"{stem}.{name}", COUNTED[name], labels) for name in names)
            self._counted[series] = counted
        return CountedSpan(self._writer, series, self._counters, counted)

    def cuda_span(self, metric: str, labels: Labels | None = None) -> TimedSpan:
        """Time the work that a `with` block queues in the current CUDA stream, in nanoseconds on the GPU.

        Two CUDA events mark the beginning and the end; nothing waits for the GPU before `close`. Entering raises
        RecorderError if torch is not imported or has no GPU.
        """
        return marked(CudaSpan(self._writer, self._series.find(metric, SPAN_UNIT, labels)), metric, self._work.mark)

    def time(
        self, metric: str, labels: Labels | None = None
    ) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
        """Decorate a function so that each call is a span. Raises TypeError for a generator or coroutine function."""
        return partial(timed, partial(self.span, metric, labels))

    def record(
        self, metric: str, value: SupportsFloat, *, unit: str, labels: Labels | None = None, step: int | None = None
    ) -> None:
        """Record the next value of a metric.

        NaN, infinity and negative times are recorded with a warning. perfgate refuses them, so no rule on the metric
        passes.

        Parameters
        ----------
        metric : the name.
        value : a number in `unit`.
        unit : a unit that rules know, or `1` for a plain number; always the same for one metric.
        labels : texts by name.
        step : the number of the step; the default is the current step.

        Raises
        ------
        ValueError : for an unknown or different unit, and for an invalid name, label or step.
        TypeError : if the value is not a number.
        """
        if step is not None:
            check_step(step)
        self._add(self._series.find(metric, unit, labels), value, step)

    def adder(self, metric: str, *, unit: str, labels: Labels | None = None) -> Callable[[float, int], None]:
        """Return a function that records a value of a metric and its step, without the checks of `record`.

        It costs a fifth of `record`. Raises ValueError for a unit, a name or a label that is not valid.
        """
        return partial(self._writer.add, self._series.find(metric, unit, labels))

    def value(self, metric: str, value: SupportsFloat, *, unit: str, labels: Labels | None = None) -> None:
        """Record the only value of a metric in the run, such as peak memory; the last call counts. See `record`."""
        self._add(self._series.find(metric, unit, labels, single=True), value, None)

    def _add(self, series: RecordedSeries, value: SupportsFloat, step: int | None) -> None:
        number = as_number(value)
        if not series.accepts(number) and series not in self._doubted:
            self._doubted.add(series)
            warn(f"{series.metric}: {number} {series.unit} is not a valid measurement: no rule on this metric passes")
        self._writer.add(series, number, step)

    def add_work(self, work: StepWork) -> None:
        """Record the work of a function, from `perfgate.work_of`. Raises ValueError if a metric has another unit."""
        for one in work.series:
            add = self.adder(one["metric"], unit=one["unit"], labels=one["labels"])
            for value, step in zip(one["values"], one["steps"], strict=True):
                add(value, step)
        self.value(PROFILE_TIME, work.seconds, unit="s")
        self.value(PROFILE_MEMORY, work.memory, unit="B")
        if work.call_tree:
            self._writer.add_call_tree(work.call_tree)

    def mark_incomplete(self, reason: str) -> None:
        """Note that the recording lacks something, and why: perfgate reads it with a warning. Raises ValueError."""
        check_reason(reason)
        self._writer.mark_incomplete(reason)

    def flush(self) -> None:
        """Write all values so far. Without it they are written about once a second. Raises RecorderError if closed."""
        self._writer.write(perf_counter_ns())

    @property
    def current_step(self) -> int:
        """The number of the current step."""
        return self._writer.step

    def step(self, number: int | None = None) -> None:
        """Begin step `number`, or the next step. The first step is 0. Raises ValueError for an invalid number.

        `perfgate run --paired` ends some processes here: then the recording is closed, and this raises SystemExit.
        """
        if number is not None:
            check_step(number)
        self._writer.step = self._writer.step + 1 if number is None else number
        if self._watch is not None:
            self._watch.mark(self._writer.step)
        self._writer.write_if_due()
        if self._turns.pass_on():
            self.close()
            raise SystemExit(0)
        self._work.step(self._writer.step)

    def end_start(self) -> None:
        """Record the time from the beginning of the recording to here as `time.start`, if it has `goodput`."""
        if self._began is not None:
            self.value(START_TIME, perf_counter_ns() - self._began, unit=SPAN_UNIT)

    def step_span(self) -> TimedSpan:
        """Time a whole step as `step.time`, in nanoseconds; the step ends with the block."""
        return StepSpan(self._span(STEP_TIME), self._turns, self.step)

    def close(self) -> None:
        """Wait for the spans on the GPU, and make the file a results document. Does nothing again, or in a fork.

        If the document cannot be written, that is a warning, and the file stays as it is.
        """
        self._end_steps()
        try:
            if self._writer.is_open:
                # A process that took turns also waited for the other side.
                if self._began is not None and STEP_TIME in self._times and not self._turns.are_taken:
                    took = perf_counter_ns() - self._began - self._work.nanoseconds
                    self.value(WHOLE_TIME, took, unit=SPAN_UNIT)
                self._work.end(self.add_work, str(self.rank or 0))
                if not self._series.all:
                    warn(f"{self.path}: nothing was recorded")
                facts = self._facts()  # the program may have initialised CUDA meanwhile
                self._writer.finish(facts if facts != self._written else {})
        finally:
            if self._watch is not None:
                self._watch.end()

    def abort(self) -> None:
        """End without closing: the file keeps all values, and readers warn that the program ended early."""
        self._end_steps()
        self._work.abandon()
        self._writer.abort()
        if self._watch is not None:
            self._watch.end()

    def _end_steps(self) -> None:
        """Take no more turns, and end what is measured at each step."""
        self._turns.leave()
        if self._counters is not None:
            self._counters.close()
        if self._watch is not None and self._writer.is_open:
            self._watch.mark_last()

    def __enter__(self) -> Recorder:
        self._writer.check_open()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
            self.close()
        else:
            self.abort()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Recorder cannot be sent to another process: create one there, with its own file")
