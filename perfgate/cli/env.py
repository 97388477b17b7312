"""The command about the machine: env."""

from __future__ import annotations

import click

from perfgate.cli.terminal import hint, say


@click.command()
def env() -> int:
    """Print the facts of this machine as JSON: GPU, driver, clocks, throttling, versions.

    Take them before and after the measurement, and give both to check with --env.

    \b
    Example: perfgate env > env.json
    """
    from perfgate.reporters.plain_json import encode
    from perfgate.workspace.machine import machine_facts

    facts, hints = machine_facts()
    hint(hints)
    return say([encode(facts)])
