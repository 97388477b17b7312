"""The figures by which a machine is compared with itself later: bandwidths, matrix products, clocks under load.

They are measured in rounds, so that a disturbance of a second changes only one value of each figure; the median of the
rounds counts.
"""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from statistics import fmean, median
from time import monotonic, perf_counter
from typing import Any

from perfgate.core.runner import Figure
from perfgate.doctor.disturbances import nvml_answer
from perfgate.doctor.loads import TakeSteps, running

#: A probe measures each of its figures once when it is called; the figures are in base units, by name.
Round = Callable[[], Mapping[str, Figure]]
#: Fewer rounds do not show which of them was disturbed.
_FEWEST = 3
#: The steps of a known load in a round, the bytes that a step of the load `memory` moves, and the most processes.
_STEPS, _COPIED, _MOST_PROCESSES = 60, 2 * (32 << 20), 32
#: The bytes that are written to the disk in a round, in this many blocks.
_WRITTEN, _BLOCKS = 64 << 20, 64
#: The bytes of a copy within a GPU, and from or to it; and the number of copies.
_WITHIN, _BETWEEN, _COPIES = 512 << 20, 64 << 20, 16
#: The rows of the matrices, the products between two readings of the clock, and the least time of all products in s.
_ROWS, _PRODUCTS, _PRODUCT_S = 8192, 10, 0.5
#: NVML's number for the clock of the multiprocessors.
_SM = 1


def measure(probes: Sequence[Round], seconds: float, clock: Callable[[], float] = monotonic) -> dict[str, Figure]:
    """Return the median of each figure over the rounds that fit into the time, at least 3. Raises errors of probes."""
    found = defaultdict[str, list[Figure]](list)
    began, rounds = clock(), 0
    while rounds < _FEWEST or clock() - began < seconds * rounds / (rounds + 1):  # one more round of this length fits
        for probe in probes:
            for name, one in probe().items():
                found[name].append(one)
        rounds += 1
    return {name: Figure(median(one.value for one in own), own[0].unit) for name, own in found.items()}


@contextmanager
def host_probe(cpus: Collection[int]) -> Iterator[Round]:
    """Start each known load on each of `cpus` (the first 32), or once if there are none; yield the host's probe."""
    chosen: list[set[int] | None] = [{cpu} for cpu in sorted(cpus)[:_MOST_PROCESSES]]
    with ExitStack() as stack:
        loops, copies = (
            [stack.enter_context(running(kind, one)) for one in chosen or [None]] for kind in ("loop", "memory")
        )
        threads = stack.enter_context(ThreadPoolExecutor(len(chosen) or 1))

        def rate(takes: Sequence[TakeSteps]) -> float:
            """Return the steps per second of several processes that work at the same time."""
            return sum(threads.map(_steps_per_second, takes))

        yield lambda: {
            "one processor": Figure(rate(loops[:1]), "1/s"),
            "all processors": Figure(rate(loops), "1/s"),
            "memory": Figure(_COPIED * rate(copies), "B/s"),
            "disk": Figure(_disk(), "B/s"),
        }


def _steps_per_second(take: TakeSteps) -> float:
    return 1e9 * _STEPS / sum(wall for wall, _ in take(_STEPS))


def _disk() -> float:
    """Write a temporary file in the working directory to its disk; return the bytes per second."""
    block = os.urandom(_WRITTEN // _BLOCKS)
    with tempfile.TemporaryFile(dir=Path.cwd()) as file:
        began = perf_counter()
        for _ in range(_BLOCKS):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
        return _WRITTEN / (perf_counter() - began)


class CardProbe:
    """The probe of one GPU: copies within it, from it and to it, matrix products, and its clock during these.

    `torch`: the module, or a stand-in. `nvml`: the module `pynvml` after `nvmlInit`, or a stand-in; None reads no
    clock. `number`: the number of the GPU, as torch counts.
    """

    def __init__(self, torch: Any, nvml: Any, number: int) -> None:
        self._torch, self._nvml = torch, nvml
        self.name, self._device = f"GPU {number}", f"cuda:{number}"
        # NVML numbers all GPUs; torch may see only some of them.
        uuid = getattr(torch.cuda.get_device_properties(number), "uuid", None)
        asked = ("nvmlDeviceGetHandleByUUID", f"GPU-{uuid}") if uuid else ("nvmlDeviceGetHandleByIndex", number)
        self._handle = nvml_answer(nvml, *asked)
        one, other = (torch.empty(_WITHIN, dtype=torch.uint8, device=self._device) for _ in range(2))
        here = torch.empty(_BETWEEN, dtype=torch.uint8, pin_memory=True)
        there = torch.empty(_BETWEEN, dtype=torch.uint8, device=self._device)
        #: By name: the bytes that a copy moves, and the copy. Within a GPU, bytes count twice: read and written.
        self._copies = {
            "memory of": (2 * _WITHIN, lambda: one.copy_(other)),
            "PCIe to": (_BETWEEN, lambda: there.copy_(here, non_blocking=True)),
            "PCIe from": (_BETWEEN, lambda: here.copy_(there, non_blocking=True)),
        }
        self._matrices = [torch.randn(_ROWS, _ROWS, dtype=torch.float16, device=self._device) for _ in range(3)]
        self()  # the first kernels are compiled and loaded

    def __call__(self) -> dict[str, Figure]:
        """Measure each figure of the card once."""
        found = {}
        for name, (size, copy) in self._copies.items():
            seconds = self._seconds(copy, _COPIES)
            found[f"{name} {self.name}"] = Figure(size * _COPIES / seconds, "B/s")
        flops, clock = self._products()
        found[f"matrix product on {self.name}"] = Figure(flops, "FLOP/s")
        if clock is not None:
            found[f"clock under load of {self.name}"] = Figure(clock, "1/s")
        return found

    def _seconds(self, work: Callable[[], object], times: int, meanwhile: Callable[[], object] = lambda: None) -> float:
        """Start `work` on the GPU some times, and call `meanwhile`; return the seconds until the GPU is done."""
        self._torch.cuda.synchronize(self._device)
        began = perf_counter()
        for _ in range(times):
            work()
        meanwhile()
        self._torch.cuda.synchronize(self._device)
        return perf_counter() - began

    def _products(self) -> tuple[float, float | None]:
        """Return the FLOP/s of matrix products, and the mean clock during these in Hz; None if it is unknown."""
        one, other, result = self._matrices
        clocks: list[float] = []

        def read_clock() -> None:
            answer = nvml_answer(self._nvml, "nvmlDeviceGetClockInfo", self._handle, _SM)
            clocks.extend([] if answer is None else [1e6 * answer])

        seconds, times = 0.0, 0
        while seconds < _PRODUCT_S:
            seconds += self._seconds(lambda: self._torch.mm(one, other, out=result), _PRODUCTS, read_clock)
            times += _PRODUCTS
        return 2 * _ROWS**3 * times / seconds, fmean(clocks) if clocks else None


def card_probes(nvml: Any) -> tuple[list[CardProbe], str | None]:
    """Return the probes of all GPUs, and the reason why there are none, or None; `nvml` is None without a GPU."""
    try:
        torch = import_module("torch")
        cards = [CardProbe(torch, nvml, number) for number in range(torch.cuda.device_count())]
        why = "the speed of the GPUs was not measured: torch sees none (is it built without CUDA?)"
        return cards, why if nvml is not None and not cards else None
    except ImportError:
        why = "the speed of the GPUs was not measured: that needs torch in the environment of perfgate"
        return [], why if nvml is not None else None
    except RuntimeError as error:
        return [], f"the speed of the GPUs was not measured: {str(error).splitlines()[0]}"
