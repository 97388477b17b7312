"""Remove the text of launchers from the lines of a program: the tags of mpirun, the ranks of srun and torchrun.

    [1,0]<stdout>:      8      2   float     sum      -1[1,0]<stdout>:    65.43    0.00    0.00      0
    0:     1048576        262144     float     sum      -1    76.25   13.75   25.75      0

mpirun (`--tag-output`, Open MPI `orte/mca/iof`) tags what each process writes at once, so a line that a program prints
in pieces has several tags. The prefixes of `srun -l`, torchrun, pdsh and of logs with times are at the beginning.
"""

from __future__ import annotations

import re

_TAG = re.compile(r"\[(\d{1,6},\d{1,9})\]<std(?:out|err)>:")
_PREFIX = re.compile(
    r"\s*(?:\d{4}-\d\d-\d\dT[\d:.,]{5,20}(?:Z|[+-]\d\d:?\d\d)?\s|\[(?:rank|default)?\d{1,6}\]:\s?"
    r"|\(\w{1,40} pid=\d{1,9}[^)]{0,80}\)\s|\d{1,6}: |[A-Za-z][\w.-]{0,80}: )"
)


def without_tags(line: str) -> tuple[str, str]:
    """Return the tag of mpirun (`1,0`) and the line without any; the tag is empty if there is none."""
    if ">:" not in line:
        return "", line
    found = _TAG.search(line)
    return (found[1], _TAG.sub("", line)) if found else ("", line)


def without_prefix(line: str) -> str:
    """Return a line without the prefixes that launchers and log collectors put before it."""
    while found := _PREFIX.match(line):
        line = line[found.end() :]
    return line
