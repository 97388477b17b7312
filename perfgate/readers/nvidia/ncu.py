"""Nsight Compute CSV: what `ncu --csv` prints, as the details page and as `--page raw`.

    ==PROF== Connected to process 4711
    "ID","Process ID",..,"Kernel Name",..,"Section Name","Metric Name","Metric Unit","Metric Value"     details
    "0","4711",..,"gemm(float *, int)",..,"Command line profiler metrics","gpu__time_duration.sum","usecond","41.28"

    "ID","Process ID",..,"Kernel Name",..,"CC","gpu__time_duration.sum","dram__bytes.sum"               raw
    "","",..,"","usecond","Mbyte"
    "0","4711",..,"gemm(float *, int)",..,"9.0","41.28","2.5"

Source: outputs in public repositories. A metric is `kernel.NAME.METRIC`, with one
value for each launch, in their order; a metric that stands in two sections is `METRIC#2` in the second. Numbers are
printed in the user's locale: the first that leaves no doubt tells the decimal mark, and until it is known a number
like `117.344` is refused. Units: s, B, 1/s, B/s, and 1 for shares and counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from perfgate.core import Key, Run, Severity
from perfgate.readers.builder import MAX_FAULTS, RunBuilder, fault_of
from perfgate.readers.nvidia.localised import Mark, readings
from perfgate.readers.nvidia.ncu_tables import DEVICE, NumberedLine, Tables, Value
from perfgate.readers.nvidia.ncu_units import Scale, scale_of
from perfgate.readers.runs import Runs
from perfgate.readers.text import Document, clean

NAME = "ncu"

_NUMBER = re.compile(r"[-+.,]*\d|[-+]?(?:nan|inf(?:inity)?)\Z", re.ASCII | re.IGNORECASE)
#: How far the first number that gives the decimal mark away is looked for.
_HEAD = 8 << 20
#: The one fact that is taken of the device's metadata.
_GPU = f"{DEVICE}display_name"


class _Profile(RunBuilder):
    """The launches of one invocation of ncu while they are read."""

    def __init__(self, document: Document, mark: Mark | None) -> None:
        super().__init__(document, NAME)
        self._mark = mark
        self._launch: tuple[str, str] | None = None
        #: How often each metric of a section has stood in this launch.
        self._seen: Counter[tuple[str, str]] = Counter()
        #: The key of each metric by kernel, section and occurrence, and how many keys share a name.
        self._keys: dict[tuple[str, str, str, int], Key] = {}
        self._names: Counter[str] = Counter()
        self._absent = [0, 0]

    def value(self, value: Value) -> None:
        """One value of a launch, if it is a measurement."""
        if value.metric.startswith(DEVICE):
            if value.metric == _GPU:
                self.fact("gpu", value.text, value.line)
            return
        if value.launch != self._launch:
            self._launch = value.launch
            self._seen.clear()
        self._seen[value.section, value.metric] += 1
        if value.text.endswith("n/a"):
            self._absent = [self._absent[0] + 1, self._absent[1] or value.line]
        elif _NUMBER.match(value.text):  # other values are words
            self._measured(value, self._key(value), scale_of(value.unit))

    def _key(self, value: Value) -> Key:
        """The key of a value: a metric that stands in a second section is another one."""
        place = (value.kernel, value.section, value.metric, self._seen[value.section, value.metric])
        if place not in self._keys:
            name = f"kernel.{value.kernel}.{value.metric}"
            self._names[name] += 1
            count = self._names[name]
            self._keys[place] = Key(name if count == 1 else f"{name}#{count}")
            if count == 2:
                self.say("warning", f"{name} stands more than once; that of {value.section!r} is #2", value.line)
        return self._keys[place]

    def _measured(self, value: Value, key: Key, scale: Scale) -> None:
        found = readings(value.text)
        text = found.get(self._mark) if self._mark else next(iter(found.values()), None)
        fault = fault_of(text or value.text)
        column = self.column(key, scale.base)
        if not self._mark and len({*found.values()}) > 1:
            fault = f"{value.text} may have a decimal mark or thousands in it, and no number before tells; left out"
        elif text is None and found:
            fault = f"{value.text} has another decimal mark than {self._mark!r}, that of the file; left out"
        elif column.unit != scale.base:
            fault = f"{value.text} {value.unit} is in another unit than the launches before; left out"
        if fault or text is None:
            self.refuse(key, fault or "is no number; left out", value.line)
        else:
            column.values.append(scale.to_base(float(text)))

    def run(self, part: int | None = None) -> Run:
        """The finished run, with what is odd about it."""
        count, line = self._absent
        if count:
            self.say("warning", f"{count} values are n/a, and not available", line)
        return super().run(part)


def read(document: Document) -> tuple[Run, ...]:
    """The runs of an output, one for each invocation of ncu; every run has at least one series or an error."""
    mark = _decimal_mark(document)
    runs = Runs(lambda: _Profile(document, mark))

    def say(severity: Severity, message: str, line: int) -> None:
        runs.run.say(severity, message, line)

    header = 0
    for value in Tables(say).values(_lines(document, runs)):
        if value.header != header:
            header = value.header
            runs.banner(value.line)
            replay = "ncu replays kernels at fixed clocks: durations under it are not those of the run"
            runs.run.say("warning", replay, value.line)
        runs.run.value(value)
    return runs.finish()


def _lines(document: Document, runs: Runs[_Profile]) -> Iterator[NumberedLine]:
    """The lines of a document; errors of ncu itself are said on the way."""
    count = 0
    for number, line, _, ended in document.lines():
        count += line.startswith("==ERROR==")
        if line.startswith("==ERROR==") and count <= MAX_FAULTS:
            runs.run.say("error", "ncu reports an error here; launches may be absent", number)
        yield number, line, ended


def _decimal_mark(document: Document) -> Mark | None:
    """The decimal mark of the first number that leaves no doubt; None if there is none near the beginning."""
    lines = clean(document.head(_HEAD).decode("utf-8", "replace")).split("\n")[:-1]
    numbered = ((number, line.rstrip("\r"), True) for number, line in enumerate(lines, 1))
    values = Tables(lambda severity, message, line: None).values(numbered)
    return next((mark for value in values if (mark := value.mark())), None)
