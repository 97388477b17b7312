"""`perfgate inspect --timings`: how long each reader takes for its files, stage by stage."""

from __future__ import annotations

from time import perf_counter

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Run
from perfgate.core.units import format_number
from perfgate.core.wording import aligned
from perfgate.judge.series_summary import summary
from perfgate.workspace.input_files import CHUNK, opened, parts_of
from perfgate.workspace.inputs import read_runs
from perfgate.workspace.options import CommandOptions, Refused
from perfgate.workspace.rule_source import read_mapping_files


class Timing(Struct, frozen=True):
    """The files of one reader: their bytes as stored, and the seconds of each stage in this process."""

    format: str
    files: int = 0
    size: int = 0
    #: To get the bytes from the disk.
    load: float = 0.0
    #: To decompress, recognise and read them.
    read: float = 0.0
    #: To compute the statistics of all series.
    summarise: float = 0.0


def timings(options: CommandOptions) -> list[Timing]:
    """Return the time of each reader, the slowest first. Raises Refused for an input that cannot be read twice."""
    mappings = read_mapping_files(options.rules).mappings
    found: dict[str, Timing] = {}
    for path in options.runs:
        if path == "-" or "://" in path:
            raise Refused(f"{path}: --timings reads each file twice; save it as a file")
        for part in parts_of(path, path) or [(path, path)]:
            if isinstance(part, Run):
                continue
            began = perf_counter()
            size = _size(part[0])
            loaded = perf_counter()
            runs = read_runs((part[0],), options.format, options.trace_mode, with_calls=False, mappings=mappings)
            ended = perf_counter()
            for series in (series for run in runs for series in run.series):
                summary(series)
            own = found.get(runs[0].format, Timing(runs[0].format))
            stages = (own.load + loaded - began, own.read + ended - loaded, own.summarise + perf_counter() - ended)
            found[own.format] = Timing(own.format, own.files + 1, own.size + size, *stages)
    return sorted(found.values(), key=lambda one: -one.read)


def _size(path: str) -> int:
    """Return the bytes of a file, all of which are loaded. Raises Refused."""
    try:
        file, first = opened(path)
        size = len(first)
        with file:
            while chunk := file.read(CHUNK):
                size += len(chunk)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror or error}", 3) from None
    return size


def render_timings(found: list[Timing]) -> str:
    """Return a table with a row for each reader, and the sum of several."""
    whole = Timing("all")
    for one in found:
        whole = replace(
            whole,
            files=whole.files + one.files,
            size=whole.size + one.size,
            load=whole.load + one.load,
            read=whole.read + one.read,
            summarise=whole.summarise + one.summarise,
        )
    rows = [["reader", "files", "MB", "load", "read", "summarise", "MB/s read"]]
    for one in (*found, whole) if len(found) > 1 else found:
        seconds = (f"{format_number(time, 3)} s" for time in (one.load, one.read, one.summarise))
        rate = one.size / 1e6 / one.read if one.read else 0.0
        rows.append([one.format, str(one.files), format_number(one.size / 1e6, 3), *seconds, format_number(rate, 3)])
    return "\n".join(aligned(rows)) + "\n"
