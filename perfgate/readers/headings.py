"""Headings between the results of a log: `### GPU 0 ONLY ###`, `=== ring ===`, `// not charging`."""

from __future__ import annotations

import re

_FENCES = (b"##", b"==", b"--", b"**", b"//", b">>")
_HEADING = re.compile(r"(?:#{2,}|={3,}|-{3,}|\*{3,}|/{2,}|>{2,})[ \t]*(\w.{0,78}?)[ \t]*[#=*/<-]*")
#: The parts of a heading that differ between repetitions: their numbers, dates and times, and ids of jobs.
_SAME = re.compile(
    r"\b(?:run|iteration|iter|trial|repeat|repetition|rep|pass|round|attempt|sample|test|job|pid|no\.?)[ \t#:_-]*\d+"
    r"(?:[ \t]*(?:/|of)[ \t]*\d+)?"
    r"|\d{4}-\d\d-\d\d|\d{1,2}:\d\d\S*|\d{6,}|\d+(?:\.\d+)?[ \t]*(?:ms|s|secs?|seconds?|min|minutes?|h)\b",
    re.IGNORECASE,
)
_MOST = 1000


class Headings:
    """The headings of a text so far, by their lines."""

    def __init__(self) -> None:
        self._found: dict[int, str] = {}

    def look(self, number: int, line: bytes) -> bool:
        """Keep a line if it is a heading, and return whether it is one."""
        text = line.strip()
        if text[:2] not in _FENCES or len(self._found) >= _MOST:
            return False
        if found := _HEADING.fullmatch(text.decode("utf-8", "replace")):
            self._found[number] = " ".join(_SAME.sub(" ", found[1]).split())
        return bool(found)

    def above(self, line: int) -> str:
        """Return the last heading above a line, without what numbers repetitions; empty if there is none."""
        return self._found[max(above)] if (above := [one for one in self._found if one < line]) else ""
