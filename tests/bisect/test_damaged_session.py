"""Files of a search that a commit changed, which is measured where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfgate.bisect import session
from perfgate.workspace.options import Refused

SOUND = '{"number": 1, "position": 0, "item": "x", "session": 1, "at": 0.5, "paired": false, "value": 0.1}'
DAMAGED = (
    "",
    "[" * 99_999,
    '{"a":' * 99_999,
    "{}",
    "[]",
    "null",
    '{"x": 1}',
    "NaN",
    "\0",
    SOUND.replace("1,", '"1",', 1),
)


WORDS = (
    ("0.1", "1e999"),
    ("0.1", "1" + "0" * 400),
    ("0.1", '0.1, "skipped": 7'),
    ('"x"', '"\\u0000"'),
    (": 0,", f": {2**63},"),
    (": 0,", ": -3,"),
    ('"at": 0.5', '"at": "x"'),
)


@pytest.mark.parametrize("text", [*DAMAGED, *(SOUND.replace(*words) for words in WORDS)], ids=lambda text: text[:20])
def test_a_damaged_file_is_said(tmp_path: Path, text: str) -> None:
    file = tmp_path / "1.json"
    file.write_text(text)
    with pytest.raises(Refused, match=r"is damaged.*: remove it, and measure again"):
        session._stored(file, 9)
    file.write_text(SOUND)
    assert session._stored(file, 9).value == 0.1
