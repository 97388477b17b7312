"""A recording that was not closed, `perfgate.recording/1`: what `perfgate.Recorder` had written when its program died.

Lines of JSON: the run, then pieces of its series as in `perfgate.results/1`; `perfgate.recorder.journal` writes them.
A recording that is still running, and a closed one too large for one document, are read, too. A killed program may
leave a last line that is cut short.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from perfgate.core.wording import WHOLE_TIME
from perfgate.readers.kit import Format, InputFile, Key, Run, in_base, load_json, mapping
from perfgate.readers.recorded import INCOMPLETE, RecordedRun, SeriesForm, is_possible, per_base, unit_of
from perfgate.readers.recorded.run_times import add_run_times

NAME = "recording"
METRICS = "whatever was recorded until then"
CHECKED = "perfgate itself"
FORMAT = Format(NAME, __name__, keys="schema", outline=lambda document: document.schema("perfgate.recording/"))
SCHEMA = "perfgate.recording/1"
_OPEN = (
    "the recording was not closed: the program ended early, could not write, or is still running; "
    "what it wrote so far is read"
)


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a recording."""
    run = _Recording(file, NAME)
    for number, text, _, ended in file.lines():
        if text.strip():
            run.line(text, number, ended)
    if not run.closed:
        run.say("warning", _OPEN)
    for column in run.columns.values():
        if not any(column.steps):  # `_piece` gives step 0 to values without steps
            del column.steps[:]
    if any(key.metric == WHOLE_TIME for key in run.finished):
        add_run_times(run)
    return (run.run(),)


class _Recording(RecordedRun):
    """The run of a recording while its lines are read."""

    #: True after the first line, and after the line that says that the recording was closed.
    begun = False
    closed = False

    def line(self, text: str, number: int, ended: bool) -> None:
        """Read one line: the run at first, then pieces of series, facts, reasons, the call tree, and the end."""
        loaded = load_json(text, self.file.name, finite=False)  # `is_possible` refuses what is not finite
        content = loaded.data
        if loaded.problems or not isinstance(content, dict):
            if ended:
                what = loaded.problems[0].message if loaded.problems else "this is not a JSON object"
                self.say("error", "a line cannot be read", number, f": {what}")
        elif not self.begun:
            self._begin(content, number)
        elif "metric" in content:
            self._piece(content, number)
        elif isinstance(content.get("environment"), dict):
            self._facts(content["environment"], number)
        elif isinstance(content.get("incomplete"), str):
            self.say("warning", INCOMPLETE, number, f": {content['incomplete']}")
        elif isinstance(content.get("call_tree"), str):
            self.call_tree = content["call_tree"]
        elif content.get("closed") is True:
            self.closed = True
        else:
            self.say("error", "a line is not part of a recording", number)

    def _begin(self, content: Mapping[str, Any], number: int) -> None:
        """Read the first line: the schema, the commit and facts."""
        self.begun = True
        schema = content.get("schema")
        if schema != SCHEMA:
            self.say("error", f"the schema {schema!r} is unknown; perfgate reads {SCHEMA!r}", number)
        if isinstance(content.get("commit"), str):
            self.commit = content["commit"]
        self._facts(mapping(content.get("environment")), number)

    def _facts(self, facts: Mapping[str, object], number: int) -> None:
        """Keep facts of the run; later ones replace earlier ones, because the program then knows more."""
        for name, fact in facts.items():
            if name and isinstance(fact, str | int | float):
                self.facts[name] = fact
            else:
                self.say("error", "a fact is not a text, number or truth value", number)

    def _piece(self, content: Mapping[str, Any], number: int) -> None:
        """Add a single value, or more values to a series."""
        try:
            piece = msgspec.convert(content, SeriesForm)
        except msgspec.ValidationError as error:
            self.say("error", "a series cannot be read", number, f": {error}".replace("`", "'"))
            return
        if (unit := unit_of(piece.unit)) is None:
            self.say("error", "a series has an unknown unit", number, f": {piece.unit!r}")
            return
        key, values = Key.of(piece.metric, **piece.labels), piece.values or []
        steps = piece.steps or [0] * len(values)
        if isinstance(piece.value, float):
            if is_possible(self, key, piece.value, unit, number):
                self.one_value(key, unit.base, in_base(piece.value, per_base(unit)))
        elif not values or len(steps) != len(values):
            self.say("error", "a series has no values, or another number of steps than values", number)
        else:
            self.file.coverage.lines.tell(number)  # all its numbers are read here
            column = self.column(key, unit.base, per_base(unit))
            for value, step in zip(values, steps, strict=True):
                if is_possible(self, key, value, unit, number):
                    column.values.append(value)
                    column.steps.append(step)
