"""A line on stderr that shows how long a run has taken, and how much time is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

import click

#: The time between two writes of the line, in seconds.
EVERY_S = 1.0


def line(head: str, spent: float, left: float | None) -> str:
    """Return the words of the line: `run 2 of at most 5: 12 s so far, at most 3 min left`.

    `head`: the name of the run. `spent`: how long it has run, in seconds. `left`: how long it and all later
    ones take at most, from its beginning, in seconds; None if unknown.
    """
    rest = "" if left is None else f", at most {_time(max(left - spent, 0.0))} left"
    return f"{head}: {_time(spent)} so far{rest}"


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{seconds / 3600:.1f} h"


@contextmanager
def shown(head: str, left: float | None) -> Iterator[None]:
    """Show the line while the block runs, and remove it at the end."""
    began, ended = monotonic(), Event()

    def show() -> None:
        while True:
            click.echo(f"\r{line(head, monotonic() - began, left)}\x1b[K", err=True, nl=False, color=True)
            if ended.wait(EVERY_S):
                return

    thread = Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        click.echo("\r\x1b[K", err=True, nl=False, color=True)
