"""The problems of a check that no verdict says: of the files that were read, and of `--only`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches

from msgspec.structs import replace

from perfgate.core import Key, Location, Problem, Run, Verdict
from perfgate.judge.case import Case
from perfgate.rules.syntax.sentence import glob_matches
from perfgate.workspace.options import shown_path


def reading_problems(runs: Sequence[Run], is_named: Callable[[Key], bool]) -> list[Problem]:
    """Return the problems of reading, one for each series; only warnings for a series that no rule reads.

    A warning that several runs of one file have is said once for the file.
    """
    groups: dict[tuple[str, str, Key | None, str], list[Problem]] = {}
    several = {file.path for run in runs if run.part is not None for file in run.files}
    for problem in dict.fromkeys(problem for run in runs for problem in run.problems):
        is_of_file = problem.severity == "warning" and problem.at.file in several
        about = "" if problem.key else problem.message if is_of_file else problem.message + str(problem.at)
        groups.setdefault((problem.at.file, problem.severity, problem.key, about), []).append(problem)
    found = []
    for first, *more in groups.values():
        others = f"of {first.key}" if first.key else "in this file"
        message = first.message + (f" (and {len(more)} more {others})" if more else "")
        is_unread = first.key is not None and not is_named(first.key)
        found.append(replace(first, message=message, severity="warning" if is_unread else first.severity))
    return found


def only_problems(only: Sequence[str], rules: str, case: Case, verdicts: tuple[Verdict, ...]) -> list[Problem]:
    """Return an error if nothing was judged, and a warning for each `--only` that matches nothing."""
    if verdicts and not only:
        return []
    at = Location(shown_path(rules))
    found = []
    if not verdicts:
        why = f"--only {' '.join(only)} matches no rule" if only else "no rule gave a verdict"
        found.append(Problem("error", f"nothing was judged: {why}", at))
    known = {name for rule in case.ruleset.rules for name in (rule.name, rule.sentence.subject_text)}
    # A glob in a rule may match any metric of the runs.
    known |= {name for run in case.new for name in run.metrics}
    for glob in dict.fromkeys(only):
        if not any(glob_matches(glob, name) for name in known):
            near = get_close_matches(glob.strip("*?"), sorted(known), n=1)
            hint = f"did you mean {near[0]!r}?" if near else "see `perfgate rules explain` for their names"
            found.append(Problem("warning", f"--only {glob} matches no rule and no metric: {hint}", at))
    return found
