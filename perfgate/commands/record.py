"""`perfgate record`: run a command, and write the metrics of the machine beside the results of the command."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import click

from perfgate.cli.printing import tell
from perfgate.measuring.command_cost import Note, command_cost
from perfgate.measuring.programs import Program, RunFailed, Stopped, end_all, stopped_by_signals
from perfgate.recorder.watch import sampled, sidecar_of, watched_since
from perfgate.workspace.options import Refused, shown_path


@click.command("record", context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND...")
@click.option("--results", required=True, metavar="PATH", help="The file or folder that the command writes.")
def command(command: tuple[str, ...], results: str) -> int:
    """Run a command, and write the metrics of the machine beside its results: clocks, power, lost time.

    The file has the name of the results with `.machine` at the end. `perfgate check` reads both together. The exit
    code is that of the command, which finds PATH in $PERFGATE_RESULTS. `perfgate run` does the same by itself.

    \b
    Example: perfgate record --results results.json -- python train.py
    """
    code, line = record(command, results)
    tell(line)
    return code


def record(words: tuple[str, ...], results: str) -> tuple[int, str]:
    """Run a command to its end; return its exit code, and a line about the metrics of the machine. Raises Refused.

    If a signal killed the command, the exit code is 128 plus the number of the signal, as in a shell. `words`: the
    command, whose output is shown. `results`: the file or folder that the command writes.
    """
    beside, is_watched = sidecar_of(results), watched_since() is not None
    if os.path.exists(beside) and not is_watched:
        raise Refused(f"{shown_path(beside)} exists: move the earlier run away, or name other results")
    try:
        code = _run(words, results, nullcontext(_drop) if is_watched else sampled(results))
    except Stopped as stopped:
        if not is_watched and not os.path.exists(results):
            Path(beside).unlink(missing_ok=True)
        raise Refused(str(stopped), stopped.exit_code) from None
    except RunFailed as error:  # nothing ran, so nothing was measured
        if not is_watched:
            Path(beside).unlink(missing_ok=True)
        raise Refused(str(error), 3) from None
    if not os.path.exists(results):
        why = f"the command ended with exit code {code} and did not write this file or folder"
        is_left = not is_watched and os.path.exists(beside)
        step = f"; remove {shown_path(beside)} before the next try" if is_left else ""
        raise Refused(f"{shown_path(results)}: {why}{step}", 3)
    return 128 - code if code < 0 else code, _line(beside, is_watched=is_watched)


def _line(beside: str, *, is_watched: bool) -> str:
    if is_watched:
        return "the command that started this one watches the machine"
    if os.path.exists(beside):
        return f"the metrics of the machine are in {shown_path(beside)}"
    return f"warning: no metrics of the machine: {shown_path(beside)} could not be written"


def _run(words: tuple[str, ...], results: str, sampling: AbstractContextManager[Note]) -> int:
    """Run a command to its end; return its exit code, or the negative number of a signal. Raises RunFailed."""
    with stopped_by_signals(), sampling as note, command_cost(note):
        program = Program(words, Path.cwd(), {"PERFGATE_RESULTS": results, "PERFGATE_RUN": "1"})
        try:
            return program.process.wait()
        finally:
            end_all([program])


def _drop(metric: str, value: float, unit: str) -> None:
    """Drop a value: another process writes the file."""
