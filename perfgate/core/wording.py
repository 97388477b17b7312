r"""Words that every room needs: names of statistics and metrics, counts and lists, and untrusted text made safe.

Metric names, file names and labels are untrusted. Invisible characters are shown as `\uXXXX` and never deleted, so
that two different names never look the same.

**Other names of a metric.** Tools renamed metrics; a rule finds a series by each of its names (`synonyms`). Readers
give a timer of DeepSpeed and a device of torch one name for all versions, and keep the printed name in
`Series.printed_as`. An action of Lightning keeps its printed name. Only names with the same meaning are here: since
1.6, Lightning times some hooks for each class (`backward`, `[Strategy]DDPStrategy.backward`), which is another
measurement.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

#: Labels by name, or as the pairs of a `Key`.
Labels: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]
#: The name of the file with mappings, beside the rules.
MAPPING_FILE = "perfgate.yaml"
#: The end of the name of the file with the metrics of the machine, beside the results: `results.json.machine`.
MACHINE_FILE = ".machine"
#: ASCII for the signs that perfgate itself writes.
_IN_ASCII = str.maketrans({"µ": "u", "μ": "u", "→": "->", "±": "+-", "×": "x", "…": "..."})
#: GitHub Actions reads a command at the start of a line, and one with the old syntax anywhere, as Azure Pipelines
#: (`##vso[`) and TeamCity (`##teamcity[`) do with theirs.
_COMMAND = re.compile(r"^((?:[^\S\n]|\x1b\[[\d;]*m)*):(?=:)", re.MULTILINE)
_BRACKET_COMMAND = re.compile(r"##(?=\w*\[)")
#: A word with a placeholder such as `{results}` that needs no quotes, and any word of a shell command with its quotes.
_PLAIN_WORD = re.compile(r"[\w@%+=:./-]*(?:\{(?:results|run|item)\}[\w@%+=:./-]*)+", re.ASCII)
_SHELL_WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*"|['"])+""")


def one_line(text: str, *, ascii_only: bool = False) -> str:
    r"""Return the text on one line, with every character that a screen does not show or obeys as `\uXXXX`.

    These are control characters, line breaks, marks of writing direction, zero-width and unusual blanks, lone
    surrogates and code points without a character. With `ascii_only` these are all characters beyond ASCII.
    """
    if ascii_only:
        text = text.translate(_IN_ASCII)
    if text.isprintable() and (text.isascii() or not ascii_only):
        return text
    return "".join(
        char if char.isprintable() and (char.isascii() or not ascii_only) else escaped(char) for char in text
    )


def escaped(char: str) -> str:
    r"""Return the character as `\uXXXX` or `\UXXXXXXXX`."""
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"


def utf8_text(text: str) -> str:
    """Return text that can be written as UTF-8: bytes of the command line that are not UTF-8 become visible escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def without_commands(text: str) -> str:
    r"""Return the text without commands for a CI system: `::stop::` becomes `\:stop::`, `##[x]` becomes `#\[x]`.

    Widths do not change. A name such as `aten::mm` does not change either, unless a line begins with `::`.
    """
    return without_bracket_commands(_COMMAND.sub(r"\1\\", text), "\\")


def without_bracket_commands(text: str, sign: str) -> str:
    """Return the text with another sign for the second `#` of each command such as `##[x]` or `##vso[x]`."""
    return _BRACKET_COMMAND.sub(lambda _: "#" + sign, text)


def clip(text: str, longest: int) -> str:
    """Return the text, or its beginning and the number of characters that are missing."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text) - longest} more characters)"


def shortened(name: str, longest: int) -> str:
    """Return a name, or its beginning with `…`, in at most `longest` characters."""
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


#: The innermost template arguments or parameters of a C++ function.
_ARGUMENTS = re.compile(r"<[^<>()]*>|\([^<>()]*\)")


def short_call(name: str) -> str:
    """Return the name of a kernel without its template arguments and parameters: `kernel.softmax_warp_backward`."""
    if not name.startswith("kernel."):
        return name
    name, before = name.replace("(anonymous namespace)::", "").replace("kernel.void ", "kernel."), ""
    while name != before:
        name, before = _ARGUMENTS.sub("", name), name
    return name


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: `1 problem`, `2 problems`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(words: Sequence[str], most: int = 5) -> str:
    """Return words separated by commas; words beyond the first `most` are only counted."""
    rest = len(words) - most
    return ", ".join(words[:most]) + (f" and {rest} more" if rest > 0 else "")


def show_labels(labels: tuple[tuple[str, str], ...]) -> str:
    """Return labels as in the rule language, `{rank="0"}`, or an empty string without labels."""
    return "{" + ", ".join(f'{name}="{value}"' for name, value in labels) + "}" if labels else ""


def series_name(metric: str, labels: Labels, statistic: str | None = None, member: Labels = ()) -> str:
    """Return the name of a judged series in messages and reports: `forward{name="small"} median on rank 1`."""
    name = metric + show_labels(tuple(sorted(dict(labels).items())))
    place = member_name(member)
    return name + (f" {statistic}" if statistic else "") + (f" on {place}" if place else "")


def member_name(member: Labels) -> str:
    """Return a rank or a device of a rank in words: `device 0 rank 3`; empty for a series without either."""
    return " ".join(f"{name} {value}" for name, value in sorted(dict(member).items()))


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines. The first and the last column are aligned to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    last = len(widths) - 1
    return [
        "  ".join(
            cell.ljust(w) if i in (0, last) else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def shell_lines(command: str, width: int) -> list[str]:
    """Return a shell command on several lines that a shell joins again; a word longer than `width` stays whole."""
    lines = [""]
    for word in _SHELL_WORD.findall(command):
        if lines[-1] and len(lines[-1]) + len(word) + 3 > width:  # 3: the blank before it, and " \"
            lines[-1] += " \\"
            lines.append(f"  {word}")
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return lines


def shell_text(words: Iterable[str]) -> str:
    """Return the words of a command as a shell reads them; `{results}` needs no quotes."""
    return " ".join(word if _PLAIN_WORD.fullmatch(word) else shlex.quote(word) for word in words)


#: Every statistic except the percentiles `p0` to `p100`, with its meaning.
STATISTICS = {
    "median": "the median",
    "mean": "the mean",
    "min": "the smallest value",
    "max": "the largest value",
    "total": "the sum of all values",
    "count": "the number of values",
    "stddev": "the standard deviation",
    "cv": "the standard deviation as a share of the mean",
    "trimmed_mean": "the mean without the lowest and highest fifth",
}
_PERCENTILE = re.compile(r"p(\d{1,3}(?:\.\d+)?)", re.ASCII)


def percent_of(name: str) -> float | None:
    """Return the percentage in the name of a percentile (99.9 for `p99.9`), or None for every other word."""
    found = _PERCENTILE.fullmatch(name)
    percent = float(found[1]) if found else 101.0  # not a percentage
    return percent if percent <= 100 else None


def is_statistic(word: str) -> bool:
    """Return whether a word names a statistic: `median`, `p95`, `p99.9`, ..."""
    return word in STATISTICS or percent_of(word) is not None


#: DeepSpeed v0.10.1 (PR 3996) renamed these.
_TIMERS = {"fwd": "forward", "bwd": "backward", "bwd_inner": "backward_inner", "bwd_allreduce": "backward_allreduce"}
#: The wait for the next batch: Lightning since 2.0, from 1.6 to 1.9, and before 1.6.
_NEXT_BATCH = ("[_TrainingEpochLoop].train_dataloader_next", "[TrainingEpochLoop].train_dataloader_next")
_ACTIONS = (*_NEXT_BATCH, "get_train_batch")
#: Columns of torch with the name of a device: `mm.self_cuda_time`.
_DEVICE = re.compile(r"(.*\.(?:self_)?)(?:cuda|xpu|hpu|mtia|npu|privateuse1)(_time|_memory)", re.DOTALL)


def canonical_timer(name: str) -> str:
    """Return the metric of a DeepSpeed timer: `forward_microstep` for `fwd_microstep`."""
    stem = name.removesuffix("_microstep")
    return _TIMERS.get(stem, stem) + name[len(stem) :]


@lru_cache(maxsize=4096)
def synonyms(name: str) -> tuple[str, ...]:
    """Return the other names that readers may give a metric or a glob: `mm.device_time` for `mm.cuda_time`.

    For `fwd*` that is `forward*`, and for `forward` nothing: readers call both timers `forward`.
    """
    device = _DEVICE.fullmatch(name)
    if device:
        return (f"{device[1]}device{device[2]}",)
    end = next((at for at, letter in enumerate(name) if letter in "*?["), len(name))  # a glob begins there
    timer = canonical_timer(name[:end])
    if timer != name[:end]:
        return (timer + name[end:],)
    # An action is the name or its beginning (`get_train_batch.self_cpu_time`), in tables of torch behind a prefix.
    whole = name.removeprefix("[pl][profile]") + "."
    named = next((action for action in _ACTIONS if whole.startswith(action + ".")), None)
    return tuple(name.replace(named, action, 1) for action in _ACTIONS if action != named) if named else ()


#: The energy of all devices over the number of steps, and the energy of one device during the run, in J.
ENERGY_OF_STEP, ENERGY = "energy.step", "machine.energy"
#: The time in s from the first reading of the machine to the beginning of a step, for some of the steps.
ELAPSED = "machine.elapsed"
#: The beginnings of the names of metrics of the machine, not of the program.
MACHINE_STATE = ("machine.", "clock.")
#: The metrics of a whole command begin with this: its time, CPU time, instructions and cycles.
COMMAND = "command."
#: The ends of the names of metrics that depend less on the speed of the machine than the wall time does.
CPU_METRICS = (".cpu_time", ".instructions", ".cycles")
#: The time of a whole run in s, and its part up to the first step; `core.goodput` splits the rest.
WHOLE_TIME, START_TIME = "time.total", "time.start"
#: The cost of profiling some steps to count their work: s and bytes.
PROFILE_TIME, PROFILE_MEMORY = "time.profile", "memory.profile"
#: The parts of the time of a whole run (`core.goodput`), which grow with its length, and the costs of perfgate itself.
TIMES_OF_RUN = frozenset(
    f"time.{part}"
    for part in ("start", "compile", "data", "step", "checkpoint", "evaluation", "lost", "other", "total")
) | {PROFILE_TIME, PROFILE_MEMORY}


def is_machine_metric(name: str) -> bool:
    """Return whether a metric is about the machine: `machine.*`, `clock.*`, `power` and `energy.step`."""
    return name in ("power", ENERGY_OF_STEP) or name.startswith(MACHINE_STATE)
