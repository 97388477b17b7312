"""Values of `perfgate.core` as JSON text that is safe on screens and in logs, and the JSON of `inspect`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from perfgate.core import Problem
from perfgate.core.details import rounded
from perfgate.core.remembered_runs import SeriesName
from perfgate.core.run_history import ApprovedLevel
from perfgate.core.summaries import RunSummary, SeriesSummary
from perfgate.core.wording import synonyms, without_bracket_commands

_JSON = msgspec.json.Encoder().encode
_SCALARS = frozenset((float, int, bool, type(None)))
#: The texts of lists of numbers, by their ids; each list is kept, so that its id stays unique.
_Lists: TypeAlias = dict[int, tuple[Sequence[Any], str]]


def encode(document: Mapping[str, Any]) -> str:
    """Return indented JSON with a final newline. Fields keep their order, and structs become objects.

    A list of numbers is on one line, which halves the text. Numbers are rounded by `stable`.
    """
    text = _text(document, "\n", {})
    # Unprintable characters, and the `##[` of a command of a CI system, occur only in strings, where an escape has the
    # same meaning.
    if not text.isascii() or "\x7f" in text:
        text = re.sub(
            r"[^\x00-\x7e]", lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text
        )
    return without_bracket_commands(text, "\\u0023") + "\n"


def stable(value: float) -> float:
    """Return a number with 12 significant digits, or as a whole number from 1e12 on (bytes).

    Later digits differ between versions of numpy, which add numbers in different orders.
    """
    if not isfinite(value):
        return value
    return float(f"{value:.12g}") if abs(value) < 1e12 else float(round(value))


def problem(found: Problem) -> dict[str, Any]:
    """Return a problem as an object; all JSON documents use this form."""
    return {
        "severity": found.severity,
        "message": found.message,
        "file": found.at.file,
        "line": found.at.line,
        "column": found.at.column,
        "metric": found.key.metric if found.key else None,
        "labels": in_order(dict(found.key.labels)) if found.key else {},
    }


def in_order(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping sorted by its names as JSON writes them, so that the order survives reading and writing."""
    return dict(sorted(mapping.items(), key=lambda item: item[0].encode("utf-8", "backslashreplace")))


def picked(value: object, *names: str) -> dict[str, Any]:
    """Return these attributes of a value by name."""
    return {name: getattr(value, name) for name in names}


def present(value: object, *names: str) -> dict[str, Any]:
    """Return those of these attributes of a value that are not empty."""
    return {name: found for name in names if (found := getattr(value, name))}


def without_empty(members: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the members; those with one of these names are left out if they are empty."""
    return {name: value for name, value in members.items() if value or name not in names}


def members_of(value: Struct, *last: str) -> dict[str, Any]:
    """Return the fields of a struct by name, with the fields `last` at the end."""
    return picked(value, *(name for name in value.__struct_fields__ if name not in last), *last)


def series_object(name: SeriesName) -> dict[str, Any]:
    """Return the name of a series of the history as an object."""
    key = name.key
    return {"metric": key.metric, "labels": in_order(dict(key.labels)), "statistic": name.statistic, "rank": name.rank}


def approval_object(level: ApprovedLevel | None) -> dict[str, Any] | None:
    """Return who approved a level, why and when, as an object."""
    return None if level is None else picked(level, "by", "reason", "pr", "time")


def _text(value: Any, line: str, lists: _Lists, *, ordered: bool = False) -> str:
    """Return the value as JSON. `line` is a line break and the indentation of the value.

    Lone surrogates become visible escapes, because UTF-8 has none. A mapping in a struct is `ordered`: sorted by names.
    """
    kind, inner = type(value), f"{line}  "
    if kind in _SCALARS:
        return _JSON(stable(value) if kind is float else value).decode()
    if isinstance(value, str):
        return _JSON(value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()).decode()
    if isinstance(value, list | tuple):
        return _list_text(value, line, lists)
    if isinstance(value, Struct):
        fields = value.__struct_fields__
        items = [f'"{name}": {_text(getattr(value, name), inner, lists, ordered=True)}' for name in fields]
    elif isinstance(value, Mapping):
        members = in_order(value) if ordered and len(value) > 1 else value
        items = [f"{_text(name, inner, lists)}: {_text(item, inner, lists)}" for name, item in members.items()]
    else:
        return _JSON(value).decode()
    return f"{{{inner}{f',{inner}'.join(items)}{line}}}" if items else "{}"


def _list_text(values: Sequence[Any], line: str, lists: _Lists) -> str:
    """Return a list as JSON, numbers on one line. `lists` keeps these: many verdicts may be about one series."""
    if id(values) in lists:
        return lists[id(values)][1]
    kinds, numbers = set(map(type, values)), None
    if kinds == {int}:
        numbers = values
    elif kinds == {float} and min(values) > -1e12 and max(values) < 1e12 and isfinite(sum(values)):
        # `stable` for all items at once; a NaN, which `min` and `max` may miss, makes the sum a NaN.
        numbers = rounded(values, 12)
    if numbers is not None:
        lists[id(values)] = values, _JSON(numbers).decode().replace(",", ", ")
        return lists[id(values)][1]
    inner = f"{line}  "
    items = [_text(item, inner, lists) for item in values]
    # Numbers of both types, or a float of 1e12 or more. NaN and infinity are `null`: such items have a line each.
    if kinds <= {int, float} and "null" not in items:
        return f"[{', '.join(items)}]"
    return f"[{inner}{f',{inner}'.join(items)}{line}]"


def render_json(runs: Sequence[RunSummary]) -> str:
    """Return what `inspect` found (perfgate.inspect/1): every run with its series in base units."""
    return encode({"schema": "perfgate.inspect/1", "runs": [_run(run) for run in runs]})


def _run(run: RunSummary) -> dict[str, Any]:
    return {
        "source": run.source,
        **({} if run.part is None else {"part": run.part}),
        **picked(run, "format", "recognised_by", "environment"),
        "series": list(map(_series, run.series)),
        "problems": list(map(problem, run.problems)),
        **present(run, "coverage"),
    }


def _series(one: SeriesSummary) -> dict[str, Any]:
    row = {"metric": one.key.metric, "labels": dict(one.key.labels), **picked(one, "unit", "kind", "n", "statistics")}
    row |= present(one, "printed_as")
    if others := synonyms(one.key.metric):
        row["also_called"] = others
    if one.warmup_steps is not None:
        row["warmup"] = {"steps": one.warmup_steps, "time": one.warmup_time}
    if one.values is not None:
        row["values"] = one.values
    return row
