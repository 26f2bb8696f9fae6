// Learning curves: a chart a data set and net.

const scale = {log: false, smooth: 1}; // smooth: epochs of a moving mean
const views = new Map(); // by place: the epochs and values zoomed to, the epoch that is read

const finished = cell => cell.seeds.filter(s => s.status === "done");
const isUnit = name => rows.get(name).group === "Units";
const LOGARITHMIC = new Set(["test_error", "train_loss", "test_loss"]);

const valuesOf = (seed, measure) => measure === "test_error"
  ? seed.test_accuracy.map(v => v === null ? null : Number((100 - v).toFixed(6))) : seed[measure];

// Mean and sample standard deviation at every epoch over the seeds trained to the end; the band
// ends at the lowest and the highest seed, so that a loss stays above 0, an accuracy below 100.
function average(cell, measure) {
  const seeds = finished(cell).map(s => valuesOf(s, measure));
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

// The mean over `width` epochs around each, over fewer towards the ends: the last value stays.
function smoothed(epochs, values, width) {
  if (width <= 1) return values;
  return values.map((value, i) => {
    if (value === null) return null;
    const reach = Math.min((width - 1) / 2, epochs[i] - epochs[0], epochs.at(-1) - epochs[i]);
    const near = values.filter((v, j) => v !== null && Math.abs(epochs[j] - epochs[i]) <= reach);
    return near.reduce((a, b) => a + b) / near.length;
  });
}

// Where the runs end up, not their first epochs; all of a run that has hardly more than those.
function heights(cells, measure, log) {
  const from = last => last < 3 ? 0 : Math.max(1, last / 10);
  const settled = run => valuesOf(run, measure).filter((v, i) =>
    v !== null && (v > 0 || !log) && run.epochs[i] >= from(run.epochs.at(-1)));
  const ends = cells.flatMap(finished).flatMap(settled);
  if (!ends.length) return log ? [0.1, 1] : [0, 100];
  ends.sort((a, b) => a - b);
  return log ? around(ends[0], ends.at(-1), true) : around(quantile(ends, 0.05), ends.at(-1), false);
}

function around(low, high, log) {
  if (log) {
    const room = Math.max(1.02, (high / low) ** 0.06);
    return [low / room, high * room];
  }
  const room = 0.08 * Math.max(high - low, 0.1 * Math.min(1, Math.abs(high) || 1));
  return [low - room, high + room];
}

// All that is drawn between two epochs.
function heightsBetween(lines, [first, last], log) {
  const found = lines.flatMap(({epochs, values}) => values.filter((v, i) =>
    v !== null && (v > 0 || !log) && epochs[i] >= first && epochs[i] <= last));
  return found.length ? around(Math.min(...found), Math.max(...found), log) : null;
}

function viewOf(place) {
  if (!views.has(place)) views.set(place, {x: null, y: null, at: null});
  return views.get(place);
}

function drawChart(figure, cells) {
  const {dataset, net, place} = cells[0], view = viewOf(place), measure = byId("measure").value;
  const what = `${byId("measure").selectedOptions[0].textContent} by epoch`;
  const title = `${dataset} · ${net}`, log = scale.log;
  const caption = element("figcaption", {textContent: title}, figure);
  element("small", {textContent: what}, caption);
  const tools = element("span", {className: "tools"}, caption);
  const smooth = (epochs, values) => smoothed(epochs, values, scale.smooth);
  const curves = cells.map(cell => {
    const mean = average(cell, measure);
    const lost = cell.seeds.filter(s => s.status !== "done").map(s =>
      ({status: s.status, epochs: s.epochs, values: smooth(s.epochs, valuesOf(s, measure))}));
    const line = mean && {epochs: mean.epochs, values: smooth(mean.epochs, mean.mean)};
    return {row: cell.row, mean, line, lost};
  });
  const last = Math.max(1, ...cells.flatMap(c => c.seeds.map(s => s.epochs.at(-1) ?? 0)));
  const x = view.x ?? [0, last], drawn = curves.flatMap(c => [c.line, ...c.lost]).filter(Boolean);
  const y = view.y ?? (view.x && heightsBetween(drawn, view.x, log)) ?? heights(cells, measure, log);
  const width = Math.max(280, figure.clientWidth), height = 300;
  const chart = frame(figure, {x, y, width, height, log, name: "epoch", whole: true});
  curves.forEach((curve, order) => drawCurve(chart, curve, order, curves.length, smooth));
  const redraw = () => {
    const focused = figure.contains(document.activeElement), {at} = view;
    figure.replaceChildren(); // which takes the focus, and so ends the reading
    view.at = at;
    drawChart(figure, cells);
    if (focused) figure.querySelector("svg").focus();
  };
  addReading(figure, {...chart, title, width}, curves, last, view, redraw);
  const reset = element("button", {type: "button", className: "reset", textContent: "Reset zoom",
    hidden: !view.x}, tools);
  reset.addEventListener("click", () => { Object.assign(view, {x: null, y: null}); redraw(); });
  addSaving(tools, () => `curves ${title} ${measure}`, () =>
    pictureOf([{svg: chart.svg, name: ""}], `${title}: ${what}`, cells.map(c => [c.row, stroke(c.row)])));
  mark({});
}

function drawCurve({plot, X, Y}, {row, mean, line, lost}, order, count, smooth) {
  const group = draw("g", {"data-row": row, "data-order": order}, plot);
  const style = stroke(row), colour = style.stroke;
  if (mean?.seeds > 1) {
    const [low, high] = [mean.low, mean.high].map(values => smooth(mean.epochs, values));
    const always = isUnit(row) || count <= 4 ? "band always" : "band";
    draw("path", {class: always, d: band(mean.epochs, low, high, X, Y), style: `fill:${colour}`}, group);
  }
  if (line)
    draw("path", {d: path(line.epochs, line.values, X, Y), class: "line",
      "stroke-width": isUnit(row) ? 2.4 : 1.5, ...style}, group);
  for (const {status, epochs, values} of lost) {
    draw("path", {d: path(epochs, values, X, Y), class: "lost", stroke: colour}, group);
    const end = values.findLastIndex(v => v !== null);
    if (end >= 0 && status !== "unfinished")
      draw("text", {x: X(epochs[end]), y: Y(values[end]) + 4, "text-anchor": "middle",
        style: `fill:${colour};font-weight:700`}, group).textContent = "×";
  }
}

function drawCurves() {
  const charts = byId("charts");
  charts.replaceChildren();
  if (!shown.activations.has(marked.chosen)) marked.chosen = null;
  const visible = data.curves.filter(c => shown.datasets.has(c.dataset) && shown.nets.has(c.net)
    && shown.activations.has(c.row));
  // All figures first: their number decides how wide each is.
  const figures = unique(visible.map(c => c.place)).map(place =>
    [element("figure", {className: "chart"}, charts), visible.filter(c => c.place === place)]);
  for (const [figure, cells] of figures) drawChart(figure, cells);
  if (!charts.children.length)
    element("p", {className: "caption", textContent: "Nothing is chosen. Press a button above."}, charts);
}

function setUpCurves() {
  setUpLegend();
  const log = byId("log"), measure = byId("measure"), smooth = byId("smooth");
  const changed = () => {
    scale.smooth = Number(smooth.value);
    log.setAttribute("aria-pressed", scale.log);
    for (const view of views.values()) view.y = null;
    drawCurves();
  };
  log.addEventListener("click", () => { scale.log = !scale.log; changed(); });
  measure.addEventListener("change", () => { scale.log = LOGARITHMIC.has(measure.value); changed(); });
  smooth.addEventListener("change", changed);
  let width = 0;
  new ResizeObserver(([entry]) => {
    if (entry.contentRect.width === width) return;
    width = entry.contentRect.width;
    drawCurves();
  }).observe(byId("charts"));
}
