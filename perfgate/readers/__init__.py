"""From bytes to runs: a reader for each format that perfgate knows. `registry.FORMATS` lists them."""

from perfgate.readers.detection import Recognition, read, recognise
from perfgate.readers.formats import Format
from perfgate.readers.registry import FORMATS
from perfgate.readers.runs import are_apart, join_runs, with_missing_ranks
from perfgate.readers.text import Source

__all__ = [
    "FORMATS",
    "Format",
    "Recognition",
    "Source",
    "are_apart",
    "join_runs",
    "read",
    "recognise",
    "with_missing_ranks",
]
