"""Train a perceptron in pure Python, and record how long each part of a step takes.

It learns the parity of its inputs with lists and loops, so it runs wherever Python does; what matters are the few lines
with `rec` in them. `--slowdown 1` puts a real regression into the forward pass: it is made twice, and nobody uses the
first result::

    python train.py runs/main-1.json
    python train.py runs/slow.json --slowdown 1
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator

from perfgate import Recorder

INPUTS, HIDDEN, BATCH = 8, 16, 20
RATE = 0.2

Vector = list[float]
Example = tuple[Vector, float]


def examples(source: random.Random) -> Iterator[list[Example]]:
    """Batches of random bits and their parity, for ever."""
    while True:
        bits = [[float(source.getrandbits(1)) for _ in range(INPUTS)] for _ in range(BATCH)]
        yield [(x, sum(x) % 2) for x in bits]


class Perceptron:
    """One hidden layer of tanh, one output."""

    def __init__(self, source: random.Random) -> None:
        self.hidden = [[source.gauss(0, 0.5) for _ in range(INPUTS)] for _ in range(HIDDEN)]
        self.output = [source.gauss(0, 0.5) for _ in range(HIDDEN)]

    def forward(self, batch: list[Example]) -> list[tuple[Vector, float]]:
        """The hidden layer and the output of every example."""
        found = []
        for x, _ in batch:
            h = [math.tanh(sum(w * v for w, v in zip(weights, x, strict=True))) for weights in self.hidden]
            found.append((h, sum(w * v for w, v in zip(self.output, h, strict=True))))
        return found

    def backward(self, batch: list[Example], found: list[tuple[Vector, float]]) -> tuple[list[Vector], Vector]:
        """The gradients of half the squared error, averaged over the batch."""
        hidden = [[0.0] * INPUTS for _ in range(HIDDEN)]
        output = [0.0] * HIDDEN
        for (x, wanted), (h, y) in zip(batch, found, strict=True):
            error = (y - wanted) / len(batch)
            for unit in range(HIDDEN):
                output[unit] += error * h[unit]
                slope = error * self.output[unit] * (1 - h[unit] ** 2)
                for place in range(INPUTS):
                    hidden[unit][place] += slope * x[place]
        return hidden, output

    def step(self, hidden: list[Vector], output: Vector) -> None:
        """Go down the gradients."""
        for weights, gradients in zip(self.hidden, hidden, strict=True):
            weights[:] = [w - RATE * g for w, g in zip(weights, gradients, strict=True)]
        self.output = [w - RATE * g for w, g in zip(self.output, output, strict=True)]


def train(rec: Recorder, steps: int, slowdown: float) -> None:
    """Train, one recorded step after another."""
    source = random.Random(0)
    model, batches = Perceptron(source), examples(source)
    for _ in range(steps):
        with rec.step_span():
            with rec.span("load"):
                batch = next(batches)
            with rec.span("forward"):
                model.forward(batch[: round(slowdown * BATCH)])
                found = model.forward(batch)
            with rec.span("backward"):
                gradients = model.backward(batch, found)
            with rec.span("step"):
                model.step(*gradients)
            rec.record(
                "loss", sum((y - wanted) ** 2 for (_, wanted), (_, y) in zip(batch, found, strict=True)), unit="1"
            )


def main() -> None:
    """Train for `--steps` steps into a file of results."""
    parser = argparse.ArgumentParser(description="Train a perceptron in pure Python, and record its steps.")
    parser.add_argument("results", help="the file to record into")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--slowdown", type=float, default=0.0, help="extra work in forward, as a share of it")
    options = parser.parse_args()
    with Recorder(options.results, environment={"example": "recorder"}) as rec:
        train(rec, options.steps, options.slowdown)


if __name__ == "__main__":
    main()
