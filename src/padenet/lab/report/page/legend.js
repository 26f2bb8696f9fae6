// Which curves are drawn, and which one stands out: that under the pointer or, else, the one chosen.

const rows = new Map(data.rows.map(row => [row.name, row]));
const shown = {datasets: new Set(), nets: new Set(), activations: new Set()};
const marked = {pointed: null, chosen: null}; // names of rows

const unique = values => [...new Set(values)];

function stroke(name) {
  const [colour, dash] = rows.get(name).look;
  const dashes = data.dashes[dash].map(length => Math.round(14 * length) / 10).join(" ");
  return {stroke: `var(--c${colour})`, "stroke-dasharray": dashes};
}

function swatch(parent, name) {
  const svg = draw("svg", {viewBox: "0 0 28 10", class: "swatch", "aria-hidden": "true"}, parent);
  draw("line", {x1: 0, x2: 28, y1: 5, y2: 5, "stroke-width": 3, ...stroke(name)}, svg);
}

function mark(change) {
  Object.assign(marked, change);
  const name = marked.pointed ?? marked.chosen;
  for (const node of document.querySelectorAll("#curves [data-row]"))
    node.classList.toggle("marked", node.dataset.row === name);
  // In SVG what comes last is on top.
  for (const plot of document.querySelectorAll("#charts .plot")) {
    const above = group => group.classList.contains("marked") ? Infinity : Number(group.dataset.order);
    plot.append(...[...plot.children].sort((a, b) => above(a) - above(b)));
  }
}

const choose = name => mark({chosen: name === marked.chosen ? null : name});

// Marks its row while the pointer is on it or, reached by keys, while it has the focus.
function marksRow(node, name) {
  node.dataset.row = name;
  const on = () => mark({pointed: name}), off = () => mark({pointed: null});
  node.addEventListener("pointerenter", on);
  node.addEventListener("pointerleave", off);
  node.addEventListener("focus", () => { if (node.matches(":focus-visible")) on(); });
  node.addEventListener("blur", off);
}

function chip(parent, text, set, changed) {
  const button = element("button", {type: "button", className: "chip"}, parent);
  button.dataset.key = text;
  const press = on => {
    on ? set.add(text) : set.delete(text);
    button.setAttribute("aria-pressed", on);
  };
  press(true);
  button.addEventListener("click", () => { press(!set.has(text)); changed(); drawCurves(); });
  return {button, press};
}

function setUpLegend() {
  for (const part of ["dataset", "net"]) {
    const names = unique(data.curves.map(c => c[part])), parent = byId(`${part}s`);
    for (const name of names) chip(parent, name, shown[`${part}s`], () => {}).button.append(name);
    parent.hidden = names.length < 2;
  }
  const parent = byId("activations"), all = [];
  const changed = () => all.forEach(group => group.show());
  for (const kind of unique(data.rows.map(row => row.group))) {
    const group = element("div", {className: "control", role: "group", ariaLabel: kind}, parent);
    const whole = element("button", {type: "button", className: "chip plainly", textContent: kind}, group);
    const names = data.rows.filter(row => row.group === kind).map(row => row.name);
    const chips = names.map(name => {
      const {button, press} = chip(group, name, shown.activations, changed);
      swatch(button, name);
      button.append(name);
      marksRow(button, name);
      return press;
    });
    const count = () => names.filter(name => shown.activations.has(name)).length;
    const show = () => whole.setAttribute("aria-pressed",
      count() === names.length ? "true" : count() ? "mixed" : "false");
    const press = on => { chips.forEach(p => p(on)); show(); };
    whole.title = `all of “${kind}”, on or off`;
    whole.addEventListener("click", () => { press(count() < names.length); drawCurves(); });
    all.push({show, press});
  }
  changed();
  if (all.length < 2) return;
  const both = element("div", {className: "control"}, parent);
  for (const [text, on] of [["All", true], ["None", false]])
    element("button", {type: "button", className: "chip plainly", textContent: text}, both)
      .addEventListener("click", () => { all.forEach(group => group.press(on)); drawCurves(); });
}
