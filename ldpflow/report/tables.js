// Sorts tables and changes the theme.
function sortBy(table, column, button) {
  const head = button.closest("th");
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const th of table.tHead.rows[0].cells) th.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const value = (row) => { const cell = row.cells[column]; return cell.dataset.v ?? cell.textContent; };
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => {
    const [p, q] = [value(a), value(b)];
    if (p === "" || q === "") return (p === "") - (q === ""); // no value comes last either way
    const [x, y] = [Number(p), Number(q)];
    const order = Number.isNaN(x) || Number.isNaN(y) ? p.localeCompare(q) : x - y;
    return down ? -order : order;
  });
  table.tBodies[0].append(...rows);
}

function prepareTables() {
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((th, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = th.textContent;
      button.title = "sort";
      button.addEventListener("click", () => sortBy(table, column, button));
      th.replaceChildren(button);
    });
  }
}

function prepareTheme() {
  const button = document.getElementById("theme");
  const order = ["auto", "light", "dark"];
  const set = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
    try { localStorage.setItem("ldpflow-theme", theme); } catch { /* a private window */ }
  };
  let theme = "auto";
  try { theme = localStorage.getItem("ldpflow-theme") || "auto"; } catch { /* a private window */ }
  set(order.includes(theme) ? theme : "auto");
  button.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme || "auto";
    set(order[(order.indexOf(now) + 1) % 3]);
  });
}

prepareTheme();
