"""Plan of a study, a pilot's column or public bounds: rows, cautions, advice, and a check by simulation."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldpflow.columns import distinguishing_columns, round_text, short
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.components.protocols import PROTOCOLS
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.options import PlanOptions, make_options, with_options
from ldpflow.practice.planning.compare import (
    Point,
    choose_design,
    compare_designs,
    source_points,
    study_points,
)
from ldpflow.practice.planning.designs import Design, write_files
from ldpflow.practice.planning.forecasts import METHODS
from ldpflow.practice.planning.method import RECOMMENDED
from ldpflow.practice.planning.rows import NAMED, PlanRow, cautions_of, complete, source_rows, study_rows
from ldpflow.practice.planning.sources import OwnSteps, source_of
from ldpflow.practice.transcripts.collection import read_collection
from ldpflow.simulators.simulator import Simulator
from ldpflow.store.run_store import RunStore
from ldpflow.study import Entry, Study

if TYPE_CHECKING:
    import pyarrow as pa


CHECK_REPLICATES = 512

SHOWN = (
    "interval", "half_width", "coverage", "arrival", "recommended", "n_with_method",
    "method_needed", "n_needed",
)  # fmt: skip
"""Results in the text of a plan."""

MOST_DESIGNS = 5
"""Best designs of a comparison that a text or a terminal shows."""

FAILURES = 0.05  # share of the rows above which a method is undefined
SHORT = 0.03  # coverage this far below the level is short
WILSON = 0.02  # and so is a Wilson interval that ends this far below it


def add_recommended(study: Study) -> Study:
    """The study with the oracle and every method that a plan recommends, each once."""
    methods = list(study.method)
    for kind, settings in (("oracle", {}), *(("TR", own) for own in RECOMMENDED.values())):
        entry = Entry.of("method", kind, {name: (value,) for name, value in settings.items()})
        if entry not in methods:
            methods.append(entry)
    return study.with_fields(method=tuple(methods))


def name_of(row: Mapping[str, Any]) -> str:
    for name, settings in RECOMMENDED.items():
        if row["method"] == "TR" and all(row.get(key) == value for key, value in settings.items()):
            return name
    return str(row["method"])


def judgement(row: Mapping[str, Any]) -> str:
    """Whether a method covers, from its row of a summary.

    ``undefined``: more than 5% of the replicates have no interval. ``good``: with failures as misses,
    coverage is at least level - .03 and its Wilson interval reaches level - .02. ``short``: all others.
    """
    if row["failure_share"] > FAILURES:
        return "undefined"
    coverage, high = row["coverage_failures_as_misses"], row["coverage_failures_as_misses_high"]
    level = row["level"]
    return "good" if coverage >= level - SHORT and high >= level - WILSON else "short"


@dataclass
class Plan:
    """A plan: predictions, verdicts and advice, a row per design point.

    Parameters
    ----------
    rows : list of dict
        One per tau, budget, n, level and coordinate. None: not predicted.
    cautions : list of str
        About the data, the design and every row that does not arrive, with advice.
    refused : bool
        Whether a path does not arrive.
    studies : list of Study
        Studies that ``check`` runs.
    checked : list of dict
        Rows of the summaries of a check.
    designs : list of Design or None
        Collection of every row; None for a comparison's row without an interval.
    advice : list of str
        Sentences of a comparison: the best design, the reason, and what would change the answer.
    paths : list of list of str
        Paths on which each row must hold: its own, and those under the other laws of a guess.
    """

    rows: list[dict[str, Any]]
    cautions: list[str]
    refused: bool
    studies: list[Study] = field(default_factory=list, repr=False)
    checked: list[dict[str, Any]] = field(default_factory=list, repr=False)
    designs: list[Design | None] = field(default_factory=list, repr=False)
    advice: list[str] = field(default_factory=list)
    paths: list[list[str]] = field(default_factory=list, repr=False)

    def best_rows(self) -> list[dict[str, Any]]:
        """Rows of a comparison's best designs. Empty if no design holds its level, and without `compare`."""
        return [row for row in self.rows if (row.get("rank") or math.inf) <= MOST_DESIGNS]

    def __str__(self) -> str:
        """The advice, a table of the settings that differ and main results, and the number of cautions."""
        lines = lines_of(self)
        form = "  ".join(f"{{:>{max(map(len, column))}}}" for column in zip(*lines, strict=True))
        return "\n".join([*self.advice, *(form.format(*line) for line in lines), last_line(self)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cells = ("".join(f"<td>{escape(text)}</td>" for text in line) for line in lines_of(self))
        rows = "".join(f"<tr>{line}</tr>" for line in cells)
        texts = [f"<p>{escape(text)}</p>" for text in (*self.advice, last_line(self))]
        return f"{''.join(texts[:-1])}<table><tbody>{rows}</tbody></table>{texts[-1]}"

    def table(self) -> pa.Table:
        """The rows as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.rows)

    def analysis_settings(self, row: int | None = None) -> dict[str, Any]:
        """Settings of ``analyse`` for reports that are collected by the design of a row.

        They are problem, mechanism, steps and start at full precision, or the protocol, and the recommended
        method, if any.

        Parameters
        ----------
        row : int, optional
            Index of the row. Not needed if there is only one.

        Raises
        ------
        InputError
            If there are several rows and ``row`` is None, or such reports cannot be analysed.
        """
        last = len(self.rows) - 1
        if row not in range(last + 1) and not (row is None and last == 0):
            raise InputError("row", row, f"a row of the plan, from 0 to {last}")
        design = self.designs[row or 0]
        if design is None:
            raise InputError("row", row, "a row with an interval", self.rows[row or 0]["cautions"])
        found = design.analysis_settings(self.rows[row or 0].get("tau"))
        read_collection(found)
        return found

    def write_design(
        self,
        file: str | os.PathLike[str],
        *,
        protocol: str | None = None,
        public: bool = False,
        unit: str | None = None,
        force: bool = False,
    ) -> list[Path]:
        """Write the collection of a row as a study file, which sweeps and analyses read.

        Where every quantile has a collection of its own there is a file for each, with the level in its name.

        Parameters
        ----------
        file : path
            A new file.
        protocol : str, optional
            Design of a comparison; the best one by default.
        public : bool
            Whether to leave out the law of the values: file, column and table of a pilot. c and theta0, which
            every user receives, remain. The file can be read and not simulated.
        unit : str, optional
            Unit of the data, in words.
        force : bool
            Whether to write over existing files.

        Returns
        -------
        list of Path
            The files.

        Raises
        ------
        InputError
            If no such design has an interval, there are several epsilons, n or levels, or a file exists.
        """
        rows = [row | {"design": design} for row, design in zip(self.rows, self.designs, strict=True)]
        names = list(dict.fromkeys(row["protocol"] for row in rows if "protocol" in row))
        if protocol is None:
            rows = [row for row in rows if row.get("best", True)]
        else:
            rows = [row for row in rows if row.get("protocol") == protocol]
        if not rows:
            allowed = f"one of {', '.join(names)}" if names else "nothing without `compare`"
            hint = "No design is recommended." if protocol is None else ""
            raise InputError("protocol", protocol, allowed, hint)
        if len({(row.get("epsilon"), row["n"], row["level"]) for row in rows}) > 1:
            raise InputError("output", str(file), "nothing but with one epsilon, n and level")
        found: dict[str, str] = {}
        for row in rows:
            design = row["design"]
            if design is None or "method" not in design.parts:
                hint = f"{row['cautions']}." if "cautions" in row else ""
                raise InputError("output", str(file), "a design with a recommended interval", hint)
            if (text := design.text(public, unit)) not in found.values():
                found[repr(row.get("tau"))] = text
        path = Path(file)
        files = [path] if len(found) == 1 else [path.with_stem(f"{path.stem}-{tau}") for tau in found]
        write_files(dict(zip(files, found.values(), strict=True)), force)
        return files

    def check(self, engine: str = "serial", **options: Any) -> bool:
        """Simulate every row with the recommended methods and those asked for.

        Returns
        -------
        bool
            Whether the recommended method is good at every row; False if none is recommended.

        Raises
        ------
        InputError
            If the plan compares protocols: its rows are simulated already.
        """
        if not self.studies:
            raise InputError("check", True, "nothing with `compare`: every row is simulated already")
        self.checked = []
        for study in self.studies:
            small = add_recommended(study).with_fields(replicates=CHECK_REPLICATES)
            with tempfile.TemporaryDirectory(prefix="ldpflow-plan-") as folder:
                run_study(small, folder, engine=engine, **options)
                summary = RunStore(folder).read_summary()
            assert summary is not None
            self.checked += [row | {"judgement": judgement(row)} for row in summary.to_pylist()]
        found: dict[Any, set[str]] = {}
        for row in self.checked:
            place = (name_of(row), row["path"], row["n"], row["level"], row["coordinate"])
            found.setdefault(place, set()).add(row["judgement"])
        return all(
            found.get((row["recommended"], path, row["n"], row["level"], row["coordinate"])) == {"good"}
            for row, paths in zip(self.rows, self.paths, strict=True)
            if row["arrival"] is not None  # nothing is predicted about such a path, and nothing recommended
            for path in paths
        )


@with_options(PlanOptions)
def plan(study: Study | str | os.PathLike[str] | None = None, **options: Any) -> Plan:
    """Predict lengths and arrival, and users and budgets for a target; or compare protocols.

    An option of None is not given. Options marked * replace the study's values; all but the level (.9) are
    needed with a pilot or bounds. ``half_width`` is in the unit of the data. The options after ``compare``
    need it. ``answer_below`` and ``answer_above`` are multiplied by the response rate.

    Parameters
    ----------
    study : Study, str or path, optional
        A study, its file, its text or the name of a bundled one; or, in its place, ``pilot`` or ``bounds``.
    {options}

    Raises
    ------
    InputError
        For settings that do not go together, or a fault of the file.

    Examples
    --------
    >>> plan = lf.plan("quickstart", n=1e5, half_width=0.1)
    >>> plan.table().select(["epsilon", "n", "recommended"]).num_rows
    3
    """
    given = make_options(plan, PlanOptions, options)
    if sum(each is not None for each in (study, given.pilot, given.bounds)) != 1:
        raise InputError("study", study, "one of a study (or its name or file), `pilot` and `bounds`")
    source = source_of(given)
    if source is not None:
        axes = {"level": [0.9], **given.axes}
        axes["n"] = [int(n) for n in axes["n"]]
        if given.compare:
            texts = [text for tau in axes["tau"] for text in source.cautions(source.problem(tau))]
            return plan_comparison(*source_points(source, axes, given), given, texts)
        return plan_rows(source_rows(source, axes), given)
    assert study is not None
    chosen = study if isinstance(study, Study) else Study.load(os.fspath(study))
    chosen = chosen.replace(given.axes) if given.axes else chosen
    if not given.compare:
        return plan_rows(study_rows(chosen), given, chosen)
    return plan_comparison(*study_points(chosen, given), given)


def lines_of(found: Plan) -> list[list[str]]:
    """Settings that differ and main results as texts, after their names. *: the design to take."""
    rows = found.best_rows() or found.rows
    names = [name for name in (*NAMED, "n", "level", "coordinate") if name in rows[0]]
    names = distinguishing_columns(names, rows, implied=True)
    names = ["protocol", *names] if "protocol" in rows[0] else names or ["n"]
    names += [name for name in SHOWN if any(row.get(name) is not None for row in rows)]
    values = [[row.get(name) for name in names] for row in rows]
    texts = [[round_text(v, 4) if isinstance(v, float) else short(v) for v in line] for line in values]
    for line, row in zip(texts, rows, strict=True):
        line[0] += " *" if row.get("best") else ""
    return [names, *texts]


def last_line(found: Plan) -> str:
    """What the table of a plan leaves out, and where it is."""
    left = len(found.rows) - len(found.best_rows() or found.rows)
    legend = "*: the design to take; " if any(row.get("best") for row in found.rows) else ""
    legend += f"rows not shown: {left}; " if left else ""
    return f"{legend}cautions: {len(found.cautions)} (plan.cautions); all columns: plan.table()"


def plan_comparison(
    points: Sequence[Point], settings: dict[str, Any], given: PlanOptions, cautions: Sequence[str] = ()
) -> Plan:
    found, advice = [], []
    for point in points:
        pairs = compare_designs(*point, **settings | given.comparison)
        advice += choose_design(pairs)
        found += pairs
    if settings["ends"] is None:
        advice.append(f"left out, since no public range of the values is given: {', '.join(PROTOCOLS)}")
    rows = [row for row, _ in found]
    of_rows = [text_of_cautions(row) for row in rows if row["cautions"]]
    designs = [forecast.design(row["n"], row["epsilon"]) for row, forecast in found]
    both = list(dict.fromkeys([*cautions, *of_rows]))
    return Plan(rows, both, refused=False, designs=designs, advice=advice)


def text_of_cautions(row: Mapping[str, Any]) -> str:
    return "{protocol}, tau {tau:g}, epsilon {epsilon:g}, n {n:,}: {cautions}".format_map(row)


def plan_rows(rows: Sequence[PlanRow], given: PlanOptions, study: Study | None = None) -> Plan:
    """The plan of a study, or of rows from a pilot or bounds: a check makes each a study."""
    complete(rows, given)
    paths = [(row.simulator, *row.source.others(row.simulator, row.case)) for row in rows]
    checks = [study] if study is not None else []
    if study is None:
        checks = [study_of(row, path) for row, each in zip(rows, paths, strict=True) for path in each]
    values = [row.values(given) for row in rows]
    names = [list(row) for row in values]
    # Equal columns for all rows: None for a setting that a problem does not have.
    settings = dict.fromkeys(name for each in names for name in each[: each.index("n")])
    measures = dict.fromkeys(name for each in names for name in each[each.index("n") :])
    return Plan(
        [{name: row.get(name) for name in (*settings, *measures)} for row in values],
        cautions_of(rows),
        any(row.refused for row in rows),
        checks,
        designs=[design_of(row) for row in rows],
        paths=[[f"p{path.key}" for path in each] for each in paths],
    )


def design_of(row: PlanRow) -> Design:
    method = {} if row.method is None else {"method": METHODS[row.method]}
    of_pilot = ("c", "theta0") if isinstance(row.source, OwnSteps) else ()
    return Design(row.simulator.parts() | method, row.n, row.level, of_pilot=of_pilot)


def study_of(row: PlanRow, path: Simulator[Any, Any]) -> Study:
    facts: dict[str, Any] = {"n": row.n, "level": row.level, "replicates": CHECK_REPLICATES, "seed": 1}
    oracle = INTERVAL_METHODS["oracle"](kind="oracle")
    return Study(**path.parts(), methods=oracle, name="plan", **facts)
