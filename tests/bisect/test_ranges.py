"""The range of a search: commits of a repository or items of a list, and the metric in a run or a pair."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import steady

from perfgate.bisect.ranges import (
    MetricValue,
    NoMetric,
    SearchedRange,
    commit_range,
    inside_merge,
    item_range,
    prior_of,
    value_in_pair,
    value_in_run,
    with_computed,
)
from perfgate.core import Baseline, CalibratedPrior, Key, Location, Problem, Run, Series, read_only
from perfgate.core.causes import SearchedItem
from perfgate.judge.measure import Method
from perfgate.judge.pairs import PRIORS, Pairs
from perfgate.judge.verdicts import COMPUTED
from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import Ruleset
from perfgate.stats.history import DEFAULT
from perfgate.stats.paired_t import median_ratio
from perfgate.stats.statistics import RunMeasure
from perfgate.workspace.commit_files import Commit
from perfgate.workspace.options import Refused

# --- commits ---------------------------------------------------------------------------------------------------------

#: By mark: the subject and the parents. The first parents of `main` are 1, 2, 5, 6; the merge 5 brought 3 and 4.
COMMITS = {
    1: ("First", ()),
    2: ("Faster reader", (1,)),
    3: ("Branch", (1,)),
    4: ("More of the branch", (3,)),
    5: ("Merge the branch", (2, 4)),
    6: ("Merge what is there already", (5, 2)),
    7: ("Another history", ()),
    8: ("Main goes on", (6,)),
    9: ("Old branch", (2,)),
    10: ("Update the branch from main", (9, 8)),
    11: ("Last of the branch", (10,)),
    12: ("Merge the old branch", (8, 11)),
}


@pytest.fixture
def shas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[int, str]:
    """A repository with COMMITS, each with a file of its own, as the working directory: the hash of each."""
    monkeypatch.chdir(tmp_path)
    for name in ("GIT_DIR", "GIT_WORK_TREE"):
        monkeypatch.delenv(name, raising=False)
    stream: list[bytes] = []
    for mark, (subject, parents) in COMMITS.items():
        who = b"J\xfcrg" if mark == 2 else b"ada"
        stream += [
            b"commit refs/heads/c%d\nmark :%d" % (mark, mark),
            b"committer %s <ada@example.org> %d +0000" % (who, 1767225600 + 86400 * mark),
            b"data %d\n%s" % (len(subject), subject.encode()),
            *(b"%s :%d" % (b"merge" if number else b"from", parent) for number, parent in enumerate(parents)),
            *(b"M 100644 inline f%d\ndata 2\nx\n" % file for file in ((3, 4, 5) if mark == 5 else (mark,))),
        ]
    git = ("git", "-c", "init.defaultBranch=c6")
    subprocess.run([*git, "init", "-q"], check=True)
    words = ["fast-import", "--quiet", "--export-marks=marks"]
    subprocess.run([*git, *words], input=b"\n".join(stream), check=True)
    rows = (line.split() for line in Path("marks").read_text().splitlines())
    return {int(mark[1:]): sha for mark, sha in rows}


def test_the_first_parents_of_the_bad_commit_are_searched(shas: dict[int, str]) -> None:
    found = commit_range("c1", "HEAD")
    wanted = [shas[mark] for mark in (1, 2, 5, 6)]
    assert found == SearchedRange(
        tuple(wanted), tuple(Commit(sha[:12], sha, Path(os.path.realpath("."))) for sha in wanted)
    )
    assert commit_range(shas[2][:9], "c5").names == (shas[2], shas[5])


REFUSED = [
    ("c2", "c2", "--good c2 and --bad c2 are the same commit: there is nothing between them"),
    ("c6", "c2", "--good c6 is not an ancestor of --bad c2: exchange them"),
    ("c4", "c2", "--good c4 is not an ancestor of --bad c2: use their common commit, --good {1}"),
    ("c7", "c2", "c7 and c2 have no common commit: there is no such commit in this clone; fetch it"),
]


@pytest.mark.parametrize(("good", "bad", "message"), REFUSED)
def test_ends_without_a_range_are_refused(shas: dict[int, str], good: str, bad: str, message: str) -> None:
    with pytest.raises(Refused) as raised:
        commit_range(good, bad)
    assert str(raised.value).removesuffix(" (actions/checkout: fetch-depth: 0)") == message.format("", shas[1][:12])


def test_the_range_inside_a_merge_begins_where_its_branch_began(shas: dict[int, str]) -> None:
    found = inside_merge(Commit.of("c5"))
    assert found is not None
    assert found.names == (shas[1], shas[3], shas[4])
    assert [(one.ref, one.sha) for one in found.commits] == [(sha[:12], sha) for sha in found.names]
    assert inside_merge(Commit.of("c6")) is None  # it brought nothing
    updated = inside_merge(Commit.of("c12"))
    assert updated is not None
    assert updated.names == tuple(shas[mark] for mark in (2, 9, 10, 11))
    with pytest.raises(Refused, match="the range cannot be read: "):
        inside_merge(Commit.of("c2"))


ITEMS = [
    # the position in the range from 1 to 6, and what is said about its commit
    (0, SearchedItem("", "ada", "2026-01-02", "First", "1 file changed, 1 insertion(+)", is_merge=False)),
    (1, SearchedItem("", "J\ufffdrg", "2026-01-03", "Faster reader", "1 file changed, 1 insertion(+)", is_merge=False)),
    (2, SearchedItem("", "ada", "2026-01-06", "Merge the branch", "3 files changed, 3 insertions(+)", is_merge=True)),
]


@pytest.mark.parametrize(("position", "said"), ITEMS)
def test_the_facts_about_a_commit(shas: dict[int, str], position: int, said: SearchedItem) -> None:
    """A merge changes what it brought to its first parent."""
    found = commit_range("c1", "HEAD").item(position)
    assert found == SearchedItem(
        shas[(1, 2, 5)[position]], said.author, said.date, said.subject, said.diffstat, is_merge=said.is_merge
    )


# --- a list ----------------------------------------------------------------------------------------------------------


def test_the_items_of_a_list_have_only_names() -> None:
    found = item_range(["torch==2.1", "torch==2.2"])
    assert found == SearchedRange(("torch==2.1", "torch==2.2"), ())
    assert found.item(1) == SearchedItem("torch==2.2")


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ((), "--over needs at least two items, the first one good and the last one bad"),
        (("a",), "--over needs at least two items, the first one good and the last one bad"),
        (("a", "b", "c", "b", "a"), "--over has b twice"),
    ],
)
def test_a_list_that_cannot_be_searched_is_refused(items: Sequence[str], message: str) -> None:
    with pytest.raises(Refused) as raised:
        item_range(items)
    assert str(raised.value) == message


# --- the metric ------------------------------------------------------------------------------------------------------


def ruleset(rule: str, head: str = "") -> Ruleset:
    found, problems = load_rules([("rules.yaml", f"version: 1\n{head}rules:\n  - {rule}\n".encode())])
    assert found is not None, problems
    return found


def series(metric: str, values: Sequence[float], unit: str = "s", kind: Any = "samples", **labels: str) -> Series:
    return Series(Key.of(metric, **labels), unit, kind, read_only(np.array(values)))


def run(*rows: Series, errors: Sequence[str] = (), warnings: Sequence[str] = ()) -> Run:
    problems = [Problem("warning", message, Location("new.json")) for message in warnings]
    problems += [Problem("error", message, Location("new.json")) for message in errors]
    return Run("new.json", "test", rows, tuple(problems))


STEPS = steady(0.1, n=40)
RULE = "forward within 5% of baseline"


def measured(values: Sequence[float]) -> RunMeasure:
    """The median of a series."""
    return Method("median").measure(series("forward", values))


def test_the_metric_in_a_run() -> None:
    found = value_in_run(ruleset(RULE), run(series("forward", STEPS), series("other", STEPS)))
    within = measured(STEPS).within_variance
    assert within
    assert found == MetricValue("forward", "median", "s", "lower", measured(STEPS).value or 0.0, within, "s")
    assert found.value == pytest.approx(np.median(STEPS), rel=0.01)
    assert found.log_value == math.log(found.value)


VALUES: list[tuple[str, Run, MetricValue]] = [
    (
        "throughput within 5% of baseline",
        run(series("throughput", [900.0], "1/s", "value")),
        MetricValue("throughput", None, "1/s", "higher", 900.0, 0.0, "1/s"),
    ),
    (
        "{assert: loss within 5% of baseline, better: higher}",
        run(series("loss", [2.5], "1", "value")),
        MetricValue("loss", None, "1", "higher", 2.5, 0.0, "1"),
    ),
    (
        "forward count within 5% of baseline",
        run(series("forward", STEPS)),
        MetricValue("forward", "count", "1", None, 40.0, 0.0, "1"),
    ),
    (
        'forward{stage="2"} within 5% of baseline',
        run(series("forward", [2.0], kind="value", stage="2"), series("forward", [3.0], kind="value", stage="1")),
        MetricValue('forward{stage="2"}', None, "s", "lower", 2.0, 0.0, "s"),
    ),
]


@pytest.mark.parametrize(("rule", "one", "value"), VALUES)
def test_the_facts_of_the_metric(rule: str, one: Run, value: MetricValue) -> None:
    assert value_in_run(ruleset(rule), one) == value


NAN = math.nan
LACKING: list[tuple[str, Run, str]] = [
    (
        "forward + memory within 5% of baseline",
        run(series("forward", [1.0]), series("memory", [1.0], "B")),
        "forward + memory: forward in s + memory in B has no known unit",
    ),
    (RULE, run(), "wrote no metric forward: it has no metrics"),
    (
        RULE,
        run(series("command.time", [1.0]), series("z", [1.0]), series("b", [1.0])),
        "wrote no metric forward: it has b, z, command.time",
    ),
    (RULE, run(errors=["first", "second"], warnings=["careful"]), "wrote no metric forward: first"),
    ("mfu within 5% of baseline", run(errors=["first", "second"]), "wrote no metric mfu: second"),
    ("hfu within 5% of baseline", run(errors=["first", "second"]), "wrote no metric hfu: second"),
    (RULE, run(series("b", [1.0]), warnings=["careful"]), "wrote no metric forward: it has b"),
    ("mfu within 5% of baseline", run(series("b", [1.0])), "wrote no metric mfu: it has b; " + COMPUTED["mfu"]),
    (
        "'forward* within 5% of baseline'",
        run(series("forward2", [1.0]), series("forward1", [1.0])),
        "forward* is 2 metrics: forward1, forward2; name one of them",
    ),
    (RULE, run(series("forward", [1.0, NAN, 1.0])), "forward has values that are not finite numbers"),
    (RULE, run(series("forward", [math.inf] * 3)), "forward has values that are not finite numbers"),
    (
        RULE,
        run(series("forward", [1.0] * 9, rank="0"), series("forward", [NAN] * 9, rank="1")),
        "forward has values that are not finite numbers",
    ),
    (RULE, run(series("forward", [0.0] * 9)), "forward is not a positive number, so a relative change does not exist"),
    (
        RULE,
        run(series("forward", [-1.0], kind="value")),
        "forward is not a positive number, so a relative change does not exist",
    ),
    (
        "forward p95 within 5% of baseline",
        run(series("forward", [1.0], kind="value")),
        "p95 is not available: forward is a single number",
    ),
]


@pytest.mark.parametrize(("rule", "one", "message"), LACKING)
def test_a_run_without_the_metric_says_why(rule: str, one: Run, message: str) -> None:
    with pytest.raises(NoMetric) as raised:
        value_in_run(ruleset(rule), one)
    assert str(raised.value) == message


def pairs(base: Sequence[Series], new: Sequence[Series], pairing: Any = "in-turn") -> Pairs:
    return Pairs((run(*base),) if base else (), (run(*new),) if new else (), pairing)


def test_the_metric_in_a_pair_is_the_ratio_of_new_to_base() -> None:
    slower = [1.1 * one * (1 + 0.01 * (number % 3)) for number, one in enumerate(STEPS)]
    found = value_in_pair(ruleset(RULE), pairs([series("forward", STEPS)], [series("forward", slower)]))
    wanted = median_ratio(np.array(STEPS), np.array(slower), 0)
    assert wanted
    assert wanted.value
    assert wanted.within_variance
    assert found == MetricValue("forward", "median", "1", "lower", wanted.value, wanted.within_variance, "s")
    assert found.value == pytest.approx(1.111, rel=0.01)
    whole = value_in_pair(ruleset(RULE), pairs([series("forward", STEPS)], [series("forward", slower)], "whole-runs"))
    assert whole.value == pytest.approx((measured(slower).value or 0.0) / (measured(STEPS).value or 1.0))


def test_a_pair_in_which_a_program_wrote_nothing() -> None:
    with pytest.raises(NoMetric, match=r"^one of the two programs wrote no metric$"):
        value_in_pair(ruleset(RULE), pairs([], []))
    with pytest.raises(NoMetric, match=r"^wrote no metric forward: it has b$"):
        value_in_pair(ruleset(RULE), pairs([series("forward", STEPS)], [series("b", STEPS)]))


def test_the_prior_is_that_of_the_baseline_or_the_default() -> None:
    rules, one = ruleset(RULE), run(series("forward", STEPS))
    assert prior_of(rules, one, Baseline(), None) == (DEFAULT.s0, DEFAULT.d0)
    assert prior_of(rules, one, Baseline(), "in-turn") == PRIORS["in-turn"]
    known = Baseline(priors=(CalibratedPrior(Key("forward"), "median", "worst", 0.004, 6.0, 5),))
    assert prior_of(rules, one, known, None) == (0.004, 6.0)


def test_utilization_is_computed_if_the_rules_have_a_model() -> None:
    one = run(series("step_time", [10.0], kind="value"))
    assert with_computed(ruleset(RULE), [one, one], {}) == (one, one)
    head = "model: {parameters: 7e9, tokens_per_step: 1e6, peak: 989 TFLOP/s}\n"
    (found,) = with_computed(ruleset(RULE, head), [one], {"gpu_count": 8})
    mfu = next(row for row in found.series if row.key.metric == "mfu")
    assert mfu.values.tolist() == pytest.approx([6 * 7e9 * 1e6 / 10 / (8 * 989e12)])
    assert [problem.severity for problem in with_computed(ruleset(RULE, head), [one], {})[0].problems] == ["error"]
