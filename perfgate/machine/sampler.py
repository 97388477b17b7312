"""The process that reads the sensors while a program runs: `python -m perfgate.machine.sampler FILE`.

It prints a line when it is ready, and ends when its standard input is closed, when its parent dies, or on SIGTERM.
Then it closes its file, so the file is complete even if the program was killed. It has a session of its own: Ctrl-C in
a terminal does not reach it.

The file is a results document, written by the recorder. It has a value for each window of time. A window is a tenth of
a second long; after every 4,096 windows it is twice as long. So a day of training takes eight times the space of seven
minutes, and not two hundred times.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from perfgate.machine.channels import ChannelWindow, Sensor, TextSensor
from perfgate.recorder.recorder import Recorder

#: The time between two readings of fast sensors, and of slow ones, in s.
INTERVAL_S, SLOW_INTERVAL_S = 0.1, 1.0
#: The number of readings that are used together and written in one piece: those of five seconds. They are lost if this
#: process is killed, but not if the program dies.
_TOGETHER = 50
#: The number of windows after which a window has twice the length.
WINDOWS = 4096
#: The most bytes that the program may send.
_LONGEST_TOLD = 1 << 14


class _Source:
    """A sensor and the windows of its channels. `take` returns readings, or a text that is parsed when it is used."""

    def __init__(self, sensor: Sensor) -> None:
        self.take: Callable[[], Any] = sensor.take if isinstance(sensor, TextSensor) else sensor.read
        self._readings: Callable[[Any], Sequence[float]] = sensor.readings if isinstance(sensor, TextSensor) else list
        self.windows = [ChannelWindow(channel) for channel in sensor.channels()]

    def use(self, at: float, taken: object) -> None:
        for window, reading in zip(self.windows, self._readings(taken), strict=True):
            window.add(at, reading)


class Sampler:
    """Reads sensors, makes values of the readings in each window, and records these.

    Readings are taken ten times a second, and used every five seconds, all together. After each reading, the same work
    would cost twice as much: the caches of a processor are lost when it sleeps for a tenth of a second.
    """

    def __init__(self, sensors: Sequence[Sensor], recorder: Recorder, *, interval: float = INTERVAL_S) -> None:
        self._recorder, self._interval = recorder, interval
        sources = [(sensor.is_slow, _Source(sensor)) for sensor in sensors]
        self._fast = [source for is_slow, source in sources if not is_slow]
        self._slow = [source for is_slow, source in sources if is_slow]
        self._takes = [source.take for source in self._fast]
        #: Not used yet: the time, the readings of the fast sources, and those of the slow ones, which are mostly none.
        self._waiting: list[tuple[float, list[Any], list[Any]]] = []
        every = [window for _, source in sources for window in source.windows]
        channels = ((window, window.channel) for window in every)
        self._adders = [
            (window, recorder.adder(one.metric, unit=one.unit, labels=one.labels)) for window, one in channels
        ]
        #: The times in s of the first reading, of the end of this window, and of the next slow readings.
        self._began = self._closes = self._slow_at = -math.inf
        self._windows = 0

    def sample(self, now: float) -> None:
        """Read the sensors; `now` is the time in s of a clock that never goes back."""
        fast = [take() for take in self._takes]
        slow = []
        if now >= self._slow_at:
            self._slow_at = now + SLOW_INTERVAL_S
            slow = [source.take() for source in self._slow]
        self._waiting.append((now, fast, slow))
        if len(self._waiting) >= _TOGETHER:
            self._use()
            self._recorder.flush()

    def _use(self) -> None:
        """Add all waiting readings to their windows."""
        for at, fast, slow in self._waiting:
            if self._began == -math.inf:
                self._began, self._closes = at, at + self._interval
            for source, taken in (*zip(self._fast, fast, strict=True), *zip(self._slow, slow, strict=False)):
                source.use(at, taken)
            if at >= self._closes - self._interval / 4:  # a process may wake a little too early
                self._close_window(at)
        self._waiting.clear()

    def _close_window(self, now: float) -> None:
        """Record the value of each channel in this window, and begin the next one."""
        step = round((now - self._began) * 1000)  # the time in ms is the number of the step
        for window, add in self._adders:
            value = window.close()
            if math.isfinite(value):
                add(value, step)
        self._windows += 1
        length = self._interval * 2 ** (self._windows // WINDOWS)
        self._closes = max(self._closes + length, now + length / 2)  # after a late one, at least half a window

    def finish(self, now: float) -> None:
        """Take the last readings, and record the growth of totals in the whole run."""
        self._use()
        for source in (*self._fast, *self._slow):
            source.use(now, source.take())
        self._close_window(now)
        for window, _ in self._adders:
            if (channel := window.channel).whole:
                self._recorder.value(channel.whole, window.whole, unit=channel.whole_unit, labels=channel.labels)


def run(sampler: Sampler, is_over: Callable[[float], bool], clock: Callable[[], float], interval: float) -> None:
    """Sample until `is_over` returns True; it gets a number of seconds, and waits so long."""
    due = clock()
    while True:
        sampler.sample(clock())
        now = clock()
        due = min(max(due + interval, now), now + interval)  # a clock that stands still or goes back stops nothing
        if is_over(max(due - clock(), 0.0)):
            break
    sampler.finish(clock())


class _ParentWatch:
    """Waits, and detects the end of the program: its end of the pipe is closed, it died, or SIGTERM came."""

    def __init__(self, stream: int, parent: int) -> None:
        self._stream, self._parent, self._stopped = stream, parent, False
        self._poll = select.poll()
        self._poll.register(stream, select.POLLIN | select.POLLHUP)
        #: The lines of JSON that the program sent, with values of the whole run.
        self.told = b""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopped = True

    def __call__(self, seconds: float) -> bool:
        if self._poll.poll(seconds * 1000):
            told = os.read(self._stream, _LONGEST_TOLD)
            self.told += told[: _LONGEST_TOLD - len(self.told)]
            if not told:
                return True
        return self._stopped or os.getppid() != self._parent


def main(arguments: Sequence[str]) -> int:
    """Sample until the program, the parent of this process, is done; return the exit code."""
    parser = argparse.ArgumentParser(prog="perfgate.machine.sampler")
    parser.add_argument("file")
    parser.add_argument("--interval", type=float, default=INTERVAL_S)
    given = parser.parse_args(arguments)
    watch = _ParentWatch(sys.stdin.fileno(), os.getppid())
    sensors, reasons = every_sensor(os.getppid())
    recorder = Recorder(given.file, environment={"host": platform.node()})
    for reason in reasons:
        recorder.mark_incomplete(reason)
    sampler = Sampler(sensors, recorder, interval=given.interval)
    sampler.sample(time.monotonic())
    gc.freeze()  # what exists now stays, so it need not be searched for garbage
    sys.stdout.write("ready\n")  # the last line: the program closes its end then
    sys.stdout.flush()
    with recorder:
        run(sampler, watch, time.monotonic, given.interval)
        for line in watch.told.splitlines():
            recorder.value(**json.loads(line))
    return 0


def every_sensor(pid: int) -> tuple[list[Sensor], list[str]]:
    """Return the sensors of this machine, and the reasons why some are missing. `pid`: the measured program."""
    from perfgate.machine.gpus import amd_sensors, nvml_sensors
    from perfgate.machine.linux import linux_sensors

    (nvidia, wrong), (amd, other) = nvml_sensors(), amd_sensors()
    return [*linux_sensors(pid=pid), *nvidia, *amd], [reason for reason in (wrong, other) if reason]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
