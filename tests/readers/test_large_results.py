"""Results that are too large to be read as a whole: the same series, problems and places, whatever is wrong."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import said
from test_number_lists import documents

from perfgate.core import Run
from perfgate.core.resource_limits import DEFAULT, Limits
from perfgate.large_values.array import LargeArray
from perfgate.readers import Source, read, text
from perfgate.readers import recorded as results
from perfgate.readers.recorded import large_lists, large_results
from perfgate.workspace.output_files import open_scratch


def runs(document: str | bytes, limits: Limits = DEFAULT) -> tuple[Run, ...]:
    data = document.encode("utf-8", "surrogatepass") if isinstance(document, str) else document
    return read(Source("big.json", [data], limits, scratch=open_scratch), "perfgate")


def everything(document: str) -> object:
    return [
        (
            [(str(one.key), one.unit, one.kind, np.asarray(one.values).tobytes(), one.aggregate) for one in run.series],
            [None if one.steps is None else np.asarray(one.steps).tolist() for one in run.series],
            said(run),
            run.commit,
            run.environment,
        )
        for run in runs(document)
    ]


def assert_same(document: str, piece: int = 6, block: int = 11) -> None:
    whole = everything(document)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(results, "WHOLE_BYTES", 0)
        patch.setattr(large_results, "IN_MEMORY", 0)
        patch.setattr(large_lists, "_PIECE", piece)
        patch.setattr(text, "BLOCK", block)
        assert everything(document) == whole


@settings(max_examples=25)
@given(documents(), st.integers(1, 99))
def test_a_large_document_is_read_as_a_small_one(document, piece):
    if "\\u0" not in document:
        assert_same(document, 1 + piece % 40, piece)


ROW = '{"schema": "perfgate.results/1", "series": [{"metric": "a", "unit": "s", '


@pytest.mark.parametrize(
    "row",
    [
        '"values": [' + ",\n".join(["1.5", "-2.5", "NaN"] * 30) + "]",
        '"values": [1, 2, "x, ]\\"", 3]',
        '"values": [1, 2, {"values": [3]}, [4, 5], 6]',
        '"values": [1, [2',
        '"values": [1, 2, "x',
        '"values": [1, 2\n, a, 3]',
        '"values": [1, 2,, 3]',
        '"values": [1, 2, 1 2]',
        '"values": [ \n ], "steps": [\n]',
        '"values": [1, -2, NaN, 4, 1e999], "steps": [10, 20, 30, 40, 50]',
        '"values": [1, 2], "steps": [10]',
        '"values": [1, 2], "steps": [10, -3]',
        '"values": [1, 2], "steps": [10, 3.5]',
        '"values": [1, 2], "values": [3, 4, 5]',
        '"values": [1, 2], "value": 5',
        '"labels": {"values": [1]}, "values": [1, 2]',
        '"labels": {"steps": "a: \\"values\\": [7, 8"}, "values": [1, 2]',
        '"labels": {"ä": "\u00fc"}, "values": [1, "\u00e4\u2028", 2], "unknown": 3',
        '"values"  \n : \t [1, 2]',
    ],
)
def test_odd_rows_are_read_as_in_a_small_document(row: str) -> None:
    for piece, block in ((1, 3), (6, 11), (50, 7), (1 << 20, 1 << 17)):
        assert_same(ROW + row + "}]}\n", piece, block)


def test_numbers_of_a_large_document_are_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "WHOLE_BYTES", 1000)
    monkeypatch.setattr(large_results, "BLOCK", 100)
    values = [round(at / 7, 3) for at in range(300)]
    rows = [{"metric": name, "unit": "ms", "values": values[:count]} for name, count in (("many", 300), ("few", 99))]
    document = json.dumps({"schema": "perfgate.results/1", "series": rows}).encode()
    for data in (document, gzip.compress(document)):
        (run,) = runs(data)
        many, few = (series.values for series in run.series)
        assert (isinstance(many, LargeArray), isinstance(few, LargeArray)) == (True, False)
        assert (many.tolist(), few.tolist()) == ([x / 1000 for x in values], [x / 1000 for x in values[:99]])


def test_a_letter_among_very_many_values_has_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "WHOLE_BYTES", 1000)
    monkeypatch.setattr(large_lists, "_PIECE", 100)
    lines = ",\n".join("0.36l2" if at == 7000 else "0.3612" for at in range(10_000))
    (run,) = runs(ROW + '"values": [\n' + lines + "]}]}")
    assert said(run)[0] == "big.json:7002:5: error: this is not JSON: Expecting ',' delimiter"


def test_a_large_document_of_something_else_names_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "WHOLE_BYTES", 1000)
    (run,) = runs(ROW + '"labels": {"a": "' + "x" * 2000 + '"}, "values": [1]}]}', Limits(document_bytes=2000))
    assert said(run)[0] == (
        "big.json: error: this document is larger, without its `values` and `steps`, than the limit "
        "document_bytes=2000 allows; to raise the limit, set PERFGATE_LIMITS=document_bytes=4000"
    )
