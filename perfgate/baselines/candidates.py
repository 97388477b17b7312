"""Runs that may become baselines: read, held against what is stored, and written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import perfgate
from perfgate.baselines.files import BaselineFile, Level, StoredSource, context_of, encode, stored_series
from perfgate.baselines.identity import identity_of
from perfgate.baselines.levels import RUNS_KEPT, History
from perfgate.baselines.repository import Loaded, find_environment, load_baseline, naming
from perfgate.baselines.stores import Store, UnsafeName, WritableStore
from perfgate.core import Baseline, Fact, Key, Problem, Run
from perfgate.judge.evidence import Evidence, find_subjects
from perfgate.judge.pairs import is_paired
from perfgate.rules.ruleset import Ruleset
from perfgate.workspace import inputs, surroundings
from perfgate.workspace.errors import Refused
from perfgate.workspace.options import CommandOptions, approve_command
from perfgate.workspace.rule_source import PolicySource, WorkingTree, open_store, read_rules


@dataclass(frozen=True, slots=True)
class Candidates:
    """Runs that may become baselines, with everything that was read beside them."""

    options: CommandOptions
    ruleset: Ruleset
    runs: tuple[Run, ...]
    facts: dict[str, Fact]
    #: The store that they are for, and the one that tells what is there already; they differ for a proposal.
    store: WritableStore
    known: Store
    loaded: Loaded
    #: The commit whose allowances count.
    head: str | None
    #: What whoever approves should know: facts that contradict each other.
    noticed: tuple[Problem, ...] = ()

    @property
    def environment(self) -> str:
        """The folder of the runs' environment."""
        identity = identity_of(self.facts, self.ruleset.identity)
        return find_environment(self.known, self.ruleset.suite, identity)[0]

    def reloaded(self) -> Candidates:
        """The same with what is stored now. Raises Refused where a stored file is damaged."""
        loaded = load_baseline(self.known, self.ruleset, self.facts, approve_command(self.options), self.head)
        if loaded.damaged:
            words = "\n".join(str(problem) for problem in loaded.problems)
            raise Refused(f"the stored baselines are damaged:\n{words}", 3)
        return replace(self, loaded=loaded)

    def level_name(self, parent: str | None, reason: str) -> str:
        """The name of a level that these runs open: never a bare counter, so that two branches never agree on one.

        Raises Refused where there is such a level already.
        """
        sources = [file.sha256 for run in self.runs for file in run.files]
        stamp = hashlib.sha256("\0".join([parent or "", plain(reason), *sources]).encode()).hexdigest()[:8]
        name = f"{surroundings.now():%Y-%m-%d}-{stamp}"
        if name in self.loaded.history.levels:
            raise Refused(f"the level {name} exists already, with the same runs and reason", 1)
        return name

    def refuse_known(self, history: History) -> None:
        """The same file a second time is no second run. Raises Refused."""
        known = {
            source.sha256: run.path for level in history.levels.values() for run in level for source in run.file.sources
        }
        for file in (file for run in self.runs for file in run.files):
            if file.sha256 in known:
                raise Refused(f"{file.path} is stored already, as {known[file.sha256]}: the same run counts once", 1)

    def write(
        self,
        level: Level,
        target: WritableStore,
        *,
        keep_all: bool = False,
        by: str | None = None,
        only: Collection[str] = (),
    ) -> list[str]:
        """Store every run in a level; returns the lines to print. Raises Refused.

        `only` are the metrics to store: an approval of some metrics says nothing of the others.
        """
        lines = [*map(str, self.noticed), *self._absent_metrics()]
        is_named = naming(self.ruleset)

        def is_kept(key: Key) -> bool:
            return (keep_all or is_named(key)) and (not only or key.metric in only)

        environment = self.environment
        if len(self.runs) > RUNS_KEPT:
            lines.append(
                f"warning: a level keeps {RUNS_KEPT} runs: of {len(self.runs)} the last {RUNS_KEPT} are stored"
            )
        for number, run in enumerate(self.runs[-RUNS_KEPT:], 1):
            data = encode(self._stored(run, level, by, is_kept))
            # The number keeps runs of one second in their order.
            name = f"{surroundings.now():%Y%m%dT%H%M%SZ}-{number:02d}-{hashlib.sha256(data).hexdigest()[:8]}.json"
            path = f"{self.ruleset.suite}/{environment}/{level.name}/{name}"
            write(target, path, data)
            lines.append(f"wrote {target.location(path)} ({len(data) / 1024:.0f} KiB, {run.name})")
        return lines

    def _absent_metrics(self) -> list[str]:
        """A warning for each rule that names nothing in these runs: most likely a misspelt metric."""
        evidence = Evidence.of(self.runs, Baseline(runs=self.runs), self.ruleset.metrics)
        absent = [rule for rule in self.ruleset.rules if not find_subjects(rule.sentence, evidence)]
        return [f"warning: no run holds what this rule names: {rule.name} ({rule.at})" for rule in absent]

    def _stored(self, run: Run, level: Level, by: str | None, wanted: Callable[[Key], bool]) -> BaselineFile:
        rows = stored_series(run, wanted)
        if not rows:
            raise Refused(f"{run.name} holds none of the metrics that the rules name; keep every metric with --all", 3)
        identity = identity_of(self.facts, self.ruleset.identity)
        return BaselineFile(
            schema="perfgate.baseline/1",
            tool=f"perfgate {perfgate.__version__}",
            suite=self.ruleset.suite,
            time=f"{surroundings.now():%Y-%m-%dT%H:%M:%SZ}",
            commit=plain(self.options.head or run.commit or surroundings.head_commit() or "") or None,
            level=level,
            added_by=plain(by or surroundings.who()),
            identity=identity,
            context=context_of(self.facts, identity),
            format=run.format,
            sources=[StoredSource(plain(file.path), file.format, file.sha256) for file in run.files],
            series=rows,
        )


def read_candidates(
    options: CommandOptions, source: PolicySource | None = None, head: str | None = None, *, pairs: bool = False
) -> Candidates:
    """Read the runs, the rules and where baselines are. Raises Refused for what cannot become a baseline.

    `pairs` are no baseline, but show noise.
    """
    source = source or WorkingTree()
    ruleset, problems, _ = read_rules(source, options.rules, options.suite)
    if ruleset is None:
        raise Refused("\n".join(str(problem) for problem in problems))
    runs, facts, noticed = read_measured(options, ruleset.identity, pairs=pairs)
    store, known = open_store(options.baselines), source.store(options.baselines)
    return Candidates(options, ruleset, runs, facts, store, known, Loaded(Baseline(), History({})), head, noticed)


def read_measured(
    options: CommandOptions, identity: Sequence[str], *, pairs: bool = False
) -> tuple[tuple[Run, ...], dict[str, Fact], tuple[Problem, ...]]:
    """The runs, the facts of their machine, and warnings of these. Raises Refused for what cannot become a baseline."""
    runs = inputs.read_runs(options.runs, options.format, options.trace_mode)
    facts, clashes = inputs.merge_facts(runs, inputs.read_facts(options.env), identity)
    found = [*(problem for run in runs for problem in run.problems), *clashes]
    damaged = [problem for problem in found if problem.severity == "error"]
    if damaged:
        words = "\n".join(str(problem) for problem in damaged)
        raise Refused(f"these runs cannot become a baseline:\n{words}", 3)
    if not pairs and any(map(is_paired, runs)):
        raise Refused("pairs hold a base of their own, and cannot become a baseline: give runs of the new code alone")
    _refuse_ranks_as_runs(runs)
    return runs, facts, tuple(clashes)


def _refuse_ranks_as_runs(runs: Sequence[Run]) -> None:
    """The files of one run, one for each rank, are no independent runs."""
    ranks = [{series.key.member() for series in run.series} for run in runs]
    for i, one in enumerate(ranks):
        for other in ranks[i + 1 :]:
            if one and other and not one & other:
                message = "these files hold different ranks, so they look like one run: give their folder"
                raise Refused(message, 1)


def write(store: WritableStore, path: str, data: bytes, *, replace: bool = False) -> None:
    """Write a file, or say why that was not possible. Raises Refused."""
    try:
        store.write(path, data, replace=replace)
    except (OSError, UnsafeName) as error:
        raise Refused(f"{store.location(path)}: cannot be written: {error}") from None


def plain(text: str) -> str:
    """Text that UTF-8 can hold: bytes of the command line that are none become visible escapes."""
    return text.encode("utf-8", "backslashreplace").decode()
