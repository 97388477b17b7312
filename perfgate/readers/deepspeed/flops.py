"""The summary of DeepSpeed's FLOPS profiler: what one step cost, and what the device made of it.

    -------------------------- DeepSpeed Flops Profiler --------------------------
    Profile Summary at step 3:
    world size:                                                             2
    fwd flops per GPU:                                                      134.14 K
    fwd latency:                                                            347.38 us
    fwd FLOPS per GPU = fwd flops per GPU / fwd latency:                    386.16 MFLOPS

Source: deepspeedai/DeepSpeed `deepspeed/profiling/flops_profiler/profiler.py` (v0.3 to v0.19). Of a
label the part before `=` counts, for what follows it changes with the version. Numbers have 2 decimals. The profiles of
modules below the summary are not read: they are nested, and their latencies may be wrong (`1.8 Gs`).

The metrics are `flops_profiler.` and a name of `_METRICS`. A summary at step n is of step n - 1; what stands in one
summary only is one value.
"""

from __future__ import annotations

import re

from perfgate.core import Key
from perfgate.readers.builder import RunBuilder, fault_of

TITLE_WORD, END_WORD = "- DeepSpeed Flops Profiler -", "- Aggregated Profile per GPU -"

_STEP = re.compile(r"Profile Summary at step (\d{1,18}):")
#: A label ends at a colon, or at the formula behind `=`, which ends at one.
_ROW = re.compile(r"(\w[\w+/ ]{2,40}?)(?: = [^:]{1,100})?:\s+([-+.\w]+)(?: ?([TGBMKkmu]?)(FLOPS|MACs|s)?)?\s*$")
_LONGEST = 400
_PREFIXES = {"": 0, "u": -6, "m": -3, "k": 3, "K": 3, "M": 6, "G": 9, "B": 9, "T": 12}

#: By the printed label: the metric, its unit, and what the unit is printed as.
_METRICS = {
    "fwd latency": ("forward_latency", "s", "s"),
    "bwd latency": ("backward_latency", "s", "s"),
    "step latency": ("step_latency", "s", "s"),
    "iter latency": ("iteration_latency", "s", "s"),
    "fwd flops per GPU": ("forward_flops", "FLOP", None),
    "fwd MACs per GPU": ("forward_macs", "1", "MACs"),
    "params per GPU": ("parameters", "1", None),
    "fwd FLOPS per GPU": ("forward_throughput", "FLOP/s", "FLOPS"),
    "bwd FLOPS per GPU": ("backward_throughput", "FLOP/s", "FLOPS"),
    "fwd+bwd FLOPS per GPU": ("forward_backward_throughput", "FLOP/s", "FLOPS"),
    "FLOPS per GPU": ("throughput", "FLOP/s", "FLOPS"),
    "samples/second": ("samples_per_second", "1/s", None),
}


class FlopsSummary:
    """The summaries while a log is read."""

    def __init__(self) -> None:
        self.is_open = False
        self._step = 0

    def line(self, run: RunBuilder, number: int, line: str) -> None:
        """Any line: the title, one of the summary, the end of it, or another."""
        if TITLE_WORD in line:
            self.is_open = True
        elif END_WORD in line:
            self.is_open = False
        elif len(line) > _LONGEST:
            return
        elif self.is_open and (found := _STEP.search(line)):
            self._step = max(int(found[1]) - 1, 0)
        elif self.is_open and (found := _ROW.search(line)):
            self._row(run, number, found)

    def _row(self, run: RunBuilder, number: int, found: re.Match[str]) -> None:
        label, text, prefix, printed_unit = found[1].replace("gpu", "GPU"), found[2], found[3] or "", found[4]
        if label == "world size" and text.isdigit():
            run.fact("world_size", int(text[:9]), number)
        if label not in _METRICS:
            return
        name, unit, expected = _METRICS[label]
        key = Key(f"flops_profiler.{name}")
        if printed_unit != expected and not (expected == "MACs" and printed_unit is None):
            run.refuse(key, f"{found[0].strip()!r} is not in {expected or 'numbers'}; left out", number)
            return
        fault = fault_of(text)
        if fault:
            run.refuse(key, fault, number)
            return
        column = run.column(key, unit, 1.0, found[1])
        column.values.append(_scaled(text, _PREFIXES[prefix]))
        column.steps.append(self._step)


def _scaled(text: str, exponent: int) -> float:
    """A printed number times a power of ten, to the last bit."""
    return float(text) * 10.0**exponent if "e" in text else float(f"{text}e{exponent}")


def summarise(run: RunBuilder) -> None:
    """What stands in one summary only is one value, of which no warm-up is dropped."""
    for key in [key for key in run.columns if key.metric.startswith("flops_profiler.")]:
        column = run.columns[key]
        if len(column.values) == 1:
            del run.columns[key]
            run.one_value(key, column.unit, column.values[0], column.printed_as)
