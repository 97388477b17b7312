"""Proposed mappings, as a `perfgate.yaml` to paste."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.core.file_mappings import MappingSuggestion
from perfgate.core.wording import MAPPING_FILE, one_line, plural

#: The most problems that are shown.
_MOST = 5


def render_suggestions(found: Sequence[MappingSuggestion]) -> str:
    """Return YAML with a comment for each file: how much the mapping reads of it, and with which problems."""
    lines = [f"# Write this to rules/{MAPPING_FILE}, check names, units and labels, and try it: perfgate inspect FILE"]
    lines.append("mappings:")
    written: set[tuple[str, ...]] = set()
    for one in found:
        runs = f" in {plural(one.runs, 'run')}" if one.runs > 1 else ""
        lines.append(one_line(f"  # {one.file}: {plural(one.metrics, 'metric')}, {plural(one.values, 'value')}{runs}"))
        lines += [one_line(f"  #   {problem}") for problem in one.problems[:_MOST]]
        if more := len(one.problems) - _MOST:
            lines += [f"  #   and {plural(more, 'more problem')}"] if more > 0 else []
        lines += [] if one.lines in written else one.lines
        written.add(one.lines)
    return "\n".join(lines) + "\n"
