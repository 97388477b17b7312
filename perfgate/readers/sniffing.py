"""What the beginning of a file shows of its format; nothing here looks at names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from perfgate.documents.json import walk

#: The first bytes of an SQLite database, as Nsight Systems exports.
SQLITE = b"SQLite format 3\0"

#: The first bytes of other files that are no text, and what to say of them.
BINARY = {
    b"PK\x03\x04": "a zip archive, as torch.save writes; a pickle is never loaded: write the numbers as text or JSON",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; of compressed files only gzip is read",
    b"\xfd7zXZ\0": "compressed with xz; of compressed files only gzip is read",
    b"BZh": "compressed with bzip2; of compressed files only gzip is read",
    b"\x89HDF": "an HDF5 file",
    **{
        b"\x80" + bytes([protocol]): "a Python pickle, which is never loaded: write the numbers as text or JSON"
        for protocol in range(2, 6)
    },
}

#: What tools keep in a form of their own, and the command that writes it in one that is read.
_REPORTS = {
    (".nsys-rep", ".qdrep", ".qdstrm"): (
        "a report of Nsight Systems in a form of its own; give its export: nsys export --type sqlite FILE"
    ),
    (".ncu-rep",): "a report of Nsight Compute in a form of its own; give its text: ncu --import FILE --csv --page raw",
}

#: What tools that also write JSON print: a word that must occur, the pattern around it, the tool, and how it writes
#: JSON. What they print is rounded, so it is refused.
CONSOLE = (
    ("(time in ", r"^Name \(time in \w+\)\s+Min", "pytest-benchmark", "pytest --benchmark-json FILE"),
    ("Time (mean ", r"^[ \t]*Time \(mean ± ", "hyperfine", "hyperfine --export-json FILE"),
    (
        "Iterations",
        r"^Benchmark\s+Time(?:\(\w+\))?\s+CPU(?:\(\w+\))?\s+Iterations",
        "Google Benchmark",
        "--benchmark_out=FILE --benchmark_out_format=json",
    ),
    ("Mean +- std dev: ", "", "pyperf", "pyperf's option -o FILE"),
    ("·· ", r"^\[ *\d+\.\d+%\] ·+ ", "asv", "the files that asv run writes below its results_dir"),
)

#: `{"`, `[{`, `["`, and arrays of numbers that go on as arrays do; but no `[2024-02-20 09:55]` and no `[1,0]<stdout>:`.
_JSON = re.compile(r'\s*(?:\{\s*(?:["}]|$)|\[[\s\[]*[{"]|\[[\s\[\]\d.eE+\-,]*(?:\]\s*$|$))')
_DEPTH, _LONGEST = 3, 1 << 20


@dataclass(frozen=True, slots=True)
class Shape:
    """The upper levels of a JSON document, as far as its beginning shows them.

    `tokens` maps paths, three keys long at most and with `*` for indices, to the first token of the value there:
    `("schema",)` to `'"perfgate.results/1"'`, `("benchmarks", "*", "stats")` to `"{"`.
    """

    tokens: Mapping[tuple[str, ...], str]

    def text(self, *path: str) -> str | None:
        """The string at this path, without its quotes; None if there is none."""
        token = self.tokens.get(path, "")
        return token[1:-1] if token.startswith('"') else None


def binary(head: bytes, name: str = "") -> str | None:
    """What kind of file this is, if it is no text; its name only tells kinds of binary files apart."""
    if b"\0" in head:
        for suffixes, said in _REPORTS.items():
            if name.endswith(suffixes):
                return said
    if head[257:262] == b"ustar":
        return "a tar archive; give its files"
    return next((said for magic, said in BINARY.items() if head.startswith(magic)), None)


def console(text: str) -> str | None:
    """Whose console output a text is, and how that tool writes JSON instead."""
    for word, pattern, tool, advice in CONSOLE:
        found = re.search(pattern or re.escape(word), text, re.MULTILINE) if word in text else None
        if found:
            line = text.count("\n", 0, found.start()) + 1
            return f"on line {line} is console output of {tool}, which is rounded and not read; give its JSON: {advice}"
    return None


def is_json(text: str) -> bool:
    """Whether a text begins as a JSON object or array does."""
    return bool(_JSON.match(text))


def shape_of(text: str) -> Shape:
    """The shape of a JSON document from its first 1 MiB."""
    tokens: dict[tuple[str, ...], str] = {}
    for path, _, token in walk(text[:_LONGEST], _DEPTH):
        tokens.setdefault(tuple(key if isinstance(key, str) else "*" for key in path), token)
    return Shape(tokens)
