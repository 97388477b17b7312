"""What a shell offers after the tab key: files, rules, and the script that makes it ask."""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: The variable by which the script asks; click's own name for it.
VARIABLE = "_PERFGATE_COMPLETE"


def files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What the shell itself knows of files: nothing is forced on a path that is typed."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def rule_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The ids of the rules; nothing where the rules cannot be read."""
    return _offered(context, incomplete, with_metrics=False)


def rules_and_metrics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of the rules, and the metrics that they are about."""
    return _offered(context, incomplete, with_metrics=True)


def _offered(context: click.Context, incomplete: str, *, with_metrics: bool) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from perfgate.commands.rules import names_of_rules
    from perfgate.workspace.errors import Refused

    with suppress(Refused, OSError):  # a shell asks at every keystroke: it gets no answer, and no error
        names = names_of_rules(context.params.get("rules") or ("rules",), with_metrics=with_metrics)
        # A shell would take a name with blanks for several words.
        words = (name for name in names if shlex.quote(name) == name)
        return [CompletionItem(name) for name in words if name.startswith(incomplete)]
    return []


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the script that completes commands, options, files and rules in a shell.

    \b
    Put it where the shell reads it when it starts:
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
    # The shell is whoever reads the script: the one on this machine is not asked for its version.
    click.echo(ShellComplete.source(found(command, {}, "perfgate", VARIABLE)))
    return 0
