"""What one clause of a rule finds for one metric."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from perfgate.core import Outcome
from perfgate.core.details import VerdictDetails


@dataclass(frozen=True, slots=True)
class Finding:
    """An outcome with its words, before policies such as `on_missing`; `fields` are further fields of the verdict."""

    outcome: Outcome
    reason: str
    message: str
    next_step: str
    fields: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    #: The runs behind the answer, where a report is to show them.
    evidence: VerdictDetails | None = None
    #: Of a change: how likely data this bad are when the truth is the tolerance (see `families`).
    p_beyond: float | None = None


class Undecidable(Exception):
    """Why a clause cannot be judged: the message, the reason in one word, and the next step."""

    def __init__(self, reason: str, message: str, next_step: str, **fields: Any) -> None:
        super().__init__(message)
        self.reason = reason
        self.next_step = next_step
        #: Fields of the verdict that are known all the same.
        self.fields = fields

    def finding(self) -> Finding:
        """The error that a verdict shows."""
        return Finding("error", self.reason, str(self), self.next_step, self.fields)
