"""The form of a stored prior, `perfgate.prior/1`: the run-to-run noise that `perfgate calibrate` measured.

It stands beside the levels of its environment, `SUITE/ENVIRONMENT/prior.json`, for noise belongs to a machine and not
to a level; the noise between pairs stands in a file for each way in which they are made, `prior-in-turn.json`. The
bytes are deterministic, as those of a baseline are: fields and rows in a fixed order, and `content_sha256` is the
SHA-256 of the file's own JSON without that field.
"""

from __future__ import annotations

import hashlib
import math

import msgspec

from perfgate.baselines.files import StoredSource
from perfgate.core import CalibratedPrior, Key, Location, Problem
from perfgate.documents.json import load_json

SCHEMA = "perfgate.prior/1"
#: Stands for single runs, and is left out of the file.
NO_PAIRS = msgspec.UNSET


class StoredPrior(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The noise of one metric: a relative standard deviation `s0`, worth `d0` runs, measured on `runs` runs."""

    metric: str
    labels: dict[str, str]
    statistic: str
    rank: str
    s0: float
    d0: float
    runs: int


class PriorFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that one calibration found, and what it was found from."""

    schema: str
    tool: str
    suite: str
    time: str
    identity: dict[str, str | int | float | bool | None]
    sources: list[StoredSource]
    priors: list[StoredPrior]
    content_sha256: str = ""
    #: How the pairs were made, of which this is the noise; not there for the noise between single runs.
    pairing: str | msgspec.UnsetType = NO_PAIRS

    @property
    def between(self) -> str:
        """What differs by so much, in words."""
        return f"pairs ({self.pairing})" if self.pairing else "single runs"

    @property
    def calibrated(self) -> tuple[CalibratedPrior, ...]:
        """The priors as the judge looks them up."""
        return tuple(
            CalibratedPrior(
                key=Key(row.metric, tuple(sorted(row.labels.items()))),
                statistic=row.statistic,
                rank=row.rank,
                s0=row.s0,
                d0=row.d0,
                runs=row.runs,
                pairing=self.pairing or None,
            )
            for row in self.priors
        )


def stored_prior(prior: CalibratedPrior) -> StoredPrior:
    """A prior as its file holds it."""
    key = prior.key
    return StoredPrior(key.metric, dict(key.labels), prior.statistic, prior.rank, prior.s0, prior.d0, prior.runs)


def encode(stored: PriorFile) -> bytes:
    """The bytes of the file, with its own hash in it."""
    return _json(msgspec.structs.replace(stored, content_sha256=_digest(stored)))


def _digest(stored: PriorFile) -> str:
    return hashlib.sha256(_json(msgspec.structs.replace(stored, content_sha256=""))).hexdigest()


def _json(stored: PriorFile) -> bytes:
    return msgspec.json.format(msgspec.json.encode(stored), indent=2) + b"\n"


def decode(name: str, data: bytes) -> tuple[PriorFile | None, list[Problem]]:
    """Read the file; a damaged, altered or newer one gives a problem that names it, and None."""
    try:
        return _decoded(name, data), []
    except ValueError as error:  # text that is not UTF-8, and every reason of msgspec, are kinds of it
        message = f"{error}; restore it from git, or measure the noise again with perfgate calibrate"
        return None, [Problem("error", message, Location(name))]


def _decoded(name: str, data: bytes) -> PriorFile:
    """The file. Raises ValueError, which says what is wrong with it."""
    document = load_json(data.decode("utf-8"), name)
    if document.problems:
        raise ValueError(f"is damaged: {document.problems[0].message}")
    schema = document.data.get("schema") if isinstance(document.data, dict) else None
    if schema != SCHEMA:
        raise ValueError(f"has the schema {schema!r}; this perfgate reads {SCHEMA}")
    stored = msgspec.convert(document.data, PriorFile)
    if stored.content_sha256 != _digest(stored):
        raise ValueError("was altered after it was written: its content does not have the hash that it states")
    names = [(prior.key, prior.statistic, prior.rank) for prior in stored.calibrated]
    if len(set(names)) < len(names) or not all(map(_is_sound, stored.priors)):
        raise ValueError("holds a metric twice, or noise that is no positive number")
    return stored


def _is_sound(row: StoredPrior) -> bool:
    return 0 < row.s0 < math.inf and 0 < row.d0 < math.inf and row.runs > 0
