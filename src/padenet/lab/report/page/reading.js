// The values beneath a chart, at the last epoch or at the one pointed at; zooming.

const NEAR = 24; // pixels from a curve that count as on it
const DRAG = 8; // pixels from which a press is a drag

function nearest(epochs, epoch) {
  const i = epochs.findIndex(e => e >= epoch);
  return i > 0 && epoch - epochs[i - 1] < epochs[i] - epoch ? i - 1 : i;
}

function listValues(list, curves, epoch) {
  const values = curves.map(({row, mean}) => {
    const i = mean ? nearest(mean.epochs, epoch) : -1;
    return {row, value: i < 0 ? null : mean.mean[i], std: mean?.seeds > 1 ? mean.stds[i] : null};
  });
  values.sort((a, b) => (a.value === null) - (b.value === null) || b.value - a.value);
  const most = Math.max(0, ...values.map(v => v.value));
  const digits = most > 0 ? Math.max(2, Math.min(8, 3 - Math.floor(Math.log10(most)))) : 2;
  // A loss far below the others is not 0.
  const write = (v, value) =>
    value && Math.abs(value) < 10 ** (1 - digits) ? v.toExponential(1).replace("-", "−") : v.toFixed(digits);
  list.replaceChildren();
  for (const entry of values) {
    const {row, value, std} = entry, item = element("li", {}, list);
    swatch(item, row);
    element("span", {className: "name", textContent: row}, item);
    entry.text = value === null ? "–" : write(value, value);
    if (value !== null && std !== null) entry.text += ` ± ${write(std, value)}`;
    element("span", {className: "number", textContent: entry.text}, item);
    marksRow(item, row);
    item.addEventListener("click", () => choose(row));
  }
  return values;
}

function addReading(figure, chart, curves, last, view, redraw) {
  const {svg, X, Y, fromX, fromY, left, right, top, bottom} = chart;
  const cursor = draw("line", {class: "cursor", y1: top, y2: bottom, visibility: "hidden"}, svg);
  const box = draw("rect", {class: "drag", visibility: "hidden"}, svg);
  const head = element("p", {className: "read", role: "status"}, figure);
  const list = element("ol", {className: "values"}, figure);
  svg.setAttribute("tabindex", 0);
  svg.setAttribute("role", "application");
  svg.setAttribute("aria-label", `${chart.title}: learning curves. Left and right move along the epochs, `
    + "up and down from curve to curve; plus and minus zoom, 0 shows all; Escape leaves.");
  const ends = () => view.x ? [Math.ceil(view.x[0]), Math.floor(view.x[1])] : [0, last];
  let values = [];

  const show = epoch => {
    view.at = epoch === null ? null : Math.max(ends()[0], Math.min(ends()[1], epoch));
    const at = view.at ?? last;
    values = listValues(list, curves, at);
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, X(at));
    cursor.setAttribute("visibility", view.at === null ? "hidden" : "visible");
    say();
  };
  const say = () => {
    mark({});
    const one = values.find(v => v.row === (marked.pointed ?? marked.chosen));
    const when = view.at === null ? `epoch ${last} (last)` : `epoch ${view.at}`;
    const value = one && view.at !== null ? `: ${one.row} ${one.text}` : "";
    head.textContent = curves.some(c => c.mean) ? when + value : "No seed was trained to the end.";
  };
  const zoom = (x, y) => {
    const middle = (x[0] + x[1]) / 2, half = Math.max(1, (x[1] - x[0]) / 2);
    const clear = half * 2 >= last;
    const from = Math.max(0, Math.min(last - 2 * half, middle - half));
    Object.assign(view, clear && !y ? {x: null, y: null} : {x: clear ? [0, last] : [from, from + 2 * half], y});
    redraw();
  };
  const keyZoom = factor => {
    const [a, b] = view.x ?? [0, last], at = view.at ?? (a + b) / 2;
    zoom([at - (at - a) * factor, at + (b - at) * factor], null);
  };
  const step = by => {
    const known = values.filter(v => v.value !== null).map(v => v.row);
    const i = known.indexOf(marked.chosen);
    mark({chosen: known[i < 0 ? (by > 0 ? 0 : known.length - 1) : (i + by + known.length) % known.length] ?? null});
    show(view.at ?? last);
  };

  const inChart = event => {
    const area = svg.getBoundingClientRect(), unit = chart.width / area.width;
    return {x: Math.max(left, Math.min(right, (event.clientX - area.left) * unit)),
      y: Math.max(top, Math.min(bottom, (event.clientY - area.top) * unit))};
  };
  const rowAt = ({x, y}) => {
    const distances = curves.filter(c => c.line).map(({row, line}) =>
      [Math.abs(Y(line.values[nearest(line.epochs, fromX(x))]) - y), row]);
    const found = distances.filter(d => d[0] <= NEAR).sort((a, b) => a[0] - b[0])[0];
    return found ? found[1] : null;
  };
  let start = null;
  // A drag that is flat, as a finger's must be where the page scrolls, keeps all heights.
  const dragged = to => ({wide: Math.abs(to.x - start.x) > DRAG, high: Math.abs(to.y - start.y) > 3 * DRAG});
  svg.addEventListener("pointerdown", event => {
    if (event.button !== 0) return;
    start = {...inChart(event), touch: event.pointerType === "touch"};
    svg.setPointerCapture(event.pointerId);
    show(Math.round(fromX(start.x)));
  });
  svg.addEventListener("pointermove", event => {
    const to = inChart(event);
    show(Math.round(fromX(to.x)));
    if (!start) {
      if (event.pointerType !== "touch") { mark({pointed: rowAt(to)}); say(); }
      return;
    }
    const {wide, high} = dragged(to), flat = start.touch || !high;
    box.setAttribute("visibility", wide ? "visible" : "hidden");
    box.setAttribute("x", Math.min(start.x, to.x));
    box.setAttribute("width", Math.abs(to.x - start.x));
    box.setAttribute("y", flat ? top : Math.min(start.y, to.y));
    box.setAttribute("height", flat ? bottom - top : Math.abs(to.y - start.y));
  });
  svg.addEventListener("pointerup", event => {
    if (!start) return;
    const from = start, to = inChart(event), {wide, high} = dragged(to);
    start = null;
    if (wide) {
      const sorted = (a, b) => [a, b].sort((p, q) => p - q);
      zoom(sorted(fromX(from.x), fromX(to.x)), from.touch || !high ? null : sorted(fromY(from.y), fromY(to.y)));
    } else if (!high) {
      mark({pointed: null});
      choose(rowAt(to));
      say();
    }
  });
  svg.addEventListener("pointercancel", () => { start = null; box.setAttribute("visibility", "hidden"); });
  svg.addEventListener("pointerleave", event => {
    if (event.pointerType === "touch" || start) return;
    mark({pointed: null});
    show(null);
  });
  svg.addEventListener("dblclick", () => { if (view.x) zoom([0, last], null); });
  svg.addEventListener("blur", () => show(null));
  svg.addEventListener("keydown", event => {
    const [first, end] = ends(), far = event.shiftKey ? 10 : 1;
    const keys = {
      ArrowLeft: () => show((view.at ?? end + far) - far),
      ArrowRight: () => show((view.at ?? first - far) + far),
      Home: () => show(first),
      End: () => show(end),
      ArrowUp: () => step(-1),
      ArrowDown: () => step(1),
      "+": () => keyZoom(0.5),
      "=": () => keyZoom(0.5),
      "-": () => keyZoom(2),
      0: () => { if (view.x) zoom([0, last], null); },
      Escape: () => { mark({pointed: null, chosen: null}); show(null); },
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  show(view.at);
}
