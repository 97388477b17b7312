"""What a script tells the runner of GitHub Actions: commands on stdout, outputs in a file.

The form of both is that of the runner (`ActionCommand.cs`, `FileCommandManager.cs` of actions/runner).
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

#: What only the action's own scripts may write to: a command that is measured could forge an output otherwise.
FILES = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")


class Refused(Exception):
    """What ends a script early: what is wrong and what to do, and the exit code, as `perfgate` uses them."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def given(name: str) -> str:
    """An input, by its name in `action.yml`."""
    return os.environ.get("INPUT_" + name.upper().replace("-", "_"), "").strip()


def lines(name: str) -> list[str]:
    """An input that holds several values, one a line."""
    return [line.strip() for line in given(name).splitlines() if line.strip()]


def truth(name: str) -> bool:
    """An input that is true or false. Raises Refused."""
    text = given(name).lower() or "false"
    if text not in ("true", "false"):
        raise Refused(f"the input {name} is true or false, not {text!r}")
    return text == "true"


def tell(level: str, text: str) -> None:
    """Print a command with text: `error`, `warning` and `notice` annotate the job, `group` folds its log."""
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    print(f"::{level}::{escaped}", flush=True)


@contextmanager
def folded(title: str) -> Iterator[None]:
    """Fold what is printed within into one line of the log."""
    tell("group", title)
    try:
        yield
    finally:
        tell("endgroup", "")


@contextmanager
def without_commands() -> Iterator[None]:
    """Let nothing that is printed within be taken for a command, whatever names it holds."""
    token = uuid.uuid4().hex
    tell("stop-commands", token)
    try:
        yield
    finally:
        tell(token, "")


def write_outputs(outputs: Mapping[str, str]) -> None:
    """Set outputs of the step; a delimiter that nobody can guess ends each, so that no value can begin another."""
    place = os.environ.get("GITHUB_OUTPUT")
    if not place:
        return
    try:
        with open(place, "a", encoding="utf-8", newline="\n") as file:
            for name, value in outputs.items():
                delimiter = f"perfgate-{uuid.uuid4().hex}"
                file.write(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")
    except OSError as error:  # the exit code is the answer, and stays
        tell("warning", f"the outputs of the step could not be written: {error}")


def for_others() -> dict[str, str]:
    """The environment of a command that is not the action's own: without inputs, tokens, and the runner's files."""
    hidden = {*FILES, "GITHUB_TOKEN"}
    return {name: value for name, value in os.environ.items() if name not in hidden and not name.startswith("INPUT_")}


def perfgate(*words: str) -> list[str]:
    """A command of perfgate, which imports nothing from the working directory."""
    return [sys.executable, "-I", "-m", "perfgate", *words]
