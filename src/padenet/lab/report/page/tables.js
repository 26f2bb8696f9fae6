// The theme button; tables that sort by the heading clicked, and their files.

const byId = id => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);

function setUpTheme() {
  const button = byId("theme"), root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => { try { return localStorage.getItem("padenet-theme"); } catch { return null; } };
  const show = theme => {
    if (theme) root.dataset.theme = theme;
    button.setAttribute("aria-pressed", (theme ?? (system.matches ? "dark" : "light")) === "dark");
  };
  show(stored());
  system.addEventListener("change", () => show(root.dataset.theme));
  button.addEventListener("click", () => {
    const theme = button.getAttribute("aria-pressed") === "true" ? "light" : "dark";
    try { localStorage.setItem("padenet-theme", theme); } catch { /* a file may have no storage */ }
    show(theme);
  });
}

// By a heading: numbers start with the greatest, texts with A; what has no value stays at the end.
function sortRows(rows, heading, order) {
  const column = [...heading.parentElement.cells].indexOf(heading);
  const numeric = heading.classList.contains("number"), sign = order === "ascending" ? 1 : -1;
  const value = row => {
    const cell = row.cells[column];
    if (!numeric) return cell.textContent.trim();
    return cell.dataset.value === "" ? null : Number(cell.dataset.value);
  };
  const compare = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (numeric ? a - b : a.localeCompare(b, undefined, {numeric: true}));
  };
  return rows.map(row => [value(row), row]).sort((a, b) => compare(a[0], b[0])).map(pair => pair[1]);
}

// A heading sorts, sorts the other way, and goes back to the first order.
function setUpTable(table) {
  const body = table.tBodies[0], first = [...body.rows];
  const headings = [...table.querySelectorAll("th[aria-sort]")];
  const tools = element("p", {className: "tools"});
  const back = element("button", {type: "button", className: "small", hidden: true,
    textContent: "First order"}, tools);
  const sort = (heading, order) => {
    headings.forEach(h => h.setAttribute("aria-sort", h === heading ? order : "none"));
    body.append(...(order === "none" ? first : sortRows(first, heading, order)));
    back.hidden = order === "none";
  };
  for (const heading of headings) {
    const orders = ["none", "ascending", "descending"];
    if (heading.classList.contains("number")) orders.push(orders.splice(1, 1)[0]);
    heading.querySelector("button").addEventListener("click", () =>
      sort(heading, orders[(orders.indexOf(heading.ariaSort) + 1) % 3]));
  }
  back.addEventListener("click", () => {
    const sorted = headings.find(h => h.ariaSort !== "none");
    sort(sorted, "none");
    sorted.querySelector("button").focus({preventScroll: true});
  });
  const save = element("button", {type: "button", className: "small", textContent: "CSV",
    title: "Download this table, numbers in full"}, tools);
  save.setAttribute("aria-label", `Download the table ${table.id} as CSV`);
  save.addEventListener("click", () =>
    download(`${table.id}.csv`, new Blob([data.tables[table.id]], {type: "text/csv"})));
  table.closest(".scroll").after(tools);
}

function setUpTables() {
  document.querySelectorAll(".scroll > table").forEach(setUpTable);
}
