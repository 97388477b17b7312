"""Read files on the workers of a cluster, which join the traces of the ranks of a run, some at a time, in a tree.

The command gets a head of each file, which is small, and one run with the series of all ranks. The waits of collectives
are found on the workers, too: first the shortest duration of each call among all ranks, then the wait of each rank. The
results have the same bytes as those of `join_traces`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any

from perfgate.core import Run
from perfgate.core.call_trees import joined_trees
from perfgate.core.outlines import joined_outlines
from perfgate.core.wording import plural
from perfgate.readers.torch_trace import ranks as of_ranks
from perfgate.readers.torch_trace.ranks import Collective
from perfgate.workspace.cluster import Cluster, Finish, LostFile, connected, packed, refuse_other_versions
from perfgate.workspace.options import Refused
from perfgate.workspace.parallel import ReadFile, Watcher, allow_read_only_mappings

#: The number of ranks, or of joined ranks, that one worker joins at a time.
TOGETHER = 16
_MEMORY = "give the workers more memory"


@dataclass(frozen=True, slots=True)
class _TraceHead:
    """A file without its series: what the command needs to know before ranks can be joined."""

    run: Run
    rank: str
    calls: Sequence[tuple[Collective, int]]


def read_on_cluster(
    scheduler: str,
    files: Sequence[tuple[str, str]],
    read: ReadFile,
    folders: Sequence[int],
    finish: Finish | None,
    watcher: Watcher | None,
) -> Iterator[tuple[Run, ...]]:
    """Yield the runs of each file, in order; ranks of one run are joined on the workers (`joined_ranks`).

    Raises Refused for a cluster that cannot be used.

    Parameters
    ----------
    scheduler : `HOST:PORT`.
    files : the path of each file, and the name that messages have for it.
    read : reads one file on a worker.
    folders : the numbers of files, in order, that belong to one run.
    finish : makes the runs shorter after the waits of ranks were found; None if everything is needed.
    watcher : is told how many files were read.
    """
    cluster = Cluster(connected(scheduler), scheduler)
    try:
        refuse_other_versions(cluster.client, scheduler)
        paths = [path if "://" in path else os.path.abspath(path) for path, _ in files]
        found = cluster.client.map(partial(_read, read), paths, [name for _, name in files], pure=False, retries=0)
        futures, names, done = iter(found), iter(name for _, name in files), 0

        def tell(count: int) -> None:
            if watcher is not None:
                watcher(plural(len(files), "file"), done + count, len(files))

        for count in folders:
            own = list(islice(futures, count))
            yield from joined_ranks(cluster, own, list(islice(names, count)), finish, tell)
            done += count
    finally:
        cluster.client.close()


def _read(read: ReadFile, path: str, name: str) -> tuple[Run, ...]:
    """Read a file on a worker, which keeps the runs."""
    allow_read_only_mappings()
    return read(path, name)


def joined_ranks(
    cluster: Cluster, parts: Sequence[Any], names: Sequence[str], finish: Finish | None, tell: Callable[[int], None]
) -> Iterator[tuple[Run, ...]]:
    """Yield the runs of each file of a folder. Raises Refused.

    If the files are the traces of different ranks, the first run has the series of all of them.

    Parameters
    ----------
    parts : the futures of the runs of each file.
    names : the names of the files.
    finish : makes the runs shorter at the end, if they are joined.
    tell : is told how many files were read.
    """
    blocks = [parts[at : at + TOGETHER] for at in range(0, len(parts), TOGETHER)]
    asked = [cluster.submit(_heads, block) for block in blocks] if len(parts) > 1 else []
    heads: list[_TraceHead | None] = [None] if not asked else []
    try:
        for future in asked:
            heads += cluster.result(future)
            tell(len(heads))
    except LostFile:
        heads = [None]
    known = [head for head in heads if head is not None]
    if len(known) < len(heads) or len({head.rank for head in known}) < len(known):
        for count, (part, name) in enumerate(zip(parts, names, strict=True), 1):
            yield cluster.runs(part, name)
            tell(count)
        return
    matched = of_ranks.matched({head.rank: head.calls for head in known})
    durations = _tree(cluster, [cluster.submit(_shortest, block, matched) for block in blocks], _shorter)
    whole = _tree(cluster, [cluster.submit(_joined, block, matched, durations, finish) for block in blocks], _together)
    try:
        found: Run = cluster.result(cluster.submit(packed, whole))
    except LostFile:
        raise Refused(f"{names[0]} and other ranks: workers were lost while they joined them: {_MEMORY}", 3) from None
    yield (replace(known[0].run, series=found.series, call_trees=found.call_trees, outlines=found.outlines),)
    yield from ((head.run,) for head in known[1:])


def _tree(cluster: Cluster, found: Sequence[Any], join: Callable[[Sequence[Any]], Any]) -> Any:
    """Return the future of all results, joined some at a time."""
    while len(found) > 1:
        found = [cluster.submit(join, found[at : at + TOGETHER]) for at in range(0, len(found), TOGETHER)]
    return found[0]


def _heads(parts: Sequence[tuple[Run, ...]]) -> bytes:
    return packed([_head(runs) for runs in parts])


def _head(runs: tuple[Run, ...]) -> _TraceHead | None:
    """Return the head of a file; None if it is not the trace of one rank."""
    rank = of_ranks.rank_of(runs[0])
    if len(runs) > 1 or runs[0].format != "torch-trace" or runs[0].part is not None or rank is None:
        return None
    if any(series.key.label("rank") != rank for series in runs[0].series):
        return None
    calls = of_ranks.counts_of(of_ranks.calls_of(runs[0]))
    return _TraceHead(replace(runs[0], series=(), call_trees=(), outlines=None), rank, calls)


def _shortest(parts: Sequence[tuple[Run, ...]], matched: Sequence[Collective]) -> Mapping[Collective, Any]:
    calls = chain.from_iterable(of_ranks.calls_of(run) for (run,) in parts)
    return of_ranks.shortest(({name: durations} for name, durations, _ in calls), matched)


def _shorter(found: Sequence[Mapping[Collective, Any]]) -> Mapping[Collective, Any]:
    return of_ranks.shortest(found, dict.fromkeys(chain.from_iterable(found)))


def _joined(
    parts: Sequence[tuple[Run, ...]],
    matched: Sequence[Collective],
    durations: Mapping[Collective, Any],
    finish: Finish | None,
) -> Run:
    """Join some ranks, each with its waits; after that nothing needs the process groups."""
    allow_read_only_mappings()
    transfers, found = {name: durations[name] for name in matched}, []
    for (run,) in parts:
        waited = of_ranks.with_wait(run, of_ranks.calls_of(run), transfers)
        if finish is not None:
            ungrouped = tuple(replace(one, groups=()) if one.groups else one for one in waited.series)
            (waited,) = finish((replace(waited, series=ungrouped),))
        found.append(waited)
    return _together(found)


def _together(runs: Sequence[Run]) -> Run:
    """Return the first run with the series, the outlines and the calls of all of them."""
    allow_read_only_mappings()
    outlines = joined_outlines(run.outlines for run in runs if run.outlines)
    return replace(
        runs[0],
        series=tuple(chain.from_iterable(run.series for run in runs)),
        call_trees=joined_trees([run.call_trees for run in runs]),
        outlines=outlines if outlines.of else None,
    )
