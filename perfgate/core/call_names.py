"""Names of calls that are alike in all runs of one program."""

from __future__ import annotations

import re

#: Parts of names that differ between runs of a program: sequence numbers, addresses, hashes, and process ids in names.
_CHANGING = (
    (re.compile(r", seq = \d+"), ""),
    (re.compile(r"0x[0-9a-fA-F]{4,}"), "0x"),
    (re.compile(r"(?<![0-9a-zA-Z])[a-z]?[0-9a-z]{32,}(?![0-9a-zA-Z])"), "*"),
    (re.compile(r"\(anonymous namespace\)::|\{anonymous\}::|<unnamed>::"), ""),
    (re.compile(r"(?<=\d)ul\b"), ""),
    (re.compile(r"(triton_\w*?)_\d+$"), r"\1"),
    (re.compile(r"\s+"), " "),
)


def stable_name(name: str) -> str:
    """The name without what differs between runs of one program, such as addresses and sequence numbers."""
    for pattern, replacement in _CHANGING:
        name = pattern.sub(replacement, name)
    return name.strip()
