"""Fixed processors for a program: it then keeps its caches and has the same neighbours."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager

Cpus = frozenset[int]


def allowed_cpus() -> Cpus | None:
    """Return the processors that this process may use; None if the system cannot pin programs."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def parse_cpus(text: str) -> Cpus:
    """Return the processors of `1`, `0,2` or `4-7`. Raises ValueError, with the reason."""
    found = set[int]()
    for part in text.split(","):
        given = re.fullmatch(r"\s*(\d{1,5})(?:-(\d{1,5}))?\s*", part)
        if given is None:
            raise ValueError(f"{text!r} is not a list of processors: write 1, 0,2 or 4-7")
        found |= set(range(int(given[1]), int(given[2] or given[1]) + 1))
    allowed = allowed_cpus()
    if allowed is None:
        raise ValueError("this system cannot pin programs to processors")
    if not found or not found <= allowed:
        usable = ", ".join(map(str, sorted(allowed)))
        raise ValueError(f"{text}: this process may use only the processors {usable}")
    return frozenset(found)


@contextmanager
def pinned(cpus: Collection[int] | None) -> Iterator[None]:
    """Let the processes that a block starts in this thread run on these processors only; None changes nothing."""
    before = allowed_cpus()
    if cpus is None or before is None:
        yield
        return
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
