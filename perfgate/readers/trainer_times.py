"""The times of a training in the rows of the Hugging Face Trainer.

    {'eval_loss': 0.45, 'eval_runtime': 0.3146, ..., 'epoch': 0.5}
    {'train_runtime': 1.2756, 'train_samples_per_second': 6.272, ..., 'epoch': 1.0}
    {'eval_loss': 0.51, 'eval_runtime': 0.3161, ..., 'epoch': 1.0}

`time.total` is `train_runtime`, the whole of `Trainer.train`. `time.evaluation` is the sum of `eval_*runtime` in the
rows before it: an evaluation after the training has a later row. The Trainer tells the time of neither steps, data nor
checkpoints, so the rest is `time.other`, and goodput is unknown. perfgate's callback records these times. Without
an evaluation, and with several rows of `train_runtime` (of several processes or trainings), nothing is said.
After a resume, `trainer_state.json` also has the evaluations before it. Source: huggingface/transformers `trainer.py`
and `trainer_utils.py` (`speed_metrics`), v5.23.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from perfgate.core.goodput import EVALUATION, metrics, with_rest
from perfgate.readers.builder import RunBuilder
from perfgate.readers.time_split import add_times
from perfgate.readers.values import checked

_EVALUATION = re.compile(r"eval_(?:\w+_)?runtime")
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
            if name == _WHOLE or _EVALUATION.fullmatch(name):
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
