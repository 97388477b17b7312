"""Names of numbers that are no measurements: dates, ids, settings, sizes of the load, steps."""

from __future__ import annotations

import re
from functools import lru_cache

from perfgate.core.conditions import TABLE

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

    Parameters
    ----------
    name: the name of a field, a column, or the words before a number.
    beside: a pattern of more such names, as the reader of the format knows them.
    is_field: False for the name of a benchmark, in which words mean nothing.
    """
    plain = "_".join(filter(None, _WORDS.split(name))).lower()
    return bool((is_field and _NOT_MEASURED.fullmatch(plain)) or (beside and re.fullmatch(beside, name)))
