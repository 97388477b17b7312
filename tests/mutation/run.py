"""Mutation testing of what decides: `python tests/mutation/run.py --seconds 600 [--only TEXT] [--seed N] [--list]`.

Every mutant of the decision core (`mutants.py` lists the kinds) must make a test fail. The tests are collected once, in
one process. Each mutant gets a fork of it, which runs the tests of the changed lines until one fails, best killers
first. The lines and the time of each test are measured once and kept in `build/mutation.json`. A mutant survives if
nothing fails within `--most` CPU seconds of tests. Killed mutants are kept in `build/killed.json` and are not tried
again until their module changes: a long run may be made in pieces, first with `--tests` near the code and a low
`--most`, then with all tests for the survivors.

`--again FILE` tries only the mutants that FILE names, such as the printed survivors of an earlier run.

`equivalent.yaml` lists the mutants that no test can tell from the original, each with the reason. The exit code is 1 if
any other survives, or if a listed one no longer exists.

Own code, because mutmut 3.8 leaves out decorated functions (and so each property), constants of modules and statements,
and has no bound in time and no reasons for exceptions. cosmic-ray starts pytest anew for every mutant, in the working
tree.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

import pytest
from graft import Live, graft, live_functions
from mutants import Mutant
from scope import ROOT, Core, equivalents
from selection import MOST, Selection, digest, measured

#: Tests of other things, and those that start processes, in which the mutant would not be.
LEFT_OUT = ("action", "fuzz", "integrations", "mutation", "readers", "recorder", "reporters")
LEFT_OUT_FILES = (
    *("baselines/test_bucket", "baselines/test_writers", "measuring/test_runs", "rules/test_rule_files"),
    *("rules/test_sentence_errors", "rules/test_sentences", "rules/test_strict_yaml", "test_architecture"),
    *("test_detection", "test_docs", "test_examples", "test_positions_json", "test_quality", "test_units"),
)
#: How much longer than measured a test may take before it counts as failed, and seconds on top; bytes it may use.
PATIENCE, GRACE, MEMORY = 20, 3, 8 << 30
#: What was killed is written after this many mutants.
EACH = 50

#: The tests that killed mutants, below the root: by module with its digest, by mutant.
KILLED = Path("build") / "killed.json"

Say: TypeAlias = Callable[[str], object]


class Trial:
    """A pytest plugin: once the tests are collected, mutants are tried instead of running them all."""

    def __init__(self, core: Core, todo: Sequence[Mutant], seconds: float, most: float) -> None:
        self.core, self.todo, self.time, self.most = core, todo, seconds, most
        self.keys = {name: f"{name} {digest([path])}" for name, path in core.paths.items()}
        self.kept = kept_kills(self.keys)
        self.on_failure: Say = lambda nodeid: None
        self.killed: Counter[str] = Counter()
        self.survivors: list[Mutant] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A part of a test is over."""
        if report.failed:
            self.on_failure(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try the mutants, in the order given, until the time is over."""
        if session.testsfailed:
            raise session.Failed("some tests cannot be collected: see `python -m pytest --collect-only`")
        for name in self.core.paths:
            import_module(name)
        tests, live, kills = self._tests(session), live_functions(str(ROOT / "perfgate")), Counter[tuple[str, str]]()
        end = time.monotonic() + self.time
        gc.freeze()  # so that forks share what is there
        for number, mutant in enumerate(self.todo, 1):
            if time.monotonic() > end:
                break
            killer = self.kept[mutant.module].get(str(mutant), "")
            if not killer:
                chosen = tests.that_run(mutant, kills, self.most)
                killer = self._killer(mutant, chosen, tests, live) if chosen else ""
            if killer:
                kills.update(((mutant.module, killer), (f"{mutant.module}.{mutant.function}", killer)))
                self.killed[mutant.module] += 1
                self.kept[mutant.module][str(mutant)] = killer
            else:
                self.survivors.append(mutant)
                print(f"{number}: survived {len(chosen)} tests: {mutant}", file=sys.__stderr__, flush=True)
            if number % EACH == 0:
                keep_kills(self.keys, self.kept)
        keep_kills(self.keys, self.kept)
        return True

    def _tests(self, session: pytest.Session) -> Selection:
        """The tests that pass, with what they run; measured in a fork, so that nothing is remembered here."""

        def work(say: Say) -> None:
            failed: set[str] = set()
            self.on_failure = failed.add
            say(json.dumps(measured(session.items, self.core.paths, ROOT, failed)))

        said, _ = forked(work)
        return Selection(session.items, json.loads(said))

    def _killer(self, mutant: Mutant, chosen: Sequence[pytest.Item], tests: Selection, live: Live) -> str:
        """The test that fails, or what else ends the fork; "" where the mutant survives."""

        def work(say: Say) -> None:
            def stop(said: str) -> None:
                say(said)
                os._exit(1)

            self.on_failure = stop
            try:
                graft(mutant, self.core.trees[mutant.module], live)
            except Exception as error:
                stop(f"{type(error).__name__} at import")
            for item, following in zip(chosen, [*chosen[1:], None], strict=True):
                patience = GRACE + PATIENCE * tests.seconds[item.nodeid]
                signal.setitimer(signal.ITIMER_PROF, patience)  # CPU time: a busy machine kills no mutant
                signal.setitimer(signal.ITIMER_REAL, 30 * patience)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)

        said, status = forked(work)
        return said or ("" if status == 0 else "a signal or an exit")


def forked(work: Callable[[Say], None]) -> tuple[str, int]:
    """Return the text that a fork gives to the function of its work, and the status with which it ends."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setpgrp()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        try:
            with os.fdopen(writing, "wb", buffering=0) as pipe:
                work(lambda text: pipe.write(text.encode()))
            os._exit(0)
        finally:  # whatever happens, nobody may come back from here
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it started and did not end
    return said, status


def kept_kills(keys: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The test that killed a mutant, by module and mutant; none of a module that has changed since."""
    path = ROOT / KILLED
    known = json.loads(path.read_text()) if path.exists() else {}
    return {name: known.get(key, {}) for name, key in keys.items()}


def keep_kills(keys: Mapping[str, str], kills: Mapping[str, Mapping[str, str]]) -> None:
    """Write what `kept_kills` reads."""
    (ROOT / KILLED).write_text(json.dumps({key: kills[name] for name, key in keys.items()}))


def summary(trial: Trial, known: int) -> list[str]:
    """A line for each package: how many mutants were tried, and how many of them were killed."""
    survived = Counter(mutant.module for mutant in trial.survivors)
    packages = sorted({name.rsplit(".", 1)[0] for name in trial.core.paths})
    lines = []
    for package in [*packages, "perfgate"]:
        killed, left = (
            sum(count for name, count in counts.items() if name.startswith(f"{package}."))
            for counts in (trial.killed, survived)
        )
        share = 100 * killed / max(killed + left, 1)
        lines.append(f"{package}: {killed} of {killed + left} mutants killed ({share:.1f}%)")
    tried = trial.killed.total() + len(trial.survivors)
    return [*lines, f"{len(trial.todo) - tried} not tried, {known} more are equivalent"]


def main() -> int:
    """Try as many mutants as the time allows; 1 where one survives, or is no longer there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600, help="time for mutants, measuring the tests not included")
    parser.add_argument("--only", action="append", metavar="TEXT", help="those whose line holds this (repeatable)")
    parser.add_argument("--tests", action="append", metavar="PATH", help="the tests to try (repeatable)")
    parser.add_argument("--most", type=float, default=MOST, help="CPU seconds of tests for one mutant")
    parser.add_argument("--again", type=Path, metavar="FILE", help="those whose lines end a line of this file")
    parser.add_argument("--seed", type=int, default=1, help="of the order, and so of which are tried")
    parser.add_argument("--list", action="store_true", help="print the mutants, and try none")
    options = parser.parse_args()
    core, known = Core(), equivalents()
    there = {str(mutant): mutant for mutant in core.mutants()}
    everything = [mutant for name, mutant in there.items() if any(text in name for text in options.only or [""])]
    if options.again:
        named = {line.partition(" tests: ")[2] or line for line in options.again.read_text().splitlines()}
        everything = [mutant for mutant in everything if str(mutant) in named]
    if options.list:
        print(*everything, sep="\n")
        return 0
    gone = known.keys() - there.keys()
    todo = [mutant for mutant in everything if str(mutant) not in known]
    random.Random(options.seed).shuffle(todo)
    trial = Trial(core, todo, options.seconds, options.most)
    os.chdir(ROOT)
    pytest.main([*(options.tests or ["tests"]), *pytest_words()], [trial])
    print(*summary(trial, len(everything) - len(todo)), *(f"no such mutant: {one}" for one in sorted(gone)), sep="\n")
    return 1 if gone or trial.survivors else 0


def pytest_words() -> list[str]:
    """The arguments of pytest: one process, nothing printed or stored, and always the same examples of properties.

    Pytest would rewrite the asserts of perfgate, too, because it has a plugin; their functions would not be grafted.
    """
    ignored = [f"tests/{name}" for name in LEFT_OUT] + [f"tests/{name}.py" for name in LEFT_OUT_FILES]
    plugins = [word for name in ("terminal", "xdist", "cacheprovider", "faulthandler") for word in ("-p", f"no:{name}")]
    settings = [
        "--assert=plain",
        "-o",
        "addopts=",
        "-m",
        "not browser and not shared and not slow",
        "--hypothesis-seed=0",
    ]
    return [*(f"--ignore={path}" for path in ignored), *plugins, *settings]


if __name__ == "__main__":
    sys.exit(main())
