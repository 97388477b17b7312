"""`perfgate completion`: the script with which a shell completes words."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from perfgate.cli.entry import VARIABLE


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> int:
    """Print the script that completes commands, options, files and rules in a shell.

    \b
    Load it when the shell starts:
      bash   eval "$(perfgate completion bash)"              in ~/.bashrc
      zsh    eval "$(perfgate completion zsh)"               in ~/.zshrc, after compinit
      fish   perfgate completion fish > ~/.config/fish/completions/perfgate.fish

    \b
    Example: perfgate completion bash
    """
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"there is no completion for {shell}")
    command = click.get_current_context().find_root().command
    # click's own `source` of bash would run bash to ask for its version; the script may be for another machine.
    click.echo(ShellComplete.source(found(command, {}, "perfgate", VARIABLE)))
    return 0
