// Draws the figures to the width of the page, sorts and filters tables, changes the theme, and on
// the local server fetches the page again and puts its new content in place.
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

async function follow() {
  let seen = null;
  for (;;) {
    await new Promise((wake) => setTimeout(wake, 2000));
    try {
      const answer = await fetch(location.href, { headers: seen ? { "If-None-Match": seen } : {}, cache: "no-store" });
      if (answer.status !== 200) continue;
      const first = seen === null;
      seen = answer.headers.get("ETag");
      if (first && seen === document.body.dataset.tag) continue;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const [x, y] = [window.scrollX, window.scrollY];
      const words = document.getElementById("filter")?.value ?? "";
      document.body.style.minHeight = `${document.body.scrollHeight}px`; // keep the place while drawing
      document.querySelector("main").replaceWith(page.querySelector("main"));
      const filter = document.getElementById("filter");
      if (filter) filter.value = words;
      prepareTables();
      prepareFilter();
      await draw();
      document.body.style.minHeight = "";
      window.scrollTo(x, y);
      document.documentElement.dataset.updates = String(Number(document.documentElement.dataset.updates || 0) + 1);
    } catch { /* the server has stopped; the page stays as it is */ }
  }
}

prepareTables();
prepareFilter();
await draw();
let width = window.innerWidth;
let waiting = 0;
window.addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (window.innerWidth !== width) { width = window.innerWidth; draw(); } }, 200);
});
if (document.body.dataset.live) follow();
