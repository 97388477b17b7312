"""The numbers of a JSON document that nobody read, and the names of numbers that are no measurements."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Any

from perfgate.core.conditions import TABLE
from perfgate.documents.json import Path
from perfgate.readers.values import number

#: Objects of a document whose members are settings, or describe the machine.
_SETTINGS = (
    r"(?:\w*_)?(?:config|configs|configuration|settings?|options?|args|arguments?|params?|parameters?|hparams"
    r"|hyperparameters|meta|metadata|context|env|environ|environment|properties|labels?|tags?|command|argv|cmdline"
    r"|(?:system|machine|commit|git|gpu|cpu|device|host|server|build|version|dist|model|hardware)_?info|axes|axis\w*)"
)
#: What a number counts or names, but does not measure.
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
_OTHER = {name.rpartition(".")[2] for fields in TABLE.values() for one in fields for name in one.names}
_NOT_MEASURED = re.compile(rf"{_SETTINGS}|{_NAMES}|{'|'.join(sorted(map(re.escape, _OTHER)))}", re.IGNORECASE)
_WORDS = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])")


@lru_cache(4096)
def is_unmeasured(name: str, beside: str = "", *, is_field: bool = True) -> bool:
    """Return whether a name is that of a setting, a date or an id, and not of a measurement.

    `name`: the name of a field, a column, or the words before a number. `beside`: a pattern of more such names, as the
    reader of the format knows them. `is_field`: False for the name of a benchmark, in which words mean nothing.
    """
    plain = "_".join(filter(None, _WORDS.split(name))).lower()
    return bool((is_field and _NOT_MEASURED.fullmatch(plain)) or (beside and re.fullmatch(beside, name)))


#: The number of members of a longer list of objects that are examined, evenly spread.
_MEMBERS = 1000
_LONGEST = 80


class UnreadFields:
    """Walks a document, and counts the numbers at paths that are not among those read, by their names."""

    def __init__(self, read: Collection[Path], beside: str, most: int) -> None:
        self._read, self._beside = read, beside
        #: Of a document with more numbers, the fields in which some were read.
        self._names = set(map(_name, read)) if len(read) >= most else set[str]()
        self.found: Counter[str] = Counter()
        self.is_estimate = False

    def walk(self, data: Any, path: Path = (), name: str = "", weight: int = 1) -> None:
        """Count the numbers of a value and of its members.

        `data`: the value. `path`, `name`: where it is; a name has no indices. `weight`: the number of members of the
        list that it stands for.
        """
        if path in self._read:
            return
        if isinstance(data, dict):
            for key, value in data.items():
                if not self._is_unmeasured(key):
                    self.walk(value, (*path, key), f"{name}.{key}" if name else key, weight)
        elif isinstance(data, list):
            for index, value, more in self._members(data):
                self.walk(value, (*path, index), name, weight * more)
        elif name not in self._names and _is_number(data):
            self.found[name[:_LONGEST]] += weight

    def _is_unmeasured(self, key: str) -> bool:
        """Return whether a key is the name of a setting, and not of a benchmark or a file."""
        return is_unmeasured(key, self._beside, is_field=not any(sign in key for sign in "/:[("))

    def _members(self, data: list[Any]) -> Iterator[tuple[int, Any, int]]:
        """Yield the members with their index, and how many of them each stands for."""
        every = max(1, len(data) // _MEMBERS)
        self.is_estimate = self.is_estimate or every > 1
        for index in range(0, len(data), every):
            yield index, data[index], min(every, len(data) - index)


def _name(path: Path) -> str:
    """Return a path without its indices."""
    return ".".join([key for key in path if type(key) is str])


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return "." in value and number(value) is not None  # other texts of digits are ids
    return isinstance(value, int | float) and not isinstance(value, bool)
