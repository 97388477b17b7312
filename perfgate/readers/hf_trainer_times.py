"""The times of a training in the rows of the Hugging Face Trainer; `hf_trainer` says where they come from."""

from __future__ import annotations

import re
from collections.abc import Mapping

from perfgate.core.goodput import EVALUATION, metrics, with_rest
from perfgate.readers.builder import RunBuilder
from perfgate.readers.time_split import add_times
from perfgate.readers.values import checked

_EVALUATION_ROW = re.compile(r"eval_(?:\w+_)?runtime")
_WHOLE = "train_runtime"
#: Times are printed with 4 digits.
_ROUNDING = 1e-3


class TrainerTimes:
    """The times of one run while its rows are read, in their order."""

    def __init__(self) -> None:
        self._evaluation = 0.0
        #: Of each training, its whole time and that of its evaluations.
        self._trainings: list[tuple[float, float]] = []

    def row(self, row: Mapping[str, object]) -> None:
        """Take a row of the log."""
        for name, value in row.items():
            if name == _WHOLE or _EVALUATION_ROW.fullmatch(name):
                seconds, fault = checked(value, "s")
                if fault:
                    return
                if name == _WHOLE:
                    self._trainings.append((seconds, self._evaluation))
                    self._evaluation = 0.0
                else:
                    self._evaluation += seconds

    def add(self, run: RunBuilder) -> None:
        """Add the metrics to the run, if the rows are those of one training that evaluated."""
        if len(self._trainings) == 1 and self._trainings[0][1]:
            ((whole, evaluation),) = self._trainings
            add_times(run, metrics(with_rest({EVALUATION: evaluation}, whole, _ROUNDING * whole) or {}))
