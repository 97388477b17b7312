"""The registry of reporters."""

import subprocess
import sys

from any_report import briefly, reports
from hypothesis import given

from perfgate.reporters import RENDERERS


@briefly
@given(reports)
def test_each_gives_the_same_text_for_the_same_report(report):
    for render in RENDERERS.values():
        assert render(report) == render(report)
        assert render(report).endswith("\n")


def test_a_reporter_is_imported_when_it_is_used():
    code = "import sys, perfgate.reporters; assert not {'junit_xml', 'rich'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
