"""`perfgate record`: run a command, and keep what the machine did beside the results of the command."""

from __future__ import annotations

import os
from pathlib import Path

from perfgate.machine.sidecar import sampled, sidecar_of
from perfgate.measuring.programs import Program, RunFailed, end_all, stopped_by_signals
from perfgate.workspace.options import Refused, shown_path


def record(words: tuple[str, ...], results: str) -> tuple[int, str]:
    """Run a command to its end; return its exit code, and the name of the file about the machine. Raises Refused.

    Parameters
    ----------
    words : the command; its output is shown.
    results : the file or folder that the command writes.
    """
    beside = sidecar_of(results)
    if os.path.exists(beside):
        raise Refused(f"{shown_path(beside)} exists: move the earlier run away, or name other results")
    with stopped_by_signals(), sampled(results):
        try:
            program = Program(words, Path.cwd(), {"PERFGATE_RESULTS": results, "PERFGATE_RUN": "1"})
        except RunFailed as error:
            raise Refused(str(error), 3) from None
        try:
            code = program.process.wait()
        finally:
            end_all([program])
    if not os.path.exists(results):
        raise Refused(f"{shown_path(results)}: the command (exit {code}) wrote no such file or folder", 3)
    return code, shown_path(beside)
