"""The advice of `init`: the first rules, the change that each rule detects, and the metrics without a rule."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from perfgate.core.summaries import Proof

#: `usual`: the usual value must not change. `cost`: the mean, which includes every stall, must not change.
#: `budget`: a limit that does not depend on the baseline. `sum`: the time of all calls in a step. `work`: the exact
#: work of a step on a device. `input`: the share of a step that waits for input. `cpu`: CPU time or instructions.
Purpose = Literal["usual", "cost", "budget", "sum", "work", "input", "cpu"]
#: A gate that detects only changes of a step beyond this share is useless.
BLIND = 0.5


class ProposedRule(Struct, frozen=True):
    """A first rule, and the numbers by which it was chosen."""

    purpose: Purpose
    sentence: str
    #: The judged statistic, such as `step.time median`, and its clause, such as `within 5%`.
    subject: str
    asks: str
    #: The smallest relative change for the worse that fails in 8 of 10 cases, with the runs that the gate makes.
    #: 0 if any change beyond the tolerance fails; None if it is unknown. For a budget: how far the limit is beyond the
    #: worst run.
    fails_from: float | None = None
    #: In percent; None for a limit.
    tolerance: int | None = None
    #: The relative standard deviation of one run; None if all runs have one value.
    noise: float | None = None
    #: True if the noise was calibrated.
    is_calibrated: bool = False
    #: The sentence of a limit that all runs pass, as a proposal.
    limit: str | None = None
    #: True if it only warns.
    warns: bool = False
    #: The change that exit 0 excludes, in percent, if it is not twice the tolerance.
    at_worst: int | None = None


class SteadierMetric(Struct, frozen=True):
    """CPU time or instructions that a rule names in place of a wall time, and the noise of that time.

    The noise of `metric` is in its `ProposedRule`.
    """

    metric: str
    instead_of: str
    #: The relative standard deviation of the wall time from run to run.
    noise_of_wall: float

    @property
    def reason(self) -> str:
        """The reason why a rule names this metric, in words."""
        unseen = "time that the program waits" if self.metric.endswith(".cpu_time") else "waiting and slower memory"
        return (
            f"{self.metric} replaces {self.instead_of}, which differs more from run to run:"
            f" by {100 * self.noise_of_wall:.2g}%, as a standard deviation. It does not see {unseen}."
        )


class LeftOut(Struct, frozen=True):
    """Metrics without a rule, and the reason."""

    reason: str
    metrics: tuple[str, ...]


class StepTime(Struct, frozen=True):
    """The metric that is the time of a step, and whether a rule compares it."""

    #: None if the runs do not have that time.
    metric: str | None
    #: The reason why no rule compares it; None if a rule does.
    trouble: str | None = None
    #: True if the reason is its noise, which pairs would cancel.
    is_noisy: bool = False


class Advice(Struct, frozen=True):
    """The proposals of `init` for some runs."""

    rules: tuple[ProposedRule, ...]
    left_out: tuple[LeftOut, ...]
    step: StepTime
    #: The number of runs.
    runs: int
    #: True if the gate measures base and new in pairs; False if it compares with stored runs.
    is_paired: bool = False
    #: The most new runs, or pairs, that the gate makes.
    most_runs: int = 3
    #: The metrics that are judged in place of a wall time.
    steadier: tuple[SteadierMetric, ...] = ()


class MeasuredMetric(Struct, frozen=True):
    """A metric of the runs of a command: its value in each run in base units, and how many values a run has."""

    name: str
    unit: str
    values: tuple[float, ...]
    count: int


class MeasuredCommand(Struct, frozen=True):
    """The command that `init` measured, its results in words (`found`), and the time of one check in `seconds`."""

    command: str
    found: str
    runs: int
    seconds: float
    metrics: tuple[MeasuredMetric, ...]
    #: The number of metrics that `metrics` leaves out.
    others: int
    #: How the gate was chosen, and what the user should know.
    notes: tuple[str, ...] = ()


class FirstGate(Struct, frozen=True):
    """The result of `init`: the advice, the files, and the next commands."""

    #: `written`, or `dry-run` without writing. `added`: rules were added to an existing file, or in a dry run
    #: `would-add`. `too-noisy`: nothing was written, because the user has to choose first.
    state: Literal["written", "dry-run", "too-noisy", "added", "would-add"]
    #: None without runs.
    advice: Advice | None
    #: The paths of the rule file and of the job of the CI system.
    rules: str
    workflow: str
    #: The files, with their texts in a dry run; stored runs have no text.
    files: tuple[tuple[str, str | None], ...]
    #: The runs and the options that say how they are read, as typed.
    runs: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    #: True for a workflow that makes pairs.
    is_paired: bool = False
    #: The command that makes the pairs, if the user gave it.
    command: str | None = None
    #: The number of stored runs that are missing until a check of one run can be green.
    missing_runs: int = 0
    #: Warnings.
    noticed: tuple[str, ...] = ()
    #: The measured command, if `init` ran one.
    measured: MeasuredCommand | None = None
    #: What the user has to do so that the CI system finds `workflow`; empty if nothing.
    found_by: str = ""
    #: The proof that each rule can fail, by runs that were made worse.
    proofs: tuple[Proof, ...] = ()

    @property
    def main_rule(self) -> ProposedRule | None:
        """The rule about the time of a step, else one about another time, else any; None if there is none.

        Rules that only warn, and those whose smallest change is unknown, or 0 (any change beyond the tolerance), do not
        count.
        """
        known = [rule for rule in self.advice.rules if rule.fails_from and not rule.warns] if self.advice else []
        of_times = [rule for rule in known if rule.purpose in ("usual", "sum", "cost")] or known
        step = self.advice.step.metric if self.advice else None
        of_step = [rule for rule in of_times if rule.subject.startswith(f"{step} ")]
        return next(iter(of_step or of_times), None)

    @property
    def finest_rule(self) -> ProposedRule | None:
        """The main rule, or the one about the CPU time if that is known to see smaller changes."""
        cpu = [rule for rule in (self.advice.rules if self.advice else ()) if rule.purpose == "cpu"]
        known = [rule for rule in (self.main_rule, *cpu) if rule and rule.fails_from is not None]
        return min(known, key=lambda rule: rule.fails_from or 0.0, default=None)

    @property
    def exit_code(self) -> int:
        """0, or 3 if the runs are too noisy to judge the time of a step."""
        return 3 if self.state == "too-noisy" else 0
