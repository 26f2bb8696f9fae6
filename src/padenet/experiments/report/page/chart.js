// Axes in SVG: what the charts of curves and of layers share.

function draw(tag, attributes, parent) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  parent?.append(node);
  return node;
}

function element(tag, properties, parent) {
  const node = Object.assign(document.createElement(tag), properties);
  parent?.append(node);
  return node;
}

function ticks([low, high], count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find(s => s * power >= raw);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++)
    found.push(Number((i * step).toPrecision(10)));
  return found;
}

function logTicks([low, high]) {
  const found = [];
  for (let p = Math.floor(Math.log10(low)); 10 ** p <= high; p++)
    for (const s of [1, 2, 5]) {
      const v = Number((s * 10 ** p).toPrecision(3));
      if (v >= low && v <= high) found.push(v);
    }
  return found;
}

const label = v => String(v).replace("-", "−");
let clips = 0;

// An empty chart with axes; X and Y turn values into places, `plot` is clipped to the frame.
function frame(parent, {x, y, width, height, log = false, dense = 5}) {
  const left = 38, right = 14, top = 8, bottom = 22;
  const svg = draw("svg", {viewBox: `0 0 ${width} ${height}`}, parent);
  const X = v => left + (v - x[0]) / (x[1] - x[0]) * (width - left - right);
  const f = log ? Math.log : v => v;
  const Y = v => height - bottom - (f(v) - f(y[0])) / (f(y[1]) - f(y[0])) * (height - top - bottom);
  for (const v of log ? logTicks(y) : ticks(y, dense)) {
    draw("line", {class: "grid", x1: left, x2: width - right, y1: Y(v), y2: Y(v)}, svg);
    draw("text", {x: left - 6, y: Y(v) + 4, "text-anchor": "end"}, svg).textContent = label(v);
  }
  for (const v of ticks(x, Math.max(3, Math.min(8, (width - left) / 60))))
    draw("text", {x: X(v), y: height - 6, "text-anchor": "middle"}, svg).textContent = label(v);
  const id = `clip${clips++}`, clip = draw("clipPath", {id}, svg);
  draw("rect", {x: left, y: top, width: width - left - right, height: height - top - bottom}, clip);
  const plot = draw("g", {"clip-path": `url(#${id})`}, svg);
  return {svg, plot, X, Y, left, right, top, bottom};
}

// A path through the points; it stops at a value that is not finite and goes on after it.
function path(xs, ys, X, Y) {
  let d = "", pen = "M";
  for (let i = 0; i < xs.length; i++) {
    if (ys[i] === null || !Number.isFinite(ys[i])) { pen = "M"; continue; }
    const place = Math.max(-1e5, Math.min(1e5, Y(ys[i])));
    d += `${pen}${X(xs[i]).toFixed(1)},${place.toFixed(1)}`;
    pen = "L";
  }
  return d;
}

const band = (xs, low, high, X, Y) => {
  const forth = path(xs, low, X, Y), back = path([...xs].reverse(), [...high].reverse(), X, Y);
  return forth && back ? `${forth}${back.replace("M", "L")}Z` : "";
};

function quantile(sorted, q) {
  return sorted[Math.max(0, Math.min(sorted.length - 1, Math.round(q * (sorted.length - 1))))];
}
