"""An editor shows the rule under the mouse in words."""

from __future__ import annotations

import pytest

from perfgate.editor.rule_text import hint

TEXT = """version: 1
metrics:
  share: forward / step
rules:
  - forward p95 under 50 ms
  - id: part
    assert: 'share within 5%
      of baseline'
    why: it should not grow
  - x undr 5 ms
"""


@pytest.mark.parametrize(
    ("line", "column", "words"),
    [
        (4, 4, "measures the 95th percentile of forward"),
        (4, 20, "passes if the whole confidence interval (95% on each side) is under 50 ms"),
        (6, 14, "where share = forward / step, step by step"),
        (7, 8, "compares with the newest runs of the current level"),
    ],
)
def test_a_rule_is_explained_where_its_sentence_is(line: int, column: int, words: str) -> None:
    found = hint("rules.yaml", TEXT, line, column)
    assert found is not None
    assert words in found.text
    assert (found.line, found.start <= column <= found.end) == (line, True)


@pytest.mark.parametrize(("line", "column"), [(0, 0), (2, 5), (8, 9), (9, 5), (99, 0)])
def test_there_is_no_hint_elsewhere(line: int, column: int) -> None:
    assert hint("rules.yaml", TEXT, line, column) is None


@pytest.mark.parametrize("text", ["", "{", "version: 1\nrules:\n  - a: [", "rules: 3"])
def test_half_written_files_have_no_hint(text: str) -> None:
    assert hint("rules.yaml", text, 0, 0) is None
