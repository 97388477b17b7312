"""The command `perfgate completion`, and what a shell offers after the tab key."""

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

    from perfgate.commands.rules import names_of_rules
    from perfgate.workspace.options import Refused

    with suppress(Refused, OSError):  # a shell asks at every keystroke, and cannot show an error
        names = names_of_rules(context.params.get("rules") or ("rules",), with_metrics=with_metrics)
        # A shell would split a name with blanks into several words.
        words = (name for name in names if shlex.quote(name) == name)
        return [CompletionItem(name) for name in words if name.startswith(incomplete)]
    return []


rules_and_metrics = partial(rule_names, with_metrics=True)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the script that completes commands, options, files and rules in a shell.

    \b
    Load it when the shell starts:
      bash   eval "$(perfgate completion bash)"              in ~/.bashrc
      zsh    eval "$(perfgate completion zsh)"               in ~/.zshrc, after compinit
      fish   perfgate completion fish > ~/.config/fish/completions/perfgate.fish

    \b
    Example: perfgate completion bash
    """
    from click.shell_completion import ShellComplete, get_completion_class

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"there is no completion for {shell}")
    command = click.get_current_context().find_root().command
    # click's own `source` of bash would run bash to ask for its version; the script may be for another machine.
    click.echo(ShellComplete.source(found(command, {}, "perfgate", VARIABLE)))
    return 0
