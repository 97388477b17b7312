"""The table that the Hugging Face Trainer's `log_metrics` prints, rounded for people.

    ***** train metrics *****
      epoch                      =        3.0
      total_flos                 =   498078GF
      train_mem_gpu_peaked_delta =      128MB
      train_runtime              = 0:04:33.01

Source: huggingface/transformers `trainer_pt_utils.py`, `metrics_format` (v4 to v5): numbers have 4 decimals, times
hundredths of a second, MB are 1024**2 bytes and GF 1024**3 operations, both without what is left over.
"""

from __future__ import annotations

import re

TITLE_WORD, ROW_WORD = " metrics *****", " = "
TITLE = re.compile(r"\*{5} \w{1,40} metrics \*{5}\s*$")
_ROW = re.compile(r"(?:.*[\s:\]>])?(\w{1,200}) *= +(\S[^=]{0,40}?)\s*")
_TIME = re.compile(r"(?:(\d{1,9}) days?, )?(\d{1,2}):(\d\d):(\d\d(?:\.\d{1,9})?)")
_LONGEST = 400
_SUFFIXES = {"MB": 1 << 20, "GF": 1 << 30}


def row_of(line: str) -> tuple[str, str] | None:
    """The name and the printed value of a row, the value as a plain number in base units; None for another line."""
    found = _ROW.fullmatch(line) if len(line) <= _LONGEST else None
    if not found:
        return None
    name, text = found.groups()
    time = _TIME.fullmatch(text)
    if time:
        days, hours, minutes, seconds = time.groups()
        return name, repr(86400 * int(days or 0) + 3600 * int(hours) + 60 * int(minutes) + float(seconds))
    factor = _SUFFIXES.get(text[-2:])
    if factor and text[:-2].isdecimal():
        return name, str(int(text[:-2]) * factor)
    return name, text
