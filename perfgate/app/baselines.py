"""The stored baselines: what `check` compares with, and the commands that change and show them."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import perfgate
from perfgate.app import inputs, surroundings
from perfgate.app.errors import Refused
from perfgate.baselines.files import (
    BaselineFile,
    Level,
    StoredSource,
    context_of,
    decode,
    encode,
    run_of,
    stored_series,
)
from perfgate.baselines.identity import differences, environment_name, identity_of
from perfgate.baselines.levels import RUNS_KEPT, History, StoredRun
from perfgate.baselines.stores import DirectoryStore, UnsafeName
from perfgate.judge.evidence import Evidence, find_subjects
from perfgate.judge.verdicts import Case, judge
from perfgate.model import Baseline, Fact, Key, Problem, Run
from perfgate.rules.evaluation import component_names
from perfgate.rules.ruleset import Ruleset
from perfgate.rules.sentence import Selector, selectors


@dataclass(frozen=True, slots=True)
class Options:
    """What every command that meets baselines is told."""

    runs: tuple[str, ...] = ()
    rules: tuple[str, ...] = ("rules",)
    baselines: str = "baselines"
    suite: str | None = None
    env: tuple[str, ...] = ()
    format: str | None = None
    head: str | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """What is stored for one environment of a suite."""

    baseline: Baseline
    history: History
    problems: list[Problem] = field(default_factory=list)
    #: Whether a stored file cannot be read, so that nobody knows the whole history.
    damaged: bool = False
    sha256: str = hashlib.sha256().hexdigest()


def open_store(path: str) -> DirectoryStore:
    """The store in a directory, which need not exist yet."""
    return DirectoryStore(Path(path), inputs.shown_path(path))


def approve_command(options: Options) -> str:
    """The command that would approve these runs, as the user would type it, without absolute paths."""
    words = ["perfgate", "baseline", "approve", *map(inputs.typed_path, options.runs), "--reason", "..."]
    words += [word for rule in options.rules if options.rules != ("rules",) for word in ("--rules", rule)]
    words += ["--baselines", options.baselines] if options.baselines != "baselines" else []
    words += ["--suite", options.suite] if options.suite else []
    words += [word for fact in options.env for word in ("--env", fact)]
    return " ".join(shlex.quote(word) if word != "..." else '"..."' for word in words)


def load_baseline(store: DirectoryStore, ruleset: Ruleset, facts: dict[str, Fact], approve: str) -> Loaded:
    """The runs that new ones of this environment are compared with, or the reason why there are none."""
    identity = identity_of(facts, ruleset.identity)
    environment, nearest = find_environment(store, ruleset.suite, identity)
    stored, problems, sha256 = read_stored(store, ruleset.suite, environment)
    history = History.of(stored)
    heads, damaged = history.heads(), bool(problems)
    if problems or len(heads) > 1:
        problems += [_forked(store, ruleset.suite, environment, heads)] if len(heads) > 1 else []
        baseline = Baseline(
            missing="the stored baseline cannot be used: see the problems",
            next_step="settle the problems first",
        )
    elif not heads:
        missing = nearest or f"there is no baseline for suite {ruleset.suite} in {store.shown}"
        baseline = Baseline(missing=missing, next_step=f"make one: {approve}")
    else:
        baseline = _baseline(history, heads[0], f"{ruleset.suite}/{environment}", identity)
    return Loaded(baseline, history, problems, damaged, sha256)


def read_stored(store: DirectoryStore, suite: str, environment: str) -> tuple[list[StoredRun], list[Problem], str]:
    """Every stored run of an environment, what is wrong with the others, and the hash of all that was read."""
    data, problems = store.read(suite, environment)
    digest = hashlib.sha256()
    stored: list[StoredRun] = []
    for path, content in data:
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
        file, found = decode(str(store.location(path)), content)
        problems += found
        if file is not None:
            stored.append(StoredRun(path, file))
    return stored, problems, digest.hexdigest()


def _baseline(history: History, head: str, place: str, identity: dict[str, Fact | None]) -> Baseline:
    unknown = tuple(name for name, value in identity.items() if value is None)
    runs, anchor = (
        tuple(run_of(run.file, run.path) for run in found) for found in (history.newest(head), history.anchor(head))
    )
    return Baseline(f"{place}/{head}", runs, anchor, unknown_facts=unknown)


def _forked(store: DirectoryStore, suite: str, environment: str, heads: Sequence[str]) -> Problem:
    message = f"two approvals stand side by side, {' and '.join(heads)}: approve a run to settle it"
    return Problem("error", message, store.location(f"{suite}/{environment}"))


def find_environment(store: DirectoryStore, suite: str, identity: dict[str, Fact | None]) -> tuple[str, str | None]:
    """The folder of an environment, whatever it is called, and where there is none, what the nearest differs in."""
    name = environment_name(identity)
    known = store.environments(suite)
    if name in known:
        return name, None
    nearest: tuple[list[str], str] | None = None
    for other in known:
        stored, _, _ = read_stored(store, suite, other)
        if not stored:
            continue
        differing = differences(stored[-1].file.identity, identity)
        if not differing:
            return other, None
        if nearest is None or len(differing) < len(nearest[0]):
            nearest = (differing, other)
    if nearest is None:
        return name, None
    return name, f"there is no baseline for this environment: {'; '.join(nearest[0])} (nearest: {nearest[1]})"


# --- approve and add ---------------------------------------------------------------------------------------------


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


def approve(options: Options, reason: str, by: str | None, pr: int | None, keep_all: bool) -> list[str]:
    """Open a new level with these runs; returns the lines to print. Raises Refused."""
    if not reason.strip():
        raise Refused('an approval needs a reason: --reason "..."')
    candidates = _candidates(options)
    with candidates.store.lock():
        history = candidates.loaded.history
        heads = history.heads()
        parent = heads[-1] if heads else None
        sources = [file.sha256 for run in candidates.runs for file in run.files]
        stamp = hashlib.sha256("\0".join([parent or "", reason, *sources]).encode()).hexdigest()[:8]
        name = f"{surroundings.now():%Y-%m-%d}-{stamp}"
        who = by or surroundings.who()
        level = Level(name, parent, reason, who, pr, anchor=parent is None, settles=heads[:-1])
        if name in history.levels:
            raise Refused(f"the level {name} exists already, with the same runs and reason", 1)
        return _write(candidates, level, options, keep_all)


def add(options: Options, by: str | None, rotate: bool, keep_all: bool) -> list[str]:
    """Add runs to the current level; refused when they fail their own rules. Raises Refused."""
    candidates = _candidates(options)
    with candidates.store.lock():
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
        for old in history.levels[head][: max(0, len(candidates.runs) - room)]:
            candidates.store.remove(old.path)
            lines.append(f"removed {candidates.store.location(old.path)}")
        return lines


def _candidates(options: Options) -> Candidates:
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
    loaded = load_baseline(store, ruleset, facts, approve_command(options))
    if loaded.damaged:
        words = "\n".join(str(problem) for problem in loaded.problems)
        raise Refused(f"the stored baselines are damaged:\n{words}", 3)
    return Candidates(ruleset, runs, facts, store, loaded)


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


def _stored(
    candidates: Candidates, run: Run, level: Level, options: Options, keep_all: bool, by: str | None
) -> BaselineFile:
    rows = stored_series(run, lambda key: keep_all or _is_named(candidates.ruleset, key))
    if not rows:
        raise Refused(f"{run.name} holds none of the metrics that the rules name; keep every metric with --all", 3)
    identity = identity_of(candidates.facts, candidates.ruleset.identity)
    return BaselineFile(
        schema="perfgate.baseline/1",
        tool=f"perfgate {perfgate.__version__}",
        suite=candidates.ruleset.suite,
        time=f"{surroundings.now():%Y-%m-%dT%H:%M:%SZ}",
        commit=options.head or run.commit or surroundings.head_commit(),
        level=level,
        added_by=by or surroundings.who(),
        identity=identity,
        context=context_of(candidates.facts, identity),
        format=run.format,
        sources=[StoredSource(file.path, file.format, file.sha256) for file in run.files],
        series=rows,
    )


def _is_named(ruleset: Ruleset, key: Key) -> bool:
    """Whether any rule reads this series, itself or through a derived metric."""
    for rule in ruleset.rules:
        for selector in selectors(rule.sentence.subject):
            if selector.matches(key):
                return True
            names = component_names(selector, ruleset.metrics) - {selector.pattern}
            derived = {name for name in ruleset.metrics if selector.matches_metric(name)}
            for name in derived:
                names |= component_names(ruleset.metrics[name].expression, ruleset.metrics)
            if any(Selector(name, quoted=True).matches_metric(key.metric) for name in names):
                return True
    return False
