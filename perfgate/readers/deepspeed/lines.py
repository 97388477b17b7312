"""Lines that need no other line: throughput, and those of Megatron-LM, the pipeline engine, DeepSpeed-Chat, open_clip.

    [Rank 0] epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=3.1, CurrSamplesPerSec=3.2, MemAllocated=4GB

Source: deepspeedai/DeepSpeed `deepspeed/utils/timer.py`. `SamplesPerSec`, the only throughput of v0.1 to v0.6, is what
`RunningAvgSamplesPerSec` is since v0.7: a running average, which depends on all the values before it. It is not read.

    iteration        1/    1000 | elapsed time per iteration (ms): 150471.3 | learning rate: 1.875E-05 | ...      2021
    [2024-08-21 10:19:42] iteration        4/   25000 | consumed samples:         4096 |
      elapsed time per iteration (ms): 270125.4 | throughput per GPU (TFLOP/s/GPU): 449.6 | ... |        (one line) 2024

Source: NVIDIA/Megatron-LM `megatron/training/training.py`, and Megatron-DeepSpeed (`TFLOPs`, `tokens per gpu per
second`). A value is a mean over the iterations since the last such line (`--log-interval`). Iteration n is step n - 1.

    steps: 12 loss: 2.1234 iter time (s): 0.512 samples/sec: 125.0
    |E2E latency=7.99s |Gather latency=0.00s (0.00%) |Generate time=5.26s (65.81%) |...|CurSamplesPerSec=8.01 |...

Sources: deepspeedai/DeepSpeed `runtime/pipe/engine.py`, DeepSpeedExamples `dschat/utils/perf.py`.

    Train Epoch: 0 [...] Global Steps: 101 Data (t): 0.001 (0.002) Batch (t): 1.856, 1057.47/s, 264.368/s/gpu LR: ...

Source: mlfoundations/open_clip `training/train.py`; EVA-CLIP adds `Global Steps`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from msgspec import Struct, field

from perfgate.core import Key
from perfgate.readers.builder import RunBuilder
from perfgate.readers.deepspeed.timers import RECORD
from perfgate.readers.records import field_of
from perfgate.readers.values import Field

#: The first names in Megatron-LM's oldest records, which otherwise look like DeepSpeed's.
MEGATRON_TIMERS = (
    " (?:load-checkpoint|model-and-optimizer-setup|model and optimizer|forward-compute|forward-recv|forward-backward"
    "|batch-generator|interval-time): "
)
ITERATION_WORD, PIPELINE_WORD, CHAT_WORD = "elapsed time per iteration", "iter time (s):", "|E2E latency="
ITERATION = re.compile(r"\biteration\s{1,40}(\d{1,18})/\s{0,40}\d+")
PIPELINE = re.compile(r"\bsteps: (\d{1,18}) .{0,999}?iter time \(s\): (\S{1,40}) samples/sec: ([^\s\[]{1,40})")
_STEP_COUNT = r"(?:epoch=\d+/micro_step=\d+/global_step=|\b\d+/)(\d{1,18})"
#: The step count in a throughput line, and the text behind it. It takes a quarter of the time of one pattern to search
#: for this text first, and then for a count that ends before it.
_COUNT_AT_END = re.compile(_STEP_COUNT + r"\Z")
_SAMPLES = re.compile(", (?:RunningAvg)?SamplesPerSec=")
_SETTING = re.compile(r"(\w+)=([^\s,|\[]+)")
#: The settings of a throughput line that are metrics: setting, key, unit, and printed units in one unit.
_SETTINGS = (
    ("CurrSamplesPerSec", Key("samples_per_second"), "1/s", 1.0),
    ("MemAllocated", Key("memory.allocated"), "B", 2.0**-30),
    ("MaxMemAllocated", Key("memory.peak_allocated"), "B", 2.0**-30),
)

TRAINER = re.compile(
    r"Data \(t\): (\S+) (?:\([^)]{0,99}\) )?Batch \(t\): ([^\s,]+)(?: \([^)]{0,99}\))?(?:, ([^\s,/]+)/s)?"
)
TRAINER_STEP = re.compile(r"Global Steps: (\d{1,18})")
_TRAINER_METRICS = ((Key("data_time"), "s"), (Key("batch_time"), "s"), (Key("batch_rate"), "1/s"))

#: The fields of an iteration line, by a pattern of their label in small letters.
_LABELS = {
    r".*elapsed time per iteration \(ms\).*": Field("iteration_time", "s", 1e3),
    r".*elapsed time per iteration \(s\).*": Field("iteration_time", "s"),
    r".*\btflops?\b.*": Field("throughput_per_gpu", "FLOP/s", 1e-12),
    r".*\bsamples(?: per |/)sec(?:ond)?\b.*": Field("samples_per_second", "1/s"),
    r".*(?:tokens?(?: per |/)gpu(?: per |/)sec(?:ond)?\b|\(tokens?/s(?:ec)?/gpu\)).*": Field(
        "tokens_per_second_per_gpu", "1/s"
    ),
    r".*\btokens?(?: per |/)s(?:ec(?:ond)?)?\b(?!/).*": Field("tokens_per_second", "1/s"),
    r".*number of skipped iterations.*": Field("skipped_iterations", "1"),
    r".*number of nan iterations.*": Field("nan_iterations", "1"),
}
_LONGEST = 300  # letters in a field
_LOSS = re.compile(r"(?:.*[\s_-])?loss")
_LABEL = re.compile(r"\s*(\S[^:|]{0,100}?):?\s+(\S{1,60})\s*")

_CHAT = re.compile(r"\|([\w ]{1,40})=([^\s|(]{1,40})")
_CHAT_METRICS = {
    "E2E latency": Field("chat.e2e_latency", "s"),
    "Gather latency": Field("chat.gather_latency", "s"),
    "Generate time": Field("chat.generate_time", "s"),
    "Training time": Field("chat.training_time", "s"),
    "Others": Field("chat.other_time", "s"),
    "CurSamplesPerSec": Field("chat.samples_per_second", "1/s"),
}

SKIPPED = re.compile(r"(?:\[Rank (-?\d+)\] )?\bstep=(\d{1,18}), skipped=")
#: Facts of the environment, each in a line of its own.
FACTS = (
    ("world_size", re.compile(r"Process \(global: \d+, local \d+\), total (\d{1,9})\.")),
    ("world_size", re.compile(r"store-based barrier.{1,200} with (\d{1,9}) nodes")),
    ("world_size", re.compile(r"(?<![A-Za-z_])(?:dist_)?world_size(?: \.+ |: | ?= ?)(\d{1,9})\b")),
    ("deepspeed", re.compile(r"DeepSpeed info: version=([^\s,]+),")),
    ("torch", re.compile(r"torch version \.+ (\S+)")),
)

#: The beginnings of all kinds of records.
_STARTS = (
    RECORD,
    re.compile(_STEP_COUNT + f"(?={_SAMPLES.pattern})"),
    re.compile(r"Data \(t\): "),
    ITERATION,
    re.compile(r"\bsteps: \d|\|E2E latency=|\bcomm op: |\bMA \S+ GB "),
)


def last_start(line: str) -> int | None:
    """Return where the last record of a line begins, of any kind; None if the line has no record."""
    return max((found.start() for pattern in _STARTS for found in pattern.finditer(line)), default=None)


def throughputs(line: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the step count and the settings of each record in a throughput line: several if two writers collided."""
    ends = [found.start() for found in _SAMPLES.finditer(line)]
    counts = [found for end in ends if (found := _COUNT_AT_END.search(line, line.rfind(" ", 0, end) + 1, end))]
    for count, after in zip(counts, [*counts, None][1:], strict=True):
        yield int(count[1]), dict(_SETTING.findall(line, count.end(), after.start() if after else len(line)))


def add_throughput(run: RunBuilder, settings: Mapping[str, str], step: int, line: int) -> None:
    """Add the values of a throughput line. GB is 1024**3 bytes."""
    for name, key, unit, per in _SETTINGS:
        if name in settings:
            run.add(run.column(key, unit, per), settings[name].removesuffix("GB"), line, step)


def iterations(line: str) -> Iterator[tuple[re.Match[str], int, int]]:
    """Yield the match of each iteration in a line, and the begin and end of its part; the first begins at 0."""
    starts = [*ITERATION.finditer(line)]
    begins = [0, *(start.start() for start in starts[1:])]
    ends = [start.start() for start in starts[1:]] + [len(line)]
    yield from zip(starts, begins, ends, strict=False)  # a line without an iteration has a begin and no start


def add_iteration(
    run: RunBuilder, text: str, span: tuple[int, int], step: int, line: int, *, leave: tuple[str, ...] = ()
) -> None:
    """Add the fields of one iteration, in a span of a text: the first of each metric, without metrics in `leave`."""
    seen = {*leave}
    next_begin = span[0]
    for part in text[slice(*span)].split("|"):
        begin, next_begin = next_begin, next_begin + len(part) + 1
        found = _LABEL.fullmatch(part) if len(part) < _LONGEST else None
        known = _field(found[1].lower()) if found else None
        if found is None or known is None or known.metric in seen:
            continue
        seen.add(known.metric)
        # forks print `13372.8/13364.7`: this iteration, and the mean so far
        printed = found[2].partition("/")[0]
        key, unit, per = Key(known.metric), known.unit, known.per
        column = run.sample(key, unit, printed, line, per=per, step=step, printed_as=found[1])
        if column and run.file.alike:  # of Megatron-LM: the next lines like this one are read at once
            run.file.alike.number(column, printed, begin + found.start(2))


@lru_cache(maxsize=1024)
def _field(label: str) -> Field | None:
    return field_of(_LABELS, label) or (Field(plain(label), "1") if _LOSS.fullmatch(label) else None)


def plain(label: str) -> str:
    """Return a label as a metric: `lm loss` and `lm-loss` are `lm_loss`."""
    return re.sub(r"[\s-]+", "_", label)


def add_chat(run: RunBuilder, text: str, line: int) -> None:
    """Add `chat.e2e_latency`, ... (s) and `chat.samples_per_second`, not the running average; values are counted."""
    for name, printed in _CHAT.findall(text):
        if known := _CHAT_METRICS.get(name):
            column = run.column(Key(known.metric), known.unit)
            run.add(column, printed.removesuffix("s"), line, len(column.values))


def add_pipeline(run: RunBuilder, found: re.Match[str], line: int) -> None:
    """Add `pipeline.iteration_time` (s) and `pipeline.samples_per_second` (1/s): means since the last such line."""
    step = max(int(found[1]) - 1, 0)
    run.add(run.column(Key("pipeline.iteration_time"), "s"), found[2], line, step)
    run.add(run.column(Key("pipeline.samples_per_second"), "1/s"), found[3], line, step)


def add_trainer(run: RunBuilder, found: re.Match[str], step: int | None, line: int) -> None:
    """Add `data_time`, `batch_time` (s) and `batch_rate` (1/s); the values of lines without a step are counted."""
    for (key, unit), text in zip(_TRAINER_METRICS, found.groups(), strict=True):
        if text is not None:
            column = run.column(key, unit)
            run.add(column, text, line, len(column.values) if step is None else step)


class Progress(Struct, frozen=True):
    """The step counters of one run, compared with the steps that its timers have ended.

    After a restart, timers are printed first and the counter some lines later, so the last steps before that line
    belong to the restart. It is known how many if the counter of the run before began at 0 and was always the same
    number of steps ahead of the timers: a restart from step 0 is as far ahead. A restart from a checkpoint has a
    higher counter, so this number is unknown.
    """

    #: By counter, at its last value: how many steps it was ahead of the ended steps, the number of ended steps, and
    #: True if it was always as far ahead.
    _seen: dict[str, tuple[int, int, bool]] = field(default_factory=dict)

    def note(self, counter: str, value: int, ended: int) -> None:
        """Keep a counter's value and the number of steps that have ended."""
        ahead = value - ended
        before, _, steady = self._seen.get(counter, (ahead, 0, True))
        self._seen[counter] = (ahead, ended, steady and before == ahead)

    def steps_of_restart(self, counter: str, value: int, ended: int) -> int | None:
        """Return how many of the ended steps belong to a restart whose counter is `value`; None if unknown."""
        ahead, ended_before, steady = self._seen.get(counter, (0, 0, False))
        if not steady or ahead not in (0, 1):  # any other lead means that this run itself did not begin at 0
            return None
        steps = value - ahead
        # at most the steps that ended since the last line with this counter
        return steps if 0 <= steps <= ended - ended_before else None
