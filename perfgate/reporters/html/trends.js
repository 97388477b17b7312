"use strict";
// Search, zoom and the numbers of single runs. Without this script the page shows everything but these.
(() => {
const SVG = "http://www.w3.org/2000/svg", ABOVE = 22, BELOW = 20, STEPS = 4000;
const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
const address = $("#links").dataset.address, said = $("#status"), aloud = $("#aloud");
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// --- the runs of an environment -------------------------------------------------------------------------------------
const environments = new Map();
function runsOf(card) {
  const number = card.dataset.runs;
  if (!environments.has(number)) {
    const runs = JSON.parse($("#runs-" + number).textContent);
    let time = 0;
    runs.times = runs.times.map(more => time += more);
    environments.set(number, runs);
  }
  return environments.get(number);
}
const stamp = seconds => new Date(1000 * seconds).toISOString().slice(0, 16).replace("T", " ");

function make(name, attributes, ...content) {
  const found = name.startsWith("svg:") ? document.createElementNS(SVG, name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) found.setAttribute(key, value);
  found.append(...content);
  return found;
}

// --- one plot -------------------------------------------------------------------------------------------------------
class Plot {  // x are positions of runs, y are steps below the top; `view` is the part of x that is shown
  constructor(card, wide) {
    this.card = card;
    this.figure = $("figure", card);
    this.svg = $("svg.plot", card);
    this.runs = runsOf(card);
    const given = this.svg.dataset;
    [this.top, this.step, this.factor] = [+given.top, +given.step, +given.factor];
    this.log = "log" in given;
    this.unit = given.unit;
    this.units = given.units?.split(" ").map(one => one.split(",")).map(([size, unit]) => [+size, unit]);
    this.dots = $("svg.dots", this.svg);
    this.behind = $("svg.behind", this.svg);
    const [left, , width] = this.dots.getAttribute("viewBox").split(" ").map(Number);
    this.all = this.view = [left, left + width];
    this.inner = +this.dots.getAttribute("height");
    this.wide = wide;
    this.read();
    this.prepare();
  }

  read() {  // the numbers are those of the dots: relative moves, M first
    const path = $(".runs", this.dots).getAttribute("d");
    [this.x, this.y] = [[], []];
    let x = 0, y = 0;
    for (const [, dx, dy] of path.matchAll(/(-?\d+) ?(-?\d+)h0/g)) {
      this.x.push(x += +dx);
      this.y.push(y += +dy);
    }
    const points = $(".level", this.dots).getAttribute("d").match(/[MHV][^MHV]*/g) || [];
    this.levels = [];
    let at = 0, height = 0;
    for (const word of points) {
      const numbers = word.slice(1).split(" ").map(Number);
      if (word[0] === "M") [at, height] = numbers;
      if (word[0] === "V") height = numbers[0];
      if (word[0] === "H") { this.levels.push([at, numbers[0], height]); at = numbers[0]; }
    }
  }

  value(y) { const place = this.top - y * this.step; return this.log ? Math.exp(place) : place; }
  height(value) { return (this.top - (this.log ? Math.log(value) : value)) / this.step; }
  text(value, digits = 4) {
    let [factor, unit] = [this.factor, this.unit];
    // 0.99995 has the larger unit, too: with four digits it is 1.
    if (this.units) [factor, unit] = this.units.findLast(([size]) => Math.abs(value) >= size * 0.99995) || this.units[0];
    const number = +(value / factor).toPrecision(digits), size = Math.abs(number);
    const text = size === 0 || (size >= 1e-4 && size < 1e15) ? String(number) : number.toExponential();
    return text.replace("-", "\u2212") + (["%", "x", ""].includes(unit) ? "" : " ") + unit;
  }

  prepare() {
    const figure = this.figure, buttons = [["+", "zoom in", () => this.zoom(0.5)], ["\u2212", "zoom out", () => this.zoom(2)],
      ["all", "show all runs", () => this.show(this.all)]];
    figure.tabIndex = 0;
    figure.setAttribute("role", "group");
    figure.setAttribute("aria-label", $("h3", this.card).textContent + ": arrow keys name runs, plus and minus zoom, 0 shows all");
    const tools = make("div", {class: "zoom"});
    for (const [label, title, act] of buttons) {
      const button = make("button", {type: "button", title, "aria-label": title, tabindex: -1}, label);
      button.addEventListener("click", act);
      tools.append(button);
    }
    const more = make("details", {class: "numbers"}, make("summary", {}, this.x.length + (this.x.length === 1 ? " run" : " runs") + " in numbers"));
    more.addEventListener("toggle", () => more.open && more.children.length === 1 && more.append(this.table()));
    figure.after(make("div", {class: "foot"}, tools, more));
    figure.addEventListener("keydown", event => this.key(event));
    figure.addEventListener("blur", () => this.pinned || this.point(null));
    const svg = this.svg;
    svg.addEventListener("pointermove", event => this.move(event));
    svg.addEventListener("pointerleave", () => this.start === undefined && !this.pinned && this.point(null));
    svg.addEventListener("pointerdown", event => this.press(event));
    svg.addEventListener("pointerup", event => this.release(event));
    svg.addEventListener("pointercancel", () => this.select(undefined));
    svg.addEventListener("dblclick", () => this.show(this.all));
  }

  place(event) {
    const box = this.svg.getBoundingClientRect(), share = clamp((event.clientX - box.left) / box.width, 0, 1);
    return this.view[0] + share * (this.view[1] - this.view[0]);
  }
  nearest(x) {
    let best = null;
    this.x.forEach((one, i) => {
      if (one >= this.view[0] && one <= this.view[1] && (best === null || Math.abs(one - x) < Math.abs(this.x[best] - x))) best = i;
    });
    return best;
  }
  press(event) {
    if (event.button || event.target.closest(".tip")) return;
    [this.start, this.pressed] = [this.place(event), event.clientX];
    this.svg.setPointerCapture(event.pointerId);
  }
  move(event) {
    const x = this.place(event);
    if (this.start === undefined) { if (!this.pinned) this.point(this.nearest(x)); return; }
    this.select([this.start, x].sort((a, b) => a - b));
  }
  release(event) {
    if (this.start === undefined) return;
    const [from, to] = [this.start, this.place(event)].sort((a, b) => a - b), moved = Math.abs(event.clientX - this.pressed);
    this.select(undefined);
    if (moved > 6 && to - from >= 2) this.show([from, to]);
    else { this.pinned = !this.pinned; this.point(this.pinned ? this.nearest(to) : null); }
  }
  select(range) {
    $(".selection", this.behind)?.remove();
    if (range) this.behind.append(make("svg:rect", {class: "selection", x: range[0], width: range[1] - range[0], height: 1}));
    else this.start = undefined;
  }
  key(event) {
    if (event.target !== this.figure || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.x.length - 1, now = this.at ?? null;
    const steps = {ArrowRight: now === null ? 0 : now + 1, ArrowLeft: now === null ? last : now - 1, Home: 0, End: last};
    if (event.key in steps) this.point(clamp(steps[event.key], 0, last), true);
    else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "0" || event.key === "Escape") { this.pinned = false; this.show(this.all); this.point(null); }
    else return;
    event.preventDefault();
  }
  zoom(factor) {
    const [left, right] = this.view, width = Math.max((right - left) * factor, 5);
    const middle = this.at != null ? this.x[this.at] : factor < 1 ? right : (left + right) / 2;
    this.show([middle - width / 2, middle + width / 2]);
  }
  newest(count) { this.show(count ? [this.all[1] - count * 1.02, this.all[1]] : this.all); }  // with room at the ends

  show([left, right]) {  // a part of all runs, as wide as asked for
    const [first, last] = this.all, width = Math.min(right - left, last - first);
    left = clamp(left, first, last - width);
    this.view = width < last - first - 1e-9 ? [left, left + width] : this.all;
    this.card.classList.toggle("zoomed", this.view !== this.all);
    if (near.has(this.card)) this.draw();
    else this.isStale = true;
    if (this.at != null && !this.pinned) this.point(null);
  }
  range() {  // the heights to show: all levels, and all runs but a few far ones, as `ends` of reporters/svg.py
    const [left, right] = this.view, seen = [];
    this.x.forEach((x, i) => { if (x >= left && x <= right) seen.push(this.y[i]); });
    const levels = this.levels.filter(([from, to]) => to > left && from < right).map(level => level[2]);
    if (!seen.length) return [0, STEPS];
    seen.sort((a, b) => a - b);
    const cut = seen.length > 8 ? Math.ceil(0.01 * seen.length) : 0;
    let low = Math.min(seen[cut], ...levels), high = Math.max(seen[seen.length - 1 - cut], ...levels);
    const whole = [Math.min(seen[0], low), Math.max(seen[seen.length - 1], high)];
    if (whole[1] - whole[0] <= 1.5 * (high - low)) [low, high] = whole;
    const room = high > low ? 0.08 * (high - low) : STEPS / 2;
    return [low - room, high + room];
  }
  draw() {
    this.isStale = false;
    const [left, right] = this.view, width = right - left, isAll = this.view === this.all;
    const [top, bottom] = isAll ? [0, STEPS] : this.range();
    this.dots.setAttribute("viewBox", [left, top, width, bottom - top].join(" "));
    this.behind.setAttribute("viewBox", [left, 0, width, 1].join(" "));
    const seen = this.x.filter(x => x >= left && x <= right).length;
    $(".runs", this.dots).setAttribute("class", "runs " + (seen <= 150 ? "few" : seen <= 500 ? "some" : "many"));
    let beyond = "";
    this.x.forEach((x, i) => { if (this.y[i] < top || this.y[i] > bottom) beyond += `M${x} ${+(this.y[i] > bottom)}h0`; });
    $(".beyond", this.behind).setAttribute("d", beyond);
    this.drawGrid(top, bottom);
    this.drawWords(left, width);
  }
  drawGrid(top, bottom) {
    for (const old of $$(".grid, .value", this.svg)) old.remove();
    const [low, high] = [this.value(bottom), this.value(top)].map(value => value / this.factor);
    for (const mark of this.marks(low, high, this.inner > 100 ? 5 : 2)) {
      const y = ABOVE + (this.height(mark * this.factor) - top) / (bottom - top) * this.inner;
      const label = make("svg:text", {x: -8, y: y + 4, class: "value", "text-anchor": "end"}, this.text(mark * this.factor, 6));
      this.behind.before(make("svg:line", {x2: "100%", y1: y, y2: y, class: "grid"}), label);
    }
  }
  marks(low, high, most) {  // round numbers, as reporters/svg.py finds them
    const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
    for (const factors of this.log && high > 10 * low ? [[1, 2, 5], [1, 3], [1]] : []) {
      const found = [];
      for (let n = first; n <= last; n++) for (const one of factors) found.push(one * 10 ** n);
      const seen = found.filter(one => one >= low && one <= high);
      if (seen.length <= most + 1 || factors.length === 1) return seen.filter((_, n) => n % Math.ceil(seen.length / (most + 1)) === 0);
    }
    const least = (high - low) / most, power = 10 ** Math.floor(Math.log10(least)), found = [];
    const step = power * [1, 2, 2.5, 5, 10].find(one => one * power >= least * (1 - 1e-9));
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; n++) found.push(n * step);
    return found;
  }
  drawWords(left, width) {
    const wide = this.wide, free = {};
    for (const word of $$("[data-x]", this.svg)) {
      const share = (word.dataset.x - left) / width, kind = word.classList[0];
      const needed = kind === "machine" ? 0 : 7.5 * word.textContent.length + 8, x = share * wide;
      const anchor = x < needed / 2 ? "start" : wide - x < needed / 2 ? "end" : "middle";
      const from = anchor === "start" ? x : anchor === "end" ? x - needed : x - needed / 2;
      const isIn = share >= 0 && share <= 1 && from + needed <= (free[kind] ?? Infinity);
      word.setAttribute("visibility", isIn ? "visible" : "hidden");
      if (!isIn) continue;
      word.setAttribute("x", 100 * share + "%");
      if (kind === "machine") continue;
      word.setAttribute("text-anchor", anchor);
      free[kind] = from;
    }
    for (const old of $$(".place", this.svg)) old.remove();
    const count = clamp(Math.floor(wide / 150), 2, 7), {first, times} = this.runs, from = Math.max(Math.ceil(left), first);
    const to = Math.min(Math.floor(left + width), first + times.length - 1), seen = new Set();
    const days = (times[to - first] - times[from - first]) / 86400, y = +this.svg.getAttribute("height") - 4;
    for (let n = 0; n < count && from <= to; n++) {  // none if the margin alone is shown
      const at = Math.round(from + (to - from) * n / (count - 1)), share = 100 * (at - left) / width;
      const label = days < count ? stamp(times[at - first]).slice(5) : stamp(times[at - first]).slice(0, 10);
      if (seen.has(label) || !(at - first in times)) continue;
      seen.add(label);
      const anchor = share < 10 ? "start" : share > 90 ? "end" : "middle";
      this.svg.append(make("svg:text", {class: "place", x: share + "%", y, "text-anchor": anchor}, label));
    }
  }

  facts(i) {
    const {first, times, commits, subjects, marks} = this.runs, at = this.x[i] - first;
    return {value: this.text(this.value(this.y[i])), time: stamp(times[at]), commit: commits[at], subject: subjects[at] || "", mark: marks[at] || ""};
  }
  point(i, isAloud) {  // show a run, or none
    $(".cursor", this.svg)?.remove();
    $(".here", this.svg)?.remove();
    $(".tip", this.figure)?.remove();
    this.at = i;
    if (i === null) return;
    if (this.x[i] < this.view[0] || this.x[i] > this.view[1]) {
      const half = (this.view[1] - this.view[0]) / 2;
      this.at = null;  // or else `show` would end this
      this.show([this.x[i] - half, this.x[i] + half]);
      this.at = i;
    }
    const share = 100 * (this.x[i] - this.view[0]) / (this.view[1] - this.view[0]);
    const [, top, , tall] = this.dots.getAttribute("viewBox").split(" ").map(Number);
    const y = ABOVE + clamp((this.y[i] - top) / tall, 0, 1) * this.inner, facts = this.facts(i);
    this.svg.append(make("svg:line", {class: "cursor", x1: share + "%", x2: share + "%", y1: ABOVE, y2: ABOVE + this.inner}),
      make("svg:circle", {class: "here", cx: share + "%", cy: y, r: 5}));
    const commit = make(address && /^[0-9a-f]{7,64}$/.test(facts.commit) ? "a" : "code", {}, facts.commit.slice(0, 10) || "no commit");
    if (commit.tagName === "A") commit.href = address + facts.commit;
    const tip = make("div", {class: this.pinned ? "tip pinned" : "tip"}, make("p", {}, make("strong", {}, facts.value)),
      make("p", {}, commit, " " + facts.subject), make("p", {}, facts.time + " UTC"));
    if (facts.mark) tip.append(make("p", {}, facts.mark));
    this.figure.append(tip);
    const x = this.figure.clientWidth - this.wide + share / 100 * this.wide;
    tip.style[share > 50 ? "right" : "left"] = (share > 50 ? this.figure.clientWidth - x : x) + 12 + "px";
    if (isAloud) aloud.textContent = [facts.value, facts.commit.slice(0, 10), facts.subject, facts.time, facts.mark].filter(Boolean).join(", ");
  }
  table() {
    const rows = this.x.map((_, i) => this.facts(i)).reverse();
    const heads = [["time (UTC)", "time"], ["commit", "commit"], ["value", "value"], ["subject", "subject"], ["what changed", "mark"]];
    const used = heads.filter(([, key]) => rows.some(row => row[key]));
    const head = make("tr", {}, ...used.map(([label]) => make("th", {scope: "col"}, label)));
    const body = rows.map(row => make("tr", {}, ...used.map(([, key]) =>
      make("td", key === "value" ? {class: "n"} : {}, key === "commit" ? row.commit.slice(0, 10) : row[key]))));
    return make("div", {class: "scroll runs-table", tabindex: 0}, make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
  }
}

// --- plots work, and are drawn again, while they are near the screen -------------------------------------------------
const plots = new Map(), near = new Set();
let newest = 0;
function refresh(shown) {  // begin, or draw anew
  const widths = shown.map(card => $("svg.plot", card).getBoundingClientRect().width || 600);
  shown.forEach((card, n) => {  // after all widths are known: to measure after a change would lay the page out anew
    const plot = plots.get(card) || new Plot(card, widths[n]);
    plot.wide = widths[n];
    if (plots.has(card)) { if (plot.isStale) plot.draw(); return; }
    plots.set(card, plot);
    newest ? plot.newest(newest) : plot.drawWords(plot.all[0], plot.all[1] - plot.all[0]);
  });
}
const cards = $$(".trend").filter(card => $("svg.plot", card)), every = $$(".trend");
const watch = new IntersectionObserver(seen => {
  for (const one of seen) one.isIntersecting ? near.add(one.target) : near.delete(one.target);
  refresh(seen.filter(one => one.isIntersecting).map(one => one.target));
}, {rootMargin: "400px"});
cards.forEach(card => watch.observe(card));
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  plots.forEach(plot => plot.isStale = true);
  refresh([...near]);
});

// --- search ----------------------------------------------------------------------------------------------------------
const search = $("#search"), found = new Map();
let state = "all";
function words(card) {
  if (!found.has(card)) found.set(card, $$("h3, .where, .changes code", card).map(one => one.textContent).join(" ").toLowerCase());
  return found.get(card);
}
function filter() {
  const asked = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const card of every) {
    const is = card.classList, fits = {all: true, open: is.contains("open"), moved: !is.contains("same"), same: is.contains("same")}[state];
    card.hidden = !(fits && asked.every(word => words(card).includes(word)));
    count += !card.hidden;
  }
  for (const section of $$("main > section")) if ($(".trend", section)) section.hidden = !$(".trend:not([hidden])", section);
  said.textContent = count === every.length ? "" : count ? `${count} of ${every.length} metrics` : "No metric fits.";
}
const press = (chips, chip) => chips.forEach(one => one.setAttribute("aria-pressed", one === chip));
search.addEventListener("input", () => {
  filter();
  try {
    history.replaceState(null, "", search.value ? "#q=" + encodeURIComponent(search.value) : location.pathname + location.search);
  } catch { /* a page inside another one has no address of its own */ }
});
const states = $$("[data-state]"), spans = $$("[data-newest]");
states.forEach(chip => chip.addEventListener("click", () => { state = chip.dataset.state; press(states, chip); filter(); }));
spans.forEach(chip => chip.addEventListener("click", () => {
  newest = +chip.dataset.newest;
  press(spans, chip);
  plots.forEach(plot => plot.newest(newest));
}));
addEventListener("keydown", event => {
  if (event.key === "/" && !event.target.closest("input")) { event.preventDefault(); search.focus(); }
});
function follow() {
  const asked = /^#q=(.*)$/.exec(location.hash);
  if (asked) { try { search.value = decodeURIComponent(asked[1]); } catch { search.value = ""; } filter(); }
}
addEventListener("hashchange", follow);
$(".controls").hidden = false;
follow();
})();
