"""A proposed mapping, and its YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from perfgate.core.file_mappings import FileKind
from perfgate.core.wording import plural
from perfgate.mappings.units import NO_UNIT

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
    #: All patterns of lines, if there are several.
    more: Sequence[str] = ()
    #: True if records with equal labels are samples of one run.
    has_samples: bool = False
    #: How many numbers of a line the pattern skips.
    skipped: int = 0

    def lines(self, files: str) -> list[str]:
        """Return the mapping as an item of the list in `perfgate.yaml`."""
        source = (
            [f"{self.kind}: {_quoted(self.source)}"] if not self.more else _listed("lines", [self.source, *self.more])
        )
        more = f"# {plural(self.skipped, 'more number')} of a line left out; a name in braces reads a number"
        found = [f"files: {_quoted(files)}", *([more] if self.skipped else []), *source]
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
        found += ["repeats: samples"] if self.has_samples else []
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
