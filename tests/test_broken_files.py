"""The exit codes of `inspect` and `check` on every broken file of the shared corpus but traces."""

import csv

import pytest
from conftest import SHARED, write_rules

pytestmark = pytest.mark.shared
BROKEN = SHARED / "corpus/broken"


def rows():
    table = BROKEN / "EXPECTED.tsv"
    if not table.exists():
        return []
    with table.open(encoding="utf-8") as file:
        found = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row for row in found if not row["file"].startswith("trace_")]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["file"])
def test_exit_codes(perfgate, folder, row):
    write_rules(folder, row["with the rule"])
    for command in ("inspect", "check"):
        done = perfgate(command, BROKEN / row["file"])
        assert str(done.code) in row[f"exit of {command}"].split(" or "), done.said
        assert "Traceback" not in done.said.replace("the log ends in a traceback", "")
