"""The facts and figures of a machine when it qualified as a runner, and their changes since."""

from __future__ import annotations

from msgspec import Struct

from perfgate.core.runs import Fact, Problem


class Figure(Struct, frozen=True, array_like=True):
    """One measured figure of a machine, the median of its rounds, in a base unit: more is better."""

    value: float
    unit: str


class Qualification(Struct, frozen=True, forbid_unknown_fields=True):
    """A machine as its file has it: facts that cost nothing to read, and figures by name (`memory of GPU 0`).

    `time` is UTC, `YYYY-MM-DDTHH:MM:SSZ`. `renews` is True if the machine was changed on purpose, so that earlier
    qualifications of this host do not count.
    """

    schema: str
    tool: str
    host: str
    time: str
    facts: dict[str, str | int | float | bool]
    figures: dict[str, Figure]
    renews: bool = False
    content_sha256: str = ""

    def fault(self) -> str | None:
        """Return the fault of the file in words, or None. 1e300 is more than any machine has."""
        return None if all(0 < one.value < 1e300 for one in self.figures.values()) else "has an impossible figure"


class RunnerChange(Struct, frozen=True):
    """A fact or a figure that changed; only a figure has a unit, and a change as now/was - 1."""

    name: str
    was: Fact
    now: Fact
    unit: str = ""
    change: float | None = None


class QualificationReport(Struct, frozen=True):
    """The answer of `doctor --qualify`: the measurement `now`, and the qualifications `known` before, with the changes.

    `place` is the file with the measurement, if it was kept. `disturbed` names other users of the machine, or is empty;
    a disturbed measurement is not kept.
    """

    now: Qualification
    known: tuple[Qualification, ...]
    changes: tuple[RunnerChange, ...]
    place: str | None
    disturbed: str
    notes: tuple[str, ...]
    problems: tuple[Problem, ...]

    @property
    def exit_code(self) -> int:
        """0 if the machine qualified, so that the measurement was kept; or else 3."""
        return 0 if self.place else 3
