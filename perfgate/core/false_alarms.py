"""The false alarms of a rule: red verdicts although nothing had changed."""

from __future__ import annotations

from datetime import date

from msgspec import Struct


class FalseAlarms(Struct, frozen=True):
    """The false alarms of a rule about one metric, as a replay over remembered runs counts them.

    `low` and `high` are the one-sided 95 % bounds of their rate (Clopper and Pearson 1934).
    """

    rule: str
    #: The metric with its labels and statistic.
    series: str
    #: `SUITE/ENVIRONMENT` of the runs, and their branch (`""` if they do not tell it).
    place: str
    branch: str
    alarms: int
    runs: int
    low: float
    high: float
    #: The last day of the proposed quarantine; None if the alarms are too few for one.
    quarantine_until: date | None = None

    @property
    def reason(self) -> str:
        """The reason of the proposed quarantine."""
        return f"{self.alarms} of {self.runs} unchanged runs of {self.branch or 'the history'} were red"
