"""Which rules fail if each step asks the device for a little more: the part of `perfgate rules` about exact work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from perfgate.core import Series, read_only
from perfgate.core.details import AddedWork
from perfgate.core.results import LOOKS
from perfgate.judge.case import Case
from perfgate.judge.verdicts import judge

if TYPE_CHECKING:
    from perfgate.core.runs import Values

#: What is added to each step, and the counts that grow by one. A copy is one from the device to the host.
_ADDED = {
    "a kernel and its launch": ("work.kernels", "work.launches"),
    "a synchronisation": ("work.syncs",),
    "a copy to the host": ("work.copies",),
    "an allocation": ("work.allocations",),
}
_KIND_OF_COPY = ("kind", "DtoH")
_DEVICE_TIME, _MORE_TIME = "work.device_time", 1.02


def added_work(case: Case) -> Iterator[AddedWork]:
    """Yield what can be added to the new runs, and the rules that fail then; nothing for runs without exact work."""
    for what, names in _ADDED.items():
        yield from _added(case, what, {name: lambda values: values + 1 for name in names})
    yield from _added(case, "2% of device time", {_DEVICE_TIME: lambda values: values * _MORE_TIME})


def _added(case: Case, what: str, more: Mapping[str, Callable[[Values], Values]]) -> Iterator[AddedWork]:
    def grows(series: Series) -> bool:
        is_other_copy = series.key.metric == "work.copies" and _KIND_OF_COPY not in series.key.labels
        return series.key.metric in more and not is_other_copy

    def worse(series: Series) -> Series:
        if not grows(series):
            return series
        return replace(series, values=read_only(more[series.key.metric](series.values)), groups=())

    if not any(grows(series) for run in case.new for series in run.series):
        return
    new = tuple(replace(run, series=tuple(map(worse, run.series))) for run in case.new)
    # A change of time fails after a suspicion is measured again.
    verdicts = judge(replace(case, new=new * -(-LOOKS // len(new))))
    yield AddedWork(what, tuple(dict.fromkeys(one.rule for one in verdicts if one.exit_code == 1)))
