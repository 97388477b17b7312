"""From bytes to runs: find the reader of a file by the content of the file, and call it.

A log whose job did not end by itself gets a warning:

    slurmstepd: error: *** JOB 123 ON node1 CANCELLED AT 2026-01-01T10:00:00 DUE TO TIME LIMIT ***          Slurm
    srun: error: node1: task 3: Out Of Memory
    [launch.py:315:sigkill_handler] Killing subprocess 41                                                   DeepSpeed
    Sending process 41 closing signal SIGTERM                                                               torchrun
    mpirun noticed that process rank 3 with PID 41 on node node1 exited on signal 9 (Killed).               Open MPI
    run.sh: line 7:    41 Killed                  python train.py                                           bash
    iteration       60/    1000 | ...                                                                       Megatron-LM
    Train Epoch: 0 [ 3278848/12202117 (27%)] ...                                                            open_clip

Sources: slurmstepd and srun of SchedMD/slurm; deepspeedai/DeepSpeed `launcher/launch.py`; pytorch
`torch/distributed/elastic`; the help texts of Open MPI; bash; NVIDIA/Megatron-LM `megatron/training/training.py`;
mlfoundations/open_clip `training/train.py`, which prints the last batch of each epoch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Location, Problem, Run
from perfgate.core.resource_limits import OverLimit
from perfgate.documents.json import load_json
from perfgate.readers.builder import MAX_FAULTS
from perfgate.readers.formats import Format, JsonOutline
from perfgate.readers.line_blocks import clean, is_json
from perfgate.readers.not_recognised import find_format, format_names, not_recognised, plugins, read_outside
from perfgate.readers.registry import FORMATS
from perfgate.readers.text import InputFile, Source

#: How many bytes of a file are examined: few first, because most files show their format at once.
_WINDOWS = (1 << 16, 1 << 20, 8 << 20)
#: The bytes that a signature of a binary format may need: the first pages of an SQLite database name its tables.
_SIGNATURE_LENGTH = 1 << 16
#: The characters of the longest marker.
_MARKER_LENGTH = 4096
#: A quick test before `with_ending`, which few logs pass: one of these words in the last `_TAIL` bytes.
_TAIL = 1 << 14
_UNUSUAL_END = re.compile(
    rb"Killed|Killing|Terminated|Aborted|Segmentation|slurmstepd|srun: error|return code =|closing signal|death signal"
    rb"|exitcode:|on signal|iteration +\d+/"
)
_PICKLE = (
    "a Python pickle, which is never loaded, unless it is a memory snapshot of torch: write the numbers as text or JSON"
)
#: The first bytes of files that are not text, and what they are.
_BINARY = {
    b"PK\x03\x04": "a zip archive, as torch.save writes; a pickle is never loaded: write the numbers as text or JSON",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; the only compression that perfgate reads is gzip",
    b"\xfd7zXZ\0": "compressed with xz; the only compression that perfgate reads is gzip",
    b"BZh": "compressed with bzip2; the only compression that perfgate reads is gzip",
    b"\x89HDF": "an HDF5 file, which perfgate does not read: write the numbers as text or JSON",
    **{b"\x80" + bytes([protocol]): _PICKLE for protocol in range(2, 6)},
}
#: Binary reports of tools, and the command that writes them in a form that is read.
_REPORTS = {
    (".nsys-rep", ".qdrep", ".qdstrm"): (
        "a binary report of Nsight Systems; give its export: nsys export --type sqlite FILE"
    ),
    (".ncu-rep",): "a binary report of Nsight Compute; give its text: ncu --import FILE --csv --page raw",
}


class Recognition(Struct, frozen=True):
    """The format of a file and the reason; without a format, `why` says what is wrong with the file."""

    found: Format | None
    why: str
    #: The file, not yet consumed.
    file: InputFile
    #: Without a format: what was searched for in the file.
    searched: str | None = None

    @property
    def format(self) -> str:
        """The name of the format, or `unknown`."""
        return self.found.name if self.found else "unknown"

    def read(self) -> tuple[Run, ...]:
        """Return the runs of the file, at least one: a file that cannot be read is a run with an error."""
        if not self.found:
            problems = self.file.problems
            if all(self.why != one.message for one in problems):  # else the file itself has said it
                problems = [*problems, replace(self.file.problem("error", self.why), details=self.searched)]
            return (Run(self.file.name, "unknown", (), tuple(problems)),)
        reader: Callable[[InputFile], tuple[Run, ...]] = partial(read_outside, self.found)
        beside = ""
        if not self.found.package:
            module = import_module(self.found.module)
            reader, beside = module.read, getattr(module, "BESIDE", "")
        runs = read_within_limits(self.file, self.found.name, self.why, reader, beside)
        words = (*self.found.markers, *self.found.hints)
        tail = b"".join(self.file.last_blocks) if words else b""  # only of logs
        if b"Train Epoch: " in tail or _UNUSUAL_END.search(tail, max(0, len(tail) - _TAIL)):  # rarely
            return with_ending(runs, tail.decode("utf-8", "replace"), words)
        return runs


def read_within_limits(
    file: InputFile, name: str, why: str, reader: Callable[[InputFile], tuple[Run, ...]], beside: str = ""
) -> tuple[Run, ...]:
    """Return the runs of a file, at least one; input beyond a limit is a run with an error.

    `name`: the format of the runs. `why`: how it was recognised. `reader`: reads the file. `beside`: a pattern of names
    of numbers that are not measurements in this format.
    """
    try:
        runs = reader(file)
        longest = file.limits.name_bytes
        for run in runs:
            texts = [*(str(series.key) for series in run.series), *(problem.message for problem in run.problems)]
            texts += [*(f"{name} {value}" for name, value in run.environment.items()), run.commit or ""]
            if any(len(text) > longest for text in texts):  # too long for any table
                message = file.limits.beyond("name_bytes", "a name in this file is longer")
                raise OverLimit(file.problem("error", message))
    except OverLimit as over:
        problems = (*file.problems, *over.before[:MAX_FAULTS], over.problem)
        return (Run(file.name, name, (), problems, recognised_by=why),)
    coverage = (file.coverage.found(file.name, runs, beside),)
    if fields := file.coverage.fields(runs, file.source.conditions):
        runs = (replace(runs[0], unlabelled=fields),)
    return tuple(replace(run, recognised_by=why, coverage=coverage) for run in runs)


def read(source: Source, format: str | None = None) -> tuple[Run, ...]:
    """Return the runs of a file; its format is recognised by content unless `format` names it."""
    return recognise(source, format).read()


def recognise(source: Source | InputFile, format: str | None = None) -> Recognition:
    """Find the reader of a file by the content of the file, or take the one that `format` names."""
    file = InputFile(source) if isinstance(source, Source) else source
    head = file.head()
    if not head:
        return Recognition(None, file.problems[0].message if file.problems else "the file is empty", file)
    if not head.strip(b"\0"):
        nothing = "it contains only NUL bytes (a disk that was full, or a file that was not written to its end?)"
        return Recognition(None, nothing, file)
    if not head.strip(b" \t\r\n\0") and len(head) < _WINDOWS[0]:  # the head is the whole file
        return Recognition(None, "the file is empty: it contains only blanks", file)
    kind = _binary(head, file.name)
    if format is not None:
        return _forced(file, format, kind)
    search = _by_beginning if kind else _detect
    if found := search(file, FORMATS) or search(file, plugins().formats):
        return Recognition(*found, file)
    why, searched = (kind, None) if kind else not_recognised(file, _WINDOWS[-1])
    return Recognition(None, why, file, searched)


def _forced(file: InputFile, format: str, kind: str | None) -> Recognition:
    """Take the format of this name, unless the file is of a binary kind that the format does not read."""
    forced = find_format(format)
    # A format with a signature, or of another package, may begin as one of `_BINARY`; no `magic` of perfgate does.
    reads_binary = forced and (forced.signature or (forced.package and forced.magic))
    if forced and (kind is None or reads_binary):
        return Recognition(forced, "--format", file)
    return Recognition(None, kind or f"there is no format {format!r}: {', '.join(format_names())}", file)


def _binary(head: bytes, name: str) -> str | None:
    """Return what kind of binary file this is; None for text. The name only tells kinds of binary files apart."""
    if b"\0" in head:
        for suffixes, kind in _REPORTS.items():
            if name.endswith(suffixes):
                return f"this is {kind}"
    if head[257:262] == b"ustar":
        return "this is a tar archive; give its files"
    return next((f"this is {kind}" for magic, kind in _BINARY.items() if head.startswith(magic)), None)


def _by_beginning(file: InputFile, formats: Sequence[Format]) -> tuple[Format, str] | None:
    """Return the binary format that the first bytes of a file show, and the reason in words."""
    head = file.head(_SIGNATURE_LENGTH)
    for known in formats:
        if known.magic and head.startswith(known.magic):
            return known, f"the file begins with {known.magic.decode('latin-1').rstrip(chr(0))!r}"
        if known.signature and re.match(known.signature[0], head, re.DOTALL):
            return known, f"the file begins {known.signature[1]}"
    return None


def _detect(file: InputFile, formats: Sequence[Format]) -> tuple[Format, str] | None:
    """Return the format of a file, and the reason in words; hints count only if the longest window shows nothing."""
    if found := _by_beginning(file, formats):
        return found
    text = ""
    for window in _WINDOWS if formats else ():  # without formats, nothing more is read
        head = file.head(window)
        text = clean(head.decode("utf-8", "replace"))
        if found := _look(text, formats):
            return found
        if len(head) < window:
            break
    return _earliest(text, [(known, known.hints) for known in formats])


def _look(text: str, formats: Sequence[Format]) -> tuple[Format, str] | None:
    """Return the format that the beginning of a text shows, as JSON or by markers, and the reason in words."""
    if is_json(text):
        outline = JsonOutline.of(text)
        for known in formats:
            why = known.why(outline)
            if why:
                return known, why
        late = next((known for known in formats if known.late_key and re.search(known.late_key, text)), None)
        if late:
            return late, f"a JSON document with {late.late_key.split(chr(34))[1]!r}"  # the key in its quotes
        if not any("Extra data" in problem.message for problem in load_json(text, "").problems):
            return None  # no log follows the document
    return _earliest(text, [(known, known.markers) for known in formats])


def _earliest(text: str, marked: Iterable[tuple[Format, Mapping[str, str]]]) -> tuple[Format, str] | None:
    """Return the format whose marker comes first in a text, and the reason in words."""
    first, found = len(text), None
    for known, markers in marked:
        for words, pattern in markers.items():
            end = first + _MARKER_LENGTH  # a later match would not be the first
            start = text.find(words, 0, end)  # before the pattern, which is slower
            if start >= 0 and pattern:
                match = re.compile(pattern, re.MULTILINE).search(text, 0, end)
                start = match.start() if match else -1
            if 0 <= start < first:
                first, found = start, (known, words)
    if found is None:
        return None
    known, words = found
    return known, f"found {words!r} on line {text.count(chr(10), 0, first) + 1}"


#: Lines that say that a job failed or was stopped.
_FAILED = re.compile(
    r"slurmstepd: error: .{0,200}?(?:CANCELLED AT|oom.kill)"
    r"|srun: error: .{0,200}?: (?:Killed|Terminated|Aborted|Out Of Memory|Segmentation fault)"
    r"|srun: error: .{0,200}?: Exited with exit code [1-9]"
    r"|\bKilling subprocess \d|exits with return code = -?[1-9]"
    r"|Sending process \d+ closing signal SIG|death signal, shutting down workers|\bfailed \(exitcode: -?[1-9]"
    r"|noticed that process rank .{0,200}? exited on signal"
    r"|^(?:\S+: line \d+: +\d+ )?(?:Killed|Terminated|Aborted|Segmentation fault)\b(?: +\(core dumped\))?(?: {3,}.*)?$"
)
_ITERATION = re.compile(r"\biteration\s{1,40}(\d{1,18})/\s{0,40}(\d{1,18}) \|")
#: Other programs print such a line, too, but not at the end of an epoch: only that of open_clip has the time of data.
_EPOCH = re.compile(r"Train Epoch: (\d{1,9}) \[.{0,60}?\((\d{1,3})%\)\].{0,400}?Data \(t\): ")
#: Words that Megatron-LM prints if it stops before the last iteration on purpose.
_STOPPED = ("exiting program", "after training is done")
#: The characters of the last line that the warning quotes.
_LONGEST = 160
#: Words of warnings that say already how the log ends.
_SAID = ("ends in a traceback", "is cut off")
#: A failure further from the end, in characters, did not end the job.
_NEAR = 1 << 14


def with_ending(runs: tuple[Run, ...], tail: str, markers: Collection[str]) -> tuple[Run, ...]:
    """Return the runs of a log; the last run gets a warning if the log shows that the job did not end by itself.

    `tail`: the end of the log. `markers`: words of the format's records; a failure before one of them was not the end.
    """
    *others, last = runs
    if any(words in problem.message for problem in last.problems for words in _SAID):
        return runs
    said = _unfinished(tail)
    for line in reversed(tail[-_NEAR:].splitlines()):
        if any(marker in line for marker in markers):
            break
        if _FAILED.search(line):
            said = f"the job did not end by itself: the log ends with `{line.strip()[:_LONGEST]}`"
            break
    if said is None:
        return runs
    warning = Problem("warning", said, Location(last.source))
    return (*others, replace(last, problems=(*last.problems, warning)))


def _unfinished(tail: str) -> str | None:
    """Return a warning if the last iteration in the end of a log is not the job's last, or its epoch is not full."""
    if any(words in tail for words in _STOPPED):
        return None
    iterations, epochs = [*_ITERATION.finditer(tail)], [*_EPOCH.finditer(tail)]
    if iterations and int(iterations[-1][1]) < int(iterations[-1][2]):
        last, of = iterations[-1].groups()
        return f"the log ends at iteration {last} of {of}: the job did not end, or still runs"
    if epochs and int(epochs[-1][2]) < 100:
        epoch, percent = epochs[-1].groups()
        return f"the log ends at {percent} % of epoch {epoch}: the job did not end, or still runs"
    return None
