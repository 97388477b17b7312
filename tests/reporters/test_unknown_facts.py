"""Facts of the machine that no side knows: one line of a report, not one of every verdict."""

import pytest
from msgspec.structs import replace
from sample_verdicts import FAILED_LIMIT
from samples import ALL_PASS, EVERY_OUTCOME

from perfgate.reporters import RENDERERS, json_report, stored_report
from perfgate.reporters.terminal import render as render_terminal

SOME = replace(EVERY_OUTCOME, unknown_facts=("gpu", "gpu_count"))


def texts(report):
    return [
        render_terminal(report, width=200, verbose=True),
        *(RENDERERS[name](report) for name in ("markdown", "html", "junit")),
    ]


def test_a_report_says_it_once():
    for text in texts(SOME):
        assert text.replace("`", "").count("gpu, gpu_count") == 1


@pytest.mark.parametrize("report", [ALL_PASS, replace(EVERY_OUTCOME, verdicts=(FAILED_LIMIT,))])
def test_passes_and_limits_need_no_machine(report):
    for text in texts(replace(report, unknown_facts=("gpu",)))[:3]:
        assert "unknown on both sides" not in text


def test_the_stored_report_has_it():
    found, problems = stored_report.read(json_report.render(SOME).encode(), "r.json")
    assert (found, problems) == (SOME, [])
    assert "unknown_facts" not in json_report.render(EVERY_OUTCOME)
