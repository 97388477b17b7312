"""Fields of results that may be conditions but are not labels, such as an unknown load.

A condition is a setting that changes what is measured, and known conditions are labels. If two results differ in a
field that may be an unknown condition, they are not repetitions of one measurement. They are refused, with the name of
the field, until it is among the `conditions` of the rules.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.core import Key, Problem, Run
from perfgate.core.conditions import TABLE
from perfgate.core.runs import Location
from perfgate.readers.values import number

#: Objects of a document whose members are settings, or describe the machine.
_SETTINGS = (
    r"(?:\w*_)?(?:config|configs|configuration|settings?|options?|args|arguments?|params?|parameters?|hparams"
    r"|hyperparameters|meta|metadata|context|env|environ|environment|properties|labels?|tags?|command|argv|cmdline"
    r"|(?:system|machine|commit|git|gpu|cpu|device|host|server|build|version|dist|model|hardware)_?info|axes|axis\w*)"
)
#: Names of numbers that count or identify something, but measure nothing.
_NAMES = (
    r"(?:\w+_)?(?:id|ids|uuid|pid|tid|ppid|rank|port|seed|index|idx|node|step|steps|iter|iters|iteration|iterations"
    r"|epoch|epochs|microbatch\w*|version|major|minor|schema|date|datetime|timestamp|timestamps|time_ms|unix_time|run_number|lineno|line"
    r"|(?:exit|return|error|status)_?codes?|size|sizes|shape|shapes|dim|dims|dimensions?|len|lens|lengths?|seq\w*len"
    r"|batch|batch_size\w*|bs|dtype|bits|layers|heads|hidden|concurrency|request_rate|burstiness|lr|learning_rate"
    r"|momentum|mom|beta\d?|betas|weight_decay|dropout|gamma|temperature|top_[kp]|loss_scale|scale|warmup\w*|repeats?"
    r"|repetitions?|rounds?|seconds_since_epoch|world|world_size|gpus|nodes|workers|ranks|threads|cores|processes"
    r"|devices?|sockets?|skipped|start|end|begin|count|counts|n|num|ordinal|priority|level|tolerance|threshold|eos|interval|flags?|weights|capacity|(?:start|end)_ns)"
    r"|consumed_\w+|(?:num|n|nb|no|number_of|max_num|min_num|total_num)_\w+|max_(?:len|length|tokens|model_len|seq\w*|new_tokens)"
    r"|[tpdecs]p(?:_size|_degree)?|(?:start|started|end|ended|created|updated|finished)(?:_at|_time|_on)?|at|ts|x|y|k"
    r"|world|model|name|type|kind|mode|status|path|file|host|hostname|user|year|month|day|hour|minute|second"
)
#: The conditions of every tool are not measured either; their names without the objects around them.
_LAST_NAMES = {name.rpartition(".")[2] for fields in TABLE.values() for condition in fields for name in condition.names}
_NOT_MEASURED = re.compile(rf"{_SETTINGS}|{_NAMES}|{'|'.join(sorted(map(re.escape, _LAST_NAMES)))}", re.IGNORECASE)
#: Separates the words of a name.
_WORDS = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])")


@lru_cache(4096)
def is_unmeasured(name: str, beside: str = "", *, is_field: bool = True) -> bool:
    """Return whether a name is that of a setting, a date or an id, and not of a measurement.

    `name`: the name of a field, a column, or the words before a number. `beside`: a pattern of more such names, as the
    reader of the format knows them. `is_field`: False for the name of a benchmark, in which words mean nothing.
    """
    plain = "_".join(filter(None, _WORDS.split(name))).lower()
    return bool((is_field and _NOT_MEASURED.fullmatch(plain)) or (beside and re.fullmatch(beside, name)))


#: The levels of objects that are searched, the fields of an object, and the characters of a value.
_DEEPEST, _MOST, _LONGEST = 3, 200, 80
#: The name of the heading above a result, among the unlabelled fields.
HEADING = "heading"
#: Separates the name of an unlabelled field from the conditions of its record, in a file of records.
OF_LOAD = " with "
#: Names of what differs from run to run without changing the load, or belongs to the machine.
_NO_CONDITION = re.compile(
    r"(?:\w+_)?(?:date|time|timestamp|ts|id|ids|uuid|run|runs|job|trial|experiment|name|title|label|description|comment|notes?"
    r"|message|errors?|outputs?|texts?|prompts?|files?|filename|path|dir|directory|folder|url|uri|host|hostname|user|email"
    r"|port|pid|rank|seed|commit|sha|hash|branch|status|logs?|start|end|created|index|idx|step|steps|iterations?|epochs?"
    r"|count|repeat|repetition|round|attempt|version|checkpoint|cli_command|driver|python|platform|os|machine|node|tags?|schema|unit|group|fullname|addr|address|ip"
    r"|image|container|digest|pod|namespace|cluster|region|zone|instance|runner|workflow|actor|owner|author|session|cwd"
    r"|release|revision|dirty|ci|prefix|log_level|progress|verbose|debug|quiet)_?"
    r"|(?:request_id|commit|machine|system|gpu|cpu|host|python|cuda|torch|env|environment|software|hardware|git|build)\w*"
)
#: Values that are dates, hashes, ids, paths or addresses.
_NO_VALUE = re.compile(
    r"\d{4}-\d\d-\d\d.*|[0-9a-fA-F-]{7,64}|https?://.*|[~/.]?/.*|[A-Z]:\\.*|\d{8}[-_]\d+.*|[\w.-]+:\d+"
)
#: Names of whole numbers that are conditions; any other whole number may be a result.
_SIZES = re.compile(r"(?:num|n|max)_\w*|\w*(?:_size|_len|_length|batch|shape|parallel|concurrency|degree)|[tpde]p")
#: Known conditions: they are labels already, or do not matter (the number of requests at a given rate).
_KNOWN = {name for fields in TABLE.values() for condition in fields for name in condition.names}


def unlabelled_fields(record: Mapping[str, Any], before: str = "", depth: int = 1) -> Iterator[tuple[str, str]]:
    """Yield the fields of a record that may be conditions, with their values; `before` is put before the names."""
    for name, value in list(record.items())[:_MOST]:
        plain = re.sub(r"\W+", "_", name).lower()
        if _NO_CONDITION.fullmatch(plain) or f"{before}{name}" in _KNOWN:
            continue
        is_size = isinstance(value, int) and _SIZES.fullmatch(plain) and is_unmeasured(name)
        if isinstance(value, dict) and depth < _DEEPEST:
            yield from unlabelled_fields(value, f"{before}{name}.", depth + 1)
        elif isinstance(value, bool) or is_size or _is_word(value):
            yield f"{before}{name}", str(value)


def _is_word(value: object) -> bool:
    """Return whether a value is a text that can be the value of a condition."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST:
        return False
    return number(value) is None and not _NO_VALUE.fullmatch(value)


def differences(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Return the fields that both have, but with different values."""
    return sorted(name for name in one.keys() & other.keys() if one[name] != other[name])


def with_mixed_refused(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return runs that are given as repetitions, with an error for the first that differs in an unlabelled field.

    A run is compared with the first that has one of its series. Runs without a common series have different loads.
    Headings only distinguish the results of one file.
    """
    first: dict[tuple[str, Key], Run] = {}  # the first run with each series
    for at, run in enumerate(runs if len(runs) > 1 else ()):
        if not run.unlabelled:
            continue
        earlier = [first.setdefault((run.format, series.key), run) for series in run.series]
        for other in {id(one): one for one in earlier}.values():
            if problem := _mixed_with(other, run):
                return (*runs[:at], replace(run, problems=(*run.problems, problem)), *runs[at + 1 :])
    return tuple(runs)


def _mixed_with(other: Run, run: Run) -> Problem | None:
    """Return the error if a run differs from an earlier one in a field other than the heading, or None."""
    if other.source == run.source:
        return None  # the reader has compared the runs of one file
    different = differences(other.unlabelled, run.unlabelled)
    names = [name for name in different if name.partition(OF_LOAD)[0] != HEADING]
    if not names:
        return None
    name = names[0]
    return mixed(name.partition(OF_LOAD)[0], other.unlabelled[name], run.unlabelled[name], other.name, run.source)


def mixed(name: str, before: str, here: str, where: str, source: str, line: int | None = None) -> Problem:
    """Return the error about a field that differs between repetitions."""
    message = f"{name} is {here} here and {before} in {where}, so these are not repetitions of one measurement"
    step = f"judge them apart, or make it a label: write `conditions: [{name}]` in the rules"
    return Problem("error", f"{message}: {step}", Location(source, line))


def as_sweep(runs: Sequence[Run], more: Collection[str] = ()) -> tuple[Run, ...]:
    """Return the runs of one file, joined, with the fields in which they differ as labels.

    So three commands of one file are one run with three series of each metric. If runs have equal fields, the n-th of
    them belongs to the n-th joined run. Fields in the table of conditions of the format, and in `more`, are labels in
    any case.
    """
    names = _condition_names(runs, more)
    if not names:
        return tuple(runs)
    joined: list[Run] = []
    times: Counter[tuple[str, ...]] = Counter()  # how many runs had these values of the fields
    for run in runs:
        values = tuple(run.unlabelled.get(name, "") for name in names)
        labelled = with_labels(run, {name: value for name, value in zip(names, values, strict=True) if value})
        part = times[values]
        times[values] += 1
        if part == len(joined):
            joined.append(labelled)
            continue
        before = joined[part]
        problems = (*before.problems, *(problem for problem in labelled.problems if problem not in before.problems))
        joined[part] = replace(before, series=(*before.series, *labelled.series), problems=problems)
    return tuple(replace(run, part=at if len(joined) > 1 else None) for at, run in enumerate(joined, 1))


def _condition_names(runs: Sequence[Run], more: Collection[str]) -> list[str]:
    """Return the unlabelled fields that become labels: those that differ, then those that always do."""
    every = [*dict.fromkeys(name for run in runs for name in run.unlabelled)]
    different = [name for name in every if len({run.unlabelled.get(name, "") for run in runs}) > 1]
    always = {*more, *(condition.label for run in runs[:1] for condition in TABLE.get(run.format, ()))}
    return different + [name for name in every if name in always and name not in different]


def with_labels(run: Run, labels: Mapping[str, str]) -> Run:
    """Return a run whose series have these labels, but keep their own; the labels are no longer unlabelled fields."""

    def own(key: Key) -> Key:
        return Key.of(key.metric, **{**labels, **dict(key.labels)})

    series = tuple(replace(one, key=own(one.key)) for one in run.series)
    problems = tuple(replace(one, key=own(one.key)) if one.key else one for one in run.problems)
    left = {name: value for name, value in run.unlabelled.items() if name not in labels}
    return replace(run, series=series, problems=problems, unlabelled=left)


#: The first two characters of a heading.
_FENCES = (b"##", b"==", b"--", b"**", b"//", b">>")
_HEADING = re.compile(r"(?:#{2,}|={3,}|-{3,}|\*{3,}|/{2,}|>{2,})[ \t]*(\w.{0,78}?)[ \t]*[#=*/<-]*")
#: The parts of a heading that differ between repetitions: their numbers, dates and times, and ids of jobs.
_VARYING = re.compile(
    r"\b(?:run|iteration|iter|trial|repeat|repetition|rep|pass|round|attempt|sample|test|job|pid|no\.?)[ \t#:_-]*\d+"
    r"(?:[ \t]*(?:/|of)[ \t]*\d+)?"
    r"|\d{4}-\d\d-\d\d|\d{1,2}:\d\d\S*|\d{6,}|\d+(?:\.\d+)?[ \t]*(?:ms|s|secs?|seconds?|min|minutes?|h)\b",
    re.IGNORECASE,
)
_MOST_HEADINGS = 1000


class Headings(Struct):
    """The headings of a text so far, by their lines."""

    _found: dict[int, str] = field(default_factory=dict)

    def look(self, number: int, line: bytes) -> bool:
        """Keep a line if it is a heading, and return whether it is one."""
        text = line.strip()
        if text[:2] not in _FENCES or len(self._found) >= _MOST_HEADINGS:
            return False
        if found := _HEADING.fullmatch(text.decode("utf-8", "replace")):
            self._found[number] = " ".join(_VARYING.sub(" ", found[1]).split())
        return bool(found)

    def above(self, line: int) -> str:
        """Return the last heading above a line, without what numbers repetitions; empty if there is none."""
        above = [one for one in self._found if one < line]
        return self._found[max(above)] if above else ""
