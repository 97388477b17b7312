"""Show the answer: reports in files, annotations, the summary and the outputs of the step.

Nothing here changes the answer: an error is only a warning.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workflow import given, leads_out, perfgate, tell, truth

FORMS = ("junit", "json", "html", "markdown", "sarif")
#: In seconds: rendering a report is quick, and must not delay the answer.
LONGEST_RENDERING = 300


@dataclass(frozen=True, slots=True)
class Answer:
    """The exit code and outcome of perfgate, and its report in JSON, if there is one."""

    code: int
    outcome: str = "error"
    counts: Mapping[str, int] = field(default_factory=dict)
    report: Path | None = None


def publish(answer: Answer) -> list[str]:
    """Show the report as the inputs ask; return the forms that were written."""
    if answer.report is None:
        remove_old()
        return []
    try:
        written = [form for form in FORMS if given(form) and write(form, answer.report)]
        annotate(answer.report)
    except Exception as error:  # nothing here changes the answer
        tell("warning", f"the report could not be shown in full: {error}")
        return [form for form in FORMS if given(form) and os.path.isfile(given(form))]
    return written


def remove_old() -> None:
    """Remove reports of an earlier run: nothing can be written in their place."""
    for form in FORMS:
        place = Path(given(form) or os.devnull)
        try:
            if place.is_file() and not leads_out(place):
                place.unlink()
        except OSError as error:
            tell("warning", f"the old {form} report {place} could not be removed: {error}")


def write(form: str, report: Path) -> bool:
    """Write the report in one form; return whether that worked."""
    place = Path(given(form))
    if leads_out(place):
        tell("warning", f"the {form} report was not written: a link in {place} leads out of the workspace")
        return False
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)  # an old report must not look like this one
    except OSError as error:
        tell("warning", f"the {form} report could not be written to {place}: {error}")
        return False
    done = show(report, "--no-github", f"--{form}={place}")
    if not place.is_file():
        tell("warning", f"the {form} report could not be written to {place}: {done.stderr.strip()}")
    return place.is_file()


def annotate(report: Path) -> None:
    """Print annotations, and write the summary of the step."""
    environment = dict(os.environ)
    if not truth("summary"):
        environment.pop("GITHUB_STEP_SUMMARY", None)
    done = show(report, "--github", environment=environment)
    if truth("annotations"):  # the report itself is in the log already
        print("\n".join(line for line in done.stdout.split("\n") if line.startswith("::")), flush=True)
    if done.stderr:
        tell("warning", done.stderr.strip())


def show(report: Path, *options: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run `perfgate report` on the report. Its exit code, that of the report, does not matter here."""
    return subprocess.run(
        perfgate("report", "--quiet", *options, "--", str(report)),
        env=environment,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=LONGEST_RENDERING,
        check=False,
    )


def outputs(answer: Answer, written: Sequence[str]) -> dict[str, str]:
    """Return the outputs of the step, by their names in `action.yml`."""
    counts = answer.counts
    return {
        "outcome": answer.outcome,
        "exit-code": str(answer.code),
        "counts": json.dumps(counts, sort_keys=True),
        "failed": str(counts.get("fail", 0)),
        "undecided": str(counts.get("undecided", 0)),
        **{f"{form}-path": given(form) for form in written},
    }
