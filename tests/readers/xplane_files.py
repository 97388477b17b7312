"""Files made from the fields of xplane.proto."""

from __future__ import annotations

MS = 10**9  # in ps
Event = tuple[str, int, int] | tuple[str, int, int, dict[str, int | str]]


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def message(field: int, data: bytes | str) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def plane(name: str, lines: dict[str, list[Event]], device_type: str = "") -> bytes:
    """XPlane: the events of each line are (name, offset in ps, duration in ps, stats)."""
    names: dict[str, int] = {}
    stats: dict[str, int] = {}

    def known(table: dict[str, int], key: str) -> int:
        return table.setdefault(key, len(table) + 1)

    body = b""
    for title, events in lines.items():
        line = message(2, title) + number(3, 1_000)
        for event, offset, duration, *more in events:
            own = number(1, known(names, event)) + number(2, offset) + number(3, duration)
            for stat, value in (more[0] if more else {}).items():
                text = message(5, value) if isinstance(value, str) else number(4, value)
                own += message(4, number(1, known(stats, stat)) + text)
            line += message(4, own)
        body += message(3, line)
    extra = message(6, number(1, known(stats, "device_type_string")) + message(5, device_type)) if device_type else b""
    for field, table in ((4, names), (5, stats)):
        for key, index in table.items():
            body += message(field, number(1, index) + message(2, number(1, index) + message(2, key)))
    return message(1, number(1, 7) + message(2, name) + body + extra)


def step(index: int, start: int, duration: int) -> Event:
    return ("train", start, duration, {"step_num": index})


HOST = plane("/host:CPU", {"python": [step(3, 0, 10 * MS), step(4, 10 * MS, 12 * MS), ("data", 11 * MS, MS)]})


def launched(name: str, start: int, correlation: int, details: str = "") -> Event:
    stats: dict[str, int | str] = {"correlation_id": correlation}
    kind = "memcpy_details" if name.startswith("Memcpy") else "kernel_details"
    return (name, start, MS, stats | ({kind: details} if details else {}))


#: Two steps: a kernel that runs one step later, a graph of three kernels, a copy, and a capture that launches nothing.
LAUNCHES: list[Event] = [
    step(3, 0, 10 * MS),
    step(4, 10 * MS, 12 * MS),
    launched("gemm", MS, 1),
    launched("cuGraphLaunch (CudaGraph:12)", 11 * MS, 2),
    launched("MemcpyD2H", 13 * MS, 3),
    launched("gemm", 14 * MS, 4),
]
STREAM: list[Event] = [
    launched("gemm", 12 * MS, 1, "regs:16 grid:2,3,4 block:1,1,1"),
    *(launched("tanh", 15 * MS, 2, "grid:5,1,1 block:1,1,1") for _ in range(3)),
    launched("Memset 0", 15 * MS, 2),
    launched("MemcpyD2H", 90 * MS, 3, "kind_src:device kind_dst:pinned size:64 dest:0 async:1"),
    launched("before", 0, 99, "grid:7,1,1"),
]
