"""The page of trends in a real browser: search, zoom, a phone, the dark, and no request."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

from test_html_in_chromium import chromium, pytestmark  # noqa: F401
from trend_samples import SMALL

from perfgate.reporters.html.trend_page import render

#: A frame as narrow as a phone, whose page keeps its own policy; the probe uses it as a reader does.
PROBE = """<iframe srcdoc="{page}" width="390" height="800"></iframe>
<script>
const wait = () => new Promise(done => setTimeout(done, 500));
async function probe() {
  await wait();
  const page = document.querySelector("iframe").contentDocument, view = page.defaultView, found = {};
  const all = selector => [...page.querySelectorAll(selector)];
  const names = () => all(".trend:not([hidden]) h3").map(one => one.textContent);
  found.widths = [page.documentElement.scrollWidth, page.documentElement.clientWidth];
  found.ground = view.getComputedStyle(page.body).backgroundColor;
  const [card] = all(".trend"), figure = card.querySelector("figure");
  const part = () => card.querySelector(".dots").getAttribute("viewBox");
  const key = name => figure.dispatchEvent(new view.KeyboardEvent("keydown", {key: name, bubbles: true}));
  const days = () => [...card.querySelectorAll(".place")].map(one => one.textContent);
  found.whole = [part(), days()];
  figure.focus(); key("End"); key("ArrowLeft"); found.run = card.querySelector(".tip").innerText;
  key("+"); found.zoomed = [(+part().split(" ")[2]).toFixed(2), days()];
  key("0"); found.again = part();
  const more = card.querySelector(".numbers"); more.open = true; await wait();
  found.rows = [...more.querySelectorAll("tbody tr")].map(row => row.innerText.replace(/\\s+/g, " ").trim());
  const search = page.querySelector("#search"), status = () => page.querySelector("#status").textContent;
  const ask = text => { search.value = text; search.dispatchEvent(new view.Event("input")); return names(); };
  found.searched = [ask("FORW med"), ask("10c0ffee"), ask("nothing"), status(), ask("").length];
  page.querySelector("[data-state=open]").click(); found.open = names();
  console.log("PROBE" + JSON.stringify(found) + "END");
}
document.querySelector("iframe").onload = probe;
</script>"""


def test_a_reader_searches_and_zooms_on_a_phone_in_the_dark(tmp_path: Path) -> None:
    page = PROBE.replace("{page}", html.escape(render(SMALL)))
    options = ("--virtual-time-budget=10000", "--blink-settings=preferredColorScheme=0", "--dump-dom")
    log = chromium(tmp_path, f"--log-net-log={tmp_path / 'net.json'}", *options, html=page)
    said = re.search(r"PROBE(.*)END", log)
    assert said is not None, log
    assert log.count("CONSOLE") == 1, log
    found = json.loads(said[1])

    assert found["widths"][0] == found["widths"][1]
    assert found["ground"] == "rgb(17, 23, 29)"
    assert found["whole"] == ["-0.66 0 16.32 4000", ["2026-01-01", "2026-01-16"]]
    assert found["run"].split("\n\n") == ["210.2 ms", "14c0ffee14 ada: Change 14", "2026-01-15 10:00 UTC"]
    assert found["zoomed"] == ["8.16", ["2026-01-09", "2026-01-16"]]
    assert found["again"] == found["whole"][0]
    assert (len(found["rows"]), found["rows"][0]) == (16, "2026-01-16 10:00 15c0ffee15 210 ms ada: Change 15")
    assert found["searched"] == [*(["forward median"], ["backward median"], [], "No metric fits."), 4]
    assert found["open"] == ["backward median"]
    net = json.loads((tmp_path / "net.json").read_text())
    started = [event["params"] for event in net["events"] if "initiator" in event.get("params", {})]
    assert not [one["url"] for one in started if one["initiator"] != "not an origin"]
