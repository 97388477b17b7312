"""The page in a real browser: it asks for nothing, complains of nothing, and shows its plots in light and in dark."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from matplotlib.image import imread
from samples import WITH_EVIDENCE

from perfgate.reporters.html import render

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")]

#: Of the style sheet, as red, green and blue: the ground of the page, and the colour of new runs.
LIGHT = {"ground": "f3f5f8", "new": "d2540b"}
DARK = {"ground": "11171d", "new": "ff9550"}


def chromium(folder: Path, *options: str) -> str:
    """Open the page and do what the options say; what the browser logs."""
    page = folder / "report.html"
    page.write_text(render(WITH_EVIDENCE), encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--log-level=0"]
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [*command, profile, *options, page.as_uri()], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stderr


def test_nothing_is_asked_of_the_network_and_nothing_is_complained_of(tmp_path: Path) -> None:
    log = chromium(tmp_path, f"--log-net-log={tmp_path / 'net.json'}", "--dump-dom")
    assert "CONSOLE" not in log
    net = json.loads((tmp_path / "net.json").read_text())
    begins = net["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    asked = {event["params"]["url"] for event in net["events"] if event["type"] == begins and "params" in event}
    assert [url for url in asked if not url.startswith("file:") and url_of_the_page(url)] == []


def url_of_the_page(url: str) -> bool:
    """Whether a request may be the page's; the browser itself asks its maker for updates."""
    return not any(name in url for name in ("google.com", "googleapis.com", "gvt1.com"))


@pytest.mark.parametrize(("scheme", "colours"), [(1, LIGHT), (0, DARK)], ids=["light", "dark"])
def test_plots_show_in_both_colour_schemes(tmp_path: Path, scheme: int, colours: dict[str, str]) -> None:
    picture = tmp_path / "page.png"
    chromium(
        tmp_path,
        f"--blink-settings=preferredColorScheme={scheme}",
        "--window-size=1200,1600",
        "--hide-scrollbars",
        f"--screenshot={picture}",
    )
    pixels = (imread(picture)[:, :, :3] * 255).round().astype(int)
    ground, new = ([int(colours[name][i : i + 2], 16) for i in (0, 2, 4)] for name in ("ground", "new"))
    assert pixels[0, 0].tolist() == ground
    assert (abs(pixels - new).max(axis=2) < 8).sum() > 300  # the lines of the new run
