"""The runs of an environment as the x axis of its plots: their order, releases, and changes of the machine."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise

from msgspec import Struct

from perfgate.core.remembered_runs import ChangedFact, CommitLine, HistoryRun, changed_facts
from perfgate.core.run_history import EnvironmentHistory
from perfgate.core.wording import clip, listed, one_line, without_bracket_commands
from perfgate.reporters.svg import SafeText

#: The number of newest marks of a kind that are drawn.
_MOST_MARKS = 60
#: The longest subject of a commit in the data of the script, in characters.
_LONGEST_SUBJECT = 100


class RunMark(Struct, frozen=True):
    """Something that happened in a run: a release, or a change of the machine. `at` is the position of the run."""

    at: int
    text: str


class TrendRuns(Struct, frozen=True):
    """The runs of an environment, oldest first. Plots show those from `first` on."""

    number: int
    place: EnvironmentHistory
    first: int
    #: The position of each run by its id.
    positions: Mapping[str, int]
    releases: tuple[RunMark, ...]
    machine: tuple[RunMark, ...]
    #: The names of facts that change too often to be marked.
    unsteady: tuple[str, ...]

    @classmethod
    def of(cls, number: int, place: EnvironmentHistory, line: CommitLine | None, most: int) -> TrendRuns:
        """Return the runs of an environment; plots show at most the newest `most` of them."""
        changed = changed_facts(place.runs)
        positions = {run.id: at for at, run in enumerate(place.runs)}
        first = max(0, len(place.runs) - most)
        marks, often = tuple(releases(place.runs, line)), tuple(name for name, _ in changed.often)
        return cls(number, place, first, positions, marks, tuple(_machine_marks(changed.steady)), often)

    @property
    def shown(self) -> tuple[HistoryRun, ...]:
        """The runs that plots show."""
        return self.place.runs[self.first :]


def releases(runs: Sequence[HistoryRun], line: CommitLine | None) -> Iterator[RunMark]:
    """Yield the tags: those that runs were added with, and those of git at the first run that has the commit."""
    tagged = [(position, tag) for position, run in enumerate(runs) for tag in run.tags]
    if line is not None:
        tagged += _tags_of_git(runs, line)
    first: dict[str, int] = {}
    for position, tag in tagged:
        first.setdefault(tag, position)
    tags: dict[int, list[str]] = {}
    for tag, position in first.items():
        tags.setdefault(position, []).append(tag)
    for position in sorted(tags)[-_MOST_MARKS:]:
        yield RunMark(position, listed(tags[position]))


def _tags_of_git(runs: Sequence[HistoryRun], line: CommitLine) -> Iterator[tuple[int, str]]:
    """Yield each tag with the position of the first run whose commit is that of the tag or a later one."""
    places = [(line.place(run.commit), position) for position, run in enumerate(runs)]
    placed = sorted((place, position) for place, position in places if place is not None)  # runs may be by time
    for place, commit in enumerate(line.commits):
        following = bisect_left(placed, (place, -1))  # -1: before every run of this commit
        if following < len(placed):
            yield from ((placed[following][1], tag) for tag in commit.tags)


def _machine_marks(changed: Sequence[ChangedFact]) -> list[RunMark]:
    """Return a mark for each run in which facts of the machine changed; only the newest ones are drawn."""
    marks: dict[int, list[str]] = {}
    for fact in changed:
        marks.setdefault(fact.at, []).append(str(fact))
    return [RunMark(position, ", ".join(marks[position])) for position in sorted(marks)[-_MOST_MARKS:]]


def data(track: TrendRuns, line: CommitLine | None, *, with_links: bool) -> SafeText:
    """Return the shown runs for the script, as JSON that cannot end its element: times, commits and subjects."""
    runs = track.shown
    seconds = [int(datetime.fromisoformat(run.time.replace("Z", "+00:00")).timestamp()) for run in runs]
    times = [now - before for before, now in pairwise([0, *seconds])]  # short numbers
    marks: dict[int, list[str]] = {}
    for mark in (*track.releases, *track.machine):
        if mark.at >= track.first:
            marks.setdefault(mark.at - track.first, []).append(_plain(mark.text))
    document = {
        "first": track.first,
        "times": times,
        "commits": [(run.commit or "")[: 40 if with_links else 10] for run in runs],
        "subjects": [_subject(run, line) for run in runs] if line else [],
        "marks": {position: ", ".join(texts) for position, texts in marks.items()},
    }
    text = json.dumps(document, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return SafeText(without_bracket_commands(text, "\\u0023"))


def _subject(run: HistoryRun, line: CommitLine) -> str:
    place = line.place(run.commit)
    if place is None:
        return ""
    commit = line.commits[place]
    return _plain(f"{commit.author}: {commit.subject}")


def _plain(text: str) -> str:
    return clip(one_line(text), _LONGEST_SUBJECT)
