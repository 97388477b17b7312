"""The command `perfgate record`."""

from __future__ import annotations

import click

from perfgate.cli.printing import tell


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND...")
@click.option("--results", required=True, metavar="PATH", help="The file or folder that the command writes.")
def record(command: tuple[str, ...], results: str) -> int:
    """Run a command, and write the metrics of the machine beside its results: clocks, power, lost time.

    The file has the name of the results with `.machine` at the end. `perfgate check` reads both together. The exit
    code is that of the command, which finds PATH in $PERFGATE_RESULTS. `perfgate run` does the same by itself.

    \b
    Example: perfgate record --results results.json -- python train.py
    """
    from perfgate.commands.record import record as run_and_sample

    code, line = run_and_sample(command, results)
    tell(line)
    return code
