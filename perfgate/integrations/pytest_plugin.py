"""A plugin for pytest: the fixtures `perfgate_benchmark` and `perfgate_pair`, which record times for perfgate.

    def test_tokenize(perfgate_benchmark):
        tokens = perfgate_benchmark(tokenize, "a long text")
        assert len(tokens) == 3

`pytest --perfgate-json results.json` measures warm-up rounds, then rounds. It records one value a round in seconds. The
name of the test is the metric (`tests/test_text.py::test_tokenize`). Without the option the function is called once, so
the tests take no longer. Only tests that pass are recorded.

pytest loads this module at every start, so it imports only what is needed then.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Generator
from contextlib import suppress
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import pytest

if TYPE_CHECKING:
    from perfgate.measuring.in_process import Pair
    from perfgate.recorder.recorder import Recorder

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
#: The least time of a round; reading the clock takes a thousandth of it.
_ROUND_NS = 100_000
#: The name of the recording in pytest's plugin manager.
_NAME = "perfgate-recording"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("perfgate", "recording times for perfgate")
    group.addoption("--perfgate-json", metavar="FILE", help="Measure, and write perfgate.results/1 to FILE.")
    group.addoption(
        "--perfgate-rounds", type=_positive, default=30, metavar="N", help="Values for each benchmark. [default: 30]"
    )
    group.addoption(
        "--perfgate-warmup",
        type=_count,
        default=5,
        metavar="N",
        help="Warm-up rounds after the first one; not recorded. [default: 5]",
    )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def _positive(text: str) -> int:
    if _count(text) == 0:
        raise argparse.ArgumentTypeError("no values would be recorded")
    return _count(text)


def pytest_configure(config: pytest.Config) -> None:
    """Open the recording if the option is given."""
    path = config.getoption("--perfgate-json")
    if path is None:
        return
    if config.getoption("dist", "no") != "no" or hasattr(config, "workerinput"):  # of pytest-xdist
        raise pytest.UsageError("--perfgate-json: parallel tests slow each other down: run pytest without -n")
    from perfgate.recorder import RecorderError
    from perfgate.recorder.recorder import Recorder

    try:
        recorder = Recorder(path)
    except RecorderError as error:
        raise pytest.UsageError(f"--perfgate-json: {error}") from None
    config.pluginmanager.register(_RecordingPlugin(recorder), _NAME)


class _RecordingPlugin:
    """Records each passed test. The fixtures put their times into `times` and `pairs`."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._ended_early = False
        #: The times of the current test in seconds, one for each round.
        self.times: list[float] = []
        #: The pair of the current test.
        self.pairs: list[Pair] = []

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        """Record the times of a test that has passed. A failed test has not done all its work."""
        outcome = yield
        if call.when == "call":
            if outcome.get_result().passed:
                try:
                    self._record(item.nodeid)
                except Exception as error:  # pytest would end with an internal error
                    from perfgate.recorder.writer import warn_safely

                    reason = f"the times of {item.nodeid!a} are missing: {type(error).__name__}: {error}"
                    with suppress(Exception):  # the recording may have ended
                        self._recorder.mark_incomplete(reason)
                    warn_safely(f"{self._recorder.path}: {reason}")
            self.times.clear()
            self.pairs.clear()

    def _record(self, name: str) -> None:
        for seconds in self.times:
            self._recorder.record(name, seconds, unit="s")
        if self.pairs:
            from perfgate.measuring.in_process import record_pair

            record_pair(self._recorder, name, self.pairs[0])

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Note whether the tests were interrupted."""
        self._ended_early = exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)

    def pytest_unconfigure(self) -> None:
        """Close the recording. Without any benchmark it has no series, so no rule on it passes."""
        if self._ended_early:
            self._recorder.abort()
        else:
            self._recorder.close()


class _OnceATest:
    """A fixture that measures at most once in each test, and only if times are recorded."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._name = request.fixturename
        self._option = request.config.getoption
        self._recording: _RecordingPlugin | None = request.config.pluginmanager.get_plugin(_NAME)
        self._has_measured = False

    def _begin(self) -> None:
        """Fail a test that measures a second time."""
        if self._has_measured:
            pytest.fail(f"{self._name} is called twice: a test has one name, so it can measure once", pytrace=False)
        self._has_measured = True


class Benchmark(_OnceATest):
    """The fixture `perfgate_benchmark`: call it with a function and its arguments."""

    def __call__(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Time a function if times are recorded, and return its last result.

        A short function is called several times in a round, and the time is divided by that number. The garbage
        collector is off meanwhile, as in timeit. Raises what the function raises; a second measurement fails the test.
        """
        if self._recording is None:
            return function(*args, **kwargs)
        self._begin()
        calls = 1
        was_on = gc.isenabled()
        gc.disable()
        try:
            # Rounds with a number below 0 warm up, and find the number of calls that fill a round.
            for number in range(-self._option("--perfgate-warmup") - 1, self._option("--perfgate-rounds")):
                began = perf_counter_ns()
                for _ in range(calls):
                    result = function(*args, **kwargs)
                nanoseconds = perf_counter_ns() - began
                if number >= 0:
                    self._recording.times.append(nanoseconds / calls / 1e9)
                else:
                    calls = max(calls, round(_ROUND_NS * calls / max(nanoseconds, 1)))
        finally:
            if was_on:
                gc.enable()
        return result


class PairedBenchmark(_OnceATest):
    """The fixture `perfgate_pair`: call it with two functions that do the same work."""

    def __call__(self, base: Callable[[], object], new: Callable[[], object]) -> None:
        """Call both functions in turn and record a pair if times are recorded; otherwise call each once.

        Raises what the functions raise. A second measurement or fewer than 8 rounds fails the test.
        """
        if self._recording is None:
            base()
            new()
            return
        self._begin()
        if self._option("--perfgate-rounds") < 8:  # `timed_by_turns` refuses fewer: they cannot show a change of 1 %
            pytest.fail("perfgate_pair needs --perfgate-rounds 8 or more", pytrace=False)
        from perfgate.measuring.in_process import timed_by_turns

        self._recording.pairs.append(timed_by_turns(base, new, self._option("--perfgate-rounds")))


@pytest.fixture
def perfgate_pair(request: pytest.FixtureRequest) -> PairedBenchmark:
    """Time two functions in turn for perfgate: `perfgate_pair(base, new)`."""
    return PairedBenchmark(request)


@pytest.fixture
def perfgate_benchmark(request: pytest.FixtureRequest) -> Benchmark:
    """Time a function for perfgate: `perfgate_benchmark(function, *args, **kwargs)` returns what it returns."""
    return Benchmark(request)
