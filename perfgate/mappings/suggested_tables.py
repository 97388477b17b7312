"""Propose mappings for JSON, JSON lines and CSV: find the records and the roles of their fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core.file_mappings import FileKind
from perfgate.mappings.mapping_draft import DraftMetric, MappingDraft
from perfgate.mappings.suggested_fields import (
    FieldValues,
    Role,
    fields_of,
    is_commit,
    is_condition,
    is_gpu,
    is_kind,
    is_measured,
    is_unit_field,
    metric_of,
    role_of,
)
from perfgate.mappings.units import FROM_NAME, IN_VALUE, written_unit
from perfgate.readers.values import number

#: The greatest depth at which records are found, and the number of them that are read.
_DEEPEST, _MOST_RECORDS = 4, 2000
#: The number of records with equal labels that are samples.
_MANY = 10
_DTYPE = re.compile(r"(?:bf|fp|tf|int|float|bfloat|half|e\dm)\d{0,3}", re.IGNORECASE)
_LABEL = re.compile(r"[^A-Za-z0-9_.-]+")


class RecordSet(Struct, frozen=True):
    """Records that a path leads to."""

    path: str
    records: Sequence[Mapping[str, Any]]

    @property
    def score(self) -> int:
        """The number of measured values. A mapping with more of them is better."""
        fields = [one for one in fields_of(self.records) if role_of(one) == "metric"]
        return sum(len(one.values) for one in fields)


def of_document(data: Any) -> MappingDraft | None:
    """Return a mapping for one JSON document; None if it has no numbers."""
    sets = [found for found in _record_sets(data, "$", 0) if found.score]
    best = max(sets, key=lambda one: (one.score, len(one.records)), default=None)
    for path, inner in _objects(data, "$", 0):
        keys = _keys(inner, path)
        if keys is not None and (best is None or best.score <= len(inner)):
            return _with_top(keys, data, path)
    if best is None:
        return None
    draft = of_records("json", best.path.removeprefix("$."), best.records)
    return None if draft is None else _with_top(draft, data, best.path)


def _objects(data: Any, path: str, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each object, the outer ones first."""
    if isinstance(data, dict):
        yield path, data
        for key, value in data.items() if depth < _DEEPEST else ():
            yield from _objects(value, f"{path}.{_key(key)}", depth + 1)


def of_records(kind: FileKind, source: str, records: Sequence[Mapping[str, Any]]) -> MappingDraft | None:
    """Return a mapping for records; None if they have no numbers."""
    records = records[:_MOST_RECORDS]
    where, records = _with_numbers(records) if kind == "jsonl" else ({}, records)
    fields = fields_of(records)
    if (single := _one_metric(kind, source, fields)) is not None:
        return single
    roles: dict[Role, list[FieldValues]] = {}
    for one in fields:
        roles.setdefault(role_of(one), []).append(one)
    metrics = [_named(one, len(records), kind) for one in roles.get("metric", ())]
    if not metrics:
        return None
    steps = [*roles.get("step", ())] if len(records) > 1 else []
    repetitions = roles.get("repetition", ())
    others = [*roles.get("ignore", ()), *steps[1:], *repetitions]
    return MappingDraft(
        kind,
        source,
        metrics,
        labels=_labels(roles.get("label", ()), kind),
        facts=_facts(_path(one, kind) for one in roles.get("gpu", ())),
        commit=next((_path(one, kind) for one in roles.get("commit", ())), ""),
        step=_path(steps[0], kind) if steps else "",
        where=where,
        ignore=[".".join(one.path) for one in others],
        has_samples=bool(repetitions) or (not steps and _are_samples(records, roles.get("label", ()))),
    )


def _are_samples(records: Sequence[Mapping[str, Any]], labels: Sequence[FieldValues]) -> bool:
    """Return whether records are so often alike that they are samples, and not runs."""
    conditions = {tuple(str(record.get(one.path[0])) for one in labels) for record in records}
    return len(records) >= _MANY * len(conditions)


def _with_numbers(records: Sequence[Mapping[str, Any]]) -> tuple[dict[str, list[str]], Sequence[Mapping[str, Any]]]:
    """Return the kinds of records that have measurements, and these records; no kinds if all of them have."""
    for one in fields_of(records):
        kinds = [value for value in dict.fromkeys(one.values) if isinstance(value, str)] if is_kind(one) else []
        measured = []
        for value in kinds:
            own = [record for record in records if record.get(one.name) == value]
            if any(role_of(field) == "metric" for field in fields_of(own)):
                measured.append(value)
        if measured and len(measured) < len(kinds):
            return {one.name: measured}, [record for record in records if record.get(one.name) in measured]
    return {}, records


def _facts(gpus: Iterable[str]) -> dict[str, str]:
    first = next(iter(gpus), None)
    return {} if first is None else {"gpu": first}


def _labels(fields: Sequence[FieldValues], kind: FileKind) -> dict[str, str]:
    names = [one.name for one in fields]
    labels = {one.name if names.count(one.name) == 1 else "_".join(one.path): _path(one, kind) for one in fields}
    return {_LABEL.sub("_", name).lstrip("0123456789.-") or "label": path for name, path in labels.items()}


def _one_metric(kind: FileKind, source: str, fields: Sequence[FieldValues]) -> MappingDraft | None:
    """Return a mapping for records with one value and its name or its unit in other fields; None for other records."""
    values = [one for one in fields if one.path == (one.name,) and one.name in ("value", "values", "result", "mean")]
    names = [one for one in fields if one.name in ("metric", "metric_name", "name", "benchmark") and len(one.path) == 1]
    units = [one for one in fields if is_unit_field(one)]
    if len(values) != 1 or not (units or names) or role_of(values[0]) not in ("metric", "label"):
        return None
    name = names[0] if names else None
    rest = [one for one in fields if one not in (name, values[0], *units)]
    roles = {one.path: role_of(one) for one in rest}
    return MappingDraft(
        kind,
        source,
        metric=f"{{{_path(name, kind)}}}" if name else values[0].name,
        value=_path(values[0], kind),
        unit=f"{{{_path(units[0], kind)}}}" if units else FROM_NAME,
        labels=_labels([one for one in rest if roles[one.path] == "label"], kind),
        facts=_facts(_path(one, kind) for one in rest if roles[one.path] == "gpu"),
        commit=next((_path(one, kind) for one in rest if roles[one.path] == "commit"), ""),
        ignore=[".".join(one.path) for one in rest if roles[one.path] in ("ignore", "step", "metric")],
    )


def _named(one: FieldValues, count: int, kind: FileKind) -> DraftMetric:
    metric = metric_of(one, count)
    if kind in ("json", "jsonl"):
        return metric
    return DraftMetric(one.name, metric.unit, "", metric.better, metric.is_optional)


def _path(one: FieldValues, kind: FileKind) -> str:
    return one.text if kind in ("json", "jsonl") else one.name


def _record_sets(data: Any, path: str, depth: int) -> Iterator[RecordSet]:
    """Yield every set of records below a value: lists of objects, members with the same fields, the value itself."""
    if isinstance(data, list):
        records = [one for one in data if isinstance(one, dict)]
        if records and len(records) == len(data):
            yield RecordSet(f"{path}[*]", records)
    elif isinstance(data, dict):
        yield RecordSet(path, [data])
        yield from _members(data, path)
        for key, value in data.items() if depth < _DEEPEST else ():
            yield from _record_sets(value, f"{path}.{_key(key)}", depth + 1)


def _members(data: Mapping[str, Any], path: str) -> Iterator[RecordSet]:
    """Yield the members of an object, or their members, if they have the same fields: their keys are labels."""
    members = [one for one in data.values() if isinstance(one, dict)]
    if not len(members) == len(data) > 1:
        return
    name = _kept_name(path)
    if _are_alike(members):
        yield RecordSet(f"{path}.{{{name}}}", members)
    inner = [one for member in members for one in member.values()]
    records = [one for one in inner if isinstance(one, dict)]
    if len(records) == len(inner) > len(members) and _are_alike(records):
        keys = {key for member in members for key in member}
        kind = "dtype" if all(_DTYPE.match(key) for key in keys) else "variant"
        yield RecordSet(f"{path}.{{{name}}}.{{{kind}}}", records)


def _kept_name(path: str) -> str:
    """Return a label for the keys of an object: `model` for those of `models`."""
    last = path.rpartition(".")[2].strip('"')
    return last[:-1] if last in ("models", "ops", "kernels", "configs", "layers", "devices", "operators") else "name"


def _are_alike(members: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether most members have the measured fields of the first one."""
    first = {key for key, value in members[0].items() if is_measured(value)}
    return bool(first) and sum(first <= one.keys() for one in members) > len(members) / 2


def _key(key: str) -> str:
    return FieldValues((key,)).text


def _keys(data: Mapping[str, Any], path: str) -> MappingDraft | None:
    """Return a mapping for an object whose keys are metrics; None if it is something else."""
    measured = [key for key, value in data.items() if is_measured(value)]
    others = [key for key in data if key not in measured]
    roles = {key: role_of(FieldValues((key,), [data[key]])) for key in measured}
    conditions = [key for key, role in roles.items() if role != "metric"]
    metrics = [key for key in measured if key not in conditions]
    if not metrics or any(isinstance(data[key], dict | list) for key in others) or conditions:
        return None
    with_unit = [key for key in metrics if isinstance(data[key], str) and number(data[key]) is None]
    if with_unit and len(with_unit) < len(metrics):
        return None
    units = {IN_VALUE if with_unit else written_unit(key) for key in metrics}
    (only,) = units if len(units) == 1 else (None,)
    facts = _facts(f"{path}.{_key(key)}" for key in others if is_gpu(key, data[key]))
    commit = next((f"{path}.{_key(key)}" for key in others if is_commit(key, data[key])), "")
    used = {*facts.values(), commit}
    ignore = [key for key in others if f"{path}.{_key(key)}" not in used]
    texts = [key for key in ignore if role_of(FieldValues((key,), [data[key]])) == "label" and data[key] is not None]
    labels = {key: f"{path}.{_key(key)}" for key in texts if isinstance(data[key], str | bool)}
    return MappingDraft(
        "json",
        f"{path}.{{metric}}".removeprefix("$." if path != "$" else "-"),
        unit=only or FROM_NAME,
        labels=labels,
        facts=facts,
        commit=commit,
        ignore=[key for key in ignore if key not in labels],
    )


def _with_top(draft: MappingDraft, data: Any, path: str) -> MappingDraft:
    """Return a mapping with what the whole document says beside its records: the GPU, the commit, the model."""
    if path == "$" or not isinstance(data, dict):
        return draft
    facts, commit, labels = dict(draft.facts), draft.commit, dict(draft.labels)
    for key, value in data.items():
        for inner, name in value.items() if isinstance(value, dict) else ():
            if is_gpu(inner, name):
                facts.setdefault("gpu", f"$.{_key(key)}.{_key(inner)}")
            elif is_commit(inner, name):
                commit = commit or f"$.{_key(key)}.{_key(inner)}"
        if is_gpu(key, value):
            facts["gpu"] = f"$.{_key(key)}"
        elif is_commit(key, value):
            commit = f"$.{_key(key)}"
        elif isinstance(value, str | bool) and key not in labels and is_condition(key):
            labels[key] = f"$.{_key(key)}"
    return replace(draft, labels=labels, facts=facts, commit=commit)
