"""Iteration lines of Megatron-LM and what descends from it: `iteration N/ M | LABEL: 1.23 | LABEL: 4.56 |`.

    iteration        1/    1000 | elapsed time per iteration (ms): 150471.3 | learning rate: 1.875E-05 | ...      2021
    [2024-08-21 10:19:42] iteration        4/   25000 | consumed samples:         4096 |
      elapsed time per iteration (ms): 270125.4 | throughput per GPU (TFLOP/s/GPU): 449.6 | ... |        (one line) 2024

Source: NVIDIA/Megatron-LM `megatron/training/training.py`, and Megatron-DeepSpeed (`TFLOPs`, `tokens per gpu per
second`). A value is a mean over the iterations since the last such line (`--log-interval`). Iteration n is step n - 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from perfgate.core import Key
from perfgate.readers.builder import RunBuilder
from perfgate.readers.jsonrun import checked

WORD = "elapsed time per iteration"
LINE = re.compile(r"\biteration\s{1,40}(\d{1,18})/\s{0,40}\d+")

#: What a label holds, in small letters; the metric, its unit, and how many of the printed unit are one base unit.
_LABELS = (
    (re.compile(r"elapsed time per iteration \(ms\)"), "iteration_time", "s", 1e3),
    (re.compile(r"elapsed time per iteration \(s\)"), "iteration_time", "s", 1.0),
    (re.compile(r"\btflops?\b"), "throughput_per_gpu", "FLOP/s", 1e-12),
    (re.compile(r"\bsamples(?: per |/)sec(?:ond)?\b"), "samples_per_second", "1/s", 1.0),
    (
        re.compile(r"tokens?(?: per |/)gpu(?: per |/)sec(?:ond)?\b|\(tokens?/s(?:ec)?/gpu\)"),
        "tokens_per_second_per_gpu",
        "1/s",
        1.0,
    ),
    (re.compile(r"\btokens?(?: per |/)s(?:ec(?:ond)?)?\b(?!/)"), "tokens_per_second", "1/s", 1.0),
    (re.compile(r"number of skipped iterations"), "skipped_iterations", "1", 1.0),
    (re.compile(r"number of nan iterations"), "nan_iterations", "1", 1.0),
)
_LONGEST = 300
_LOSS = re.compile(r"(?:.*[\s_-])?loss")
_LABEL = re.compile(r"\s*(\S[^:|]{0,100}?):?\s+(\S{1,60})\s*")


def records(line: str) -> Iterator[tuple[int, str]]:
    """The number of each iteration in a line, and its part of the line."""
    starts = [*LINE.finditer(line)]
    begins = [0, *(start.start() for start in starts[1:])]
    ends = [start.start() for start in starts[1:]] + [len(line)]
    for start, begin, end in zip(starts, begins, ends, strict=False):
        yield int(start[1]), line[begin:end]


def add_record(run: RunBuilder, record: str, step: int, line: int, *, leave: tuple[str, ...] = ()) -> None:
    """The numbers of one iteration; metrics in `leave` are left out. Of one metric the first label counts."""
    seen = {*leave}
    for part in record.split("|"):
        found = _LABEL.fullmatch(part) if len(part) < _LONGEST else None
        known = _metric(found[1].lower()) if found else None
        if found is None or known is None or known[0] in seen:
            continue
        metric, unit, per = known
        seen.add(metric)
        # forks print `13372.8/13364.7`: of this iteration, and the mean so far
        value, fault = checked(found[2].partition("/")[0], unit)
        if fault:
            run.refuse(Key(metric), fault, line)
            continue
        column = run.column(Key(metric), unit, per, found[1])
        column.values.append(value)
        column.steps.append(step)


def _metric(label: str) -> tuple[str, str, float] | None:
    """The metric of a label, its unit, and how many of the printed unit are one base unit."""
    for pattern, metric, unit, per in _LABELS:
        if pattern.search(label):
            return metric, unit, per
    return (plain(label), "1", 1.0) if _LOSS.fullmatch(label) else None


def plain(label: str) -> str:
    """A label as a metric: `lm loss` and `lm-loss` are `lm_loss`."""
    return re.sub(r"[\s-]+", "_", label)
