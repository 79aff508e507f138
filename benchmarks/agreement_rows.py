"""Compare self-normalisation of ldpflow with random scaling of an R package, on equal users."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.designs import GAMMA, SEED, TAU, C
from benchmarks.effort import Effort
from benchmarks.information import run_r
from benchmarks.measurement import Measurement
from ldpflow.components.algorithms import ALGORITHMS
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.components.mechanisms import MECHANISMS
from ldpflow.components.problems import PROBLEMS
from ldpflow.numerics import constants
from ldpflow.simulators.one_pass import OnePass, run_path
from ldpflow.testing.checks import planes


def users_of(path: OnePass, replicate: int, count: int) -> NDArray[np.float64]:
    """Values y and covariates of the first ``count`` users of a replicate, shape (count, d)."""
    problem = path.problem
    standard = planes(SEED, "data", path.data_key(), replicate, problem.variates(), count)
    beta, law = problem.truth(), problem.error_law()  # type: ignore[attr-defined]
    covariates = problem.bound * standard[:, :-1]  # type: ignore[attr-defined]
    y = law.location + law.scale * standard[:, -1] + beta[0]
    for j in range(covariates.shape[1]):
        y = y + covariates[:, j] * beta[1 + j]
    return np.column_stack([y, covariates])


def random_scaling_row(effort: Effort) -> list[Measurement]:
    """Largest relative difference in estimate and V between our kernel and sgdi_qr of SGDinference."""
    n = effort.steps // 10
    path = OnePass(
        PROBLEMS["quantile_regression"](tau=TAU),
        MECHANISMS["none"](),
        ALGORITHMS["ldp_sgd"](gamma=GAMMA, c=C),
    )
    record = run_path(path, SEED, [0], [n], [n], ["self_normalization"])
    ours = INTERVAL_METHODS["SN"]().intervals(record, n, [0.9])
    half = 0.5 * (ours.upper - ours.lower)[0, :, 0] / constants.self_normalization_critical_value(0.9)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "users.csv"
        users = users_of(path, 0, n)
        names = ["y", *(f"x{j}" for j in range(1, users.shape[1]))]
        np.savetxt(file, users, fmt="%.17g", delimiter=",", header=",".join(names), comments="")
        theirs = run_r("agreement.R", file, TAU, GAMMA, C)
    differences = [
        *np.abs(ours.estimate[:, 0] / np.array(theirs["beta"]) - 1.0),
        *np.abs(half**2 * n / np.array(theirs["variance"]) - 1.0),
    ]
    what = f"SN against SGDinference {theirs['version']}, one path of {n:,} users: estimate and V, d = 4"
    largest = float(max(differences))
    return [Measurement("random-scaling", what, "relative difference", [largest], 1e-8, "lower")]
