"""The words that a shell offers after the tab key."""

from __future__ import annotations

import shlex
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: The environment variable with which the script asks. The name is click's own.
VARIABLE = "_PERFGATE_COMPLETE"


def files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the item that lets the shell itself complete file names."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def rule_names(
    context: click.Context, parameter: click.Parameter, incomplete: str, *, with_metrics: bool = False
) -> list[CompletionItem]:
    """Return the ids of the rules, or nothing if the rules cannot be read; also their metrics if asked for."""
    from click.shell_completion import CompletionItem

    from perfgate.rules.load import readable_rulesets
    from perfgate.workspace.options import Refused
    from perfgate.workspace.rule_source import WORKING_TREE
    from perfgate.workspace.surroundings import limits

    with suppress(Refused, OSError):  # a shell asks at every keystroke, and cannot show an error
        given = WORKING_TREE.rule_files(context.params.get("rules") or ("rules",))
        found = [rule for ruleset in readable_rulesets(given, limits()) for rule in ruleset.rules]
        names = {rule.name for rule in found}
        if with_metrics:
            names |= {rule.sentence.subject_text for rule in found}
        # A shell would split a name with blanks into several words.
        words = (name for name in sorted(names) if shlex.quote(name) == name)
        return [CompletionItem(name) for name in words if name.startswith(incomplete)]
    return []


rules_and_metrics = partial(rule_names, with_metrics=True)
