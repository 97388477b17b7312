"""The result of `perfgate doctor`: how noisy the machine is, what disturbs it, and what the rules need."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

#: A way to measure a change: one new run against five base runs, the same pinned to a processor, its CPU time instead
#: of its wall time, three new runs, or six pairs.
Way = Literal["separate", "pinned", "cpu-time", "three-runs", "pairs"]


class Floor(Struct, frozen=True):
    """The noise floor of one way to measure: the standard deviation of the change of an unchanged program, relative.

    `runs` is the number of runs or pairs that it was measured with.
    """

    way: Way
    noise: float
    runs: int


class MeasuredLoad(Struct, frozen=True):
    """The noise floors of one program, or of one metric of the user's command."""

    name: str
    floors: tuple[Floor, ...]
    is_users: bool = False

    def floor(self, way: Way) -> Floor | None:
        """Return the floor of a way, if it was measured."""
        return next((floor for floor in self.floors if floor.way == way), None)


class Disturbance(Struct, frozen=True):
    """Something that makes runs differ, or a condition that cannot be seen here (`is_unknown`).

    `does_disturb` is False for what is as it should be. `command` is a cure that a shell can run.
    """

    source: str
    text: str
    does_disturb: bool = False
    is_unknown: bool = False
    command: str | None = None


class RuleNeed(Struct, frozen=True):
    """The noise floor that a rule needs, and what the machine has; noise is relative.

    `floor` is None if the command has no such metric. `better` is the way with the smallest floor, if it is enough.
    """

    rule: str
    place: str
    needs: float
    floor: Floor | None
    #: The load or the metric whose floor it is.
    measured_on: str
    better: Floor | None = None

    @property
    def is_met(self) -> bool:
        """True if the machine is quiet enough, or nothing was measured."""
        return self.floor is None or self.floor.noise <= self.needs


class Examination(Struct, frozen=True):
    """Everything that `perfgate doctor` found."""

    cpus: int
    seconds: float
    loads: tuple[MeasuredLoad, ...]
    disturbances: tuple[Disturbance, ...]
    needs: tuple[RuleNeed, ...]
    #: The processor of pinned runs.
    pinned_to: int | None = None
    #: The user's command as a shell word list; empty without one.
    command: str = ""
    notes: tuple[str, ...] = ()
    #: True in a repository with commits: pairs can compare with one.
    has_commits: bool = False

    @property
    def exit_code(self) -> int:
        """3 if a rule asks for more than the machine can see, or if no rule could be compared; or else 0."""
        return 0 if all(need.is_met for need in self.needs) and self.is_compared else 3

    @property
    def is_compared(self) -> bool:
        """True without rules, or if one of them was compared with a floor."""
        return not self.needs or any(need.floor is not None for need in self.needs)
