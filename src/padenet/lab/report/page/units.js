// The learned activations: every layer's rational function at the epoch of the slider.

const POINTS = 161;

// Q(x) and the sum A(x) inside it. A form is its flags, those of core/forms.py: the absolute value
// of every term, that of the sum, and a constant: b[0] is then b_0, else b_1.
function denominator({per_term, around, constant}, b, x) {
  let A = 0, power = constant ? 1 : x;
  for (const c of b) {
    A += per_term ? Math.abs(c * power) : c * power;
    power *= x;
  }
  return [1 + (around ? Math.abs(A) : A), A];
}

function numerator(a, x) {
  let P = 0;
  for (let k = a.length - 1; k >= 0; k--) P = P * x + a[k];
  return P;
}

function rational(form, a, b, x) {
  return numerator(a, x) / denominator(form, b, x)[0];
}

// Standard deviation of F to first order when every coefficient c is c·(1 + u), u uniform in ±alpha.
function spread(form, a, b, x, alpha) {
  const [Q, A] = denominator(form, b, x), P = numerator(a, x);
  let sum = 0, power = 1;
  for (const c of a) { sum += (c * power / Q) ** 2; power *= x; }
  power = form.constant ? 1 : x;
  const slope = form.around ? Math.sign(A) : 1;
  for (const c of b) { sum += (c * power * slope * P / Q ** 2) ** 2; power *= x; }
  return alpha * Math.sqrt(sum / 3);
}

// Half of the band: 95 % of the noise, or of as many times the noise as make it wider than the line.
function bandWidth(run, a, b, x) {
  return 1.96 * spread(run.form, a, b, x, run.alpha * run.scale);
}

const player = {run: null, layers: [], timer: null};
const groupsOf = coefficients => Array.isArray(coefficients[0][0]) ? coefficients : [coefficients];

function gridOf(reach) {
  return Array.from({length: POINTS}, (_, i) => -reach + 2 * reach * i / (POINTS - 1));
}

// One height for all epochs, so that the curve moves and not the axis: all of the first and the
// last, and of those between what is not extreme. A pole has no height that shows it all.
function reachOfValues(run, layer, xs) {
  const all = layer.epochs.map(units => groupsOf(units).flatMap(([a, b]) =>
    xs.filter((_, i) => i % 4 === 0).flatMap(x => {
      const y = rational(run.form, a, b, x), width = bandWidth(run, a, b, x);
      return [y - width, y + width];
    })));
  const finite = all.flat().filter(Number.isFinite).sort((p, q) => p - q);
  if (!finite.length) return [-1, 1];
  const ends = run.has_poles ? [] : [...all[0], ...all.at(-1)].filter(Number.isFinite);
  const low = Math.min(quantile(finite, 0.01), ...ends), high = Math.max(quantile(finite, 0.99), ...ends);
  const room = Math.max(high - low, 0.1);
  return [low - 0.04 * room, high + 0.04 * room];
}

function drawLayers() {
  const run = player.run, parent = byId("layers");
  parent.replaceChildren();
  const xs = gridOf(Number(byId("reach").value));
  player.layers = run.layers.map(layer => {
    const figure = element("figure", {}, parent);
    element("figcaption", {textContent: layer.name}, figure);
    const y = reachOfValues(run, layer, xs);
    const {svg, plot, X, Y} = frame(figure, {x: [xs[0], xs.at(-1)], y, width: 210, height: 150, dense: 3});
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `Learned activation of ${layer.name}`);
    draw("line", {class: "zero", x1: X(0), x2: X(0), y1: Y(y[0]), y2: Y(y[1])}, plot);
    const start = groupsOf(layer.epochs[0])[0];
    const noise = draw("path", {class: "noise"}, plot);
    draw("path", {class: "start", d: path(xs, xs.map(x => rational(run.form, ...start, x)), X, Y)}, plot);
    const many = groupsOf(layer.epochs[0]).length > 1;
    const style = many ? "stroke-width:1;opacity:.6" : "";
    const lines = groupsOf(layer.epochs[0]).map(() => draw("path", {class: "now", style}, plot));
    return {layer, svg, xs, X, Y, noise, lines};
  });
  drawEpoch();
}

function drawEpoch() {
  const run = player.run, i = Number(byId("epoch").value);
  byId("epoch-value").textContent = run.epochs[i];
  byId("epoch").setAttribute("aria-valuetext", `epoch ${run.epochs[i]}`);
  for (const {layer, xs, X, Y, noise, lines} of player.layers) {
    groupsOf(layer.epochs[i]).forEach(([a, b], k) => {
      const ys = xs.map(x => rational(run.form, a, b, x));
      lines[k].setAttribute("d", path(xs, ys, X, Y));
      if (!run.scale || lines.length > 1) return;
      const width = xs.map(x => bandWidth(run, a, b, x));
      noise.setAttribute("d", band(xs, ys.map((y, j) => y - width[j]), ys.map((y, j) => y + width[j]), X, Y));
    });
  }
}

function stop() {
  clearInterval(player.timer);
  player.timer = null;
  byId("play").textContent = "Play";
  byId("play").setAttribute("aria-pressed", false);
}

function play() {
  if (player.timer) return stop();
  const slider = byId("epoch"), last = Number(slider.max);
  if (Number(slider.value) === last) slider.value = 0;
  byId("play").textContent = "Stop";
  byId("play").setAttribute("aria-pressed", true);
  player.timer = setInterval(() => {
    slider.value = Number(slider.value) + 1;
    drawEpoch();
    if (Number(slider.value) === last) stop();
  }, Math.max(60, 5000 / Math.max(1, last)));
}

function chooseRun() {
  stop();
  player.run = data.units[Number(byId("run").value)];
  const slider = byId("epoch");
  slider.max = player.run.epochs.length - 1;
  slider.value = slider.max;
  byId("units-note").textContent = player.run.note;
  const {scale} = player.run;
  for (const id of ["noise-key", "noise-name"]) byId(id).hidden = !scale;
  byId("noise-name").textContent = `${scale > 1 ? `${scale} times the ` : ""}noise (95 %)`;
  drawLayers();
}

function setUpUnits() {
  if (!data.units.length) {
    byId("units").hidden = true;
    return;
  }
  data.units.forEach((run, i) => element("option", {value: i, textContent: run.name}, byId("run")));
  byId("run").addEventListener("change", chooseRun);
  byId("reach").addEventListener("change", drawLayers);
  byId("epoch").addEventListener("input", () => { stop(); drawEpoch(); });
  byId("play").addEventListener("click", play);
  const now = () => `${player.run.name} · epoch ${byId("epoch-value").textContent}`;
  const legend = () => {
    const lines = [["unit", {stroke: "var(--c0)"}], ["start", {stroke: "var(--c1)", "stroke-dasharray": "5 3"}]];
    const noise = [byId("noise-name").textContent, {stroke: "var(--c0)", "stroke-width": 8, opacity: 0.32}];
    return player.run.scale ? [...lines, noise] : lines;
  };
  addSaving(byId("units-tools"), () => `units ${now()}`, () =>
    pictureOf(player.layers.map(({svg, layer}) => ({svg, name: layer.name})), now(), legend()));
  chooseRun();
}
