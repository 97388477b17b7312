"""Stored baselines as a user meets them: approve, add, list, show, and what damage does."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from conftest import Done, steady, write_log, write_results, write_rules

from perfgate.baselines.condensed import kept_positions
from perfgate.baselines.files import KEEP_WHOLE, STORED_RUN
from perfgate.baselines.places import UnsafeName, differences, environment_name
from perfgate.baselines.stores import DirectoryStore
from perfgate.schemas import schema

Command = Callable[..., Done]


@pytest.fixture
def gate(perfgate: Command, folder: Path) -> Command:
    """A folder with one rule and four unchanged runs, of which the first is the baseline."""
    write_rules(folder, "forward within 5% of baseline")
    for seed in range(4):
        write_log(folder / f"run{seed}.log", forward=steady(100, seed=seed), other=steady(7, seed=seed))
    assert perfgate("baseline", "approve", "run0.log", "--reason", "first").code == 0
    return perfgate


def stored(folder: Path) -> list[Path]:
    return sorted((folder / "baselines").rglob("*.json"))


def test_a_file_holds_what_later_decisions_need(gate: Command, folder: Path) -> None:
    import jsonschema

    (path,) = stored(folder)
    assert len(path.relative_to(folder / "baselines").parts) == 4  # suite, environment, level, run
    document = json.loads(path.read_text())
    jsonschema.validate(document, schema("baseline"))
    assert document["level"] == {"name": path.parent.name, "reason": "first", "by": "ada", "anchor": True}
    assert document["identity"] == {"gpu": None, "gpu_count": None, "world_size": None}
    assert [source["path"] for source in document["sources"]] == ["run0.log"]
    assert [series["metric"] for series in document["series"]] == ["forward"]  # what rules name, in full
    assert [summary["metric"] for summary in document["summaries"]] == ["other"]  # everything else
    assert "run0.log" not in path.name


def test_all_keeps_the_samples_of_every_series(gate: Command, folder: Path) -> None:
    gate("baseline", "add", "run1.log", "--all")
    metrics = {series["metric"] for path in stored(folder) for series in json.loads(path.read_text())["series"]}
    assert metrics == {"forward", "other"}


def test_the_parts_of_a_derived_metric_are_kept(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "share within 50% of baseline", head="metrics: {share: forward / other}\n")
    for i in range(3):
        write_log(folder / f"run{i}.log", forward=steady(100, seed=i), other=steady(7, seed=9 + i), third=steady(1))
    perfgate("baseline", "approve", "run0.log", "run1.log", "--reason", "first")
    for path in stored(folder):
        assert [s["metric"] for s in json.loads(path.read_text())["series"]] == ["forward", "other"]
    assert perfgate("check", "run2.log").code == 0


def test_the_same_approval_writes_the_same_bytes(gate: Command, folder: Path) -> None:
    (first,) = stored(folder)
    name, data = first.relative_to(folder), first.read_bytes()
    first.unlink()
    first.parent.rmdir()
    gate("baseline", "approve", "run0.log", "--reason", "first")
    assert (folder / name).read_bytes() == data


def test_added_runs_are_compared_with_and_approved_ones_replace_them(gate: Command, folder: Path) -> None:
    assert gate("baseline", "add", "run1.log", "run2.log").code == 0
    assert base_runs(gate) == 3
    slow = [write_log(folder / f"slow{i}.log", forward=steady(130, seed=8 + i)) for i in range(3)]
    assert gate("check", *slow).code == 1
    assert gate("baseline", "approve", *slow[:2], "--reason", "meant", "--pr", "7").code == 0
    assert gate("check", slow[2]).code == 0
    assert gate("check", "run3.log").code == 0  # faster than the new level: an improvement
    assert base_runs(gate) == 2
    lines = gate("baseline", "list").out.splitlines()
    lines = [line for line in lines if not line.startswith(" ")]
    assert len(lines) == 2
    assert "in #7: meant" in lines[1]


def base_runs(perfgate: Command) -> int:
    perfgate("check", "run3.log", "--json", "report.json")
    return int(json.loads(Path("report.json").read_text())["verdicts"][0]["base"]["runs"])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["add", "run0.log"], 1, "counts once"),
        (["add", "slow.log"], 1, "do not pass their own rules"),
        (["add", "nan.log"], 3, "cannot become a baseline"),
        (["add", "elsewhere.json"], 3, "open a level first"),
        (["approve", "nan.log", "--reason", "x"], 3, "cannot become a baseline"),
        (["approve", "run1.log", "--reason", " "], 2, "needs a reason"),
        (["approve", "run1.log"], 2, "--reason"),
        (["show", "nowhere"], 3, "no baseline at nowhere"),
        (["show", ".."], 2, "not a name"),
    ],
)
def test_what_is_refused(gate: Command, folder: Path, words: list[str], code: int, said: str) -> None:
    write_log(folder / "slow.log", forward=steady(130, seed=8))
    (folder / "nan.log").write_text("[Rank 0] time (ms) | forward: nan\n" * 9)
    write_results(
        folder / "elsewhere.json", {"metric": "forward", "unit": "ms", "values": steady(100)}, environment={"gpu": "X"}
    )
    before = stored(folder)
    done = gate("baseline", *words)
    assert done.code == code
    assert said in " ".join(done.said.split())
    assert stored(folder) == before


def test_a_rule_that_names_nothing_is_said_at_approval(gate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline", "forwrad within 5% of baseline")
    done = gate("baseline", "approve", "run1.log", "--reason", "x")
    assert done.code == 0
    assert "no run has the metric of this rule: forwrad within 5%" in done.out


def test_a_level_keeps_ten_runs_and_rotates(gate: Command, folder: Path) -> None:
    paths = [write_log(folder / f"more{i}.log", forward=steady(100, seed=20 + i)) for i in range(10)]
    assert gate("baseline", "add", *paths[:9]).code == 0
    full = gate("baseline", "add", paths[9])
    assert (full.code, len(stored(folder))) == (1, 10)
    assert "--rotate" in full.err
    assert gate("baseline", "add", paths[9], "--rotate").code == 0
    assert len(stored(folder)) == 11  # the first runs are the anchor, and stay
    assert base_runs(gate) == 10


def test_show_says_what_a_stored_run_holds(gate: Command) -> None:
    done = gate("baseline", "show", "default")
    assert done.code == 0
    for word in ("forward", "100", "approved by ada", "run0.log"):
        assert word in done.out


# --- damage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[: len(data) // 2], "restore it from git"),
        (lambda data: data.replace(b'"reason": "first"', b'"reason": "other"'), "altered"),
        (lambda data: data.replace(b"baseline/1", b"baseline/2"), "perfgate.baseline/2"),
        (lambda data: b"", "restore it from git"),
        (lambda data: b"\xff\xfe", "not UTF-8"),
        (lambda data: b"[" * 100_000, "restore it from git"),
        (lambda data: data.replace(b'"suite"', b'"suite": "x", "suite"', 1), "suite"),
    ],
)
def test_a_damaged_file_is_named_and_never_skipped(
    gate: Command, folder: Path, damage: Callable[[bytes], bytes], said: str
) -> None:
    gate("baseline", "add", "run1.log")
    path = stored(folder)[0]
    path.write_bytes(damage(path.read_bytes()))
    done = gate("check", "run2.log")
    assert done.code == 3
    assert path.name in "".join(done.out.split())
    assert said in " ".join(done.out.split())


def test_two_approvals_side_by_side_have_to_be_settled(gate: Command, folder: Path) -> None:
    first = {path: path.read_bytes() for path in stored(folder)}
    gate("baseline", "approve", "run1.log", "--reason", "on one branch")
    one = {path: path.read_bytes() for path in stored(folder) if path not in first}
    for path in one:
        path.unlink()
        path.parent.rmdir()
    gate("baseline", "approve", "run2.log", "--reason", "on another")
    for path, data in one.items():  # the merge of both branches
        path.parent.mkdir()
        path.write_bytes(data)
    done = gate("check", "run3.log")
    assert done.code == 3
    assert "two approvals do not follow each other" in " ".join(done.out.split())
    refused = gate("baseline", "add", "run3.log")
    assert (refused.code, "two approvals" in refused.err) == (3, True)
    write_log(folder / "run4.log", forward=steady(100, seed=4))
    assert gate("baseline", "approve", "run3.log", "run4.log", "--reason", "settled").code == 0
    assert gate("check", "run2.log").code == 0


def test_a_linked_baseline_is_refused(gate: Command, folder: Path) -> None:
    (path,) = stored(folder)
    path.rename(folder / "moved.json")
    path.symlink_to(folder / "moved.json")
    assert gate("check", "run1.log").code == 3


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-x", "x\0", "a" * 200, ".hidden"])
def test_names_cannot_lead_out_of_the_store(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsafeName):
        DirectoryStore(tmp_path, "store").write(f"{name}/run.json" if "/" not in name else name + "/../../x", b"")


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    def write(i: int) -> None:
        store = DirectoryStore(tmp_path / "store", "store")
        with store.lock():
            store.write(f"suite/env/level/{i}.json", b"x" * 1000)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    paths, problems = DirectoryStore(tmp_path / "store", "store").paths("suite/env")
    assert (len(paths), problems) == (20, [])


# --- parts -------------------------------------------------------------------------------------------------------


def test_a_long_series_is_thinned_evenly_and_keeps_its_extremes() -> None:
    n = 100_000
    values = np.sin(np.arange(n) / 50) + np.arange(n) / n
    values[77_777], values[3] = 9.0, -9.0
    kept = kept_positions(values)
    assert KEEP_WHOLE * 0.99 < len(kept) <= KEEP_WHOLE
    assert np.all(np.diff(kept) > 0)
    assert {3, 77_777} <= set(kept.tolist())
    assert np.quantile(values[kept], [0.05, 0.5, 0.95]) == pytest.approx(
        np.quantile(values, [0.05, 0.5, 0.95]), abs=0.01
    )


@pytest.mark.parametrize(("smallest", "largest"), [(0, 1), (50_001, 50_000), (99_999, 99_998), (99_998, 3)])
def test_extremes_side_by_side_are_both_kept(smallest: int, largest: int) -> None:
    values = np.zeros(100_000)
    values[smallest], values[largest] = -1.0, 1.0
    kept = kept_positions(values)
    assert len(kept) <= KEEP_WHOLE
    assert {smallest, largest} <= set(kept.tolist())


def test_a_stored_run_stays_under_a_mebibyte(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    for i in range(3):
        values = steady(0.1, n=200_000, seed=i)
        write_results(folder / f"run{i}.json", {"metric": "forward", "unit": "s", "values": values})
    assert perfgate("baseline", "approve", "run0.json", "run1.json", "--reason", "first").code == 0
    assert max(path.stat().st_size for path in stored(folder)) < 1 << 20
    assert perfgate("check", "run2.json").code == 0


@pytest.mark.shared
def test_every_series_of_the_seed_log_fits_in_256_kib(perfgate: Command, folder: Path, shared: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    log = next((shared / "seeds").glob("001*.txt"))
    assert perfgate("baseline", "approve", log, "--reason", "first", "--all").code == 0
    assert stored(folder)[0].stat().st_size < 256 << 10


@pytest.mark.parametrize(
    ("stored", "seen", "said"),
    [
        ({"gpu": "A"}, {"gpu": "A"}, []),
        ({"world_size": 8}, {"world_size": "8"}, []),
        ({"gpu": "A"}, {"gpu": "B"}, ["gpu is B, in the baseline A"]),
        ({"gpu": None}, {"gpu": "B"}, ["gpu is B, in the baseline unknown"]),
        ({"gpu": "A"}, {}, ["gpu is unknown, in the baseline A"]),
    ],
)
def test_identities_differ_field_by_field(stored: dict[str, object], seen: dict[str, object], said: list[str]) -> None:
    assert differences(stored, seen) == said  # type: ignore[arg-type]
    assert (environment_name(stored) == environment_name(seen)) == (not said)  # type: ignore[arg-type]


def test_an_approval_of_many_runs_keeps_the_last_ten_in_order(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    paths = [write_log(folder / f"run{i:02d}.log", forward=steady(100, seed=i)) for i in range(12)]
    done = perfgate("baseline", "approve", *paths, "--reason", "first")
    assert done.code == 0
    assert "of 12 the last 10 are stored" in done.out
    names = [json.loads(path.read_text())["sources"][0]["path"] for path in stored(folder)]
    assert names == [path.name for path in paths[2:]]


@pytest.mark.parametrize("swap", ["environment", "suite", "level", "copy"])
def test_stored_files_that_were_moved_or_copied_are_noticed(gate: Command, folder: Path, swap: str) -> None:
    (path,) = stored(folder)
    level = path.parent
    environment, suite = level.parent, level.parent.parent
    target = "run1.log"
    if swap == "environment":
        gate("baseline", "approve", "run1.log", "--reason", "other", "--env", "gpu=B")
        other = next(place for place in suite.iterdir() if place != environment)
        environment.rename(suite / "kept")
        other.rename(environment)
    elif swap == "suite":
        suite.rename(suite.parent / "mine")
        write_rules(folder, "forward within 5% of baseline", head="suite: mine\n")
    elif swap == "level":
        level.rename(environment / "2026-01-01-00000000")
    else:
        (level / "20260101T000000Z-99-copy.json").write_bytes(path.read_bytes())
    done = gate("check", target if swap != "environment" else "run2.log")
    assert done.code == 3


def test_a_stored_run_in_another_layout_is_the_same_run(gate: Command, folder: Path) -> None:
    """A formatter changed the bytes and not the content: the careful reader takes over."""
    (path,) = stored(folder)
    before = gate("check", "run1.log").out
    path.write_text(json.dumps(json.loads(path.read_text()), indent=4))
    assert gate("check", "run1.log").out == before


@pytest.mark.parametrize("kept", [1 << 20, 0])
def test_runs_that_are_not_kept_in_memory_are_read_again(
    gate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    gate("baseline", "add", "run1.log", "run2.log")
    before = gate("check", "run3.log").out
    monkeypatch.setattr("perfgate.baselines.repository._KEPT_BYTES", kept)
    assert gate("check", "run3.log").out == before


def test_a_run_that_changes_while_it_is_read_is_refused(
    gate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate("baseline", "add", "run1.log")
    path, other = stored(folder)
    read = DirectoryStore.read
    texts = iter([path.read_bytes(), other.read_bytes()])

    def changing(self: DirectoryStore, name: str) -> bytes:
        return next(texts, None) or read(self, name).replace(b"ada", b"eve")

    monkeypatch.setattr("perfgate.baselines.repository._KEPT_BYTES", 0)
    monkeypatch.setattr(DirectoryStore, "read", changing)
    done = gate("check", "run3.log")
    assert (done.code, done.out) == (3, "")
    assert "was changed while it was read: run the command again" in done.err


def test_git_is_only_asked_if_an_answer_depends_on_it(gate: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr("perfgate.workspace.surroundings.known_to_git", lambda *words: asked.append(words))
    gate("check", "run1.log")
    assert asked == []
    words = ["--metric", "forward", "--up-to", "9%", "--reason", "slower", "--by", "ada", "--expires", "2026-12-01"]
    assert gate("baseline", "allow", "--head", "a" * 40, *words).code == 0
    gate("check", "run1.log")
    assert asked == [("rev-parse", "HEAD")]


def test_verify_reads_the_numbers_of_every_run(gate: Command, folder: Path) -> None:
    """Other commands decode them only where they are compared; the hash of this file is right."""
    (path,) = stored(folder)
    file, _ = STORED_RUN.decode(path.name, path.read_bytes())
    assert file is not None
    path.write_bytes(STORED_RUN.encode(msgspec.structs.replace(file, series=[*file.series, *file.series])))
    done = gate("baseline", "verify")
    assert (done.code, "has a series twice" in done.said) == (3, True), done.said
    done = gate("check", "run1.log")
    assert (done.code, path.name in done.err, "has a series twice" in done.err) == (3, True, True), done.said
