"""The report: one HTML file with everything in it, that opens from disk without a network."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup

from ldpflow.columns import Summary
from ldpflow.errors import DamagedRun, InputError
from ldpflow.intervals import INTERVAL_METHODS
from ldpflow.report.catalogue import Figure, figures_of
from ldpflow.report.numbers import rounded, short, with_error
from ldpflow.report.overview import failures, glance, progress
from ldpflow.report.paper import published_comparisons
from ldpflow.report.results import Results, Row
from ldpflow.report.risk_plot import risk_axis
from ldpflow.report.trajectory_page import last_points, trajectory_lead
from ldpflow.report.trajectory_plot import curves_of
from ldpflow.results.arena import TOLERANCE, judge, least_replicates
from ldpflow.results.columns import summaries_of
from ldpflow.results.methods_text import study_paragraph
from ldpflow.results.references import bibtex
from ldpflow.study.stored import stored_left_out, stored_plugins

__all__ = ["report_html"]

MAX_TABLE_ROWS = 2000


def report_html(results: Results, live: bool = False) -> str:
    """The whole page.

    Parameters
    ----------
    results : Results
    live : bool
        For the local server: the page asks its own address for changes.
    """
    sections = [figure_section(*figure) for figure in drawn(results)]
    template = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    ).from_string(asset("page.html.jinja"))
    bundle: Any = vl_convert.javascript_bundle  # its stub lacks the default
    specs = {section["id"]: section.pop("spec") for section in sections}
    return template.render(
        name=results.name,
        lead=" ".join(filter(None, (lead(results), trajectory_lead(results)))),
        progress=progress(results) if live or results.running else "",
        facts=facts(results),
        left_out=[*stored_left_out(results.store), *results.parts_left_out],
        glance=glance(results),
        level_rule=level_rule(results),
        methods=[in_a_line(method) for method in results.values("method")],
        diagnostics=[(summary.name, summary.meaning) for summary in diagnostics(results)],
        sections=sections,
        failures=failures(results),
        followed=last_points(results, MAX_TABLE_ROWS) if results.followed else None,
        comparisons=[comparison_table(c) for c in published_comparisons(results)],
        table=cell_table(results),
        texts=results.design.texts,
        commands=commands(results),
        paragraph=paragraph(results),
        references=bibtex(results.design.study) if results.study else "",
        sessions=[session(entry) for entry in results.sessions],
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        live=live,
        css=Markup(asset("page.css")),
        script=Markup(asset("tables.js") + asset("page.js")),
        specs=script_json(specs),
        library=Markup(bundle().replace("</script", "<\\/script")),
    )


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


def diagnostics(results: Results) -> list[Summary]:
    """Diagnostics of the run's methods that are shown beside the measures."""
    declared = summaries_of(results.table.schema)
    return [summary for summary in declared if summary.shown and results.values(summary.name)]


def looked(results: Results) -> list[str]:
    """Measures of a monitored run that stand beside the others."""
    return [name for name in ("coverage_all_n", "coverage_at_stop") if results.values(name)]


def script_json(value: object) -> Markup:
    """JSON that cannot end the script element it stands in."""
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))


def drawn(results: Results) -> list[tuple[str, Figure, Any]]:
    """(id, figure, chart) of the figures that the run has data for."""
    wanted = [("coverage", "n"), ("design-beta", "beta"), ("length", "n"), ("protocols", "n")]
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
    """The cells in a sentence; nothing where there are none."""
    if not results.rows:
        return ""
    counts = []
    for name in (*results.varying(), *results.method_settings):
        if (count := len(results.values(name))) > 1:
            values = ", ".join(short(v) for v in results.values(name)[:10])
            counts.append(f"{results.names.label(name)} in {{{values}{', ...' if count > 10 else ''}}}")
    replicates = sorted({row["replicates"] for row in results.rows})
    each = short(replicates[0]) if len(replicates) == 1 else f"{replicates[0]} to {replicates[-1]}"
    methods = ", ".join(results.values("method"))
    level = " and ".join(f"{100 * v:g}%" for v in results.values("level"))
    text = f"{len(results.rows)} cells of nominal {level} intervals ({methods})"
    if counts:
        text += ": " + "; ".join(counts)
    return f"{text}. {each} replicates per cell."


def level_rule(results: Results) -> str:
    """The rule by which a method holds its level, fails, or has too few replicates to say."""
    least = max((least_replicates(level) for level in results.values("level")), default=0)
    return (
        "A method holds its level in a cell if the 95% Monte Carlo interval (Wilson) of its coverage, "
        f"failures counted as misses, begins at most {100 * TOLERANCE:g} points below the level; it fails if "
        "the interval ends lower than that. A method that covers as often as its level says is shown to hold "
        f"it from about {least:,} replicates on. Each cell is judged by itself."
    )


def facts(results: Results) -> list[tuple[str, str]]:
    """Facts on the study, as names and values."""

    def values(name: str) -> str:
        found = results.values(name) or sorted({r[name] for r in results.followed if r.get(name) is not None})
        return ", ".join(short(v) for v in found) if found else ""

    def with_settings(group: str, leave: tuple[str, ...] = ()) -> str:
        tables = results.design.study.get(group, {})
        found = []
        for table in tables if isinstance(tables, list) else [tables]:
            settings = [
                f"{results.names.label(k)} = {listed(v)}"
                for k, v in table.items()
                if k != "kind" and k not in leave
            ]
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


def paragraph(results: Results) -> str:
    """The paragraph for a methods section; empty for a run without a study."""
    found = results.design
    if not results.study:
        return ""
    return study_paragraph(found.study, results.table, results.sessions, found.factorial, found.missing)


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


def comparison_table(comparison: Any) -> dict[str, Any]:
    """Verdict and numbers of a comparison with a publication."""
    rows = [
        [
            f"{r.table}",
            f"{r.tau:g}",
            f"{r.coordinate}",
            r.method,
            short(r.n),
            r.measure,
            rounded(r.ours, 4),
            rounded(r.ours_se, 2),
            rounded(r.printed, 4),
            rounded(r.printed_se, 2),
            f"{r.z:.2f}",
            f"{r.p_adjusted:.3f}",
        ]
        for r in comparison.rows
    ]
    return {
        "name": comparison.name,
        "verdict": comparison.verdict,
        "refuted": comparison.refuted,
        "power": [f"{line[0].upper()}{line[1:]}." for line in comparison.power()],
        "level": f"{comparison.level_of_test:.0%}",
        "rows": rows,
        "missing": len(comparison.missing),
        "head": [
            "table",
            "τ",
            "coordinate",
            "method",
            "n",
            "measure",
            "ours",
            "SE",
            "printed",
            "SE",
            "z",
            "adj. p",
        ],
    }


def cell_table(results: Results) -> dict[str, Any]:
    """All cells: text and what to sort by, for every column."""
    settings = [n for n in ("problem", *results.varying()) if len(results.values(n)) > 1]
    settings = list(dict.fromkeys(settings))
    own = [n for n in results.method_settings if len(results.values(n)) > 1]
    lost = any(row["failures"] for row in results.rows)
    head = [
        *(results.names.label(n) for n in (*settings, "method", *own)),
        "coverage ± MCSE",
        "level*",
        *(["failures as misses"] if lost else []),
        "length ± MCSE",
        "length / oracle",
        "bias ± MCSE",
        "emp. SE",
        "SE error",
        "replicates",
        "failed",
        *(checks := [*(summary.name for summary in diagnostics(results)), *looked(results)]),
    ]
    rows = results.rows[:MAX_TABLE_ROWS]
    return {
        "head": head,
        "rows": [cells(row, [*settings, "method", *own], checks, lost) for row in rows],
        "left": len(results.rows) - len(rows),
    }


def cells(row: Row, settings: list[str], checks: list[str], lost: bool) -> list[tuple[str, str]]:
    """(text, sort value) of one row; with the coverage of all replicates where some are lost in the run."""
    ratio = row["length_mean"] / row["oracle_length"] if row["oracle_length"] and row["length_mean"] else None
    error = row["relative_error_model_se"]
    found = [(short(row[name]), sortable(row[name])) for name in settings]
    misses = row["coverage_failures_as_misses"]
    state = "-" if misses is None else judge(row)
    length_mcse = negligible(row["length_mcse"], row["length_mean"])
    found += [
        (with_error(row["coverage"], row["coverage_mcse"]), sortable(row["coverage"])),
        (state, state),
        *([(rounded(misses, 3), sortable(misses))] if lost else []),
        (with_error(row["length_mean"], length_mcse), sortable(row["length_mean"])),
        ("-" if ratio is None else f"{ratio:.3f}", sortable(ratio)),
        (with_error(row["bias"], row["bias_mcse"]), sortable(row["bias"])),
        (rounded(row["empirical_se"], 3), sortable(row["empirical_se"])),
        ("-" if error is None else f"{100 * error:+.1f}%", sortable(error)),
        (f"{row['replicates']:,}", sortable(row["replicates"])),
        (f"{row['failures']:,}", sortable(row["failures"])),
        *((rounded(row[name], 3), sortable(row[name])) for name in checks),
    ]
    return found


def negligible(error: float | None, value: float | None) -> float | None:
    """0 for an error that is the rounding of equal numbers: the oracle's lengths do not vary."""
    return 0.0 if error and value and error < 1e-12 * abs(value) else error


def sortable(value: object) -> str:
    """Sort key of a cell; empty where there is no value."""
    return "" if value is None else re.sub(r"\s+", " ", str(value))
