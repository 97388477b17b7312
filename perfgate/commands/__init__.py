"""The commands: read, call the stages, and return what is to be written. No click, and nothing is printed.

Each module is a command or a group of commands, except `report_details` and `rule_changes` (parts of check).

numpy is imported here first, without threads of its own: no command multiplies large matrices, and each thread takes
time to start and address space (`ulimit -v`).
"""

import os

_THREADS = "OPENBLAS_NUM_THREADS"

if _THREADS not in os.environ:
    os.environ[_THREADS] = "1"
    import numpy  # noqa: F401

    del os.environ[_THREADS]  # a measured program must not get it
