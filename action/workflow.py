"""Talk to the runner of GitHub Actions: inputs, workflow commands on stdout, outputs in a file.

The formats are those of `ActionCommand.cs` and `FileCommandManager.cs` of actions/runner.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

#: Files that only the action's own scripts may write to. A measured command could forge an output there.
FILES = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")


class Refused(Exception):
    """An error that ends a script: what is wrong and what to do, and the exit code in the sense of `perfgate`."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def given(name: str) -> str:
    """Return an input, by its name in `action.yml`."""
    return os.environ.get("INPUT_" + name.upper().replace("-", "_"), "").strip()


def lines(name: str) -> list[str]:
    """Return an input with several values, one per line."""
    return [line.strip() for line in given(name).splitlines() if line.strip()]


def truth(name: str) -> bool:
    """Return an input that is true or false. Raises Refused."""
    text = given(name).lower() or "false"
    if text not in ("true", "false"):
        raise Refused(f"the input {name} is true or false, not {text!r}")
    return text == "true"


def tell(level: str, text: str) -> None:
    """Print a workflow command: `error`, `warning` and `notice` annotate the job."""
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    print(f"::{level}::{escaped}", flush=True)


def leads_out(place: Path) -> bool:
    """Return whether a link in a path of the workspace leads out of it: a pull request can commit one."""
    top = Path(os.path.realpath(os.environ.get("GITHUB_WORKSPACE") or "."))
    named, real = Path(os.path.abspath(place)), Path(os.path.realpath(place))
    is_inside = top in (Path(os.path.realpath(folder)) for folder in named.parents)
    return is_inside and (not real.is_relative_to(top) or ".git" in real.relative_to(top).parts)


@contextmanager
def without_commands() -> Iterator[None]:
    """Stop the runner from obeying workflow commands in the output of this block."""
    token = uuid.uuid4().hex
    tell("stop-commands", token)
    try:
        yield
    finally:
        tell(token, "")


def write_outputs(outputs: Mapping[str, str]) -> None:
    """Set outputs of the step. Each ends with a random delimiter, so that no value can begin another output."""
    place = os.environ.get("GITHUB_OUTPUT")
    if not place:
        return
    try:
        with open(place, "a", encoding="utf-8", newline="\n") as file:
            for name, value in outputs.items():
                delimiter = f"perfgate-{uuid.uuid4().hex}"
                file.write(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")
    except OSError as error:  # the exit code is the answer, and does not change
        tell("warning", f"the outputs of the step could not be written: {error}")


def for_others() -> dict[str, str]:
    """Return the environment for other commands: without inputs, tokens and the runner's files."""
    hidden = {*FILES, "GITHUB_TOKEN"}
    return {name: value for name, value in os.environ.items() if name not in hidden and not name.startswith("INPUT_")}


def perfgate(*words: str) -> list[str]:
    """Return the words of a perfgate command that imports nothing from the working directory."""
    return [sys.executable, "-I", "-m", "perfgate", *words]
