"""`nvidia-smi`: the lines of `dmon`, the CSV of `--query-gpu`, and the text of `-q`, once or in a loop.

    #Date       Time        gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk    fb rxpci txpci
    #YYYYMMDD   HH:MM:SS    Idx     W     C     C     %     %     %     %   MHz   MHz    MB  MB/s  MB/s
     20210102   19:12:31      0   278    55     -    86    56     0     0  7000  1755  1024     5    10

    timestamp, name, index, power.draw [W], utilization.gpu [%], memory.used [MiB], clocks.current.sm [MHz]
    2026/08/01 10:00:00.123, NVIDIA H100 80GB HBM3, 0, 612.50 W, 98 %, 65536 MiB, 1980 MHz

    GPU 00000000:01:00.0
        GPU Power Readings
            Average Power Draw                : 13.44 W

Source: NVIDIA's manual page of nvidia-smi (driver 580), and public outputs of drivers 450 to 580. Every line is a
sample of each metric in it. Values that a GPU does not have (`-`, `N/A`) are left out. The label `device` distinguishes
several GPUs. `dmon` writes the MB of `fb` as 1024 * 1024 bytes; rates of PCIe are decimal.
"""

from __future__ import annotations

import re

from perfgate.readers.kit import Field, Format, InputFile, Key, Run, RunBuilder

NAME = "nvidia-smi"
METRICS = "`power`, `clock.sm`, `machine.gpu.temperature`, `gpu.utilization`, `memory.used`, ...: a sample a line"
CHECKED = "public outputs of drivers 450 to 580: generated outputs"
#: A header of `--query-gpu` up to the column that a hint names.
_ROW = r"^(?:[\w.\[\]/%][\w. \[\]/%]{0,60}, ?){0,60}"
FORMAT = Format(
    NAME,
    __name__,
    hints={
        "Idx": r"^#.{0,40}\bIdx\b",
        "power.draw": _ROW + r"power\.draw(?:\.\w{1,20})?(?: \[W\])?(?:,|\s*$)",
        "memory.used": _ROW + r"memory\.used(?: \[MiB\])?(?:,|\s*$)",
        "utilization.gpu": _ROW + r"utilization\.gpu(?: \[%\])?(?:,|\s*$)",
        "NVSMI LOG=": "",
    },
)
#: Not read: the memory, the limits and the versions of a card.
BESIDE = r"Total|\w+\.total|cuda_version|\w*\.?limit|\w*\.?(?:max|default|enforced)[_.]limit|pcie\.link\..*|count"
#: The names of `dmon`, of `--query-gpu` and of `-q` (`SECTION/NAME`) for the same metric.
_NAMES = {
    Field("power", "W"): "pwr power.draw Power/Power",
    Field("power.average", "W"): "power.draw.average Power/Average",
    Field("power.instant", "W"): "power.draw.instant Power/Instantaneous",
    Field("machine.gpu.temperature", "°C"): "gtemp temperature.gpu Temperature/GPU",
    Field("gpu.memory_temperature", "°C"): "mtemp temperature.memory Temperature/Memory",
    Field("gpu.utilization", "1", 100.0): "sm utilization.gpu Utilization/GPU Utilization/Gpu",
    Field("gpu.memory_utilization", "1", 100.0): "mem utilization.memory Utilization/Memory",
    Field("memory.used", "B", 2.0**-20): "fb memory.used FB/Used",
    Field("clock.sm", "1/s", 1e-6): "pclk clocks.current.sm clocks.sm Clocks/SM",
    Field("clock.memory", "1/s", 1e-6): "mclk clocks.current.memory clocks.mem Clocks/Memory",
    Field("clock.graphics", "1/s", 1e-6): "clocks.current.graphics clocks.gr Clocks/Graphics",
    Field("pcie.received", "B/s", 1e-6): "rxpci",
    Field("pcie.sent", "B/s", 1e-6): "txpci",
}
_KNOWN = {name: field for field, names in _NAMES.items() for name in names.split()}
#: The columns that distinguish GPUs.
_DEVICES = ("gpu", "index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id")
#: Lines of `-q`: a GPU, a section, and a number in a section.
_GPU = re.compile(r"GPU ([0-9A-F]{4,8}:\S{1,20})\s*")
_SECTION = re.compile(r" {4}(\S[^:]{0,60}?) *")
_SECTIONS = {"GPU Power Readings": "Power", "Power Readings": "Power", "FB Memory Usage": "FB"}
_DETAIL = re.compile(r" {8}(\S{1,20})(?: Current Temp| Power Draw| Draw)? +: (\S.{0,99})")
_MISSING = re.compile(r"|-|\[.*|N/A.*|Not Supported.*|ERR!.*")


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of an output."""
    run, columns, delimiter, device, section = RunBuilder(file, NAME), list[str](), "", "", ""
    for number, line, _, ended in file.lines():
        if not ended:
            run.say("warning", "the last record is cut off; left out", number)
        elif header := _header(line):
            columns, delimiter = header
            if delimiter == ",":
                file.coverage.lines.headers[number] = header  # names the numbers that are not read
        elif gpu := _GPU.fullmatch(line):
            device = gpu[1]
        elif device and (title := _SECTION.fullmatch(line)):
            section = _SECTIONS.get(title[1], title[1])
        elif device and (detail := _DETAIL.fullmatch(line)):
            _samples(run, [f"{section}/{detail[1]}"], [detail[2]], number, device)
        elif columns and not line.startswith("#"):
            _samples(run, columns, _cells(line, delimiter), number)
    _check_devices(run)
    return (run.run(),)


def _header(line: str) -> tuple[list[str], str] | None:
    """Return the columns of the table that begins with this line, and `,`, or a blank for `dmon`; None without one."""
    if line.startswith("#"):
        words = re.findall(r"\w+", line)
        return (words, " ") if "gpu" in words else None  # the line below has the units
    names = [cell.partition(" [")[0] for cell in _cells(line, ",")]
    return None if _KNOWN.keys().isdisjoint(names) else (names, ",")


def _cells(line: str, delimiter: str) -> list[str]:
    if delimiter == ",":
        return [cell.strip() for cell in line.split(",")]
    return re.split(r"[,\s]+", line.strip())


def _samples(run: RunBuilder, names: list[str], cells: list[str], line: int, device: str = "") -> None:
    """Add a sample of each known metric in a row. Without `device`, one of the cells names the GPU."""
    if len(cells) != len(names):
        if len(cells) > 1:  # else the line of a log
            run.say("warning", "a line has other columns than the header; left out", line)
        return
    named = list(zip(names, cells, strict=True))
    device = device or next((text for name, text in named if name in _DEVICES), "")
    for name, text in named:
        if name == "name":
            run.facts.setdefault("gpu", text[:200])
        elif (field := _KNOWN.get(name)) and not _MISSING.fullmatch(text):
            run.sample(Key.of(field.metric, device=device), field.unit, text.split()[0], line, per=field.per)


def _check_devices(run: RunBuilder) -> None:
    """Warn if several lines do not name their GPU, and drop the label of a single GPU."""
    if any(not key.label("device") and len(column.values) > 1 for key, column in run.columns.items()):
        run.say("warning", "no column distinguishes GPUs: several would be one series; add index to --query-gpu")
    if len({key.label("device") for key in run.columns}) == 1:
        for column in run.columns.values():
            column.key = Key(column.key.metric)
        run.columns = {column.key: column for column in run.columns.values()}
