"""Profiles of JAX and XLA (`plugins/profile/*/*.xplane.pb`): a protocol buffer with timelines of devices and host.

    XSpace: 1 planes;              XPlane: 2 name, 3 lines, 4 event_metadata, 5 stat_metadata, 6 stats
    XLine: 2 name, 3 timestamp_ns, 4 events, 11 display_name
    XEvent: 1 metadata_id, 2 offset_ps, 3 duration_ps, 4 stats
    XEventMetadata: 1 id, 2 name, 4 display_name;     XStatMetadata: 1 id, 2 name
    XStat: 1 metadata_id, 3 uint64, 4 int64, 5 text, 7 id of a stat_metadata whose name is the text

Source: openxla/xla `third_party/tsl/tsl/profiler/protobuf/xplane.proto`; names of planes and lines from
`xla/tsl/profiler/utils/xplane_schema.cc`. The plane `/host:CPU` has a line for each thread, `/device:GPU:0` one for
each stream, `/device:TPU:0` the lines Steps, XLA Modules and XLA Ops.

| metric | unit | from |
|---|---|---|
| `step.time` | s | the events of the host with a `step_num`: `jax.profiler.StepTraceAnnotation` |
| `step.device_compute` | s | the time of a step in which an operation runs; one series a device |
| `step.device_time` | s | the line Steps of a device |
| `op.NAME` | s | each call of an operation of XLA |
| `kernel.NAME` | s | each kernel and copy on a stream of a GPU |
| `module.NAME` | s | each execution of a compiled program on a device |
| `range.NAME` | s | other events of the host, such as `jax.profiler.TraceAnnotation` |
| `work.*` | | the exact work of a step on GPUs: see `step_work` |

jax.profiler writes `*.trace.json.gz` beside it, for viewers: a copy without `step_num` and with at most a million
events. It is refused, and in a folder that has the `.xplane.pb`, it is not read.

Series of devices have the label `device`. A call belongs to the step in which it begins; calls outside of all steps,
such as those of the compilation, are left out if there are steps. Events of Python functions (`$file.py:1 name`) and of
the runtime (`Class::Function`) are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from perfgate.core.resource_limits import OverLimit
from perfgate.readers.kit import Format, InputFile, Key, Run, RunBuilder
from perfgate.readers.step_work import Event, Steps, add_work
from perfgate.readers.trackers import DamagedError, fields, parts, signed, text_of

NAME = "xplane"
METRICS = (
    "`step.time`, `step.device_compute`, `op.NAME`, `kernel.NAME`, `module.NAME`, `range.NAME`; with `device`; "
    "of GPUs the exact work of a step: `work.kernels`, `.blocks`, `.launches`, `.graph_launches`, `.copies` and "
    "`.copied_bytes`, `.memsets`, `.device_time`"
)
CHECKED = (
    "JAX 0.10.2 on a CPU: profiles that it wrote, with the step times that XProf 2.24.2 shows; for GPUs and TPUs files"
    " generated from xplane.proto"
)
#: The first plane of a profile of XLA, with its id and the beginning of its name.
_XPLANE = rb"\x0a[\x80-\xff]{0,4}[\0-\x7f](?:\x08[\x80-\xff]{0,9}[\0-\x7f])?\x12.(?:/[a-z]|Task Env)"
FORMAT = Format(
    NAME,
    __name__,
    signature=(_XPLANE, "as a profile of JAX or XLA does"),
    json=("for trace viewers from a profile of JAX or XLA", "metadata.highres-ticks", "traceEvents=["),
)
#: Picoseconds in a second.
_PS = 1e12
_DEVICE = re.compile(r"/device:(?:CUSTOM:)?([A-Za-z_ ]+):(\d+)")
#: `%fusion.3 = f32[8]{0} fusion(...)`, and `jit_step(1234567890)`.
_HLO, _PROGRAM = re.compile(r"%?([\w.-]+) = "), re.compile(r"(.+?)\(\d+\)")
#: Events of Python functions, ends of operations, and events of the runtime.
_RUNTIME = re.compile(r"\$|end: |.*::")
_STEP_NUM, _HLO_OP, _DEVICE_TYPE, _CORRELATION = "step_num", "hlo_op", "device_type_string", "correlation_id"
_DETAILS = ("kernel_details", "memcpy_details")
#: The characters of a name that are kept.
_LONGEST = 200


class _Plane(Struct):
    """One plane: its name, its lines as bytes, the names of its events and stats by their id, and its own stats.

    A stat is a value with a name, of a plane or an event.
    """

    name: str = ""
    lines: list[int | bytes] = field(default_factory=list)
    events: dict[int, str] = field(default_factory=dict)
    stats: dict[int, str] = field(default_factory=dict)
    own_stats: list[int | bytes] = field(default_factory=list)

    def text(self, stat: Mapping[int, int | bytes]) -> str:
        """Return the text of a stat, or the name whose id it has instead."""
        return text_of(stat[5]) if 5 in stat else self.stats.get(_integer(stat.get(7)), "")

    def own_texts(self, name: str) -> list[str]:
        """Return the texts of the plane's own stats of this name that are not empty."""
        stats = [dict(fields(message)) for message in self.own_stats]
        return [text for stat in stats if self.name_of(stat) == name and (text := self.text(stat))]

    def name_of(self, stat: Mapping[int, int | bytes]) -> str:
        """Return the name of a stat; empty if it is unknown."""
        return self.stats.get(_integer(stat.get(1)), "")


class _Line(Struct):
    """A line of a plane: its device (None: the host), its name, and its events in order of time."""

    device: str | None
    name: str
    events: list[Event]

    def family(self, event: Event) -> str:
        """Return what an event is: a step, an operation, ...; empty for one that is not read."""
        if self.device is not None:
            known = {"Steps": "step", "XLA Ops": "op", "Async XLA Ops": "op", "XLA Modules": "module"}
            return "kernel" if self.name.startswith("Stream #") else known.get(self.name, "")
        if event.is_op:
            return "" if event.name.startswith("end: ") else "op"
        is_range = event.duration and event.step is None and event.name and not _RUNTIME.match(event.name)
        return "range" if is_range else ""


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a profile."""
    run = RunBuilder(file, NAME)
    if file.is_json():
        run.say("error", "this is a copy for trace viewers: give the *.xplane.pb beside it, or their folder")
        return (run.run(),)
    if (data := file.whole_bytes()) is None:
        message = file.limits.beyond("document_bytes", "this profile is larger")
        raise OverLimit(file.problem("error", f"{message}; or profile fewer steps"))
    try:
        planes = [_plane(message) for message in parts(data, 1)]
        lines = [_line(plane, line) for plane in planes for line in plane.lines]
        _add(run, lines)
        types = [text for plane in planes if _DEVICE.match(plane.name) for text in plane.own_texts(_DEVICE_TYPE)]
        if types:
            run.facts["gpu"] = types[0][:_LONGEST]
    except DamagedError as damage:
        run.say("error", f"the profile is damaged or cut off, and cannot be read: {damage}")
    return (run.run(),)


def _plane(message: int | bytes) -> _Plane:
    """Return the plane in a message; its lines are decoded later, because they need the names."""
    plane = _Plane()
    for number, value in fields(message):
        if number == 2:
            plane.name = text_of(value)
        elif number == 3:
            plane.lines.append(value)
        elif number in (4, 5):
            key, name = _named(value, display=4 if number == 4 else None)
            (plane.events if number == 4 else plane.stats)[key] = name
        elif number == 6:
            plane.own_stats.append(value)
    return plane


def _named(entry: int | bytes, display: int | None) -> tuple[int, str]:
    """Return the id and the name of an entry of a map.

    `display`: the number of the field with the name for people, which is preferred.
    """
    key, names = 0, {2: "", display: ""}
    for number, value in fields(entry):
        if number == 1:
            key = _integer(value)
        elif number == 2:
            names |= {one: text_of(text) for one, text in fields(value) if one in names}
    return key, (names.get(display) if display else "") or names[2]


def _line(plane: _Plane, message: int | bytes) -> _Line:
    """Return the line in a message of a plane."""
    name, start, events = "", 0, []
    wanted = {number for number, stat in plane.stats.items() if stat in (_STEP_NUM, _HLO_OP, _CORRELATION, *_DETAILS)}
    for number, value in fields(message):
        if number in (2, 11) and not name:
            name = text_of(value)
        elif number == 3:
            start = _integer(value) * 1000  # ns to ps
        elif number == 4:
            events.append(_event(plane, value, wanted))
    for event in events:
        event.start += start
    device = _DEVICE.match(plane.name)
    return _Line(device[2] if device else None, name, sorted(events, key=lambda event: event.start))


def _integer(value: int | bytes | None) -> int:
    """Return the int64 of a field; 0 if it is missing or something else."""
    return signed(value) if isinstance(value, int) else 0


def _number(stat: Mapping[int, int | bytes]) -> int | None:
    """Return the integer of a stat; None if it has another value."""
    return next((_integer(value) for field, value in stat.items() if field in (3, 4)), None)


def _event(plane: _Plane, message: int | bytes, wanted: set[int]) -> Event:
    """Return the event in a message, its start from the start of its line; `wanted`: the ids of stats to decode."""
    event = Event("", 0, 0)
    for number, value in fields(message):
        if number == 1:
            event.name = plane.events.get(_integer(value), "")
        elif number == 2:
            event.start = _integer(value)
        elif number == 3:
            event.duration = _integer(value)
        elif number == 4 and wanted:
            stat = dict(fields(value))
            name = plane.name_of(stat)
            if name == _STEP_NUM:
                event.step = _number(stat)
            elif name == _CORRELATION:
                event.correlation = _number(stat)
            elif name in _DETAILS:
                event.details = plane.text(stat)
            event.is_op = event.is_op or name == _HLO_OP
    return event


def _add(run: RunBuilder, lines: Sequence[_Line]) -> None:
    """Add the steps, events and work of a profile."""
    host = [line.events for line in lines if line.device is None]
    streams: dict[str, list[Event]] = {}
    for line in lines:
        if line.device is not None and line.name.startswith("Stream #"):
            streams.setdefault(line.device, []).extend(line.events)
    steps = _steps_of(run, host)
    _add_events(run, lines, steps)
    _add_compute(run, lines, steps)
    add_work(run, host, streams, steps)
    if not steps.starts and not any(line.name == "Steps" for line in lines):
        run.say("warning", "this profile has no steps: annotate them with jax.profiler.StepTraceAnnotation")


def _steps_of(run: RunBuilder, lines: Sequence[Sequence[Event]]) -> Steps:
    """Return the steps that the host annotated, and add their times."""
    steps = Steps()
    found = sorted((one for events in lines for one in events if one.step is not None), key=lambda one: one.start)
    for one in found:
        if steps.starts and one.start < steps.ends[-1]:
            continue  # an annotation inside of a step, or that of another thread
        run.sample(Key("step.time"), "s", one.duration, None, per=_PS, step=one.step)
        steps.starts.append(one.start)
        steps.ends.append(one.start + one.duration)
        steps.numbers.append(one.step or 0)
    return steps


def _key(name: str, device: str | None) -> Key:
    return Key(name) if device is None else Key.of(name, device=device)


def _add_events(run: RunBuilder, lines: Sequence[_Line], steps: Steps) -> None:
    """Add the events of all lines to the series of their names, in order of time."""
    found: list[tuple[int, Key, int, int | None]] = []
    for line in lines:
        ends: dict[str, int] = {}
        for event in line.events:
            family, index = line.family(event), steps.of(event.start)
            is_outside = index is None and steps.starts
            is_inner = event.start < ends.get(event.name, 0)  # in a call of the same name
            if not family or is_outside or is_inner:
                continue
            ends[event.name] = event.start + event.duration
            name = "step.device_time" if family == "step" else f"{family}.{_short(event.name, family)}"
            step = None if index is None else steps.numbers[index]
            found.append((event.start, _key(name, line.device), event.duration, step))
    for _, key, duration, step in sorted(found, key=lambda one: one[0]):
        run.sample(key, "s", duration, None, per=_PS, step=step)


def _short(name: str, family: str) -> str:
    """Return the name of an operation or a program without its text and id."""
    if family == "op" and (found := _HLO.match(name)):
        return found[1]
    program = _PROGRAM.fullmatch(name) if family == "module" else None
    return " ".join((program[1] if program else name).split())[:_LONGEST]


def _add_compute(run: RunBuilder, lines: Sequence[_Line], steps: Steps) -> None:
    """Add for each step and device how long at least one operation or kernel ran; calls may overlap."""
    spans: dict[str | None, list[tuple[int, int]]] = {}
    for line in lines if steps.starts else ():
        work = [event for event in line.events if line.family(event) in ("op", "kernel")]
        if work:
            spans.setdefault(line.device, []).extend((event.start, event.start + event.duration) for event in work)
    for device, of_device in spans.items():
        for number, busy in zip(steps.numbers, _busy_times(of_device, steps), strict=True):
            run.sample(_key("step.device_compute", device), "s", busy, None, per=_PS, step=number)


def _busy_times(spans: Iterable[tuple[int, int]], steps: Steps) -> list[int]:
    """Return the length of the union of the spans that begin in each step."""
    busy, last = [0] * len(steps.numbers), 0
    for start, end in sorted(spans):
        index = steps.of(start)
        if index is not None and end > last:
            busy[index] += end - max(start, last)
        last = max(last, end)
    return busy
