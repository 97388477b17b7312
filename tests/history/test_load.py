"""A whole history: what is read of a store, the commits of the branch, approvals, and metrics with a new name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Repository
from histories import at, column, filled, in_memory, record, run_at, sha
from msgspec.structs import replace

from perfgate.baselines.places import FileOrError, environment_name
from perfgate.baselines.stores import Store
from perfgate.core import Key, Location, Problem
from perfgate.core.remembered_runs import CommitLine, CommitNote, HistoryRun, SeriesName
from perfgate.core.run_history import ApprovedLevel, LoadedHistory
from perfgate.history import load as module
from perfgate.history.load import approvals, commit_line, current_name, joined, load, load_history, proposals
from perfgate.history.records import run_file
from perfgate.history.series import series_of
from perfgate.workspace.options import Refused


class MemoryStore:
    """Baselines that are bytes; None cannot be read."""

    def __init__(self, files: Mapping[str, bytes | None]) -> None:
        self.files, self.shown = files, "baselines"

    def paths(self, folder: str = "") -> tuple[list[str], list[Problem]]:
        return sorted(path for path in self.files if path.startswith(folder)), []

    def read(self, path: str) -> bytes:
        found = self.files[path]
        if found is None:
            raise OSError("cannot be read")
        return found

    def read_many(self, paths: Iterable[str]) -> Iterator[FileOrError]:
        raise NotImplementedError

    def location(self, path: str) -> Location:
        return Location(f"baselines/{path}")


def store_of(*runs: Mapping[str, float], **about: Any) -> Store:
    """A store with a run of `gpt` for each row of metrics, an hour apart; `about`: suite, identity, or of the run."""
    files: dict[str, bytes | None] = {}
    fields = {name: about.pop(name) for name in ("suite", "identity") if name in about}
    for number, metrics in enumerate(runs):
        one = replace(record(number, metrics, **about), **fields)
        place = f"_history/{one.suite}/{environment_name(one.identity)}"
        files[f"{place}/2026-01/{number:04}-{one.run.id}.json"] = run_file(one, "perfgate")
    return MemoryStore(files)


def together(*stores: Store) -> Store:
    return MemoryStore({path: one.read(path) for one in stores for path in one.paths()[0]})


class Git:
    """A git that knows some refs, and keeps which it was asked for."""

    def __init__(self, **known: bytes) -> None:
        self.known, self.asked, self.words = known, list[str](), tuple[str, ...]()

    def __call__(self, *words: str, what: str) -> bytes:
        ref, self.words = words[-2], words
        self.asked.append(ref)
        assert what == f"{ref} cannot be read"
        if ref not in self.known:
            raise Refused(what, 3)
        return self.known[ref]


@pytest.fixture
def git(monkeypatch: pytest.MonkeyPatch) -> Git:
    """A git without a repository."""
    found = Git()
    monkeypatch.setattr(module, "git", found)
    return found


def names(found: LoadedHistory) -> list[str]:
    return [one.name.key.metric for one in found.series]


# --- what is read -----------------------------------------------------------------------------------------------------

METRICS = {"forward": 1.0, "fwd_time": 2.0, "fwd": 3.0, "backward": 4.0}
WANTED: list[tuple[str | None, dict[str, str], list[str]]] = [
    (None, {}, ["backward", "forward", "fwd", "fwd_time"]),
    ("forward", {}, ["forward"]),
    ("fwd", {}, ["forward", "fwd"]),
    ("*ward", {}, ["backward", "forward"]),
    ("f?d", {}, ["fwd"]),
    ("loss", {}, []),
    ("forward", {"fwd_time": "forward"}, ["forward"]),
    ("fwd_time", {"fwd_time": "forward"}, ["forward"]),
    ("loss", {"fwd_time": "loss"}, ["loss"]),
    ("los*", {"fwd_time": "loss"}, ["loss"]),
    (None, {"fwd_time": "loss"}, ["backward", "forward", "fwd", "loss"]),
]


@pytest.mark.parametrize(("metric", "renames", "found"), WANTED)
def test_the_wanted_metrics_are_read(git: Git, metric: str | None, renames: dict[str, str], found: list[str]) -> None:
    assert names(load(store_of(METRICS), metric=metric, renames=renames)) == found


def test_the_suite_and_the_environment_are_chosen(git: Git) -> None:
    h100, h200 = ({"gpu": name} for name in ("H100", "H200"))
    three = together(
        store_of({"a": 1.0}, identity=h100),
        store_of({"b": 1.0}, identity=h200),
        store_of({"c": 1.0}, identity=h200, suite="moe"),
    )
    assert names(load(three)) == ["a", "b", "c"]
    assert names(load(three, suite="gpt")) == ["a", "b"]
    assert names(load(three, environment=environment_name(h200))) == ["b", "c"]
    assert [(one.suite, one.environment) for one in load(three).environments] == [
        ("gpt", environment_name(h100)),
        ("gpt", environment_name(h200)),
        ("moe", environment_name(h200)),
    ]


def test_a_history_has_its_runs_levels_and_metrics(git: Git) -> None:
    own = store_of({"a": 1.0}, {"a": 2.0, "b": 1.0})
    environment = load(own).environments[0].environment
    store = together(own, MemoryStore({f"gpt/{environment}/one/run.json": level("one", 3)}))
    (found,) = load(store, metric="b").environments
    assert [run.commit for run in found.runs] == [sha(0), sha(1)]
    assert (found.identity["gpu"], found.metrics, found.notes) == ("H200", ("a", "b"), ())
    assert [one.name for one in found.levels] == ["one"]
    assert load(store).line is None


def test_each_problem_is_said_once(git: Git) -> None:
    whole = store_of({"a": 1.0}, {"a": 2.0})
    (path, other), _ = whole.paths()
    problems = load(MemoryStore({path: whole.read(path)[:-9], other: whole.read(other)})).problems
    assert [str(one.at) for one in problems] == [f"baselines/{path}"]


def test_a_folder_with_another_name_is_no_environment(folder: Path) -> None:
    store = filled(folder, [1.0])
    stray = folder / "baselines/_history/gate/an old copy/2026-01/20260101T000000Z-none-0.json"
    stray.parent.mkdir(parents=True)
    stray.write_text("{}")
    assert [len(one.runs) for one in load(store).environments if one.runs] == [1]


REFS = [
    # the branches of the runs, the branch asked for, the refs that are tried
    (["main", "main", "fix"], None, ["refs/remotes/origin/main", "main", "HEAD"]),
    (["fix", "main", "fix"], None, ["refs/remotes/origin/fix", "fix", "HEAD"]),
    ([None, None, "fix"], None, ["refs/remotes/origin/fix", "fix", "HEAD"]),
    ([None], None, ["HEAD"]),
    (["main"], "fix", ["fix", "refs/remotes/origin/fix"]),
]


@pytest.mark.parametrize(("branches", "ref", "asked"), REFS)
def test_the_branch_of_most_runs_orders_them(
    git: Git, branches: list[str | None], ref: str | None, asked: list[str]
) -> None:
    runs = [replace(record(i, {"a": 1.0}).run, ref=branch, id=f"{i:016}") for i, branch in enumerate(branches)]
    files = [store_of({"a": 1.0}, ref=run.ref, id=run.id) for run in runs]
    assert load(together(*files), ref=ref).line is None
    assert git.asked == asked


def test_the_commits_order_the_runs_and_their_notes_come_before_those_of_renames(
    git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Git(main=b"".join(b"%b\0" * 5 % (sha(i).encode(), b"", b"", b"", b"") for i in (3, 1, 2)))
    monkeypatch.setattr(module, "git", known)
    store = store_of({"a": 1.0}, {"a": 1.0}, {"b": 1.0}, {"c": 1.0})
    found = load(store, ref="main")
    (place,) = found.environments
    assert [run.commit for run in place.runs] == [sha(2), sha(1), sha(3)]
    assert [note.split(" ")[0] for note in place.notes] == ["left", "1", "a", "b", "b"]
    assert [note.split(" ")[0] for note in load(store, ref="main", metric="a").environments[0].notes] == ["left", "1"]
    assert found.line == commit_line(["main"])


def test_the_history_of_a_folder_is_loaded(git: Git, folder: Path) -> None:
    filled(folder, [1.0, 2.0])
    (series,) = load_history().series
    assert series.values.tolist() == [1.0, 2.0]
    assert load_history("other") == load(MemoryStore({}))
    words: dict[str, Any] = {"suite": "gpt", "environment": series.environment, "ref": "fix"}
    assert names(load_history("baselines", metric="b", renames={"forward": "b"}, **words)) == ["b"]
    assert git.asked[-2:] == ["fix", "refs/remotes/origin/fix"]
    for name in ("suite", "environment", "metric"):
        other: dict[str, Any] = {name: "other"}
        assert load_history(**other).series == ()
    with pytest.raises(ValueError, match="a web server does not list its files"):
        load_history("https://example.org")


# --- the commits of a branch ------------------------------------------------------------------------------------------


def test_the_first_parents_of_a_branch_are_read(folder: Path) -> None:
    repository = Repository(folder)
    (folder / "rules").mkdir()
    (folder / "baselines").mkdir()
    first = repository.commit("first: a,b")
    repository.git("tag", "v1,2")
    repository.git("tag", "v1")
    repository.git("checkout", "-q", "-b", "side")
    side = repository.commit("side")
    repository.git("checkout", "-q", "main")
    second = repository.commit("second")
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    merge = repository.git("rev-parse", "HEAD")
    found = commit_line(["absent", "main", "side"])
    assert found is not None
    assert found.ref == "main"
    assert [(one.sha, one.author, one.subject, sorted(one.tags)) for one in found.commits] == [
        (first, "ada", "first: a,b", ["v1", "v1,2"]),
        (second, "ada", "second", []),
        (merge, "ada", "merge", []),
    ]
    assert found.place(side) is None
    assert all(one.time[-1] == "Z" and len(one.time) == 20 for one in found.commits)
    assert commit_line(["absent"]) is None
    assert commit_line([]) is None


def test_the_bytes_of_a_commit_are_text_and_its_time_is_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Git(main=b"b\0002026-01-01T03:00:00+02:00\0Zo\xc3\xab \xff\0s\0tag: v2, main\0a\0never\0x\0\0\0")
    monkeypatch.setattr(module, "git", known)
    notes = [CommitNote("a", "never", "x", ""), CommitNote("b", "2026-01-01T01:00:00Z", "Zoë \\xff", "s", ("v2",))]
    assert commit_line(["main"]) == CommitLine.of("main", notes)
    assert "--max-count=100000" in known.words


TIMES = [
    ("2026-01-01T03:00:00+02:00", "2026-01-01T01:00:00Z"),
    ("2026-01-01T03:00:00Z", "2026-01-01T03:00:00Z"),
    ("0001-01-01T00:00:00+02:00", "0001-01-01T00:00:00+02:00"),
    ("soon", "soon"),
]


@pytest.mark.parametrize(("time", "found"), TIMES)
def test_a_time_of_git_is_that_of_a_run(time: str, found: str) -> None:
    assert module._utc(time) == found


# --- approvals --------------------------------------------------------------------------------------------------------


def level(name: str, hours: float, **about: Any) -> bytes:
    """A stored run of a level."""
    return json.dumps({"time": at(hours), "commit": sha(1), "level": {"name": name, **about}}).encode()


def test_each_level_is_read_from_its_first_run() -> None:
    about = {"reason": "faster", "by": "ada", "pr": 7, "adopts": ["forward"], "parent": "a"}
    files = {
        "s/e/a/1.json": level("a", 5),
        "s/e/b/1.json": level("b", 3, **about),
        "s/e/b/2.json": level("b", 9),
        "s/e/c/1.json": level("c", 3),
        "s/e/0/1.json": level("z", 3),
        "s/e/prior.json": level("prior", 1),
        "s/allowances/x.json": level("allowance", 1),
        "s/e/d/1.json": None,
        "s/e/e/1.json": b'{"time": ',
        "s/e/f/1.json": b'{"time": "\xff"}',
        "s/e/g/1.json": b'{"time": 1}',
        "s/f/a/1.json": level("other", 1),
    }
    assert approvals(MemoryStore(files), "s", "e") == (
        ApprovedLevel("b", at(3), sha(1), "ada", "faster", 7, ("forward",), False),
        ApprovedLevel("c", at(3), sha(1), "", "", None, (), True),
        ApprovedLevel("z", at(3), sha(1), "", "", None, (), True),
        ApprovedLevel("a", at(5), sha(1), "", "", None, (), True),
    )


# --- metrics with a new name ------------------------------------------------------------------------------------------

NEWEST = [
    ("a", {}, "a"),
    ("a", {"a": "b"}, "b"),
    ("a", {"a": "b", "b": "c"}, "c"),
    ("b", {"a": "b"}, "b"),
    ("a", {"a": "b", "b": "a"}, "b"),
    ("x", {"x": "a", "a": "b", "b": "a"}, "b"),
    ("a", {"a": "a"}, "a"),
]


@pytest.mark.parametrize(("metric", "renames", "found"), NEWEST)
def test_a_metric_has_its_newest_name(metric: str, renames: dict[str, str], found: str) -> None:
    assert current_name(metric, renames) == found


def named(metric: str, **about: Any) -> dict[str, Any]:
    return {"name": SeriesName(Key(metric), "median"), **about}


def test_renamed_series_become_one() -> None:
    names = ("errors", "n_effective", "n")
    old, new = ({name: np.array([k + i, k + i + 1.0]) for i, name in enumerate(names)} for k in (10, 20))
    history = in_memory(
        [run_at(i) for i in range(4)],
        column([1.0, 2.0], [0, 2], **named("old", **old, better="lower", kind="aggregate")),
        column([5.0, 6.0], [2, 3], **named("new", **new, better="higher")),
        column([7.0], [1], **named("old", unit="1/s")),
        column([8.0], [1], **named("a")),
    )
    history = replace(history, metrics=("a", "new", "old"))
    found = joined(history, {"old": "new"})
    assert [(one.name.key.metric, one.unit) for one in found.series] == [("a", "s"), ("new", "1/s"), ("new", "s")]
    one = found.series[2]
    assert (one.at.tolist(), one.values.tolist(), one.better, one.kind) == ([0, 2, 3], [1, 5, 6], "higher", "samples")
    columns = [one.errors.tolist(), one.n_effective.tolist(), one.n.tolist()]
    assert columns == [[10, 20, 21], [11, 21, 22], [12, 22, 23]]
    assert found.metrics == ("a", "new")
    assert joined(history, {}) is history


def test_the_newer_name_counts_whichever_is_first() -> None:
    columns = column([1.0], [0], **named("b")), column([2.0], [0], **named("a"))
    runs = [run_at(0)]
    for order in (columns, columns[::-1]):
        assert joined(in_memory(runs, *order), {"a": "b"}).series[0].values.tolist() == [1.0]
        assert joined(in_memory(runs, *order), {"b": "a"}).series[0].values.tolist() == [2.0]


#: The runs and numbers of the old metric and of the new one among twenty runs; is a rename proposed?
RENAMES: list[tuple[Iterable[int], Sequence[float], Iterable[int], Sequence[float], dict[str, Any], bool]] = [
    (range(10), [1.0] * 10, range(10, 20), [1.0] * 10, {}, True),
    (range(10), [0.1] * 10, range(12, 20), [0.1] * 8, {}, True),
    (range(10), [1.0] * 10, range(13, 20), [1.0] * 7, {}, False),
    (range(10), [1.0] * 10, range(9, 20), [1.0] * 11, {}, False),
    (range(10), [1.0] * 10, range(5, 20), [1.0] * 15, {}, False),
    ([0], [1.0], [1], [1.0], {}, True),
    ([0], [1.0], [0], [1.0], {}, False),
    ([2, 4, 6], [1.0] * 3, [8, 19], [1.0] * 2, {}, True),
    (range(20), [1.0] * 20, range(10, 20), [1.0] * 10, {}, False),
    (range(10), [1.0] * 10, range(10, 20), [1.25] * 10, {}, True),
    (range(10), [1.0] * 10, range(10, 20), [1.26] * 10, {}, False),
    (range(10), [1.0] * 10, range(10, 20), [0.8] * 10, {}, True),
    (range(10), [1.0] * 10, range(10, 20), [0.79] * 10, {}, False),
    (range(10), [100.0] * 10, range(10, 20), [100.0] * 10, {}, True),
    (range(10), [0.0] * 10, range(10, 20), [0.0] * 10, {}, False),
    (range(10), [-1.0] * 10, range(10, 20), [-1.0] * 10, {}, False),
    (range(10), [9.0] * 7 + [1.0] * 3, range(10, 20), [1.0] * 3 + [9.0] * 7, {}, True),
    (range(10), [9.0] * 7 + [1.0] * 3, range(10, 20), [1.0] * 10, {}, True),
    (range(10), [9.0] * 8 + [1.0] * 2, range(10, 20), [1.0] * 3 + [9.0] * 7, {}, False),
    (range(10), [9.0] * 7 + [1.0] * 3, range(10, 20), [1.0] * 2 + [9.0] * 8, {}, False),
    (range(10), [1.0] * 10, range(10, 20), [1.0] * 10, {"unit": "1/s"}, False),
    (range(10), [1.0] * 10, range(10, 20), [1.0] * 10, {"name": SeriesName(Key("new"), "mean")}, False),
    (range(10), [1.0] * 10, range(10, 20), [1.0] * 10, {"name": SeriesName(Key("new"), "median", "fastest")}, False),
    ([], [], range(10, 20), [1.0] * 10, {}, False),
    (range(10), [1.0] * 10, [], [], {}, False),
]


@pytest.mark.parametrize(("old", "numbers", "new", "later", "about", "proposed"), RENAMES)
def test_a_rename_is_proposed_where_a_similar_metric_follows(
    old: Iterable[int],
    numbers: Sequence[float],
    new: Iterable[int],
    later: Sequence[float],
    about: dict[str, Any],
    proposed: bool,
) -> None:
    runs: list[HistoryRun] = [run_at(i) for i in range(20)]
    columns = column(numbers, old, **named("old")), column(later, new, **(named("new") | about))
    note = (
        "old ended where new began, with a similar value: if it was renamed, write `renames: {old: new}` in the rules"
    )
    series, _ = series_of(in_memory(runs, *columns), None, ())
    assert list(proposals(series, runs)) == ([note] if proposed else [])
