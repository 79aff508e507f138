"""An analysis in words and plain values: names of methods, the methods paragraph, JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ldpflow import __version__
from ldpflow.transcripts.methods import Row, columns_of
from ldpflow.transcripts.verdict import ARRIVAL

if TYPE_CHECKING:
    from ldpflow.transcripts.result import Analysis


REFERENCES = {
    "BB": "the multiplier block bootstrap (Dette and Graw)",
    "BM": "batch means with increasing batches (Chen, Lee, Tong and Zhang, 2020)",
    "SN": "self-normalisation (Liu, Hu, Ding, Jiang and Kong, 2023)",
    "TR": "regression on the transcript, which is ldpflow's own and has no proof",
    "TR-BM": "the root of the regression on the transcript with the length of batch means, which is "
    "ldpflow's own and has no proof",
    "TRC": "the average with the covariance from the slope of the regression on the transcript (an idea of "
    "Ni and Huo, 2026, with a fit of ldpflow's own)",
    "NOL": "non-overlapping increasing blocks (Zhu, Chen and Wu, 2023)",
    "OBM": "overlapping blocks (Zhu, Chen and Wu, 2023)",
    "EBS": "equal batches (Singh, Shukla and Vats, 2025)",
    "LUG": "the lugsail variance (Vats and Flegal, 2022)",
    "SUF": "the mean of the last iterates (Wei, Zhu and Wu, 2023)",
    "CHB": "the cheap bootstrap (Lam and Wang, 2026)",
    "ACS": "an asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, 2024)",
    "joint": "the projection of a joint region",
}

NAMED = ("base", "beta", "degree", "separate")
"""Settings that are always part of a method's name."""


def label(row: Row, among: Sequence[Row] = ()) -> str:
    """Method and the settings that tell it from its like.

    Parameters
    ----------
    row : dict
    among : sequence of dict
        Rows beside which it stands: settings in which those of the same method differ are named too.
    """
    own = row["own"]
    alike = [other["own"] for other in among if other["method"] == row["method"]]
    alike = [other for other in alike if all(other.get(name) == own.get(name) for name in NAMED)]
    named = [
        name
        for name, value in own.items()
        if name in NAMED or any(other.get(name) != value for other in alike)
    ]
    words = [setting_words(name, own[name]) for name in sorted(named, key=order_of) if own[name] is not None]
    return f"{row['method']} ({', '.join(words)})" if words else str(row["method"])


def order_of(name: str) -> int:
    """Named settings first; others in their order."""
    return NAMED.index(name) if name in NAMED else len(NAMED)


def setting_words(name: str, value: Any) -> str:
    """A setting in a method's name."""
    if name == "separate":
        return "by quantile" if value else "together"
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return shown if name == "base" else f"{name.replace('_', ' ')} {shown}"


def coordinate_name(analysis: Analysis, j: int) -> str:
    """The estimand of a coordinate, where there are several; else empty."""
    if len(analysis.verdicts) == 1:
        return ""
    taus = analysis.collection.taus
    return f"{taus[j]:g}-quantile" if taus else f"coordinate {j}"


def shown(value: float) -> str:
    """Six significant digits."""
    return f"{value:.6g}"


def verdict_lines(analysis: Analysis) -> list[str]:
    """The interval to report, arrival, flags with their meaning, oddities and notes."""
    found = []
    for j, verdict in enumerate(analysis.verdicts):
        name = coordinate_name(analysis, j)
        where = f"{name}: " if name else ""
        row = analysis.reported(j)
        if row is None:
            found.append(f"{where}no interval to report")
        else:
            found.append(
                f"{where}report {label(row)}: {shown(row['estimate'])}, {100 * row['level']:g}% interval "
                f"[{shown(row['lower'])}, {shown(row['upper'])}]"
            )
        numbers = ""
        if verdict.arrival != "unknown":
            numbers = f" (K = {verdict.relaxation_times:.1f} relaxation times"
            if math.isfinite(verdict.distance):
                numbers += (
                    f"; average less root {verdict.distance:+.1f} se, "
                    f"{round(verdict.start, 1) + 0.0:+.1f} of it from the start"
                )
            numbers += ")"
        found.append(f"{where}{ARRIVAL[verdict.arrival]}{numbers}")
        found += [f"{where}flag {words}" for words in verdict.words]
    found += [f"odd: {text}" for text in analysis.oddities]
    found += [f"note: {text}" for text in analysis.notes]
    return found


def privacy_words(analysis: Analysis) -> str:
    """The mechanism and what it promises."""
    mechanism = analysis.collection.mechanism
    statement = mechanism.privacy()
    kind = mechanism.kind.replace("_", " ")
    if statement.notion == "none":
        return "no randomiser: the reports are not private"
    budget = f"epsilon = {statement.epsilon:g}" if statement.epsilon is not None else f"mu = {statement.mu:g}"
    several = statement.reports > 1
    per = f"for the {statement.reports} answers of a report together" if several else "per report"
    once = "each user reported once" if analysis.users_compared else "per user too if each reported once"
    return f"{kind} with {budget} ({statement.notion} {per}; {once})"


def method_words(row: Row) -> str:
    """The method of a row, its reference and its settings."""
    what = REFERENCES.get(row["method"], f"the method {row['method']}")
    if row.get("degree") is not None:
        what += f", degree {row['degree']}, first {row['burn_in']} steps left out"
        if row.get("variance") is not None:
            what += f", variance {row['variance']}"
        if row.get("separate"):
            what += ", each quantile by itself"
    return what


def methods_paragraph(analysis: Analysis) -> str:
    """A paragraph for a methods section; coordinates whose method is the same stand in one sentence."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    grouped: dict[tuple[str | None, float | None], list[str]] = {}
    for j in range(len(analysis.verdicts)):
        row = analysis.reported(j)
        what = (None, None) if row is None else (method_words(row), row["level"])
        grouped.setdefault(what, []).append(coordinate_name(analysis, j))
    loader = PackageLoader("ldpflow", "templates")
    found = Environment(loader=loader, trim_blocks=True, undefined=StrictUndefined)
    text = found.get_template("analysis.txt.jinja").render(
        analysis=analysis,
        taus=analysis.collection.taus,
        privacy=privacy_words(analysis),
        size=analysis.collection.batch_size,
        c=analysis.algorithm.step_constant(),
        gamma=analysis.algorithm.step_exponent(),
        intervals=[(method, level, names) for (method, level), names in grouped.items()],
        verdicts=[(coordinate_name(analysis, j), verdict) for j, verdict in enumerate(analysis.verdicts)],
        version=__version__,
    )
    return " ".join(text.split())


def plain(row: Row) -> dict[str, Any]:
    """A row without what is kept twice."""
    return {name: row[name] for name in columns_of([row])}


def as_dict(analysis: Analysis) -> dict[str, Any]:
    """The analysis as plain values for JSON; None is none, no value is infinite or undefined."""
    mechanism, algorithm = analysis.collection.mechanism, analysis.algorithm
    statement = mechanism.privacy()

    def finite(value: float) -> float | None:
        return value if value == value and abs(value) != float("inf") else None

    return {
        "file": analysis.file,
        "sha256": analysis.sha256,
        "version": __version__,
        "users": analysis.users,
        "steps": analysis.steps,
        "problem": {"kind": analysis.collection.problem, "taus": list(analysis.collection.taus)},
        "mechanism": mechanism.model_dump(),
        "privacy": {"notion": statement.notion, "unit": statement.unit},
        "algorithm": algorithm.model_dump()
        | {"theta0": analysis.start[0] if len(analysis.start) == 1 else list(analysis.start)},
        "rows": [plain(row) for row in analysis.asked],
        "verdicts": [
            {
                "coordinate": j,
                "arrival": verdict.arrival,
                "flags": list(verdict.flags),
                "relaxation_times": finite(verdict.relaxation_times),
                "distance": finite(verdict.distance),
                "start": finite(verdict.start),
                "reported": None if (row := analysis.reported(j)) is None else plain(row),
            }
            for j, verdict in enumerate(analysis.verdicts)
        ],
        "oddities": analysis.oddities,
        "notes": analysis.notes,
        "methods": methods_paragraph(analysis),
    }
