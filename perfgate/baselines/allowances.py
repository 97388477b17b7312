"""The form of one allowance, `perfgate.allowance/1`: a commit may be so much worse in a metric, and who said so.

It is written to the base by somebody who may, before the pull request is merged; so that a pull request cannot allow
itself anything, `check --policy-ref` reads allowances from the base. It holds for one commit, to the letter: what is
pushed later needs another one.
"""

from __future__ import annotations

import hashlib
import re
from datetime import date

import msgspec

from perfgate.core import Allowance, Location, Problem
from perfgate.documents.json import load_json

SCHEMA = "perfgate.allowance/1"
#: A commit, whole: an abbreviated name could mean another commit tomorrow.
FULL_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class AllowanceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One stored allowance."""

    schema: str
    tool: str
    suite: str
    #: The commit that may be worse.
    head: str
    #: A metric's name, or a glob.
    metric: str
    up_to: float
    reason: str
    by: str
    pr: int | None
    time: str
    #: The last day on which it holds, YYYY-MM-DD.
    expires: str
    content_sha256: str = ""

    def allowance(self) -> Allowance:
        """What the judge needs of it."""
        return Allowance(self.metric, self.up_to, self.by, self.reason, date.fromisoformat(self.expires))


def encode(stored: AllowanceFile) -> bytes:
    """The bytes of a file, with its own hash in it."""
    digest = hashlib.sha256(_json(msgspec.structs.replace(stored, content_sha256=""))).hexdigest()
    return _json(msgspec.structs.replace(stored, content_sha256=digest))


def _json(stored: AllowanceFile) -> bytes:
    return msgspec.json.format(msgspec.json.encode(stored), indent=2) + b"\n"


def decode(name: str, data: bytes, suite: str) -> tuple[AllowanceFile | None, list[Problem]]:
    """Read one file; a damaged or altered one gives a problem that names it, and None."""
    stored, why = _decode(name, data)
    if stored is not None and stored.suite != suite:
        why = f"was moved: it belongs to suite {stored.suite}"
    if stored is None or why:
        return None, [Problem("error", f"{why}; restore it from git, or remove it and allow again", Location(name))]
    return stored, []


def _decode(name: str, data: bytes) -> tuple[AllowanceFile | None, str]:
    try:
        document = load_json(data.decode("utf-8"), name)
    except UnicodeDecodeError:
        return None, "is not UTF-8 text"
    if document.problems:
        return None, f"is damaged: {document.problems[0].message}"
    schema = document.data.get("schema") if isinstance(document.data, dict) else None
    if schema != SCHEMA:
        return None, f"has the schema {schema!r}; this perfgate reads {SCHEMA}: use the version that wrote it"
    try:
        stored = msgspec.convert(document.data, AllowanceFile)
        stored.allowance()
    except (msgspec.ValidationError, ValueError) as error:
        return None, f"does not have the form of {SCHEMA}: {error}"
    if stored.content_sha256 != hashlib.sha256(_json(msgspec.structs.replace(stored, content_sha256=""))).hexdigest():
        return None, "was altered after it was written: its content does not have the hash that it states"
    return stored, ""
