"""The console output of `vllm bench serve` and SGLang's `bench_serving`: blocks that end with `====`.

    ============ Serving Benchmark Result ============
    Successful requests:                     200
    Request rate configured (RPS):           0.30
    Request throughput (req/s):              0.29
    ---------------Time to First Token----------------
    Mean TTFT (ms):                          234.18
    ==================================================

and the last line of `vllm bench throughput`:

    Throughput: 2.73 requests/s, 699.93 total tokens/s, 349.97 output tokens/s

Sources: copies of vllm-project/vllm `vllm/benchmarks/serve.py` and sgl-project/sglang `python/sglang/bench_serving.py`
in other projects (2024 to 2026); of `vllm bench throughput`, a line on a page of zhangxinyuehfad/vllm-benchmarks.

The metrics have the names that they have in the JSON of the same tool (see the format vllm), so that one rule reads
both: `mean_ttft`, `p99_itl`, `request_throughput`, `output_throughput`, `duration`, `completed`, ...; of `vllm bench
throughput` `requests_per_second`, `tokens_per_second` and `output_tokens_per_second`. Each is one value
with two decimals; the JSON is exact.

The conditions are labels, as far as the log has them: in the block `request_rate`, `concurrency` and `backend`; before
it the arguments, which both tools print as `Namespace(model='...', ...)`, or the command, if the shell printed it.
Blocks under unequal conditions are a load sweep, and those under equal conditions are several runs. Blocks that differ
in a word or an argument that is not a label (`Architecture: dlora`) are refused. A block without its end is a warning.
"""

from __future__ import annotations

import re

from perfgate.core.wording import show_labels
from perfgate.readers.kit import Field, Format, InputFile, Key, Labels, RecordRuns, Run, RunBuilder, labels_of

NAME = "serve-log"
METRICS = (
    "`mean_ttft`, `p99_itl`, `request_throughput`, ..., as in the JSON of vLLM; labelled with the conditions, as far "
    "as the log has them"
)
CHECKED = "copies of the scripts of vLLM and SGLang (2024 to 2026): generated logs, and blocks of public logs"
FORMAT = Format(
    NAME,
    __name__,
    markers={
        "Serving Benchmark Result": r"={3,60} ?Serving Benchmark Result ?={3,60}",
        " requests/s, ": r"\bThroughput: [\d.]{1,20} requests/s, [\d.]{1,20} total tokens/s",
    },
)
WORD = "Serving Benchmark Result"
_BEGIN = re.compile(r"={3,60} ?Serving Benchmark Result ?={3,60}")
_END = re.compile(r"\s*(?:\S{1,60}\s+)?={20,}\s*")
#: A row, perhaps behind what a launcher or a logger puts before each line: it ends with `]`, `|` or `>`.
_ROW = re.compile(r"(?:.*?[\]|>] ?)?\s*([A-Z][\w ().,%/-]{1,60}):\s+([^\s:]{1,40})(?:\s.*)?")
_ARGUMENTS = re.compile(r"\bNamespace\((.*)")
_ARGUMENT = re.compile(r"(\w{1,60})=(?:'([^']{0,300})'|([^\s,'()\[\]]{1,100}))")
#: A command, which may go on after a backslash, and its options.
_COMMAND = re.compile(r"\b(?:bench(?:mark)?_serving|(bench(?:mark)?_throughput|bench throughput)|bench serve)\b")
_OPTION = re.compile(r"--([a-z][\w-]{0,60})(?:[ =]+['\"]?([^\s'\"\\-][^\s'\"\\]{0,300}))?")
#: The rates of `vllm bench throughput`, without a server.
_OFFLINE = re.compile(
    r"\bThroughput: (?P<requests>[\d.]{1,20}) requests/s, (?P<tokens>[\d.]{1,20}) total tokens/s"
    r"(?:, (?P<output_tokens>[\d.]{1,20}) output tokens/s)?"
)
_BEFORE = re.compile(r"(Traffic request rate|Maximum request concurrency|Burstiness factor): (\S{1,40})")
#: Times: `Mean TTFT (ms)`, `P99.9 E2E Latency (ms)`, `Max ITL (ms)`.
_TIME = re.compile(r"(Mean|Median|Std|Max|Min|P\d{1,2}(?:\.\d{1,3})?) ([\w -]{1,30}) \(ms\)")
_TIMES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "e2el", "e2e latency": "e2e_latency"}
_ROWS = {
    "Successful requests": Field("completed", "1"),
    "Failed requests": Field("failed", "1"),
    "Benchmark duration (s)": Field("duration", "s"),
    "Request throughput (req/s)": Field("request_throughput", "1/s"),
    "Request goodput (req/s)": Field("request_goodput", "1/s"),
    "Input token throughput (tok/s)": Field("input_throughput", "1/s"),
    "Output token throughput (tok/s)": Field("output_throughput", "1/s"),
    "Peak output token throughput (tok/s)": Field("max_output_tokens_per_s", "1/s"),
    "Total Token throughput (tok/s)": Field("total_token_throughput", "1/s"),
    "Total token throughput (tok/s)": Field("total_token_throughput", "1/s"),
    "Total throughput (tok/s)": Field("total_throughput", "1/s"),
}
#: SGLang, whose blocks have a row "Backend", has another name in its JSON than in the row that it prints.
_SGLANG = {"total_token_throughput": "total_throughput"}
#: The rows that are conditions, and the names of these conditions.
_CONDITIONS = {
    "Request rate configured (RPS)": "request_rate",
    "Traffic request rate": "request_rate",
    "Maximum request concurrency": "max_concurrency",
    "Max request concurrency": "max_concurrency",
    "Burstiness factor": "burstiness",
    "Backend": "backend",
}
#: The first word of a condition without a rate or number: `not set`, `None`, `trace`.
_UNSET = ("not", "None", "trace")


class _Log:
    """A log while it is read, line by line."""

    def __init__(self, file: InputFile) -> None:
        self.file = file
        self.runs = RecordRuns(file, NAME)
        #: What was printed before a block: the arguments and the rate.
        self.arguments: dict[str, str] = {}
        #: True if the line before is a command that goes on after a backslash.
        self._in_command = False
        #: The rows of the open block with their lines, and the line that it began on; None between blocks.
        self.rows: dict[str, tuple[str, int]] = {}
        self.begun: int | None = None

    def line(self, number: int, line: str) -> None:
        """Read a line: the beginning or end of a block, one of its rows, or a line outside a block."""
        if WORD in line and _BEGIN.search(line):
            self.close(ended=False)
            self.begun = number
        elif self.begun is None:
            self._before(line)
            if " requests/s, " in line and (found := _OFFLINE.search(line)):
                labels = self._labels()
                # The word keeps this record apart from a block with the same labels, so that both are in one run.
                run = self.runs.run_of(("offline", labels), fields=self._fields())
                for name, text in found.groupdict().items():
                    if text is not None:
                        run.value(Key(f"{name}_per_second", labels), "1/s", text, number)
        elif _END.fullmatch(line):
            self.close(ended=True)
        elif row := _ROW.fullmatch(line.rstrip()):
            self.rows.setdefault(row[1], (row[2], number))

    def _before(self, line: str) -> None:
        """Keep the conditions in a line outside a block: a command with its options, its arguments, or a rate."""
        if found := _COMMAND.search(line):
            # A benchmark of a server sends without a limit by default; one of throughput (group 1) has no rate.
            self.arguments, self._in_command = {} if found[1] else {"request_rate": "inf"}, True
        if self._in_command:
            self.arguments |= {name.replace("-", "_"): value or "True" for name, value in _OPTION.findall(line)}
            self._in_command = line.rstrip().endswith("\\")
        if "Namespace(" in line and (found := _ARGUMENTS.search(line)):
            self.arguments = {name: quoted or plain for name, quoted, plain in _ARGUMENT.findall(found[1])}
        elif found := _BEFORE.search(line):
            self.arguments[_CONDITIONS[found[1]]] = _plain(found[2])

    def close(self, *, ended: bool) -> None:
        """Make series of the rows of the open block, if there is one; `ended` is False if its last line is missing."""
        if self.begun is None:
            return
        labels = self._labels()
        run = self.runs.run_of(labels if self.rows else None, fields=self._fields())  # None: a run of its own
        if not self.rows:
            run.say("error", "a block of results has no row", self.begun)
        elif not ended:
            run.say("warning", "a block of results has no end: rows may be missing", self.begun)
        for name, (text, line) in self.rows.items():
            if known := self._known(name):
                run.value(Key(known.metric, labels), known.unit, text, line, per=known.per)
        if self.rows.get("Successful requests", ("",))[0] == "0":
            load = f" with {show_labels(labels)}" if labels else ""
            run.say("error", "no request was completed", self.begun, load)
        self.rows, self.begun = {}, None

    def _known(self, name: str) -> Field | None:
        """Return the metric of a row of the open block, and its unit; None for other rows."""
        if found := _TIME.fullmatch(name):
            time = _TIMES.get(found[2].lower())
            return Field(f"{found[1].lower()}_{time}", "s", 1000) if time else None
        known = _ROWS.get(name)
        if known and "Backend" in self.rows:
            return known._replace(metric=_SGLANG.get(known.metric, known.metric))
        return known

    def _fields(self) -> dict[str, object]:
        """Return what else may be a condition of the open block: the arguments, and words in its rows."""
        texts = self.arguments | {
            name: text for name, (text, _) in self.rows.items() if text[0].isalpha() and name not in _CONDITIONS
        }
        # Integers, because only a number with the name of a size may be a condition.
        return {name: int(text) if text.isdecimal() else text for name, text in texts.items()}

    def _labels(self) -> Labels:
        """Return the conditions of the open block. Its own lines win over lines before it."""
        record = {key: value for key, value in self._fields().items() if value != "None"}
        for name, field in _CONDITIONS.items():
            if name in self.rows:
                record.pop(field, None)
                if self.rows[name][0] not in _UNSET:
                    record[field] = _plain(self.rows[name][0])
        if "request_rate" in record:
            record["request_rate"] = _plain(str(record["request_rate"]))
        return labels_of(self.file, "vllm", record)  # the conditions of the JSON of the same tools


def _plain(text: str) -> str:
    """Return a printed number without zeros at its end: `0.3` for `0.30`, as the JSON has it."""
    return re.sub(r"\.?0+$", "", text) if re.fullmatch(r"\d+\.\d+", text) else text


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a log."""
    log = _Log(file)
    for number, line, _, ended in file.lines():
        if ended:
            log.line(number, line)
    log.close(ended=False)
    return log.runs.finish() or (RunBuilder(file, NAME).run(),)
