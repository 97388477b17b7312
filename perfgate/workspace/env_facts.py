"""Facts of the environment, from `--env` and from runs; and the machine's metrics, from the file beside a run."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import numpy as np
from msgspec.structs import replace

from perfgate.core import Fact, Key, Location, Problem, Run, Series, fact_text, read_only
from perfgate.core.runs import OF_BASE, THROTTLE, same_fact
from perfgate.core.wording import COMMAND, ENERGY, ENERGY_OF_STEP, is_machine_metric
from perfgate.documents.json import load_json
from perfgate.workspace.input_files import opened
from perfgate.workspace.options import Refused

#: The largest file of `--env`, in characters.
LONGEST_FACTS = 1 << 20
_DIFFERENT = "the runs are of different environments: {} is {}"
_CONTRADICTED = (
    "--env and the run contradict each other: {} is {}; the run is judged with --env: leave it out if it is wrong"
)


def read_facts(parts: Iterable[str | Mapping[str, Fact]]) -> dict[str, Fact]:
    """Return all facts by name. The last value of a name counts; reasons for throttling are joined. Raises Refused.

    `parts`: values of `--env`, each a JSON file of facts or KEY=VALUE, and facts that are already known.
    """
    facts: dict[str, Fact] = {}
    for part in parts:
        given = _option_facts(part) if isinstance(part, str) else part
        facts = {**facts, **given, **_throttling(facts, given)}
    return facts


def _option_facts(option: str) -> Mapping[str, Fact]:
    """Return the facts of one value of `--env`. Raises Refused."""
    name, sign, text = option.partition("=")
    if not sign or not name or os.path.exists(option):
        return _facts_file(option)
    if not text:
        raise Refused(f"--env {option}: the fact has no value")
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
        if isinstance(value, (int, float, bool)) and fact_text(value) == text:  # the version `1.10` is no number
            return {name: value}
    return {name: text}


def _throttling(known: Mapping[str, Fact], given: Mapping[str, Fact]) -> dict[str, Fact]:
    """Return the fact with the reasons for throttling of both readings; nothing if one of them has none."""
    if THROTTLE not in known or THROTTLE not in given:
        return {}
    return {THROTTLE: ",".join(sorted({*str(known[THROTTLE]).split(","), *str(given[THROTTLE]).split(",")}))}


def _facts_file(path: str) -> dict[str, Fact]:
    try:
        file, first = opened(path)
        with file:
            content = first + file.read(4 * LONGEST_FACTS)  # a character has at most 4 bytes in UTF-8
            document = load_json(content.decode("utf-8")[:LONGEST_FACTS], path)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise Refused(f"--env {path}: neither a JSON file of facts nor KEY=VALUE ({why})") from None
    if document.problems:
        raise Refused(f"--env {document.problems[0]}")
    facts = document.data
    if not isinstance(facts, dict) or not all(isinstance(v, (str, int, float, bool)) for v in facts.values()):
        raise Refused(f"--env {path}: facts are a JSON object of names and plain values")
    return facts


def merge_facts(
    runs: Iterable[Run], given: Mapping[str, Fact], identity: Sequence[str]
) -> tuple[dict[str, Fact], list[Problem]]:
    """Return the facts of all runs with those of `--env` (`given`), which win; and a problem for each conflict.

    A run that contradicts `--env` gets a warning, except about throttling. If runs differ in a fact that `--env` does
    not give, the first value counts. This is an error if the fact is in `identity`, the names of the facts that
    identify an environment.
    """
    facts: dict[str, Fact] = {}
    problems: dict[tuple[str, str], Problem] = {}
    measured = [(run.source, name, value) for run in runs for name, value in run.environment.items()]
    for source, name, value in measured:
        if name.startswith(OF_BASE):  # a fact of the other side of a pair
            continue
        other = given.get(name, facts.setdefault(name, value))  # without `--env`, the first run's value
        is_compared = name in identity or (name in given and name != THROTTLE)  # `_throttling` joins its values
        if is_compared and not same_fact(other, value):
            message = _CONTRADICTED if name in given else _DIFFERENT
            message = message.format(name, f"{fact_text(other)} and {fact_text(value)}")
            problem = Problem("warning" if name in given else "error", message, Location(source))
            problems.setdefault((name, fact_text(value)), problem)
    slowed = _throttling(facts, given) if given else {}
    return dict(sorted({**facts, **given, **slowed}.items())), list(problems.values())


#: Metrics that have one sample for each step. The first one that a run has counts its steps.
_STEPS = ("step.time", "step", "train_batch", "run_training_batch")


def with_machine(runs: Sequence[Run], machine: Run) -> list[Run]:
    """Return the run of a file or folder with the metrics of its machine. If it has several, the last gets a warning.

    A problem of the recording is only a warning, because the run was read without it.
    """
    if len(runs) != 1:
        why = "not used, because the file beside it has several runs"
        warning = Problem("warning", why, Location(machine.source))
        return [*runs[:-1], *(replace(run, problems=(*run.problems, warning)) for run in runs[-1:])]
    run = runs[0]
    own = {series.key for series in run.series}
    belong = [s for s in machine.series if is_machine_metric(s.key.metric) or s.key.metric.startswith(COMMAND)]
    added = [one for one in belong if one.key not in own]
    energy = _energy_of_step(run, added)
    problems = tuple(replace(problem, severity="warning") for problem in machine.problems)
    facts = {**machine.environment, **run.environment}
    return [
        replace(
            run,
            series=(*run.series, *added, *([energy] if energy and energy.key not in own else [])),
            problems=(*run.problems, *problems),
            environment=dict(sorted(facts.items())),
            files=(*run.files, *machine.files),
        )
    ]


def merged(machines: Sequence[Run]) -> Run:
    """Return one run of the machines of one job. If there are several, their series get the label `host`."""
    first, *others = machines
    if not others:
        return first
    series: dict[Key, Series] = {}
    for number, machine in enumerate(machines):
        host = str(machine.environment.get("host", number))
        for one in machine.series:
            key = Key.of(one.key.metric, **{**dict(one.key.labels), "host": host})
            series.setdefault(key, replace(one, key=key))  # two recordings of one host: the first counts
    hosts = ", ".join(sorted({str(one.environment["host"]) for one in machines if "host" in one.environment}))
    return replace(
        first,
        series=tuple(series.values()),
        problems=tuple(problem for one in machines for problem in one.problems),
        environment={"host": hosts} if hosts else {},
        files=tuple(file for one in machines for file in one.files),
    )


def _energy_of_step(run: Run, machine: Sequence[Series]) -> Series | None:
    """Return the energy of all devices for each step; None without an energy counter or steps."""
    with np.errstate(over="ignore"):
        energy = sum(float(one.values.sum()) for one in machine if one.key.metric == ENERGY)
    for name in _STEPS:
        found = [one for one in run.series if one.key.metric == name and one.kind == "samples"]
        steps = max((len(one.values) for one in found), default=0)
        if steps and 0 < energy < math.inf:
            return Series(Key(ENERGY_OF_STEP), "J", "value", read_only(np.array([energy / steps])))
    return None
