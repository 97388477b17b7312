"""Recorded numbers are read back, and a number that cannot be recorded is an error at once."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from pathlib import Path
from time import sleep

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import perfgate
from perfgate import Recorder, RecorderError, RecorderWarning
from perfgate.core import Run
from perfgate.core.units import UNITS
from perfgate.recorder import writer
from perfgate.workspace.inputs import read_runs


def read(path: str | Path) -> Run:
    (run,) = read_runs([str(path)])
    return run


def values(run: Run) -> dict[str, list[float]]:
    return {str(series.key): series.values.tolist() for series in run.series}


def steps(run: Run) -> dict[str, list[int] | None]:
    return {str(series.key): None if series.steps is None else series.steps.tolist() for series in run.series}


pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every value is written when it is recorded."""
    monkeypatch.setattr(writer, "_WRITE_EVERY", 0)


def test_spans_steps_numbers_and_facts() -> None:
    with Recorder("run.json", environment={"gpu": "NVIDIA H200"}, commit="4f2a9c1") as rec:
        for loss in (3, 2.5):
            with rec.step_span(), rec.span("forward"):
                sleep(0.002)
            rec.record("loss", loss, unit="1")
        rec.value("memory.peak", 1, unit="KiB")
        rec.value("memory.peak", 2, unit="KiB")
    run = read("run.json")
    assert (run.format, run.commit, run.environment, run.problems) == (
        "perfgate",
        "4f2a9c1",
        {"gpu": "NVIDIA H200"},
        (),
    )
    assert steps(run) == {"forward": [0, 1], "step.time": [0, 1], "loss": [1, 2], "memory.peak": None}
    assert values(run)["loss"] == [3.0, 2.5]
    assert {series.key.metric: series.kind for series in run.series}["memory.peak"] == "value"
    assert values(run)["memory.peak"] == [2048.0]
    for forward, step in zip(values(run)["forward"], values(run)["step.time"], strict=True):
        assert 0.002 <= forward <= step


def test_a_decorator_times_every_call_and_changes_nothing() -> None:
    with Recorder("run.json") as rec:

        @rec.time("load", {"kind": "text"})
        def load(n: int, *, twice: bool = False) -> int:
            """Load."""
            return 2 * n if twice else n

        assert (load(1), load(2, twice=True), load.__name__, load.__doc__) == (1, 4, "load", "Load.")
    assert len(values(read("run.json"))['load{kind="text"}']) == 2


def test_what_runs_after_its_call_cannot_be_decorated() -> None:
    async def later() -> None:
        await asyncio.sleep(0)

    def batches():  # type: ignore[no-untyped-def]
        yield 1

    with Recorder("run.json") as rec:
        rec.record("a", 1, unit="1")
        for function in (later, batches):
            with pytest.raises(TypeError, match=r"runs after its call returns: use `with span\(...\)` inside it"):
                rec.time("load")(function)


def test_spans_nest_are_used_by_hand_and_leave_out_what_failed() -> None:
    with Recorder("run.json") as rec:
        by_hand = rec.span("whole")
        by_hand.start()
        with rec.span("part"), rec.span("part"):
            pass
        with pytest.raises(KeyError), rec.span("failed"), rec.span("part"):
            raise KeyError
        with pytest.raises(KeyError), rec.step_span():
            raise KeyError
        by_hand.stop()
    assert {name: len(found) for name, found in values(read("run.json")).items()} == {"part": 2, "whole": 1}


def test_steps_can_be_numbered_and_values_given_a_step_of_their_own() -> None:
    with Recorder("run.json") as rec:
        rec.record("a", 1, unit="1")
        rec.step(120)
        rec.record("a", 2, unit="1")
        rec.step()
        rec.record("a", 3, unit="1")
        rec.record("a", 4, unit="1", step=7)
    assert steps(read("run.json")) == {"a": [0, 120, 121, 7]}


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        ({"unit": "mss"}, ValueError, "unknown unit 'mss'; did you mean 'ms'?"),
        ({"unit": "1"}, ValueError, "a is recorded in s, so it cannot have the unit '1'"),
        ({"unit": None}, ValueError, "the unit is None, not text"),
        ({"metric": ""}, ValueError, "the name of a metric is empty"),
        ({"metric": 3}, ValueError, "the name of a metric is 3, not text"),
        ({"metric": "\ud800"}, ValueError, "half a surrogate pair"),
        ({"labels": {"rank": 0}}, ValueError, "the label rank is 0, not text"),
        ({"labels": {"": "0"}}, ValueError, "the name of a label is empty"),
        ({"labels": {"rank": [0]}}, ValueError, "the label rank is [0], not text"),
        ({"value": "3"}, TypeError, "'3' is text, not a number"),
        ({"value": None}, TypeError, "a value of type NoneType is not a number"),
        ({"value": np.zeros(2)}, TypeError, "a value of type ndarray is not a number"),
        ({"step": -1}, ValueError, "-1 is not a step number"),
        ({"step": 2**63}, ValueError, "is not a step number"),
        ({"step": True}, ValueError, "is not a step number"),
    ],
)
def test_what_cannot_be_recorded_is_refused_at_once(arguments: dict, kind: type[Exception], said: str) -> None:
    with Recorder("run.json") as rec:
        rec.record("a", 1, unit="s")
        with pytest.raises(kind) as refused:
            rec.record(**{"metric": "a", "value": 1, "unit": "s", **arguments})
        with pytest.raises(ValueError, match="a metric has samples or a single value"):
            rec.value("a", 1, unit="s")
        with pytest.raises(ValueError, match="not a step number"):
            rec.step(-3)
    assert said in str(refused.value)
    assert values(read("run.json")) == {"a": [1.0]}


@pytest.mark.parametrize("facts", [{"gpu": None}, {"gpu": ["a"]}, {"gpu": float("nan")}, {"": 1}, {"gpu": "\udcff"}])
def test_facts_that_none_can_be_are_refused(facts: dict) -> None:
    with pytest.raises(ValueError, match="fact"):
        Recorder("run.json", environment=facts)
    assert not Path("run.json").exists()


def test_a_commit_is_text() -> None:
    with pytest.raises(ValueError, match="the commit is 3, not text"):
        Recorder("run.json", commit=3)  # type: ignore[arg-type]


def test_labels_in_any_order_and_a_rank_of_ones_own_are_one_series() -> None:
    with Recorder("run.json", rank=1, world_size=2) as rec:
        rec.record("a", 1, unit="1", labels={"x": "1", "y": "2"})
        rec.record("a", 2, unit="1", labels={"y": "2", "rank": "1", "x": "1"})
        with pytest.raises(ValueError, match="it cannot have the unit 's'"):
            rec.record("a", 3, unit="s", labels={"y": "2", "x": "1"})
    assert values(read(rec.path)) == {'a{rank="1", x="1", y="2"}': [1.0, 2.0]}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1.0])
def test_numbers_that_are_no_measurement_are_said_and_no_rule_can_pass(number: float, perfgate_command) -> None:
    rec = Recorder("run.json")
    with pytest.warns(RecorderWarning, match="is not a valid measurement: no rule on this metric passes") as warned:
        rec.record("a", number, unit="s")
    assert warned[0].filename == __file__
    for value in (1.0, number, 1.0, 1.0, 1.0):  # said once
        rec.record("a", value, unit="s")
    rec.close()
    assert perfgate_command("a max under 5 s") == 3


@pytest.fixture
def perfgate_command(tmp_path: Path):
    """The exit code of a check of run.json by one rule."""
    from conftest import write_rules

    from perfgate.cli.entry import run

    def check(rule: str) -> int:
        write_rules(tmp_path, rule)
        return run(["check", "run.json", "--quiet"])

    return check


def test_a_closed_recorder_is_not_used_again() -> None:
    rec = Recorder("run.json")
    with rec:
        rec.record("a", 1, unit="1")
    rec.close()
    for use in (rec.__enter__, rec.step, rec.span("b").__enter__().stop, lambda: rec.record("a", 1, unit="1")):
        with pytest.raises(RecorderError, match=r"run\.json is closed: create another Recorder"):
            use()
    assert values(read("run.json")) == {"a": [1.0]}


def test_a_file_is_recorded_once_at_a_time_and_once_in_a_process() -> None:
    with Recorder("run.json") as rec:
        rec.record("a", 1, unit="1")
        with pytest.raises(RecorderError, match="has already recorded this file"):
            Recorder("./run.json")
    with pytest.raises(RecorderError, match=r"use another file, or remove it"):
        Recorder("run.json")
    Path("run.json").unlink()
    with Recorder("run.json") as rec:
        rec.record("a", 2, unit="1")
    assert values(read("run.json")) == {"a": [2.0]}


def test_older_results_are_replaced_and_other_files_are_not() -> None:
    Path("old.json").write_text(
        '{\n "schema": "perfgate.results/1", "series": [{"metric": "a", "unit": "1", "value": 1}]}'
    )
    rec = Recorder("old.json")
    assert "no measurements" in str(read("old.json").problems)
    rec.abort()
    Path("notes.txt").write_text("dear diary")
    with pytest.raises(RecorderError, match="the file is not a recording: use another name, or remove it"):
        Recorder("notes.txt")
    assert Path("notes.txt").read_text() == "dear diary"
    with pytest.raises(RecorderError, match="cannot write the recording: File exists"):
        Recorder("notes.txt/run.json")
    with pytest.raises(RecorderError, match="cannot write the recording: Is a directory"):
        Recorder(".")
    with pytest.raises(RecorderError, match="not a regular file"):
        Recorder("/dev/null")


def test_folders_are_made_and_the_file_may_be_read_by_others() -> None:
    with Recorder("deep/er/run.json") as rec:
        rec.record("a", 1, unit="1")
    Path("plain").touch()
    assert Path("deep/er/run.json").stat().st_mode == Path("plain").stat().st_mode
    assert [path.name for path in Path("deep/er").iterdir()] == ["run.json"]


def test_a_recording_of_nothing_is_said_and_never_passes(perfgate_command) -> None:
    with pytest.warns(RecorderWarning, match="nothing was recorded"):
        Recorder("run.json").close()
    assert "no measurements" in str(read("run.json").problems)
    assert perfgate_command("a max under 5 s") == 3


def test_a_recorder_cannot_be_pickled() -> None:
    with Recorder("run.json") as rec:
        rec.record("a", 1, unit="1")
        with pytest.raises(TypeError, match="cannot be sent to another process: create one there"):
            pickle.dumps(rec)


def test_threads_share_a_recorder(at_once: None) -> None:
    with Recorder("run.json") as rec:

        def work() -> None:
            for number in range(300):
                rec.record("a", number, unit="1")

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(values(read("run.json"))["a"]) == sorted(float(n) for n in [*range(300)] * 4)


def test_a_recording_that_was_not_closed_is_replaced() -> None:
    Path("run.json").write_text('{"schema":"perfgate.recording/1","environment":{},"commit":null}\n')
    with Recorder("run.json") as rec:
        rec.record("a", 1, unit="1")
        assert Path("run.json").read_text().startswith('{"schema":"perfgate.recording/1"')
    assert values(read("run.json")) == {"a": [1.0]}


def test_a_recording_too_large_for_one_document_stays_in_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    from perfgate.recorder import journal

    monkeypatch.setattr(journal, "MAX_DOCUMENT", 100)
    with Recorder("run.json") as rec:
        for number in range(25_000):
            rec.record("a", number, unit="1")
    run = read("run.json")
    assert (run.format, run.problems) == ("recording", ())
    assert values(run) == {"a": [float(number) for number in range(25_000)]}


def test_public_names() -> None:
    assert perfgate.Recorder is Recorder
    assert issubclass(RecorderError, RuntimeError)
    assert issubclass(RecorderWarning, UserWarning)


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
ENTRIES = st.tuples(
    st.sampled_from(sorted({"1", *UNITS})),
    st.dictionaries(NAMES.filter(lambda name: name != "rank"), st.text(max_size=4).filter(str.isprintable), max_size=2),
    st.lists(st.tuples(st.floats(0, 1e280), st.integers(0, 2**63 - 1)), min_size=1, max_size=6),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    written=st.dictionaries(NAMES, ENTRIES, min_size=1, max_size=4),
    rank=st.none() | st.integers(0, 7),
    closed=st.booleans(),
    eager=st.booleans(),
)
def test_what_is_recorded_is_read_back_exactly(
    written: dict, rank: int | None, closed: bool, eager: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("run") / "run.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "_WRITE_EVERY", 0 if eager else 10**12)
        rec = Recorder(path, rank=rank, world_size=None if rank is None else 8)
        for metric, (unit, labels, entries) in written.items():
            for value, step in entries:
                rec.record(metric, value, unit=unit, labels=labels, step=step)
        if closed:
            rec.close()
        else:
            rec.abort()
    run = read(rec.path)
    ranked = {} if rank is None else {"rank": str(rank)}
    found = {(series.key.metric, series.key.labels): series for series in run.series}
    assert len(found) == len(written)
    for metric, (unit, labels, entries) in written.items():
        series = found[metric, tuple(sorted({**ranked, **labels}.items()))]
        assert series.values.tolist() == [in_base(value, unit) for value, _ in entries]
        numbers = [step for _, step in entries]
        assert (None if series.steps is None else series.steps.tolist()) == (numbers if any(numbers) else None)
    assert [problem.severity for problem in run.problems] == ([] if closed else ["warning"])


def in_base(value: float, symbol: str) -> float:
    unit = UNITS.get(symbol)
    factor = unit.factor if unit else 1.0
    return value * factor if factor >= 1 else value / round(1 / factor)


def test_the_document_is_of_the_schema() -> None:
    import jsonschema

    from perfgate.schemas import schema

    with Recorder("run.json", rank=1, world_size=2, environment={"gpu": "H200"}) as rec, rec.step_span():
        rec.value("b", 2, unit="%")
    with open(rec.path, encoding="utf-8") as file:
        jsonschema.Draft7Validator(schema("results")).validate(json.load(file))
