"""`perfgate attack`: find the ways in which a pull request could turn the user's own gate green."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from perfgate.analysis.attacks import Attack, rule_attacks
from perfgate.analysis.workflows import judges_pull_requests, workflow_attacks
from perfgate.cli.printing import complain, say
from perfgate.cli.shared import JUDGING, OPTIONAL_RUNS, command_options
from perfgate.commands.rules_table import tested_case
from perfgate.core import Location, Problem
from perfgate.core.wording import plural
from perfgate.documents.yaml import YamlDocument, load_document
from perfgate.workspace import surroundings
from perfgate.workspace.options import CommandOptions, Refused, shown_path


@click.command("attack")
@command_options(*OPTIONAL_RUNS, *JUDGING)
@click.option(
    "--workflows",
    default=".github/workflows",
    metavar="DIR",
    help="The workflows of GitHub Actions. [default: .github/workflows]",
)
def command(options: CommandOptions, workflows: str) -> int:
    """Attack your own rules and workflows, and name what would turn a failing gate green. Nothing is written or run.

    With runs that should pass, each rule gets a run that fails it, hidden in several ways. The exit code is 1 if an
    attack would work.

    \b
    Example: perfgate attack main-1.log main-2.log
    """
    working, tries, count, problems = attack(options, workflows)
    complained = complain(problems)
    code = 1 if working else complained
    say([f"{one.what}: {one.at}" for one in working])
    rules = f"{plural(tries, 'attack')} on rules, " if options.runs else "no run given, so no rule was attacked; "
    say([f"{len(working)} would work: {rules}{plural(count, 'workflow')} read (exit {code})"])
    return code


def attack(options: CommandOptions, workflows: str) -> tuple[list[Attack], int, int, list[Problem]]:
    """Attack rules and workflows.

    Returns the attacks that would work, the numbers of tried attacks on rules and of workflows, and problems. Raises
    Refused for mistakes in the rules, and if there is nothing to attack.
    """
    documents = list(_documents(workflows))
    if not documents and not options.runs:
        raise Refused(f"there is no workflow in {workflows}, and no run was given: give runs that should pass")
    working, tries, problems = list[Attack](), 0, list[Problem]()
    if options.runs:
        case, _, warnings = tested_case(options)
        working, tries = rule_attacks(case)
        problems += warnings
    for document in documents:
        problems += document.problems
        working += workflow_attacks(document.data, document.location)
    if documents and not any(judges_pull_requests(document.data) for document in documents):
        message = "no workflow here judges pull requests with perfgate, so every change passes"
        problems.append(Problem("error", message, Location(shown_path(workflows))))
    return list(dict.fromkeys(working)), tries, len(documents), problems


def _documents(folder: str) -> Iterator[YamlDocument]:
    """Yield the workflows in a folder. Raises Refused for one that cannot be opened."""
    surroundings.refuse_link_out(folder, "--workflows")
    for path in sorted([*Path(folder).glob("*.yml"), *Path(folder).glob("*.yaml")]):
        name = shown_path(str(path))
        try:
            if not path.is_file():
                raise Refused(f"{name}: is not a regular file", 3)
            with path.open("rb") as file:
                data = file.read(surroundings.limits().rule_bytes + 1)  # one too many, which `load_document` refuses
        except OSError as error:
            raise Refused(f"{name}: cannot be read: {error.strerror or error}", 3) from None
        yield load_document(name, data, surroundings.limits())
