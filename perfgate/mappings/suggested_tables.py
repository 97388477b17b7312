"""Propose mappings for JSON, JSON lines and CSV: find the records and the roles of their fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from perfgate.core.file_mappings import FileKind
from perfgate.mappings.suggested_fields import (
    COMMIT,
    GPU,
    DraftMetric,
    FieldValues,
    MappingDraft,
    Role,
    better_of,
    fields_of,
    is_condition,
    is_measured,
    path_text,
    role_of,
)
from perfgate.mappings.units import FROM_NAME, IN_VALUE, NO_UNIT, split_value, unit_of, written_unit
from perfgate.readers.values import number

#: The greatest depth at which records are found, and the number of them that are read.
_DEEPEST, _MOST_RECORDS = 4, 2000
#: From this number on, records with equal labels are samples of one run.
_MANY = 10
_DTYPE = re.compile(r"(?:bf|fp|tf|int|float|bfloat|half|e\dm)\d{0,3}", re.IGNORECASE)
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_.-]+")
#: Fields with the value of one metric, with its name, and with the kind of a record, such as training and evaluation.
_VALUES, _METRICS = ("value", "values", "result", "mean"), ("metric", "metric_name", "name", "benchmark")
_KINDS = ("type", "kind", "event", "phase", "split", "stage", "mode", "record")
_Records = Sequence[Mapping[str, Any]]


def of_document(data: Any) -> MappingDraft | None:
    """Return a mapping for one JSON document; None if it has no numbers.

    The records are those with the most measured values; an object whose keys are metrics wins if it has as many.
    """
    sets = [(score, len(records), path, records) for path, records in _record_sets(data) if (score := _score(records))]
    best = max(sets, key=lambda one: one[:2], default=None)
    for path, inner in _objects(data):
        keys = _keys(inner, path)
        if keys is not None and (best is None or best[0] <= sum(map(is_measured, inner.values()))):
            return _with_top(keys, data, path)
    if best is None:
        return None
    _, _, path, records = best
    draft = of_records("json", path.removeprefix("$."), records)
    return None if draft is None else _with_top(draft, data, path)


def _score(records: _Records) -> int:
    """Return the number of measured values. A mapping with more of them is better."""
    return sum(len(one.values) for one in fields_of(records) if role_of(one) == "metric")


def _objects(data: Any, path: str = "$", depth: int = 0) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each object, the outer ones first."""
    if isinstance(data, dict):
        yield path, data
        for key, value in data.items() if depth < _DEEPEST else ():
            yield from _objects(value, f"{path}.{path_text(key)}", depth + 1)


def _record_sets(data: Any, path: str = "$", depth: int = 0) -> Iterator[tuple[str, _Records]]:
    """Yield every set of records below a value: lists of objects, members with the same fields, the value itself."""
    if isinstance(data, list):
        if data and all(isinstance(one, dict) for one in data):
            yield f"{path}[*]", data
    elif isinstance(data, dict):
        yield path, [data]
        yield from _members(data, path)
        for key, value in data.items() if depth < _DEEPEST else ():
            yield from _record_sets(value, f"{path}.{path_text(key)}", depth + 1)


def _members(data: Mapping[str, Any], path: str) -> Iterator[tuple[str, _Records]]:
    """Yield the members of an object, and the members of these, as records whose keys are labels, if they are alike."""
    members = [*data.values()]
    if len(members) < 2 or not all(isinstance(member, dict) for member in members):
        return
    last = path.rpartition(".")[2].strip('"')
    plural = ("models", "ops", "kernels", "configs", "layers", "devices", "operators")
    name = last[:-1] if last in plural else "name"  # `model` for the keys of `models`
    if _are_alike(members):
        yield f"{path}.{{{name}}}", members
    inner = [(key, record) for member in members for key, record in member.items()]
    records = [record for _, record in inner if isinstance(record, dict)]
    if len(records) == len(inner) > len(members) and _are_alike(records):
        kind = "dtype" if all(_DTYPE.match(key) for key, _ in inner) else "variant"
        yield f"{path}.{{{name}}}.{{{kind}}}", records


def _are_alike(members: _Records) -> bool:
    """Return whether most members have the measured fields of the first one."""
    first = {key for key, value in members[0].items() if is_measured(value)}
    return bool(first) and sum(first <= one.keys() for one in members) > len(members) / 2


def of_records(kind: FileKind, source: str, records: _Records) -> MappingDraft | None:
    """Return a mapping for records; None if they have no numbers."""
    records = records[:_MOST_RECORDS]
    where, records = _with_numbers(records) if kind == "jsonl" else ({}, records)
    fields = fields_of(records)
    if (single := _one_metric(kind, source, fields)) is not None:
        return single
    draft, roles = _with_roles(MappingDraft(kind, source, where=where), fields)
    metrics = []
    for one in roles.get("metric", ()):
        unit = _unit_of(one)
        better = better_of(one.name) if unit == NO_UNIT else None
        metrics.append(DraftMetric(_path(one, kind), unit, better, one.present < len(records)))
    if not metrics:
        return None
    steps = roles.get("step", []) if len(records) > 1 else []
    repetitions, labels = roles.get("repetition", []), roles.get("label", [])
    # Of a label inside an object, the whole object is compared.
    label_values = {tuple(str(record.get(one.path[0])) for one in labels) for record in records}
    return replace(
        draft,
        metrics=metrics,
        step=_path(steps[0], kind) if steps else "",
        ignore=[".".join(one.path) for one in (*roles.get("ignore", ()), *steps[1:], *repetitions)],
        has_samples=bool(repetitions) or (not steps and len(records) >= _MANY * len(label_values)),
    )


def _with_numbers(records: _Records) -> tuple[dict[str, list[str]], _Records]:
    """Return the field with the kinds of records that are measured, and their records; no field if all records are."""
    for field in fields_of(records):
        if field.name not in _KINDS or len(field.path) > 1:
            continue
        of_kind: dict[str, list[Mapping[str, Any]]] = {}
        for record in records:
            if isinstance(kind := record.get(field.name), str):
                of_kind.setdefault(kind, []).append(record)
        measured = [kind for kind, own in of_kind.items() if _score(own)]
        if 0 < len(measured) < len(of_kind):
            return {field.name: measured}, [record for record in records if record.get(field.name) in measured]
    return {}, records


def _one_metric(kind: FileKind, source: str, fields: Sequence[FieldValues]) -> MappingDraft | None:
    """Return a mapping for records with one value and its name or its unit in other fields; None for other records."""
    values = [one for one in fields if one.name in _VALUES and len(one.path) == 1]
    names = [one for one in fields if one.name in _METRICS and len(one.path) == 1]
    units = [
        one
        for one in fields
        if one.name in ("unit", "units") and all(isinstance(text, str) and unit_of(text.strip()) for text in one.values)
    ]
    # The role of whole numbers without a unit is that of a label.
    if len(values) != 1 or not (units or names) or role_of(values[0]) not in ("metric", "label"):
        return None
    rest = [one for one in fields if one not in (*names[:1], values[0], *units)]
    draft, _ = _with_roles(MappingDraft(kind, source, value=_path(values[0], kind)), rest)
    return replace(
        draft,
        metric=f"{{{_path(names[0], kind)}}}" if names else values[0].name,
        unit=f"{{{_path(units[0], kind)}}}" if units else FROM_NAME,
        ignore=[".".join(one.path) for one in rest if role_of(one) in ("ignore", "step", "metric")],
    )


def _with_roles(
    draft: MappingDraft, fields: Sequence[FieldValues]
) -> tuple[MappingDraft, dict[Role, list[FieldValues]]]:
    """Return a mapping with the labels, the GPU and the commit among fields, and all fields by their roles."""
    roles: dict[Role, list[FieldValues]] = {}
    for one in fields:
        roles.setdefault(role_of(one), []).append(one)
    names = [one.name for one in roles.get("label", ())]
    labels = {
        one.name if names.count(one.name) == 1 else "_".join(one.path): _path(one, draft.kind)
        for one in roles.get("label", ())
    }
    gpus, commits = ([_path(one, draft.kind) for one in roles.get(role, ())] for role in ("gpu", "commit"))
    return replace(
        draft,
        labels={_NOT_IN_LABELS.sub("_", name).lstrip("0123456789.-") or "label": path for name, path in labels.items()},
        facts={"gpu": gpus[0]} if gpus else {},
        commit=commits[0] if commits else "",
    ), roles


def _unit_of(one: FieldValues) -> str:
    if any(isinstance(value, str) and split_value(value) for value in one.values):
        return IN_VALUE
    return written_unit(one.name) or written_unit(".".join(one.path)) or NO_UNIT


def _path(one: FieldValues, kind: FileKind) -> str:
    return one.text if kind in ("json", "jsonl") else one.name


def _keys(data: Mapping[str, Any], path: str) -> MappingDraft | None:
    """Return a mapping for an object whose keys are metrics; None if it is something else."""
    roles = {key: role_of(FieldValues((key,), [value])) for key, value in data.items()}
    metrics = [key for key, value in data.items() if is_measured(value)]
    others = [_Member(f"{path}.{path_text(key)}", key, data[key]) for key in data if key not in metrics]
    if not metrics or any(roles[key] != "metric" for key in metrics):
        return None
    with_unit = [key for key in metrics if isinstance(data[key], str) and number(data[key]) is None]
    # The mapping has one unit for all keys, so all values have their unit in them, or none has.
    if 0 < len(with_unit) < len(metrics) or any(isinstance(member.value, dict | list) for member in others):
        return None
    units = {IN_VALUE if with_unit else written_unit(key) for key in metrics}
    gpu, commit = _first(others, GPU), _first(others, COMMIT)
    rest = [member for member in others if member.path not in (gpu, commit)]
    source = f"{path}.{{metric}}"
    return MappingDraft(
        "json",
        # A path from the document needs no `$.`, except for the members of the document itself.
        source if path == "$" else source.removeprefix("$."),
        unit=(units.pop() if len(units) == 1 else None) or FROM_NAME,
        labels={member.key: member.path for member in rest if roles[member.key] == "label"},
        facts={"gpu": gpu} if gpu else {},
        commit=commit,
        ignore=[member.key for member in rest if roles[member.key] != "label"],
    )


class _Member(NamedTuple):
    """A member of an object: its path, its key and its value."""

    path: str
    key: str
    value: Any


def _first(members: Iterable[_Member], name: re.Pattern[str]) -> str:
    """Return the path of the first member that is a text with such a name; empty if there is none."""
    return next((one.path for one in members if name.fullmatch(one.key) and isinstance(one.value, str)), "")


def _with_top(draft: MappingDraft, data: Any, path: str) -> MappingDraft:
    """Return a mapping with what the whole document says beside its records: the GPU, the commit, the model.

    A GPU or a commit of the document itself wins over that of an object in it.
    """
    if path == "$" or not isinstance(data, dict):
        return draft
    top = [_Member(f"$.{path_text(key)}", key, value) for key, value in data.items()]
    objects = [member for member in top if isinstance(member.value, dict)]
    inner = [_Member(f"{o.path}.{path_text(key)}", key, value) for o in objects for key, value in o.value.items()]
    gpu = _first(top, GPU) or draft.facts.get("gpu") or _first(inner, GPU)
    commit = _first(top, COMMIT) or draft.commit or _first(inner, COMMIT)
    labels = dict(draft.labels)
    for place, key, value in top:
        if isinstance(value, str | bool) and is_condition(key) and place not in (gpu, commit):
            labels.setdefault(key, place)
    return replace(draft, labels=labels, facts={"gpu": gpu} if gpu else {}, commit=commit)
