"""`nccom-test` of AWS Neuron (collectives of Trainium and Inferentia): the table, or `--report-to-json-file`.

    nccom-test -r 32 -b 1kb -e 1mb -f 8 -d fp32 --stats avg p99 allg
       size(B)    count(elems)    type    time:avg(us)    time:p99(us)    algbw(GB/s)    busbw(GB/s)
          8192            2048    fp32           10.22              12           0.80           0.70
    Avg bus bandwidth:	9.1966GB/s

    {"results": [{"size(B)": 8192, "type": "fp32", "algbw(GB/s)": 0.8, "busbw(GB/s)": 0.7, "time:avg(us)": 10.22}]}

Source: the NCCOM-TEST User Guide of AWS Neuron 2.29. The metrics are those of nccl-tests: `COLLECTIVE.time` (an
aggregate), `.algbw`, `.busbw` (B/s), labelled with `size` and `type`, and `.avg_busbw`. Without a command line in the
file, the collective is `collective`. A size that failed is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from perfgate.core import Key, Run, Severity
from perfgate.readers.kit import Format, InputFile, Place, RunBuilder, Target, load, number, rows, statistic_of

NAME = "nccom-test"
METRICS = "`COLLECTIVE.time`, `.algbw`, `.busbw`, `.avg_busbw`, labelled with `size` and `type`"
CHECKED = "the guide of AWS Neuron 2.29: its examples; public tables"
FORMAT = Format(
    NAME,
    __name__,
    markers={"busbw(GB/s)": r"^[ \t]*size\(B\) .{0,300}\bbusbw\(GB/s\)"},
    json=("of nccom-test", "results.*.size(B)"),
)
_COMMAND = re.compile(r"\bnccom-test\b.*? (all\w+|redsct\w*|reduce\w*|sendrecv|permute|bcast|broadcast)\b")
_NAMES = {"allr": "all_reduce", "allg": "all_gather", "redsct": "reduce_scatter"}
_AVERAGE = re.compile(r"\s*Avg bus bandwidth:\s*(\S{1,40}?) ?GB/s\s*")
_TIME = re.compile(r"time(?::(\w{1,9}))?\(us\)")


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of an output."""
    if file.is_json():
        data, run = load(file, NAME)
        for path, row in rows(run, data, "results"):
            _row(run, "collective", row, path)
        return (run.run(),)
    run, collective, header = RunBuilder(file, NAME), "collective", list[str]()
    begun = 0  # the line of a header whose `Avg bus bandwidth` has not come yet
    for line, text, _, ended in file.lines():
        cells = text.split()
        if command := _COMMAND.search(text):
            collective = _NAMES.get(command[1], command[1])
        elif "size(B)" in cells:
            header, begun = cells, line
        elif average := _AVERAGE.fullmatch(text):
            run.value(run.unique(Key(f"{collective}.avg_busbw"), line), "B/s", average[1], line, per=1e-9)
            begun = 0
        elif not header or not cells or not cells[0].isdecimal():
            continue
        elif ended and len(cells) == len(header):
            _row(run, collective, dict(zip(header, cells, strict=True)), line)
        else:
            severity: Severity = "error" if ended else "warning"
            run.say(severity, "a row cannot be read; left out", line, f": {text.strip()[:80]}")
    if begun:
        run.say("warning", "the table has no `Avg bus bandwidth` at its end: rows may be missing", begun)
    return (run.run(),)


def _row(run: RunBuilder, collective: str, row: Mapping[str, object], place: Place) -> None:
    """Add the times and bandwidths of one size."""
    key = run.unique(Key.of(collective, size=str(row.get("size(B)")), type=str(row.get("type"))), place)
    times: dict[str, tuple[object, Place]] = {}
    for name, value in row.items():
        # `time(us)` is a mean; a statistic that is not known is left out
        if (time := _TIME.fullmatch(name)) and (statistic := statistic_of(time[1] or "avg")):
            times[statistic] = (number(str(value)), place)
        elif name in ("algbw(GB/s)", "busbw(GB/s)"):
            run.value(Key(f"{key.metric}.{name[:5]}", key.labels), "B/s", value, place, per=1e-9)
    Target(run, Key(f"{key.metric}.time", key.labels), per=1e6).aggregate(times)
