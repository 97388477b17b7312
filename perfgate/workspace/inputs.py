"""Reading: runs from files, directories and standard input, rule files, baselines, environment facts."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from perfgate.core import Fact, Location, Problem, Run, SourceFile, fact_text
from perfgate.core.resource_limits import Limits
from perfgate.documents.json import load_json
from perfgate.judge.health import THROTTLE
from perfgate.readers import FORMATS, join_runs, read, with_missing_ranks
from perfgate.readers.source import Source, TraceMode
from perfgate.workspace import surroundings
from perfgate.workspace.errors import Refused
from perfgate.workspace.options import typed_path
from perfgate.workspace.progress import watched

CHUNK = 1 << 18
#: A file of `--env`, in characters.
LONGEST_FACTS = 1 << 20


def shown_path(path: str) -> str:
    """How reports name a file: relative to the working directory, outside of it by its bare name."""
    relative = typed_path(path)
    return os.path.basename(relative) if relative.startswith("..") else relative


# --- runs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reading:
    """What the user says of how files are to be read."""

    format: str | None
    trace_mode: TraceMode
    limits: Limits


def read_runs(
    paths: Sequence[str], format: str | None = None, trace_mode: TraceMode = "corrected", *, as_given: bool = False
) -> tuple[Run, ...]:
    """Read every run named on the command line; what is wrong with a file is in its run's problems.

    Raises Refused for the same file given twice.
    """
    refuse_twice(paths)
    _check_format(format)
    how = Reading(format, trace_mode, surroundings.limits())
    read = [_read_argument(path, how, path if as_given else shown_path(path)) for path in paths]
    _refuse_copies(read)
    return tuple(run for runs in read for run in runs)


def _refuse_copies(read: Sequence[Sequence[Run]]) -> None:
    """A copy of a run is no second run. Raises Refused."""
    seen: dict[tuple[str, ...], str] = {}
    for runs in read:
        content = tuple(sorted({file.sha256 for run in runs for file in run.files}))
        if content and any(run.series for run in runs):
            if content in seen:
                raise Refused(f"{runs[0].source} holds the same bytes as {seen[content]}: one run may count once only")
            seen[content] = runs[0].source


def _check_format(name: str | None) -> None:
    known = [found.name for found in FORMATS]
    if name is not None and name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
        raise Refused(f"--format {name}: no such format; {hint}")


def refuse_twice(paths: Sequence[str]) -> None:
    """One run may count once only. Raises Refused for a file that is named twice, by whatever names."""
    seen: dict[str, str] = {}
    for path in paths:
        real = path if path == "-" else os.path.realpath(path)
        if real in seen:
            raise Refused(f"{path} is given twice: one run may count once only")
        seen[real] = path


def _read_argument(path: str, how: Reading, name: str) -> tuple[Run, ...]:
    if path != "-" and os.path.isdir(path):
        return (with_missing_ranks(_read_directory(Path(path), how, name)),)
    return tuple(map(with_missing_ranks, _read_file(path, how, name)))


def _read_file(path: str, how: Reading, name: str) -> tuple[Run, ...]:
    digest = hashlib.sha256()
    try:
        if path != "-" and stat.S_ISCHR(os.stat(path).st_mode):
            return (_unreadable(name, "is a device, which may never end: give a file, a pipe or -"),)
        if path == "-" and sys.stdin is None:
            return (_unreadable(name, "standard input is closed"),)
        with sys.stdin.buffer if path == "-" else open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size if path != "-" else 0
            chunks = watched(name, size, _chunks(file, digest))
            runs = read(Source(name, chunks, how.limits, how.trace_mode), how.format)
            for _ in chunks:  # the hash is of the whole file, wherever the reader stopped
                pass
    except OSError as error:
        return (_unreadable(name, f"cannot be read: {error.strerror or error}"),)
    files = (SourceFile(name, runs[0].format, digest.hexdigest()),)
    return tuple(replace(run, files=files) for run in runs)


def _chunks(file: object, digest: object) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):  # type: ignore[attr-defined]
        digest.update(chunk)  # type: ignore[attr-defined]
        yield chunk


def _unreadable(name: str, message: str) -> Run:
    return Run(name, "unknown", (), (Problem("error", message, Location(name)),))


def _read_directory(folder: Path, how: Reading, name: str) -> Run:
    """All files below a folder are one run; links that lead out of it are refused."""
    found = sorted(path for path in folder.rglob("*") if not path.name.startswith("."))
    files = [path for path in found if path.is_symlink() or not path.is_dir()]
    if not files:
        return _unreadable(name, "holds no files")
    real = folder.resolve()
    runs: list[Run] = []
    for path in files:
        shown = f"{name}/{path.relative_to(folder).as_posix()}"
        if not path.resolve().is_relative_to(real):
            runs.append(_unreadable(shown, "is a link that leads out of the folder"))
        elif not path.is_file():
            runs.append(_unreadable(shown, "is no regular file"))
        else:
            runs += _read_file(str(path), how, shown)
    return join_runs(name, runs)


# --- rules -------------------------------------------------------------------------------------------------------


def rule_files(paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Every rule file below the paths as (name, bytes). Raises Refused where there is none."""
    longest = surroundings.limits().rule_bytes
    for path in paths:
        found = _below(Path(path)) if os.path.isdir(path) else [Path(path)]
        if not found:
            raise Refused(f"{path} holds no rule file (*.yaml)")
        for file in found:
            try:
                if file.exists() and not file.is_file():
                    raise Refused(f"{shown_path(str(file))} is no regular file")
                with file.open("rb") as opened:
                    yield shown_path(str(file)), opened.read(longest + 1)
            except OSError as error:
                raise Refused(
                    f"{path}: cannot read the rules: {error.strerror or error}; give their place with --rules"
                ) from None


def _below(folder: Path) -> list[Path]:
    """The rule files below a folder. Raises Refused for a link that leads out of it."""
    real = folder.resolve()
    found = sorted(path for path in folder.rglob("*") if path.suffix in (".yaml", ".yml") or path.is_symlink())
    for path in found:
        if path.is_symlink() and not path.resolve().is_relative_to(real):
            raise Refused(f"{shown_path(str(path))} is a link that leads out of {folder}: put the file itself there")
    return [path for path in found if path.suffix in (".yaml", ".yml")]


# --- facts -------------------------------------------------------------------------------------------------------


def read_facts(options: Iterable[str]) -> dict[str, Fact]:
    """Environment facts from `--env`: each a JSON file of facts, or KEY=VALUE. Raises Refused."""
    facts: dict[str, Fact] = {}
    for option in options:
        name, sign, value = option.partition("=")
        if sign and name and not os.path.exists(option):
            if not value:
                raise Refused(f"--env {option}: the fact has no value")
            given: Mapping[str, Fact] = {name: _scalar(value)}
        else:
            given = _facts_file(option)
        facts = {**facts, **given, **_throttling(facts, given)}
    return facts


def _throttling(known: Mapping[str, Fact], given: Mapping[str, Fact]) -> dict[str, Fact]:
    """A GPU that was slowed down at any time was slowed down: of two readings, both count."""
    if THROTTLE not in known or THROTTLE not in given:
        return {}
    return {THROTTLE: ",".join(sorted({*str(known[THROTTLE]).split(","), *str(given[THROTTLE]).split(",")}))}


def _scalar(text: str) -> Fact:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (int, float, bool)) and fact_text(value) == text else text


def _facts_file(path: str) -> dict[str, Fact]:
    try:
        with open(path, encoding="utf-8") as file:
            document = load_json(file.read(LONGEST_FACTS), path)
    except (OSError, ValueError) as error:
        raise Refused(f"--env {path}: not a file of facts in JSON, nor KEY=VALUE ({error})") from None
    if document.problems:
        raise Refused(f"--env {document.problems[0]}")
    facts = document.data
    if not isinstance(facts, dict) or not all(isinstance(v, (str, int, float, bool)) for v in facts.values()):
        raise Refused(f"--env {path}: facts are a JSON object of names and plain values")
    return facts


def merge_facts(
    runs: Iterable[Run], given: Mapping[str, Fact], identity: Sequence[str]
) -> tuple[dict[str, Fact], list[Problem]]:
    """The facts of all runs and of `--env`, which wins, and is said to; runs whose identity differs are an error."""
    facts: dict[str, Fact] = {}
    problems: dict[tuple[str, str], Problem] = {}
    for run in runs:
        for name, value in run.environment.items():
            held = given.get(name, facts.get(name, value))
            counts = name in identity or (name in given and name != THROTTLE)  # of which both readings count
            if counts and fact_text(held) != fact_text(value):
                problems.setdefault((name, fact_text(value)), _clash(run, name, held, name in given))
            facts.setdefault(name, value)
    slowed = _throttling(facts, given)
    return dict(sorted({**facts, **given, **slowed}.items())), list(problems.values())


def _clash(run: Run, name: str, held: Fact, is_given: bool) -> Problem:
    """A run that says otherwise than another one, or than `--env`: nobody may hide a machine behind another's name."""
    values = f"{fact_text(held)} and {fact_text(run.environment[name])}"
    if not is_given:
        message = f"the runs are of different environments: {name} is {values}"
        return Problem("error", message, Location(run.source))
    message = (
        f"--env and the run contradict each other: {name} is {values}; --env counts, so leave it out if it is wrong"
    )
    return Problem("warning", message, Location(run.source))
