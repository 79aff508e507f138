// Sorts and filters tables, changes the theme, and draws the figures to the width of the page.
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

const embedded = new Map();

function fit(spec, width) {
  const fitted = structuredClone(spec);
  const margin = (spec.usermeta && spec.usermeta.margin) || 70;
  const most = width < 560 ? 1 : width < 860 ? 2 : 3;
  delete fitted.title; // the section has it
  fitted.config = { ...fitted.config, background: "transparent" };
  if (width < 560) fitted.config.legend = { ...fitted.config.legend, columns: 2, layout: { top: { direction: "vertical" } } };
  if (fitted.facet) {
    const panels = new Set(((fitted.data || {}).values || Object.values(fitted.datasets || {})[0] || []).map((d) => d.panel)).size;
    const discrete = margin > 100; // a heat map: its columns say how wide it is
    const wanted = discrete ? fitted.spec.width : 0;
    const columns = discrete ? Math.max(1, Math.min(most, panels, Math.floor((width - margin) / (wanted + 24)))) : panels === 4 ? Math.min(most, 2) : Math.min(most, panels);
    const space = Math.floor((width - margin - 24 * (columns - 1)) / columns);
    fitted.columns = columns;
    fitted.spec.width = discrete ? Math.min(wanted, Math.max(space, 120)) : Math.min(space, 420);
  } else if (fitted.concat) {
    const columns = Math.min(most, fitted.concat.length);
    fitted.columns = columns;
    const space = Math.floor(width / columns) - margin - 14;
    for (const panel of fitted.concat) panel.width = Math.max(120, Math.min(space, 360));
  } else {
    fitted.width = margin > 100 ? Math.min(fitted.width, width - margin) : Math.min(width - margin - 10, 640);
  }
  return fitted;
}

async function draw() {
  const specs = JSON.parse(document.getElementById("figure-data").textContent);
  const charts = [...document.querySelectorAll(".chart")];
  for (const chart of charts) {
    const width = chart.clientWidth || 700;
    const embed = (space) => vegaEmbed(chart, fit(specs[chart.dataset.figure], space), {
      mode: "vega-lite", renderer: "svg", hover: false,
      actions: { export: true, source: false, compiled: false, editor: false },
      downloadFileName: chart.dataset.figure,
    });
    let result = await embed(width);
    const over = chart.querySelector("svg").getBoundingClientRect().width - width;
    if (over > 0) { // the labels are wider than guessed
      result.finalize();
      result = await embed(width - Math.ceil(over));
    }
    if (embedded.has(chart.dataset.figure)) embedded.get(chart.dataset.figure).finalize();
    embedded.set(chart.dataset.figure, result);
    chart.classList.add("drawn");
  }
  document.documentElement.dataset.drawn = String(charts.length);
}

function prepareFilter() {
  const filter = document.getElementById("filter");
  if (!filter) return; // a run without intervals has no cells
  const rows = [...document.querySelectorAll("#cell-table tbody tr")];
  const show = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const cells = [...row.cells].map((cell) => cell.textContent.toLowerCase());
      row.hidden = !words.every((word) => cells.some((text) => text === word || (word.length > 1 && /[a-z]/.test(word[0]) && text.includes(word))));
      count += !row.hidden;
    }
    document.getElementById("count").textContent = `${count} of ${rows.length} rows`;
  };
  filter.addEventListener("input", show);
  show();
}

// A page that follows a sweep reads itself again, and goes on where the reader was.
const here = `ldpflow-place ${location.pathname}`;

function goOn() {
  let place = null;
  try { place = JSON.parse(sessionStorage.getItem(here)); sessionStorage.removeItem(here); } catch { /* a private window */ }
  if (!place) return;
  const filter = document.getElementById("filter");
  if (filter && place.words) { filter.value = place.words; filter.dispatchEvent(new Event("input")); }
  window.scrollTo(place.x, place.y);
}

function readAgain(seconds) {
  setTimeout(() => {
    if (document.hidden) { readAgain(seconds); return; }
    const place = { x: window.scrollX, y: window.scrollY, words: document.getElementById("filter")?.value ?? "" };
    try { sessionStorage.setItem(here, JSON.stringify(place)); } catch { /* a private window */ }
    location.reload();
  }, 1000 * seconds);
}

prepareTheme();
prepareTables();
prepareFilter();
await draw();
let width = window.innerWidth;
let waiting = 0;
window.addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (window.innerWidth !== width) { width = window.innerWidth; draw(); } }, 200);
});
goOn();
if (document.body.dataset.reload) readAgain(Number(document.body.dataset.reload));
