"""Designs of benchmarks.kernel_baseline: for every kind of kernel a study with one path."""

from __future__ import annotations

from typing import Any, NamedTuple


class Design(NamedTuple):
    """Description of a design, and its study of one path."""

    what: str
    study: dict[str, Any]


SGD = {"kind": "ldp_sgd"}
RESPONSE = {"kind": "randomized_response", "epsilon": 1.0}
LAPLACE = {"kind": "laplace", "epsilon": 1.0}
GAUSSIAN = {"kind": "gaussian", "mu": 1.0}
NONE = {"kind": "none"}
MEDIAN = {"kind": "quantile", "tau": 0.5}
REGRESSION = {"kind": "quantile_regression", "tau": 0.5}
SMALL = {"kind": "ldp_sgd", "gamma": 0.6, "c": 0.1}

# Interval methods by the running sums that they ask for.
AVERAGES = [{"kind": ["BB", "BM"]}]
SN = [*AVERAGES, {"kind": "SN"}]


def tr(degree: int) -> list[dict[str, Any]]:
    return [{"kind": "TR", "degree": degree}]


def design(what: str, n: int, problem: Any, mechanism: Any, algorithm: Any, method: Any = None) -> Design:
    """A study of one path: with interval methods, or with a trajectory of two checkpoints."""
    study = {
        "name": "row",
        "seed": 20240520,
        "problem": problem,
        "mechanism": mechanism,
        "algorithm": algorithm,
        "grid": {"n": n},
        "method": method or [],
    }
    return Design(what, study if method else {**study, "trajectory": {"points": 2}})


def linear(d: int) -> dict[str, Any]:
    return {"kind": "linear_regression", "coefficients": [[1.0] * d]}


def logistic(d: int) -> dict[str, Any]:
    return {"kind": "logistic_regression", "coefficients": [[d**-0.5] * d]}


def epochs(what: str, d: int, algorithm: dict[str, Any]) -> Design:
    problem = {"kind": "nonconvex_logistic", "d": d}
    return design(what, 1000, problem, NONE, {"epsilon": 8.0, **algorithm})


LEAST_SQUARES = {"kind": "least_squares", "d": 10, "sigma": 0.5}
CLIPPED = {"kind": "clipped_gaussian", "clip": 1.0, "mu": 1.0}
BIT = {**RESPONSE, "sampling": "private_bit"}
HALVES = {**RESPONSE, "sampling": "private_bit_32"}

DESIGNS = {
    "quantile": design(
        "quantile, N(0,1), randomised response, BB+BM", 2_000_000, MEDIAN, RESPONSE, SGD, AVERAGES
    ),
    "quantile-sn": design("with SN's running sums", 2_000_000, MEDIAN, RESPONSE, SGD, SN),
    "private-bit": design("private bit drawn directly", 2_000_000, MEDIAN, BIT, SGD, AVERAGES),
    "private-bit-32": design("the same from 32 bits", 2_000_000, MEDIAN, HALVES, SGD, AVERAGES),
    "quantile-tr": design("sums of TR, degree 2", 2_000_000, MEDIAN, RESPONSE, SGD, tr(2)),
    "quantile-tr3-sn": design(
        "sums of TR, degree 3, and SN", 2_000_000, MEDIAN, RESPONSE, SGD, [*SN, *tr(3)]
    ),
    "quickstart": design("the kernel of quickstart", 1_000_000, MEDIAN, RESPONSE, SGD, [*SN, {"kind": "TR"}]),
    "quantile-laplace": design(
        "quantile, Laplace mechanism", 2_000_000, MEDIAN, LAPLACE, SGD, AVERAGES
    ),
    "minibatch": design(
        "quantile, Laplace mechanism, mini-batches of 10", 2_000_000, MEDIAN, LAPLACE,
        {"kind": "minibatch_sgd", "batch_size": 10}, AVERAGES,
    ),
    "perturbed": design(
        "quantile, path and 3 perturbed paths", 300_000, MEDIAN, RESPONSE,
        {"kind": "budget_split", "perturbations": 3}, [{"kind": "PB"}],
    ),
    "regression": design(
        "quantile regression d = 4, Laplace, BB+BM", 400_000, REGRESSION, LAPLACE, SGD, AVERAGES
    ),
    "paper-table2": design(
        "the kernel of paper-table2", 400_000,
        {"kind": "quantile_regression", "tau": 0.5, "coefficients": [[0.0, 0.0, 1.0, -1.0]]},
        LAPLACE, {**SGD, "gamma": 0.51, "c": 1.0}, [*AVERAGES, {"kind": "oracle"}],
    ),
    "regression-sn": design("with SN's running sums", 400_000, REGRESSION, LAPLACE, SGD, SN),
    "regression-tr": design("sums of TR, degree 1", 400_000, REGRESSION, LAPLACE, SGD, tr(1)),
    "regression-tr2": design("sums of TR, degree 2", 50_000, REGRESSION, LAPLACE, SGD, tr(2)),
    "gaussian-d5": design(
        "Huber regression d = 5, Gaussian, trajectory", 300_000, linear(5), GAUSSIAN, SMALL
    ),
    "gaussian-d10": design("the same, d = 10", 180_000, linear(10), GAUSSIAN, SMALL),
    "gaussian-d10-tr-sn": design(
        "d = 10, sums of TR, degree 1, and SN", 80_000, linear(10), GAUSSIAN, SMALL, [*SN, *tr(1)]
    ),
    "gaussian-d20": design("the same, d = 20", 70_000, linear(20), GAUSSIAN, SMALL),
    "logistic-d5": design("logistic regression d = 5", 250_000, logistic(5), GAUSSIAN, SMALL),
    "logistic-d20": design("logistic regression d = 20", 70_000, logistic(20), GAUSSIAN, SMALL),
    "clipping-sgd": design(
        "least squares d = 10, clipped gradients, constant steps", 200_000, LEAST_SQUARES, CLIPPED,
        {"kind": "tail_sgd", "eta": 0.01},
    ),
    "adaptive-clipping": design(
        "DP-AMBSSGD d = 10, T = 20", 200_000, LEAST_SQUARES, NONE,
        {"kind": "dp_ambssgd", "epsilon": 50.0, "iterations": 20, "infeasible_is": "warned"},
    ),
    "fixed-clipping": design(
        "DP-MBSSGD d = 10, T = 20", 200_000, LEAST_SQUARES, NONE,
        {"kind": "dp_mbssgd", "epsilon": 50.0, "iterations": 20, "infeasible_is": "warned"},
    ),
    "moments": design(
        "second moments d = 10", 200_000, LEAST_SQUARES, NONE,
        {"kind": "sufficient_statistics", "epsilon": 1.0},
    ),
    "momentum": epochs(
        "DP-NSGD d = 20, noise tree, reshuffled", 20, {"kind": "dp_nsgd", "epsilon": 1.0, "epochs": 20.0}
    ),
    "momentum-plain": epochs(
        "NSGD d = 20, without noise", 20, {"kind": "dp_nsgd", "epochs": 20.0, "noise": "none"}
    ),
    "momentum-reduced": epochs(
        "reduced DP-NSGD d = 10, fixed order", 10,
        {"kind": "dp_nsgd_reduced", "epsilon": 1.0, "epochs": 20.0, "order": "fixed"},
    ),
    "full-gradient": epochs("DP-GD d = 10", 10, {"kind": "dp_gd", "epsilon": 1.0, "epochs": 200.0}),
    "subsets": epochs(
        "DP-SGD d = 10, batches of 100", 10,
        {"kind": "dp_sgd", "epsilon": 1.0, "epochs": 120.0, "batch_size": 100},
    ),
}  # fmt: skip
"""Designs by the name that ``--only`` accepts."""
