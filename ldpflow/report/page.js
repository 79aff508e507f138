// Sorts tables, filters figures and tables, and draws figures to the width of the page.
const textOf = (cell) => cell.textContent.trim();
const headsOf = (table) => [...table.tHead.rows[0].cells].map(textOf);

function sortBy(table, column, button) {
  const head = button.closest("th");
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const th of table.tHead.rows[0].cells) th.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const value = (row) => { const text = textOf(row.cells[column]).replaceAll(",", ""); return text === "-" ? "" : /^[-+.\d]/.test(text) ? parseFloat(text) : text; };
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => {
    const [p, q] = [value(a), value(b)];
    if (p === "" || q === "") return (p === "") - (q === ""); // no value comes last either way
    const [x, y] = [Number(p), Number(q)];
    const order = Number.isNaN(x) || Number.isNaN(y) ? String(p).localeCompare(String(q)) : x - y;
    return down ? -order : order;
  });
  table.tBodies[0].append(...rows);
}

const glossary = new Map([...document.querySelectorAll("#words dt")].map((dt) => [textOf(dt).split(" (")[0], textOf(dt.nextElementSibling)]));

function prepareTables() {
  for (const th of document.querySelectorAll("thead th")) th.title = glossary.get(textOf(th).replace("*", "").split(" ± ")[0]) ?? "";
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((th, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = th.textContent;
      button.addEventListener("click", () => sortBy(table, column, button));
      th.replaceChildren(button);
    });
  }
  for (const table of document.querySelectorAll(".scroll table")) { // narrow windows name the columns in each row
    const heads = headsOf(table);
    for (const row of table.tBodies[0].rows) heads.forEach((head, at) => { if (row.cells[at]) row.cells[at].dataset.label = head.replace(" ± MCSE", " ±"); });
  }
}

// Figures: data come by columns.
const figures = JSON.parse(document.getElementById("figure-data").textContent);
for (const spec of Object.values(figures)) {
  if (!spec.data) continue;
  const columns = Object.entries(spec.data.packed).map(([name, c]) => [name, Array.isArray(c) ? (i) => c[i] : (i) => c.of[c.at[i] ?? 0]]);
  const row = (i) => Object.fromEntries(columns.map(([name, get]) => [name, get(i)]).filter(([, value]) => value !== null));
  spec.data = { values: Array.from({ length: spec.data.count }, (_, i) => row(i)) };
}
const chosen = new Map(); // values of factors that are shown, by name
const embedded = new Map();
let round = 0;

const filterData = (spec, keep) => ({ ...spec, data: { values: spec.data.values.filter(keep) } });
const isChosen = (row) => [...chosen].every(([name, values]) => !(`@${name}` in row) || values.has(row[`@${name}`]));

// Keeps the rows of panels with the lowest coverage of a large figure. Returns them, and words on the supplement.
const rowsOf = ({ facet, data }) => ((facet.row ?? facet).sort ?? []).filter((name) => data.values.some((row) => row.row === name));

function shorten(spec, tall) {
  const { facet } = spec;
  const most = facet.sort ? 3 * tall : tall;
  const rows = rowsOf(spec);
  if (rows.length <= most) return [spec, ""];
  const mostBelow = new Map(rows.map((row) => [row, [-1, 0]])); // largest shortfall, and the sum of shortfalls for ties
  for (const { row, below } of spec.data.values) {
    const found = mostBelow.get(row);
    if (found && below !== undefined) mostBelow.set(row, [Math.max(found[0], below), found[1] + below]);
  }
  const rank = (a, b) => b[0] - a[0] || b[1] - a[1];
  const worst = new Set([...rows].sort((a, b) => rank(mostBelow.get(a), mostBelow.get(b))).slice(0, most));
  const known = [...mostBelow.values()].some(([below]) => below > -1);
  const words = `${most} of ${rows.length} ${facet.sort ? "panels" : "rows of panels"}, the ${known ? "worst by coverage (failures as misses)" : "first"}`;
  return [filterData(spec, (row) => worst.has(row.row)), `Shown here: ${words}; the supplement below has all.`];
}

// Cuts a figure of many rows into parts that fit a sheet of paper.
function sheets(spec, width) {
  const rows = spec.facet && width >= 560 ? rowsOf(spec) : [];
  const most = (spec.facet?.sort ? 3 : 1) * Math.max(1, Math.floor((1.2 * width) / ((spec.spec?.height ?? 0) + 30)));
  if (rows.length <= most) return [spec];
  const count = Math.ceil(rows.length / most);
  return Array.from({ length: count }, (_, at) => filterData(spec, (row) => Math.floor((rows.indexOf(row.row) * count) / rows.length) === at));
}

function fit(spec, width) {
  const fitted = structuredClone(spec);
  const margin = spec.usermeta.margin;
  const most = width < 560 ? 1 : width < 860 ? 2 : 3;
  delete fitted.title; // the section has it
  fitted.config = { ...fitted.config, background: "transparent" };
  const layers = (fitted.spec ?? fitted).layer ?? [];
  const encodings = layers.flatMap(({ encoding }) => Object.entries(encoding ?? {}));
  const labels = encodings.flatMap(([, { legend, scale }]) => (legend ? legend.values ?? scale?.domain ?? [] : []));
  const wide = 6.8 * Math.max(0, ...labels.map((label) => `${label}`.length)) + 34; // a label with its symbol
  const able = Math.max(1, Math.floor((width - 30) / wide));
  fitted.config.legend = { ...fitted.config.legend, columns: Math.min(able, width < 560 ? 2 : 6), labelLimit: width - 80 };
  if (width < 560 || labels.length > able) fitted.config.legend.layout = { top: { direction: "vertical" } };
  const heights = fitted.data.values.flatMap((row) => ["y", "low", "high", "shared"].map((name) => row[name])).filter(Number.isFinite);
  for (const [channel, { field, legend, scale, axis }] of encodings) { // legends and axes of what is shown
    const present = new Set(fitted.data.values.map((row) => row[field]));
    const names = scale?.domain?.filter?.((name) => present.has(name)) ?? [];
    if (legend && !legend.values && names.length) legend.values = names;
    if (!chosen.size) continue;
    if (field === "place") {
      const at = [...new Set([...present].map(Math.round))].sort((a, b) => a - b);
      scale.domain = [at[0] - 0.5, at.at(-1) + 0.5];
      if (axis?.values) axis.values = at.flatMap((x) => [x - 0.5, x]);
    } else if (field === "x") {
      if (axis?.values) axis.values = axis.values.filter((x) => present.has(x));
    } else if (channel === "y" && scale?.domain && heights.length) {
      const ends = [Math.min(...heights), Math.max(...heights)];
      scale.domain = [ends[0] / 1.25, ends[1] * 1.25];
      const marks = axis?.values?.filter((value) => value >= scale.domain[0] && value <= scale.domain[1]) ?? [];
      if (axis?.values) Object.assign(axis, marks.length > 2 ? { values: marks } : { values: undefined, tickCount: 4 });
    }
  }
  const discrete = margin > 100; // names stand beside a panel: it may be narrower
  const { facet } = fitted;
  const distinct = (name) => new Set(fitted.data.values.map((row) => row[name]));
  if (facet && (facet.row || facet.column)) {
    const columns = distinct("column").size;
    const lines = facet.row ? Math.max(...facet.row.sort.map((text) => text.split(", ").length)) : 0;
    const space = Math.floor((width - margin - 13 * lines - 20 * columns) / columns);
    if (space >= (discrete && width >= 560 ? 60 : 110)) {
      fitted.spec.width = Math.min(space, discrete ? 300 : 420);
      return fitted;
    }
    const at = (channel, name) => (channel ? channel.sort.indexOf(name) : 0);
    const places = new Map(fitted.data.values.map((row) => [row.panel, 1e4 * at(facet.row, row.row) + at(facet.column, row.column)]));
    const sort = [...places.keys()].sort((a, b) => places.get(a) - places.get(b));
    fitted.facet = { field: "panel", type: "nominal", sort, header: { title: facet.row?.header.title ?? null, titleFontWeight: "normal", labelExpr: "split(datum.label, ', ')" } };
    fitted.resolve = { axis: { x: "independent" } };
  }
  if (facet) {
    const panels = distinct(fitted.facet.field).size;
    const least = facet.sort ? (discrete ? fitted.spec.width : 1e9) : discrete ? 160 : 110; // a person's grid may have more columns
    const across = Math.max(1, Math.floor((width - margin) / (least + 24)));
    const columns = Math.min(panels, facet.sort ? (discrete ? Math.min(most, across) : panels === 4 ? Math.min(most, 2) : most) : across);
    const space = Math.floor((width - margin - 24 * (columns - 1)) / columns);
    fitted.columns = columns;
    fitted.spec.width = discrete && facet.sort ? Math.min(fitted.spec.width, Math.max(space, 120)) : Math.max(60, Math.min(space, 420));
  } else {
    fitted.width = discrete ? Math.min(fitted.width, width - margin) : Math.min(width - margin - 10, 640);
  }
  return fitted;
}

// Breaks titles of horizontal axes into lines that are at most as wide as a panel.
function wrapTitles(spec) {
  const panel = spec.spec ?? spec;
  for (const { encoding } of panel.layer ?? []) {
    const { title } = encoding.x ?? {};
    if (typeof title !== "string" || 6.5 * title.length <= panel.width) continue;
    const lines = [""];
    for (const word of title.split(" ")) {
      const longer = `${lines.at(-1)} ${word}`.trim();
      if (6.5 * longer.length <= panel.width) lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    encoding.x.title = lines.filter(Boolean);
  }
  return spec;
}

async function drawChart(chart) {
  const name = chart.dataset.figure;
  const width = chart.clientWidth || chart.closest("section")?.clientWidth || 700;
  const chosenData = chosen.size ? filterData(figures[name], isChosen) : figures[name];
  const full = Boolean(chart.dataset.all) || !Number(chart.dataset.tall);
  const [spec, words] = full ? [chosenData, ""] : shorten(chosenData, Math.ceil(Number(chart.dataset.tall) / (width < 560 ? 2 : 1)));
  const supplement = chart.closest("section").querySelector(".supplement");
  if (supplement && !chart.dataset.all) {
    supplement.hidden = !words;
    chart.closest("section").querySelector(".shown").textContent = words;
  }
  embedded.get(chart)?.forEach((result) => result.finalize());
  embedded.delete(chart);
  const none = `None of the chosen cells is in this figure. ${spec.usermeta?.left_out ?? ""}`;
  if (spec.data && !spec.data.values.length) { chart.textContent = none; return; }
  const results = [];
  const parts = sheets(spec, width).map((part) => [document.createElement("div"), part]);
  chart.replaceChildren(...parts.map(([place]) => place));
  for (const [place, part] of parts) {
    const embed = (space) => vegaEmbed(place, wrapTitles(fit(part, space)), {
      mode: "vega-lite", renderer: "svg", hover: false,
      actions: { export: true, source: false, compiled: false, editor: false },
      downloadFileName: name,
    });
    let result = await embed(width);
    const over = Number(place.querySelector("svg").getAttribute("width")) - width;
    if (over > 0) { // the labels are wider than guessed
      result.finalize();
      result = await embed(width - Math.ceil(over));
    }
    results.push(result);
  }
  embedded.set(chart, results);
  chart.classList.add("drawn");
}

// Draws the charts nearest to the top of the window first. A later call ends an earlier one.
async function draw() {
  const mine = ++round;
  delete document.documentElement.dataset.drawn;
  const charts = [...document.querySelectorAll(".chart")].filter((chart) => !chart.closest("details:not([open])"));
  const distance = (chart) => Math.abs(chart.getBoundingClientRect().top);
  for (const chart of charts.sort((a, b) => distance(a) - distance(b))) {
    await drawChart(chart);
    if (mine !== round) return;
  }
  document.documentElement.dataset.drawn = String(charts.length);
  // Closed supplements are drawn last, for printing.
  for (const chart of document.querySelectorAll(".supplement:not([open]):not([hidden]) .chart")) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    if (mine !== round) return;
    await drawChart(chart);
  }
}

// The picker: factors and values that figures and tables show.
const picker = document.getElementById("picker");
const factors = picker ? [...picker.querySelectorAll("details")] : [];

function filterTables() {
  for (const table of document.querySelectorAll("table:not(#glance-table)")) {
    const heads = headsOf(table);
    const tests = factors.filter(({ dataset }) => chosen.has(dataset.name) && heads.includes(dataset.label))
      .map(({ dataset }) => [heads.indexOf(dataset.label), [...chosen.get(dataset.name)]]);
    const passes = (text, values) => text === "-" || values.some((value) => value === text || value.startsWith(`${text},`));
    for (const row of table.tBodies[0].rows) row.hidden = tests.some(([at, values]) => !passes(textOf(row.cells[at]), values));
    table.parentElement.classList.toggle("empty", [...table.tBodies[0].rows].every((row) => row.hidden));
    heads.forEach((head, at) => { // columns of one value of a factor, such as n = 1e5
      const [label, value] = head.split(" = ");
      const factor = value && factors.find(({ dataset }) => dataset.label === label);
      if (!factor) return;
      const hidden = chosen.has(factor.dataset.name) && !chosen.get(factor.dataset.name).has(value);
      for (const row of table.rows) row.cells[at].hidden = hidden;
    });
  }
  for (const details of document.querySelectorAll("#pairs details")) {
    const count = details.querySelectorAll("tbody tr:not([hidden])").length;
    const summary = details.querySelector("summary");
    summary.textContent = summary.textContent.replace(/^[\d,]+/, count);
  }
}

// Columns of the table of cells, and the cells that are chosen. Not all cells of a large run are on the page.
const cells = document.getElementById("cells");
const whole = cells && !cells.dataset.left;
const heads = cells ? headsOf(document.getElementById("cell-table")) : [];
const column = (name) => heads.findIndex((head) => head.startsWith(name));
const [method, state, length, failed, replicates] = ["method", "state*", "length / oracle", "failed", "replicates"].map(column);
const coverage = column("failures as misses") < 0 ? column("coverage") : column("failures as misses");
const shownCells = () => [...document.querySelectorAll("#cell-table tbody tr")].filter((row) => !row.hidden).map((row) => [...row.cells].map(textOf));
const total = (rows, at) => rows.reduce((sum, row) => sum + Number(row[at].replaceAll(",", "")), 0);

// Computes the table at a glance again, for the chosen cells.
function countCells() {
  if (!whole) return;
  const shown = shownCells();
  const span = (rows, at, digits) => {
    const values = rows.map((row) => parseFloat(row[at])).filter((value) => !Number.isNaN(value));
    const ends = [Math.min(...values), Math.max(...values)].map((value) => value.toFixed(digits));
    return values.length ? [...new Set(ends)].join(" to ") : "-";
  };
  for (const row of document.getElementById("glance-table").tBodies[0].rows) {
    const own = shown.filter((cell) => cell[method] === textOf(row.cells[0]));
    const count = (text) => own.filter((cell) => cell[state].startsWith(text)).length;
    const lost = total(own, failed);
    const texts = [own.length, span(own, coverage, 3), count("holds"), count("unclear"), count("fails"), count("holds, recommended"), span(own, length, 2), lost ? `${lost.toLocaleString("en")} (${(100 * lost / total(own, replicates)).toFixed(1)}%)` : 0];
    texts.forEach((text, at) => { row.cells[at + 1].textContent = text; });
    row.hidden = !own.length;
  }
}

// Says what holds and what fails among the chosen cells. This sentence replaces the sentences on all cells.
function describe() {
  if (!whole) return;
  const place = document.getElementById("chosen");
  place.hidden = !chosen.size;
  for (const finding of document.querySelectorAll(".finding.whole")) finding.hidden = chosen.size > 0;
  if (!chosen.size) return;
  const shown = shownCells();
  const barred = JSON.parse(cells.dataset.barred);
  const rows = shown.filter((row) => !barred.includes(row[method]));
  const groups = [...new Set(rows.map((row) => row[method]))].map((name) => [name, rows.filter((row) => row[method] === name)]);
  const list = (word) => groups.map(([name, own]) => [name, own.filter((row) => row[state].startsWith(word)).length, own.length])
    .filter(([, count]) => count).map(([name, count, all]) => `${name} in ${count} of ${all}`).join("; ") || "none";
  const open = rows.filter((row) => row[state] === "unclear").length;
  const worst = rows.reduce((least, row) => (parseFloat(row[coverage]) < parseFloat(least?.[coverage] ?? 2) ? row : least), null);
  const where = worst?.slice(0, method + 1).map((value, i) => (i === method ? value : `${heads[i]} = ${value}`)).reverse().join(", ");
  place.textContent = `Of the ${rows.length} chosen cells that are judged, shown to hold the level: ${list("holds")}. Shown to fail: ${list("fails")}. Too few replicates to say: ${open}.`
    + ` Intervals that are missing: ${total(shown, failed).toLocaleString("en")} of ${total(shown, replicates).toLocaleString("en")}.`
    + (worst ? ` Lowest coverage: ${worst[coverage]} (${where}).` : "");
}

function show() {
  chosen.clear();
  for (const factor of factors) {
    const values = [...factor.querySelectorAll("input:checked")].map((input) => input.value);
    if (values.length) chosen.set(factor.dataset.name, new Set(values));
    factor.classList.toggle("chosen", values.length > 0);
    factor.querySelector("summary span").textContent = values.length ? values.join(" | ") : "all";
  }
  picker?.classList.toggle("active", chosen.size > 0);
  document.body.classList.toggle("picked", chosen.size > 0);
  filterTables();
  const count = `${shownCells().length} of ${document.querySelectorAll("#cell-table tbody tr").length} cells`;
  if (picker) document.getElementById("picked").textContent = chosen.size ? count : "";
  describe();
}

function change() {
  show();
  countCells();
  draw();
}

function prepareFilters() {
  picker?.addEventListener("change", change);
  picker?.addEventListener("reset", () => setTimeout(change));
  document.addEventListener("click", (event) => { for (const factor of factors) if (!factor.contains(event.target)) factor.open = false; });
  for (const details of document.querySelectorAll(".supplement")) details.addEventListener("toggle", () => { if (details.open && !matchMedia("print").matches) draw(); });
  show();
}

// A page that follows a sweep reloads itself, and keeps the scroll position and the choices of the reader.
const here = `ldpflow-place ${location.pathname}`;

function goOn() {
  let place = null;
  try { place = JSON.parse(sessionStorage.getItem(here)); sessionStorage.removeItem(here); } catch { /* a private window */ }
  if (!place) return;
  for (const input of picker?.querySelectorAll("input") ?? []) input.checked = place.picks.includes(`${input.closest("details").dataset.name} ${input.value}`);
  if (place.picks.length) change();
  window.scrollTo(place.x, place.y);
}

function readAgain(seconds) {
  setTimeout(() => {
    if (document.hidden) { readAgain(seconds); return; }
    const picks = [...(picker?.querySelectorAll("input:checked") ?? [])].map((input) => `${input.closest("details").dataset.name} ${input.value}`);
    const place = { x: window.scrollX, y: window.scrollY, picks };
    try { sessionStorage.setItem(here, JSON.stringify(place)); } catch { /* a private window */ }
    location.reload();
  }, 1000 * seconds);
}

// On paper all details are open, but for those of the picker.
function preparePrint() {
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("main details:not([open], #contents)")].filter((details) => !factors.includes(details) && !details.closest(".chart"));
    for (const details of opened) details.open = true;
  });
  window.addEventListener("afterprint", () => { for (const details of opened) details.open = false; });
}

function prepareContents() {
  const contents = document.getElementById("contents");
  if (!contents) return;
  for (const section of document.querySelectorAll("main section[id]")) {
    const link = document.createElement("a");
    link.href = `#${section.id}`;
    link.textContent = section.querySelector("h2").textContent;
    contents.querySelector("nav").append(link);
  }
}

prepareContents();
prepareTables();
prepareFilters();
preparePrint();
await draw();
let width = window.innerWidth;
let waiting = 0;
window.addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (window.innerWidth !== width) { width = window.innerWidth; draw(); } }, 200);
});
goOn();
if (document.body.dataset.reload) readAgain(Number(document.body.dataset.reload));
