"""Lines that differ only in digits, which are read many at once: the result is that of reading them one by one."""

import random
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import said, steps_of, values_of

from perfgate.core import Run
from perfgate.mappings.document import load_mappings
from perfgate.mappings.reading import read_mapped
from perfgate.readers import Source, alike_lines, read, text
from perfgate.readers.digit_runs import DigitRuns, PrintedNumber
from perfgate.readers.text import InputFile

DATE = "[2024-08-21 10:1{i}:4{i}]"
ROW = "    " + "forward-backward ".ljust(48, ".")
#: Lines of each format: {n} is a step that grows, {i} one digit, {v} and {w} numbers; the first line is usual.
LOGS = {
    "nanogpt": (
        "iter {n}: loss {v}, time {w}ms, mfu {v}%\n",
        "iter {n}: loss {v}, time {w}ms, mfu -100.00%\n",
        "[rank{i}]: iter {n}: loss {v}, time {w}ms, mfu {v}%\n",
        "step {n}: train loss {v}, val loss {w}\n",
        "step:{n}/9000 train_time:{n}ms step_avg:{w}ms\n",
        "iter {n}: loss nan, time {w}ms, mfu {v}%\n",
        "iter 0: loss {v}, time {w}ms, mfu {v}%\n",
    ),
    "torchtitan": (
        "2025-01-02 03:04:1{i},105 - root - INFO - step: {n:2}  loss: {v}  memory: {w}GiB({v}%)  tps: 7,{n:03}\n",
        "2025-01-02 03:04:1{i},105 - root - INFO - Training starts at step {i}\n",
        "2025-01-02 03:04:1{i},105 - root - INFO - validate step: {n:2}  loss: {v}  memory: {w}GiB({v}%)  tps: {n}\n",
        "[rank{i}]: step: {n}  loss: {v}  grad_norm: {w}  tps: {n}\n",
    ),
    "megatron": (
        f" {DATE} iteration {{n:8d}}/ 9000 | elapsed time per iteration (ms): {{v}} | lm loss: {{w}} |\n",
        " iteration {n:8d}/ 9000 | elapsed time per iteration (ms): {v} | lm loss: {w} |\n",
        "(min, max) time across ranks (ms):\n",
        ROW + ": ({v}, {w})\n",
        "    " + "save-checkpoint ".ljust(48, ".") + ": ({v}, {w})\n",
        "times across ranks (ms):\n",
        "  optimizer-{i}:\n",
        "     rank  {i}: {v}\n",
        " time (ms) | forward-compute: {v} | optimizer: {w}\n",
        "[before the start of training step] datetime: 2024-08-21 10:16:0{i}\n",
        "After iteration\nMA {v} GB         Max_MA 1.73 GB         CA 1.75 GB         Max_CA 2 GB\n",
        "[Rank {i}] (after {n} iterations) memory (MB) | allocated: {v} | max allocated: {w}\n",
        "  successfully saved checkpoint at iteration {n}\n",
    ),
    "hf-trainer": (
        "{{'loss': {v}, 'grad_norm': {w}, 'learning_rate': 5e-05, 'epoch': {n}.5}}\n",
        "{{'loss': '{v}', 'epoch': '{n}'}}\n",
        "{{'eval_loss': {v}, 'eval_runtime': {w}, 'epoch': {n}.0}}\n",
        "{{'loss': {v},\n'epoch': {n}.5}}\n",
        "{{'loss': {v}, 'epoch': {n}.5}} {{'loss': {w}, 'epoch': {n}.6}}\n",
        "{{'train_acc': {v}, 'epoch': {n}.5}}\n",
        "***** train metrics *****\n  train_runtime = 0:04:33.01\n",
        "{{'loss': {v}, 'epoch': 0.1}}\n",
    ),
    "mapping": (
        "gpu {i} step {n} | loss {v} | {w} ms\n",
        "gpu {i} step {n} | loss -{v} | {w} ms\n",
        "gpu {i} step {n} | loss nan | {w} ms\n",
        "eval {v}\n",
        "gpu {i} step 0 | loss {v} | {w} ms\n",
    ),
}
MAPPING = b"""mappings:
  - files: "*"
    lines: ["gpu {gpu} step {step} | loss {loss} | {time} ms", "eval {eval}"]
    metrics: {loss: none, time: ms, eval: none}
    labels: {gpu: gpu}
    step: step
"""
NUMBERS = ("0.04", "0.5", "3.14", "10.0", "27", "99.95", "1026.01", "2.675", "1234567890123.25", "2.5e-03", "-0.0")


def runs_of(name: str, data: bytes) -> tuple[Run, ...]:
    """Return the runs of a log."""
    if name != "mapping":
        return read(Source("log", [data]), name)
    return read_mapped(InputFile(Source("log", [data])), load_mappings([("perfgate.yaml", MAPPING)])[0][0])


def everything(name: str, data: bytes, block: int, one_by_one: bool) -> object:
    """Return the content of a log that is read in blocks of this size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "BLOCK", block)
        patch.setattr(alike_lines, "_FEW", 2)
        patch.setattr(alike_lines, "_FIRST", -1 if one_by_one else 1 << 60)
        found = runs_of(name, data)
        return [(run.part, values_of(run), steps_of(run), said(run), dict(run.environment)) for run in found]


def damaged(data: bytes, seed: int) -> bytes:
    rng, damage = random.Random(seed), bytearray(data)
    for _ in range(seed % 3):
        at = rng.randrange(len(damage))
        damage[at : at + rng.randrange(3)] = rng.choice([b"\n", b"\r", b"\0", b"\xff", b"7", b"-", b".", b"|", b"nan"])
    return bytes(damage)


@pytest.mark.parametrize("name", LOGS)
@given(data=st.data())
def test_alike_lines_are_read_as_if_one_by_one(name, data):
    picked = data.draw(st.lists(st.tuples(st.sampled_from(LOGS[name]), st.integers(1, 9)), min_size=1, max_size=12))
    seed, block = data.draw(st.integers(0, 999)), data.draw(st.sampled_from([400, 1000, 4000]))
    rng, lines = random.Random(seed), []
    for step in range(1, 80):
        line, often = picked[step % len(picked)]
        lines += [
            line.format(n=step, i=rng.randrange(3), v=rng.choice(NUMBERS), w=rng.choice(NUMBERS))
            for _ in range(1 if step % 7 else often)
        ]
    log = damaged("".join(lines).encode(), seed)
    assert everything(name, log, block, one_by_one=False) == everything(name, log, block, one_by_one=True)


@pytest.mark.parametrize("name", LOGS)
def test_nearly_all_lines_of_a_log_are_read_at_once(name, monkeypatch):
    yielded = []
    select = alike_lines.select
    monkeypatch.setattr(alike_lines, "select", lambda *rest: yielded.append(rest) or select(*rest))
    values = [f"{100 + at / 100:.2f}" for at in range(8000)]
    log = "".join(LOGS[name][0].format(n=at + 1, i=1, v=value, w=value) for at, value in enumerate(values))
    runs = runs_of(name, log.encode())
    assert len(yielded) < 600
    assert 8000 in {len(series.values) for series in runs[0].series}


FLOATS = st.lists(st.floats(0, 1e18, allow_nan=False), min_size=1)


@given(FLOATS, st.sampled_from([".1f", ".6E", "r", ",.2f", ".17g"]))
def test_printed_numbers_are_those_of_float(numbers, form):
    printed = [repr(value) if form == "r" else format(value, form) for value in numbers]
    lines = [f"a1: {one} b".encode() for one in printed]
    runs = DigitRuns(b"\n".join(lines))
    for at, (line, one) in enumerate(zip(lines, printed, strict=True)):
        found = PrintedNumber.at(line, 4)
        assert found is not None
        assert found[1] == one.replace(",", "")
        assert runs.numbers(np.array([at]), found[0]).tolist() == [float(found[1])]
        assert runs.kinds[at] == re.sub(rb"[0-9]+", b"0", line)
