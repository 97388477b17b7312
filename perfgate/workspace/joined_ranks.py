"""Read files on the workers of a cluster, which also join the traces of all ranks of a run, `TOGETHER` at a time.

The command gets the head of each file (its run without series) and one run with the series of all ranks. The workers
also find how long each rank waits in collectives, the calls that all ranks make together: the wait is the duration of a
call minus its shortest duration on any rank. The results have the same bytes as without a cluster (`join_traces`).
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Run
from perfgate.core.call_trees import joined_trees
from perfgate.core.outlines import joined_outlines
from perfgate.core.wording import plural
from perfgate.readers.torch_trace import ranks as of_ranks
from perfgate.readers.torch_trace.ranks import Collective
from perfgate.workspace.cluster import (
    Cluster,
    Finish,
    LostFile,
    are_runs,
    connected,
    packed,
    results_of,
    threads_of_same_version,
)
from perfgate.workspace.options import Refused
from perfgate.workspace.parallel import ReadFile, Watcher, allow_read_only_mappings

#: The number of ranks, or of joined ranks, that one worker joins at a time.
TOGETHER = 16
#: Each thread of a worker gets at least this many blocks of files, if there are enough, so that all end together.
_BLOCKS_OF_THREAD = 4
_MEMORY = "give the workers more memory"


class _TraceHead(Struct, frozen=True):
    """The trace of one rank without its series. The command needs it before ranks can be joined."""

    run: Run
    rank: str
    #: How often the rank called each collective.
    calls: Sequence[tuple[Collective, int]]


class _Block(Struct, frozen=True):
    """Some files of a run: their paths and names, and the future of the list with the runs of each file."""

    files: Sequence[tuple[str, str]]
    runs: Any


def read_on_cluster(
    scheduler: str,
    files: Sequence[tuple[str, str]],
    read: ReadFile,
    counts: Sequence[int],
    finish: Finish | None,
    watcher: Watcher | None,
) -> Iterator[tuple[Run, ...]]:
    """Yield the runs of each file, in order; ranks of one run are joined on the workers (`joined_ranks`).

    `files`: paths, with the names that messages have for them. `counts`: how many files belong to each run.
    `finish`: makes runs shorter after the waits of ranks were found; None if everything is needed. `watcher` is told
    how many files were read. Raises Refused for a cluster that cannot be used.
    """
    cluster = Cluster(connected(scheduler), scheduler)
    try:
        threads = threads_of_same_version(cluster.client, scheduler)
        together = min(TOGETHER, max(1, len(files) // (_BLOCKS_OF_THREAD * threads)))
        paths = iter([(path if "://" in path else os.path.abspath(path), name) for path, name in files])
        found, done = [_blocks(cluster, read, list(islice(paths, count)), together) for count in counts], 0

        def tell(count: int) -> None:
            if watcher is not None:
                watcher(plural(len(files), "file"), done + count, len(files))

        for count, blocks in zip(counts, found, strict=True):
            yield from joined_ranks(cluster, read, blocks, finish, tell)
            blocks.clear()  # the workers may forget them
            done += count
    finally:
        cluster.client.close()


def _blocks(cluster: Cluster, read: ReadFile, files: Sequence[tuple[str, str]], together: int) -> list[_Block]:
    """Let the workers read files, `together` in one task: so most files that a worker joins are in its memory."""
    parts = [files[at : at + together] for at in range(0, len(files), together)]
    return [_Block(part, cluster.submit(_read, read, part)) for part in parts]


def _read(read: ReadFile, files: Sequence[tuple[str, str]]) -> list[tuple[Run, ...]]:
    """Read files on a worker, which keeps the runs."""
    allow_read_only_mappings()
    was_enabled = gc.isenabled()
    gc.disable()  # reading makes many objects and hardly any cycles, and a worker has many objects to search
    try:
        return [read(path, name) for path, name in files]
    finally:
        if was_enabled:
            gc.enable()


def joined_ranks(
    cluster: Cluster, read: ReadFile, blocks: Sequence[_Block], finish: Finish | None, tell: Callable[[int], None]
) -> Iterator[tuple[Run, ...]]:
    """Yield the runs of each file of a folder. If they are traces of different ranks, the first run has all series.

    `tell` is called with the number of files that were read. Raises Refused.
    """
    count = sum(len(block.files) for block in blocks)
    heads = list(_heads_of(cluster, blocks, tell)) if count > 1 else [None]  # a single file is not joined
    known = [head for head in heads if head is not None]
    if len(known) < count or len({head.rank for head in known}) < count:  # not one trace for each rank
        yield from _single_files(cluster, read, blocks, tell)
        return
    runs = [block.runs for block in blocks]  # futures
    matched = of_ranks.matched({head.rank: head.calls for head in known})
    durations = _tree(cluster, [cluster.submit(_shortest, one, matched) for one in runs], _shorter)
    whole = _tree(cluster, [cluster.submit(_joined, one, matched, durations, finish) for one in runs], _together)
    try:
        found: Run = cluster.result(cluster.submit(packed, whole), lambda one: isinstance(one, Run))
    except LostFile:
        first = blocks[0].files[0][1]
        raise Refused(f"{first} and other ranks: workers were lost while they joined them: {_MEMORY}", 3) from None
    yield (replace(known[0].run, series=found.series, call_trees=found.call_trees, outlines=found.outlines),)
    yield from ((head.run,) for head in known[1:])


def _heads_of(cluster: Cluster, blocks: Sequence[_Block], tell: Callable[[int], None]) -> Iterator[_TraceHead | None]:
    """Yield the head of each file; None if it is not the trace of one rank. A lost block is one None."""
    done = 0
    for block, future in [(block, cluster.submit(_heads, block.runs)) for block in blocks]:
        try:
            yield from cluster.result(future, results_of(len(block.files), _is_head))
        except LostFile:
            yield None
        tell(done := done + len(block.files))


def _is_head(found: object) -> bool:
    return found is None or isinstance(found, _TraceHead)


def _single_files(
    cluster: Cluster, read: ReadFile, blocks: Sequence[_Block], tell: Callable[[int], None]
) -> Iterator[tuple[Run, ...]]:
    """Yield the runs of each file as they are. Files whose workers were lost are read once more, each alone."""
    done = 0
    for block, future in [(block, cluster.submit(packed, block.runs)) for block in blocks]:
        try:
            yield from cluster.result(future, results_of(len(block.files), are_runs))
        except LostFile:
            alone = _blocks(cluster, read, block.files, 1)
            yield from (cluster.runs(one.runs, one.files[0][1]) for one in alone)
        tell(done := done + len(block.files))


def _tree(cluster: Cluster, found: Sequence[Any], join: Callable[[Sequence[Any]], Any]) -> Any:
    """Return the future of all results as one: `join` joins `TOGETHER` futures until one is left."""
    while len(found) > 1:
        found = [cluster.submit(join, found[at : at + TOGETHER]) for at in range(0, len(found), TOGETHER)]
    return found[0]


def _heads(parts: Sequence[tuple[Run, ...]]) -> bytes:
    return packed(list(map(_head, parts)))


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
    """Return the shortest duration of each call on the ranks of a block.

    `matched`: the collectives that two ranks or more of the run call, all equally often.
    """
    calls = chain.from_iterable(of_ranks.calls_of(run) for (run,) in parts)
    return of_ranks.shortest(({name: durations} for name, durations, _ in calls), matched)


def _shorter(found: Sequence[Mapping[Collective, Any]]) -> Mapping[Collective, Any]:
    """Return the shortest durations among the results of `_shortest`."""
    return of_ranks.shortest(found, dict.fromkeys(chain.from_iterable(found)))


def _joined(
    parts: Sequence[tuple[Run, ...]],
    matched: Sequence[Collective],
    durations: Mapping[Collective, Any],
    finish: Finish | None,
) -> Run:
    """Return one run of the ranks of a block, each with its waits.

    `durations`: the shortest durations among all ranks, in which no rank waits: the transfers. `finish` gets series
    without process groups, because it keeps the values of series with groups, which only waits need.
    """
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
    """Return the first run with the series, the outlines and the call trees of all runs."""
    allow_read_only_mappings()
    outlines = joined_outlines(run.outlines for run in runs if run.outlines)
    return replace(
        runs[0],
        series=tuple(chain.from_iterable(run.series for run in runs)),
        call_trees=joined_trees([run.call_trees for run in runs]),
        outlines=outlines if outlines.of else None,
    )
