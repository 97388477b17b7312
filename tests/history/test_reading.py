"""The functions that add runs to a history and read them, each with a store in memory."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from hashlib import sha256

import numpy as np
import pytest
from histories import IDENTITY, MemoryStore, at, record, sha, value
from msgspec.structs import replace

from perfgate.baselines.ledger import LEDGER_FILE, LedgerFile
from perfgate.baselines.places import environment_name
from perfgate.core import Key, Problem
from perfgate.core.remembered_runs import HistoryRecord, HistoryRun, HistoryValue, SeriesName
from perfgate.history.files import REMEDY, month_file
from perfgate.history.records import run_file
from perfgate.history.store import (
    HistoryColumn,
    add,
    branch_of,
    is_exact,
    known_ids,
    listed,
    places,
    read,
    read_file,
    remembered_already,
    usable_runs,
    verify,
    write_new,
)
from perfgate.history.writing import write_months
from perfgate.version import __version__
from perfgate.workspace.options import Refused

NAN = math.nan
HERE = environment_name(IDENTITY)
FOLDER = f"_history/gpt/{HERE}"
OTHER = environment_name({"gpu": "A100"})


def filled(*records: HistoryRecord) -> MemoryStore:
    store = MemoryStore()
    for one in records:
        assert add(store, one)
    return store


def path_of(data: bytes) -> str:
    """Return the path of a file of a month."""
    return f"{FOLDER}/2026-01-{sha256(data).hexdigest()[:16]}.json"


def said(store: MemoryStore, suite: str = "gpt", environment: str = HERE) -> list[str]:
    return [str(problem) for problem in read(store, suite, environment).problems]


# --- which runs, which branch, which numbers -------------------------------------------------------------------------

RUNS = [HistoryRun(str(i), at(i), ref=ref) for i, ref in enumerate(("main", "main", "fix", None, None))]


@pytest.mark.parametrize(
    ("branch", "usable"),
    [("main", [True, False, False, False, False]), ("fix", [False, False, True, False, False]), ("other", [False] * 5)],
)
def test_runs_of_the_branch_that_are_not_judged_now_are_usable(branch: str, usable: list[bool]) -> None:
    found = usable_runs(RUNS, branch, lambda run: run.id in ("1", "4"))
    assert (str(found.dtype), found.tolist()) == ("bool", usable)


def test_runs_without_a_branch_are_usable_for_no_branch() -> None:
    assert usable_runs(RUNS, "", lambda run: run.id in ("1", "4")).tolist() == [False, False, False, True, False]
    assert str(usable_runs([], "", lambda run: False).dtype) == "bool"


@pytest.mark.parametrize(
    ("ref", "branches", "found"),
    [
        ("fix", ["main", "main", "fix"], "fix"),
        ("", ["fix", "main", "main"], "main"),
        ("@", ["fix", "main", "main"], "main"),
        ("@{upstream}", ["fix", "main", "main"], "main"),
        ("HEAD^2", ["fix", "main", "main"], "main"),
        ("0123abc", ["fix", "main", "main"], "main"),
        ("0123ab", ["fix", "main", "main"], None),
        ("f" * 64, ["fix", "main", "main"], "main"),
        ("f" * 65, ["fix", "main", "main"], None),
        ("refs/heads/fix~1", ["fix", "main", "main"], "fix"),
        ("refs/upstream", ["upstream", "main", "main"], "upstream"),
        ("upstream/fix@{1}", ["fix", "main", "main"], "fix"),
        ("origin/fix", ["origin/fix", "fix", "main"], "origin/fix"),
        ("fix", [None, None], ""),
        ("", [], None),
    ],
)
def test_the_branch_that_a_ref_means(ref: str, branches: Sequence[str | None], found: str | None) -> None:
    assert branch_of([HistoryRun(str(i), at(i), ref=one) for i, one in enumerate(branches)], ref) == found


@pytest.mark.parametrize(
    ("unit", "statistic", "values", "exact"),
    [
        ("B", "max", [0.5], True),
        ("FLOP", "total", [0.5], True),
        ("s", "count", [0.5], True),
        ("s", "median", [1.0, 2.0], False),
        ("1", "mean", [1.0, 2.0], True),
        ("1", "mean", [1.0, 1.5], False),
        ("1", "mean", [1.5], False),
        ("1", "mean", [1.0, NAN], False),
    ],
)
def test_bytes_operations_and_counts_are_exact(unit: str, statistic: str, values: list[float], *, exact: bool) -> None:
    name, x = SeriesName(Key("x"), statistic), np.array(values)
    column = HistoryColumn(name, unit, "lower", "samples", np.arange(len(x)), x, x, x, x)
    assert is_exact(column) is exact


# --- where runs are written ------------------------------------------------------------------------------------------


def test_a_run_is_written_once_under_its_month_time_commit_and_id() -> None:
    store, one = MemoryStore(), record(3, {"forward": 0.1})
    path = f"{FOLDER}/2026-01/20260101T030000Z-{sha(3)[:12]}-{one.run.id}.json"
    assert (add(store, one), add(store, one)) == (path, None)
    assert json.loads(store[path])["left_out"] == 0
    assert json.loads(store[path])["tool"] == f"perfgate {__version__}"
    untracked = replace(one, run=replace(one.run, commit=None))
    path = f"{FOLDER}/2026-01/20260101T030000Z-none-{one.run.id}.json"
    assert add(store, untracked, 4) == path
    assert json.loads(store[path])["left_out"] == 4


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), PermissionError(13, "Permission denied")])
def test_a_file_that_cannot_be_written_is_named(error: OSError) -> None:
    store = MemoryStore()
    store.broken["_history/x.json"] = error
    with pytest.raises(Refused) as refused:
        write_new(store, "_history/x.json", b"")
    assert str(refused.value) == f"memory/_history/x.json: cannot be written: {error.strerror}"
    with pytest.raises(Refused, match=r"memory/\.\./x: cannot be written: '\.\.' is not a name for a baseline"):
        write_new(store, "../x", b"")
    assert [write_new(store, "_history/y.json", data) for data in (b"1", b"2")] == [True, False]
    assert store == {"_history/y.json": b"1"}


ONE = record(1, {"forward": 0.1}, id="0" * 16)


def test_the_commits_of_the_runs_of_the_same_files() -> None:
    store = filled(record(7, {"forward": 0.2}, id="1" * 16), record(8, {"forward": 0.1}, id=ONE.run.id), ONE)
    add(store, replace(ONE, run=replace(ONE.run, commit=None)))
    add(store, replace(ONE, suite="bert", run=replace(ONE.run, commit=sha(9))))
    assert sorted(remembered_already(store, ONE)) == sorted([sha(1)[:12], sha(8)[:12], "none"])
    assert remembered_already(store, replace(ONE, identity={})) == {}


def test_places_are_folders_of_environments_and_not_the_ledger() -> None:
    names = [
        *("_history/b/e2/2026-01-0a.json", "_history/b/e1/2026-01/x.json", "_history/a/e3/2026-01-0a.json"),
        *(
            "_history/b/stray.json",
            "_history/stray.json",
            "_history/c/e4/notes.txt",
            "_history/_ledger/b/2026-01-0a.json",
        ),
    ]
    store = MemoryStore(dict.fromkeys(names, b""))
    assert places(store) == ([("a", "e3"), ("b", "e1"), ("b", "e2")], [])
    assert places(store, "b") == ([("b", "e1"), ("b", "e2")], [])
    assert places(store, "..") == ([], [])
    assert listed(store, "_history/b")[0] == [
        *("_history/b/e1/2026-01/x.json", "_history/b/e2/2026-01-0a.json", "_history/b/stray.json")
    ]


# --- what is read ----------------------------------------------------------------------------------------------------


def test_a_history_has_its_runs_in_order_of_time_with_all_their_numbers() -> None:
    printed = HistoryValue(SeriesName(Key("loss"), "mean"), "1", "lower", "value", 2.5)
    newest, oldest = record(9, {"forward": 0.3}), record(2, {"forward": 0.1, "load": 1.0})
    middle = record(5, {"forward": 0.2})
    middle = replace(middle, values=(*middle.values, printed))
    for is_month in (False, True):
        store = MemoryStore()
        if is_month:
            write_months(store, [newest, oldest, middle])
        else:
            store = filled(newest, oldest, middle)
        found = read(store, "gpt", HERE)
        assert (found.suite, found.environment, found.identity, found.problems) == ("gpt", HERE, IDENTITY, ())
        assert [run.commit for run in found.runs] == [sha(2), sha(5), sha(9)]
        assert found.metrics == ("forward", "load", "loss")
        assert found.sha256 == "".join(json.loads(store[path])["content_sha256"] for path in sorted(store))
        forward, load, loss = found.series
        assert (str(forward.name), forward.unit, forward.better, forward.kind) == (
            *("forward median", "s", "lower", "samples"),
        )
        assert (forward.at.tolist(), forward.values.tolist()) == ([0, 1, 2], [0.1, 0.2, 0.3])
        assert forward.errors.tolist() == pytest.approx([0.0002, 0.0004, 0.0006])
        assert (forward.n.tolist(), forward.n_effective.tolist()) == ([200] * 3, [150] * 3)
        assert (load.at.tolist(), load.values.tolist()) == ([0], [1.0])
        assert (loss.at.tolist(), loss.values.tolist(), loss.n.tolist()) == ([1], [2.5], [0])
        assert np.isnan([loss.errors, loss.n_effective]).all()


def test_only_wanted_metrics_are_read_and_all_are_named() -> None:
    for store in (MemoryStore(), filled(record(1, {"a": 1.0, "b": 2.0}))):
        write_months(store, [record(1, {"a": 1.0, "b": 2.0})])
        found = read(store, "gpt", HERE, lambda metric: metric == "b")
        assert ([one.name.key.metric for one in found.series], found.metrics) == (["b"], ("a", "b"))


def test_of_a_run_in_two_files_the_earlier_one_counts_and_the_first_number() -> None:
    both = {"forward": 0.1}
    early, late = (record(1, both, id="a" * 16, hours=hours, ref=str(hours)) for hours in (5, 6))
    for pair in ((early, late), (late, early)):
        assert [run.ref for run in read(filled(*pair), "gpt", HERE).runs] == ["5"]
    again = replace(late, run=replace(late.run, time=early.run.time, commit="f" * 40), values=(value("forward", 0.2),))
    found = read(filled(early, again), "gpt", HERE)
    assert ([run.commit for run in found.runs], found.series[0].values.tolist()) == ([sha(1)], [0.1])


def test_the_newest_runs_are_read_alone() -> None:
    store = filled(*(record(i, {"forward": 0.1}) for i in range(6)))
    assert [run.commit for run in read(store, "gpt", HERE, newest=2).runs] == [sha(4), sha(5)]
    assert len(read(store, "gpt", HERE).runs) == 6


def test_ids_are_known_also_of_runs_with_impossible_numbers() -> None:
    odd = replace(ONE, values=(value("forward", 0.1, unit="parsec"),))
    for data in (run_file(odd, "t"), month_file([odd], "t")):
        store = MemoryStore({path_of(data): data})
        assert known_ids(store, "gpt", HERE) == {"0" * 16}
        assert len(said(store)) == 1


def test_verify_counts_the_runs_and_has_the_problems_of_histories_and_ledgers() -> None:
    assert verify(MemoryStore()) == (0, [])
    store = filled(*(record(i, {"forward": 0.1}) for i in range(3)))
    add(store, replace(ONE, suite="bert"))
    store["_history/_ledger/gpt/2026-01/y.json"] = LEDGER_FILE.encode(LedgerFile(LEDGER_FILE.schema, "t", "gpt", []))
    assert verify(store) == (4, [])
    store[f"{FOLDER}/2026-01/x.json"] = store["_history/_ledger/gpt/2026-01/x.json"] = b"{"
    count, problems = verify(store)
    assert (count, [problem.at.file for problem in problems]) == (
        4,
        [f"memory/{FOLDER}/2026-01/x.json", "memory/_history/_ledger/gpt/2026-01/x.json"],
    )


# --- files that cannot be used ---------------------------------------------------------------------------------------


class Flaky(MemoryStore):
    """A store whose last file is not there the first `missing` times."""

    missing = 0

    def read(self, path: str) -> bytes:
        if self.missing and path == max(self):
            self.missing -= 1
            raise FileNotFoundError
        return super().read(path)


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize(("missing", "runs"), [(0, 1), (4, 1), (5, 0)])
def test_a_file_that_is_gone_is_looked_for_five_times(missing: int, runs: int, others: int) -> None:
    store = Flaky(filled(*(record(i, {"forward": 0.1}) for i in range(1 + others))))
    store.missing = missing
    found = read(store, "gpt", HERE)
    assert (len(found.runs), store.missing) == (runs + others, 0)
    wrong = [] if runs else [f"memory/{max(store)}: error: is listed, but it is not there"]
    assert [str(problem) for problem in found.problems] == wrong


def test_a_file_is_read_once_and_a_list_that_is_complete_is_the_last() -> None:
    asked: list[str] = []

    class Counting(MemoryStore):
        def paths(self, folder: str = "") -> tuple[list[str], list[Problem]]:
            asked.append("list")
            return super().paths(folder)

        def read(self, path: str) -> bytes:
            asked.append(path)
            return super().read(path)

    store = Counting(filled(ONE, record(2, {"forward": 0.1})))
    read(store, "gpt", HERE)
    assert asked == ["list", *sorted(store)]
    store.broken["_history/gpt/" + HERE + "/2026-01/x.json"] = FileNotFoundError()
    asked.clear()
    read(store, "gpt", HERE)
    assert sorted(asked) == sorted(["list"] * 5 + [*store.broken] * 5 + [*store])


def test_a_file_that_cannot_be_used_says_why() -> None:
    run, month = run_file(ONE, "t"), month_file([ONE], "t")
    known = path_of(month)
    rows = [
        (known, month, None),
        (f"{FOLDER}/2026-01/x.json", run, None),
        (f"{FOLDER}/2026-01-{'0' * 16}.json", month, f"has other runs than the file that was written here; {REMEDY}"),
        (f"_history/gpt/{OTHER}/2026-01/x.json", run, f"was moved: it belongs to gpt/{HERE}"),
        (f"_history/bert/{HERE}/2026-01/x.json", run, f"was moved: it belongs to gpt/{HERE}"),
        (known.replace("gpt", "bert"), month, f"was moved: it belongs to gpt/{HERE}"),
        (known, b"", None),
    ]
    for path, data, wrong in rows:
        store = MemoryStore({path: data})
        file, problems = read_file(store, path, None)
        if wrong is None and data:
            assert file is not None
            assert ([one.id for one in file.runs], problems) == (["0" * 16], [])
        else:
            assert file is None
            (problem,) = problems
            assert str(problem).startswith(f"memory/{path}: error: {wrong or ''}")
    store = MemoryStore()
    store.broken[known] = PermissionError(13, "Permission denied")
    assert read_file(store, known, None)[0] is None
    assert said(store) == [f"memory/{known}: error: cannot be read: Permission denied"]
    with pytest.raises(FileNotFoundError):
        read_file(MemoryStore(), known, None)
