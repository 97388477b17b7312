"""The file with the metrics of the machine during a run of a command.

It lies beside the results, and has their name with `.machine` at the end: `results.json.machine` for `results.json`.
Globs for results do not match it, and perfgate reads it together with the results.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from perfgate.recorder.sampler_process import WATCHED, SamplerProcess, sidecar_of


@contextmanager
def sampled(path: str | os.PathLike[str]) -> Iterator[Callable[[str, float, str], None]]:
    """Sample the machine while a block runs, into the file beside the results in `path`. Never raises by itself.

    The block gets a function that notes a value of the whole run there: its metric, its value and its unit.
    """
    process, before = None, os.environ.get(WATCHED)
    with suppress(OSError):  # no room for a process, or a folder that cannot be written
        process = SamplerProcess(sidecar_of(path))
    if process is not None and process.is_ready:
        os.environ[WATCHED] = process.words  # a Recorder in the command starts no second sampler
    try:
        yield process.note if process is not None else lambda metric, value, unit: None
    finally:
        if process is not None:
            process.end()
        if before is None:
            os.environ.pop(WATCHED, None)
        else:
            os.environ[WATCHED] = before
