"""A recording that was not closed, `perfgate.recording/1`: what `perfgate.Recorder` had written when its program died.

Lines of JSON: the run, then pieces of its series in the words of `perfgate.results/1`, as `perfgate.recorder.journal`
says. A recording that still runs, and a closed one too large for one document, are read, too. A last line that is cut
short is what killing a program leaves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perfgate.core import Key, Run
from perfgate.core.units import Unit, find_unit
from perfgate.documents.json import load_json
from perfgate.readers.builder import RunBuilder, in_base
from perfgate.readers.text import Document

if TYPE_CHECKING:
    from perfgate.readers.recorded.results_form import SeriesForm

NAME = "recording"
SCHEMA = "perfgate.recording/1"

_OPEN = "the recording was not closed: the program ended early, or still runs; what it wrote until then is read"


def read(document: Document) -> tuple[Run, ...]:
    """The one run of a recording."""
    run = _Recording(document)
    for number, text, _, ended in document.lines():
        if text.strip():
            run.line(text, number, ended)
    run.end()
    return (run.run(),)


class _Recording(RunBuilder):
    """A recording while it is read."""

    def __init__(self, document: Document) -> None:
        super().__init__(document, NAME)
        self._begun = False
        self._closed = False

    def line(self, text: str, number: int, ended: bool) -> None:
        """One line; nothing comes after the end, and before the beginning there is nothing to read."""
        loaded = load_json(text, self.document.name, finite=False)
        content = loaded.data
        if loaded.problems or not isinstance(content, dict):
            if ended:
                what = loaded.problems[0].message if loaded.problems else "this is no JSON object"
                self.say_some("error", "a line that cannot be read", number, f": {what}")
        elif not self._begun:
            self._begin(content, number)
        elif "metric" in content:
            self._piece(content, number)
        elif isinstance(content.get("environment"), dict):
            self._facts(content["environment"], number)
        elif content.get("closed") is True:
            self._closed = True
        else:
            self.say_some("error", "a line that is no part of a recording", number)

    def _begin(self, content: Mapping[str, Any], number: int) -> None:
        self._begun = True
        if content.get("schema") != SCHEMA:
            self.say("error", f"schema {content.get('schema')!r} is not read; known is {SCHEMA!r}", number)
        if isinstance(content.get("commit"), str):
            self.commit = content["commit"]
        if isinstance(content.get("environment"), dict):
            self._facts(content["environment"], number)

    def _facts(self, facts: Mapping[str, object], number: int) -> None:
        """Facts of the run; those that are written later are known better, so they count."""
        for name, fact in facts.items():
            if name and isinstance(fact, str | int | float):
                self.facts[name] = fact
            else:
                self.say_some("error", "a fact that is no text, number or truth value", number)

    def _piece(self, content: Mapping[str, Any], number: int) -> None:
        import msgspec

        from perfgate.readers.recorded.results_form import SeriesForm

        try:
            piece = msgspec.convert(content, SeriesForm)
        except msgspec.ValidationError as error:
            self.say_some("error", "a series that cannot be read", number, f": {error}".replace("`", "'"))
            return
        unit = find_unit(piece.unit) or (Unit("1", "1", 1.0) if piece.unit == "1" else None)
        if unit is None:
            self.say_some("error", "a series in an unknown unit", number, f": {piece.unit!r}")
        else:
            self._numbers(Key.of(piece.metric, **piece.labels), unit, piece, number)

    def _numbers(self, key: Key, unit: Unit, piece: SeriesForm, number: int) -> None:
        """The next values of a series, or its one value."""
        per = 1 / unit.factor if unit.factor > 1 else float(round(1 / unit.factor))
        if isinstance(piece.value, float):
            if self._is_possible(key, piece.value, unit, number):
                self.one_value(key, unit.base, in_base(piece.value, per))
            return
        values = piece.values or []
        steps = piece.steps or [0] * len(values)
        if not values or len(steps) != len(values):
            self.say_some("error", "a series without values, or with another number of steps", number)
            return
        column = self.column(key, unit.base, per)
        for value, step in zip(values, steps, strict=True):
            if self._is_possible(key, value, unit, number):
                column.values.append(value)
                column.steps.append(step)

    def _is_possible(self, key: Key, value: float, unit: Unit, number: int) -> bool:
        """Whether a value can be a measurement; it is refused if not."""
        possible = math.isfinite(value) and (unit.base != "s" or value >= 0)
        if not possible:
            self.refuse(key, f"{value} {unit.symbol} is no measurement; left out", number)
        return possible

    def end(self) -> None:
        """What the whole file says: whether it was closed, and which series have steps."""
        if not self._closed:
            self.say("warning", _OPEN)
        for column in self.columns.values():
            if not any(column.steps):
                del column.steps[:]
