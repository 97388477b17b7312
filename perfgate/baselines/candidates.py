"""Runs that may become baselines: read, compared with the stored ones, and written."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import combinations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from perfgate.baselines.contents import MOST_BYTES, TooLarge, Wanted, contents
from perfgate.baselines.files import STORED_RUN, BaselineFile, StoredLevel, StoredSource
from perfgate.baselines.levels import RUNS_KEPT, History, StoredRun
from perfgate.baselines.places import identity_of
from perfgate.baselines.policy_stores import store_of
from perfgate.baselines.repository import LoadedBaseline, StoredBaselines, find_environment
from perfgate.baselines.stores import Store, WritableStore, open_store, write_file
from perfgate.core import Baseline, Fact, Problem, Run
from perfgate.core.runs import MEMBER_LABELS
from perfgate.core.wording import listed, plural, utf8_text
from perfgate.judge.pairs import is_paired
from perfgate.judge.subjects import JudgedRuns, find_subjects, naming
from perfgate.judge.utilization import with_utilization
from perfgate.rules.ruleset import Ruleset
from perfgate.rules.syntax.sentence import Selector, Sentence, selectors
from perfgate.version import __version__
from perfgate.workspace import inputs, surroundings
from perfgate.workspace.env_facts import merge_facts, read_facts
from perfgate.workspace.options import CommandOptions, Refused, acceptance
from perfgate.workspace.rule_source import WORKING_TREE, PolicySource, read_ruleset

#: The formats of tools that run on GPUs, and the starts and ends of metrics that only a GPU has.
_FORMATS = frozenset(("deepspeed", "megatron", "mlperf", "nccl-tests", "ncu", "nsys", "vllm"))
_METRICS = ("gpu.", "kernel.", "energy.")
_PARTS = (".device_time", ".self_device_time", "memory.peak_reserved")


class Candidates(Struct, frozen=True):
    """Runs that may become baselines, with everything that was read for them."""

    options: CommandOptions
    ruleset: Ruleset
    runs: tuple[Run, ...]
    #: The facts of the machine that they ran on.
    facts: dict[str, Fact]
    #: The store to write to, and the store that they are compared with; these differ for a proposal.
    store: WritableStore
    known: Store
    #: The stored baseline of their environment; empty before `reloaded`.
    loaded: LoadedBaseline
    #: The commit whose allowances count.
    head: str | None
    #: Warnings: facts that contradict each other.
    noticed: tuple[Problem, ...] = ()

    @property
    def environment(self) -> str:
        """The name of the folder of their environment."""
        identity = identity_of(self.facts, self.ruleset.identity)
        return find_environment(self.known, self.ruleset.suite, identity)[0]

    def reloaded(self) -> Candidates:
        """Return the same with `loaded` as the store is now. Raises Refused if a stored file is damaged."""
        stored = StoredBaselines(self.known, self.ruleset)
        loaded = stored.load(self.facts, acceptance(self.options), lambda: self.head)
        if loaded.damaged:
            raise Refused("\n".join(["the stored baselines are damaged:", *map(str, loaded.problems)]), 3)
        return replace(self, loaded=loaded)

    def level_name(self, parent: str | None, reason: str) -> str:
        """Return the name of the level that these runs open: the day, and a hash of its parent, reason and files.

        Raises Refused if a level has this name already.
        """
        sources = [file.sha256 for run in self.runs for file in run.files]
        stamp = hashlib.sha256("\0".join([parent or "", utf8_text(reason), *sources]).encode()).hexdigest()[:8]
        name = f"{surroundings.now():%Y-%m-%d}-{stamp}"
        if name in self.loaded.history.levels:
            raise Refused(f"the level {name} exists already, with the same runs and reason", 1)
        return name

    def refuse_known(self, history: History) -> None:
        """Raise Refused for a file that is stored already."""
        known = {
            source.sha256: run.path for level in history.levels.values() for run in level for source in run.head.sources
        }
        for file in (file for run in self.runs for file in run.files):
            if file.sha256 in known:
                raise Refused(f"{file.path} is stored already, as {known[file.sha256]}: the same run counts once", 1)

    def write(
        self,
        level: StoredLevel,
        target: WritableStore,
        *,
        keep_all: bool = False,
        by: str | None = None,
        only: Collection[str] = (),
    ) -> list[str]:
        """Store the runs in a level, at most the last ten; returns the lines to print. Raises Refused.

        `target`: `store`, or the folder of a proposal.
        `keep_all`: store the samples of every metric that has room, not only of those that a rule reads. `by`: the user
        who adds the runs. `only`: the metrics to store, if a level adopts some only; empty means all.
        """
        lines = [*map(str, self.noticed), *unknown_gpu(self.runs, self.facts, self.ruleset.identity)]
        # As both sides, because a rule about a change looks for its metric in the base runs, too.
        judged = JudgedRuns.of(self.runs, Baseline(runs=self.runs), self.ruleset.metrics)
        absent = [rule for rule in self.ruleset.rules if not find_subjects(rule.sentence, judged)]
        lines += [f"warning: no run has the metric of this rule: {rule.name} ({rule.at})" for rule in absent]
        wanted = self.wanted(keep_all=keep_all, only=only)
        environment = self.environment
        if len(self.runs) > RUNS_KEPT:
            lines.append(
                f"warning: a level keeps {RUNS_KEPT} runs: of {len(self.runs)} the last {RUNS_KEPT} are stored"
            )
        for number, run in enumerate(self.runs[-RUNS_KEPT:], 1):
            file, notes = self._file(run, level, by, wanted)
            data = STORED_RUN.encode(file)
            # The number keeps the order of runs that are written in the same second.
            name = f"{surroundings.now():%Y%m%dT%H%M%SZ}-{number:02d}-{hashlib.sha256(data).hexdigest()[:8]}.json"
            path = f"{self.ruleset.suite}/{environment}/{level.name}/{name}"
            write_verified(target, path, data)
            lines.append(f"wrote {target.location(path)} ({len(data) / 1024:.0f} KiB, {run.name})")
            lines += notes
        return lines

    def wanted(self, *, keep_all: bool = False, only: Collection[str] = ()) -> Wanted:
        """Return the content that the file of a run should have; the options are those of `write`."""
        rules = [rule.sentence for rule in self.ruleset.rules]

        @cache
        def about(metric: str) -> list[Sentence]:
            return [one for one in rules if isinstance(one.subject, Selector) and one.subject.matches_metric(metric)]

        def is_by_rank(sentence: Sentence) -> bool:
            tests = (test for selector in selectors(sentence.subject) for test in selector.labels)
            return sentence.rank == "each" or any(test.name in MEMBER_LABELS for test in tests)

        # a summary is measured with one warm-up
        warmups = {rule.settings.warmup for rule in self.ruleset.rules}
        return Wanted(
            is_named=naming(self.ruleset),
            is_kept=lambda key: not only or key.metric in only,
            statistics=lambda metric: sorted({one.statistic for one in about(metric) if one.statistic is not None}),
            is_judged_by_rank=lambda metric: any(map(is_by_rank, about(metric))),
            warmup=warmups.pop() if len(warmups) == 1 else "auto",
            keep_all=keep_all,
            most_bytes=min(MOST_BYTES, surroundings.limits().baseline_bytes),
        )

    def _file(self, run: Run, level: StoredLevel, by: str | None, wanted: Wanted) -> tuple[BaselineFile, list[str]]:
        """Return the file of a run, and lines about metrics that do not fit into it. Raises Refused."""
        if not any(wanted.is_kept(series.key) for series in run.series):
            raise Refused(f"{run.name} has no metrics to store", 3)
        identity = identity_of(self.facts, self.ruleset.identity)
        file = BaselineFile(
            schema=STORED_RUN.schema,
            tool=f"perfgate {__version__}",
            suite=self.ruleset.suite,
            time=f"{surroundings.now():%Y-%m-%dT%H:%M:%SZ}",
            commit=utf8_text(self.options.head or run.commit or surroundings.head_commit() or "") or None,
            level=level,
            added_by=utf8_text(by or surroundings.who()),
            identity=identity,
            context={name: self.facts[name] for name in sorted(self.facts) if name not in identity},
            format=run.format,
            sources=[StoredSource(utf8_text(file.path), file.format, file.sha256) for file in run.files],
            series=[],
        )
        try:
            rows = contents(run, replace(wanted, head_bytes=head_bytes(file)))
        except TooLarge as error:
            step = "name fewer metrics in the rules; the others are stored as far as there is room"
            raise Refused(f"{run.name} cannot be stored: {error}: {step}", 1) from None
        lines = []
        if rows.shortened:
            names = listed(list(rows.shortened))
            lines.append(f"  of {names}, only some ranks have samples, the others a summary, to keep the file small")
        if rows.left_out:
            count, names = plural(len(rows.left_out), "metric"), listed(list(rows.left_out))
            lines.append(f"  left out, because there is no room: {count} ({names}); name one in a rule to keep it")
        return rows.put_into(file), lines

    def complete(self, stored: StoredRun, run: Run, *, keep_all: bool) -> str | None:
        """Add data of `run` to a stored run that lacks some; returns a line about it, or None if it lacks nothing.

        `run` and the stored run have the same values. All stored samples stay. Raises Refused if there is no room.
        """
        file, at = stored.file, self.store.location(stored.path)
        before = {row.key for row in file.series}
        wanted = replace(self.wanted(keep_all=keep_all, only=file.level.adopts), head_bytes=head_bytes(file))
        is_named = wanted.is_named
        try:  # stored samples count as named, because named metrics get room first
            rows = contents(run, replace(wanted, is_named=lambda key: key in before or is_named(key)))
        except TooLarge as error:
            raise Refused(f"{at} cannot be completed: {error}", 1) from None
        if not before <= {row.key for row in rows.series}:
            raise Refused(f"{at} cannot be completed: it has no room for more metrics", 1)
        old, data = STORED_RUN.encode(file), STORED_RUN.encode(rows.put_into(file))
        if data == old:
            return None
        write_verified(self.store, stored.path, data, replaced=old)
        gained = []
        if samples := sorted({row.metric for row in rows.series if row.key not in before}):
            gained.append(f"values of {listed(samples)}")
        if summaries := {row.metric for row in rows.summaries} - {row.metric for row in file.summarised}:
            gained.append(f"summaries of {plural(len(summaries), 'metric')}")
        if rows.call_tree and not file.call_tree:
            gained.append("the call tree")
        return f"filled in {at}: {' and '.join(gained) or 'newer summaries'} ({len(data) / 1024:.0f} KiB, {run.name})"


def write_verified(target: WritableStore, path: str, data: bytes, *, replaced: bytes | None = None) -> None:
    """Write a stored run, and read it back as `check` does.

    Raises Refused if it reads back differently; then the file is as it was before.

    `replaced`: the bytes of the file that this one replaces; None if there is none.
    """
    write_file(target, path, data, replace=replaced is not None)
    try:
        read, problems = STORED_RUN.decode(path, target.read(path))
        is_same = read is not None and STORED_RUN.encode(read) == data
        why = "" if is_same else str(problems[0].message) if read is None else "it differs"
    except OSError as error:
        why = str(error.strerror or error)
    if why:
        if replaced is None:
            target.remove(path)
        else:
            write_file(target, path, replaced, replace=True)
        raise Refused(f"{target.location(path)}: was not stored, because it cannot be read afterwards: {why}", 3)


def head_bytes(file: BaselineFile) -> int:
    """Return an upper bound of the bytes that a stored run has beside its rows and its call tree."""
    empty = msgspec.structs.replace(file, series=[], summaries=[], left_out=0, call_tree="")
    return len(STORED_RUN.encode(empty)) + 256  # for the brackets of the rows, and the digits of `left_out`


def read_candidates(
    options: CommandOptions, source: PolicySource = WORKING_TREE, head: str | None = None, *, pairs: bool = False
) -> Candidates:
    """Read the runs and the rules, and open the store. Raises Refused for runs that cannot become a baseline.

    `source`: where the rules, and the baselines that the runs are compared with, come from. `head`: the commit whose
    allowances count. `pairs`: accept pairs, which cannot become a baseline but show noise.
    """
    ruleset = read_ruleset(source, options.rules, options.suite)
    runs, facts, noticed = read_measured(options, ruleset, pairs=pairs)
    store = open_store(options.baselines)
    known = store if source is WORKING_TREE else store_of(source, options.baselines)
    return Candidates(options, ruleset, runs, facts, store, known, LoadedBaseline(), head, noticed)


def read_measured(
    options: CommandOptions, ruleset: Ruleset, *, pairs: bool = False, purpose: str = "become a baseline"
) -> tuple[tuple[Run, ...], dict[str, Fact], tuple[Problem, ...]]:
    """Read the runs; returns them, the facts of their machine, and warnings about the facts.

    Raises Refused for runs that are not fit for the purpose, which messages name as "these runs cannot PURPOSE".
    """
    runs = inputs.read_runs(
        options.runs, options.format, options.trace_mode, conditions=ruleset.conditions, mappings=ruleset.mappings
    )
    facts, clashes = merge_facts(runs, read_facts(options.env), ruleset.identity)
    if ruleset.model is not None:
        runs = with_utilization(runs, ruleset.model, facts)
    found = [*(problem for run in runs for problem in run.problems), *clashes]
    damaged = [str(problem) for problem in found if problem.severity == "error"]
    if damaged:
        raise Refused("\n".join([f"these runs cannot {purpose}:", *damaged]), 3)
    if not pairs and any(map(is_paired, runs)):
        raise Refused(f"pairs have their own base and cannot {purpose}: give runs of the new code alone")
    ranks = [{series.key.member() for series in run.series} for run in runs]
    if any(one and other and one.isdisjoint(other) for one, other in combinations(ranks, 2)):
        raise Refused("these files have different ranks, so they look like one run: give their folder", 1)
    return runs, facts, tuple(clashes)


def unknown_gpu(runs: Sequence[Run], facts: Mapping[str, Fact], identity: Sequence[str]) -> list[str]:
    """Return a warning if runs of a GPU are stored, and `identity` asks for the GPU's model, which is not known.

    A later check that knows its GPU would find no baseline, and end with exit 3.
    """
    is_of_gpu = any(
        not _FORMATS.isdisjoint(run.format.split("+"))
        or any(one.key.metric.startswith(_METRICS) or one.key.metric.endswith(_PARTS) for one in run.series)
        for run in runs
    )
    if "gpu" not in identity or facts.get("gpu") is not None or not is_of_gpu:
        return []
    return [
        "warning: no GPU is known for these runs, and a check that knows its GPU finds no baseline for it: give --env"
        " with the facts of their machine (`perfgate env > env.json` there)"
    ]
