"""Annotations: goldens, and what the runner's own parsers make of any report."""

import pytest
from any_report import HOSTILE, briefly, reports
from goldens import check_golden, without_sentences
from hypothesis import given
from msgspec.structs import replace
from runner import commands
from sample_verdicts import FAILED_CHANGE, WARNED_CHANGE, change
from samples import ALL_PASS, EVERY_OUTCOME, WITH_MANY

from perfgate.core import NextStep
from perfgate.core.wording import clip, one_line, without_commands
from perfgate.reporters.github import render

LEVELS = ["error", "warning", "notice"]


@pytest.mark.parametrize("name", ["every_outcome", "with_causes", "learned", "nothing_judged"])
def test_golden(name):
    check_golden(f"{name}.github.txt", without_sentences(render, WITH_MANY[name]))


@briefly
@given(reports)
def test_every_line_is_one_annotation_the_worst_level_first(report):
    text = render(report)
    found = commands(text)
    assert len(found) == text.count("\n")
    assert all(line.isprintable() for line in text.split("\n"))
    levels = [command.name for command in found]
    assert levels == sorted(levels, key=LEVELS.index)
    assert all(levels.count(level) <= 10 for level in LEVELS)
    assert bool(report.exit_code) <= ("error" in levels)
    assert all(set(command.properties) <= {"file", "line", "col", "title"} for command in found)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_stays_text(hostile):
    verdict = replace(
        FAILED_CHANGE, metric=hostile, message=f"{hostile}%0A::error::", at=replace(FAILED_CHANGE.at, file="x")
    )
    [command] = commands(render(replace(ALL_PASS, exit_code=1, outcome="fail", verdicts=(verdict,))))
    title, first = command.properties["title"], command.data.split("\n")[0]
    assert command.properties == {"file": "x", "line": "7", "col": "5", "title": title}
    assert title == shown(f"fail: {hostile} median", 200)
    assert first == shown(f"{hostile}%0A::error::", 2_000)


def shown(text, longest):
    return without_commands(one_line(clip(text, longest)))


def test_the_place_is_that_of_the_rule_and_the_message_says_what_to_do():
    [command] = commands(render(replace(ALL_PASS, exit_code=1, outcome="fail", verdicts=(FAILED_CHANGE,))))
    assert (command.properties["file"], command.properties["line"]) == ("rules/training.yaml", "7")
    assert command.data.startswith(f"{FAILED_CHANGE.message}\n→ {FAILED_CHANGE.next_step.text}\n")
    assert "backward 115% [102%, 127%] of the change" in command.data


def test_at_most_nine_of_a_level_and_a_count_of_the_others():
    failures = tuple(replace(FAILED_CHANGE, metric=f"m{i}") for i in range(12))
    warnings = tuple(replace(WARNED_CHANGE, metric=f"w{i}") for i in range(10))
    found = commands(render(replace(EVERY_OUTCOME, verdicts=(*warnings, *failures), problems=())))
    assert [command.name for command in found] == ["error"] * 10 + ["warning"] * 10
    assert found[9].data == "3 more: see the report"
    assert found[19].data == "1 more: see the report"


def test_a_pass_is_silent_and_an_improvement_a_notice():
    assert render(ALL_PASS) == ""
    step = NextStep("approve", "approve it to keep the gain")
    better = change(improved=True, message="forward is faster", next_step=step)
    [command] = commands(render(replace(ALL_PASS, verdicts=(better,))))
    assert (command.name, command.data) == ("notice", "forward is faster\n→ approve it to keep the gain")
