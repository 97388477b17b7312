r"""The type of a format, and the modules that read formats.

**A new format** is a module in this package, in the folder of its tool if there is one, and its name in `MODULES`. The
module has a docstring, which begins with what the format is (for the pages), quotes it and cites its source, and

    NAME = "mytool"                                      the name for `--format`
    METRICS = "`step_time`, and losses as printed"       which metrics rules can name, for the pages, in Markdown
    CHECKED = "mytool 1.2: files that it wrote"          which version the reader was checked against, and how
    BESIDE = "lr|grad_norm"                              a pattern: names of numbers that the reader leaves out, if any

    FORMAT = Format(NAME, __name__, markers={"mytool step": r"mytool step \d+: "})

    def read(file: InputFile) -> tuple[Run, ...]: ...    one Run for each run in the file, at least one

`perfgate.readers.kit` has what readers are made of, for one import. A table lists the fields that a reader knows: a
printed name, or a pattern of names (`field_of`), and its `Field` (metric, base unit, printed units per base unit).

Detection needs the marks of all formats, but to import every reader would add 0.1 s to each start. So
`python docs/make_reference.py` copies each `FORMAT` to `registry.py`, and a test checks that they are equal.

`read` walks the file once, by lines, as a whole or by blocks of bytes. It never raises for bad data: it makes a Run
with problems instead (`builder.RunBuilder` does most of it). It opens nothing, and knows no baselines, rules or clocks.
A reader that saw a header and read no row, or read fewer rows than the file says, reports it (`RunBuilder.table`).
`RunBuilder` or `file.count` counts what a reader keeps, so that no file exceeds the limits of `core.resource_limits`.

**A reader outside perfgate** is a package with the same `read`, and an entry point that names its `Format`:

    [project.entry-points."perfgate.readers"]            in the pyproject.toml of the package
    mytool = "mytool_reader:FORMAT"

    from perfgate.readers import Format                  mytool_reader.py; a module with FORMAT is as good
    FORMAT = Format("mytool", "mytool_reader", markers={"mytool step": r"mytool step \d+: "})

`not_recognised.py` searches for these packages, but only when no format of perfgate matches, or when --format names
an unknown format. A package that cannot be loaded, or whose reader fails, is reported in one line and harms no
other file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module

from msgspec import Struct, field

from perfgate.documents.json_tokens import walk

#: The modules below this package that read a format. If several formats match a document, the first in this list wins.
MODULES = (
    "deepspeed",
    "lightning",
    "torch_table",
    "megatron",
    "torch_trace",
    "torch_snapshot",
    "benchmarks.timeit",
    "torch_benchmark",
    "benchmarks.pytest_benchmark",
    "benchmarks.pyperf",
    "benchmarks.google_benchmark",
    "benchmarks.hyperfine",
    "benchmarks.asv",
    "benchmarks.go_test",
    "amd",
    "nvidia.nsys",
    "nvidia.ncu",
    "hf_trainer",
    "serving.console",
    "serving.sglang_results",
    "serving.guidellm",
    "serving.genai_perf",
    "serving.trtllm_bench",
    "serving.trtexec",
    "serving.llama_bench",
    "serving.inferencex",
    "benchmarks.pytorch_hud",
    "vllm",
    "serving.loadgen",
    "mlperf",
    "nvidia.nccl_tests",
    "benchmarks.torchbench",
    "benchmarks.tritonbench",
    "benchmarks.benchmark_action",
    "benchmarks.bencher",
    "nvidia.nvbandwidth",
    "nvidia.nvbench",
    "nvidia",
    "amd.tunable_op",
    "aws_nccom",
    "serving.perf_analyzer",
    "perf_stat",
    "trackers.tensorboard",
    "xprof_overview",
    "xplane",
    "trackers.wandb",
    "trackers.mlflow",
    "trackers.lightning_csv",
    "python_profile",
    "benchmarks.superbench",
    "training_logs.nanogpt",
    "training_logs.torchtitan",
    "training_logs.nemo",
    "training_logs.maxtext",
    "training_logs.levanter",
    "recorded",
    "recorded.recording",
)
#: An outline has paths of at most 3 keys, from at most the first 1,048,576 characters of a document.
_DEPTH, _LONGEST = 3, 1 << 20
#: An outline ends at the events of a trace: they are long, and the format is certain there.
_EVENTS = ("traceEvents",)


class JsonOutline(Struct, frozen=True):
    """The upper levels of a JSON document, as far as its beginning shows them.

    `tokens` maps paths, at most three keys long and with `*` for indices, to the first token of the value there:
    `("schema",)` to `'"perfgate.results/1"'`, `("benchmarks", "*", "stats")` to `"{"`.
    """

    tokens: Mapping[tuple[str, ...], str]
    #: The keys anywhere in `tokens`.
    keys: Collection[str]

    @classmethod
    def of(cls, text: str) -> JsonOutline:
        """Return the outline of a JSON document from its text."""
        tokens: dict[tuple[str, ...], str] = {}
        for path, _, token in walk(text[:_LONGEST], _DEPTH):
            tokens.setdefault(tuple(key if isinstance(key, str) else "*" for key in path), token)
            if path == _EVENTS and token == "[":
                break
        return cls(tokens, {path[-1] for path in tokens if path})

    def has(self, *path: str) -> bool:
        """Return whether there is a value at this path."""
        return path in self.tokens

    def text(self, *path: str) -> str | None:
        """Return the string at this path, without its quotes; None if there is none."""
        token = self.tokens.get(path, "")
        return token[1:-1] if token.startswith('"') else None

    def is_list(self, *path: str) -> bool:
        """Return whether the value at this path is a list."""
        return self.tokens.get(path) == "["

    def has_key(self, keys: str) -> bool:
        """Return whether a key anywhere in the outline matches this pattern."""
        matches = re.compile(keys, re.DOTALL).fullmatch
        return any(map(matches, self.keys))

    def has_values(self, values: Iterable[str]) -> bool:
        """Return whether there is a value at each path, such as `results.*.mean`; in `A|B` one of both is enough.

        After `PATH=`, the beginning of the value's first token may follow: `benchmarks=[`, `context={`.
        """
        return all(any(map(self._has_value, value.split("|"))) for value in values)

    def _has_value(self, value: str) -> bool:
        path, _, beginning = value.partition("=")
        token = self.tokens.get(tuple(path.split(".")))
        return token is not None and token.startswith(beginning)

    def schema(self, prefix: str) -> str | None:
        """Return words for a document whose `schema` has this prefix; None for any other document."""
        schema = self.text("schema")
        return f"a JSON document of schema {schema}" if schema and schema.startswith(prefix) else None


class Format(Struct, frozen=True, repr_omit_defaults=True):
    """One format: its name for `--format`, the module that reads it, and how to recognise it."""

    name: str
    #: The module with `read` and this `FORMAT`, imported when a file has this format.
    module: str
    #: Text formats: words that must occur, and the pattern that finds them (empty: the words themselves). The earliest
    #: match in a file decides; at the same place, the first format of the list.
    markers: Mapping[str, str] = field(default_factory=dict)
    #: Like `markers`, but these also occur in logs of other formats: they count if a file has no marker.
    hints: Mapping[str, str] = field(default_factory=dict)
    #: Binary formats: the first bytes.
    magic: bytes | None = None
    #: Binary formats whose first bytes vary: their pattern, and how to end the sentence `the file begins ...`.
    signature: tuple[bytes, str] | None = None
    #: JSON formats: how to end the sentence `a JSON document ...`, then the values that every document has
    #: (`JsonOutline.has_values`).
    json: tuple[str, ...] = ()
    #: JSON formats that need more than `json`: returns why a document with this outline has the format, or None.
    outline: Callable[[JsonOutline], str | None] | None = None
    #: With `outline`: a pattern of keys. The reader is imported to ask `outline` only if a document has such a key.
    keys: str = ""
    #: JSON formats: the pattern of a key that proves the format, even if it comes after the outline; empty for none.
    late_key: str = ""
    #: The package that brings the format, if it is not perfgate.
    package: str = ""

    def why(self, document: JsonOutline) -> str | None:
        """Return why a JSON document with this outline has the format, or None."""
        if self.json:
            what, *values = self.json
            return f"a JSON document {what}" if document.has_values(values) else None
        outline = self.outline
        if outline is None and self.keys and document.has_key(self.keys):
            outline = import_module(self.module).FORMAT.outline  # the copy in `registry.py` has no functions
        return outline(document) if outline else None

    @property
    def title(self) -> str:
        """A short description of the format: how the docstring of its module begins."""
        return " ".join((import_module(self.module).__doc__ or "").partition("\n\n")[0].split()).rstrip(".")

    @property
    def metrics(self) -> str:
        """The metrics that rules can name, in Markdown."""
        return str(import_module(self.module).METRICS)

    @property
    def checked(self) -> str:
        """The version of the tool that the reader was checked against, and the check."""
        return str(import_module(self.module).CHECKED)
