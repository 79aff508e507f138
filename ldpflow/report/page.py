"""The report: one HTML file with everything in it, that opens from disk without a network."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import altair as alt
import jinja2
import vl_convert
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from ldpflow.columns import Summary, round_text, short, with_error
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.documents import read_text
from ldpflow.errors import DamagedRun, InputError
from ldpflow.report.answers import (
    MAX_TABLE_ROWS,
    choices,
    failures,
    findings,
    glance,
    level_rule,
    ratio,
)
from ldpflow.report.charts import write_file
from ldpflow.report.figures import curves_of, risk_axis
from ldpflow.report.pictures import CAPTIONS, Figure, figures_of, published_comparisons
from ldpflow.report.results import Results, Row
from ldpflow.results.arena import ArenaSetting, judge, settings_of
from ldpflow.results.columns import summaries_of
from ldpflow.results.published import Comparison
from ldpflow.results.references import bibtex, entries, study_paragraph
from ldpflow.results.trajectories import last_rows
from ldpflow.store.part import UnreadablePart
from ldpflow.store.provenance import read_sessions
from ldpflow.store.run_store import RunStore
from ldpflow.study.reading import stored_plugins
from ldpflow.study.stored import stored_left_out, stored_study

LOOKED = (
    "coverage_all_n", "coverage_at_stop", "coverage_all_coordinates_failures_as_misses", "joint_coverage",
    "joint_size_mean",
)  # fmt: skip
"""Measures of looks before the end and of all coordinates at once, shown where a run has them."""


def diagnostics(results: Results) -> list[Summary]:
    """Diagnostics of the run's methods that are shown beside the measures."""
    declared = summaries_of(results.table.schema)
    return [summary for summary in declared if summary.shown and results.values(summary.name)]


def cell_table(results: Results, choices: Sequence[ArenaSetting]) -> dict[str, Any]:
    """All cells as texts. Its rows are what a page filters and counts by method."""
    best = {id(setting.best.row) for setting in choices if setting.best is not None}
    settings = [n for n in dict.fromkeys(("problem", *results.varying())) if len(results.values(n)) > 1]
    lost = any(row["failures"] for row in results.rows)
    shown = [summary.name for summary in diagnostics(results)]
    checks = [*shown, *(name for name in LOOKED if name not in shown and results.values(name))]
    head = [*map(results.names.label, settings), "method", "coverage ± MCSE", "level*"]
    head += [*(["failures as misses ± MCSE"] if lost else []), "length ± MCSE", "length / oracle ± MCSE"]
    head += ["bias ± MCSE", "emp. SE ± MCSE", "SE error ± MCSE, %", "main cause", "replicates", "failed"]
    head += checks
    rows = results.rows[:MAX_TABLE_ROWS]
    return {
        "head": head,
        "rows": [cells(row, settings, checks, lost, id(row) in best, results.cause(row)) for row in rows],
        "left": len(results.rows) - len(rows),
    }


def cells(
    row: Row, settings: Sequence[str], checks: Sequence[str], lost: bool, best: bool, cause: str | None
) -> list[str]:
    """One row of the table; with the coverage of all replicates where some are lost in the run."""
    errors = [row[f"relative_error_model_se{end}"] for end in ("", "_mcse")]
    misses = [row[f"coverage_failures_as_misses{end}"] for end in ("", "_mcse")]
    return [
        *(short(row[name]) for name in settings),
        row["series"],
        with_error(row["coverage"], row["coverage_mcse"]),
        judge(row) + (", recommended" if best else ""),
        *([with_error(*misses)] if lost else []),
        with_error(row["length_mean"], row["length_mcse"]),
        with_error(row.get("length_relative"), row.get("length_relative_mcse")),
        with_error(row["bias"], row["bias_mcse"]),
        with_error(row["empirical_se"], row["empirical_se_mcse"]),
        "-" if None in errors else with_error(*(100 * error for error in errors)),
        cause or "-",
        f"{row['replicates']:,}",
        f"{row['failures']:,}",
        *(round_text(row[name], 3) for name in checks),
    ]


def followed_table(results: Results) -> dict[str, Any]:
    """Every path at its last checkpoint, a row per statistic, and which bounds a mean is above."""
    rows = results.followed
    ends = last_rows(rows)
    names, meanings = results.path_varying, results.meanings
    place = {stat: i for i, stat in enumerate(meanings)}
    ends.sort(key=lambda r: ([(r[k] is not None, r[k]) for k in names], place[r["stat"]]))
    bounded = [r for r in rows if r["theory_bound"] is not None and r["mean"] is not None]
    above = [r for r in bounded if r["mean"] > r["theory_bound"]]
    stats = [stat for stat in meanings if any(r["stat"] == stat for r in ends)]
    head = [*(results.names.label(n) for n in names), "n", "step", "statistic", "mean ± MCSE"]
    head += ["5%", "median", "95%", "mean / bound", "mean / leading term", "replicates", "diverged"]
    return {
        "head": head,
        "rows": [end_of_path(row, names) for row in ends[:MAX_TABLE_ROWS]],
        "left": max(len(ends) - MAX_TABLE_ROWS, 0),
        "bounded": f"{len(bounded):,}" if bounded else "",
        "above": f"{len(above):,}" if above else "",
        "diverged": f"{sum(r['failures'] for r in ends if r['stat'] == stats[0]):,}",
        "meaning": [(stat, meanings[stat]) for stat in stats],
    }


def end_of_path(row: Row, names: Sequence[str]) -> list[str]:
    found = [*(short(row[k]) for k in (*names, "n", "step", "stat")), with_error(row["mean"], row["mcse"])]
    numbers = [row[k] for k in ("q05", "q50", "q95")]
    numbers += [ratio(row["mean"], row[f"theory_{kind}"]) for kind in ("bound", "limit")]
    return [
        *found,
        *(round_text(number, 3) for number in numbers),
        *(f"{row[k]:,}" for k in ("replicates", "failures")),
    ]


COMPARED = (
    "table", "τ", "coordinate", "method", "n", "measure", "ours", "SE", "printed", "SE", "z", "adj. p",
)  # fmt: skip


def comparison_table(comparison: Comparison) -> dict[str, Any]:
    rows = [
        [
            *(f"{r.table}", f"{r.tau:g}", f"{r.coordinate}", r.method, short(r.n), r.measure),
            *(
                round_text(r.ours, 4),
                round_text(r.ours_se, 2),
                round_text(r.printed, 4),
                round_text(r.printed_se, 2),
            ),
            *(f"{r.z:.2f}", f"{r.p_adjusted:.3f}"),
        ]
        for r in comparison.rows
    ]
    return {
        "name": comparison.name,
        "verdict": comparison.verdict,
        "refuted": comparison.refuted,
        "power": [f"{line[0].upper()}{line[1:]}." for line in comparison.power()],
        "level": f"{comparison.level_of_test:.0%}",
        "head": COMPARED,
        "rows": rows,
        "missing": len(comparison.missing),
    }


RELOAD_SECONDS = 10
"""Seconds after which a page that follows a sweep is read again by the browser."""

LOOK_SECONDS = 2.0
"""Least seconds between two looks at a run that is followed; a page is made at most a fifth of the time."""


TALL = {"coverage": 12, "explanation": 6}
"""Rows of panels that a figure of the page begins with; others have :data:`LOW`. Its supplement has all."""
LOW = 3


def report_html(results: Results, live: bool = False, notes: str = "") -> str:
    """The whole page; a ``live`` one reads itself again every RELOAD_SECONDS seconds.

    ``notes`` is Markdown: prose under its headings goes to the sections that have these headings.
    """
    sections, specs = [], {}
    for name, figure, chart in draw_figures(results):
        data = chart.data
        if data is not alt.Undefined:
            chart.data = alt.Data(values=[])  # as above: not checked again
        spec = chart.to_dict()
        if data is not alt.Undefined:
            spec["data"] = {"values": data.values}
        specs[name] = pack(spec)
        section = {
            "id": name,
            "heading": figure.heading,
            "caption": figure.caption,
            "alt": spec["description"],
        }
        left_out = spec["usermeta"].get("left_out")
        sections.append(section | {"tall": TALL.get(name, LOW), "left_out": left_out})
    settings = settings_of(results.rows)
    html = render_page(
        "page.html.jinja",
        name=results.name,
        findings=findings(results).sentences,
        lead=lead(results),
        picker=picker(results),
        progress=progress(results) if live or results.running else "",
        facts=facts(results),
        left_out=[*stored_left_out(results.store), *results.parts_left_out],
        glance=glance(results, settings),
        choices=choices(results, settings),
        level_rule=level_rule(results),
        methods=[in_a_line(method) for method in results.values("method")],
        diagnostics=[(summary.name, summary.meaning) for summary in diagnostics(results)],
        sections=sections,
        failures=failures(results),
        followed=followed_table(results) if results.followed else None,
        comparisons=[comparison_table(c) for c in published_comparisons(results)],
        table=cell_table(results, settings),
        texts=results.design.texts,
        commands=commands(results),
        paragraph=study_paragraph(results.design, results.table, results.sessions) if results.study else "",
        references=bibtex(results.design.study) if results.study else "",
        sessions=[session(entry) for entry in results.sessions],
        reload=RELOAD_SECONDS if live else 0,
        specs=script_json(specs),
    )
    return insert_notes(html, notes) if notes.strip() else html


def picker(results: Results) -> list[dict[str, Any]]:
    """Factors and values that the page can be filtered by."""
    rows = [*results.rows, *results.followed]
    found = []
    for name, label in results.picked.items():
        by = "series_rank" if name == "series" else name
        values = {row[by]: short(row[name]) for row in rows if row.get(name) is not None}
        texts = list(dict.fromkeys(values[key] for key in sorted(values)))
        found.append({"name": name, "label": label, "values": texts})
    return [factor for factor in found if len(factor["values"]) > 1]


def pack(spec: Any) -> Any:
    """A chart with its data by columns, a text or number that occurs often once: a third of the size."""
    if isinstance(spec, list):
        return [pack(part) for part in spec]
    if not isinstance(spec, dict):
        return spec
    rows = spec.get("values")
    if not (isinstance(rows, list) and rows and isinstance(rows[0], dict)):
        return {key: pack(value) for key, value in spec.items()}
    packed: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        distinct = {repr(value): value for value in values}
        at = {text: index for index, text in enumerate(distinct)}
        few = 3 * len(distinct) < len(values)
        packed[name] = {"of": [*distinct.values()], "at": [at[repr(v)] for v in values]} if few else values
        if len(distinct) == 1:
            packed[name] = {"of": values[0]}
    return {"packed": packed, "count": len(rows)}


def load_template(name: str) -> jinja2.Template:
    """A template of this package; it escapes what it is given."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ldpflow.report", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(name)


def render_page(template: str, /, **values: Any) -> str:
    """A page with its styles, its scripts and the library that draws figures."""
    bundle: Any = vl_convert.javascript_bundle  # its stub lacks the default
    return load_template(template).render(
        **values,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        css=Markup(asset("page.css")),
        script=Markup(asset("page.js")),
        library=Markup(bundle().replace("</script", "<\\/script")),
    )


def write_page(store: RunStore, text: str, file: str | None = None) -> str:
    """Write a page, by default ``report.html`` in the run; its place."""
    if file is None:
        store.publish("report.html", text.encode())
        return f"{store.address.rstrip('/')}/report.html"
    write_file(file, text.encode())
    return file


def follow(run: str, file: str | None, on_page: Callable[[str, str], None], notes: str = "") -> Results:
    """Write the page of a running sweep whenever its files change, until the sweep has ended.

    Parameters
    ----------
    run : str
    file : str, optional
        As of :func:`write_page`.
    on_page : callable
        Called with the place and the text of every page that is written.
    notes : str
        As of :func:`report_html`.

    Returns
    -------
    Results
        Those of the last page, which does not read itself again.
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
                seen, results = state, found
                text = report_html(results, live=results.running, notes=notes)
                on_page(write_page(store, text, file), text)
                if not results.running:
                    return results
            time.sleep(max(LOOK_SECONDS, 4 * (time.monotonic() - started)))
    except KeyboardInterrupt:
        if results is not None:
            write_page(store, report_html(results, notes=notes), file)
        raise


def fingerprint(store: RunStore) -> str:
    bad: list[UnreadablePart] = []
    names = [part.name for dataset in store.datasets() for part in dataset.scan(damaged=bad)]
    names += [part.name for part in bad]
    others = map(store.read, ("study.toml", "provenance.json"))
    return "\n".join([*names, *(data.to_pybytes().decode() for data in others if data)])


def latest(run: str) -> Results | None:
    """What a running sweep has stored; None where that is nothing yet."""
    try:
        return Results.load(run, from_parts=True)
    except InputError:
        sessions = read_sessions(RunStore(run))
        if sessions and sessions[-1].get("ended") is not None:
            raise
        return None


def asset(name: str) -> str:
    return files("ldpflow.report").joinpath(name).read_text(encoding="utf-8")


def in_a_line(kind: str) -> str:
    """An interval method by its kind and its title; by its kind alone where it is not installed."""
    method = INTERVAL_METHODS.get(kind)
    if method is None:
        return kind
    words = method.title or (method.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    return f"{kind}, {words}"


def script_json(value: object) -> Markup:
    """JSON that cannot end the script element it stands in."""
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))


def read_notes(file: str | os.PathLike[str]) -> str:
    """Text of a file of notes.

    Raises
    ------
    InputError
        If it cannot be read, or is no UTF-8.
    """
    return read_text(file, "notes", "a file in Markdown")


def insert_notes(html: str, notes: str) -> str:
    """Put a person's prose under the headings of a page.

    Text before the first heading goes below the findings; a heading that the page lacks makes a section of
    its own after the answers: coverage, methods at a glance, the choice. HTML in the notes is shown as text,
    and pictures are links: the page stays one file without scripts of others.
    """
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    tokens = markdown.parse(notes)
    parts: list[tuple[str, list[Any]]] = [("", [])]
    for at, token in enumerate(tokens):
        if token.type == "heading_open" and token.level == 0 and token.tag in ("h1", "h2"):
            parts.append((tokens[at + 1].content.strip(), []))
        parts[-1][1].append(token)
    for heading, found in parts:
        prose = markdown.renderer.render(found[3 if heading else 0 :], markdown.options, {})
        if not prose:
            continue
        prose = f'<div class="notes">{prose}</div>'
        place = f"<h2>{escape(heading)}</h2>"
        if heading and place.casefold() in (low := html.casefold()):
            at = low.index(place.casefold()) + len(place)
            html = html[:at] + prose + html[at:]
        else:
            section = f"<section>{place}{prose}</section>" if heading else prose
            mark = "<!-- notes -->" if heading else "<!-- prose -->"
            html = html.replace(mark, section + mark, 1)
    return html


def draw_figures(results: Results) -> list[tuple[str, Figure, Any]]:
    """(id, figure, chart) of the figures that the run has data for."""
    figures = figures_of(results)
    figures["design-beta"] = Figure(figures["coverage"].draw, **CAPTIONS["design-beta"])
    wanted = dict.fromkeys(("coverage", "explanation", "zip", "coverage-difference", "length-ratio"), "n")
    wanted |= dict.fromkeys(("length", "relative-length", "protocols"), "n")
    wanted |= {"design-beta": "beta", "choice": "n", "bias": "n"}
    wanted |= dict.fromkeys(("standard-error", "paper", "rates", *curves_of(results)), "n")
    wanted |= {"risk": risk_axis(results) or ""}
    if len(results.values("beta")) < 2:
        del wanted["design-beta"]
    if len({row["series"] for row in results.rows}) < MANY:
        del wanted["choice"]
    found = []
    for name, x in wanted.items():
        figure = figures[name]
        try:
            found.append((name, figure, figure.chart(results, x)))
        except DamagedRun:
            raise
        except InputError:
            continue  # the run has nothing of the kind
    return found


MANY = 4
"""Series from which on the report has the figure of the choice between them."""


def lead(results: Results) -> str:
    """The cells and the followed paths, in a sentence each."""
    found = []
    if rows := results.rows:
        level = " and ".join(f"{100 * v:g}%" for v in results.values("level"))
        methods = ", ".join(results.values("method"))
        text = f"{len(rows)} cells of nominal {level} intervals ({methods})"
        names = (*results.varying(), *results.method_settings)
        text += varying_settings(results, {name: results.values(name) for name in names})
        found.append(f"{text}. {count_replicates(rows)} replicates per cell.")
    if rows := results.followed:
        paths, steps = (len({row[name] for row in rows}) for name in ("path", "step"))
        text = f"{paths} path{'s' if paths > 1 else ''} followed at {steps} checkpoints"
        text += f" up to n = {short(max(row['n'] for row in rows))}"
        settings = results.path_varying
        text += varying_settings(
            results, {n: sorted({r[n] for r in rows if r[n] is not None}) for n in settings}
        )
        found.append(f"{text}. {count_replicates(rows)} replicates per path.")
    return " ".join(found)


def varying_settings(results: Results, values: Mapping[str, Sequence[Any]]) -> str:
    found = []
    for name, each in values.items():
        some = ", ".join([*map(short, each[:10]), *(["..."] if len(each) > 10 else [])])
        found += [f"{results.names.label(name)} in {{{some}}}"] if len(each) > 1 else []
    return f": {'; '.join(found)}" if found else ""


def count_replicates(rows: Sequence[Row]) -> str:
    counts = [row["replicates"] for row in rows]
    return " to ".join(dict.fromkeys(map(short, (min(counts), max(counts)))))


def facts(results: Results) -> list[tuple[str, str]]:

    def values(name: str) -> str:
        found = results.values(name) or sorted({r[name] for r in results.followed if r.get(name) is not None})
        return ", ".join(short(v) for v in found) if found else ""

    def with_settings(group: str) -> str:
        found = []
        for table in entries(results.design.study, group):
            settings = [
                f"{results.names.label(k)} = {list_values(v)}" for k, v in table.items() if k != "kind"
            ]
            kind = list_values(table.get("kind", ""))
            found.append(f"{kind} ({', '.join(settings)})" if settings else kind)
        return "; ".join(found)

    grid = f"n = {values('n')}; nominal level {values('level')}"
    if not results.rows:
        grid = f"n up to {short(max(row['n'] for row in results.followed))}"
    if results.design.study.get("grid", {}).get("independent_n"):
        grid += "; paths of their own for every n"
    if results.rows and not results.design.factorial:
        grid += "; not a full factorial design: some combinations were not run"
    privacy = [values("privacy_notion")]
    privacy += [f"unit: {unit}" if (unit := values("privacy_unit")) else ""]
    privacy += [f"neighbours: {relation}" if (relation := values("neighbouring")) else ""]
    rows = [
        ("Problem", with_settings("problem") or values("problem")),
        ("Mechanism", with_settings("mechanism") or values("mechanism")),
        ("Privacy", "; ".join(filter(None, privacy))),
        ("Algorithm", with_settings("algorithm") or values("algorithm")),
        ("Interval methods", with_settings("method") or values("method")),
        ("Grid", grid),
        ("Replicates", values("replicates")),
        ("Seed", str(results.design.study.get("seed", ""))),
    ]
    return [(name, value) for name, value in rows if value]


def list_values(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(f"({list_values(v)})" if isinstance(v, list) else short(v) for v in value)
    return short(value)


def commands(results: Results) -> list[str]:
    """The commands that give the rows again, bit for bit; those of the sessions where no others are known."""
    texts = results.design.texts
    if not texts:
        return [session(entry)["command"] for entry in results.sessions]
    names = [results.name] if len(texts) == 1 else [f"{results.name}-{at + 1}" for at in range(len(texts))]
    folder = shlex.quote(f"runs/{results.name}-again")
    flags = "".join(
        f" --{name.replace('_', '-')} {value:g}"
        for name, value in (results.design.precision or {}).items()
        if value is not None
    ) + plugin_flags(results)
    return [f"ldpflow sweep {shlex.quote(f'{name}.toml')} --out {folder}{flags}" for name in names]


def plugin_flags(results: Results) -> str:
    found = []
    for name, digest in stored_plugins(results.study):
        copy = f"plugins/{name}-{digest[:12]}/{name}.py"
        is_file = re.fullmatch(r"\w+", name) and results.store.read(copy) is not None
        found.append(f" --plugin {shlex.quote(results.store.full(copy) if is_file else name)}")
    return "".join(found)


def session(entry: dict[str, Any]) -> dict[str, str]:
    """One session of the run in words, without the path of the program."""
    words = str(entry.get("command", "")).split(" ", 1)
    words[0] = "ldpflow"
    machine = entry.get("machine") or {}
    seconds = entry.get("wall_seconds")
    return {
        "command": " ".join(words),
        "when": f"{entry.get('started', '')} to {entry.get('ended') or 'no end recorded'}",
        "wall": "" if seconds is None else f"{seconds:,.0f} s",
        "machine": f"{machine.get('processor', '')}, {machine.get('cores_usable', '?')} cores, "
        f"engine {entry.get('engine', '?')}",
        "versions": ", ".join(f"{k} {v}" for k, v in (entry.get("versions") or {}).items()),
    }


def progress(results: Results) -> str:
    """Progress of a run: the replicates of all paths of its study, started or not."""
    from ldpflow.engine.run import count_finished

    state = "Running, or interrupted" if results.running else "Finished"
    study = stored_study(results.store)
    if study is None:
        return f"{state}."
    found = count_finished(study, results.table, results.trajectories)
    done, wanted = found["done_replicates"], found["wanted_replicates"]
    paths = f" ({found['complete_paths']:,} of {found['paths']:,} paths complete)"
    return f"{state}: {done:,} of {wanted:,} replicates{paths if found['paths'] > 1 else ''}."
