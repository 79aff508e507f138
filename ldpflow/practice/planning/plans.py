"""Plan of a study, a pilot's column or public bounds, with cautions, advice, and a check by simulation."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from ldpflow.store.run_store import RunStore
from ldpflow.study import Entry, Study

if TYPE_CHECKING:
    import pyarrow as pa


CHECK_REPLICATES = 512

SHOWN = (
    "interval", "half_width", "coverage", "arrival", "recommended", "n_with_method",
    "method_needed", "n_needed",
)  # fmt: skip
"""Results that the text of a plan shows."""

MOST_DESIGNS = 5
"""Best designs of a comparison that a text or a terminal shows."""

FAILURES = 0.05
SHORT = 0.03
WILSON = 0.02


def add_recommended(study: Study) -> Study:
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
    """Judge whether a method covers, from its row of a summary.

    ``undefined``: more than 5% of the replicates have no interval. ``good``: coverage, failures counted as
    misses, is at least level - .03, and its Wilson interval ends at level - .02 or above. Otherwise
    ``short``.
    """
    if row["failure_share"] > FAILURES:
        return "undefined"
    coverage, high = row["coverage_failures_as_misses"], row["coverage_failures_as_misses_high"]
    level = row["level"]
    return "good" if coverage >= level - SHORT and high >= level - WILSON else "short"


@dataclass
class Plan:
    """A plan: predictions, verdicts and advice.

    Parameters
    ----------
    rows : list of dict
        A row for each path, n, level and coordinate, or for each design compared. None: not predicted.
    cautions : list of str
        Warnings about the data and the design, and advice for every row whose verdict is not ``arrived``.
    refused : bool
        Whether the verdict of a row is neither ``arrived`` nor ``doubtful``.
    studies : list of Study
        Studies that ``check`` simulates. Empty for a comparison and for bounds.
    checked : list of dict
        Rows of the summaries of a check.
    designs : list of Design or None
        Collection of every row. None for a row of a comparison without an interval.
    advice : list of str
        Sentences of a comparison: the best design, the reason, and what would change the answer.
    """

    rows: list[dict[str, Any]]
    cautions: list[str]
    refused: bool
    studies: list[Study] = field(default_factory=list, repr=False)
    checked: list[dict[str, Any]] = field(default_factory=list, repr=False)
    designs: list[Design | None] = field(default_factory=list, repr=False)
    advice: list[str] = field(default_factory=list)

    def best_rows(self) -> list[dict[str, Any]]:
        """Rows of the best designs of a comparison. Empty if none holds its level, or nothing is compared."""
        return [row for row in self.rows if (row.get("rank") or math.inf) <= MOST_DESIGNS]

    def __str__(self) -> str:
        """Advice, a table of the settings that differ and of the main results, and the number of cautions."""
        lines = lines_of(self)
        form = "  ".join(f"{{:>{max(map(len, column))}}}" for column in zip(*lines, strict=True))
        last = f"cautions: {len(self.cautions)} (plan.cautions); all {len(self.rows)} rows: plan.table()"
        return "\n".join([*self.advice, *(form.format(*line) for line in lines), last])

    __repr__ = __str__

    def table(self) -> pa.Table:
        """The rows as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.rows)

    def write_design(
        self,
        file: str | os.PathLike[str],
        *,
        protocol: str | None = None,
        public: bool = False,
        unit: str | None = None,
        force: bool = False,
    ) -> list[Path]:
        """Write a design as a study file, which ``sweep`` and ``analyse`` read.

        If each quantile asks users of its own, there is a file for each, with the level in its name.

        Parameters
        ----------
        file : path
            A new file.
        protocol : str, optional
            Protocol of a comparison. By default the best design is written.
        public : bool
            Whether to leave out the law of the values: file, column and table of a pilot. c, theta0 and
            edges, which every user receives, remain. ``analyse`` reads such a file, ``sweep`` cannot simulate
            it.
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
            If the design has no interval, the plan has several epsilons, n or levels, or a file exists.
        """
        rows = [row | {"design": design} for row, design in zip(self.rows, self.designs, strict=True)]
        names = list(dict.fromkeys(row["protocol"] for row in rows if "protocol" in row))
        if protocol is None:
            rows = [row for row in rows if row.get("best", True)]
        else:
            rows = [row for row in rows if row.get("protocol") == protocol]
        if not rows:
            allowed = f"one of {', '.join(names)}" if names else "needs `compare`"
            hint = "No design is recommended." if protocol is None else ""
            raise InputError("protocol", protocol, allowed, hint)
        if len({(row.get("epsilon"), row["n"], row["level"]) for row in rows}) > 1:
            raise InputError("output", str(file), "needs a plan with one epsilon, n and level")
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
        """Simulate every row with the recommended methods and those of the study.

        Returns
        -------
        bool
            Whether the recommended method is good at every row with a predicted arrival. False if such a row
            has no recommended method.

        Raises
        ------
        InputError
            With ``compare``, where every row is simulated already, and with ``bounds``, which have no law.
        """
        if not self.studies:
            hint = "The rows of a comparison are simulated already. For bounds, check a study of your law."
            raise InputError("check", True, "cannot be used with `compare` or `bounds`", hint)
        self.checked = []
        for study in self.studies:
            small = add_recommended(study).with_fields(replicates=CHECK_REPLICATES)
            with tempfile.TemporaryDirectory(prefix="ldpflow-plan-") as folder:
                run_study(small, folder, engine=engine, **options)
                summary = RunStore(folder).read_summary()
            assert summary is not None
            self.checked += [row | {"judgement": judgement(row)} for row in summary.to_pylist()]
        found: dict[Any, set[str]] = {}
        keys = ("path", "n", "level", "coordinate")
        for row in self.checked:
            found.setdefault((name_of(row), *(row[name] for name in keys)), set()).add(row["judgement"])
        return all(
            found.get((row["recommended"], *(row[name] for name in keys))) == {"good"}
            for row in self.rows
            if row["arrival"] is not None  # otherwise no method is recommended
        )


@with_options(PlanOptions)
def plan(study: Study | str | os.PathLike[str] | None = None, **options: Any) -> Plan:
    """Predict interval lengths, and the users and budgets that a length needs; or compare protocols.

    Options marked * replace the study's values. With a pilot or bounds they are needed, except ``level``,
    which is then .9 by default. ``half_width`` is in the unit of the data. The options after ``compare``
    cannot be used without it. ``answer_below`` and ``answer_above`` are multiplied by the response rate.

    Parameters
    ----------
    study : Study, str or path, optional
        A study, its file, its text or the name of a bundled one. Give either this, ``pilot`` or ``bounds``.
    {options}

    Raises
    ------
    InputError
        If options cannot be used together, or a file has a fault.

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
    """Lines of the table of a plan. The first has the names of columns. A star marks the design to take."""
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
    complete(rows, given)
    checks = [study] if study is not None else []
    if given.pilot is not None:
        oracle = INTERVAL_METHODS["oracle"](kind="oracle")
        facts: dict[str, Any] = {"replicates": CHECK_REPLICATES, "seed": 1, "methods": oracle, "name": "plan"}
        checks = [Study(**row.simulator.parts(), n=row.n, level=row.level, **facts) for row in rows]
    values = [row.values(given) for row in rows]
    # All rows have the same columns. A setting that a problem does not have is None.
    names = dict.fromkeys(name for row in values for name in row)
    return Plan(
        [{name: row.get(name) for name in names} for row in values],
        cautions_of(rows),
        any(row.refused for row in rows),
        checks,
        designs=[design_of(row) for row in rows],
    )


def design_of(row: PlanRow) -> Design:
    method = {} if row.method is None else {"method": METHODS[row.method]}
    of_pilot = ("c", "theta0") if isinstance(row.source, OwnSteps) else ()
    return Design(row.simulator.parts() | method, row.n, row.level, of_pilot=of_pilot)
