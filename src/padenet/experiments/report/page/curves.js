// Learning curves: a chart a data set and net, with toggles and a read-out.

const DASHES = ["", "7 3", "2 2.5", "9 3 2 3"];
const shown = {datasets: new Set(), nets: new Set(), activations: new Set()};

const finished = cell => cell.seeds.filter(s => s.status === "done");
const unique = values => [...new Set(values)];
const stroke = c => ({stroke: `var(--c${c.look[0]})`, "stroke-dasharray": DASHES[c.look[1]]});

function swatch(parent, curve) {
  const svg = draw("svg", {viewBox: "0 0 28 10", class: "swatch", "aria-hidden": "true"}, parent);
  draw("line", {x1: 0, x2: 28, y1: 5, y2: 5, "stroke-width": 3, ...stroke(curve)}, svg);
}

function chip(parent, text, set, key, curve) {
  const button = element("button", {type: "button", className: "chip"}, parent);
  if (curve) swatch(button, curve);
  button.append(text);
  button.dataset.key = key;
  set.add(key);
  const press = on => {
    on ? set.add(key) : set.delete(key);
    button.setAttribute("aria-pressed", on);
  };
  press(true);
  button.addEventListener("click", () => { press(!set.has(key)); drawCurves(); });
  return press;
}

// Mean and sample standard deviation at every epoch over the seeds trained to the end; the band
// ends at the lowest and the highest seed, so that a loss stays above 0, an accuracy below 100.
function average(cell, measure) {
  const seeds = finished(cell).map(s => s[measure]);
  if (!seeds.length) return null;
  const length = Math.min(...seeds.map(s => s.length));
  const epochs = finished(cell)[0].epochs.slice(0, length);
  const mean = [], stds = [], low = [], high = [];
  for (let i = 0; i < length; i++) {
    const values = seeds.map(s => s[i]);
    const known = values.every(v => v !== null);
    const m = known ? values.reduce((a, b) => a + b) / values.length : null;
    const square = values.reduce((sum, v) => sum + (v - m) ** 2, 0);
    const std = known && values.length > 1 ? Math.sqrt(square / (values.length - 1)) : 0;
    mean.push(m);
    stds.push(std);
    low.push(known ? Math.max(m - std, Math.min(...values)) : null);
    high.push(known ? Math.min(m + std, Math.max(...values)) : null);
  }
  return {epochs, mean, stds, low, high, seeds: seeds.length};
}

// Where the runs end up, not their first epochs.
function heights(cells, measure, log) {
  const settled = run => run[measure].filter((v, i) =>
    v !== null && run.epochs[i] >= Math.max(1, run.epochs.at(-1) / 10));
  const ends = cells.flatMap(finished).flatMap(settled);
  if (!ends.length) return log ? [0.1, 1] : [0, 100];
  ends.sort((a, b) => a - b);
  if (log) return [ends[0] / 1.15, ends.at(-1) * 1.15];
  const low = quantile(ends, 0.05), high = ends.at(-1), room = Math.max(high - low, 0.1);
  return [low - 0.08 * room, high + 0.08 * room];
}

function drawChart(figure, cells, measure) {
  const {dataset, net} = cells[0];
  const caption = element("figcaption", {textContent: `${dataset} · ${net}`}, figure);
  const what = byId("measure").selectedOptions[0].textContent;
  element("small", {textContent: `${what} by epoch`}, caption);
  cells = cells.map(c => ({...c, mean: average(c, measure)}));
  const log = measure.endsWith("loss")
    && cells.flatMap(finished).every(s => s[measure].every(v => v === null || v > 0));
  const last = Math.max(1, ...cells.flatMap(c => c.seeds.map(s => s.epochs.at(-1) ?? 0)));
  const width = Math.max(280, figure.clientWidth), height = 300;
  const chart = frame(figure, {x: [0, last], y: heights(cells, measure, log), width, height, log});
  const {svg, plot, X, Y} = chart;
  for (const c of cells) {
    const group = draw("g", {"data-activation": c.row}, plot), color = `var(--c${c.look[0]})`;
    if (c.mean) {
      const {epochs, mean, low, high, seeds} = c.mean;
      if (seeds > 1 && (c.unit || cells.length <= 4))
        draw("path", {d: band(epochs, low, high, X, Y), style: `fill:${color};opacity:.16`}, group);
      draw("path", {d: path(epochs, mean, X, Y), class: "line",
        "stroke-width": c.unit ? 2.4 : 1.4, ...stroke(c)}, group);
    }
    for (const s of c.seeds.filter(s => s.status !== "done")) {
      draw("path", {d: path(s.epochs, s[measure], X, Y), stroke: color, "stroke-width": 0.8}, group);
      const end = s[measure].findLastIndex(v => v !== null);
      if (end >= 0 && s.status !== "unfinished")
        draw("text", {x: X(s.epochs[end]), y: Y(s[measure][end]) + 4, "text-anchor": "middle",
          style: `fill:${color};font-weight:700`}, group).textContent = "×";
    }
  }
  addReadout(figure, chart, cells, last, width, height);
}

function addReadout(figure, {svg, X, left, right, top, bottom}, cells, last, width, height) {
  const line = draw("line", {class: "grid", y1: top, y2: height - bottom, visibility: "hidden"}, svg);
  const box = element("div", {className: "readout", hidden: true}, figure);
  box.setAttribute("role", "status");
  const name = figure.querySelector("figcaption").firstChild.textContent;
  svg.setAttribute("tabindex", 0);
  svg.setAttribute("role", "application");
  svg.setAttribute("aria-label", `${name}: learning curves. Left and right move along the epochs.`);
  let at = null;
  const hide = () => { at = null; box.hidden = true; line.setAttribute("visibility", "hidden"); };
  const show = epoch => {
    at = Math.max(0, Math.min(last, epoch));
    const rows = cells.flatMap(c => {
      if (!c.mean) return [];
      const known = c.mean.epochs, i = known.findIndex(e => e >= at);
      const k = i > 0 && at - known[i - 1] < known[i] - at ? i - 1 : i;
      return k < 0 || c.mean.mean[k] === null ? [] : [[c.mean.mean[k], c, k]];
    }).sort((a, b) => b[0] - a[0]);
    box.replaceChildren();
    element("strong", {textContent: `epoch ${at}`}, box);
    const body = element("tbody", {}, element("table", {}, box));
    for (const [value, c, k] of rows) {
      const row = element("tr", {}, body);
      const first = element("td", {}, row);
      swatch(first, c);
      first.append(c.row);
      const digits = value >= 10 ? 2 : 3;
      element("td", {className: "number", textContent: value.toFixed(digits)}, row);
      const std = c.mean.stds[k].toFixed(digits);
      element("td", {textContent: c.mean.seeds > 1 ? `± ${std}` : ""}, row);
    }
    const x = X(at);
    for (const end of ["x1", "x2"]) line.setAttribute(end, x);
    line.setAttribute("visibility", "visible");
    box.hidden = false;
    const beside = x < width / 2 ? x + 12 : x - 12 - box.offsetWidth;
    box.style.left = `${Math.max(0, Math.min(beside, figure.clientWidth - box.offsetWidth))}px`;
  };
  const point = event => {
    const area = svg.getBoundingClientRect();
    const x = (event.clientX - area.left) / area.width * width;
    show(Math.round((x - left) / (width - left - right) * last));
  };
  svg.addEventListener("pointermove", point);
  svg.addEventListener("pointerdown", point);
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", event => {
    const step = event.shiftKey ? 10 : 1;
    const to = {ArrowLeft: (at ?? last + step) - step, ArrowRight: (at ?? -step) + step, Home: 0, End: last}[event.key];
    if (to !== undefined) { show(to); event.preventDefault(); }
    if (event.key === "Escape") hide();
  });
}

function drawCurves() {
  const charts = byId("charts"), measure = byId("measure").value;
  charts.replaceChildren();
  const visible = data.curves.filter(c => shown.datasets.has(c.dataset) && shown.nets.has(c.net)
    && shown.activations.has(c.row));
  // All figures first: their number decides how wide each is.
  const figures = unique(visible.map(c => c.place)).map(place =>
    [element("figure", {className: "chart"}, charts), visible.filter(c => c.place === place)]);
  for (const [figure, cells] of figures) drawChart(figure, cells, measure);
  if (!charts.children.length)
    element("p", {className: "caption", textContent: "Nothing is chosen. Press a button above."}, charts);
}

function setUpCurves() {
  for (const part of ["dataset", "net"]) {
    const names = unique(data.curves.map(c => c[part])), parent = byId(`${part}s`);
    for (const name of names) chip(parent, name, shown[`${part}s`], name);
    parent.hidden = names.length < 2;
  }
  const parent = byId("activations");
  const presses = data.rows.map(row =>
    chip(parent, row, shown.activations, row, data.curves.find(c => c.row === row)));
  for (const [text, on] of [["All", true], ["None", false]]) {
    const button = element("button", {type: "button", className: "chip plainly", textContent: text}, parent);
    button.addEventListener("click", () => { presses.forEach(p => p(on)); drawCurves(); });
  }
  byId("measure").addEventListener("change", drawCurves);
  let width = 0;
  new ResizeObserver(([entry]) => {
    if (entry.contentRect.width === width) return;
    width = entry.contentRect.width;
    drawCurves();
  }).observe(byId("charts"));
}

setUpCurves();
