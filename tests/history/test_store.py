"""The files of the history: added by many writers, compacted, damaged; no run is lost or counted twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Done, Repository
from histories import filled, record, sha, steps, store_at

from perfgate.baselines.policy_stores import store_of
from perfgate.baselines.stores import DirectoryStore, WritableStore
from perfgate.core import Key, Run, Series
from perfgate.history import store as module
from perfgate.history import writing
from perfgate.history.load import load
from perfgate.history.records import values_of
from perfgate.history.store import add, read, verify
from perfgate.history.writing import compact, write_months
from perfgate.workspace.rule_source import policy_source

NUMBERS = steps((10, 0.1), (10, 0.11))


def files(folder: Path) -> list[Path]:
    return sorted((folder / "baselines" / "_history").rglob("*.json"))


def held(store: WritableStore) -> list[tuple[str | None, float]]:
    """Each remembered run of the one series, by time."""
    ((suite, environment),) = module.places(store)[0]
    history = read(store, suite, environment)
    (series,) = history.series
    return [(history.runs[at].commit, value) for at, value in zip(series.at, series.values.tolist(), strict=True)]


def expected() -> list[tuple[str | None, float]]:
    return [(sha(i), float(f"{value:.12g}")) for i, value in enumerate(NUMBERS)]


def test_each_run_is_a_file_of_its_own_and_never_changes(folder: Path) -> None:
    store = filled(folder, NUMBERS)
    before = {path: path.read_bytes() for path in files(folder)}
    assert len(before) == len(NUMBERS)
    assert add(store, record(99, {"forward": 0.1}))
    assert before.items() <= {path: path.read_bytes() for path in files(folder)}.items()


def test_numbers_that_are_not_times_are_not_added_up() -> None:
    large = Series(Key("rate"), "FLOP/s", "samples", np.array([1e308] * 3))
    (one,), left_out = values_of(Run("run", "perfgate", (large,)))
    assert (one.value, left_out) == (1e308, 0)


def test_a_run_that_is_added_again_counts_once(folder: Path) -> None:
    store = filled(folder, NUMBERS)
    assert add(store, record(3, {"forward": NUMBERS[3]})) is None
    later = record(3, {"forward": NUMBERS[3]})
    again = record(3, {"forward": NUMBERS[3]}, hours=500, id=later.run.id)
    assert add(store, again)
    assert held(store) == expected()


def test_compacting_keeps_every_number(folder: Path) -> None:
    store = filled(folder, NUMBERS)
    ((suite, environment),) = module.places(store)[0]
    before = read(store, suite, environment)
    lines, problems = compact(store)
    assert (len(lines), problems, len(files(folder))) == (1, [], 1)
    after = read(store, suite, environment)
    assert (after.runs, after.metrics) == (before.runs, before.metrics)
    for one, other in zip(after.series, before.series, strict=True):
        assert one.name == other.name
        for column in ("at", "values", "errors", "n", "n_effective"):
            assert list(getattr(one, column)) == list(getattr(other, column))
    assert compact(store) == ([], [])


def test_only_months_that_are_over_are_compacted(folder: Path) -> None:
    store = filled(folder, NUMBERS)
    for i in range(3):
        add(store, record(900 + i, {"forward": 0.1}))
    lines, _ = compact(store, before="2026-02")
    assert len(lines) == 1
    assert len(files(folder)) == 1 + 3


def test_a_folder_without_history_is_not_compacted(folder: Path, perfgate: Callable[..., Done]) -> None:
    done = perfgate("history", "compact", "--baselines", "basleines")
    assert (done.code, "no history found in basleines: name its folder with --baselines" in done.err) == (3, True)


def test_a_compaction_that_dies_loses_and_doubles_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(folder, NUMBERS)
    removed = []

    def dies(self: DirectoryStore, path: str) -> None:
        if len(removed) == 7:
            raise KeyboardInterrupt
        removed.append(path)
        (self.root / path).unlink()

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStore, "remove", dies)
        with pytest.raises(KeyboardInterrupt):
            compact(store)
    assert len(files(folder)) == len(NUMBERS) - 7 + 1
    assert held(store) == expected()
    compact(store)
    assert held(store) == expected()
    assert len(files(folder)) == 1


def test_two_compactions_at_once_lose_and_double_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(folder, NUMBERS)
    add(store, record(70, {"forward": 0.1}))
    write, began = DirectoryStore.write, []

    def other_is_faster(self: DirectoryStore, path: str, data: bytes, *, replace: bool = False) -> None:
        if not began:  # the second one reads more runs, writes and removes while the first one is about to write
            began.append(path)
            add(store, record(71, {"forward": 0.1}))
            compact(store)
        write(self, path, data, replace=replace)

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStore, "write", other_is_faster)
        compact(store)
    assert len(held(store)) == len(NUMBERS) + 2
    assert len(files(folder)) == 2
    compact(store)
    assert len(held(store)) == len(NUMBERS) + 2
    assert len(files(folder)) == 1


def test_a_reader_beside_a_compaction_sees_every_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(folder, NUMBERS)
    read_one, began = DirectoryStore.read, []

    def compacts_first(self: DirectoryStore, path: str) -> bytes:
        if not began:
            began.append(path)
            compact(store)
        return read_one(self, path)

    monkeypatch.setattr(DirectoryStore, "read", compacts_first)
    assert held(store) == expected()


@pytest.mark.parametrize("how", ["cut", "altered", "not JSON", "newer"])
@pytest.mark.parametrize("is_month", [False, True], ids=["run", "month"])
def test_a_damaged_file_is_named_and_left_out(folder: Path, how: str, is_month: bool) -> None:
    store = filled(folder, NUMBERS)
    if is_month:
        compact(store)
        write_months(store, [record(900, {"forward": 0.1})])
    victim = files(folder)[0]
    text = victim.read_text()
    schema = json.loads(text)["schema"]
    changed = {
        "cut": text[: len(text) // 2],
        "altered": text.replace("0.1", "0.2", 1),
        "not JSON": "{",
        "newer": text.replace(schema, schema.replace("/1", "/9")),
    }
    victim.write_text(changed[how])
    found = load(store)
    (problem,) = found.problems
    assert (problem.severity, problem.at.file) == ("error", victim.relative_to(folder).as_posix())
    assert len(found.series[0].runs) == (1 if is_month else len(NUMBERS) - 1)
    assert verify(store)[1] == [problem]


def test_an_incomplete_history_says_so(folder: Path, perfgate: Callable[..., Done]) -> None:
    filled(folder, NUMBERS)
    victim = files(folder)[3]
    victim.write_text("{")
    for words in (["show"], ["forward"], ["export", "--to", "history.csv"]):
        done = perfgate("history", *words)
        assert (done.code, victim.name in done.err) == (3, True)
        assert ("this history is incomplete: 1 file cannot be used" in done.out) == (words[0] != "export")
    assert len(Path("history.csv").read_text().splitlines()) == len(NUMBERS)


@pytest.mark.parametrize(("count", "said"), [(1, "this file"), (2, "the 2 files that cannot be used")])
def test_a_metric_that_may_be_in_a_damaged_file(
    folder: Path, perfgate: Callable[..., Done], count: int, said: str
) -> None:
    filled(folder, NUMBERS[:count])
    for victim in files(folder):
        victim.write_text("{")
    done = perfgate("history", "forward")
    assert done.code == 3
    assert done.err.startswith(f"error: {files(folder)[0].relative_to(folder).as_posix()}: ")
    assert f"without {said}, the history has no metric 'forward': it has no metrics\n" in done.err


def test_a_file_of_another_environment_is_named(folder: Path) -> None:
    store = filled(folder, NUMBERS)
    victim = files(folder)[0]
    other = folder / "baselines/_history/other/place/2026-01"
    other.mkdir(parents=True)
    victim.rename(other / victim.name)
    (problem,) = load(store).problems
    assert "was moved: it belongs to gpt/" in problem.message
    assert compact(store)[1] == [problem]
    assert (other / victim.name).exists()


def test_a_big_month_is_several_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MOST_NUMBERS", 8)
    store = filled(folder, NUMBERS)
    compact(store)
    assert len(files(folder)) == 3
    assert held(store) == expected()
    assert compact(store) == ([], [])


def lost(store: DirectoryStore, path: str, data: bytes) -> None:
    """Answer that a file was written, and keep nothing."""


def cut(store: DirectoryStore, path: str, data: bytes) -> None:
    (store.root / path).write_bytes(data[:-30])


def hidden(store: DirectoryStore, path: str, data: bytes) -> None:
    """Write a file that no list has."""
    (store.root / path).with_name(".hidden").write_bytes(data)


@pytest.mark.parametrize("wrong", [lost, cut, hidden])
@pytest.mark.parametrize("most", [250_000, 8], ids=["one file", "the second of three"])
def test_no_run_is_removed_whose_replacement_does_not_exist(
    folder: Path, monkeypatch: pytest.MonkeyPatch, perfgate: Callable[..., Done], wrong: Callable[..., None], most: int
) -> None:
    monkeypatch.setattr(writing, "MOST_NUMBERS", most)
    filled(folder, NUMBERS)
    write, months = DirectoryStore.write, []

    def answers(self: DirectoryStore, path: str, data: bytes, *, replace: bool = False) -> None:
        months.append(path)
        (write if most == 8 and len(months) != 2 else wrong)(self, path, data)

    with monkeypatch.context() as patched:
        patched.setattr(DirectoryStore, "write", answers)
        done = perfgate("history", "compact", "--all")
    assert (done.code, "the files of these runs stay: run the command again" in done.err) == (3, True), done.said
    assert f"{12 if most == 8 else 0} removed" in done.out
    if wrong is cut:  # its name was said
        assert perfgate("baseline", "verify").code == 3
        (folder / "baselines" / months[1 if most == 8 else 0]).unlink()
    assert held(store_at(folder)) == expected()
    assert perfgate("history", "compact", "--all").code == 0
    assert held(store_at(folder)) == expected()


def test_an_import_that_was_not_kept_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, perfgate: Callable[..., Done]
) -> None:
    Path("runs.csv").write_text("time,metric,value\n2026-01-01,forward,0.1\n")
    with monkeypatch.context() as patched:
        patched.setattr(DirectoryStore, "write", lost)
        done = perfgate("history", "import", "runs.csv")
    assert (done.code, "import them again" in done.err) == (3, True), done.said
    assert perfgate("history", "import", "runs.csv").code == 0


def test_a_store_without_history_is_empty(folder: Path) -> None:
    found = load(store_at(folder))
    assert (found.environments, found.problems) == ((), ())


def test_the_history_of_a_commit_is_read_apart_from_its_baselines(repository: Repository, folder: Path) -> None:
    store = filled(folder, NUMBERS)
    repository.commit("history")
    source = policy_source("HEAD")
    ((suite, environment),) = module.places(store)[0]
    (folder / "baselines").rename(folder / "gone")
    baselines = store_of(source, "baselines")
    assert [path for path in baselines.paths()[0] if "_history" in path] == []
    assert baselines.paths()[0]
    assert len(read(store_of(source, "baselines", f"{suite}/{environment}"), suite, environment).runs) == len(NUMBERS)
