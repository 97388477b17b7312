"""Time on the GPU, by pairs of CUDA events: nothing waits for the GPU until the recording is closed.

An event marks a place in the stream that is current when it is recorded (torch.cuda.Event); the milliseconds between
two of them are known once the GPU has passed both, and are fetched then, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from perfgate.recorder.errors import RecorderError
from perfgate.recorder.form import Column, Entry
from perfgate.recorder.process import torch_module


class CudaClock:
    """The events that the GPU has yet to pass."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Column, int, Any, Any]] = deque()
        self._event: Callable[..., Any] | None = None

    def now(self) -> object:
        """An event in the current stream. Raises RecorderError without a GPU: no other clock measures the same."""
        if self._event is None:
            torch = torch_module()
            if torch is None or not torch.cuda.is_available():
                raise RecorderError("cuda_span needs torch, imported, and a CUDA device: on the CPU, use span")
            self._event = torch.cuda.Event
        event = self._event(enable_timing=True)
        event.record()
        return event

    def add(self, column: Column, step: int, began: object, ended: object) -> None:
        """A span between two events."""
        self._waiting.append((column, step, began, ended))

    def fetch(self, into: list[Entry], *, wait: bool = False) -> None:
        """Hand over the spans that the GPU is through with, in nanoseconds; with `wait`, all of them.

        Raises RuntimeError if CUDA has failed; then the spans that are left are lost.
        """
        while self._waiting and (wait or self._waiting[0][3].query()):
            column, step, began, ended = self._waiting[0]
            if wait:
                ended.synchronize()
            into.append((column, step, began.elapsed_time(ended) * 1e6))
            self._waiting.popleft()

    def forget(self) -> int:
        """Give up what is left; returns how many spans that were."""
        lost = len(self._waiting)
        self._waiting.clear()
        return lost
