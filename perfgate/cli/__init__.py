"""The command line: parse, call the command's function in `perfgate.commands`, write, and choose the exit code.

Only click is imported here at start-up; everything else when a command runs. `entry` is the way in and out, `options`
what commands share, `terminal` how they print; every other module holds the commands of its name.
"""

from __future__ import annotations

from perfgate.cli.entry import main, run

__all__ = ["main", "run"]
