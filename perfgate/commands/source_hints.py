"""Improve a user's command before it is measured, and say what one word in its source file would add."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePath

from perfgate.core import Run

_PYTEST, _OPTION = ("pytest", "py.test"), "--benchmark-json"
#: How long pytest may take to print its help, in s.
_PATIENCE_S = 60.0
#: What records steps, and the packages of programs whose work can be counted.
_RECORDING, _FRAMEWORKS = ("Recorder", "RecorderCallback"), {"torch", "lightning", "pytorch_lightning", "transformers"}


def with_benchmark_json(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of pytest with the option that writes the times of pytest-benchmark; other words as they are."""
    end = next((place for place, word in enumerate(words, 1) if PurePath(word).name in _PYTEST), 0)
    if not end or any(word.startswith(_OPTION) for word in words):
        return words
    with suppress(OSError, subprocess.SubprocessError):
        asked = subprocess.run([*words[:end], "--help"], capture_output=True, timeout=_PATIENCE_S, check=False)
        if _OPTION.encode() in asked.stdout:
            return (*words[:end], f"{_OPTION}={{results}}/benchmark.json", *words[end:])
    return words


def missing_work(words: Sequence[str], runs: Sequence[Run]) -> Iterator[str]:
    """Yield a hint for each source file that records steps without their exact work."""
    if any(series.key.metric.startswith("work.") for run in runs for series in run.series):
        return
    for word in words:
        with suppress(OSError, SyntaxError, ValueError):
            if word.endswith(".py") and (line := _line_without_work(ast.parse(Path(word).read_bytes()))):
                yield (
                    f"{word}:{line} records steps without their work: with `work=True` there, the gate also counts what"
                    " each step asks of the device, which is exact: one run decides"
                )


def _line_without_work(tree: ast.Module) -> int | None:
    """Return the line of the first recorder or callback without `work=True`, in a program of a known framework."""
    nodes = list(ast.walk(tree))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    if _FRAMEWORKS.isdisjoint(name.partition(".")[0] for name in names):
        return None
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    made = [call for call in calls if ast.unparse(call.func).rpartition(".")[2] in _RECORDING]
    return next((call.lineno for call in made if all(word.arg != "work" for word in call.keywords)), None)
