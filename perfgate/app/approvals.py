"""`perfgate baseline approve` and `add`: runs become baselines, or the command says why not."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import perfgate
from perfgate.app import inputs, surroundings
from perfgate.app.baselines import (
    Loaded,
    Options,
    approve_command,
    find_environment,
    is_named,
    load_baseline,
    open_store,
)
from perfgate.app.errors import Refused
from perfgate.baselines.files import BaselineFile, Level, StoredSource, context_of, encode, stored_series
from perfgate.baselines.identity import identity_of
from perfgate.baselines.levels import RUNS_KEPT, History
from perfgate.baselines.stores import DirectoryStore, UnsafeName
from perfgate.judge.evidence import Evidence, find_subjects
from perfgate.judge.verdicts import Case, judge
from perfgate.model import Baseline, Fact, Run
from perfgate.rules.ruleset import Ruleset


@dataclass(frozen=True, slots=True)
class Candidates:
    """Runs that may become baselines, with everything that was read beside them."""

    ruleset: Ruleset
    runs: tuple[Run, ...]
    facts: dict[str, Fact]
    store: DirectoryStore
    loaded: Loaded

    @property
    def environment(self) -> str:
        """The folder of the runs' environment."""
        return find_environment(self.store, self.ruleset.suite, identity_of(self.facts, self.ruleset.identity))[0]

    def reloaded(self, options: Options) -> Candidates:
        """The same with what is stored now, under the lock. Raises Refused where a stored file is damaged."""
        loaded = load_baseline(self.store, self.ruleset, self.facts, approve_command(options))
        if loaded.damaged:
            words = "\n".join(str(problem) for problem in loaded.problems)
            raise Refused(f"the stored baselines are damaged:\n{words}", 3)
        return replace(self, loaded=loaded)


def approve(options: Options, reason: str, by: str | None, pr: int | None, keep_all: bool) -> list[str]:
    """Open a new level with these runs; returns the lines to print. Raises Refused."""
    if not reason.strip():
        raise Refused('an approval needs a reason: --reason "..."')
    candidates = read_candidates(options)
    with candidates.store.lock():
        candidates = candidates.reloaded(options)
        history = candidates.loaded.history
        heads = history.heads()
        parent = heads[-1] if heads else None
        sources = [file.sha256 for run in candidates.runs for file in run.files]
        stamp = hashlib.sha256("\0".join([parent or "", plain(reason), *sources]).encode()).hexdigest()[:8]
        name = f"{surroundings.now():%Y-%m-%d}-{stamp}"
        who = by or surroundings.who()
        level = Level(name, parent, plain(reason), plain(who), pr, anchor=parent is None, settles=heads[:-1])
        if name in history.levels:
            raise Refused(f"the level {name} exists already, with the same runs and reason", 1)
        return _write(candidates, level, options, keep_all)


def add(options: Options, by: str | None, rotate: bool, keep_all: bool) -> list[str]:
    """Add runs to the current level; refused when they fail their own rules. Raises Refused."""
    candidates = read_candidates(options)
    with candidates.store.lock():
        candidates = candidates.reloaded(options)
        history, baseline = candidates.loaded.history, candidates.loaded.baseline
        if len(history.heads()) > 1:
            raise Refused("\n".join(map(str, candidates.loaded.problems)), 3)
        if baseline.place is None:
            raise Refused(f"{baseline.missing}; open a level first: {approve_command(options)}", 3)
        head = history.heads()[0]
        _refuse_known(candidates, history)
        _refuse_failing(candidates, options)
        room = RUNS_KEPT - len(history.levels[head])
        if len(candidates.runs) > room and not rotate:
            raise Refused(
                f"level {head} holds {len(history.levels[head])} runs of {RUNS_KEPT}: replace the oldest with --rotate",
                1,
            )
        lines = _write(candidates, history.level(head), options, keep_all, by)
        for old in history.replaceable(head)[: max(0, len(candidates.runs) - room)]:
            candidates.store.remove(old.path)
            lines.append(f"removed {candidates.store.location(old.path)}")
        return lines


def read_candidates(options: Options) -> Candidates:
    """Rules, runs that may be stored, and the store. Raises Refused, for damaged runs too."""
    ruleset, problems, _ = inputs.read_rules(options.rules, options.suite)
    if ruleset is None:
        raise Refused("\n".join(str(problem) for problem in problems))
    runs = inputs.read_runs(options.runs, options.format)
    facts, clashes = inputs.merge_facts(runs, inputs.read_facts(options.env), ruleset.identity)
    damaged = [p for run in runs for p in run.problems if p.severity == "error"] + clashes
    if damaged:
        words = "\n".join(str(problem) for problem in damaged)
        raise Refused(f"these runs cannot become a baseline:\n{words}", 3)
    _refuse_ranks_as_runs(runs)
    store = open_store(options.baselines)
    return Candidates(ruleset, runs, facts, store, Loaded(Baseline(), History({})))


def _refuse_ranks_as_runs(runs: Sequence[Run]) -> None:
    """The files of one run, one for each rank, are no independent runs."""
    ranks = [{series.key.member() for series in run.series} for run in runs]
    for i, one in enumerate(ranks):
        for other in ranks[i + 1 :]:
            if one and other and not one & other:
                message = "these files hold different ranks, so they look like one run: give their folder"
                raise Refused(message, 1)


def _refuse_known(candidates: Candidates, history: History) -> None:
    """The same file a second time is no second run."""
    known = {
        source.sha256: run.path for level in history.levels.values() for run in level for source in run.file.sources
    }
    for run in candidates.runs:
        for file in run.files:
            if file.sha256 in known:
                raise Refused(f"{file.path} is stored already, as {known[file.sha256]}: the same run counts once", 1)


def _refuse_failing(candidates: Candidates, options: Options) -> None:
    case = Case(
        candidates.ruleset,
        candidates.runs,
        candidates.loaded.baseline,
        surroundings.today(),
        candidates.facts,
    )
    bad = [verdict for verdict in judge(case) if verdict.exit_code and verdict.reason != "no-baseline"]
    if bad:
        words = "\n".join(f"  {verdict.outcome}: {verdict.rule}: {verdict.message}" for verdict in bad)
        command = approve_command(options)
        raise Refused(f"not added, for it does not pass its own rules:\n{words}\nif that is meant: {command}", 1)


def _write(candidates: Candidates, level: Level, options: Options, keep_all: bool, by: str | None = None) -> list[str]:
    """Store every run of the candidates in a level; returns the lines to print."""
    lines = _absent_metrics(candidates)
    if len(candidates.runs) > RUNS_KEPT:
        lines.append(
            f"warning: a level keeps {RUNS_KEPT} runs: of {len(candidates.runs)} the last {RUNS_KEPT} are stored"
        )
    for number, run in enumerate(candidates.runs[-RUNS_KEPT:], 1):
        data = encode(_stored(candidates, run, level, options, keep_all, by))
        # The number keeps runs of one second in their order.
        name = f"{surroundings.now():%Y%m%dT%H%M%SZ}-{number:02d}-{hashlib.sha256(data).hexdigest()[:8]}.json"
        path = f"{candidates.ruleset.suite}/{candidates.environment}/{level.name}/{name}"
        try:
            candidates.store.write(path, data)
        except (OSError, UnsafeName) as error:
            raise Refused(f"{candidates.store.location(path)}: cannot be written: {error}") from None
        lines.append(f"wrote {candidates.store.location(path)} ({len(data) / 1024:.0f} KiB, {run.name})")
    return lines


def _absent_metrics(candidates: Candidates) -> list[str]:
    """A warning for each rule that names nothing in these runs: most likely a misspelt metric."""
    baseline = Baseline(runs=candidates.runs)
    evidence = Evidence.of(candidates.runs, baseline, candidates.ruleset.metrics)
    absent = [rule for rule in candidates.ruleset.rules if not find_subjects(rule.sentence, evidence)]
    return [f"warning: no run holds what this rule names: {rule.name} ({rule.at})" for rule in absent]


def plain(text: str) -> str:
    """Text that UTF-8 can hold: bytes of the command line that are none become visible escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def _stored(
    candidates: Candidates, run: Run, level: Level, options: Options, keep_all: bool, by: str | None
) -> BaselineFile:
    rows = stored_series(run, lambda key: keep_all or is_named(candidates.ruleset, key))
    if not rows:
        raise Refused(f"{run.name} holds none of the metrics that the rules name; keep every metric with --all", 3)
    identity = identity_of(candidates.facts, candidates.ruleset.identity)
    return BaselineFile(
        schema="perfgate.baseline/1",
        tool=f"perfgate {perfgate.__version__}",
        suite=candidates.ruleset.suite,
        time=f"{surroundings.now():%Y-%m-%dT%H:%M:%SZ}",
        commit=plain(options.head or run.commit or surroundings.head_commit() or "") or None,
        level=level,
        added_by=plain(by or surroundings.who()),
        identity=identity,
        context=context_of(candidates.facts, identity),
        format=run.format,
        sources=[StoredSource(plain(file.path), file.format, file.sha256) for file in run.files],
        series=rows,
    )
