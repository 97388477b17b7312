"""`perf stat` of Linux: what it prints, `-x SEPARATOR` (CSV) and `-j` (JSON), also with `-I`, `-A`, `--per-socket`.

     Performance counter stats for './train':
               542.98 msec task-clock            #    0.990 CPUs utilized            ( +-  1.20% )
            1,234,567      cycles                #    2.274 GHz
      <not supported>      branches
          0.548 seconds time elapsed

    542.98,msec,task-clock,542978000,100.00,0.990,CPUs utilized
    {"counter-value" : "542.98", "unit" : "msec", "event" : "task-clock", "event-runtime" : 542978000, ...}

Source: Linux `tools/perf/util/stat-display.c` (5.10 to 6.12), and the section CSV FORMAT of perf-stat(1).

| metric | unit | from |
|---|---|---|
| events by their names: `task-clock`, `duration_time`, ... | s | counts in msec or ns |
| `power/energy-pkg/`, ... | J | energy |
| `cycles`, `instructions`, `cache-misses`, ... | 1 | counts |
| `time_elapsed`, `time_user`, `time_sys` | s | the last lines of the printed form |

Numbers after `#` follow from other numbers and are not read: a derived metric of a rule file does the same
(`instructions / cycles`), and perf 6.1 divides by a wrong time in CSV and JSON.

With `-r N` perf prints means: single values. With `-I` each interval is a sample. The labels `cpu`, `socket`, `die`,
`core` and `node` are those of `-A`, `--per-socket` and so on. If a file has several commands, each is the label
`command`. One warning names the events that were not counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from perfgate.readers.kit import Format, InputFile, Key, Run, RunBuilder, Runs, mapping, number

NAME = "perf-stat"
METRICS = (
    "the event: `task-clock`, `cycles`, `instructions`, `cache-misses`, ...; `time_elapsed`, `time_user`, `time_sys`"
)
CHECKED = "perf 6.1: text, CSV and JSON that it wrote, of a machine without hardware counters; generated files"
#: A file of JSON is one record, or begins with one.
FORMAT = Format(
    NAME,
    __name__,
    markers={
        "Performance counter stats for": "",
        "-clock": r"^(?:[^,;|\t\n]{0,60}[,;|\t]){0,3}[\d.]{1,30}([,;|\t])msec\1(?:task|cpu)-clock(?::\w{1,9})?\1\d",
        '"counter-value" : ': "",
        "#           time": r"^#           time +(?:CPU +|socket +|.{0,30})?counts +(?:unit )?events",
    },
    hints={",,": r"^[\d.]{1,30},,[a-zA-Z][\w.:/=-]{1,99},\d{1,20},\d{1,3}\.\d\d,"},
    json=("with the 'counter-value' of perf stat", "counter-value", "event"),
)
_CUT = "the last record is cut off; left out"
#: Numbers of JSON that follow from the counts, or say how long they were counted.
BESIDE = "stalled cycles per insn|event-runtime|pcnt-running|metric-value|variance"
_TITLE = re.compile(r"Performance counter stats for (.{0,4000}?)(?: \(\d+ runs\))?:\s*$")
#: The longest command that is a label.
_LONGEST_COMMAND = 200
_PLACE = r"(?:(?P<place>(?:CPU|S|N|D|C)\d[\w-]{0,40}) +(?:\d{1,9} +)?)?"
_COUNT = r"(?P<count><not (?:counted|supported)>|-?[\d.,']{1,40})"
_ROW = re.compile(
    rf"\s*(?:(?P<time>\d{{1,12}}\.\d{{6,9}}) +)?{_PLACE}{_COUNT}"
    r"(?: +(?P<unit>msec|nsec|ns|usec|sec|Joules|MiB|KiB|Bytes))?"
    r" +(?P<event>[A-Za-z][\w.:/=,@{}+-]{0,199})(?:\s+(?:#|\().*)?\s*"
)
_TIME = re.compile(r"\s*([\d.,]{1,40})(?: \+- [\d.,]{1,40})? seconds (time elapsed|user|sys)\b.*")
#: A comma that cannot group thousands, or dots that can only do so.
_OTHER_LOCALE = re.compile(r"-?\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?|-?\d{1,3}(?:\.\d{3})*,(?:\d{1,2}|\d{4,})|-?\d{4,},\d+")
_INTERVAL = re.compile(r"\s*\d{1,12}\.\d{6,9}")
_CSV_PLACE = re.compile(r"(?:CPU|S|N|D|C)\d[\w-]{0,40}")
_EVENT = re.compile(r"[A-Za-z][\w.:/=,@{}+-]{0,199}")
_TIMES = {"msec": 1e3, "nsec": 1e9, "ns": 1e9, "usec": 1e6, "sec": 1.0}
_SIZES = {"MiB": 2.0**-20, "KiB": 2.0**-10, "Bytes": 1.0}
_UNITS = {
    **{unit: ("s", per) for unit, per in _TIMES.items()},
    **{unit: ("B", per) for unit, per in _SIZES.items()},
    "Joules": ("J", 1.0),
}
#: How a place begins, and its label: `CPU` comes before `C`.
_LABELS = (("CPU", "cpu"), ("S", "socket"), ("D", "die"), ("C", "core"), ("N", "node"))
_SEPARATORS = ",;|\t:"


class _StatRun(RunBuilder):
    """The counts of one command."""

    def __init__(self, file: InputFile) -> None:
        super().__init__(file, NAME)
        #: Events that were not counted, each with its first line.
        self.not_counted: dict[str, int] = {}
        #: True if the rows have times, so each count is a sample; otherwise it is a single value.
        self.is_interval = False

    def run(self, part: int | None = None) -> Run:
        if self.not_counted:
            names, line = ", ".join([*self.not_counted][:20]), next(iter(self.not_counted.values()))
            self.say("warning", f"perf did not count {len(self.not_counted)} events: {names}", line)
        # Only the printed form has a command.
        if "command" in self.unlabelled and not self.is_interval and Key("time_elapsed") not in self.columns:
            self.say("warning", "the list of counts has no `time elapsed` at its end: rows may be missing")
        if not self.is_interval:
            self.single_values(re.compile(""))  # of any name
        return super().run(part)

    def count(self, labels: Mapping[str, str], event: str, text: str, unit: str, line: int) -> None:
        """Add the count of an event."""
        if text.startswith("<not"):
            self.not_counted.setdefault(event, line)
            return
        base, per = _UNITS.get(unit, ("1", 1.0))
        self.sample(Key.of(event, **labels), base, text, line, per=per)


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a file, one for each program that was measured."""
    runs = Runs(lambda: _StatRun(file))
    for at, line, _, ended in file.lines():
        text = line.strip()
        if title := _TITLE.search(line):
            runs.banner(at)
            # Runs that differ in an unlabelled field get it as a label.
            runs.run.unlabelled["command"] = title[1].strip("'")[:_LONGEST_COMMAND]
            if heading := file.heading(at):
                runs.run.unlabelled["heading"] = heading
        elif text.startswith('{"') and text.endswith("}"):
            _json(runs.run, text, at)
        elif not ended and _ROW.fullmatch(line):  # it may be cut inside of a word
            runs.run.say("warning", _CUT, at)
        else:
            is_read = _text(runs.run, line, at) or _csv(runs.run, text, at)
            if not ended and not is_read:
                runs.run.say("warning", _CUT, at)
    return runs.finish()


def _text(run: _StatRun, line: str, at: int) -> bool:
    """Read a printed row, and return whether the line is one."""
    if time := _TIME.fullmatch(line):
        name = "time_elapsed" if time[2] == "time elapsed" else f"time_{time[2]}"
        run.sample(Key(name), "s", _plain(time[1]), at)
        run.file.coverage.lines.tell(at)
        return True
    if found := _ROW.fullmatch(line):
        run.is_interval = run.is_interval or found["time"] is not None
        run.count(_labels(found["place"]), found["event"], _plain(found["count"]), found["unit"] or "", at)
        run.file.coverage.lines.tell(at)  # the rest of the row follows from the counts
    return found is not None


def _plain(text: str) -> str:
    """Return a printed number without the separators of thousands, which are dots in some locales."""
    if text.startswith("<"):
        return text
    if _OTHER_LOCALE.fullmatch(text):  # `39.293.025`, `1.101,01`, `2,008125400`
        text = text.replace(".", "").replace(",", ".")
    return text.replace(",", "").replace("'", "")


def _labels(place: str | None) -> dict[str, str]:
    """Return the labels of a place: `CPU3` is cpu 3, `S0-D0-C1` is socket 0, die 0 and core 1."""
    labels = {}
    for part in (place or "").split("-"):
        name = next((name for letters, name in _LABELS if part.startswith(letters) and part[len(letters) :]), None)
        if name:
            labels[name] = part.lstrip("CPUSDN")
    return labels


def _csv(run: _StatRun, line: str, at: int) -> bool:
    """Read a row `[time,][place,[CPUs,]]count,unit,event,[variance%,]run time,share,...`; return whether it is one."""
    for before, cells in _divided(line):
        if len(cells) > 5 and cells[3].endswith("%"):
            del cells[3]  # the variance of -r
        count, unit, event, time, share, *_ = cells
        is_count = count.startswith("<not") or number(count) is not None
        if is_count and _EVENT.fullmatch(event) and time.isdigit() and number(share.rstrip("%")) is not None:
            run.is_interval = run.is_interval or any(_INTERVAL.fullmatch(cell) for cell in before)
            place = next((cell for cell in before if _CSV_PLACE.fullmatch(cell)), None)
            run.count(_labels(place), event, count, unit, at)
            run.file.coverage.lines.tell(at)
            return True
    return False


def _divided(line: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the cells of a row before the count, and from it on: for every separator, and up to 3 cells before."""
    for separator in _SEPARATORS:
        cells = [cell.strip() for cell in line.split(separator)]
        for count in range(min(4, len(cells) - 4)):  # 5 cells are left at least: count, unit, event, run time, share
            yield cells[:count], cells[count:]


def _json(run: _StatRun, text: str, at: int) -> None:
    """Read a record of JSON, whose places are written as `CPU3` or as a number."""
    try:
        row = mapping(json.loads(text))
    except (ValueError, RecursionError):
        row = {}
    event, count = row.get("event"), row.get("counter-value")
    labels: dict[str, str] = {}
    for name in ("cpu", "socket", "die", "core", "node"):
        if name in row:
            labels |= _labels(str(row[name])) or {name: str(row[name])}
    run.is_interval = run.is_interval or "interval" in row
    if isinstance(event, str) and isinstance(count, str):
        run.count(labels, event, count, str(row.get("unit", "")), at)
    elif "metric-value" not in row:
        run.say("error", "a record cannot be read", at, f": {text[:80]!r}")
