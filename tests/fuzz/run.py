"""The fuzzer: `python tests/fuzz/run.py [--seconds 60] [--inputs N] [--only NAME] [--seed N]`.

Every input is made from a seed by a few mutations, the same ones for the same `--seed`. A finding is an exception, an
input that takes too long for its size, or memory that is not given back; its bytes are kept in `--keep`.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from harnesses import HARNESSES, Harness
from seeds import TOKENS

#: CPU seconds that one input may take, and by how many MiB all of them together may grow the process.
LONGEST, MOST_GROWTH = 5.0, 300
#: Bytes of the longest input, and of the longest of most: one of sixteen is a large one, which takes most of the time.
LARGEST, USUAL, LARGE_SHARE = 1 << 17, 1 << 13, 1 / 16


def mutated(source: random.Random, seeds: tuple[bytes, ...]) -> bytes:
    """A seed after one to six changes."""
    data = source.choice(seeds)
    longest = LARGEST if source.random() < LARGE_SHARE else max(USUAL, len(data))
    for _ in range(source.randint(1, 6)):
        data = _changed(source, data, seeds)[:longest]
    return data


def _changed(source: random.Random, data: bytes, seeds: tuple[bytes, ...]) -> bytes:
    at = source.randint(0, len(data))
    end = min(len(data), at + source.choice((0, 1, 2, 8, 40, 400)))
    lines = data.split(b"\n")
    kind = source.randrange(9)
    if kind == 0:  # cut off
        return data[:at]
    if kind == 1:  # a stretch is gone
        return data[:at] + data[end:]
    if kind == 2:  # a stretch is repeated
        return data[:end] + data[at:end] * source.choice((1, 2, 30, 1000)) + data[end:]
    if kind == 3:  # other bytes
        return data[:at] + bytes(source.randrange(256) for _ in range(end - at)) + data[end:]
    if kind == 4:  # a line at another place
        lines.insert(source.randint(0, len(lines)), source.choice(lines))
        return b"\n".join(lines)
    if kind == 5:  # two documents joined
        other = source.choice(seeds)
        return data[:at] + other[source.randint(0, len(other)) :]
    return data[:at] + b"".join(source.choices(TOKENS, k=source.choice((1, 1, 1, 3)))) + data[end:]


def inputs(name: str, seed: int) -> Iterator[bytes]:
    """The inputs of a harness, the seeds first."""
    yield from HARNESSES[name].seeds
    source = random.Random(f"{name} {seed}")
    while True:
        yield mutated(source, HARNESSES[name].seeds)


def _stop(*_: object) -> None:
    raise TimeoutError("it does not end")


def finding(harness: Harness, data: bytes) -> str | None:
    """Return the fault of the answer to an input, if it has one; what does not end is stopped."""
    begun = time.process_time()
    signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, 4 * LONGEST)
    try:
        harness.check(data)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    spent = time.process_time() - begun
    return f"took {spent:.1f} s for {len(data)} bytes" if spent > LONGEST else None


def peak() -> int:
    """The largest size that this process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def fuzz(name: str, seconds: float, most: float, seed: int, keep: Path) -> int:
    """Feed one harness for so many seconds, or so many inputs; returns the number of findings."""
    begun, before, count, slowest, found = time.monotonic(), peak(), 0, 0.0, set()
    for data in inputs(name, seed):
        started = time.process_time()
        wrong = finding(HARNESSES[name], data)
        count, slowest = count + 1, max(slowest, time.process_time() - started)
        if wrong and wrong not in found:
            found.add(wrong)
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{name}-{seed}-{count}").write_bytes(data)
            print(f"  {name}: input {count}: {wrong}", flush=True)
        if time.monotonic() - begun > seconds or count >= most or len(found) > 20:
            break
    growth = peak() - before
    if growth > MOST_GROWTH:
        found.add(f"grew by {growth} MiB")
    print(f"{name}: {count} inputs, slowest {slowest:.2f} s, grew {growth} MiB, {len(found)} findings", flush=True)
    return len(found)


def main() -> int:
    """Run the harnesses one after another; 1 where anything was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="for all harnesses together")
    parser.add_argument("--inputs", type=float, default=math.inf, help="at most so many for each harness")
    parser.add_argument("--only", action="append", choices=HARNESSES, help="this harness (repeatable)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="where inputs of findings go")
    options = parser.parse_args()
    names, keep = options.only or [*HARNESSES], options.keep.resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        found = sum(fuzz(name, options.seconds / len(names), options.inputs, options.seed, keep) for name in names)
        os.chdir(keep.parent)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
