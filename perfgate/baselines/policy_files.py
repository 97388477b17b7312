"""The files of a store beside its runs: calibrated priors and allowances. Each contains its own hash.

`perfgate.prior/1` is the noise that `perfgate rules --calibrate` measured. It belongs to a machine and not to a level.

`perfgate.allowance/1` says how much worse a commit may be in a metric, and who allowed it. `check --policy-ref` reads
it from the base, so that a pull request cannot write its own. It names one commit: a later commit needs another file.
"""

from __future__ import annotations

from datetime import date

import msgspec

from perfgate.baselines.files import StoredSource
from perfgate.core import Allowance, CalibratedPrior, Key
from perfgate.documents.structs import SignedFile

#: The pairing of single runs, which the file leaves out.
NO_PAIRS = msgspec.UNSET


class StoredPrior(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The noise of a metric: its relative standard deviation `s0` has `d0` prior degrees of freedom."""

    metric: str
    labels: dict[str, str]
    statistic: str
    rank: str
    s0: float
    d0: float
    #: The number of runs, or pairs, that it was measured on.
    runs: int

    @classmethod
    def of(cls, prior: CalibratedPrior) -> StoredPrior:
        """Return a prior as its file contains it."""
        key = prior.key
        return cls(key.metric, dict(key.labels), prior.statistic, prior.rank, prior.s0, prior.d0, prior.runs)


class PriorFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a prior: all that a calibration found, and the files that it was found in."""

    schema: str
    tool: str
    suite: str
    time: str
    identity: dict[str, str | int | float | bool | None]
    sources: list[StoredSource]
    priors: list[StoredPrior]
    content_sha256: str = ""
    #: How the pairs were made, if this is the noise between pairs.
    pairing: str | msgspec.UnsetType = NO_PAIRS

    @property
    def calibrated(self) -> tuple[CalibratedPrior, ...]:
        """The priors as the judge looks them up."""
        pairing = self.pairing or None
        rows = ((Key(row.metric, tuple(sorted(row.labels.items()))), row) for row in self.priors)
        return tuple(CalibratedPrior(key, r.statistic, r.rank, r.s0, r.d0, r.runs, pairing) for key, r in rows)

    def fault(self) -> str | None:
        """Return what is wrong with the rows, or None."""
        names = {(prior.key, prior.statistic, prior.rank) for prior in self.calibrated}
        sound = all(1e-100 < row.s0 < 1e100 and 1e-100 < row.d0 < 1e100 and row.runs > 0 for row in self.priors)
        if len(names) < len(self.priors) or not sound:
            return "has a metric twice, or noise that is not a positive number"
        return None


class AllowanceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of an allowance."""

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
    #: The last day on which it counts, YYYY-MM-DD.
    expires: str
    content_sha256: str = ""

    def fault(self) -> str | None:
        """Return what is wrong with the date, or None."""
        try:
            self.allowance()
        except ValueError as error:
            return f"does not have the form of {self.schema}: {error}"
        return None

    def allowance(self) -> Allowance:
        """Return the allowance as the judge uses it. Raises ValueError for a wrong date."""
        return Allowance(self.metric, self.up_to, self.by, self.reason, date.fromisoformat(self.expires))


PRIOR = SignedFile("perfgate.prior/1", PriorFile, PriorFile.fault, "measure it again: perfgate rules --calibrate")
ALLOWANCE = SignedFile("perfgate.allowance/1", AllowanceFile, AllowanceFile.fault, "remove it and allow again")
