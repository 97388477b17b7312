"""Measure how well the changes of main become tickets: one for each event, with its commits and its machine.

    python benchmarks/events.py [--histories 200] [--first 0]

Each made history has 60 merges on two cards with 12 to 40 metrics, whose noise between runs is 1 to 5 %, a third of it
shared by the metrics of a run. It has one to four events and two changes of the environment. An event of the code moves
at least three metrics, up to all, on both cards (in 2 of 10 on one), by 6 to 20 % and more than twice their noise, to
the worse in 8 of 10. A change of the environment is a new driver or image of one card or of both; one of the two moves
metrics in the same way, the other none. Events are at least six merges apart and begin ten merges before the end or
earlier. Every history is fed merge by merge from the tenth on, and every id that is ever told is a ticket.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha1
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from perfgate.core import Key  # noqa: E402
from perfgate.core.history_events import HistoryEvent  # noqa: E402
from perfgate.core.remembered_runs import CommitLine, CommitNote, HistoryRun, SeriesName  # noqa: E402
from perfgate.core.run_history import EnvironmentHistory, LoadedHistory  # noqa: E402
from perfgate.history.events import events_of  # noqa: E402
from perfgate.history.series import series_of  # noqa: E402
from perfgate.history.store import HistoryColumn, StoredHistory  # noqa: E402

MERGES, CARDS, APART, LAST = 60, ("a100", "h100"), 6, 10
BEGIN = datetime(2026, 1, 1)


@dataclass
class Truth:
    """An event: its merge, the factors of the metrics by card, and the fact that changed, if it was the machine."""

    at: int
    factors: dict[str, np.ndarray]
    fact: str | None = None


@dataclass
class Made:
    """A history: the numbers (merges, metrics) and the facts of each card, and what is true."""

    values: dict[str, np.ndarray]
    facts: dict[str, list[dict[str, str]]]
    truth: list[Truth]


def sha(number: int) -> str:
    """Return the commit of a merge."""
    return sha1(str(number).encode()).hexdigest()


def at(merge: int, minutes: int = 0) -> str:
    """Return the time of a run."""
    return f"{BEGIN + timedelta(hours=merge, minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"


def made(seed: int) -> Made:
    """Return a history."""
    rng = np.random.default_rng(seed)
    metrics = int(rng.integers(12, 41))
    noise = np.exp(rng.uniform(np.log(0.01), np.log(0.05), metrics))
    count = int(rng.integers(1, 5))
    moments = _moments(rng, count + 2)
    values = {}
    for card in CARDS:
        own, shared = rng.standard_normal((MERGES, metrics)), rng.standard_normal((MERGES, 1))
        level = np.exp(rng.normal(-3, 1, metrics))
        values[card] = level * np.exp(noise * (np.sqrt(2 / 3) * own + np.sqrt(1 / 3) * shared))
    facts = {card: [{"driver": "570.86", "image": "24.10"} for _ in range(MERGES)] for card in CARDS}
    truth, changes = [], []
    for number, at in enumerate(moments):
        is_machine = number >= count
        cards = CARDS if rng.random() < (0.5 if is_machine else 0.8) else (CARDS[int(rng.integers(2))],)
        fact = None
        if is_machine:
            fact = str(rng.choice(["driver", "image"]))
            changes.append((at, fact, cards))
            if number > count:
                continue  # the second one moves nothing
        moved = rng.permutation(metrics)[: int(rng.integers(3, metrics + 1))]
        size = np.zeros(metrics)
        usual = rng.uniform(0.06, 0.20)
        sign = 1 if rng.random() < 0.8 else -1
        size[moved] = sign * np.maximum(usual * np.exp(0.3 * rng.standard_normal(len(moved))), 2 * noise[moved])
        for card in cards:
            values[card][at:] *= 1 + size
        truth.append(Truth(at, dict.fromkeys(cards, size), fact))
    for at, fact, cards in sorted(changes):
        for card in cards:
            for facts_of_run in facts[card][at:]:
                facts_of_run[fact] = f"{fact}-{at}"
    return Made(values, facts, sorted(truth, key=lambda one: one.at))


def _moments(rng: np.random.Generator, count: int) -> list[int]:
    """Return merges in which something happens, far enough apart, in any order."""
    while True:
        found = rng.integers(10, MERGES - LAST + 1, count)
        if count == 1 or np.diff(np.sort(found)).min() >= APART:
            return [int(one) for one in found]


def loaded(history: Made, merges: int) -> LoadedHistory:
    """Return the history after a number of merges, as perfgate loads it."""
    line = CommitLine.of(
        "main",
        [CommitNote(sha(i), f"{BEGIN + timedelta(hours=i):%Y-%m-%dT%H:%M:%SZ}", "ada", f"{i}") for i in range(merges)],
    )
    places = []
    for minutes, card in enumerate(CARDS):
        runs = tuple(
            HistoryRun(f"{card}-{i}", at(i, minutes), sha(i), "main", context=history.facts[card][i])
            for i in range(merges)
        )
        unknown = np.full(merges, np.nan)
        columns = tuple(
            HistoryColumn(SeriesName(Key(f"metric_{j:02}"), "median"), "s", "lower", "samples", np.arange(merges),
                          history.values[card][:merges, j], unknown, unknown, np.zeros(merges))
            for j in range(history.values[card].shape[1])
        )  # fmt: skip
        stored = StoredHistory("gpt", card, {"gpu": card}, runs, columns, ())
        series, notes = series_of(stored, line, ())
        places.append(EnvironmentHistory("gpt", card, stored.identity, runs, tuple(series), (), (), tuple(notes)))
    return LoadedHistory(tuple(places), (), line)


@dataclass
class Score:
    """The counts of all histories."""

    merges: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    widths: list[int] = field(default_factory=list)
    delays: list[int] = field(default_factory=list)


def matched(event: HistoryEvent, truth: Sequence[Truth]) -> int | None:
    """Return the true event that a found one is about: of those with a metric that it moved, the nearest one.

    Its range must be at most three merges away.
    """
    first, last = (int(run.id.rpartition("-")[2]) for run in (event.last_good, event.first_bad))
    places = {(one.environment, int(one.name.key.metric[-2:])) for one in event.changes}
    near = []
    for number, one in enumerate(truth):
        moved = {(card, int(j)) for card, size in one.factors.items() for j in np.flatnonzero(size)}
        away = max(first + 1 - one.at, one.at - last, 0)
        if places & moved and away <= 3:
            near.append((away, abs(first + 1 + last - 2 * one.at), number))
    return min(near)[2] if near else None


def score(history: Made, total: Score) -> None:
    """Feed a history merge by merge, and count."""
    told: dict[str, int | None] = {}
    born: dict[str, int] = {}
    events: list[HistoryEvent] = []
    for merges in range(10, MERGES + 1):
        events = events_of(loaded(history, merges))
        for event in events:
            found = matched(event, history.truth)
            born.setdefault(event.id, merges)
            told[event.id] = found if found is not None else told.get(event.id)
    counts = total.counts
    total.merges += MERGES
    tickets = Counter(number for number in told.values() if number is not None)
    counts["events"] += len(history.truth)
    counts["one ticket"] += sum(tickets[number] == 1 for number in range(len(history.truth)))
    counts["none"] += sum(tickets[number] == 0 for number in range(len(history.truth)))
    counts["duplicates"] += sum(max(0, count - 1) for count in tickets.values())
    counts["false"] += sum(number is None for number in told.values())
    counts["changed ids"] += len({event.id for event in events} - set(told))
    total.delays += [born[id_] - 1 - history.truth[number].at for id_, number in told.items() if number is not None]
    for event in events:
        number = told[event.id]
        if number is None:
            continue
        truth = history.truth[number]
        counts["at the end"] += 1
        first, last = (int(run.id.rpartition("-")[2]) for run in (event.last_good, event.first_bad))
        counts["right range"] += first < truth.at <= last
        total.widths.append(last - first)
        counts["machine"] += truth.fact is not None
        counts["machine named"] += (
            truth.fact is not None and event.kind == "machine" and truth.fact in {one[0] for one in event.facts}
        )
        counts["code"] += truth.fact is None
        counts["code named"] += truth.fact is None and event.kind == "code"


def main() -> None:
    """Measure, and print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first history")
    options = parser.parse_args()
    total, began = Score(), time.process_time()
    for seed in range(options.first, options.first + options.histories):
        score(made(seed), total)
    c = total.counts
    rows = [
        ("one ticket an event", f"{100 * c['one ticket'] / c['events']:.1f} % of {c['events']}", ">= 95 %"),
        ("no ticket", f"{c['none']}", ""),
        ("false tickets per 1,000 merges", f"{1000 * c['false'] / total.merges:.2f}", "<= 2"),
        ("duplicates", f"{c['duplicates']}", "0"),
        ("right commit range", f"{100 * c['right range'] / c['at the end']:.1f} %", ">= 90 %"),
        ("commits in the range, median and mean", f"{np.median(total.widths):.0f}, {np.mean(total.widths):.1f}", ""),
        ("runs until the ticket, median and 90 %", "{:.0f}, {:.0f}".format(*np.quantile(total.delays, (0.5, 0.9))), ""),
        ("environment named", f"{100 * c['machine named'] / max(c['machine'], 1):.1f} % of {c['machine']}", ">= 95 %"),
        ("code not called the machine", f"{100 * c['code named'] / max(c['code'], 1):.1f} % of {c['code']}", ""),
        ("CPU", f"{time.process_time() - began:.0f} s", ""),
    ]
    print("| figure | here | goal |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
