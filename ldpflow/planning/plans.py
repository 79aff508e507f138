"""A whole plan: rows, cautions and advice, for a study or for a pilot's column or public bounds."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Unpack

from ldpflow import constants
from ldpflow.errors import InputError
from ldpflow.planning.checking import RECOMMENDED, check_predictions, with_recommended
from ldpflow.planning.pilot import Bounds
from ldpflow.planning.practice import TR_LENGTH, Goal, PracticeRow, practice_rows
from ldpflow.planning.prediction import Prediction, coarse, predict
from ldpflow.planning.sources import Guess, Pilot
from ldpflow.planning.wording import advice_of, words_of
from ldpflow.simulators.one_pass import OnePass
from ldpflow.simulators.simulator import Simulator
from ldpflow.study import Study
from ldpflow.theory.arrivals import arrivals

if TYPE_CHECKING:
    import pyarrow as pa

    from ldpflow.planning.protocols_plan import Comparison


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
        from ldpflow.transcripts.collection import read_collection

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


def plan(
    study: Study | str | os.PathLike[str] | None = None,
    *,
    pilot: Any = None,
    column: str | None = None,
    missing: str | None = None,
    missing_value: float | Sequence[float] | None = None,
    jitter: float | None = None,
    bounds: Sequence[float] | None = None,
    tau: float | Sequence[float] | None = None,
    epsilon: float | Sequence[float] | None = None,
    n: float | Sequence[float] | None = None,
    level: float | Sequence[float] | None = None,
    length: float | None = None,
    half_width: float | None = None,
    response_rate: float | None = None,
    difference: float | None = None,
    power: float = 0.8,
    seed: int = 0,
    compare: bool = False,
    **comparison: Unpack[Comparison],
) -> Plan:
    """Predict lengths and arrival, and what reaching a target takes; or compare protocols.

    Parameters
    ----------
    study : Study, str or path, optional
        A study, its file, its text or the name of a bundled one; or, in its place, one of the next two.
    pilot : path, data frame, pyarrow.Table or mapping of columns, optional
        A pilot's values: a Parquet or CSV file, or a table of pandas, polars or pyarrow.
    column : str, optional
        Its column; may be left out where one column is numeric and no other one mostly numbers.
    missing : str, optional
        ``drop`` leaves out records without a value, which are an error otherwise.
    missing_value : number or sequence of numbers, optional
        Numbers that stand for no value, such as -1 or 9999; their records are left out.
    jitter : float, optional
        Width of the noise that users add to their value.
    bounds : (float, float), optional
        Public bounds of the data.
    tau, epsilon, n, level : number or sequence of numbers, optional
        Replace the study's; all but the level (.9) are needed with a pilot or bounds.
    length, half_width : float, optional
        Wanted of the interval, unit of the data: one of them.
    response_rate : float, optional
        Share of invited users who answer.
    difference, power : float
        Difference between two groups that is to be found, and the probability of finding it.
    seed : int
        Of the resampled pilots.
    compare : bool
        Compare LDP-SGD, rounds and one-shot protocols for the study's quantiles.
    comparison
        Settings of a comparison: see :class:`ldpflow.planning.protocols_plan.Comparison`.

    Raises
    ------
    InputError
        For settings that do not go together, or a fault of the file.
    """
    if length is not None and half_width is not None:
        raise InputError("half_width", half_width, "nothing where `length` is given")
    target = half_width if length is None else length / 2
    goal = Goal(target, response_rate, difference, power)
    axes = {"tau": tau, "epsilon": epsilon, "n": n, "level": level}
    given = {name: listed(value) for name, value in axes.items() if value is not None}
    check_comparison(compare, comparison, pilot=pilot, bounds=bounds, difference=difference)
    if pilot is None and bounds is None:
        others = {"column": column, "missing": missing, "missing_value": missing_value, "jitter": jitter}
        for name, value in others.items():
            if value is not None:
                raise InputError(name, value, "nothing without `pilot`")
        if study is None:
            raise InputError("study", None, "a study, a pilot's file or public bounds")
        chosen = study if isinstance(study, Study) else Study.load(os.fspath(study))
        chosen = chosen.replace(given) if given else chosen
        if compare:
            from ldpflow.planning.protocols_plan import plan_protocols

            return plan_protocols(chosen, target, response_rate or 1.0, **comparison)
        return plan_study(chosen, goal)
    if study is not None or (pilot is not None and bounds is not None):
        raise InputError("study", study, "one of a study, a pilot's file and public bounds")
    for name in ("tau", "epsilon", "n"):
        if name not in given:
            raise InputError(name, None, "a number, or several: a pilot says nothing about it")
    source: Pilot | Guess
    if pilot is not None:
        if missing not in (None, "drop"):
            raise InputError("missing", missing, "drop, or nothing")
        codes = tuple(float(value) for value in listed(missing_value)) if missing_value is not None else ()
        values = os.fspath(pilot) if isinstance(pilot, os.PathLike) else pilot
        source = Pilot(values, column, missing == "drop", codes, jitter, seed)
    else:
        assert bounds is not None
        if len(bounds) != 2:
            raise InputError("bounds", list(bounds), "two numbers")
        source = Guess(Bounds(*map(float, bounds)))
    return plan_practice(source, given, goal)


def check_comparison(compare: bool, comparison: Mapping[str, Any], **others: Any) -> None:
    """Refuse settings of a comparison without one, and what a comparison does not read."""
    if not compare:
        for name, value in comparison.items():
            raise InputError(name, value, "nothing without `compare`")
    for name, value in others.items() if compare else ():
        if value is not None:
            hint = "A study with law = 'empirical' has the values of a column."
            raise InputError(name, value, "nothing with `compare`", hint)


def listed(value: Any) -> list[Any]:
    """A value or several, as a list."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return list(value) if isinstance(value, (list, tuple, range)) else [value]


def plan_study(study: Study, goal: Goal) -> Plan:
    """The plan of a study."""
    found = predict(study, None if goal.half_width is None else 2 * goal.half_width)
    rows = alike([{"path": f"p{row.simulator.key}", **row.values()} for row in found])
    groups = per_group(found, goal)
    for row, prediction, group in zip(rows, found, groups, strict=True):
        row["n_per_group"], row["arrival_per_group"] = group
        row["invitations"] = goal.invitations(prediction.n)
        row["invitations_needed"] = goal.invitations(row["n_with_method"])
    cautions = advice_of(found)
    for prediction in found:
        cautions |= dict.fromkeys(coarse(prediction.simulator, prediction.n))
    refused = any(row.refused for row in found)
    return Plan(rows, list(cautions), refused, [study], simulators=[row.simulator for row in found])


def alike(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with the same columns: null where a problem does not have another's setting."""
    settings: dict[str, None] = {}
    measures: dict[str, None] = {}
    for row in rows:
        names = list(row)
        first = names.index("standard_error")
        settings |= dict.fromkeys(names[:first])
        measures |= dict.fromkeys(names[first:])
    return [{name: row.get(name) for name in (*settings, *measures)} for row in rows]


def per_group(rows: Sequence[Prediction], goal: Goal) -> list[tuple[int | None, str | None]]:
    """Users per group that find the difference, and the verdict with them."""
    counts: list[int | None] = []
    for row in rows:
        if goal.difference is None or row.standard_error is None:
            counts.append(None)
            continue
        z = constants.normal_quantile(0.5 + row.level / 2) + constants.normal_quantile(goal.power)
        variance = row.n * row.standard_error**2 * TR_LENGTH**2
        counts.append(math.ceil(z * z * 2.0 * variance / goal.difference**2))
    asked = [(row.simulator, count) for row, count in zip(rows, counts, strict=True) if count is not None]
    verdicts = iter(arrivals(asked))
    result: list[tuple[int | None, str | None]] = []
    for row, count in zip(rows, counts, strict=True):
        found = None if count is None else next(verdicts)
        result.append((count, None if found is None else found[row.coordinate].verdict))
    return result


def plan_practice(source: Pilot | Guess, given: dict[str, list[Any]], goal: Goal) -> Plan:
    """The plan of a pilot or of public bounds."""
    users = [whole(value) for value in given["n"]]
    levels = given.get("level", [0.9])
    for level in levels:
        if not 0 < level < 1:
            raise InputError("level", level, "a number in (0, 1)")
    found = practice_rows(source, given["tau"], given["epsilon"], users, levels, goal)
    rows = [
        {
            "path": f"p{row.simulator.key}",
            "coordinate": 0,
            "quantile": row.quantile,
            "sparsity": row.sparsity,
            "pilot": source.name if isinstance(source, Pilot) else None,
            "pilot_values": len(source.values) if isinstance(source, Pilot) else None,
        }
        | row.values(goal)
        for row in found
    ]
    cautions: dict[str, None] = {}
    for row in found:
        cautions |= dict.fromkeys(row.cautions)
        cautions |= dict.fromkeys(words_of(row))
    studies = [checkable(row, path) for row in found for path in (row.simulator, *row.others)]
    others = {f"p{row.simulator.key}": tuple(f"p{path.key}" for path in row.others) for row in found}
    simulators: list[Simulator[Any, Any]] = [row.simulator for row in found]
    refused = any(row.refused for row in found)
    return Plan(rows, list(cautions), refused, studies, simulators=simulators, others=others)


def whole(value: Any) -> int:
    """A number of users."""
    if not (isinstance(value, (int, float)) and value >= 1 and float(value).is_integer()):
        raise InputError("n", value, "an integer >= 1")
    return int(value)


def checkable(row: PracticeRow, path: OnePass) -> Study:
    """The study that checks a row on a path."""
    parts = {
        table: {k: v for k, v in part.model_dump(exclude_none=True).items()}
        for table, part in path.parts().items()
    }
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
