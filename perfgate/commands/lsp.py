"""The command `perfgate lsp`."""

from __future__ import annotations

import os
from io import BufferedReader, FileIO
from pathlib import Path

import click

from perfgate.cli.shared import baselines_option
from perfgate.commands.rules import stored_metrics
from perfgate.core.resource_limits import DEFAULT
from perfgate.editor.rule_text import StoredMetrics
from perfgate.workspace.options import Refused

#: The longest line of a header, in bytes.
_LONGEST_LINE = 4096


class _BoundedInput(BufferedReader):
    """What a client writes. pygls itself would take a line, or reserve memory for a message, of any length."""

    def readline(self, size: int | None = -1, /) -> bytes:
        """Return the next line of a header. Raises Refused if it is too long."""
        line = super().readline(_LONGEST_LINE + 1)
        if len(line) > _LONGEST_LINE:
            raise Refused(f"a line of a header has more than {_LONGEST_LINE} bytes")
        return line

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next message. Raises Refused if its length is above the limit of a document."""
        if size is None or not 0 <= size <= DEFAULT.document_bytes:
            raise Refused(f"a message is larger than {DEFAULT.document_bytes >> 20} MiB")
        return super().read(size)


@click.command("lsp")
@baselines_option
def command(baselines: str) -> int:
    """Check rules while they are typed: the language server for editors, on standard input and output.

    An editor starts it. It needs pygls (pip install 'perfgate[lsp]'). It reads the stored runs in the folder
    --baselines beside the rules, or in a folder above them.

    \b
    Example: perfgate lsp --help
    """
    try:
        from perfgate.editor.server import make_server
    except ImportError as error:
        raise Refused(f"perfgate lsp needs pygls ({error.name} is missing): pip install 'perfgate[lsp]'") from None
    server = make_server(lambda path: _stored(path, baselines))
    # pygls closes the streams that it gets, and this process still needs its own: so it gets copies.
    with _BoundedInput(FileIO(os.dup(0))) as stdin, os.fdopen(os.dup(1), "wb") as stdout:
        server.start_io(stdin, stdout)
    return 0


def _stored(path: str, baselines: str) -> StoredMetrics:
    """Return the metrics of the baselines beside a rule file, or in a folder above it; none if they cannot be read."""
    if "://" in baselines:
        folder: str | None = baselines
    else:
        folder = next((str(above / baselines) for above in Path(path).parents if (above / baselines).is_dir()), None)
    try:
        return stored_metrics(folder)[0] if folder is not None else {}
    except (Refused, OSError):  # an editor asks for each file that it opens; `rules check` says what is wrong
        return {}
