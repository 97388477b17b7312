"""The NVTX ranges that PyTorch writes for each operator (`torch.autograd.profiler.emit_nvtx`): one name for each.

    aten::linear, seq = 1204, op_id = 88231
    aten::addmm, op_id = 88232, sizes = [[768], [64, 768], [768, 768]], input_op_ids = (88231,0)

Source: pytorch/pytorch `torch/csrc/profiler/stubs/base.cpp` and `torch/csrc/profiler/util.cpp` (`getNvtxStr`). The
numbers count calls, so every call would be a metric of its own. The sizes of the inputs stay in the name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from statistics import median, stdev

_CALL = re.compile(r",? (?:stashed seq|seq|op_id) = -?\d+(?=,|$)|, input_op_ids = .*")


def name_of_calls(name: str) -> str:
    """Return the name of a range without the numbers of its call."""
    return _CALL.sub("", name) if " = " in name else name


def merged(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the statistics of all calls together, from those of each; rows without a count are one call.

    The median and the spread of several calls are only known if each row is one call.
    """
    if len(rows) == 1:
        return dict(rows[0])
    counts = [row.get("count", 1.0) for row in rows]
    count = math.fsum(counts)
    totals = [row.get("total", row.get("mean", math.nan) * calls) for row, calls in zip(rows, counts, strict=True)]
    total = math.fsum(totals)
    found = {"count": count, "total": total, "mean": total / count if count else math.nan}
    for statistic, choose in (("min", min), ("max", max)):
        ends = [row.get(statistic, row.get("mean")) for row in rows]
        if None not in ends:
            found[statistic] = choose(end for end in ends if end is not None)
    if all(calls == 1 for calls in counts):
        found |= {"median": median(totals), "stddev": stdev(totals)}
    return {name: value for name, value in found.items() if math.isfinite(value)}
