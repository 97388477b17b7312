"""`python -m perfgate` and the `perfgate` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the process ends with its exit code."""
    from perfgate.cli import run

    sys.exit(run())


if __name__ == "__main__":
    main()
