"""Predictions beside a small simulation, and whether an interval method is good enough at its settings.

A whole plan: rows, cautions and advice, for a study, a pilot's column or public bounds.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.numerics import constants
from ldpflow.practice.planning.method import RECOMMENDED
from ldpflow.practice.planning.rows import Goal, PlanRow, cautions_of, completed, source_rows, study_rows
from ldpflow.practice.planning.sources import Guess, Pilot, Source
from ldpflow.simulators.simulator import Simulator
from ldpflow.store.run_store import RunStore
from ldpflow.study import Entry, Study

if TYPE_CHECKING:
    import pyarrow as pa


CHECK_REPLICATES = 512

FAILURES = 0.05  # of the rows: above it a method is undefined
SHORT = 0.03  # coverage this far below the level is short
WILSON = 0.02  # and so is a Wilson interval that ends this far below it


def with_recommended(study: Study) -> Study:
    """The study with the oracle and every method that a plan recommends, each once."""
    methods = list(study.method)
    have = {(entry.kind, tuple(sorted(entry.axes.items()))) for entry in methods}
    for kind, settings in (("oracle", {}), *(("TR", own) for own in RECOMMENDED.values())):
        entry = Entry.of("method", kind, {name: (value,) for name, value in settings.items()})
        if (kind, tuple(sorted(entry.axes.items()))) not in have:
            methods.append(entry)
    return study.with_fields(method=tuple(methods))


def check_predictions(study: Study, engine: str = "serial", **options: Any) -> list[dict[str, Any]]:
    """Run a small sweep of the study and set its predictions beside what comes out.

    Parameters
    ----------
    study : Study
        Run with CHECK_REPLICATES replicates and the oracle added to its methods.
    engine : str
    options
        Further arguments of :func:`ldpflow.engine.run.run_study`.

    Returns
    -------
    list of dict
        Rows of the summary with ``predicted_se``, ``predicted_length`` and ``judgement``.
    """
    methods = study.method
    if not any(entry.kind == "oracle" for entry in methods):
        methods = (*methods, Entry.of("method", "oracle", {}))
    small = study.with_fields(method=methods, replicates=CHECK_REPLICATES)
    with tempfile.TemporaryDirectory(prefix="ldpflow-plan-") as folder:
        run_study(small, folder, engine=engine, **options)
        summary = RunStore(folder).read_summary()
    assert summary is not None
    rows: list[dict[str, Any]] = summary.to_pylist()
    for row in rows:
        z = constants.normal_quantile(0.5 + row["level"] / 2)
        row["predicted_length"] = row["oracle_length"]
        row["predicted_se"] = row["oracle_length"] / (2 * z)
        row["judgement"] = judgement(row)
    return rows


def name_of(row: Mapping[str, Any]) -> str:
    """The method of a row of a summary, by the name that a plan recommends it under if it has one."""
    for name, settings in RECOMMENDED.items():
        if row["method"] == "TR" and all(row.get(key) == value for key, value in settings.items()):
            return name
    return str(row["method"])


def judgement(row: Mapping[str, Any]) -> str:
    """Whether a method covers, from its row of a summary.

    Returns
    -------
    str
        ``undefined``: more than 5% of the replicates have no interval. ``good``: with failures as
        misses, coverage is at least level - .03 and its Wilson interval reaches level - .02.
        ``short``: all others.
    """
    if row["failure_share"] > FAILURES:
        return "undefined"
    coverage, high = row["coverage_failures_as_misses"], row["coverage_failures_as_misses_high"]
    level = row["level"]
    return "good" if coverage >= level - SHORT and high >= level - WILSON else "short"


OF_A_PILOT = ("column", "missing", "missing_value", "jitter")
OF_A_COMPARISON = (
    "range", "scale_guess", "rounds_max", "bits_max", "liars", "answer_below", "answer_above", "answers",
    "replicates",
)  # fmt: skip


@dataclass(frozen=True)
class PlanOptions:
    """Options of :func:`plan`; None for what is not given.

    Parameters
    ----------
    pilot : path, data frame, pyarrow.Table or mapping of columns
        A pilot's values: a Parquet or CSV file, or a table of pandas, polars or pyarrow.
    column : str
        Its column; may be left out where one column is numeric and no other one mostly numbers.
    missing : str
        ``drop`` leaves out records without a value, which are an error otherwise.
    missing_value : number or sequence of numbers
        Numbers that stand for no value, such as -1 or 9999; their records are left out.
    jitter : float
        Width of the noise that users add to their value.
    bounds : (float, float)
        Public bounds of the data.
    tau, epsilon, n, level : number or sequence of numbers
        Replace the study's; all but the level (.9) are needed with a pilot or bounds.
    length, half_width : float
        Wanted of the interval, unit of the data: one of them.
    response_rate : float
        Share of invited users who answer.
    difference, power : float
        Difference between two groups that is to be found, and the probability of finding it.
    seed : int
        Of the resampled pilots.
    compare : bool
        Compare LDP-SGD, rounds and one-shot protocols for the study's quantiles. What follows goes with it.
    range : (float, float)
        Public range of the values; that of the study's protocols unless given.
    scale_guess : float
        Public guess of the law's scale, for the number of bins.
    rounds_max, bits_max
        Protocols beyond them carry a caution.
    liars : float in [0, 1)
        Share of those who answer that send the worst report.
    answer_below, answer_above : float in (0, 1]
        Probability, beside the response rate, that a user answers whose value is at most the quantile,
        or above it.
    answers : int in [1, 64]
        Answers of every user, each with epsilon/answers.
    replicates : int
        Of the simulations of a comparison.
    """

    pilot: Any = None
    column: str | None = None
    missing: str | None = None
    missing_value: float | Sequence[float] | None = None
    jitter: float | None = None
    bounds: Sequence[float] | None = None
    tau: float | Sequence[float] | None = None
    epsilon: float | Sequence[float] | None = None
    n: float | Sequence[float] | None = None
    level: float | Sequence[float] | None = None
    length: float | None = None
    half_width: float | None = None
    response_rate: float | None = None
    difference: float | None = None
    power: float = 0.8
    seed: int = 0
    compare: bool = False
    range: tuple[float, float] | None = None
    scale_guess: float | None = None
    rounds_max: int | None = None
    bits_max: float | None = None
    liars: float | None = None
    answer_below: float | None = None
    answer_above: float | None = None
    answers: int | None = None
    replicates: int | None = None

    def __post_init__(self) -> None:
        if self.length is not None and self.half_width is not None:
            raise InputError("half_width", self.half_width, "nothing where `length` is given")
        if not self.compare:
            self.refuse(OF_A_COMPARISON, "nothing without `compare`")
        else:
            hint = "A study with law = 'empirical' has the values of a column."
            self.refuse(("pilot", "bounds", "difference"), "nothing with `compare`", hint)

    def refuse(self, names: Sequence[str], allowed: str, hint: str = "") -> None:
        """Refuse the first of some options that is given."""
        for name in names:
            if getattr(self, name) is not None:
                raise InputError(name, getattr(self, name), allowed, hint)

    @property
    def goal(self) -> Goal:
        """Targets of the plan."""
        target = self.half_width if self.length is None else self.length / 2
        return Goal(target, self.response_rate, self.difference, self.power)

    @property
    def axes(self) -> dict[str, list[Any]]:
        """Values that replace the study's."""
        found = {name: getattr(self, name) for name in ("tau", "epsilon", "n", "level")}
        return {name: listed(value) for name, value in found.items() if value is not None}

    @property
    def comparison(self) -> dict[str, Any]:
        """Options of a comparison that are given."""
        return {name: value for name in OF_A_COMPARISON if (value := getattr(self, name)) is not None}

    def source(self) -> Source | None:
        """The pilot or the bounds, if any."""
        if self.pilot is None:
            self.refuse(OF_A_PILOT, "nothing without `pilot`")
        if self.pilot is None and self.bounds is None:
            return None
        for name in ("tau", "epsilon", "n"):
            if name not in self.axes:
                raise InputError(name, None, "a number, or several: a pilot says nothing about it")
        if self.pilot is None:
            assert self.bounds is not None
            if len(self.bounds) != 2:
                raise InputError("bounds", list(self.bounds), "two numbers")
            return Guess(*map(float, self.bounds))
        if self.missing not in (None, "drop"):
            raise InputError("missing", self.missing, "drop, or nothing")
        codes = () if self.missing_value is None else tuple(map(float, listed(self.missing_value)))
        values = os.fspath(self.pilot) if isinstance(self.pilot, os.PathLike) else self.pilot
        return Pilot(values, self.column, self.missing == "drop", codes, self.jitter, self.seed)


OPTIONS = tuple(option.name for option in fields(PlanOptions))
"""Names of the options of a plan."""


@dataclass
class Plan:
    """A plan: predictions, verdicts and advice, a row per design point.

    Parameters
    ----------
    rows : list of dict
        One per tau, budget, n, level and coordinate; None where nothing may be said.
    cautions : list of str
        About the data, the design and every row that does not arrive, with what would do.
    refused : bool
        Whether a path does not arrive.
    studies : list of Study
        What ``check`` runs.
    checked : list of dict
        Rows of the summaries of a check.
    simulators : list of Simulator
        The path of every row.
    others : dict of str to tuple of str
        Further paths that a row must hold on, by its own: those under the other laws of a guess.
    """

    rows: list[dict[str, Any]]
    cautions: list[str]
    refused: bool
    studies: list[Study] = field(default_factory=list, repr=False)
    checked: list[dict[str, Any]] = field(default_factory=list, repr=False)
    simulators: list[Simulator[Any, Any]] = field(default_factory=list, repr=False)
    others: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    def table(self) -> pa.Table:
        """The rows as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.rows)

    def analysis_settings(self, row: int | None = None) -> dict[str, Any]:
        """Settings with which ``analyse`` reads reports that are collected as a row says.

        The problem, the mechanism, steps and start at full precision, and the recommended method, if any.

        Parameters
        ----------
        row : int, optional
            Place of the row; may be left out where there is one.

        Raises
        ------
        InputError
            If there are several rows and none is named, or such reports cannot be analysed.
        """
        from ldpflow.practice.transcripts.collection import read_collection

        last = len(self.rows) - 1
        if row not in range(last + 1) and not (row is None and last == 0):
            raise InputError("row", row, f"a row of the plan, from 0 to {last}")
        wanted, simulator = self.rows[row or 0], self.simulators[row or 0]
        parts = {name: part.model_dump(exclude_none=True) for name, part in simulator.parts().items()}
        kept = {
            "problem": ("kind", "tau", "taus"),
            "mechanism": ("kind", "epsilon", "mu"),
            "algorithm": ("kind", "gamma", "c", "theta0", "batch_size"),
        }
        found: dict[str, Any] = {"level": wanted["level"]}
        for table, names in kept.items():
            found[table] = {name: parts[table][name] for name in names if name in parts.get(table, {})}
        if wanted["recommended"] is not None:
            found["method"] = {"kind": "TR", **RECOMMENDED[wanted["recommended"]]}
        read_collection(found)
        return found

    def check(self, engine: str = "serial", **options: Any) -> bool:
        """Simulate every row with the recommended methods beside those asked for.

        Returns
        -------
        bool
            Whether the recommended method is good at every row; not where none is recommended.
        """
        self.checked = [
            row
            for study in self.studies
            for row in check_predictions(with_recommended(study), engine, **options)
        ]
        return all(
            self.covers(row, path)
            for row in self.rows
            if row["arrival"] is not None  # nothing is predicted about such a path, and nothing recommended
            for path in (row["path"], *self.others.get(row["path"], ()))
        )

    def covers(self, row: Mapping[str, Any], path: str) -> bool:
        """Whether the method that a row recommends was good on a path."""
        if row["recommended"] is None:
            return False
        degree = RECOMMENDED[row["recommended"]]["degree"]
        place = (path, row["n"], row["level"], row["coordinate"])
        found = {
            c["judgement"]
            for c in self.checked
            if (c["method"], c["degree"]) == ("TR", degree)
            and (c["path"], c["n"], c["level"], c["coordinate"]) == place
        }
        return found == {"good"}


def plan(study: Study | str | os.PathLike[str] | None = None, **options: Any) -> Plan:
    """Predict lengths and arrival, and what reaching a target takes; or compare protocols.

    Parameters
    ----------
    study : Study, str or path, optional
        A study, its file, its text or the name of a bundled one; or, in its place, ``pilot`` or ``bounds``.
    options
        See :class:`ldpflow.practice.planning.PlanOptions`.

    Raises
    ------
    InputError
        For settings that do not go together, or a fault of the file.
    """
    for name, value in options.items():
        if name not in OPTIONS:
            raise InputError(name, value, f"one of {', '.join(OPTIONS)}")
    given = PlanOptions(**options)
    if (study is not None and (given.pilot is not None or given.bounds is not None)) or (
        given.pilot is not None and given.bounds is not None
    ):
        raise InputError("study", study, "one of a study, a pilot's file and public bounds")
    goal, source = given.goal, given.source()
    if source is not None:
        users, levels = [whole(value) for value in given.axes["n"]], given.axes.get("level", [0.9])
        for level in levels:
            if not 0 < level < 1:
                raise InputError("level", level, "a number in (0, 1)")
        return finished(source_rows(source, given.axes["tau"], given.axes["epsilon"], users, levels), goal)
    if study is None:
        raise InputError("study", None, "a study, a pilot's file or public bounds")
    chosen = study if isinstance(study, Study) else Study.load(os.fspath(study))
    chosen = chosen.replace(given.axes) if given.axes else chosen
    if given.compare:
        from ldpflow.practice.planning.compare import plan_protocols

        return plan_protocols(chosen, goal.half_width, goal.response_rate or 1.0, **given.comparison)
    return finished(study_rows(chosen), goal, chosen)


def listed(value: Any) -> list[Any]:
    """A value or several, as a list."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return list(value) if isinstance(value, (list, tuple, range)) else [value]


def whole(value: Any) -> int:
    """A number of users."""
    if not (isinstance(value, (int, float)) and value >= 1 and float(value).is_integer()):
        raise InputError("n", value, "an integer >= 1")
    return int(value)


def finished(bare: Sequence[PlanRow], goal: Goal, study: Study | None = None) -> Plan:
    """The plan of a study, or of rows from a pilot or bounds: a check has a study for each of these."""
    rows = completed(bare, goal)
    paths = [(row.simulator, *(row.source.others(row.simulator) if row.source else ())) for row in rows]
    checks = [study] if study is not None else []
    if study is None:
        checks = [checkable(row, path) for row, each in zip(rows, paths, strict=True) for path in each]
    return Plan(
        alike([row.values(goal) for row in rows]),
        cautions_of(rows),
        any(row.refused for row in rows),
        checks,
        simulators=[row.simulator for row in rows],
        others={f"p{path.key}": tuple(f"p{other.key}" for other in others) for path, *others in paths},
    )


def alike(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with the same columns: null where a problem does not have another's setting."""
    settings: dict[str, None] = {}
    measures: dict[str, None] = {}
    for row in rows:
        names = list(row)
        first = names.index("n")
        settings |= dict.fromkeys(names[:first])
        measures |= dict.fromkeys(names[first:])
    return [{name: row.get(name) for name in (*settings, *measures)} for row in rows]


def checkable(row: PlanRow, path: Simulator[Any, Any]) -> Study:
    """The study that checks a row on a path."""
    parts = {table: part.model_dump(exclude_none=True) for table, part in path.parts().items()}
    return Study.from_mapping(
        {
            "name": "plan",
            "seed": 1,
            "replicates": 512,
            **parts,
            "grid": {"n": [row.n], "level": [row.level]},
            "method": [{"kind": "oracle"}],
        }
    )
