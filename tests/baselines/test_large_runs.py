"""Large stored runs, as older versions wrote them: the same answer, from the series that somebody asks for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, steady, write_results, write_rules
from msgspec.structs import replace

from perfgate.baselines.files import STORED_RUN, BaselineFile, StoredSeries
from perfgate.baselines.repository import read_stored_runs
from perfgate.baselines.stores import DirectoryStore, open_store
from perfgate.rules.ruleset import Ruleset

Command = Callable[..., Done]
#: The first two are named by rules.
MEANS = {"forward": 0.3, "step": 0.5, **{f"layer.{number}": 0.01 * (number + 1) for number in range(6)}}


def stored(folder: Path) -> list[Path]:
    return sorted((folder / "baselines").rglob("*.json"))


def change(path: Path, alter: Callable[[BaselineFile], BaselineFile]) -> None:
    """Write a stored run again, with the hash of its new content."""
    file, problems = STORED_RUN.decode(path.name, path.read_bytes())
    assert file is not None, problems
    path.write_bytes(STORED_RUN.encode(alter(file)))


def samples(metric: str, seed: int, factor: float = 1.0) -> StoredSeries:
    return StoredSeries(metric, "s", "samples", values=steady(MEANS[metric] * factor, seed=seed))


@pytest.fixture
def gate(perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Three stored runs with all metrics. `few` has those of the rules, `new` all, `slow` a slower forward."""
    monkeypatch.setattr("perfgate.baselines.repository._LARGE_BYTES", 10_000)
    write_rules(folder, "forward within 5% of baseline and under 400 ms", "step p95 within 5% of anchor")
    for name, factor, count in (
        ("run0", 1, 2),
        ("run1", 1, 2),
        ("run2", 1, 2),
        ("few", 1, 2),
        ("new", 1, 8),
        ("slow", 2, 8),
    ):
        rows = [
            samples(metric, ord(name[-1]), factor if metric == "forward" else 1.0) for metric in list(MEANS)[:count]
        ]
        write_results(
            folder / f"{name}.json", *({"metric": one.metric, "unit": "s", "values": one.values} for one in rows)
        )
    assert perfgate("baseline", "approve", "run0.json", "run1.json", "run2.json", "--reason", "first").code == 0
    for seed, path in enumerate(stored(folder)):
        rows = [samples(metric, seed) for metric in sorted(MEANS)]
        change(path, lambda file, rows=rows: replace(file, series=rows))  # type: ignore[misc]
        assert path.stat().st_size > 10_000
    return perfgate


@pytest.mark.parametrize("run", ["few.json", "new.json", "slow.json"])
def test_the_answer_is_that_of_a_small_run(
    gate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    def reports() -> tuple[Done, str]:
        done = gate("check", run, "--json", "-")
        gate("check", run, "--html", "page.html")
        return done, (folder / "page.html").read_text()

    lazily = reports()
    monkeypatch.setattr("perfgate.baselines.repository._LARGE_BYTES", 1 << 30)
    assert reports() == lazily
    assert lazily[0].code == (1 if run == "slow.json" else 0)


def test_a_damaged_series_that_no_rule_names_is_refused(gate: Command, folder: Path) -> None:
    path = stored(folder)[1]
    whole = path.read_bytes()
    at = whole.index(b'"metric":"layer.3"') + 80
    path.write_bytes(whole[:at] + (b"1" if whole[at : at + 1] != b"1" else b"2") + whole[at + 1 :])
    for damage, says in (
        (whole[:at] + b"7" + whole[at + 1 :], "was altered after it was written"),
        (whole[:at], "is damaged"),
    ):
        path.write_bytes(damage)
        done = gate("check", "few.json", "--json", "-")
        problems = [
            one["message"] for one in json.loads(done.out)["problems"] if one["file"] == str(path.relative_to(folder))
        ]
        assert (done.code, len(problems)) == (3, 1)
        assert problems[0].startswith(says)


@pytest.mark.parametrize(("metric", "refused"), [("layer.3", False), ("step", True)])
def test_numbers_that_contradict_themselves_are_refused_where_they_are_needed(
    gate: Command, folder: Path, metric: str, refused: bool
) -> None:
    """Their hash fits, so whoever wrote them was wrong. `baseline verify` looks at all of them."""

    def unsound(file: BaselineFile) -> BaselineFile:
        rows = [replace(row, steps=[1, 2]) if row.metric == metric else row for row in file.series]
        return replace(file, series=rows)

    path = stored(folder)[2]
    change(path, unsound)
    says = f"{path.relative_to(folder)}: error: has a series twice, or a series that contradicts itself"
    few, many, all_of_them = gate("check", "few.json"), gate("check", "new.json"), gate("baseline", "verify")
    assert (few.code, says in few.said) == ((3, True) if refused else (0, False))
    assert (many.code, says in many.said) == (3, True)  # it is compared with the new run's
    assert (all_of_them.code, says in all_of_them.said) == (3, True)


def test_a_run_that_changes_before_a_series_is_asked_for_is_refused(
    gate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, times = DirectoryStore.read, Counter[str]()

    def changing(self: DirectoryStore, name: str) -> bytes:
        times[name] += 1
        data = read(self, name)
        return data if times[name] == 1 else data.replace(b"ada", b"eve")

    monkeypatch.setattr(DirectoryStore, "read", changing)
    assert gate("check", "few.json").code == 0  # its rules need no other series
    times.clear()
    done = gate("check", "new.json")
    assert (done.code, done.out) == (3, "")
    assert "was changed while it was read: run the command again" in done.err


def test_series_of_several_runs_in_turn_do_not_read_the_files_again_and_again(
    gate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, times = DirectoryStore.read, Counter[str]()

    def counting(self: DirectoryStore, name: str) -> bytes:
        times[name] += 1
        return read(self, name)

    monkeypatch.setattr(DirectoryStore, "read", counting)
    environment = stored(folder)[0].parent.parent.name
    stored_runs, problems, _ = read_stored_runs(
        open_store("baselines"), "default", environment, Ruleset("default", (), {})
    )
    runs = [one.run for one in stored_runs]
    found = [[float(run.series[number].values.sum()) for run in runs] for number in range(len(MEANS))]
    whole = [STORED_RUN.decode("", path.read_bytes())[0] for path in stored(folder)]
    assert not problems
    assert found == [
        [file.run("").series[number].values.sum() for file in whole if file] for number in range(len(MEANS))
    ]
    assert max(times.values()) <= 5
