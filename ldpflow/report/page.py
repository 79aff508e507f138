"""The report of a run: one HTML file that opens from disk without a network."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import altair as alt
import vl_convert
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from ldpflow.columns import round_text, short
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.documents import read_text, templates
from ldpflow.errors import DamagedRun, InputError
from ldpflow.report import answers
from ldpflow.report.charts import write_file
from ldpflow.report.figures import CAPTIONS
from ldpflow.report.pictures import Figure, figures_of, published_comparisons
from ldpflow.report.progress import command_of, progress
from ldpflow.report.results import Results, Row, distinct, measured
from ldpflow.results.arena import TOLERANCE, enough_in_words, settings_of, why_barred
from ldpflow.results.references import bibtex, entries, study_paragraph
from ldpflow.store.part import UnreadablePart
from ldpflow.store.provenance import read_sessions
from ldpflow.store.run_store import RunStore
from ldpflow.study.reading import stored_plugins
from ldpflow.study.stored import stored_left_out

RELOAD_SECONDS = 10
"""Seconds after which a browser reloads the page of a running sweep."""

LOOK_SECONDS = 2.0
"""Least seconds between two checks of a running sweep for new files."""


TALL = {"coverage": 12, "explanation": 6, "zip": 9, "paper": 9}
"""Most rows of panels of a figure on the page, by figure. Others have :data:`LOW`. The supplement below a
figure has all rows."""
LOW = 3


def report_html(results: Results, live: bool = False, notes: str = "") -> str:
    """HTML of the whole page. A ``live`` page reloads itself every RELOAD_SECONDS seconds.

    ``notes`` is Markdown. Text under a heading of the page goes to that section of the page.
    """
    settings = settings_of(results.rows)
    html = render_page(
        "page.html.jinja",
        draw_figures(results),
        name=results.name,
        findings=answers.findings(results).sentences,
        picker=picker(results),
        progress=progress(results.store, results.sessions, results.table, lambda: results.trajectories, live),
        facts=facts(results),
        left_out=[*stored_left_out(results.store), *results.parts_left_out],
        glance=(answers.GLANCE, answers.glance(results, settings)) if results.rows else None,
        choices=answers.choices(results, settings),
        enough=enough_in_words(results.values("level")),
        tolerance=f"{100 * TOLERANCE:g}",
        methods=[in_a_line(method) for method in results.values("method")],
        words=words(results),
        barred=sorted({row["series"] for row in results.rows if why_barred(row)}),
        failures=answers.failures(results),
        pairs=answers.pairs(results),
        followed=answers.followed_table(results) if results.followed else None,
        comparisons=published_comparisons(results),
        table=answers.cell_table(results, settings),
        text=results.design.text,
        commands=commands(results),
        paragraph=study_paragraph(results.design, results.table, results.sessions) if results.study else "",
        references=bibtex(results.design.study) if results.study else "",
        sessions=[(command_of(session), session) for session in results.sessions],
        reload=RELOAD_SECONDS if live else 0,
    )
    return insert_notes(html, notes) if notes.strip() else html


def words(results: Results) -> list[tuple[str, str]]:
    found: dict[str, str] = dict(CAPTIONS["words"])
    if not results.rows:
        found = {name: found[name] for name in ("n", "replicate", "MCSE")}
    groups = ("problem", "mechanism", "algorithm", "protocol", "method")
    settings = [name for group in groups for table in entries(results.design.study, group) for name in table]
    for name in dict.fromkeys((*results.varying(), *settings)):
        column = results.names[name]
        meaning = (column.meaning or column.title).removesuffix("; null elsewhere")
        if meaning and column.label not in found:
            found[f"{column.symbol} ({name})" if column.symbol else name] = meaning
    found |= {summary.name: summary.meaning for summary in answers.diagnostics(results)}
    return [(word, f"{text.replace('`', '').removesuffix('.')}.") for word, text in found.items()]


def picker(results: Results) -> list[dict[str, Any]]:
    rows = [*results.rows, *results.followed]
    found = []
    for name, label in results.picked.items():
        by = "series_rank" if name == "series" else name
        values = {row[by]: short(row[name]) for row in rows if row.get(name) is not None}
        texts = list(dict.fromkeys(values[key] for key in sorted(values)))
        found.append({"name": name, "label": label, "values": texts})
    return [factor for factor in found if len(factor["values"]) > 1]


def render_page(template: str, figures: Sequence[tuple[str, str, str, Any]], /, **values: Any) -> str:
    """Render a page with figures, each given as id, heading, caption and chart."""
    sections, specs = [], {}
    for name, heading, caption, chart in figures:
        spec = specs[name] = chart_json(chart)
        section = {"id": name, "heading": heading, "caption": caption, "alt": spec["description"]}
        section["left_out"] = spec["usermeta"].get("left_out")
        sections.append(section | {"tall": TALL.get(name, LOW) if "facet" in spec else 0})
    bundle: Any = vl_convert.javascript_bundle  # the type stub lacks the default of its argument
    text = json.dumps(specs, separators=(",", ":")).replace("<", "\\u003c")  # no text can end the script
    return (
        templates("ldpflow.report", html=True)
        .get_template(template)
        .render(
            **values,
            **{"measured": measured, "short": short, "round_text": round_text},
            sections=sections,
            specs=Markup(text),
            written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            library=Markup(bundle().replace("</script", "<\\/script")),
        )
    )


def chart_json(chart: Any) -> dict[str, Any]:
    """Convert a chart to Vega-Lite. The data are added at the end: Altair would check every value."""
    data = chart.data
    if data is alt.Undefined:
        return dict(chart.to_dict())
    chart.data = alt.Data(values=[])
    return {**chart.to_dict(), "data": {"packed": pack(data.values), "count": len(data.values)}}


def pack(rows: Sequence[Row]) -> dict[str, Any]:
    """Pack rows by columns. Values of columns with few different values are stored once and indexed."""
    packed: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        known = {value: at for at, value in enumerate(dict.fromkeys(values))}
        few = 3 * len(known) < len(values)
        at = [known[value] for value in values] if len(known) > 1 else []
        packed[name] = {"of": [*known], "at": at} if few else values
    return packed


def write_page(store: RunStore, text: str, file: str | None = None) -> str:
    """Write a page, by default to ``report.html`` in the run. Return its path."""
    if file is None:
        store.publish("report.html", text.encode())
        return f"{store.address.rstrip('/')}/report.html"
    write_file(file, text.encode())
    return file


def follow(
    run: str,
    file: str | None,
    on_page: Callable[[str, str], None],
    notes: str = "",
    baseline: str | None = None,
) -> Results:
    """Write the page of a running sweep whenever its files change, until the sweep has ended.

    ``on_page`` is called with the path and the text of every page. The last page does not reload itself. Its
    results are returned.
    """
    store = RunStore(run)
    if store.read_study() is None:
        raise InputError("run", run, "a run directory that a sweep has begun to fill")
    seen, results = "", None
    try:
        while True:
            started = time.monotonic()
            state = fingerprint(store)
            if state != seen and (found := latest(run)) is not None:
                seen, results = state, found.with_baseline(baseline)
                running = bool(results.sessions) and results.sessions[-1].get("ended") is None
                text = report_html(results, live=running, notes=notes)
                on_page(write_page(store, text, file), text)
                if not running:
                    return results
            # At most a fifth of the time goes into making pages.
            time.sleep(max(LOOK_SECONDS, 4 * (time.monotonic() - started)))
    except KeyboardInterrupt:
        if results is not None:
            write_page(store, report_html(results, notes=notes), file)
        raise


def fingerprint(store: RunStore) -> str:
    bad: list[UnreadablePart] = []
    names = [part.name for dataset in store.datasets() for part in dataset.scan(damaged=bad)]
    others = map(store.read, ("study.toml", "provenance.json"))
    return repr([*names, *(part.name for part in bad), *(data.to_pybytes() for data in others if data)])


def latest(run: str) -> Results | None:
    """Results that a running sweep has stored so far, or None if it has stored none."""
    try:
        return Results.load(run, from_parts=True)
    except InputError:
        sessions = read_sessions(RunStore(run))
        if sessions and sessions[-1].get("ended") is not None:
            raise
        return None


def in_a_line(kind: str) -> str:
    method = INTERVAL_METHODS.get(kind)
    if method is None:
        return kind
    words = method.title or (method.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    return f"{kind}, {words}"


def read_notes(file: str | os.PathLike[str]) -> str:
    return read_text(file, "notes", "a file in Markdown")


def insert_notes(html: str, notes: str) -> str:
    """Put the user's prose under the headings of a page.

    Text before the first heading goes below the findings. A heading that the page lacks makes a new section
    after the recommended methods. HTML in the notes is shown as text, and pictures are not loaded: the page
    stays one file without foreign scripts.
    """
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    parts: list[tuple[str, list[Any]]] = [("", [])]
    tokens = iter(markdown.parse(notes))
    for token in tokens:
        if token.type == "heading_open" and token.level == 0 and token.tag in ("h1", "h2"):
            parts.append((next(tokens).content.strip(), []))
            next(tokens)  # the end of the heading
        else:
            parts[-1][1].append(token)
    for heading, found in parts:
        if not (prose := markdown.renderer.render(found, markdown.options, {})):
            continue
        prose = f'<div class="notes">{prose}</div>'
        place = f"<h2>{escape(heading)}</h2>"
        if heading and (known := re.search(re.escape(place), html, re.IGNORECASE)):
            html = html[: known.end()] + prose + html[known.end() :]
        else:
            section = f"<section>{place}{prose}</section>" if heading else prose
            mark = "<!-- notes -->" if heading else "<!-- prose -->"
            html = html.replace(mark, section + mark, 1)
    return html


def draw_figures(results: Results) -> list[tuple[str, str, str, Any]]:
    """Id, heading, caption and chart of each figure for which the run has data."""
    figures = figures_of(results)
    axes = dict.fromkeys(figures, "n")
    if len(results.values("beta")) > 1:
        figures["design-beta"] = Figure(figures["coverage"].draw, **CAPTIONS["design-beta"])
        axes["design-beta"] = "beta"
    if len(results.series) < 4:  # coverage against length is for many methods
        del axes["choice"]
    if not any(row["stat"] == "tail_exc" for row in results.followed):
        del axes["risk"]
    found = []
    for name, x in axes.items():
        try:
            figure = figures[name]
            caption = f"{figure.caption} {figure.marks}"
            found.append((name, figure.heading, caption, figure.chart(results, x)))
        except DamagedRun:
            raise
        except InputError:
            continue  # the run has no data for it
    return found


def facts(results: Results) -> list[tuple[str, str]]:

    def values(name: str) -> str:
        return list_values(results.values(name) or distinct(results.followed, name))

    def with_settings(group: str) -> str:
        found = []
        for table in entries(results.design.study, group):
            names = [name for name in table if name != "kind"]
            settings = ", ".join(f"{results.names.label(k)} = {list_values(table[k])}" for k in names)
            found.append(list_values(table.get("kind", "")) + (f" ({settings})" if settings else ""))
        return "; ".join(found) or values(group)

    grid = f"n = {values('n')}; nominal level {values('level')}"
    if not results.rows:
        grid = f"n up to {short(max(row['n'] for row in results.followed))}"
    if results.design.study.get("grid", {}).get("independent_n"):
        grid += "; paths of their own for every n"
    if results.rows and not results.design.factorial:
        grid += "; not a full factorial design: some combinations were not run"
    privacy = {"": "privacy_notion", "unit: ": "privacy_unit", "neighbours: ": "neighbouring"}
    found = {
        "Problem": with_settings("problem"),
        "Mechanism": with_settings("mechanism"),
        "Privacy": "; ".join(word + found for word, name in privacy.items() if (found := values(name))),
        "Algorithm": with_settings("algorithm"),
        "Interval methods": with_settings("method"),
        "Grid": grid,
        "Replicates": values("replicates"),
        "Seed": str(results.design.study.get("seed", "")),
    }
    return [(name, value) for name, value in found.items() if value]


def list_values(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(f"({list_values(v)})" if isinstance(v, list) else short(v) for v in value)
    return short(value)


def commands(results: Results) -> list[str]:
    """Command that computes the rows again bit for bit. Without a study file: commands of all sessions."""
    if not results.design.text:
        return [command_of(session) for session in results.sessions]
    folder = shlex.quote(f"runs/{results.name}-again")
    flags = "".join(
        f" --{name.replace('_', '-')} {value:g}"
        for name, value in (results.design.precision or {}).items()
        if value is not None
    ) + plugin_flags(results)
    return [f"ldpflow sweep {shlex.quote(f'{results.name}.toml')} --out {folder}{flags}"]


def plugin_flags(results: Results) -> str:
    found = []
    for name, digest in stored_plugins(results.study):
        copy = f"plugins/{name}-{digest[:12]}/{name}.py"
        is_file = re.fullmatch(r"\w+", name) and results.store.read(copy) is not None
        found.append(f" --plugin {shlex.quote(results.store.full(copy) if is_file else name)}")
    return "".join(found)
