"""A stand-in for NVML that replays what a card did, second by second."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace


class NVMLError(Exception):
    pass


@dataclass
class Card:
    """The readings of a card; a test changes them as time goes on."""

    clock: float = 1980
    power_w: float = 600.0
    energy_mj: float = 5e9
    #: Nanoseconds lost to each policy.
    lost: dict[int, float] = field(default_factory=lambda: {0: 0, 1: 0, 5: 0})
    heat: float = 55
    processes: int = 1
    is_lost: bool = False

    def run(self, seconds: float, *, throttled: float = 0.0, policy: int = 1) -> None:
        """Let time pass, with some of it throttled."""
        self.energy_mj += self.power_w * seconds * 1000
        self.lost[policy] += throttled * 1e9


class ReplayedNvml:
    """The functions of pynvml that perfgate calls."""

    NVMLError = NVMLError

    def __init__(self, *cards: Card) -> None:
        self.cards = cards

    def nvmlInit(self):
        pass

    def nvmlDeviceGetCount(self):
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index):
        return self.cards[index]

    def _ask(self, card, value):
        if card.is_lost:
            raise NVMLError("GPU is lost")
        return value

    def nvmlDeviceGetClockInfo(self, card, kind):
        return self._ask(card, {1: card.clock, 2: 2619}[kind])

    def nvmlDeviceGetTotalEnergyConsumption(self, card):
        return self._ask(card, card.energy_mj)

    def nvmlDeviceGetUtilizationRates(self, card):
        return self._ask(card, SimpleNamespace(gpu=97))

    def nvmlDeviceGetViolationStatus(self, card, policy):
        if policy not in card.lost:
            raise NVMLError("not supported")
        return self._ask(card, SimpleNamespace(violationTime=card.lost[policy]))

    def nvmlDeviceGetTemperature(self, card, sensor):
        return self._ask(card, card.heat)

    def nvmlDeviceGetTotalEccErrors(self, card, kind, counter):
        raise NVMLError("not supported")

    def nvmlDeviceGetNvLinkErrorCounter(self, card, link, counter):
        raise NVMLError("not supported")

    def nvmlDeviceGetComputeRunningProcesses(self, card):
        return self._ask(card, [object()] * card.processes)
