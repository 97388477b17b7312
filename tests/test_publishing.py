"""Reports go where the options of every command say, and a report that cannot be written is an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest
from conftest import Done, steady, write_log, write_rules

from perfgate.cli.shared import Publication, report_options
from perfgate.core import Report
from perfgate.reporters import RENDERERS

OPTIONS = [
    # the words of a command line, and what they ask for
    ([], Publication({}, github=False, quiet=False, verbose=False)),
    (["-q"], Publication({}, github=False, quiet=True, verbose=False)),
    (["--quiet", "--verbose"], Publication({}, github=False, quiet=True, verbose=True)),
    (["-v", "--github"], Publication({}, github=True, quiet=False, verbose=True)),
    (["--no-github", "--json", "-"], Publication({"json": "-"}, github=False, quiet=False, verbose=False)),
    (
        ["--sarif", "a", "--html", "b", "--junit", "c", "--markdown", "d", "--comment", "e"],
        Publication(
            {"sarif": "a", "html": "b", "junit": "c", "markdown": "d", "comment": "e"},
            github=False,
            quiet=False,
            verbose=False,
        ),
    ),
]


@pytest.mark.parametrize(("words", "expected"), OPTIONS)
def test_what_the_options_ask_for(words: list[str], expected: Publication, folder: Path) -> None:
    @click.command()
    @report_options
    def command(publication: Publication) -> Publication:
        return publication

    assert command.main(words, standalone_mode=False) == expected


def test_a_report_that_cannot_be_written_is_said_and_counts_as_usage(
    perfgate: Callable[..., Done], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(report: Report) -> str:
        raise ValueError("a fault")

    monkeypatch.setitem(RENDERERS, "junit", broken)
    write_rules(folder, "forward under 1 s")
    write_log(folder / "new.log", forward=steady(100))
    done = perfgate("check", "new.log", "--junit", "junit.xml")
    assert (done.code, done.err) == (2, "error: the junit report could not be written to junit.xml: a fault\n")
    assert "forward" in done.out
