"""The report: one HTML file with everything in it, that opens from disk without a network."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup

from ldpflow.errors import DamagedRun, InputError
from ldpflow.intervals import INTERVAL_METHODS
from ldpflow.report.catalogue import Figure, figures_of
from ldpflow.report.figures import curves_of, risk_axis
from ldpflow.report.numbers import short
from ldpflow.report.pictures import published_comparisons
from ldpflow.report.results import Results, Row
from ldpflow.report.sections import (
    cell_table,
    choices,
    comparison_table,
    diagnostics,
    failures,
    followed_table,
    glance,
    level_rule,
)
from ldpflow.results.arena import settings_of
from ldpflow.results.references import bibtex, entries, study_paragraph
from ldpflow.store import RunStore, UnreadablePart
from ldpflow.store.provenance import read_sessions
from ldpflow.study.stored import stored_left_out, stored_plugins, stored_study

RELOAD_SECONDS = 10
"""Seconds after which a page that follows a sweep is read again by the browser."""

LOOK_SECONDS = 2.0
"""Least seconds between two looks at a run that is followed; a page is made at most a fifth of the time."""


def report_html(results: Results, live: bool = False) -> str:
    """The whole page.

    Parameters
    ----------
    results : Results
    live : bool
        Whether the page reads itself again every RELOAD_SECONDS seconds.
    """
    sections = [figure_section(*figure) for figure in drawn(results)]
    specs = {section["id"]: section.pop("spec") for section in sections}
    settings = settings_of(results.rows)
    return rendered(
        "page.html.jinja",
        name=results.name,
        lead=lead(results),
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
        table=cell_table(results),
        texts=results.design.texts,
        commands=commands(results),
        paragraph=study_paragraph(results.design, results.table, results.sessions) if results.study else "",
        references=bibtex(results.design.study) if results.study else "",
        sessions=[session(entry) for entry in results.sessions],
        reload=RELOAD_SECONDS if live else 0,
        specs=script_json(specs),
    )


def rendered(template: str, **values: Any) -> str:
    """A page with its styles, its scripts and the library that draws figures."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    bundle: Any = vl_convert.javascript_bundle  # its stub lacks the default
    return environment.from_string(asset(template)).render(
        **values,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        css=Markup(asset("page.css")),
        script=Markup(asset("page.js")),
        library=Markup(bundle().replace("</script", "<\\/script")),
    )


def write_page(store: RunStore, text: str, file: str | None = None) -> str:
    """Write a page in one step, so that a browser reads an old or a new one; its place.

    Without a file it is ``report.html`` in the run.
    """
    if file is None:
        store.publish("report.html", text.encode())
        return f"{store.address.rstrip('/')}/report.html"
    target = Path(file)
    unfinished = target.with_name(target.name + ".unfinished")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(target)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise InputError("output", file, "a file that can be written", f"{reason}.") from None
    return file


def follow(run: str, file: str | None, on_page: Callable[[str, str], None]) -> Results:
    """Write the page of a running sweep whenever its files change, until the sweep has ended.

    Parameters
    ----------
    run : str
    file : str, optional
        As of :func:`write_page`.
    on_page : callable
        Called with the place and the text of every page that is written.

    Returns
    -------
    Results
        Those of the last page, which does not read itself again.

    Raises
    ------
    InputError
        If there is no run, or its sweep ended without a result.
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
                text = report_html(results, live=results.running)
                on_page(write_page(store, text, file), text)
                if not results.running:
                    return results
            time.sleep(max(LOOK_SECONDS, 4 * (time.monotonic() - started)))
    except KeyboardInterrupt:
        if results is not None:
            write_page(store, report_html(results), file)
        raise


def fingerprint(store: RunStore) -> str:
    """Text that changes whenever a part, the study or a session does."""
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
    """A file beside this one."""
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


def drawn(results: Results) -> list[tuple[str, Figure, Any]]:
    """(id, figure, chart) of the figures that the run has data for."""
    wanted = [("coverage", "n"), ("design-beta", "beta")]
    wanted += [("choice", "n")] if len({row["series"] for row in results.rows}) >= MANY else []
    wanted += [("length", "n"), ("protocols", "n")]
    wanted += [("relative-length", "n")]
    figures = figures_of(results)
    names = ("zip", "heat-map", "bias", "standard-error", "paper", "rates", *curves_of(results))
    wanted += [(name, "n") for name in names]
    axis = risk_axis(results)
    wanted += [("risk", axis)] if axis else []
    found = []
    for name, x in wanted:
        figure = figures["coverage" if name == "design-beta" else name]
        if name == "design-beta":
            if len(results.values("beta")) < 2:
                continue
            figure = Figure(figure.draw, "The design knob: block exponent β", DESIGN_NOTE)
        try:
            found.append((name, figure, figure.chart(results, x)))
        except DamagedRun:
            raise
        except InputError:
            continue  # the run has nothing of the kind
    return found


MANY = 4
"""Series from which on the report has the figure of the choice between them."""

DESIGN_NOTE = (
    "Coverage of the block bootstrap over its block exponent β, a line per n. Short blocks (small β) miss "
    "dependence, long ones leave few blocks. No β is shown to be best where its bar overlaps with those of "
    "others. Bars are 95% Monte Carlo intervals."
)


def figure_section(name: str, figure: Figure, chart: Any) -> dict[str, Any]:
    """Values of a figure for the template."""
    spec = chart.to_dict()
    return {
        "id": name,
        "heading": figure.heading,
        "caption": " ".join(filter(None, (figure.caption, spec["usermeta"].get("left_out")))),
        "alt": spec["description"],
        "spec": spec,
    }


def lead(results: Results) -> str:
    """The cells and the followed paths, in a sentence each."""
    found = []
    if rows := results.rows:
        level = " and ".join(f"{100 * v:g}%" for v in results.values("level"))
        methods = ", ".join(results.values("method"))
        text = f"{len(rows)} cells of nominal {level} intervals ({methods})"
        names = (*results.varying(), *results.method_settings)
        text += varied(results, {name: results.values(name) for name in names})
        found.append(f"{text}. {counted(rows)} replicates per cell.")
    if rows := results.followed:
        paths, steps = (len({row[name] for row in rows}) for name in ("path", "step"))
        text = f"{paths} path{'s' if paths > 1 else ''} followed at {steps} checkpoints"
        text += f" up to n = {short(max(row['n'] for row in rows))}"
        settings = results.path_varying
        text += varied(results, {n: sorted({r[n] for r in rows if r[n] is not None}) for n in settings})
        found.append(f"{text}. {counted(rows)} replicates per path.")
    return " ".join(found)


def varied(results: Results, values: Mapping[str, Sequence[Any]]) -> str:
    """The settings that vary, with at most ten of their values."""
    found = []
    for name, each in values.items():
        some = ", ".join([*map(short, each[:10]), *(["..."] if len(each) > 10 else [])])
        found += [f"{results.names.label(name)} in {{{some}}}"] if len(each) > 1 else []
    return f": {'; '.join(found)}" if found else ""


def counted(rows: Sequence[Row]) -> str:
    """The number of replicates of some rows, or the least and the largest."""
    counts = [row["replicates"] for row in rows]
    return " to ".join(dict.fromkeys(map(short, (min(counts), max(counts)))))


def facts(results: Results) -> list[tuple[str, str]]:
    """Facts on the study, as names and values."""

    def values(name: str) -> str:
        found = results.values(name) or sorted({r[name] for r in results.followed if r.get(name) is not None})
        return ", ".join(short(v) for v in found) if found else ""

    def with_settings(group: str) -> str:
        found = []
        for table in entries(results.design.study, group):
            settings = [f"{results.names.label(k)} = {listed(v)}" for k, v in table.items() if k != "kind"]
            kind = listed(table.get("kind", ""))
            found.append(f"{kind} ({', '.join(settings)})" if settings else kind)
        return "; ".join(found)

    grid = f"n = {values('n')}; nominal level {values('level')}"
    if not results.rows:
        grid = f"n up to {short(max(row['n'] for row in results.followed))}"
    if results.design.study.get("grid", {}).get("independent_n"):
        grid += "; paths of their own for every n"
    if results.rows and not results.design.factorial:
        grid += "; not a full factorial design: some combinations were not run"
    rows = [
        ("Problem", with_settings("problem") or values("problem")),
        ("Mechanism", with_settings("mechanism") or values("mechanism")),
        ("Privacy", privacy(*map(values, ("privacy_notion", "privacy_unit", "neighbouring")))),
        ("Algorithm", with_settings("algorithm") or values("algorithm")),
        ("Interval methods", with_settings("method") or values("method")),
        ("Grid", grid),
        ("Replicates", values("replicates")),
        ("Seed", str(results.design.study.get("seed", ""))),
    ]
    return [(name, value) for name, value in rows if value]


def privacy(notion: str, unit: str, neighbouring: str) -> str:
    """Notion, unit and neighbouring relation; the latter two where something is private."""
    found = [notion, f"unit: {unit}" if unit else "", f"neighbours: {neighbouring}" if neighbouring else ""]
    return "; ".join(filter(None, found))


def listed(value: Any) -> str:
    """A setting or a list of them."""
    if isinstance(value, list):
        return ", ".join(f"({listed(v)})" if isinstance(v, list) else short(v) for v in value)
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
    """Options that load the plug-ins of the study from their copies in the run."""
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
    from ldpflow.engine.reached import reached

    state = "Running, or interrupted" if results.running else "Finished"
    study = stored_study(results.store)
    if study is None:
        return f"{state}."
    found = reached(study, results.table, results.trajectories)
    done, wanted = found["done_replicates"], found["wanted_replicates"]
    paths = f" ({found['complete_paths']:,} of {found['paths']:,} paths complete)"
    return f"{state}: {done:,} of {wanted:,} replicates{paths if found['paths'] > 1 else ''}."
