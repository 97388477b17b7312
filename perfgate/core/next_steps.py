"""The next step after a verdict: what to do, who may do it, where, and the command. Every report shows the same one."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from datetime import date
from typing import Literal

from msgspec import Struct

#: The kind of a step, in one stable word. `other` is a step of an older report, which has only a sentence.
Action = Literal[
    "none",
    "find-cause",
    "run-again",
    "run-longer",
    "run-paired",
    "add-base-runs",
    "make-baseline",
    "approve",
    "allow",
    "merge",
    "fix-rule",
    "fix-input",
    "fix-machine",
    "other",
]


class NextStep(Struct, frozen=True):
    """One step for a person: `text` is a whole sentence, which names `who` and `where` unless they are `you`, `here`.

    `command` can be run at that place as it is; it is quoted for a POSIX shell.
    """

    action: Action = "none"
    text: str = ""
    who: str = "you"
    where: str = "here"
    command: str | None = None


#: No step is needed.
NO_STEP = NextStep()


class Acceptance(Struct, frozen=True):
    """The parts of the commands that accept a change of these runs, and the commit that decides."""

    #: The new runs, as typed.
    runs: tuple[str, ...] = ("RUN...",)
    #: The options that name the rules, the baselines and the suite, if they are not the default.
    place: tuple[str, ...] = ()
    #: The options that say how the runs are read.
    reading: tuple[str, ...] = ()
    #: The ref whose rules and baselines decide; None for the working tree.
    ref: str | None = None
    #: The measured commit, whole, and the last day of an allowance for it.
    head: str | None = None
    expires: date | None = None
    #: False if runs are compared without a store: nothing can be approved.
    has_store: bool = True

    @property
    def approve(self) -> str:
        """The command that approves the runs. It has no effect on a pull request if the baselines of a ref decide."""
        words = ["perfgate", "baseline", "approve", *self.runs, "--reason", "...", *self.place, *self.reading]
        return command_line(words)

    def reset_anchor(self) -> str:
        """Return the command that approves the runs and moves the anchor to them."""
        return f"{self.approve} --reset-anchor"

    def allow(self, metric: str, worse: float) -> str | None:
        """Return the command that allows the commit to be worse by a share; None if share or commit is unknown."""
        if self.head is None or not worse or not math.isfinite(worse):
            return None
        words = ["perfgate", "baseline", "allow", "--head", self.head, "--metric", metric]
        percent = math.ceil(round(100 * worse, 9))  # 100 * 0.07 is a little more than 7
        words += ["--up-to", f"{percent}%", "--reason", "..."]
        words += ["--expires", str(self.expires)] if self.expires else []
        return command_line([*words, *self.place])

    def step_of_others(self, action: Action, before: str, after: str) -> NextStep:
        """Return a step for a person who may write to the ref; its sentence is `before`, that person, `after`."""
        who = f"someone who may write to {self.ref}"
        return NextStep(action, f"{before}{who} {after}", who, f"on {self.ref}")


def command_line(words: Sequence[str]) -> str:
    """Return a command as the user would type it; `...` is a placeholder for the user's own text."""
    return " ".join(shlex.quote(word) if word != "..." else '"..."' for word in words)
