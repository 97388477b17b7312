"""The times of a fit in a report of Lightning's SimpleProfiler.

| metric | time |
|---|---|
| `time.total` | the row `Total`: since the profiler was made |
| `time.step` | `run_training_batch` |
| `time.data` | `[_TrainingEpochLoop].train_dataloader_next`, `get_train_batch` |
| `time.checkpoint` | `save_checkpoint`; before Lightning 2.6 the hooks of `ModelCheckpoint` |
| `time.evaluation` | `[_EvaluationLoop].val_next` and `[Strategy]NAME.validation_step`, also of the sanity check |
| `time.other` | the rest, the start included |

These rows are not inside each other. Reports before 1.6 have no names in brackets, so they tell neither evaluation nor
checkpoints, and those before 1.2 have no total. Sources: Lightning-AI/pytorch-lightning `profilers/simple.py`,
`loops/training_epoch_loop.py`, `loops/evaluation_loop.py`, `trainer/trainer.py` and `trainer/call.py` (2.6).
"""

from __future__ import annotations

import re

from perfgate.core.goodput import CHECKPOINT, DATA, EVALUATION, STEP, metrics, with_rest

_STEP = "run_training_batch"
_SAVE = re.compile("save_checkpoint")
_SAVE_HOOKS = re.compile(r"\[Callback\]ModelCheckpoint(?:\{.*\})?\.on_(?:train|validation)_\w*end")
_ROWS = {
    DATA: re.compile(r"\[_?TrainingEpochLoop\]\.train_dataloader_next|get_train_batch"),
    EVALUATION: re.compile(r"\[_?Evaluation\w*Loop\]\.\w+_next|\[Strategy\]\w+\.validation_step"),
}
#: Numbers are printed with 5 digits.
_ROUNDING = 1e-3


class ProfilerTimes:
    """The totals of one report, in s, while its rows are read."""

    def __init__(self) -> None:
        self._rows: dict[str, float] = {}
        self._whole: float | None = None

    def row(self, action: str, total: float) -> None:
        """Take a row with the total of an action."""
        self._rows[action] = total

    def whole(self, total: float) -> None:
        """Take the row of the total."""
        self._whole = total

    def metrics(self, *, is_whole: bool) -> dict[str, tuple[float, str]]:
        """Return each metric with its value and unit; nothing for a report without steps or without the total.

        A part without a row took no time if the report has all its rows (`is_whole`); otherwise it is unknown.
        """
        if self._whole is None or _STEP not in self._rows:
            return {}
        found = {part: self._totals(names) for part, names in _ROWS.items()}
        found[CHECKPOINT] = self._totals(_SAVE) or self._totals(_SAVE_HOOKS)
        parts = {part: sum(totals) for part, totals in found.items() if totals or is_whole}
        parts[STEP] = self._rows[_STEP]
        return metrics(with_rest(parts, self._whole, _ROUNDING * self._whole) or {})

    def _totals(self, names: re.Pattern[str]) -> list[float]:
        return [total for action, total in self._rows.items() if names.fullmatch(action)]
