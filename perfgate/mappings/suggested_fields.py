"""The fields of a proposed mapping: their roles (measurements, labels, steps, facts), and the YAML of the mapping."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from perfgate.core.conditions import TABLE
from perfgate.core.file_mappings import FileKind
from perfgate.mappings.units import IN_VALUE, NO_UNIT, split_value, unit_of, written_unit
from perfgate.readers.values import number

#: Text that YAML reads as itself, in a block and inside of brackets.
_PLAIN = re.compile(r"[A-Za-z_$][\w./$*\[\]{}-]*(?: [A-Za-z(][\w./$*()-]*)*")
_PLAIN_IN_BRACKETS = re.compile(r"[A-Za-z_$][\w./$%*()-]*(?: [A-Za-z(][\w./$*()-]*)*|[\w/]*[A-Za-z]")
_OTHER_VALUES = ("true", "false", "null", "yes", "no", "on", "off")
#: Names of measurements that have a unit, even if their names do not tell it.
_HAS_UNIT = re.compile(r"time|latency|duration|elapsed|memory|mem|throughput|bandwidth|size|power", re.IGNORECASE)
#: The longest list that is written on one line.
_WIDTH = 100


class DraftMetric(Struct, frozen=True):
    """A proposed metric: its name, where its value is (empty: the name), and its unit."""

    name: str
    unit: str
    value: str = ""
    better: str | None = None
    is_optional: bool = False


class MappingDraft(Struct, frozen=True):
    """A proposed mapping."""

    kind: FileKind
    #: The path to the records, the delimiter, or the pattern of lines.
    source: str
    metrics: Sequence[DraftMetric] = ()
    #: Instead of `metrics`: the unit, if each key is a metric; and the name and the value, if fields have them.
    unit: str = ""
    metric: str = ""
    value: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    step: str = ""
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ignore: Sequence[str] = ()
    #: Further patterns of lines.
    more: Sequence[str] = ()

    def lines(self, files: str) -> list[str]:
        """Return the mapping as an item of the list in `perfgate.yaml`."""
        source = [f"{self.kind}: {_quoted(self.source)}"]
        found = [f"files: {_quoted(files)}", *(_listed("lines", [self.source, *self.more]) if self.more else source)]
        found += [f"metric: {_quoted(self.metric)}"] if self.metric else []
        found += [f"value: {_quoted(self.value)}"] if self.value else []
        found += [f"unit: {_quoted(self.unit)}"] if self.unit else _metrics(self.metrics)
        if self.labels:
            plain = all(name == path for name, path in self.labels.items())
            found += _listed("labels", list(self.labels)) if plain else [f"labels: {_inline(self.labels)}"]
        found += [f"facts: {_inline(self.facts)}"] if self.facts else []
        found += [f"commit: {_quoted(self.commit)}"] if self.commit else []
        found += [f"step: {_quoted(self.step)}"] if self.step else []
        for name, values in self.where.items():
            shown = ", ".join(_quoted(value, in_brackets=True) for value in values)
            found.append(f"where: {{{_quoted(name, in_brackets=True)}: [{shown}]}}")
        found += _listed("ignore", self.ignore) if self.ignore else []
        return [f"  - {found[0]}", *(f"    {line}" for line in found[1:])]


def _metrics(metrics: Sequence[DraftMetric]) -> list[str]:
    lines = ["metrics:"]
    for one in metrics:
        more = {
            **({"value": one.value} if one.value else {}),
            "unit": one.unit,
            **({"better": one.better} if one.better else {}),
            **({"optional": "true"} if one.is_optional else {}),
        }
        text = _inline(more) if len(more) > 1 else _quoted(one.unit)
        question = "  # in which unit?" if one.unit == NO_UNIT and _HAS_UNIT.search(one.name) else ""
        lines.append(f"  {_quoted(one.name)}: {text}{question}")
    return lines


def _inline(pairs: Mapping[str, str]) -> str:
    shown = (f"{_quoted(name, in_brackets=True)}: {_value(name, text)}" for name, text in pairs.items())
    return "{" + ", ".join(shown) + "}"


def _value(name: str, text: str) -> str:
    return text if name == "optional" else _quoted(text, in_brackets=True)


def _listed(name: str, items: Sequence[str]) -> list[str]:
    line = f"{name}: [{', '.join(_quoted(item, in_brackets=True) for item in items)}]"
    return [line] if len(line) <= _WIDTH else [f"{name}:", *(f"  - {_quoted(item)}" for item in items)]


def _quoted(text: str, *, in_brackets: bool = False) -> str:
    """Return a text as YAML, in quotes if it would be read as something else."""
    plain = _PLAIN_IN_BRACKETS if in_brackets else _PLAIN
    if plain.fullmatch(text) and text.lower() not in _OTHER_VALUES:
        return text
    return json.dumps(text, ensure_ascii=False)


#: The greatest depth of the fields of a record that are read, and their greatest number.
_DEEPEST, _MOST = 3, 100
#: Longer texts are messages, not labels.
_LONGEST = 2000

Role = Literal["metric", "label", "step", "commit", "gpu", "ignore"]
#: Words for a value that is missing.
_MISSING = frozenset({"", "-", "n/a", "na", "none", "null", "nan", "oom", "error", "failed", "skipped"})

_STEPS = re.compile(r"(?:global_?|train_?)?(?:steps?|iter(?:ation)?s?|it|update)(?:_?(?:num|number|idx|index))?", re.I)
_IGNORED = re.compile(
    r"(?:.*[_. ])?(?:time_?stamp|timestamp|datetime|date|started?(?:_at)?|ended?(?:_at)?|created(?:_at)?|uuid|guid|"
    r"hash|schema|tool|note|notes|comment|title|python|platform|torch|cuda|driver|host(?:name)?|pid|path|"
    r"file(?:name)?|url|user|id|run_id|version|seed|lr|learning_rate|epoch|eta|message|description|command|cmd|error)",
    re.I,
)
_COMMIT = re.compile(r"(?:git_?)?(?:commit|sha|revision)(?:_?(?:hash|sha|id))?|git(?:_?(?:hash|sha|rev))?", re.I)
_GPU = re.compile(r"gpu(?:_?(?:name|model|type))?|device(?:_?name)?|accelerator", re.I)
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
#: Words of measurements whose unit does not tell which direction is better.
_HIGHER = re.compile(
    r"(?:.*[_. /-])?(?:acc(?:uracy)?|score|mfu|hfu|speed_?up|efficiency|util(?:i[sz]ation)?|reward|f1|bleu|"
    r"throughput|rate|speed|bandwidth|flops)",
    re.I,
)
_LOWER = re.compile(
    r"(?:.*[_. /-])?(?:loss|ppl|perplexity|errors?|failed|failures|latency|duration|overhead|time)", re.I
)
_COUNTS = re.compile(r"(?:.*_)?(?:count|completed|failed|errors?|failures|peak|memory|mem|value|total|tokens)", re.I)


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
        return ".".join(part if re.fullmatch(r"[^.\[\]{}\"'*$]+", part) else f'"{part}"' for part in self.path)

    @property
    def name(self) -> str:
        """The last key."""
        return self.path[-1]


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
    values = [value for value in one.values if _is_given(value)]
    texts = [value for value in values if isinstance(value, str) and number(value) is None]
    if texts and (is_text := _role_of_texts(name, values, texts)):
        return is_text
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
    """Return the role of a field with texts; None if its few texts are in place of numbers."""
    if all(isinstance(value, str) and split_value(value) for value in values):
        return "metric"
    if 2 * len(texts) <= len(values):
        return None
    if _COMMIT.fullmatch(name):
        return "commit"
    if _GPU.fullmatch(name) and len({*values}) == 1:
        return "gpu"
    if _IGNORED.fullmatch(name) or any(_DATE.search(text) or len(text) > _LONGEST for text in texts):
        return "ignore"
    return "label"


def _role_of_numbers(name: str, numbers: Sequence[float]) -> Role:
    whole = all(value == int(value) for value in numbers if abs(value) < 1e300)
    if _STEPS.fullmatch(name) and whole and numbers[0] < numbers[-1] and numbers == sorted(numbers):
        return "step"
    if whole and _COUNTS.fullmatch(name) is None and written_unit(name) is None:
        return "ignore" if _IGNORED.fullmatch(name) or min(numbers) > 1e9 or _STEPS.fullmatch(name) else "label"
    if whole and _CONDITION_WORDS.fullmatch(name) and written_unit(name) is None:
        return "label"
    return "ignore" if _IGNORED.fullmatch(name) or (name in ("time", "ts") and min(numbers) > 1e9) else "metric"


def metric_of(one: FieldValues, count: int) -> DraftMetric:
    """Return a field as a metric; it is optional if fewer than `count` records have it."""
    in_value = any(isinstance(value, str) and split_value(value) for value in one.values)
    unit = IN_VALUE if in_value else written_unit(one.name) or NO_UNIT
    better = better_of(one.name) if unit == NO_UNIT else None
    return DraftMetric(one.text, unit, "", better, is_optional=one.present < count)


def better_of(name: str) -> str | None:
    """Return the better direction of a number without a unit, by the words of its name."""
    if _HIGHER.fullmatch(name):
        return "higher"
    return "lower" if _LOWER.fullmatch(name) else None


def is_condition(name: str) -> bool:
    """Return whether a field of a whole document says under which condition its records were measured."""
    return name in _CONDITIONS or name in ("mode", "config", "precision", "variant")


def is_load(name: str) -> bool:
    """Return whether a number with this name is a condition, such as the batch size."""
    return name in _CONDITIONS or bool(_CONDITION_WORDS.fullmatch(name))


def is_unit_field(one: FieldValues) -> bool:
    """Return whether a field is the unit of another."""
    units = ("unit", "units")
    return one.name in units and all(isinstance(value, str) and unit_of(value.strip()) for value in one.values)


def is_kind(one: FieldValues) -> bool:
    """Return whether a field tells kinds of records apart, such as those of training and evaluation."""
    return one.name in ("type", "kind", "event", "phase", "split", "stage", "mode", "record") and len(one.path) == 1


def is_gpu(name: str, value: Any) -> bool:
    """Return whether a field of a whole document names the GPU."""
    return bool(_GPU.fullmatch(name)) and isinstance(value, str)


def is_commit(name: str, value: Any) -> bool:
    """Return whether a field of a whole document is the commit."""
    return bool(_COMMIT.fullmatch(name)) and isinstance(value, str)
