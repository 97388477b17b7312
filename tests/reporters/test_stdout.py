"""Whatever is printed in a job's log, nothing of it is a command for the runner of GitHub Actions."""

import pytest
from any_report import HOSTILE, briefly, reports
from hypothesis import given
from runner import commands
from samples import EVERY_OUTCOME

from perfgate.core import Key
from perfgate.core.summaries import RunSummary, SeriesSummary
from perfgate.reporters import RENDERERS
from perfgate.reporters.inspection import render_text
from perfgate.reporters.plain_json import render_json


@briefly
@given(reports)
def test_no_report_holds_a_command(report):
    for render in RENDERERS.values():
        assert commands(render(report)) == []
        assert all(line.isprintable() for line in render(report).split("\n"))


@pytest.mark.parametrize("hostile", HOSTILE)
def test_nor_does_what_was_read(hostile):
    series = SeriesSummary(Key.of(hostile, name=hostile), "s", "samples", 2, {"median": 1.0})
    run = RunSummary(hostile, None, hostile, hostile, {hostile: hostile}, (series,), ())
    assert commands(render_text([run])) == commands(render_json([run])) == []


def test_the_oracle_sees_commands():
    assert [command.name for command in commands("a\n  ::add-mask::x\nb ##[error]c\n::no")] == ["add-mask", "error"]
    assert commands("".join(RENDERERS[name](EVERY_OUTCOME) for name in RENDERERS)) == []
