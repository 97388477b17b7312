"""The short report of a terminal: goldens, what a line joins, and how long it is."""

import pytest
from goldens import check_golden
from msgspec.structs import replace
from sample_verdicts import FAILED_LIMIT, change
from samples import ALL_PASS, EVERY_OUTCOME, WITH_CAUSES, WITH_MANY

from perfgate.core import Location, NextStep, Problem, RelativeChange
from perfgate.core.details import WorkDifference
from perfgate.reporters.terminal import render
from perfgate.words import in_short, numbers

FAILED = {"outcome": "fail", "exit_code": 1, "reason": "interval"}


def with_verdicts(*verdicts, **fields):
    return replace(EVERY_OUTCOME, verdicts=verdicts, causes=None, problems=(), unruled=(), **fields)


def slower(size, **fields):
    return change(change=RelativeChange(size, size - 0.01, size + 0.01), **FAILED, **fields)


@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize("name", ["every_outcome", "with_causes", "many", "learned", "nothing_judged"])
def test_golden(name, width):
    check_golden(f"short-{name}-{width}.txt", render(WITH_MANY[name], width=width))


def test_a_pass_is_one_line():
    [line] = render(ALL_PASS).splitlines()
    assert line.startswith("PASS  ")


def test_causes_of_warnings_are_shown():
    assert "2  replaced: forward / aten::softmax" in render(replace(WITH_CAUSES, outcome="pass", exit_code=0))


def test_without_a_cause_the_notes_are_shown():
    assert WITH_CAUSES.causes is not None
    assert "NOTE of the causes" in render(replace(WITH_CAUSES, causes=replace(WITH_CAUSES.causes, causes=())))


def test_the_first_and_the_last_line_are_the_answer():
    lines = render(EVERY_OUTCOME).splitlines()
    assert lines[0] == lines[-1] == render(EVERY_OUTCOME, quiet=True).strip()


def test_labels_of_one_metric_are_one_line():
    verdicts = [
        slower(size, metric="took", labels={"method": method, "host": "a"})
        for method, size in (("GET", 0.146), ("POST", 0.152))
    ]
    [line] = in_short.lines(with_verdicts(*verdicts))
    assert (line.name, line.measured) == ('took{host="a"} median on GET, POST', "+14.6% to +15.2%")
    assert line.worst.labels["method"] == "POST"


@pytest.mark.parametrize(
    ("comparator", "bound", "values", "worst"),
    [
        ("at most", 0.0, (1.0, 7.0, 3.0), 7.0),
        ("at most", 50.0, (60.0, 90.0, 70.0), 90.0),
        ("at most", -50.0, (-40.0, -10.0, -30.0), -10.0),
        ("at least", 0.0, (-1.0, -7.0, -3.0), -7.0),
        ("at least", 50.0, (40.0, 10.0, 30.0), 10.0),
    ],
)
def test_a_line_about_a_limit_on_several_ranks_has_the_numbers_of_the_worst(comparator, bound, values, worst):
    base = replace(FAILED_LIMIT, comparator=comparator, bound=bound, unit="1", share=None)
    verdicts = [
        replace(base, member={"rank": str(rank)}, new=replace(base.new, estimate=value, low=value, high=value))
        for rank, value in enumerate(values)
    ]
    [line] = in_short.lines(with_verdicts(*verdicts))
    assert (line.worst.new.estimate, line.measured) == (worst, f"{worst:g}")


def test_a_change_without_a_base_has_no_second_number():
    verdict = change(base=None, change=RelativeChange(None, None, None))
    assert numbers.measured(verdict) == [numbers.value_text(verdict.new.estimate, verdict)]


def test_median_and_mean_of_a_metric_are_one_line():
    [line] = in_short.lines(with_verdicts(slower(0.1), slower(0.2, statistic="mean")))
    assert line.worst.statistic == "mean"


def test_warnings_and_failures_are_two_lines():
    found = in_short.lines(with_verdicts(slower(0.1), replace(slower(0.1), exit_code=0, severity="warning")))
    assert [line.name.endswith("(warning only)") for line in found] == [False, True]


def test_a_warning_about_work_that_a_failure_names_is_not_repeated():
    grown = WorkDifference("work.kernels", {}, {}, 385, 543)
    failed = slower(0.1, metric="work", work=(grown,))
    warned = replace(failed, exit_code=0, severity="warning")
    assert len(in_short.lines(with_verdicts(failed, warned))) == 1
    assert len(in_short.lines(with_verdicts(warned))) == 1
    other = replace(warned, work=(grown, WorkDifference("work.syncs", {}, {}, 1, 7)))
    assert len(in_short.lines(with_verdicts(failed, other))) == 2


def test_the_next_step_of_a_failure_is_not_that_of_a_doubt():
    again = slower(0.1, next_step=NextStep("run-again", "run the new code twice more"))
    doubt = replace(again, outcome="undecided", exit_code=3)
    undo = NextStep("find-cause", "find the new calls")
    everything = NextStep("approve", "If the changes are intended, approve them", command="perfgate baseline approve n")
    found = with_verdicts(doubt, slower(0.2, metric="work", next_step=undo), accept=everything)
    assert in_short.next_step(found) == undo


def test_errors_that_say_the_same_are_one_line():
    bare = {"change": None, "new": None, "base": None, "outcome": "error", "exit_code": 3}
    verdicts = [
        change(metric=name, message=f"the baseline has no metric `{name}`", **bare) for name in ("forward", "backward")
    ]
    [line] = in_short.lines(with_verdicts(*verdicts))
    assert line.name.startswith("forward median, backward median")


def test_there_is_one_next_step():
    approve = NextStep("approve", "if the change is intended, approve it", command="perfgate baseline approve new.log")
    all_of_them = replace(approve, text="If the changes are intended, approve them")
    one = with_verdicts(slower(0.1, next_step=approve), accept=all_of_them)
    assert in_short.next_step(one) == approve
    two = with_verdicts(slower(0.1, next_step=approve), FAILED_LIMIT, accept=all_of_them)
    assert in_short.next_step(two) == all_of_them
    assert render(two).count("→ If the changes are intended") == 1


def test_ten_failures_are_at_most_25_lines():
    verdicts = [slower(0.1 + i / 100, metric=f"m{i}") for i in range(10)]
    assert len(render(with_verdicts(*verdicts)).splitlines()) <= 25
    assert "5 more: --verbose shows them" in render(
        with_verdicts(*verdicts, *(slower(0.1, metric=f"n{i}") for i in range(5)))
    )


def test_problems_are_always_said():
    problem = Problem("warning", "the last record is cut off; left out", Location("new.log", 3))
    assert "new.log:3: warning: the last record is cut off; left out" in render(replace(ALL_PASS, problems=(problem,)))


def test_pairs_show_the_paired_change_alone():
    [line] = in_short.lines(with_verdicts(slower(0.1), baseline="paired base (3 pairs, steps by turns)"))
    assert line.measured == "+10.0%"


def test_the_progress_joins_the_labels_of_a_metric():
    found = in_short.names([slower(0.1, labels={"method": "GET"}), slower(0.1, labels={"method": "POST"})])
    assert found == "forward median on GET, POST"


def test_a_metric_that_is_absent_with_all_its_labels_is_one_line():
    fields = {"outcome": "error", "exit_code": 3, "reason": "metric-absent", "change": None, "new": None}
    names = [
        ("GET", 'a.json has no metric forward{method="GET"}'),
        ("POST", 'a.json has no metric forward{method="POST"}'),
    ]
    verdicts = [change(labels={"method": one}, message=message, **fields) for one, message in names]
    [line] = in_short.lines(with_verdicts(*verdicts))
    assert (line.name, line.message) == ("forward median on GET, POST", "a.json has no metric forward")
