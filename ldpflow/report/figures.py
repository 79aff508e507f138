"""Figures that :mod:`ldpflow.report.charts` draws: measures, protocols, trajectories, rates and risks.

The function of a figure takes :class:`~ldpflow.report.results.Results` and the factor on the axis. It returns
an Altair chart, or raises :class:`~ldpflow.errors.InputError` if the run has no data for the figure. Bars and
bands are 95% Monte Carlo intervals: Wilson's for coverage, value +- 1.96 MCSE for the others.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Sequence
from importlib.resources import files
from statistics import NormalDist
from typing import Any, NamedTuple

from ldpflow.errors import InputError
from ldpflow.report.charts import Layout, draw, spread
from ldpflow.report.results import Results, Row, distinct, labels, present_last, rank_series
from ldpflow.results.measures import Z95
from ldpflow.results.trajectories import MEANS, last_rows
from ldpflow.results.where import read_names
from ldpflow.settings import closest
from ldpflow.store.schema import STATISTICS

MAX_POINTS = 60
MAX_ACROSS = 4
"""Most columns of panels of a figure whose columns the user does not choose."""
FULL = 0.6
"""Least share of a grid's panels that must have cells. With fewer the panels form no grid."""


class Asked(NamedTuple):
    """Factors that the user chose for the rows, columns and colours of a figure.

    If a field is empty, the design decides. The factor ``series`` is the method with its settings.
    """

    rows: tuple[str, ...] = ()
    cols: tuple[str, ...] = ()
    color: tuple[str, ...] = ()

    @classmethod
    def of(cls, results: Results, x: str | None = None, **names: str | Sequence[str] | None) -> Asked:
        """Check names of factors, given as a sequence or a text with commas. No name may occur twice."""
        known = [*results.parameters, *results.method_settings] if results.rows else results.path_settings
        found: dict[str, tuple[str, ...]] = {}
        used = [x]
        for field, given in names.items():
            texts = given.split(",") if isinstance(given, str) else read_names(given or (), field)
            for name in (texts := [text.strip() for text in texts]):
                if name not in (*known, "method"):
                    rows = results.rows or results.followed
                    varying = ["method", *(name for name in known if len(distinct(rows, name)) > 1)]
                    raise InputError(field, name, f"one of {', '.join(varying)}", closest(name, known))
                if name in used:
                    raise InputError(field, name, "a factor that has no other place in the figure")
                used.append(name)
            found[field] = tuple("series" if name == "method" else name for name in texts)
        return cls(**found)


def arrange(
    results: Results, rows: Sequence[Row], factors: Sequence[str], asked: Asked
) -> Callable[[Row], Row]:
    """Function that gives a row of the results its ``row``, ``column`` and ``panel`` in a figure.

    It also gives the fields by which a page filters. Every factor makes rows or columns. By default one
    factor makes the columns: among the factors with at most MAX_ACROSS values, that with the most values.
    """
    free = [name for name in factors if name not in (*asked.rows, *asked.cols, *asked.color)]
    down, across = [*asked.rows, *free], list(asked.cols)
    if not across:
        counts = {name: len({repr(row.get(name)) for row in rows}) for name in free}
        able = [name for name in free if 1 < counts[name] <= MAX_ACROSS]
        across = [max(reversed(able), key=counts.__getitem__)] if able else []
        down = [name for name in down if name not in across]
        panels = {(repr(order(row, down)), repr(order(row, across))) for row in rows}
        if not asked.rows and len(panels) < FULL * math.prod(len({p[i] for p in panels}) for i in (0, 1)):
            down, across = free, []
    ranks = [
        {repr(key): rank for rank, key in enumerate(sorted(order(row, names) for row in rows))}
        for names in (down, across)
    ]
    grid = bool(across or asked.rows)
    every = dict.fromkeys(n for n in (*factors, *down, *across) if n in (*down, *across))

    def absent(names: Sequence[str]) -> str:
        return ", ".join(f"no {results.names.label(name)}" for name in names) or "all"

    def place(row: Row) -> Row:
        pairs = [
            (rank[repr(order(row, names))], results.names.settings(row, names) or absent(names))
            for rank, names in zip(ranks, (down, across), strict=True)
        ]
        panel = results.names.settings(row, every) or "all"
        return {"row": pairs[0], "panel": panel} | ({"column": pairs[1]} if grid else {}) | results.picks(row)

    return place


def order(row: Row, names: Sequence[str]) -> list[tuple[bool, Any]]:
    """Sort key of a row by factors. Series have their own order."""
    return present_last(row, ["series_rank" if name == "series" else name for name in names])


def interval(mean: float, error: float | None, log: bool) -> dict[str, float]:
    """95% Monte Carlo interval of a mean. For a logarithmic axis its lower end is at least mean / 10."""
    if error is None:
        return {}
    half = Z95 * error
    return {"low": max(mean - half, 0.1 * mean) if log else mean - half, "high": mean + half}


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class PlottedMeasure(NamedTuple):
    """A measure of the summary that a figure shows: its column, and how it is drawn.

    ``axis`` is the title of y, ``log`` whether y is logarithmic, ``ideal`` the value that is right, and
    ``shared`` a column of theory. ``ranked`` is that of :class:`ldpflow.report.charts.Layout`.
    """

    column: str
    axis: str
    ideal: float | None = None
    log: bool = False
    ranked: bool = True
    shared: str = ""

    @property
    def error(self) -> str:
        return f"{self.column.removesuffix('_mean')}_mcse"


LENGTH = PlottedMeasure("length_mean", "mean length (unit of θ)", log=True, ranked=False)
MEASURES = {
    "coverage": PlottedMeasure("coverage_failures_as_misses", "coverage"),
    "length": LENGTH._replace(shared="oracle_length"),
    "relative-length": PlottedMeasure("length_relative", "mean length / oracle length", 1.0, log=True),
    "bias": PlottedMeasure("standardised_bias", "bias / empirical SE", 0.0),
    "coverage-difference": PlottedMeasure(
        "paired_coverage_difference", "coverage, paired difference to {}", 0.0
    ),
    "length-ratio": PlottedMeasure("paired_length_ratio", "mean length / that of {}", 1.0, log=True),
    "standard-error": PlottedMeasure("relative_error_model_se", "model SE / empirical SE - 1", 0.0),
    "protocols": LENGTH._replace(shared="bound"),
}
PAIRED = ("coverage-difference", "length-ratio")
"""Measures of pairs of methods."""
CAPTIONS: dict[str, dict[str, Any]] = tomllib.loads(
    files("ldpflow.report").joinpath("captions.toml").read_text(encoding="utf-8")
)
"""Heading and caption of every figure, by its name."""


def measure(results: Results, x: str, name: str, asked: Asked) -> Any:
    """Draw a measure of the cells over a factor. Over a setting of methods (beta, B) each n has a line."""
    usable_x(results, x)
    what = MEASURES[name]
    rows, own = cells_of(results, name), x in results.method_settings
    absent = describe_left_out(rows, x, what.column)
    rows = [row for row in rows if row.get(x) is not None and row.get(what.column) is not None]
    if not rows:
        raise InputError("figure", f"{name} over {x}", "a measure that some cell of the run has")
    if own:
        line = labels(rows, results.names, [name for name in results.method_settings if name != x])
        one = len({row["method"] for row in rows}) == 1
        rows = [row | {"series": line(row).partition(", ")[2] if one else line(row)} for row in rows]
    if renamed := own or name == "protocols":
        rank_series(rows, results.method_settings)
    varying = [*results.varying(without=(x,)), "series"]
    placed = (*asked.rows, *asked.cols)
    colour = asked.color or [n for n in (["n"] if own else []) + ["series"] if n not in placed]
    factors = [factor for factor in varying if factor not in colour]
    if name == "protocols":
        factors = [factor for factor in factors if factor not in OF_PROTOCOLS]
    place = arrange(results, rows, factors, asked)
    rows.sort(key=lambda row: order(row, colour))
    points: list[Row] = []
    families: dict[str, str] = {}
    for row in rows:
        series = results.names.settings(row, colour) or "all"
        families.setdefault(series, row["method"] if "series" in colour and not own else "")
        point = {key: row[key] for key in ("replicates", "failures")} | place(row)
        point |= {"series": series, "x": row[x], "y": row[what.column]}
        if name == "coverage":
            half = Z95 * math.sqrt(row["level"] * (1 - row["level"]) / max(row["replicates"], 1))
            point |= {end: row[f"{what.column}_{end}"] for end in ("low", "high")} | {"ideal": row["level"]}
            point |= {"band_low": row["level"] - half, "band_high": min(row["level"] + half, 1.0)}
        else:
            point |= interval(row[what.column], row.get(what.error), what.log)
            point |= {} if what.ideal is None else {"ideal": what.ideal}
        if what.shared and (x == "n" if name == "protocols" else not own):
            point["shared"] = row.get(what.shared) or None  # a logarithmic axis has no 0
        points.append(point)
    unit = str(results.study.get("collection", {}).get("unit") or "unit of θ")
    axis = what.axis.replace("unit of θ", unit)
    if name == "coverage" and any(point["failures"] for point in points):
        axis += ", failures as misses"
    layout = Layout(
        CAPTIONS[name]["heading"],
        results.names[x].axis,
        axis.format(results.baseline),
        list(families.items()),
        known=[] if renamed or colour != ["series"] else list(results.series.items()),
        log_x=results.names[x].logarithmic,
        log_y=what.log,
        ranked=what.ranked or len({point["x"] for point in points}) == 1,
        left_out=absent,
    )
    return draw(points, layout)


def cells_of(results: Results, name: str) -> list[Row]:
    if name == "protocols":
        return default_rows(results)
    if name in PAIRED:
        others = [row for row in results.rows if row["series"] != results.baseline]
        return [row | results.contrasts.get(results.identity(row), {}) for row in others]
    return [dict(row) for row in results.rows if name != "relative-length" or row["method"] != "oracle"]


def usable_x(results: Results, x: str) -> None:
    values = {name: results.values(name) for name in (*results.parameters, *results.method_settings)}
    known = [name for name, found in values.items() if found and all(map(is_number, found))]
    known += [name for name, found in values.items() if name not in known and len(found) > 1]  # such as laws
    if x not in known:
        raise InputError("x", x, f"one of {', '.join(known)}", closest(x, known))


def describe_left_out(rows: Sequence[Row], x: str, column: str) -> str:
    """Sentence on the cells that a figure cannot show. Empty if it shows all."""
    drawn = {row["method"] for row in rows if row.get(x) is not None}
    names = sorted({row["method"] for row in rows} - drawn)
    found = [f"{', '.join(names)}, which {'has' if len(names) == 1 else 'have'} no {x}"] if names else []
    undefined = sum(row["method"] in drawn and row.get(column) is None for row in rows)
    found += [f"{undefined:,} of {len(rows):,} cells, whose value is not defined"] if undefined else []
    return f"Left out: {'; '.join(found)}." if found else ""


OF_PROTOCOLS = (
    "protocol", "algorithm", "mechanism", "sampling", "bins", "bits", "interaction_rounds", "k", "rounds",
    "efficient_se", "scale_guess", "gamma", "c", "theta0", "batch_size", "horizon", "radius",
)  # fmt: skip
"""Settings that belong to one protocol or follow from it. They make no panels."""

PREFERRED = ("oracle", "TR", "BM", "BB")
"""Interval methods. The first of them that a run has is drawn for LDP-SGD."""


def default_rows(results: Results) -> list[Row]:
    """Rows of the default interval of every protocol and cell, with the length of the efficiency bound.

    The length of the bound is 2 z s, with its standard error s and the normal quantile z at 1/2 + level/2.
    Cells whose intervals end at the public range in more than half of the replicates are left out, since the
    range limits their length.
    """
    if not results.values("protocol"):
        raise InputError("figure", "protocols", "a run whose study has a table [protocol]")
    methods = results.values("method")
    preferred = next((name for name in PREFERRED if name in methods), None)
    found = []
    for row in results.rows:
        if row.get("protocol") is None:
            other = row["method"] != (preferred or row["method"])
        else:
            other = row.get("limits") == "line"
        if other or row["length_mean"] is None or (row.get("range_end_share") or 0.0) > 0.5:
            continue
        name = row.get("protocol") or row["algorithm"]
        error = row.get("efficient_se")
        bound = None if error is None else 2.0 * NormalDist().inv_cdf(0.5 + row["level"] / 2.0) * error
        found.append({**row, "series": name, "method": name, "bound": bound})
    if not found:
        raise InputError("figure", "protocols", "intervals that end inside the range")
    return found


# Trajectories


class Curves(NamedTuple):
    """Statistics that share an axis, each with its words in the legend."""

    statistics: dict[str, str]
    axis: str
    heading: str
    log: bool = True


CURVES = {
    "distance": Curves(
        {"last_sq": "last iterate", "avg_sq": "average"}, "squared distance to θ*", "Distance to the optimum"
    ),
    "excess-loss": Curves(
        {"last_exc": "last iterate", "avg_exc": "average", "tail_exc": "average of the second half"},
        "excess loss F(θ) - F(θ*)",
        "Excess loss",
    ),
    "loss": Curves({"loss": "iterate", "output_loss": "output"}, "empirical risk", "Empirical risk"),
    "gradient-norm": Curves(
        {"gradient_norm": "iterate", "output_gradient_norm": "output"},
        "norm of the gradient",
        "Gradient norm",
    ),
    "gradient-error": Curves(
        {"error_norm": "all of the error", "noise_norm": "its noise"},
        "norm of the error",
        "Error of the private gradient",
    ),
    "clipped": Curves(
        {"clipped": "since the checkpoint before"}, "share of clipped gradients", "Clipping", False
    ),
    "threshold": Curves({"threshold": "in use"}, "clipping threshold", "Clipping threshold"),
}
COLOURED = ("algorithm", "mechanism", "mu", "epsilon")
"""Factors for colours. The first that varies is used. Settings that only some paths have are added to it."""
MAX_COLOURS = 8
"""Largest number of series with which such settings are added."""
THEORY = {"bound": "proved bound", "limit": "leading term"}


def curves_of(results: Results) -> dict[str, Curves]:
    further = {name: text for name, text in results.meanings.items() if name not in (*STATISTICS, *MEANS)}
    own = {n: Curves({n: n}, text, n.replace("_", " ").capitalize(), False) for n, text in further.items()}
    return CURVES | own


def trajectory(results: Results, x: str, name: str, asked: Asked) -> Any:
    """Draw statistics of the paths against n or step. If n is constant along the paths, n means the step."""
    curves = curves_of(results)[name]
    if x not in ("n", "step"):
        raise InputError("x", x, "n or step")
    rows = [r for r in results.followed if r["stat"] in curves.statistics and r["mean"] is not None]
    if not rows:
        raise InputError("figure", name, "a run with [trajectory] that has this statistic")
    moves = len({(row["path"], row["n"]) for row in rows}) > len({row["path"] for row in rows})
    across = x if moves else "step"
    places: dict[str, set[int]] = {}
    for row in rows:
        places.setdefault(row["path"], set()).add(row[across])
    shown = {path: spread(sorted(found), MAX_POINTS) for path, found in places.items()}
    marked = {path: spread(found, 7) for path, found in shown.items()}
    several = len({row["stat"] for row in rows}) > 1
    points: list[Row] = []
    for row in place_paths(results, rows, results.path_varying, asked):
        if row[across] not in shown[row["path"]]:
            continue
        words = curves.statistics[row["stat"]]
        series = words if row["series"] == "all" else row["series"] + f", {words}" * several
        point = row["place"] | {"series": series, "x": row[across], "y": row["mean"]}
        point |= {"marked": 1} if row[across] in marked[row["path"]] else {}
        point |= {kind: row[f"theory_{kind}"] for kind in THEORY if row[f"theory_{kind}"] is not None}
        point |= {"replicates": row["replicates"]}
        points.append(point | interval(row["mean"], row["mcse"], curves.log))
    layout = Layout(
        curves.heading,
        "n (users)" if across == "n" else "step",
        curves.axis,
        families(points),
        log_x=True,
        log_y=curves.log,
        theory={kind: words for kind, words in THEORY.items() if any(kind in p for p in points)},
        ribbons=True,
    )
    return draw(points, layout)


def place_paths(results: Results, rows: Sequence[Row], factors: Sequence[str], asked: Asked) -> list[Row]:
    """Rows of paths with their ``place`` and ``series``, in the order of the series.

    Settings that only some paths have, such as those of one algorithm, make series if these are at most
    MAX_COLOURS.
    """
    free = [name for name in factors if name not in (*asked.rows, *asked.cols, *asked.color)]
    series = [*asked.color] or [name for name in COLOURED if name in free][:1]
    own = [n for n in free if n not in series and any(row[n] is None for row in rows)]
    if not asked.color and len({tuple(map(row.get, (*series, *own))) for row in rows}) <= MAX_COLOURS:
        series += own
    place = arrange(results, rows, [name for name in factors if name not in series], asked)
    found = [
        row | {"place": place(row), "series": results.names.settings(row, series) or "all"} for row in rows
    ]
    return sorted(found, key=lambda row: present_last(row, series))


def families(points: Sequence[Row]) -> list[tuple[str, str]]:
    """Series of the points with their families. If all have settings, one family gives a ramp of colours."""
    names = dict.fromkeys(point["series"] for point in points)
    return [(name, "" if all(" = " in other for other in names) else name) for name in names]


class End(NamedTuple):
    """Words of a figure, and statistics at the end of paths: the first that a path has is drawn."""

    statistics: Sequence[str]
    heading: str
    axis: str
    theory: str


ENDS = {
    "rates": End(["mean_gradient_norm"], "Gradient norm", "mean gradient norm", "slope of the theorem"),
    "risk": End(
        ["tail_exc", "avg_exc", "last_exc"], "Excess risk of the output", "excess risk", "leading term"
    ),
}


def end_rows(results: Results, statistics: Sequence[str]) -> list[Row]:
    """Rows of each path at its last checkpoint, for the first of ``statistics`` that the path has.

    A path that serves every n also has a row at every n at which another path ends.
    """
    rows = [r for r in results.followed if r["stat"] in statistics and r["mean"] is not None]
    at_ends = last_rows(rows)
    ends = {row["n"] for row in at_ends}
    at_ends += [row for row in rows if row.get("horizon") is None and row["n"] in ends]
    at_ends.sort(key=lambda row: (-statistics.index(row["stat"]), row["step"]))
    return list({(row["path"], row["n"]): row for row in at_ends}.values())


def at_end(results: Results, x: str, name: str, asked: Asked) -> Any:
    """Draw a statistic at the end of the paths against n or another number that varies.

    Both axes are logarithmic: a rate is a straight line. A path without a value of x, such as a baseline
    without a budget, is a horizontal line. A line of theory for a rate starts at the first point of its
    series and shows only the slope: the constants of the theorem mean nothing at these sizes.
    """
    end = ENDS[name]
    rows = end_rows(results, end.statistics)
    if not rows:
        raise InputError("figure", name, f"a run with [trajectory] that has {' or '.join(end.statistics)}")
    # The horizon equals n.
    names = ["n", *(factor for factor in results.path_varying if factor != "horizon")]
    names = [factor for factor in names if len({repr(row.get(factor)) for row in rows}) > 1]
    able = [k for k in names if all(is_number(row[k]) for row in rows if row[k] is not None)]
    x = able[0] if able and x == "n" and x not in able else x
    if x not in able:
        raise InputError("x", x, f"a number that varies: {', '.join(able) or 'none does'}")
    rows.sort(key=lambda row: present_last(row, [x]))
    places = distinct(rows, x)
    first: dict[tuple[str, str], Row] = {}
    points: list[Row] = []
    for row in place_paths(results, rows, [factor for factor in names if factor != x], asked):
        point = row["place"] | {"series": row["series"], "replicates": row["replicates"]}
        point |= {"y": row["mean"], "limit": row["theory_limit"]}
        point |= interval(row["mean"], row["mcse"] or 0.0, log=True)
        if name == "rates" and row["theory_limit"]:
            start = first.setdefault((point["panel"], point["series"]), row)
            scaled = start["mean"] * row["theory_limit"] / start["theory_limit"]
            point["limit"] = None if x == "epochs" else scaled
        points += [point | {"x": at} for at in (places if row[x] is None else [row[x]])]
    layout = Layout(
        end.heading,
        results.names[x].axis,
        end.axis,
        families(points),
        log_x=True,
        log_y=True,
        theory={"limit": end.theory} if any(p["limit"] is not None for p in points) else {},
    )
    return draw(points, layout)
