"""`perfgate inspect --timings`: a row for each reader, and the sum of several."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

from conftest import Done, write_log

Command = Callable[..., Done]


def test_each_reader_has_a_row(perfgate: Command, folder: Path) -> None:
    (folder / "logs").mkdir()
    text = Path(write_log(folder / "logs" / "rank0.log", forward=[100.0] * 30)).read_bytes()
    (folder / "logs" / "rank1.log.gz").write_bytes(gzip.compress(text))
    (folder / "r.json").write_text('{"schema": "perfgate.results/1", "series": []}')
    done = perfgate("inspect", "--timings", "logs", "r.json")
    assert done.code == 0, done.said
    head, *rows = [re.split(r" {2,}", line) for line in done.out.splitlines()]
    assert head == ["reader", "files", "MB", "load", "read", "summarise", "MB/s read"]
    assert {row[0]: row[1] for row in rows} == {"deepspeed": "2", "perfgate": "1", "all": "3"}
    stored = sum(path.stat().st_size for path in (folder / "logs").iterdir()) + len((folder / "r.json").read_text())
    assert abs(float(rows[-1][2]) * 1e6 / stored - 1) < 0.01
    assert all(float(cell.removesuffix(" s")) > 0 for row in rows for cell in row[3:])


def test_what_cannot_be_read_twice_is_refused(perfgate: Command, folder: Path) -> None:
    done = perfgate("inspect", "--timings", "-")
    assert done.code == 2
    assert "--timings reads each file twice; save it as a file" in done.err
    assert perfgate("inspect", "--timings", "absent.log").code == 3
