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

function ticks([low, high], count, least = 0) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = Math.max(least, power * [1, 2, 5, 10].find(s => s * power >= raw));
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++)
    found.push(Number((i * step).toPrecision(10)));
  return found;
}

// 1, 2 and 5 times powers of ten; over many decades fewer, within one as on a linear axis.
function logTicks([low, high]) {
  const decades = Math.log10(high / low), found = [];
  if (decades < 0.7) return ticks([low, high], 5);
  for (let p = Math.floor(Math.log10(low)); 10 ** p <= high; p++)
    for (const s of decades > 3 ? [1] : [1, 2, 5]) {
      const v = Number((s * 10 ** p).toPrecision(3));
      if (v >= low && v <= high) found.push(v);
    }
  return found;
}

const label = v => String(v).replace("-", "−");
const EDGE = 4; // pixels beside the axes, for what marks the first and the last point
let clips = 0;

// An empty chart with axes; X and Y turn values into places, fromX and fromY places into values;
// `plot` is clipped to the frame.
function frame(parent, {x, y, width, height, log = false, dense = 5, name = "", whole = false}) {
  const rows = log ? logTicks(y) : ticks(y, dense);
  const left = 12 + 6.3 * Math.max(4, ...rows.map(v => label(v).length));
  const right = 14, top = 8, bottom = name ? 36 : 22;
  const svg = draw("svg", {viewBox: `0 0 ${width} ${height}`}, parent);
  const f = log ? Math.log : v => v, back = log ? Math.exp : v => v;
  const across = width - left - right, up = height - top - bottom;
  const X = v => left + (v - x[0]) / (x[1] - x[0]) * across;
  const Y = v => height - bottom - (f(v) - f(y[0])) / (f(y[1]) - f(y[0])) * up;
  const fromX = p => x[0] + (p - left) / across * (x[1] - x[0]);
  const fromY = p => back(f(y[0]) + (height - bottom - p) / up * (f(y[1]) - f(y[0])));
  for (const v of rows) {
    draw("line", {class: "grid", x1: left, x2: width - right, y1: Y(v), y2: Y(v)}, svg);
    draw("text", {x: left - 6, y: Y(v) + 4, "text-anchor": "end"}, svg).textContent = label(v);
  }
  const line = height - bottom + 16;
  for (const v of ticks(x, Math.max(3, Math.min(8, (width - left) / 60)), whole ? 1 : 0))
    draw("text", {x: X(v), y: line, "text-anchor": "middle"}, svg).textContent = label(v);
  if (name) draw("text", {x: left + across / 2, y: line + 14, "text-anchor": "middle"}, svg).textContent = name;
  const id = `clip${clips++}`, clip = draw("clipPath", {id}, svg);
  draw("rect", {x: left - EDGE, y: top, width: across + 2 * EDGE, height: up}, clip);
  const plot = draw("g", {class: "plot", "clip-path": `url(#${id})`}, svg);
  return {svg, plot, X, Y, fromX, fromY, left, right: width - right, top, bottom: height - bottom};
}

const RING = "m-2.5,0a2.5,2.5 0 1,0 5,0a2.5,2.5 0 1,0 -5,0";

// A path through the points; it stops at a value that is not finite and goes on after it. A point
// between two gaps is a ring.
function path(xs, ys, X, Y) {
  const known = i => ys[i] !== null && Number.isFinite(ys[i]) && Number.isFinite(Y(ys[i]));
  let d = "";
  for (let i = 0; i < xs.length; i++) {
    if (!known(i)) continue;
    const place = Math.max(-1e5, Math.min(1e5, Y(ys[i])));
    const begins = i === 0 || !known(i - 1), ends = i === xs.length - 1 || !known(i + 1);
    d += `${begins ? "M" : "L"}${X(xs[i]).toFixed(1)},${place.toFixed(1)}${begins && ends ? RING : ""}`;
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
