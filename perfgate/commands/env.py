"""The command `perfgate env`."""

from __future__ import annotations

import click

from perfgate.cli.printing import tell, write_document
from perfgate.reporters.plain_json import encode
from perfgate.workspace.surroundings import machine_facts


@click.command("env")
def command() -> int:
    """Print the facts of this machine as JSON: GPU, driver, clocks, throttling, versions.

    Run it before and after the measurement, and give both files to check with --env.

    \b
    Example: perfgate env > env.json
    """
    facts, hints = machine_facts()
    for hint in hints:
        tell(hint)
    write_document(encode(facts))
    return 0
