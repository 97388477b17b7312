"""A proposed mapping, and the roles of its fields (measurements, labels, steps, facts)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from msgspec import Struct, field

from perfgate.core.conditions import TABLE
from perfgate.core.file_mappings import FileKind
from perfgate.mappings.units import split_value, written_unit
from perfgate.readers.values import number

#: The greatest depth of the fields of a record that are read, and their greatest number.
_DEEPEST, _MOST = 3, 100
#: Longer texts are messages, not labels.
_LONGEST = 2000
Role = Literal["metric", "label", "step", "repetition", "commit", "gpu", "ignore"]
#: Words for a value that is missing.
_MISSING = frozenset({"", "-", "n/a", "na", "none", "null", "nan", "oom", "error", "failed", "skipped"})
#: Names of fields by their roles: a step, the number of a repetition, no measurement, a commit, a GPU.
_STEPS = re.compile(r"(?:global_?|train_?)?(?:steps?|iter(?:ation)?s?|it|update)(?:_?(?:num|number|idx|index))?", re.I)
_REPETITIONS = re.compile(
    r"(?:run|rep(?:eat|etition)?|trial|round|sample|iter(?:ation)?|i|idx|index)(?:_?(?:num|idx|id))?", re.I
)
_IGNORED = re.compile(
    r"(?:.*[_. ])?(?:time_?stamp|timestamp|datetime|date|started?(?:_at)?|ended?(?:_at)?|created(?:_at)?|uuid|guid|"
    r"hash|schema|tool|build\w*|channel|align\w*|port|status|code|node|request(?:_?(?:id|num(?:ber)?))?|note|notes|"
    r"comment|title|python|platform|torch|cuda|driver|host(?:name)?|pid|path|"
    r"file(?:name)?|url|user|id|run_id|version|seed|lr|learning_rate|epoch|eta|message|description|command|cmd|error)",
    re.I,
)
COMMIT = re.compile(r"(?:git_?)?(?:commit|sha|revision)(?:_?(?:hash|sha|id))?|git(?:_?(?:hash|sha|rev))?", re.I)
GPU = re.compile(r"gpu(?:_?(?:name|model|type))?|device(?:_?name)?|accelerator", re.I)
#: Names of conditions under which something is measured, and those that readers of benchmarks know.
_CONDITION_WORDS = re.compile(
    r"(?:.*_)?(?:batch|bs|batch_?size|seq(?:_?len(?:gth)?)?|len(?:gth)?|size|threads?|workers?|gpus?|devices?|ranks?|"
    r"nodes?|layers?|heads?|hidden|dim|width|height|depth|prompts?|clients?|concurrency|beams?|vocab|rank|level|"
    r"warmup|repeats?|iters?|iterations|trials?|rounds?|m|n|k|b|h|d|world_?size|tp|pp|dp|ep)|(?:num|n)_.*",
    re.I,
)
_CONDITIONS = {
    name.rpartition(".")[2] for fields in TABLE.values() for one in fields for name in (one.label, *one.names)
}
_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}:\d\d(?::\d\d)?(?:\.\d+)?\b")
#: A size with its unit, which is a condition if it grows from record to record.
_SIZE = re.compile(r"(?:.*[_ .-])?(?:size|len|length|msg|message)[ _]?\W?[a-z]{1,5}\W?", re.I)
#: The size of a model, not bytes.
_BILLIONS = re.compile(r"\d{1,4}(?:\.\d{1,2})?[Bb]")
#: Words of measurements whose unit does not tell which direction is better.
_HIGHER = re.compile(
    r"(?:.*[_. /-])?(?:acc(?:uracy)?|score|mfu|hfu|speed_?up|efficiency|util(?:i[sz]ation)?|reward|f1|bleu|"
    r"throughput|rate|speed|bandwidth|flops)",
    re.I,
)
_LOWER = re.compile(
    r"(?:.*[_. /-])?(?:loss|ppl|perplexity|errors?|failed|failures|latency|duration|overhead|time)", re.I
)
#: Names of whole numbers that may be measurements.
_COUNTS = re.compile(r"(?:.*_)?(?:count|completed|failed|errors?|failures|peak|memory|mem|value|total|tokens)", re.I)


class DraftMetric(Struct, frozen=True):
    """A proposed metric: its name, which is also the path of its value in a record, and its unit."""

    name: str
    unit: str
    better: str | None = None
    is_optional: bool = False


class MappingDraft(Struct, frozen=True):
    """A proposed mapping, with the texts of its fields in `perfgate.yaml`."""

    kind: FileKind
    #: The path to the records, the delimiter, or the pattern of lines.
    source: str
    metrics: Sequence[DraftMetric] = ()
    #: Instead of `metrics`: the unit, if each key is a metric (`{"forward": 1.2}`); or the fields of the name and the
    #: value (`{"name": "forward", "value": 1.2}`).
    unit: str = ""
    metric: str = ""
    value: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    step: str = ""
    #: The records to read: those whose fields have one of these values.
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ignore: Sequence[str] = ()
    #: All patterns of lines, if there are several.
    more: Sequence[str] = ()
    #: True if records with equal labels are samples of one run.
    has_samples: bool = False
    #: How many numbers of a line the pattern skips.
    skipped: int = 0


class FieldValues(Struct):
    """One field of some records: its path and its values."""

    path: tuple[str, ...]
    #: The values that are not null.
    values: list[Any] = field(default_factory=list)
    #: The number of records that have the field, also with null.
    present: int = 0

    @property
    def text(self) -> str:
        """The path as a mapping writes it."""
        return path_text(*self.path)

    @property
    def name(self) -> str:
        """The last key."""
        return self.path[-1]


def path_text(*keys: str) -> str:
    """Return keys as a path of a mapping."""
    return ".".join(key if re.fullmatch(r"[^.\[\]{}\"'*$]+", key) else f'"{key}"' for key in keys)


def fields_of(records: Sequence[Mapping[str, Any]]) -> list[FieldValues]:
    """Return the fields of records, as far as they are texts, numbers, and lists of numbers."""
    found: dict[tuple[str, ...], FieldValues] = {}
    for record in records:
        for path, value in _leaves(record, ()):
            if path in found or len(found) < _MOST:
                known = found.setdefault(path, FieldValues(path))
                known.present += 1
                known.values += [] if value is None else [value]
    return list(found.values())


def _leaves(record: Mapping[str, Any], before: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path and the value of each field that a mapping can use."""
    for name, value in record.items():
        path = (*before, name)
        if not name or '"' in name:  # no path leads there
            continue
        if isinstance(value, dict) and len(path) < _DEEPEST:
            yield from _leaves(value, path)
        elif value is None or isinstance(value, str | int | float) or is_samples(value):
            yield path, value


def is_samples(value: Any) -> bool:
    """Return whether a value is a list of numbers."""
    numbers = isinstance(value, list) and bool(value)
    return numbers and all(isinstance(one, int | float) and not isinstance(one, bool) for one in value)


def is_measured(value: Any) -> bool:
    """Return whether a value is a number, also as text, or a list of numbers."""
    if isinstance(value, str):
        return number(value) is not None or split_value(value) is not None
    return (isinstance(value, int | float) and not isinstance(value, bool)) or is_samples(value)


def role_of(one: FieldValues) -> Role:
    """Return the probable role of a field."""
    name = one.name
    if name in ("count", "n") and len(one.path) > 1:
        return "ignore"  # the number of values behind a statistic
    values = [value for value in one.values if _is_given(value)]
    texts = [value for value in values if isinstance(value, str) and number(value) is None]
    if texts and (role := _role_of_texts(name, values, texts)):
        return role
    if not values:
        return "ignore"
    if any(isinstance(value, bool) for value in values) or name in _CONDITIONS:
        return "label"
    if texts or any(is_samples(value) for value in values):
        return "metric"
    return _role_of_numbers(name, [float(value) for value in values])


def _is_given(value: Any) -> bool:
    """Return whether a value is a scalar or a list of numbers, and not a word for a missing one."""
    if isinstance(value, str):
        return value.strip().lower() not in _MISSING
    return isinstance(value, int | float) or is_samples(value)


def _role_of_texts(name: str, values: Sequence[Any], texts: Sequence[str]) -> Role | None:
    """Return the role of a field with texts; None if its few texts are in place of numbers.

    A text with a unit is a measurement, unless it is a condition or the size of a model.
    """
    is_size = name in _CONDITIONS or all(map(_BILLIONS.fullmatch, texts))
    if not is_size and all(isinstance(value, str) and split_value(value) for value in values):
        return "metric"
    if 2 * len(texts) <= len(values):
        return None
    if COMMIT.fullmatch(name):
        return "commit"
    if GPU.fullmatch(name) and len({*values}) == 1:
        return "gpu"
    if _IGNORED.fullmatch(name) or any(_DATE.search(text) or len(text) > _LONGEST for text in texts):
        return "ignore"
    return "label"


def _role_of_numbers(name: str, numbers: Sequence[float]) -> Role:
    """Return the role of a field whose values are all numbers.

    A whole number without a unit is a label, unless its name is that of a count, a step or an id.
    """
    whole = all(value == int(value) for value in numbers if abs(value) < 1e300)  # int() fails for an infinite one
    is_step, is_unmeasured = _STEPS.fullmatch(name), is_ignored(name)
    if is_step and whole and numbers[0] < numbers[-1] and numbers == sorted(numbers):
        return "step"
    # 0, 1, 2, ... or 1, 2, 3, ..., which may begin again.
    counts_up = numbers[0] in (0, 1) and all(two in (one + 1, numbers[0]) for one, two in pairwise(numbers))
    if _REPETITIONS.fullmatch(name) and len({*numbers}) > 2 and counts_up:
        return "repetition"
    if _SIZE.fullmatch(name) and len(numbers) > 1 and all(one < two for one, two in pairwise(numbers)):
        return "label"
    is_large = min(numbers) > 1e9  # times in seconds since 1970, or ids
    if whole and written_unit(name) is None:
        if not _COUNTS.fullmatch(name):
            return "ignore" if is_unmeasured or is_large or is_step else "label"
        if _CONDITION_WORDS.fullmatch(name):  # a count and a condition, such as `num_tokens`
            return "label"
    return "ignore" if is_unmeasured or (name in ("time", "ts") and is_large) else "metric"


def better_of(name: str) -> str | None:
    """Return the better direction of a number without a unit, by the words of its name."""
    if _HIGHER.fullmatch(name):
        return "higher"
    return "lower" if _LOWER.fullmatch(name) else None


def is_condition(name: str) -> bool:
    """Return whether a field of a whole document says under which condition its records were measured."""
    return name in _CONDITIONS or name in ("mode", "config", "precision", "variant")


def is_ignored(name: str) -> bool:
    """Return whether a name is that of an id, a date, a host, a version or the like, which are not labels."""
    return bool(_IGNORED.fullmatch(name))


def is_count(name: str) -> bool:
    """Return whether a whole number with this name may be a measurement."""
    return bool(_COUNTS.fullmatch(name) or better_of(name))


def is_load(name: str) -> bool:
    """Return whether a number with this name is a condition, such as the batch size."""
    return name in _CONDITIONS or bool(_CONDITION_WORDS.fullmatch(name))
