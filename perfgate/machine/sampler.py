"""The process that reads the sensors while a program runs: `python -m perfgate.machine.sampler FILE`.

It prints a line when it is ready, and ends when its standard input is closed, when its parent dies, or on SIGTERM.
Then it closes its file, so a program that was killed leaves whole evidence. It has a session of its own: Ctrl-C in a
terminal does not reach it.

The file is a results document, written by the recorder. A window has a tenth of a second; after every 4,096 windows
it is twice as long, so a day of training takes ten times the space of seven minutes, and not two hundred times.
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
from contextlib import suppress
from types import FrameType

from perfgate.machine.channels import Channel, ChannelWindow, Sensor
from perfgate.recorder.recorder import Recorder

#: The time between two readings of fast sensors, and of slow ones, in s.
INTERVAL_S, SLOW_INTERVAL_S = 0.1, 1.0
#: The number of windows after which a window has twice the length.
WINDOWS = 4096
#: The most bytes that the program may tell.
_LONGEST_TOLD = 1 << 14


class Sampler:
    """Sensors, the windows of their channels, and the recording of both."""

    def __init__(self, sensors: Sequence[Sensor], recorder: Recorder, *, interval: float = INTERVAL_S) -> None:
        self._recorder, self._interval = recorder, interval
        self._sensors = [(sensor, [ChannelWindow(channel) for channel in sensor.channels()]) for sensor in sensors]
        every = [window for _, windows in self._sensors for window in windows]
        self._adders = [(window, self._adder(window.channel)) for window in every]
        self._began = self._closes = self._slow_at = -math.inf
        self._windows = 0

    def _adder(self, channel: Channel) -> Callable[[float, int], None]:
        return self._recorder.adder(channel.metric, unit=channel.unit, labels=channel.labels)

    def sample(self, now: float) -> None:
        """Read the sensors; `now` is the time in s of a clock that never goes back."""
        if self._began == -math.inf:
            self._began, self._closes = now, now + self._interval
        is_slow_due = now >= self._slow_at
        if is_slow_due:
            self._slow_at = now + SLOW_INTERVAL_S
        for sensor, windows in self._sensors:
            if is_slow_due or not sensor.is_slow:
                for window, reading in zip(windows, sensor.read(), strict=True):
                    window.add(now, reading)
        if now >= self._closes - self._interval / 4:  # a process may wake a little too early
            self._close_window(now)

    def _close_window(self, now: float) -> None:
        step = round((now - self._began) * 1000)  # the time in ms is the number of the step
        for window, add in self._adders:
            value = window.close()
            if math.isfinite(value):
                add(value, step)
        self._windows += 1
        length = self._interval * 2 ** (self._windows // WINDOWS)
        self._closes = max(self._closes + length, now + length / 2)

    def finish(self, now: float) -> None:
        """Take the last readings, and record the growth of totals in the whole run."""
        for sensor, windows in self._sensors:
            for window, reading in zip(windows, sensor.read(), strict=True):
                window.add(now, reading)
        self._close_window(now)
        for _, windows in self._sensors:
            for window in windows:
                if (channel := window.channel).whole:
                    self._recorder.value(channel.whole, window.whole, unit=channel.whole_unit, labels=channel.labels)


def run(sampler: Sampler, is_over: Callable[[float], bool], clock: Callable[[], float], interval: float) -> None:
    """Sample until `is_over`, which waits for the seconds that it is given, says so."""
    due = clock()
    while True:
        sampler.sample(clock())
        due = max(due + interval, clock())
        if is_over(max(due - clock(), 0.0)):
            break
    sampler.finish(clock())


class _ParentWatch:
    """Tells when the program is over: its end of the pipe is closed, it died, or SIGTERM came."""

    def __init__(self, stream: int, parent: int) -> None:
        self._stream, self._parent, self._stopped = stream, parent, False
        self._poll = select.poll()
        self._poll.register(stream, select.POLLIN | select.POLLHUP)
        #: The program's lines of JSON, with values of the whole run.
        self.told = b""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopped = True

    def __call__(self, seconds: float) -> bool:
        with suppress(InterruptedError):
            if self._poll.poll(seconds * 1000):
                told = os.read(self._stream, _LONGEST_TOLD)
                self.told += told[: _LONGEST_TOLD - len(self.told)]
                if not told:
                    return True
        return self._stopped or os.getppid() != self._parent


def main(arguments: Sequence[str]) -> int:
    """Sample until the parent is done; return the exit code."""
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
    print("ready", flush=True)
    with recorder:
        run(sampler, watch, time.monotonic, given.interval)
        for line in watch.told.splitlines():
            recorder.value(**json.loads(line))
    return 0


def every_sensor(pid: int) -> tuple[list[Sensor], list[str]]:
    """Return the sensors of this machine, and why some are missing."""
    from perfgate.machine.amd import amd_sensors
    from perfgate.machine.linux import linux_sensors
    from perfgate.machine.nvml import nvml_sensors

    (nvidia, wrong), (amd, other) = nvml_sensors(), amd_sensors()
    return [*linux_sensors(pid=pid), *nvidia, *amd], [reason for reason in (wrong, other) if reason]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
