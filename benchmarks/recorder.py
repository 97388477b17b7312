"""What recording costs a training, against the cheapest clock that Python has, measured in one run.

    python benchmarks/recorder.py [--json FILE] [--repeat 60]

The yardstick is a pair of `perf_counter_ns` around the same nothing. All loops take turns, and the fastest repetition
of each counts, as timeit advises: what is slower had other work beside it. The goal is under 2 us for a span that is
recorded and written. `--json` writes `perfgate.results/1`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns

from perfgate import Recorder

LOOPS = 2_000

GOALS = {
    "clock_pair": "two calls of perf_counter_ns: the yardstick",
    "span": "`with rec.span(name)`",
    "span_written": "the same, and written to the file; the goal is under 2 us",
    "span_by_hand": "the same, started and stopped by hand",
    "decorated_call": "a call of a function decorated with `rec.time(name)`",
    "record": "`rec.record(name, value, unit=...)`",
    "step_span": "`with rec.step_span()`, the boundary included",
    "span_to_clock": "a span in pairs of the clock",
}


def clock_pair(rec: Recorder) -> None:
    """What anybody would write."""
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


WAYS: tuple[Callable[[Recorder], None], ...] = (
    clock_pair,
    span,
    span_written,
    span_by_hand,
    decorated_call,
    record,
    step_span,
)


def seconds_a_loop(way: Callable[[Recorder], None], folder: Path, repetition: int) -> float:
    """One way in a recording of its own; closing it is not counted, for that comes after the training."""
    with Recorder(folder / f"{way.__name__}-{repetition}.json") as rec:
        rec.value("repetition", repetition, unit="1")
        began = perf_counter_ns()
        way(rec)
        return (perf_counter_ns() - began) / 1e9 / LOOPS


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
    figures = {name: (min(found), "s") for name, found in times.items()}
    figures["span_to_clock"] = (figures["span"][0] / figures["clock_pair"][0], "x")
    for name, (figure, unit) in figures.items():
        shown = f"{1e6 * figure:7.3f} us" if unit == "s" else f"{figure:7.2f} x "
        print(f"{name:16s} {shown}  {GOALS[name]}")
    if options.json:
        with Recorder(options.json) as rec:
            for name, (figure, unit) in figures.items():
                rec.value(name, figure, unit=unit)


if __name__ == "__main__":
    main()
