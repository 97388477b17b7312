"""Make the picture of the README: `python docs/pictures/make.py`. It needs Chromium and `perfgate[html]`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parent.parent / "examples" / "tiny-gpt"
#: The head of the page and its first verdict, in pixels.
SIZE = (1200, 1000)
MAX_BYTES = 200_000


def page(path: Path) -> None:
    """Write the report of the example's slow run, which fails with exit code 1."""
    command = [sys.executable, "-m", "perfgate", "check", "runs/slow.log", "--quiet", "--html", str(path)]
    done = subprocess.run(command, cwd=EXAMPLE, check=False)
    if done.returncode != 1:
        raise SystemExit(f"the example exited with {done.returncode}, expected 1")


def photograph(page: Path, picture: Path) -> None:
    """Write a picture of the page, with 256 colours to keep it small."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("chromium is not installed")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--screenshot={picture}"]
    light = "--blink-settings=preferredColorScheme=1"
    size = f"--window-size={SIZE[0]},{SIZE[1]}"
    subprocess.run([browser, *options, light, size, page.as_uri()], check=True, capture_output=True, timeout=120)
    Image.open(picture).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=0).save(picture, optimize=True)
    if os.path.getsize(picture) > MAX_BYTES:
        raise SystemExit(f"{picture} has more than {MAX_BYTES} bytes")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        page(Path(folder) / "report.html")
        photograph(Path(folder) / "report.html", HERE / "report.png")
