"""The metrics that the stored runs have, for `rules check` and for editors."""

from __future__ import annotations

from perfgate.baselines.files import STORED_RUN
from perfgate.baselines.places import kind_of
from perfgate.baselines.stores import each_file, open_store
from perfgate.core import Problem

#: The number of the newest runs of an environment that are read.
_NEWEST = 10


def stored_metrics(baselines: str) -> tuple[dict[str, dict[str, str]], list[Problem]]:
    """Return the metrics of the newest stored runs of each suite with their base units, and what is wrong with runs.

    Raises Refused if the store cannot be used.
    """
    store = open_store(baselines)
    paths, problems = store.paths()
    places: dict[tuple[str, str], list[str]] = {}
    for path in paths:
        if kind_of(path) == "run":
            suite, environment, *_ = path.split("/")
            places.setdefault((suite, environment), []).append(path)
    found: dict[str, dict[str, str]] = {}
    for (suite, _), runs in places.items():
        newest = sorted(runs, key=lambda path: path.rpartition("/")[2])[-_NEWEST:]  # a name begins with the time
        for path, data in list(each_file(store, newest, "run", problems)):
            file, wrong = STORED_RUN.decode(str(store.location(path)), data)
            problems += wrong
            if file is not None:
                units = {series.key.metric: series.unit for series in file.run(path).series}
                found.setdefault(suite, {}).update(units)
    return found, problems
