"""The functions that import, compact and remember runs, with a store in memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import write_rules
from histories import IDENTITY, MemoryStore, record, sha, value
from msgspec.structs import replace

from perfgate.baselines.ledger import LEDGER_FILE, LedgerFile
from perfgate.baselines.places import environment_name
from perfgate.core import Fact, Key, Location, Problem, Run, Series, SourceFile
from perfgate.core.remembered_runs import HistoryRecord
from perfgate.core.wording import MAPPING_FILE
from perfgate.history import writing
from perfgate.history.records import id_of_files
from perfgate.history.store import add, read
from perfgate.history.writing import Measured, add_imported, compact, record_of, remember, rules_or_none, write_months
from perfgate.rules.ruleset import Ruleset
from perfgate.workspace import surroundings
from perfgate.workspace.options import CommandOptions, Refused

HERE = environment_name(IDENTITY)
FOLDER = f"_history/gpt/{HERE}"
INCOMPLETE = "the file of this month was written, but the store does not have all its runs"
#: Hours to the first of January, February, March and April.
MONTHS = (0, 31 * 24, 59 * 24, 90 * 24)


def one(month: int, number: int = 0, *, count: int = 1, **about: object) -> HistoryRecord:
    """The run of a number in a month, from 0, with some numbers of one metric."""
    hours = MONTHS[month] + number
    made = record(number, {"forward": 0.1}, hours=hours, **({"id": f"{hours:016}"} | about))
    return replace(made, values=made.values * count)


def held(store: MemoryStore, suite: str = "gpt") -> list[str | None]:
    """The commits of a history, in order of time."""
    return [run.commit for run in read(store, suite, HERE).runs]


def months(store: MemoryStore) -> list[str]:
    """The files of a store without their hashes and ids."""
    return sorted(path.removeprefix("_history/").replace(HERE, "HERE").rpartition("-")[0] for path in store)


class Forgetful(MemoryStore):
    """A store that keeps nothing of what it is given to write after the first `kept` files."""

    kept = 0

    def write(self, path: str, data: bytes, *, replace: bool = False) -> None:
        if self.kept:
            self.kept -= 1
            super().write(path, data, replace=replace)


# --- imports ---------------------------------------------------------------------------------------------------------


def test_runs_are_written_by_suite_and_month() -> None:
    store = MemoryStore()
    runs = [one(1, 3), one(0, 1), one(0, 23), replace(one(0, 2), suite="bert")]
    written = write_months(store, runs)
    assert written == sorted(store)
    assert months(store) == ["bert/HERE/2026-01", "gpt/HERE/2026-01", "gpt/HERE/2026-02"]
    assert (held(store), held(store, "bert")) == ([sha(1), sha(23), sha(3)], [sha(2)])
    assert write_months(MemoryStore(), []) == []


@pytest.mark.parametrize(("kept", "month"), [(0, "2026-01"), (1, "2026-02")])
def test_a_month_that_a_store_did_not_keep_is_refused(kept: int, month: str) -> None:
    store = Forgetful()
    store.kept = kept
    with pytest.raises(Refused) as refused:
        write_months(store, [one(0), one(1)])
    assert str(refused.value) == f"memory/{FOLDER}/{month}: {INCOMPLETE}: import them again"
    assert refused.value.exit_code == 3


def test_an_import_says_what_it_added() -> None:
    store = MemoryStore()
    assert add_imported(store, []) == ["nothing to import"]
    two = replace(one(1, 5), values=(value("forward", 0.1), value("load", 1.0)))
    other = replace(one(0, 7), suite="bert")
    assert add_imported(store, [one(0), two, two, other]) == [
        f"imported 1 run with 1 metric, 2026-01-01 to 2026-01-01: memory/_history/bert/{HERE}",
        f"imported 2 runs with 2 metrics, 2026-01-01 to 2026-02-01: memory/{FOLDER}",
        "1 run in the history already",
    ]
    assert (held(store), held(store, "bert")) == ([sha(0), sha(5)], [sha(7)])
    assert add_imported(store, [one(0), two]) == ["2 runs in the history already"]
    assert add_imported(store, [one(0), one(2)])[1:] == ["1 run in the history already"]


def test_an_import_refuses_a_line_break() -> None:
    store = MemoryStore()
    with pytest.raises(Refused, match=r"run of 2026-01-01T00:00:00Z: 'a\\nb' has a line break"):
        add_imported(store, [one(0, context={"host": "a\nb"})])
    assert not store


PARTS = [
    # for each run its month and the numbers until the next run; how many new files there are after each
    ([(0, 20_000), (1, 1), (2, 1)], [0, 0, 2]),
    ([(0, 20_001), (1, 1), (2, 1)], [0, 1, 1]),
    ([(0, 20_001), (1, 20_000), (2, 1)], [0, 1, 1]),
    ([(0, 20_001), (1, 20_001), (2, 1)], [0, 1, 2]),
    ([(0, 20_001), (0, 5), (0, 5), (1, 1)], [0, 0, 0, 1]),
    ([(0, 10_000), (0, 10_001), (1, 1)], [0, 0, 1]),
    ([(0, 1), (1, 1), (2, 1)], [0, 0, 0]),
]


@pytest.mark.parametrize(("runs", "files"), PARTS)
def test_a_long_import_is_written_at_the_end_of_a_month(runs: Sequence[tuple[int, int]], files: Sequence[int]) -> None:
    """Most numbers are those of a run that is in the history already, so that they are counted and not written."""
    known, store = one(0, 99), MemoryStore()
    add(store, known)
    seen = []

    def records() -> Iterator[HistoryRecord]:
        for number, (month, count) in enumerate(runs):
            yield one(month, number)
            seen.append(len(store) - 1)
            if count > 1:
                yield replace(one(month, 99, count=count - 1), run=replace(known.run, time=one(month, 99).run.time))

    add_imported(store, records())
    assert len(held(store)) == len(runs) + 1
    assert seen == files


# --- compaction ------------------------------------------------------------------------------------------------------


def filled(*records: HistoryRecord) -> MemoryStore:
    store = MemoryStore()
    for record_ in records:
        assert add(store, record_)
    return store


@pytest.mark.parametrize(
    ("before", "compacted"),
    [(None, ["2026-01", "2026-02", "2026-03"]), ("2026-03", ["2026-01", "2026-02"]), ("2026-02", ["2026-01"])],
)
def test_each_month_becomes_one_file(before: str | None, compacted: list[str]) -> None:
    store = filled(one(0), one(0, 11 * 24), one(1), one(2), one(2, 1), replace(one(1), suite="bert"))
    history = read(store, "gpt", HERE)
    for path in ("_history/gpt/stray.json", "_history/stray.json", "_history/_ledger/gpt/2026-01/0a.json"):
        store[path] = LEDGER_FILE.encode(LedgerFile(LEDGER_FILE.schema, "t", "gpt", []))
    lines, problems = compact(store, before)
    runs = {"2026-01": 2, "2026-02": 1, "2026-03": 2}
    bert = [f"bert/{HERE}/2026-02: 1 runs in 1 file, 1 removed"] if "2026-02" in compacted else []
    assert lines == [
        *bert,
        *(f"gpt/{HERE}/{month}: {runs[month]} runs in 1 file, {runs[month]} removed" for month in compacted),
        "ledger of gpt, 2026-01: 0 records in one file",
    ]
    assert problems == []
    after = read(store, "gpt", HERE)
    assert after.runs == history.runs
    assert all(f"{FOLDER}/{month}-" in " ".join(store) for month in compacted)
    assert compact(store, before) == ([], [])


def test_compacting_joins_the_numbers_of_a_run_in_two_files() -> None:
    early, late = one(0, 1, id="a" * 16), one(0, 2, id="a" * 16, commit="b" * 40)
    late = replace(late, values=(value("forward", 0.3), value("load", 1.0)))
    for pair in ((early, late), (late, early)):
        store = filled(*pair)
        assert compact(store) == ([f"gpt/{HERE}/2026-01: 1 runs in 1 file, 2 removed"], [])
        found = read(store, "gpt", HERE)
        assert [(run.time, run.commit) for run in found.runs] == [("2026-01-01T01:00:00Z", sha(1))]
        assert [(str(own.name), own.values.tolist()) for own in found.series] == [
            ("forward median", [0.1]),
            ("load median", [1.0]),
        ]


def test_a_month_of_two_files_of_which_one_is_new_is_compacted() -> None:
    store = filled(one(0))
    compact(store)
    add(store, one(0, 1))
    assert compact(store) == ([f"gpt/{HERE}/2026-01: 2 runs in 1 file, 2 removed"], [])
    add(store, one(0, 1))  # it is in the file of the month
    assert compact(store) == ([f"gpt/{HERE}/2026-01: 2 runs in 1 file, 1 removed"], [])
    assert (len(store), held(store)) == (1, [sha(0), sha(1)])


def test_files_that_are_gone_or_damaged_are_no_part_of_a_compaction() -> None:
    store = filled(one(0, 5))
    damaged, gone = f"{FOLDER}/2026-01/00.json", f"{FOLDER}/2026-01/01.json"
    store[damaged] = b"{"
    store.broken[gone] = FileNotFoundError()
    lines, (problem,) = compact(store)
    assert lines == [f"gpt/{HERE}/2026-01: 1 runs in 1 file, 1 removed"]
    assert (problem.severity, problem.at.file) == ("error", f"memory/{damaged}")
    assert (damaged in store, len(store)) == (True, 2)
    only = MemoryStore({damaged: b"{"})
    assert (compact(only), only) == (([], [problem]), {damaged: b"{"})
    only.clear()
    only.broken[gone] = FileNotFoundError()
    assert compact(only) == ([], [])


@pytest.mark.parametrize(("kept", "removed"), [(0, 0), (1, 2), (2, 3)])
def test_the_files_of_runs_that_are_in_no_new_file_stay(
    monkeypatch: pytest.MonkeyPatch, kept: int, removed: int
) -> None:
    monkeypatch.setattr(writing, "MOST_NUMBERS", 2)
    two = replace(one(0, 4), values=(value("forward", 0.1), value("load", 0.1)))
    store = Forgetful(filled(one(0, 1), one(0, 2), one(0, 3), two))
    store.kept, before = kept, held(store)
    lines, problems = compact(store)
    assert lines == [f"gpt/{HERE}/2026-01: 4 runs in 3 files, {removed} removed"]
    assert [str(problem) for problem in problems] == [
        f"memory/{FOLDER}/2026-01: error: {INCOMPLETE}; the files of these runs stay: run the command again"
    ]
    assert held(store) == before


def test_a_file_of_a_month_stays_until_all_its_runs_are_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Forgetful()
    store.kept = 1
    write_months(store, [one(0, 1), one(0, 2)])
    monkeypatch.setattr(writing, "MOST_NUMBERS", 1)
    store.kept = 1
    assert compact(store)[1] == []  # one file is compact already, whatever its size
    MemoryStore.write(store, f"{FOLDER}/2026-01/x.json", next(iter(filled(one(0, 3)).values())))
    assert compact(store)[0] == [f"gpt/{HERE}/2026-01: 3 runs in 3 files, 0 removed"]
    assert held(store) == [sha(1), sha(2), sha(3)]
    store.clear()
    store.kept = 1
    with pytest.raises(Refused, match="import them again"):
        write_months(store, [one(0, 1), one(0, 2)])


@pytest.mark.parametrize(
    ("most", "counts", "parts"),
    [
        (250_000, [250_000, 1], [1, 1]),
        (250_000, [249_999, 1], [2]),
        (250_000, [1, 250_000], [1, 1]),
        (250_000, [100_000, 150_000, 250_001, 1, 249_999], [2, 1, 2]),
        (250_000, [300_000], [1]),
    ],
)
def test_a_file_of_a_month_has_at_most_so_many_numbers(
    monkeypatch: pytest.MonkeyPatch, most: int, counts: Sequence[int], parts: Sequence[int]
) -> None:
    assert most == writing.MOST_NUMBERS
    written: list[int] = []

    def month_file(records: Sequence[HistoryRecord], tool: str) -> bytes:
        written.append(len(records))
        return str(len(written)).encode()

    monkeypatch.setattr(writing, "month_file", month_file)
    store = MemoryStore()
    found = writing._write(store, ("gpt", HERE, "2026-01"), [one(0, i, count=n) for i, n in enumerate(counts)])
    assert written == parts
    assert [store[path] for path in found] == [str(i + 1).encode() for i in range(len(parts))]


# --- measured runs ---------------------------------------------------------------------------------------------------


class Given(MemoryStore):
    """A store, and what is read: runs, facts and notes, or an error."""

    runs: tuple[Run, ...] = ()
    facts: Mapping[str, Fact] = {}
    notes: tuple[Problem, ...] = ()
    error: Refused | None = None
    tags = b""


@pytest.fixture
def given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Given:
    """A store into which runs are remembered that no file has."""
    store = Given()

    def read_measured(options: CommandOptions, ruleset: Ruleset, *, purpose: str) -> object:
        assert purpose == "be remembered"
        if store.error is not None:
            raise store.error
        return store.runs, store.facts, store.notes

    def git(*words: str, what: str) -> bytes:
        if words == ("tag", "--points-at", sha(1)):
            return store.tags
        raise Refused(what, 3)

    monkeypatch.setattr(writing, "read_measured", read_measured)
    monkeypatch.setattr(writing, "open_store", lambda path: store)
    monkeypatch.setattr(writing, "git", git)
    monkeypatch.setattr(surroundings, "head_commit", lambda: None)
    monkeypatch.setattr(surroundings, "branch", lambda: "checked-out")
    return store


def run(source: str = "run.json", *metrics: str, **about: Any) -> Run:
    series = tuple(Series(Key(name), "s", "samples", np.full(30, 0.1)) for name in metrics)
    return Run(source, "perfgate", series, files=(SourceFile(source, "perfgate", source * 8),), **about)


def refusal(*runs: str) -> tuple[str, int]:
    with pytest.raises(Refused) as refused:
        remember(CommandOptions(runs))
    return str(refused.value), refused.value.exit_code


def test_runs_are_remembered_with_their_notes(given: Given) -> None:
    given.runs = run("a.json", "m", commit=sha(1)), run("b.json", "m", "n", commit=sha(2))
    given.notes = (Problem("warning", "two hosts", Location("a.json")),)
    lines = remember(CommandOptions())
    first, second = sorted(given, key=lambda path: sha(2)[:12] in path)
    assert lines == [
        "a.json: warning: two hosts",
        f"remembered a.json: 1 number in memory/{first}",
        f"remembered b.json: 2 numbers in memory/{second}",
    ]
    assert remember(CommandOptions())[1:] == [f"{name} is in the history already" for name in ("a.json", "b.json")]
    assert len(given) == 2


AGAIN = "a.json is in the history already"
OF_ANOTHER = f"{AGAIN}, as a run of commit {sha(1)[:12]}; name the commit that it measured: --head SHA (3)"
WITHOUT_COMMIT = f"{AGAIN}, without its commit: remove, then add it again (3)"
ADDED_TWICE = [
    # the commits of the first and of the second time; what the second one says
    (sha(1), sha(1), AGAIN),
    (sha(1), sha(1)[:12] + "0" * 28, AGAIN),
    (sha(1), sha(1)[:7], AGAIN),
    (sha(1)[:7], sha(1), AGAIN),
    (None, None, AGAIN),
    (sha(1), sha(2), OF_ANOTHER),
    (sha(1), None, "remembered a.json: 1 number"),
    (None, sha(2), WITHOUT_COMMIT),
]


@pytest.mark.parametrize(("first", "second", "said"), ADDED_TWICE)
def test_files_that_are_remembered_again_later(given: Given, first: str | None, second: str | None, said: str) -> None:
    for commit, day in ((first, 1), (second, 2)):
        given.runs, count = (run("a.json", "m", commit=commit),), len(given)
        try:
            lines = remember(CommandOptions(), Measured(f"2026-01-0{day}T00:00:00Z"))
        except Refused as refused:
            lines = [f"{refused} ({refused.exit_code})"]
    assert [re.sub(r" (?:in )?memory/[^ ,]+(?:json)?", "", line) for line in lines] == [said]
    assert len(given) - count == said.startswith("remembered")


def test_metrics_that_have_no_room_are_counted(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfgate.history.records.MOST_VALUES", 2)
    given.runs = (run("a.json", "k", "l", "m"), run("b.json", "k", "l"), run("c.json", "i", "j", "k", "l"))
    lines = [line.partition(" in memory")[0] for line in remember(CommandOptions())]
    assert lines == [
        "remembered a.json: 2 numbers",
        "  left out, because there is no room: 1 metric; name one in a rule",
        "remembered b.json: 2 numbers",
        "remembered c.json: 2 numbers",
        "  left out, because there is no room: 2 metrics; name one in a rule",
    ]


def test_runs_that_cannot_be_remembered_say_why(given: Given) -> None:
    given.runs = (run("empty.json"),)
    assert refusal() == ("empty.json has no numbers to remember: see `perfgate inspect empty.json`", 3)
    given.runs, given.facts = (run("a.json", "m"),), {"host": "a\nb"}
    assert refusal() == ("a.json: 'a\\nb' has a line break: write it as one line", 3)
    given.error = Refused("these runs cannot be remembered", 3)
    assert refusal("a.json") == ("these runs cannot be remembered", 3)


def test_histories_of_other_tools_are_imported_instead(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    given.error = Refused("these runs cannot be remembered", 3)
    Path("my old.csv").write_bytes(b"time,metric,value\n2026-01-01,caf\xff,1\n")
    Path("run.json").write_text("{}")
    Path("other.csv").write_text("time,metric,value\n")
    Path("folder").mkdir()
    advice = [
        "my old.csv is a history, not one run: perfgate history import 'my old.csv'",
        "other.csv is a history, not one run: perfgate history import other.csv",
    ]
    assert refusal("run.json", "my old.csv", "gone.csv", "folder", "other.csv") == ("\n".join(advice), 3)
    assert refusal("run.json", "gone.csv", "folder") == ("these runs cannot be remembered", 3)
    Path("bench.json").write_text('{"benchmarks": []}')  # one run of another tool
    assert refusal("bench.json") == ("these runs cannot be remembered", 3)

    def denied(path: str) -> object:
        raise PermissionError

    monkeypatch.setattr(writing, "opened", denied)
    assert refusal("run.json") == ("these runs cannot be remembered", 3)


def test_the_rules_or_none(folder: Path) -> None:
    found = rules_or_none(CommandOptions())
    assert (found.suite, found.rules) == ("default", ())
    assert rules_or_none(CommandOptions(suite="gpt")).suite == "gpt"
    with pytest.raises(Refused, match="there are no rules at other"):
        rules_or_none(CommandOptions(rules=("other",)))
    write_rules(folder, "m within 5% of baseline", name="other/rules.yaml")
    assert len(rules_or_none(CommandOptions(rules=("other",))).rules) == 1
    Path("rules").mkdir()
    Path("rules", MAPPING_FILE).write_text("run: {command: make}\n")
    mapped = rules_or_none(CommandOptions())
    assert (mapped.suite, mapped.rules, mapped.command is not None) == ("default", (), True)
    assert rules_or_none(CommandOptions(suite="gpt")).suite == "gpt"
    write_rules(folder, "m within 5% of baseline", "n within 5% of baseline")
    assert [len(rules_or_none(CommandOptions(suite=suite)).rules) for suite in (None, "default")] == [2, 2]
    with pytest.raises(Refused, match="there are no rules for suite 'gpt'"):
        rules_or_none(CommandOptions(suite="gpt"))


RULES = Ruleset("gpt", (), {}, identity=("gpu", "world_size"))
FACTS: dict[str, Fact] = {"torch": "2.9", "gpu": "H200", "host": "n1"}

COMMITS = [
    # --head, commit of the run, HEAD, the commit
    ("a" * 40, "b" * 40, "c" * 40, "a" * 40),
    (None, "b" * 40, "c" * 40, "b" * 40),
    (None, None, "c" * 40, "c" * 40),
    (None, None, None, None),
    ("caf\udce9", None, None, "caf\\udce9"),
]


@pytest.mark.parametrize(("head", "own", "here", "commit"), COMMITS)
def test_the_commit_of_a_run(
    given: Given,
    monkeypatch: pytest.MonkeyPatch,
    head: str | None,
    own: str | None,
    here: str | None,
    commit: str | None,
) -> None:
    monkeypatch.setattr(surroundings, "head_commit", lambda: here)
    found, left_out = record_of(run("a.json", "m", commit=own), {}, RULES, CommandOptions(head=head), Measured())
    assert (found.run.commit, left_out) == (commit, 0)
    assert found.run.tags == ()  # git does not know the commit


def test_the_record_of_a_run(given: Given) -> None:
    given.tags = b"v1\nv\xff\n"
    one = run("a.json", "m", "n", commit=sha(1), part=2)
    found, left_out = record_of(one, FACTS, RULES, CommandOptions(), Measured())
    assert (found.suite, found.identity, left_out) == ("gpt", {"gpu": "H200", "world_size": None}, 0)
    assert [str(number.name) for number in found.values] == ["m median", "n median"]
    about = found.run
    assert about.id == id_of_files([one.files[0].sha256], 2)
    assert (about.time, about.ref, about.tags) == ("2026-01-01T00:00:00Z", "checked-out", ("v1", "v\ufffd"))
    assert [*about.context.items()] == [("host", "n1"), ("torch", "2.9")]
    assert about.imported_from is None
    place = Measured("2025-06-01T02:03:04Z", "main", ("v7",))
    about = record_of(one, FACTS, RULES, CommandOptions(), place)[0].run
    assert (about.time, about.ref, about.tags) == ("2025-06-01T02:03:04Z", "main", ("v7",))
    untracked = run("a.json", "m")
    assert record_of(untracked, FACTS, RULES, CommandOptions(), place)[0].run.tags == ("v7",)
    assert record_of(untracked, FACTS, RULES, CommandOptions(), Measured())[0].run.tags == ()
