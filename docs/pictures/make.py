"""Make the pictures of the pages: `python docs/pictures/make.py`. It needs Chromium."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import chdir, redirect_stdout
from datetime import timedelta
from io import StringIO
from pathlib import Path

from PIL import Image

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples"
#: In pixels: the head of the page with what changed and its plots, the section on what changed, and the page of trends.
REPORT, CHANGED, TRENDS = (1200, 1060), (1200, 650), (1200, 1210)
MAX_BYTES = 200_000
_SECTION = re.compile(r'<header.*?(<section class="changed">.*?</section>).*</main>.*</footer>', re.DOTALL)


def page(path: Path, example: str, command: Sequence[str], code: int) -> None:
    """Write the page of a command, which exits with `code`."""
    program = [sys.executable, "-m", "perfgate", *command, "--quiet", "--html", str(path)]
    done = subprocess.run(program, cwd=EXAMPLES / example, check=False)
    if done.returncode != code:
        raise SystemExit(f"the example {example} exited with {done.returncode}, expected {code}")


def only_what_changed(path: Path) -> None:
    """Leave nothing of a page but what changed."""
    path.write_text(_SECTION.sub(r"<main>\1</main>", path.read_text(encoding="utf-8")), encoding="utf-8")


def trends(path: Path, folder: Path) -> None:
    """Write the page of trends of the sixty merges that tests/history tells of, with a release."""
    sys.path[:0] = [str(EXAMPLES.parent / "tests"), str(EXAMPLES.parent / "tests" / "history")]
    import test_sixty_merges as story

    from perfgate.cli.entry import run

    with chdir(folder), redirect_stdout(StringIO()):
        commits = story.merges(folder)
        subprocess.run(["git", "tag", "v1.2", commits[33]], check=True)
        story.write_rules(folder, "forward within 5% of baseline", "backward within 5% of baseline")
        for merge, commit in enumerate(commits):
            os.environ["SOURCE_DATE_EPOCH"] = f"{story.BEGIN + timedelta(hours=merge, minutes=10):%s}"
            measured = str(story.measured(folder, merge))
            if merge in (0, story.APPROVED):
                why = ("rotary embeddings", "--pr", "7", "--by", "carol") if merge else ("first baseline",)
                run(["baseline", "approve", measured, "--head", commit, "--reason", *why])
            run(["history", "add", measured, "--head", commit])
        run(["history", "report", "--html", str(path), "--commit-url", "https://example.org/commit/"])


def photograph(page: Path, picture: Path, size: tuple[int, int]) -> None:
    """Write a picture of the page, with 256 colours to keep it small."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("chromium is not installed")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=3000"]
    options += [f"--screenshot={picture}"]
    light = "--blink-settings=preferredColorScheme=1"
    shown = f"--window-size={size[0]},{size[1]}"
    subprocess.run([browser, *options, light, shown, page.as_uri()], check=True, capture_output=True, timeout=120)
    Image.open(picture).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=0).save(picture, optimize=True)
    if os.path.getsize(picture) > MAX_BYTES:
        raise SystemExit(f"{picture} has more than {MAX_BYTES} bytes")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        report, changed = Path(folder) / "report.html", Path(folder) / "changed.html"
        page(report, "tiny-gpt", ["check", "runs/slow.log"], 1)
        photograph(report, HERE / "report.png", REPORT)
        page(changed, "gpu-traces", ["compare", "runs/main-1", "runs/main-2", "--new", "runs/slow"], 1)
        only_what_changed(changed)
        photograph(changed, HERE / "changed.png", CHANGED)
        (Path(folder) / "team").mkdir()
        trends(Path(folder) / "trends.html", Path(folder) / "team")
        photograph(Path(folder) / "trends.html", HERE / "trends.png", TRENDS)
