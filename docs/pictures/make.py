"""Make the pictures of the pages: `python docs/pictures/make.py`. It needs Chromium and `perfgate[html]`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples"
#: In pixels: the head of the page with what changed, and the section on what changed alone.
REPORT, CHANGED = (1200, 1000), (1200, 650)
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


def photograph(page: Path, picture: Path, size: tuple[int, int]) -> None:
    """Write a picture of the page, with 256 colours to keep it small."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("chromium is not installed")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--screenshot={picture}"]
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
        page(changed, "gpu-traces", ["compare", "runs/main-1", "runs/main-2", "--new", "runs/slow"], 3)
        only_what_changed(changed)
        photograph(changed, HERE / "changed.png", CHANGED)
