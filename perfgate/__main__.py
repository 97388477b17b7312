"""The entry of the `perfgate` command and of `python -m perfgate`."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command line; the process ends with its exit code."""
    gc.disable()  # a command is short and makes hardly any cycles; collecting them takes a tenth of its time
    try:
        from perfgate.cli.entry import run

        code = run()
    except KeyboardInterrupt:
        code = 130  # 128 + SIGINT, as shells say
    except MemoryError:  # here, or when the message of another error was made
        os.write(2, b"error: there is not enough memory: raise the limit (ulimit -v) or use a smaller input\n")
        code = 3
    sys.exit(code)


if __name__ == "__main__":
    main()
