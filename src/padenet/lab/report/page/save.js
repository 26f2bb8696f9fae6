// A table or a chart as a file, made in the page.

function download(name, blob) {
  const address = URL.createObjectURL(blob);
  const link = element("a", {href: address, download: name.replace(/[^\p{L}\p{N}_.+-]+/gu, "-")}, document.body);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// What the style sheet says, written into a copy.
const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin",
  "opacity", "visibility", "font-size", "font-weight", "text-anchor"];

function styledCopy(svg) {
  const copy = svg.cloneNode(true), nodes = [...svg.querySelectorAll("*")];
  [...copy.querySelectorAll("*")].forEach((node, i) => {
    const style = getComputedStyle(nodes[i]);
    node.removeAttribute("style");
    for (const name of STYLES) node.setAttribute(name, style.getPropertyValue(name));
  });
  for (const node of copy.querySelectorAll("[visibility=hidden], .cursor, .drag")) node.remove();
  for (const node of [copy, ...copy.querySelectorAll("*")])
    for (const name of ["class", "role", "tabindex", "aria-label", "data-row", "data-order"]) node.removeAttribute(name);
  return copy;
}

// The charts side by side under a title, over a legend of names with the style of their line.
function pictureOf(charts, title, legend) {
  const size = svg => svg.getAttribute("viewBox").split(" ").slice(2).map(Number);
  const [w, h] = size(charts[0].svg), cell = charts[0].name ? h + 16 : h, margin = 12, room = 170;
  const columns = Math.min(charts.length, 4), across = Math.max(columns * w, 420);
  const perLine = Math.max(1, Math.floor(across / room)), lines = Math.ceil(legend.length / perLine);
  const width = across + 2 * margin, bottom = 36 + Math.ceil(charts.length / columns) * cell;
  const height = bottom + lines * 18 + margin;
  const style = getComputedStyle(document.body);
  const picture = draw("svg", {xmlns: "http://www.w3.org/2000/svg", width, height,
    viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif", fill: style.color});
  draw("rect", {width, height, fill: style.backgroundColor}, picture);
  const write = (text, x, y, more) => { draw("text", {x, y, ...more}, picture).textContent = text; };
  write(title, margin, 22, {"font-size": 14, "font-weight": 600});
  charts.forEach(({svg, name}, i) => {
    const x = margin + i % columns * w, y = 32 + Math.floor(i / columns) * cell;
    if (name) write(name, x + 4, y + 11, {"font-size": 11});
    const copy = styledCopy(svg);
    for (const [key, value] of Object.entries({x, y: y + cell - h, width: w, height: h})) copy.setAttribute(key, value);
    picture.append(copy);
  });
  const probe = element("span", {hidden: true}, document.body);
  const plain = colour => { probe.style.color = colour; return getComputedStyle(probe).color; };
  legend.forEach(([name, line], i) => {
    const x = margin + i % perLine * room, y = bottom + 8 + Math.floor(i / perLine) * 18;
    draw("line", {x1: x, x2: x + 28, y1: y - 4, y2: y - 4, "stroke-width": 2.4, ...line,
      stroke: plain(line.stroke)}, picture);
    write(name, x + 34, y, {"font-size": 12});
  });
  probe.remove();
  return picture;
}

const sourceOf = picture => new XMLSerializer().serializeToString(picture);

async function pixelsOf(picture) {
  const image = new Image(), scale = 2;
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(sourceOf(picture))}`;
  await image.decode();
  const canvas = element("canvas", {width: scale * image.width, height: scale * image.height});
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise(done => canvas.toBlob(done, "image/png"));
}

// Buttons that save what `make` draws, under what `name` says then.
function addSaving(parent, name, make) {
  const add = (kind, blobOf) => {
    const button = element("button", {type: "button", className: "small", textContent: kind}, parent);
    button.title = `Download as ${kind}`;
    button.setAttribute("aria-label", `Download the figure as ${kind}`);
    button.addEventListener("click", async () => download(`${name()}.${kind.toLowerCase()}`, await blobOf(make())));
  };
  add("SVG", picture => new Blob([sourceOf(picture)], {type: "image/svg+xml"}));
  add("PNG", pixelsOf);
}
