"""What ends a command early."""

from __future__ import annotations


class Refused(Exception):
    """A command that cannot go on: what is wrong and what to do, and the exit code.

    2 is usage or configuration, 3 could not judge, 1 a refused addition or approval.
    """

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code
