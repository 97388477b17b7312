"""The pytest plugin, in pytest: what it records, and that it costs nothing where nobody asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded import recorded

pytest_plugins = ["pytester"]

TESTS = """
    calls = []

    def work(n, scale=1):
        calls.append(n)
        return n * scale

    def test_work(perfgate_benchmark):
        assert perfgate_benchmark(work, 3, scale=2) == 6

    def test_number_of_calls():
        assert (len(calls) == 1) is {once}

    def test_plain():
        pass
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty project that uses the plugin, whether this environment has it installed or not."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    return pytester


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    return project.runpytest_inprocess("-p", "perfgate.integrations.pytest_plugin", *options)


def test_times_go_to_the_file_under_the_name_of_the_test(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=TESTS.format(once=False))
    run(project, "--perfgate-json", "results.json", "--perfgate-rounds", "4").assert_outcomes(passed=3)
    read = recorded()
    assert (read.format, read.problems) == ("perfgate", ())
    (series,) = read.series
    assert (series.key.metric, series.unit, len(series.values)) == ("test_it.py::test_work", "s", 4)
    assert all(0 < value < 1e-3 for value in series.values)


def test_without_the_option_the_function_is_called_once(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=TESTS.format(once=True))
    run(project).assert_outcomes(passed=3)
    assert list(Path().glob("*.json")) == []


def test_a_slow_function_is_called_once_a_round_and_parameters_are_in_the_name(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_it="""
        import time, pytest
        calls = []

        @pytest.mark.parametrize("size", [1, 2])
        def test_slow(perfgate_benchmark, size):
            perfgate_benchmark(lambda: (calls.append(size), time.sleep(0.001 * size)))

        def test_calls():
            assert len(calls) == 2 * (1 + 2 + 3)
        """
    )
    result = run(project, "--perfgate-json", "results.json", "--perfgate-rounds", "3", "--perfgate-warmup", "2")
    result.assert_outcomes(passed=3)
    found = {series.key.metric: min(series.values) for series in recorded().series}
    assert found["test_it.py::test_slow[1]"] >= 0.001
    assert found["test_it.py::test_slow[2]"] >= 0.002


def test_a_test_that_fails_is_not_recorded(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        def test_wrong(perfgate_benchmark):
            assert perfgate_benchmark(int, "3") == 4

        def test_raises(perfgate_benchmark):
            perfgate_benchmark(int, "three")

        def test_twice(perfgate_benchmark):
            perfgate_benchmark(int, "3")
            perfgate_benchmark(int, "3")
        """
    )
    with pytest.warns(UserWarning, match="nothing was recorded"):
        result = run(project, "--perfgate-json", "results.json", "--perfgate-rounds", "2")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["*perfgate_benchmark is called twice: a test has one name, so it can measure once*"])
    assert "no measurements" in str(recorded().problems)


def test_an_interrupted_session_is_not_closed(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        def test_one(perfgate_benchmark):
            perfgate_benchmark(int, "3")

        def test_two():
            raise KeyboardInterrupt
        """
    )
    project.runpytest_subprocess("-p", "perfgate.integrations.pytest_plugin", "--perfgate-json", "results.json")
    assert len(recorded().series) == 1
    assert "the recording was not closed" in str(recorded().problems)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--perfgate-rounds", "0"), "*--perfgate-rounds: no values would be recorded*"),
        (("--perfgate-warmup", "some"), "*--perfgate-warmup: 'some' is not a whole number from 0*"),
        (("-p", "xdist.plugin", "-n", "2"), "*parallel tests slow each other down: run pytest without -n*"),
        (("--perfgate-json", "notes.txt"), "*notes.txt: the file is not a recording*"),
    ],
)
def test_what_cannot_be_is_said_before_any_test(project: pytest.Pytester, options: tuple[str, ...], said: str) -> None:
    Path("notes.txt").write_text("dear diary")
    project.makepyfile("def test_plain(): pass")
    result = run(project, "--perfgate-json", "results.json", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])


def test_a_pytest_that_measures_nothing_loads_nothing(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import sys

        def test_modules():
            loaded = {name for name in sys.modules if name.split(".")[0] in ("perfgate", "numpy", "torch")}
            assert loaded == {
                "perfgate",
                "perfgate.integrations",
                "perfgate.integrations.pytest_plugin",
                "perfgate.version",
            }
        """
    )
    project.runpytest_subprocess("-p", "perfgate.integrations.pytest_plugin").assert_outcomes(passed=1)


def test_the_plugin_is_registered() -> None:
    text = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.entry-points.pytest11]\nperfgate = "perfgate.integrations.pytest_plugin"\n' in text


def test_a_fault_of_the_recorder_fails_no_test(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    from perfgate.recorder.recorder import Recorder

    record = Recorder.record

    def fails(recorder: Recorder, metric: str, *rest: Any, **options: Any) -> None:
        if metric.endswith("test_second"):
            raise ZeroDivisionError("a fault")
        record(recorder, metric, *rest, **options)

    monkeypatch.setattr(Recorder, "record", fails)
    project.makepyfile(
        test_it="""
        def test_first(perfgate_benchmark):
            perfgate_benchmark(int)

        def test_second(perfgate_benchmark):
            perfgate_benchmark(int)
    """
    )
    for filter_of_warnings in ("error", "always"):
        name = f"{filter_of_warnings}.json"
        run(project, "--perfgate-json", name, "-W", filter_of_warnings).assert_outcomes(passed=2)
        found = recorded(name)
        assert [series.key.metric for series in found.series] == ["test_it.py::test_first"]
        (problem,) = found.problems
        missing = "the times of 'test_it.py::test_second' are missing: ZeroDivisionError: a fault"
        assert problem.message == f"the recording is incomplete: {missing}"
