"""The page in a real browser: it asks for nothing, complains of nothing, and shows its plots in light and in dark."""

import json
import re
import shutil
import subprocess
from html import escape
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from PIL import Image
from sample_details import WITH_EVIDENCE
from samples import WITH_CAUSES

from perfgate.core.details import Part
from perfgate.reporters.html.page import render

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")]

#: Of the style sheet, as red, green and blue: the ground of the page, and the colour of new runs.
LIGHT = {"ground": "f3f5f8", "new": "bd4a08"}
DARK = {"ground": "11171d", "new": "ff9550"}


def chromium(folder: Path, *options: str, html: str | None = None) -> str:
    """Open a page and do what the options say; what the browser logs."""
    page = folder / "report.html"
    report = replace(WITH_EVIDENCE, causes=WITH_CAUSES.causes)
    page.write_text(html or render(report), encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--log-level=0"]
    command += [f"--user-data-dir={folder / 'profile'}", *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stderr


def requests(folder: Path, html: str | None = None) -> tuple[set[str], str]:
    """The addresses that a page asks for, and what it makes the browser log."""
    log = chromium(folder, f"--log-net-log={folder / 'net.json'}", "--dump-dom", html=html)
    net = json.loads((folder / "net.json").read_text())
    started = [event["params"] for event in net["events"] if "initiator" in event.get("params", {})]
    # The browser asks its maker for updates on its own account.
    return {request["url"] for request in started if request["initiator"] != "not an origin"}, log


def test_nothing_is_asked_of_the_network_and_nothing_is_complained_of(tmp_path: Path) -> None:
    asked, log = requests(tmp_path)
    assert not asked
    assert "CONSOLE" not in log


def test_a_page_that_asks_for_something_would_be_noticed(tmp_path: Path) -> None:
    asked, log = requests(tmp_path, '<img src="http://127.0.0.1:9/x.png"><script>console.log("here")</script>')
    assert asked == {"http://127.0.0.1:9/x.png"}
    assert "CONSOLE" in log


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
    pixels = np.asarray(Image.open(picture).convert("RGB")).astype(int)
    ground, new = ([int(colours[name][i : i + 2], 16) for i in (0, 2, 4)] for name in ("ground", "new"))
    assert pixels[0, 0].tolist() == ground
    assert (abs(pixels - new).max(axis=2) < 8).sum() > 300  # the lines of the new run


NARROW = """<iframe srcdoc="{page}" width="400" height="800"></iframe>
<script>
document.querySelector("iframe").onload = () => {
  const page = document.querySelector("iframe").contentDocument;
  const boxes = [...page.querySelectorAll(".scroll")].filter(box => box.textContent.includes("per step"));
  console.log("PROBE" + JSON.stringify(boxes.map(box => box.scrollWidth - box.clientWidth)) + "END");
};
</script>"""


def test_times_of_a_step_fit_a_narrow_page(tmp_path: Path) -> None:
    kernel = "kernel.void at::native::elementwise_kernel<8, at::native::BinaryFunctor<float>, std::array<char*, 3ul> >"
    details = replace(WITH_EVIDENCE.details, movers=(Part(kernel, {}, 0.0127, 0.0201),))
    page = render(replace(WITH_EVIDENCE, details=details))
    log = chromium(tmp_path, "--virtual-time-budget=5000", "--dump-dom", html=NARROW.replace("{page}", escape(page)))
    found = re.search(r"PROBE(.*)END", log)
    assert found is not None, log
    assert json.loads(found[1]) == [0, 0]
