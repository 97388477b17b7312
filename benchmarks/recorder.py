"""Measure the cost of recording for a training, against the cheapest clock that Python has, in one run.

    python benchmarks/recorder.py [--json FILE] [--repeat 60]

The yardstick is a pair of `perf_counter_ns` around the same nothing. All loops take turns, and the fastest repetition
of each counts, as timeit advises: what is slower had other work beside it. The goal is under 2 us for a span that is
recorded and written. `--json` writes `perfgate.results/1`.

With torch installed, it also compares the steps of a small model after their profile (`Recorder(work=True)`) with the
same steps of a recording without one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from types import ModuleType, SimpleNamespace
from typing import Any

from perfgate import Recorder

LOOPS = 2_000
#: The recordings with and without work, which take turns, and the steps of each.
WORK_PAIRS, WORK_STEPS = 10, 300

GOALS = {
    "clock_pair": "two calls of perf_counter_ns: the yardstick",
    "span": "`with rec.span(name)`",
    "span_written": "the same, and written to the file; the goal is under 2 us",
    "span_by_hand": "the same, started and stopped by hand",
    "decorated_call": "a call of a function decorated with `rec.time(name)`",
    "record": "`rec.record(name, value, unit=...)`",
    "step_span": "`with rec.step_span()`, the boundary included",
    "counted_span": "`with rec.span(name)` of `Recorder(counters=True)`",
    "callback_step": "all calls of the callback for transformers in one step; the goal is under 50 us",
    "span_to_clock": "a span in pairs of the clock",
    "after_profile": "steps after their profile, in steps of a recording without one",
}


def clock_pair(rec: Recorder) -> None:
    """Read the clock twice, as anybody would around a piece of code."""
    for _ in range(LOOPS):
        perf_counter_ns() - perf_counter_ns()


def span(rec: Recorder) -> None:
    """The usual way."""
    for _ in range(LOOPS):
        with rec.span("forward"):
            pass


def span_written(rec: Recorder) -> None:
    """The same, with the way to the file."""
    span(rec)
    rec.abort()


def span_by_hand(rec: Recorder) -> None:
    """As callbacks do."""
    for _ in range(LOOPS):
        timer = rec.span("forward")
        timer.start()
        timer.stop()


def decorated_call(rec: Recorder) -> None:
    """A function that does nothing."""

    @rec.time("load")
    def load() -> None:
        pass

    for _ in range(LOOPS):
        load()


def record(rec: Recorder) -> None:
    """A number."""
    for number in range(LOOPS):
        rec.record("loss_scale", number, unit="1")


def step_span(rec: Recorder) -> None:
    """A whole step."""
    for _ in range(LOOPS):
        with rec.step_span():
            pass


def counted_span(rec: Recorder) -> None:
    """With CPU time, and with instructions where the machine counts them."""
    with warnings.catch_warnings(), tempfile.NamedTemporaryFile() as file:
        warnings.simplefilter("ignore")
        counted = Recorder(f"{file.name}.json", counters=True)
        span(counted)
        counted.abort()


def callback_step(rec: Recorder) -> None:
    """A step of a Trainer: only what the callback costs, without transformers."""
    callback = _callback(f"{rec.path}.callback.json")
    device = SimpleNamespace(type="cpu")
    arguments = SimpleNamespace(process_index=0, world_size=1, device=device, train_batch_size=8)
    state = SimpleNamespace(global_step=0, num_input_tokens_seen=0)
    callback.on_train_begin(arguments, state, None)
    for _ in range(LOOPS):
        state.num_input_tokens_seen += 4096
        callback.on_step_begin(arguments, state, None, model=None)
        callback.on_pre_optimizer_step(arguments, state, None, model=None)
        callback.on_optimizer_step(arguments, state, None, model=None)
        state.global_step += 1
        callback.on_step_end(arguments, state, None, model=None)
    callback.recorder.abort()


def _callback(path: str) -> Any:
    """The real callback; the framework is only its base class."""
    module = ModuleType("transformers")
    module.__dict__["TrainerCallback"] = type("TrainerCallback", (), {})
    sys.modules.setdefault("transformers", module)
    from perfgate.integrations.transformers import RecorderCallback

    return RecorderCallback(path)


WAYS: tuple[Callable[[Recorder], None], ...] = (
    clock_pair,
    span,
    span_written,
    span_by_hand,
    decorated_call,
    record,
    step_span,
    counted_span,
    callback_step,
)


def seconds_a_loop(way: Callable[[Recorder], None], folder: Path, repetition: int) -> float:
    """One way in a recording of its own; closing it is not counted, for that comes after the training."""
    with Recorder(folder / f"{way.__name__}-{repetition}.json") as rec:
        rec.value("repetition", repetition, unit="1")
        began = perf_counter_ns()
        way(rec)
        return (perf_counter_ns() - began) / 1e9 / LOOPS


def after_profile(folder: Path) -> float:
    """The median ratio of the steps of a small model after their profile to those without one."""
    import torch

    torch.set_num_threads(1)
    model, batch = torch.nn.Linear(256, 256), torch.randn(256, 256)
    ratios = []
    for number in range(WORK_PAIRS):
        found = []
        for work in (False, True) if number % 2 else (True, False):
            times = []
            with Recorder(folder / f"work-{number}-{work}.json", work=work) as rec:
                for step in range(WORK_STEPS):
                    with rec.step_span():
                        began = perf_counter_ns()
                        model(batch).square().mean().backward()
                        times += [perf_counter_ns() - began] if step > 10 else []
            found.append((work, median(times)))
        ratios.append(dict(found)[True] / dict(found)[False])
    return median(ratios)


def main() -> None:
    """Measure, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write perfgate.results/1")
    parser.add_argument("--repeat", type=int, default=60)
    options = parser.parse_args()
    times: dict[str, list[float]] = {way.__name__: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for repetition in range(options.repeat):
            for way in WAYS:
                times[way.__name__].append(seconds_a_loop(way, Path(folder), repetition))
        ratio = after_profile(Path(folder)) if find_spec("torch") else None
    figures = {name: (min(found), "s") for name, found in times.items()}
    figures["span_to_clock"] = (figures["span"][0] / figures["clock_pair"][0], "x")
    figures |= {} if ratio is None else {"after_profile": (ratio, "x")}
    for name, (figure, unit) in figures.items():
        shown = f"{1e6 * figure:7.3f} us" if unit == "s" else f"{figure:7.2f} x "
        print(f"{name:16s} {shown}  {GOALS[name]}")
    if options.json:
        with Recorder(options.json) as rec:
            for name, (figure, unit) in figures.items():
                rec.value(name, figure, unit=unit)


if __name__ == "__main__":
    main()
