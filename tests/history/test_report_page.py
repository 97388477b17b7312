"""`perfgate history report`: what it writes, what it says, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from conftest import Done
from histories import filled, steps

Command = Callable[..., Done]


def test_the_page_is_written_and_its_conclusion_is_said(perfgate: Command, folder: Path) -> None:
    filled(folder, steps((20, 0.1), (15, 0.12)))
    done = perfgate("history", "report")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("wrote history.html (")
    assert done.out.endswith("KiB): 1 change (1 metric) for the worse, and nobody approved it\n")
    assert (folder / "history.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert perfgate("history", "report", "--html", "-", "--metric", "for*").out.startswith("<!doctype html>")


def test_a_damaged_file_is_said_and_the_page_is_written(perfgate: Command, folder: Path) -> None:
    filled(folder, steps((12, 0.1)))
    damaged = sorted((folder / "baselines/_history").rglob("*.json"))[3]
    damaged.write_text(damaged.read_text().replace("forward", "backward"))
    done = perfgate("history", "report")
    assert (done.code, damaged.name in done.err) == (3, True)
    page = (folder / "history.html").read_text(encoding="utf-8")
    assert "This history is incomplete: 1 file cannot be used." in page
    assert damaged.name in page


def test_what_is_refused(perfgate: Command, folder: Path) -> None:
    assert (perfgate("history", "report").code, (folder / "history.html").exists()) == (3, False)
    filled(folder, steps((6, 0.1)))
    for words, why in (
        (("--html", "baselines/x.html"), "is in a folder that is read"),
        (("--html", "none/x.html"), "cannot write there"),
        (("--commit-url", "javascript:alert(1)//"), "is not an address"),
        (("--metric", "forwrd"), "did you mean forward"),
    ):
        done = perfgate("history", "report", *words)
        assert (done.code in (2, 3), why in done.err) == (True, True), done.said
        assert not (folder / "history.html").exists()
