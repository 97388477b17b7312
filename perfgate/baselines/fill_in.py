"""Complete stored runs from their source files: `perfgate baseline add` of runs that are stored already.

A run that an older perfgate stored, or older rules, lacks summaries, or the samples of a metric that a rule names now.
Its source files have them. Who approved it, when and why does not change.
"""

from __future__ import annotations

from msgspec.structs import replace

from perfgate.baselines.candidates import Candidates, head_bytes, write_verified
from perfgate.baselines.contents import Contents, TooLarge, contents
from perfgate.baselines.files import STORED_RUN, BaselineFile, stored_series
from perfgate.baselines.levels import StoredRun
from perfgate.core import Run
from perfgate.core.wording import listed, plural
from perfgate.workspace.options import Refused


def fill_in(found: Candidates, *, keep_all: bool = False) -> tuple[Candidates, list[str]]:
    """Complete the stored runs that were read from the same files as some candidates.

    Parameters:
        keep_all: store the samples of every metric.

    Returns the candidates that are not stored yet, and a line for each stored run.
    Raises Refused: a file reads differently now than when it was stored, or all runs are stored and lack nothing.
    """
    known: dict[tuple[str, ...], list[StoredRun]] = {}
    for level in found.loaded.history.levels.values():
        for stored in level:
            known.setdefault(tuple(sorted(source.sha256 for source in stored.head.sources)), []).append(stored)
    new: list[Run] = []
    lines: list[str] = []
    complete: list[str] = []
    for run in found.runs:
        same = known.get(tuple(sorted(file.sha256 for file in run.files)))
        if same is None:
            new.append(run)
            continue
        match = next((one for one in same if _agrees(one.file, run)), None)
        if match is None:
            step = "read it with the same --format and --trace-mode, or measure again and add that run"
            raise Refused(f"{run.name} reads differently now than in {same[0].path}: nothing was filled in; {step}", 1)
        line = _completed(found, match, run, keep_all=keep_all)
        text = f"{run.name} is stored already, as {match.path}"
        (complete if line is None else lines).append(f"{text}, and lacks nothing" if line is None else line)
    if complete and not lines and not new:
        raise Refused(f"{complete[0]}: the same run counts once", 1)
    remaining = replace(found, runs=tuple(new))
    return remaining.reloaded() if lines else remaining, [*lines, *complete]


def _agrees(file: BaselineFile, run: Run) -> bool:
    """Return whether a run has the series of a stored file, with the same values."""
    read = {series.key: series for series in run.series}
    return all(row.key in read and stored_series(read[row.key]) == row for row in file.series)


def _completed(found: Candidates, stored: StoredRun, run: Run, *, keep_all: bool) -> str | None:
    """Add the missing data to a stored run; returns a line about it, or None if it is complete."""
    file, at = stored.file, found.store.location(stored.path)
    before = {row.key for row in file.series}
    wanted = replace(found.wanted(keep_all=keep_all, only=file.level.adopts), head_bytes=head_bytes(file))
    is_named = wanted.is_named
    try:
        rows = contents(run, replace(wanted, is_named=lambda key: key in before or is_named(key)))
    except TooLarge as error:
        raise Refused(f"{at} cannot be completed: {error}", 1) from None
    if not before <= {row.key for row in rows.series}:
        raise Refused(f"{at} cannot be completed: it has no room for more metrics", 1)
    old = STORED_RUN.encode(file)
    if (data := STORED_RUN.encode(rows.put_into(file))) == old:
        return None
    write_verified(found.store, stored.path, data, replaced=old)
    return f"filled in {at}: {_gained(file, rows)} ({len(data) / 1024:.0f} KiB, {run.name})"


def _gained(file: BaselineFile, rows: Contents) -> str:
    """Return what a stored run gains: metrics with samples, and metrics with a summary."""
    had = {row.key for row in file.series}
    samples = sorted({row.metric for row in rows.series if row.key not in had})
    known = {row.metric for row in file.summarised}
    summaries = {row.metric for row in rows.summaries} - known
    parts = [f"values of {listed(samples)}"] if samples else []
    parts += [f"summaries of {plural(len(summaries), 'metric')}"] if summaries else []
    parts += ["the call tree"] if rows.call_tree and not file.call_tree else []
    return " and ".join(parts) or "newer summaries"
