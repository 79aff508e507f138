"""Predictions beside a small simulation, and whether an interval method is good enough at its settings."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

from ldpflow import constants
from ldpflow.engine import run_study
from ldpflow.planning.method import RECOMMENDED
from ldpflow.store import RunStore
from ldpflow.study import Entry, Study

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
        Further arguments of :func:`ldpflow.engine.run_study`.

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
