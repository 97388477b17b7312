"""`perfgate explain`: how the outcome of a stored verdict follows from its numbers."""

from __future__ import annotations

from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

import click

from perfgate.cli.printing import say
from perfgate.cli.shared import files
from perfgate.core import Report
from perfgate.core.verdicts import verdict_ids
from perfgate.core.wording import listed, one_line, series_name
from perfgate.measuring.kept_runs import KEEP
from perfgate.reporters.json_report import SCHEMA
from perfgate.words.answer import worst_first
from perfgate.words.calculation import calculation
from perfgate.words.numbers import what
from perfgate.workspace.options import Refused

#: The first bytes of a report, in which it names its schema.
_HEAD = 200


@click.command("explain")
@click.argument("verdict")
@click.argument("report", required=False, metavar="[REPORT.json]", shell_complete=files)
def command(verdict: str, report: str | None) -> int:
    """Show how a stored verdict was computed: means, change, standard error, t quantile, bound, tolerance, outcome.

    VERDICT is a rule or a metric, as a report prints it. Without REPORT, it is the newest one here or in
    perfgate-runs/. `perfgate rules explain` says what a rule means.

    \b
    Example: perfgate explain forward h100.json
    """
    from perfgate.commands.report import merged

    path = report or newest_report()
    return say(explained(merged([path]), verdict, path))


def newest_report() -> str:
    """Return the newest report in JSON in this folder and in that of kept runs. Raises Refused."""
    paths = [path for folder in (Path(), Path(KEEP)) for path in folder.glob("*.json") if path.is_file()]
    reports = []
    for path in paths:
        with suppress(OSError), path.open("rb") as file:
            if SCHEMA.encode() in file.read(_HEAD):
                reports.append(path)
    if not reports:
        raise Refused("no report found: write one with `perfgate check --json perfgate.json`")
    return str(max(reports, key=lambda path: path.stat().st_mtime_ns))


def explained(report: Report, name: str, path: str) -> list[str]:
    """Return the lines that explain the verdict of this name, or the worst of several. Raises Refused."""
    ids = verdict_ids(report.verdicts)
    named = []  # each verdict, with all names that a report prints for it
    for one, own in zip(report.verdicts, ids, strict=True):
        metric, about = series_name(one.metric, one.labels), what(one)
        named.append(((own, one.rule, one.metric, metric, about, f"{about} {one.asks}", str(one.at)), one))
    found = worst_first(verdict for names, verdict in named if name in names)
    if not found:
        if not report.verdicts:
            raise Refused(f"{path} has no verdict: {listed([one.message for one in report.problems]) or 'empty'}", 3)
        near = get_close_matches(name, sorted({one for names, _ in named for one in names}), n=1)
        step = f"did you mean {near[0]!r}?" if near else f"it has {listed([what(one) for one in report.verdicts])}"
        raise Refused(f"{path} has no verdict {name!r}; {step}")
    others = [f"{what(one)} {one.asks}" for one in found[1:]]
    more = [f"also called {name}: {listed(others)}"] if others else []
    return [one_line(line) for line in (*calculation(found[0]), f"from {path}", *more)]
