// The theme button, and tables that sort by the heading clicked.

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

// Numbers start with the greatest, texts with A; what has no value stays at the end.
function sortBy(heading) {
  const table = heading.closest("table"), body = table.tBodies[0];
  const headings = [...heading.parentElement.cells], column = headings.indexOf(heading);
  const numeric = heading.classList.contains("number");
  const first = numeric ? "descending" : "ascending";
  const second = numeric ? "ascending" : "descending";
  const order = heading.ariaSort === first ? second : first;
  headings.forEach(h => h.setAttribute("aria-sort", h === heading ? order : "none"));
  const value = row => {
    const cell = row.cells[column];
    if (!numeric) return cell.textContent.trim();
    return cell.dataset.value === "" ? null : Number(cell.dataset.value);
  };
  const sign = order === "ascending" ? 1 : -1;
  const compare = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (numeric ? a - b : a.localeCompare(b, undefined, {numeric: true}));
  };
  const rows = [...body.rows].map(row => [value(row), row]);
  rows.sort((a, b) => compare(a[0], b[0]));
  body.append(...rows.map(pair => pair[1]));
}

function setUpTables() {
  for (const heading of document.querySelectorAll("th[aria-sort]"))
    heading.querySelector("button").addEventListener("click", () => sortBy(heading));
}

setUpTheme();
setUpTables();
