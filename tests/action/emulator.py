"""Execute a composite action as the runner of GitHub Actions does: a port of the parts that decide in `action.yml`.

Ported from actions/runner: inputs and their defaults (`ActionManifestManager`), expressions as far as the actions here
use them, `if` and `continue-on-error` of steps, bash as the runner starts it (`ScriptHandlerHelpers`), the files that
steps write (`FileCommandManager`), and both parsers of commands in the log (`ActionCommandManager`). Not ported:
other shells, containers, and nested actions: a step with `uses` does nothing, unless `done` has its outputs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent

#: In bytes: a longer summary of one step is dropped with an error.
LONGEST_SUMMARY = 1 << 20
#: Commands that only files may give today.
REMOVED = {"set-env", "add-path"}
LEVELS = {"error", "warning", "notice"}
KNOWN = {*LEVELS, *REMOVED, "set-output", "save-state", "add-mask", "add-matcher", "remove-matcher", "debug", "echo"}
KNOWN |= {"group", "endgroup", "stop-commands"}


@dataclass
class Step:
    """The result of one step: `outcome` before continue-on-error, `conclusion` after it."""

    outcome: str = "skipped"
    conclusion: str = "skipped"
    outputs: dict[str, str] = field(default_factory=dict)
    summary: str = ""
    log: str = ""
    annotations: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    #: Every other command that the runner obeyed, by its name.
    obeyed: list[str] = field(default_factory=list)


@dataclass
class Result:
    """The result of the action."""

    conclusion: str
    outputs: dict[str, str]
    steps: dict[str, Step]

    @property
    def log(self) -> str:
        return "".join(step.log for step in self.steps.values())


def run_action(
    folder: Path,
    inputs: Mapping[str, str],
    workspace: Path,
    environment: Mapping[str, str],
    github: Mapping[str, Any],
    done: Mapping[str, Mapping[str, str]] | None = None,
) -> Result:
    """Run the action in a folder. `done` are steps that are not run, by their id, with the outputs they would have."""
    action = yaml.safe_load((folder / "action.yml").read_text(encoding="utf-8"))
    assert action["runs"]["using"] == "composite"
    assert not set(inputs) - set(action["inputs"]), "the runner warns of inputs that the action does not have"
    context: dict[str, Any] = {"github": github, "steps": {}, "runner": {"os": "Linux"}}
    declared = {name: str(told.get("default", "")) for name, told in action["inputs"].items()}
    defaults = {name: expand(text, context) for name, text in declared.items() if name not in inputs}
    context["inputs"] = {**defaults, **inputs}
    environment = {**environment, "GITHUB_ACTION_PATH": str(folder), "GITHUB_WORKSPACE": str(workspace)}
    steps: dict[str, Step] = {}
    status = "success"
    for number, spec in enumerate(action["runs"]["steps"]):
        name = spec.get("id", f"__{number}")
        step = Step()
        if done and name in done:
            step = Step("success", "success", dict(done[name]))
        elif evaluate(condition(spec.get("if")), {**context, "status": status}):
            step = (
                Step("success", "success") if "uses" in spec else run_step(spec, context, workspace, dict(environment))
            )
        steps[name] = step
        context["steps"][name] = {"outputs": step.outputs, "outcome": step.outcome, "conclusion": step.conclusion}
        if step.conclusion == "failure":
            status = "failure"
    outputs = {name: expand(told["value"], context) for name, told in action.get("outputs", {}).items()}
    return Result(status, outputs, steps)


def condition(text: str | None) -> str:
    """A condition that asks for no status means: and all before it succeeded."""
    text = re.sub(r"^\$\{\{(.*)\}\}$", r"\1", str(text or "success()").strip()).strip()
    asks = re.search(r"\b(always|success|failure|cancelled)\(\)", text)
    return text if asks else f"success() && ({text})"


def run_step(spec: Mapping[str, Any], context: Mapping[str, Any], workspace: Path, environment: dict[str, str]) -> Step:
    """One `run` step: its script in a file, its variables, its working directory, its files, and its log."""
    assert spec["shell"] == "bash", "other shells are not ported"
    scratch = Path(environment["RUNNER_TEMP"])
    files = {}
    for name in ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"):
        files[name] = scratch / f"_runner_{name.lower()}"
        files[name].write_text("")
    environment |= {name: expand(str(value), context) for name, value in spec.get("env", {}).items()}
    environment |= {name: str(path) for name, path in files.items()}
    script = scratch / "_runner_script.sh"
    script.write_text(expand(spec["run"], context))
    place = workspace / expand(str(spec.get("working-directory", ".")), context)
    ended = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
        cwd=place,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    step = Step("failure" if ended.returncode else "success")
    step.log = ended.stdout.decode("utf-8", "replace")
    Commands(step).read(step.log)
    step.outputs |= parse_file(files["GITHUB_OUTPUT"].read_text(encoding="utf-8"))
    summary = files["GITHUB_STEP_SUMMARY"].read_bytes()
    assert len(summary) <= LONGEST_SUMMARY, "the runner drops such a summary"
    step.summary = summary.decode("utf-8")
    forgiven = expand(str(spec.get("continue-on-error", "false")), context) == "true"
    step.conclusion = "success" if forgiven else step.outcome
    return step


# --- what a step writes ------------------------------------------------------------------------------------------


def parse_file(text: str) -> dict[str, str]:
    """A file of outputs or variables: `name=value`, or `name<<DELIMITER`, lines, and the delimiter alone."""
    found: dict[str, str] = {}
    lines = iter(re.split(r"\r\n|\n", text))
    for line in lines:
        if not line:
            continue
        equals, heredoc = line.find("="), line.find("<<")
        if equals >= 0 and (heredoc < 0 or equals < heredoc):
            name, _, value = line.partition("=")
            assert name, f"invalid format {line!r}"
            found[name] = value
        else:
            assert heredoc > 0, f"invalid format {line!r}"
            name, _, delimiter = line.partition("<<")
            assert delimiter, f"invalid format {line!r}"
            value_lines = []
            for value_line in lines:
                if value_line == delimiter:
                    break
                value_lines.append(value_line)
            else:
                raise AssertionError(f"the delimiter {delimiter!r} is missing")
            found[name] = "\n".join(value_lines)
    return found


class Commands:
    """The commands in a log. Every line is held against today's form first, and then against the old one."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.resume: str | None = None

    def read(self, log: str) -> None:
        for line in re.split(r"\r\n|\r|\n", log):
            command = self.today(line) or self.old(line)
            if command:
                self.obey(*command)

    @staticmethod
    def names(word: str, resume: str | None) -> bool:
        return word in KNOWN or word == resume

    def today(self, line: str) -> tuple[str, dict[str, str], str] | None:
        """`::name key=value,key=value::data`, where only blanks stand before it."""
        line = line.strip()
        end = line.find("::", 2)
        if not line.startswith("::") or end < 0:
            return None
        name, _, rest = line[2:end].partition(" ")
        if not self.names(name, self.resume):
            return None
        pairs = (pair.partition("=") for pair in rest.strip().split(",") if pair)
        properties = {key.strip(): unescape(value, ":,") for key, _, value in pairs if value}
        return name, properties, unescape(line[end + 2 :])

    def old(self, line: str) -> tuple[str, dict[str, str], str] | None:
        """`##[name key=value;key=value]data`, anywhere in a line."""
        start = line.find("##[")
        end = line.find("]", start)
        if start < 0 or end < 0:
            return None
        name, _, rest = line[start + 3 : end].partition(" ")
        if not self.names(name, self.resume):
            return None
        pairs = (pair.partition("=") for pair in rest.split(";") if pair)
        return name, {key.strip(): value for key, _, value in pairs if value}, line[end + 1 :]

    def obey(self, name: str, properties: dict[str, str], data: str) -> None:
        if self.resume is not None:
            self.resume = None if name == self.resume else self.resume
        elif name == "stop-commands":
            assert data, "the runner fails without a token"
            assert data not in KNOWN, "the runner fails on a token that is a command"
            self.resume = data
        elif name in LEVELS:
            self.step.annotations.append((name, data, properties))
        elif name not in ("group", "endgroup"):
            if name == "set-output":
                self.step.outputs[properties["name"]] = data
            self.step.obeyed.append(name)


def unescape(text: str, more: str = "") -> str:
    for char in more:
        text = text.replace(f"%{ord(char):02X}", char)
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


# --- expressions -------------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"\s*(?:('(?:[^']|'')*')|(\d+(?:\.\d+)?)|(&&|\|\||==|!=|!|[(),])|([A-Za-z_][\w-]*(?:\.[\w*-]+)*))")


def expand(text: str, context: Mapping[str, Any]) -> str:
    """Text with every `${{ }}` in it replaced by its value."""
    return re.sub(r"\$\{\{(.*?)\}\}", lambda found: shown(evaluate(found[1], context)), text, flags=re.DOTALL)


def shown(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def evaluate(text: str, context: Mapping[str, Any]) -> Any:
    """The value of an expression: operators by their rank, `||` and `&&` giving an operand, as in JavaScript."""
    tokens: list[str] = []
    position = 0
    text = text.strip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        assert found, f"not ported: {text[position:]!r}"
        tokens.append(next(filter(None, found.groups())))
        position = found.end()
    value = _either(tokens, context)
    assert not tokens, f"not ported: {tokens}"
    return value


def _either(tokens: list[str], context: Mapping[str, Any]) -> Any:
    value = _both(tokens, context)
    while tokens[:1] == ["||"]:
        tokens.pop(0)
        other = _both(tokens, context)
        value = value or other
    return value


def _both(tokens: list[str], context: Mapping[str, Any]) -> Any:
    value = _compared(tokens, context)
    while tokens[:1] == ["&&"]:
        tokens.pop(0)
        other = _compared(tokens, context)
        value = value and other
    return value


def _compared(tokens: list[str], context: Mapping[str, Any]) -> Any:
    value = _single(tokens, context)
    while tokens[:1] in (["=="], ["!="]):
        sign = tokens.pop(0)
        other = _single(tokens, context)
        value = (shown(value).lower() == shown(other).lower()) == (sign == "==")
    return value


def _single(tokens: list[str], context: Mapping[str, Any]) -> Any:
    token = tokens.pop(0)
    if token == "!":
        return not _single(tokens, context)
    if token == "(":
        value = _either(tokens, context)
        assert tokens.pop(0) == ")"
        return value
    if token.startswith("'"):
        return token[1:-1].replace("''", "'")
    if token[0].isdigit():
        return float(token) if "." in token else int(token)
    if tokens[:1] == ["("]:
        return _call(token, tokens, context)
    return {"true": True, "false": False, "null": None}.get(token, _look_up(token, context))


def _call(name: str, tokens: list[str], context: Mapping[str, Any]) -> Any:
    tokens.pop(0)
    arguments = []
    while tokens[0] != ")":
        arguments.append(_either(tokens, context))
        if tokens[0] == ",":
            tokens.pop(0)
    tokens.pop(0)
    status = context.get("status", "success")
    functions: dict[str, Callable[..., Any]] = {
        "always": lambda: True,
        "success": lambda: status == "success",
        "failure": lambda: status == "failure",
        "cancelled": lambda: False,
        "toJSON": lambda value: json.dumps(value, indent=2),
        "format": lambda text, *values: re.sub(r"\{(\d+)\}", lambda m: shown(values[int(m[1])]), text),
    }
    return functions[name](*arguments)


def _look_up(path: str, context: Mapping[str, Any]) -> Any:
    """A property of a context; what is absent is nothing, as the runner has it."""
    value: Any = context
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def clean_environment(temp: Path, **more: str) -> dict[str, str]:
    """The variables of a job: little more than PATH, and nothing of the surroundings of the tests."""
    temp.mkdir(parents=True, exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, "CI": "true", "GITHUB_ACTIONS": "true", "RUNNER_TEMP": str(temp), **more}


def installed_by(python: str) -> dict[str, dict[str, str]]:
    """The steps of an installation as done, for `run_action`."""
    return {"key": {}, "install": {"python": python}}


def make_python(folder: Path) -> str:
    """A Python that holds this perfgate, as the action's step of installation makes one, without installing again."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    places = [str(ROOT), *(path for path in sys.path if path.endswith("site-packages"))]
    (site / "perfgate-of-the-tests.pth").write_text("".join(f"{place}\n" for place in places))
    return str(folder / "bin" / "python")
