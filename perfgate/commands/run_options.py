"""The options of `perfgate run` about what is run, and how often."""

from __future__ import annotations

import click
from msgspec import Struct

from perfgate.measuring.paired_run import PairRequest
from perfgate.measuring.pinning import Cpus, parse_cpus
from perfgate.measuring.until_settled import MeasuringOptions, StopRule


def processors(text: str) -> Cpus:
    """Return the processors of `0,2` or `4-7`. Raises BadParameter."""
    try:
        return parse_cpus(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


class RunOptions(Struct, frozen=True):
    """The options about what is run, and how often."""

    command: tuple[str, ...]
    results: tuple[str, ...]
    most_runs: int
    every: bool
    reruns: int | None
    measured: tuple[str, ...]
    time_budget: float | None
    timeout: float
    keep: str
    paired: bool
    attribute: bool
    base_in: tuple[str, ...] | None
    new_in: tuple[str, ...] | None
    base_ref: str | None
    base: tuple[str, ...] | None
    new: tuple[str, ...] | None
    build: tuple[str, ...] | None
    hook_timeout: float
    cpus: Cpus | None
    processes: int

    def measuring(self) -> MeasuringOptions:
        """Return how often to measure. Raises UsageError."""
        stop: StopRule = "never" if self.every else "final"
        most = self.most_runs
        if self.reruns is None:
            if self.measured:
                raise click.UsageError("--measured needs --reruns")
        elif self.paired or self.attribute or self.every or not self.results:
            raise click.UsageError("--reruns needs --results, and excludes --paired, --attribute and --every")
        else:
            stop, most = "unless-suspect", 1 + self.reruns
        times = self.time_budget, self.timeout
        fewest = 2 if self.attribute else 1
        return MeasuringOptions(self.results, most, stop, *times, self.keep, self.cpus, fewest_runs=fewest)

    def pairs(self, format: str | None) -> PairRequest | None:
        """Return the two sides of pairs, or None without --paired and --attribute. Raises UsageError."""
        given = {"base-ref": self.base_ref, "base": self.base, "new": self.new, "build": self.build}
        if not (self.paired or self.attribute):
            for name in (name for name, value in given.items() if value):
                raise click.UsageError(f"--{name} needs --paired" + ("" if name == "build" else " or --attribute"))
        return self.sides(format) if self.paired or self.attribute else None

    def sides(self, format: str | None) -> PairRequest:
        """Return the two sides of pairs, as far as the options name them. Raises UsageError."""
        option = "--attribute" if self.attribute else "--paired"
        if self.base_ref is not None and self.base is not None:
            raise click.UsageError(f"{option} has one base: --base-ref GITREF, or --base COMMAND")
        if self.new and self.command:
            raise click.UsageError(f"{option} has one new side: a command after --, or --new COMMAND")
        sides = self.base or (), self.new or self.command, self.base_ref, self.build or ()
        return PairRequest(*sides, self.hook_timeout, self.processes, format, environments=self._environments())

    def _environments(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Return the commands of the old and the new environment, or None without --attribute. Raises UsageError."""
        if self.attribute == (self.base_in is None and self.new_in is None):
            if self.attribute:
                raise click.UsageError("--attribute needs the command of an environment: --base-in or --new-in")
            raise click.UsageError("--base-in and --new-in need --attribute")
        if self.attribute and self.build:
            raise click.UsageError("--attribute excludes --build: two environments use one folder; build in COMMAND")
        if self.attribute and self.base_in == self.new_in:
            raise click.UsageError("--base-in and --new-in are the same: name two environments, or use --paired")
        return (self.base_in or (), self.new_in or ()) if self.attribute else None
