"""Transcript of a simulated replicate: the questions to its users, and their answers.

Streams, gradient, randomiser and recursion are those of a sweep, run in one lane with every row kept. So
theta has the bits of the simulated path, and `analyse` on the file gives the rows of the sweep, bit for bit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpflow.components.intervals import IntervalMethod
from ldpflow.components.mechanisms.randomized_response import RandomizedResponse
from ldpflow.engine.replay import planned_path
from ldpflow.errors import InputError
from ldpflow.practice.transcripts.collection import ALGORITHMS_READ, VERSION
from ldpflow.simulators.reports import reports_of
from ldpflow.store.run_store import RunStore
from ldpflow.study.reading import toml_text
from ldpflow.study.stored import study_to_run

Floats = NDArray[np.float64]


def check_path(path: Any, n: int) -> None:
    algorithm = path.algorithm
    if algorithm.kind not in ALGORITHMS_READ:
        allowed = "a path of " + " or ".join(ALGORITHMS_READ)
        raise InputError("path", algorithm.kind, allowed, "Others have no transcript of reports.")
    central = getattr(algorithm, "noise", "record") != "record"
    for refused, component, allowed in (
        (algorithm.projects() or central, algorithm, "a path that is neither projected nor central"),
        (algorithm.by_coordinate(), algorithm, "a path with one step constant and start for all coordinates"),
        (getattr(path.mechanism, "varies", bool)(), path.mechanism, "one budget for all users"),
        (getattr(path.mechanism, "answers", 1) > 1, path.mechanism, "one report of a user, answers = 1"),
    ):
        if refused:
            raise InputError("path", component.kind, allowed)
    size = algorithm.records_per_step()
    if n < size:
        raise InputError("n", n, f"at least {size}, the reports of a step")


def transcript_settings(
    path: Any,
    seed: int,
    replicate: int,
    final: Sequence[float],
    methods: Sequence[IntervalMethod] = (),
    levels: Sequence[float] = (0.9,),
) -> dict[str, Any]:
    mechanism = path.mechanism.model_dump(exclude_none=True)
    mechanism.pop("sampling", None)
    if isinstance(path.mechanism, RandomizedResponse):
        # The settings are those of honest devices: without liars and missing answers.
        mechanism = {"kind": "randomized_response", "epsilon": path.mechanism.epsilon}
    algorithm = path.algorithm
    steps: dict[str, Any] = {
        "kind": algorithm.kind,
        "gamma": algorithm.step_exponent(),
        "c": algorithm.step_constant(),
        "theta0": float(algorithm.theta0),
        "final_theta": [float(value) for value in final],
    }
    if algorithm.records_per_step() > 1 or algorithm.kind == "minibatch_sgd":
        steps["batch_size"] = algorithm.records_per_step()
    problem: dict[str, Any] = {"kind": path.problem.kind}
    if path.problem.kind == "quantile":
        problem["tau"] = path.problem.tau
    elif path.problem.levels() is not None:
        problem["taus"] = list(path.problem.levels())
    tables: dict[str, Any] = {
        "version": VERSION if algorithm.records_per_step() > 1 else 1,
        "level": tuple(levels),
        "seed": seed,
        "replicate": replicate,
        "path": path.key,
        "origin": tuple(map(float, path.problem.truth())),
        "problem": problem,
        "mechanism": mechanism,
        "algorithm": steps,
    }
    if methods:
        tables["method"] = [method.model_dump(exclude_none=True) for method in methods]
    return tables


def table_of(path: Any, first: int, thetas: Floats, gradients: Floats) -> pa.Table:
    """Rows as a table: round, theta and report, by coordinate if there are several."""
    d = thetas.shape[1]
    size = path.algorithm.records_per_step()
    rounds = 1 + (np.arange(first - 1, first - 1 + len(thetas)) // size)
    columns: dict[str, Any] = {"round": pa.array(rounds)}
    names = [""] if d == 1 else [f"_{j}" for j in range(d)]
    columns |= {f"theta{name}": pa.array(thetas[:, j]) for j, name in enumerate(names)}
    if isinstance(path.mechanism, RandomizedResponse):
        parameters = path.randomiser.kernel_parameters(path.problem)
        one = parameters["one"] if "one" in parameters else parameters["values"][1]
        columns["report"] = pa.array((gradients[:, 0] == one).astype(np.int8))
    elif path.mechanism.kind == "cells":
        # The number of the reported cell is the number of thetas below it.
        above = np.array(path.randomiser.kernel_parameters(path.problem)["above"])
        columns["report"] = pa.array((gradients == above).sum(axis=1).astype(np.int8))
    else:
        columns |= {f"report{name}": pa.array(gradients[:, j]) for j, name in enumerate(names)}
    return pa.table(columns)


def write_transcript(
    path: Any,
    seed: int,
    replicate: int,
    n: int,
    file: str | os.PathLike[str],
    methods: Sequence[IntervalMethod] = (),
    levels: Sequence[float] = (0.9,),
) -> int:
    """Simulate one replicate again and write its transcript, Parquet or CSV by the file's name.

    The last of n users are left out if they do not fill a round. Settings of a CSV file go into FILE.toml.
    They name the ``methods`` and ``levels`` that `analyse` computes by default.

    Returns
    -------
    int
        Rows of the file.

    Raises
    ------
    InputError
        If the path has no transcript of local reports.
    """
    import pyarrow.csv
    import pyarrow.parquet as pq

    check_path(path, n)
    users = int(path.steps(n) * path.algorithm.records_per_step())
    target = FilePath(file)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    final: Floats = np.empty((0, path.dimension))
    schema = table_of(path, 1, final, final).schema
    parquet = target.suffix.lower() in (".parquet", ".pq")
    try:
        with (
            pq.ParquetWriter(temporary, schema, write_page_checksum=True)
            if parquet
            else pyarrow.csv.CSVWriter(temporary, schema)
        ) as writer:
            for first, thetas, gradients, after in reports_of(path, seed, replicate, users):
                final = after
                writer.write_table(table_of(path, first, thetas, gradients))
            tables = transcript_settings(path, seed, replicate, final.tolist(), methods, levels)
            settings = toml_text(tables if n == users else {"n": n, **tables})
            if parquet:
                writer.add_key_value_metadata({"ldpflow": settings})
            else:
                target.with_name(f"{target.name}.toml").write_text(settings, encoding="utf-8")
        os.replace(temporary, target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError("output", str(file), "a file that can be written", f"{reason}.") from None
    finally:
        temporary.unlink(missing_ok=True)
    return users


def stored_transcript(
    run: str | os.PathLike[str],
    path_key: str,
    replicate: int,
    file: str | os.PathLike[str],
    n: int | None = None,
) -> int:
    """Write the transcript of a stored replicate; see :func:`write_transcript`.

    ``path_key`` may start with the p of the folder's name. Default of ``n``: the largest of the path.

    Returns
    -------
    int
        Rows of the file.

    Raises
    ------
    InputError
        If the run has no such path, or the path no transcript of local reports.
    """
    if not re.fullmatch("p?[0-9a-f]{16}", path_key):
        raise InputError("path", path_key, "a path key as in the folder names: p and 16 hex digits")
    store = RunStore(run)
    with store.named_errors():
        study = study_to_run(store)
    plan, _ = planned_path(study, path_key.removeprefix("p"))
    if plan is None:
        keys = ", ".join(f"p{plan.simulator.key}" for plan in study.plans()[:5])
        raise InputError("path", path_key, "a path of the run", f"It has: {keys}.")
    if "protocol" in plan.simulator.parts():
        kind = plan.simulator.parts()["protocol"].kind
        hint = "Reports of rounds of thresholds and of one-shot protocols cannot be analysed in this version."
        raise InputError("path", f"{path_key} (protocol {kind})", "a path of SGD", hint)
    users = n if n is not None else max([cell.n for cell in plan.cells], default=0)
    if users < 1:
        raise InputError("n", n, "a number of users: the path has no cells")
    methods = dict.fromkeys(
        cell.method
        for cell in plan.cells
        if cell.method.kind != "PB" and not cell.method.reads_truth() and cell.method.runs(cell.level) == 1
    )
    levels = dict.fromkeys(cell.level for cell in plan.cells)
    return write_transcript(
        plan.simulator, study.seed, replicate, users, file, tuple(methods), tuple(levels) or (0.9,)
    )
