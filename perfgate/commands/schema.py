"""The command `perfgate schema`."""

from __future__ import annotations

import click

from perfgate.cli.printing import write_document
from perfgate.schemas import FOLDER, NAMES


@click.command("schema")
@click.argument("name", type=click.Choice(NAMES))
def command(name: str) -> int:
    """Print the JSON Schema of a document that perfgate reads or writes.

    \b
    Example: perfgate schema rules > rules.schema.json
    """
    write_document((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    return 0
