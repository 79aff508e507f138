"""Tiny studies whose rows are golden: every kind of kernel and every interval method.

The fast cases have each kind of kernel once, the others every combination of problem,
dimension, mechanism, algorithm and running sums that a bundled study uses, and what bundled studies
leave out.
"""

REPLICATES = 8


RECORDS = {"least_squares": "real.csv", "robust_regression": "real.csv", "nonconvex_logistic": "binary.csv"}
"""Files that studies read, by kind of problem; the name as it is typed is part of a path's key."""


def write_records(folder):
    """Write files of 97 records with three features, by integer arithmetic: y is real, or 0 or 1."""
    real, binary = ["a,b,c,y"], ["a,b,c,y"]
    for i in range(97):
        a, b, c = ((37 * i + 11 * k * k + 5 * i * k) % 101 - 50 for k in (1, 2, 3))
        x = f"{a / 64},{b / 64},{c / 64}"
        real.append(f"{x},{(a - 2 * b + (c * i) % 13) / 64}")
        binary.append(f"{x},{1 if a - b + c % 7 > 0 else 0}")
    for name, lines in (("real.csv", real), ("binary.csv", binary)):
        (folder / name).write_text("\n".join(lines) + "\n")


def study(problem, mechanism, algorithm, **more):
    """Make a study of 8 replicates. 300 steps take three chunks of random numbers."""
    made = {
        "name": "golden",
        "seed": 20261122,
        "replicates": REPLICATES,
        "problem": problem,
        "mechanism": mechanism,
        "algorithm": algorithm,
        "grid": {"n": more.pop("n", [300, 1001]), "level": more.pop("level", [0.8, 0.95])},
        "method": more.pop("method", []),
    }
    if mechanism is None:
        del made["mechanism"]
    if points := more.pop("points", 0 if made["method"] else 4):
        made["trajectory"] = {"points": points}
    made["grid"] |= more
    return made


# Interval methods, by the running sums that they need of a kernel: none, SN's, those of TR.
PLAIN = [
    {"kind": "BB", "beta": [0.6, 0.75], "B": [20, 50], "multiplier": ["uniform", "rademacher"]},
    {"kind": "BM"},
    {"kind": "BM", "M": 9},
    {"kind": "oracle"},
]
SN = [{"kind": "SN"}]
ONE_EACH = [{"kind": "BB", "B": 50}, {"kind": ["BM", "oracle"]}]


def transcript(*degrees):
    return [
        {"kind": ["TR", "TR-BM"], "degree": list(degrees), "burn_in": ["n^0.4", "0.1n"]},
        {"kind": "TR", "degree": list(degrees), "burn_in": "0.01n", "variance": "residual"},
        {"kind": "TR-BM", "degree": degrees[0], "M": 7},
    ]


BOUNDED = [*ONE_EACH, *SN]

MEDIAN = {"kind": "quantile", "tau": [0.5, 0.9]}
RESPONSE = {"kind": "randomized_response", "epsilon": 1.0}
LAPLACE = {"kind": "laplace", "epsilon": 1.0}
GAUSSIAN = {"kind": "gaussian", "mu": 1.0}
NONE = {"kind": "none"}
SGD = {"kind": "ldp_sgd"}
LAWS = ("normal", "laplace", "exponential", "uniform", "logistic", "student_t", "bimodal")


def law(name, **settings):
    return {"kind": "quantile", "law": name, **({"df": 3.0} if name == "student_t" else {}), **settings}


def scalars():
    yield "quantile-response", study(MEDIAN, RESPONSE, SGD, method=PLAIN, points=4)
    yield "quantile-response-sn", study(MEDIAN, RESPONSE, SGD, method=[*PLAIN, *SN])
    yield "quantile-response-tr", study(MEDIAN, RESPONSE, SGD, method=transcript(1, 2))
    yield "quantile-response-tr-sn", study(MEDIAN, RESPONSE, SGD, method=[*BOUNDED, *transcript(2, 1)])
    every = [*PLAIN, *SN, *transcript(1, 2, 3)]
    yield "quantile-response-all", study(MEDIAN, RESPONSE, SGD, method=every, n=[300, 1001, 4000])
    steps = {"kind": "ldp_sgd", "gamma": [0.6, 0.75], "c": [0.5, 4.0], "theta0": [-3.0, 1.0]}
    yield "quantile-response-steps", study(MEDIAN, RESPONSE, steps, method=BOUNDED)
    yield "quantile-response-horizons", study(MEDIAN, RESPONSE, SGD, method=PLAIN, independent_n=True)
    # Too few steps for a fit: undefined intervals.
    made = study(MEDIAN, RESPONSE, SGD, method=[*BOUNDED, *transcript(1, 2, 3)], n=[5, 12, 40])
    yield "quantile-response-few", made
    radius = {"kind": "ldp_sgd", "radius": 0.5, "theta0": 0.25}
    yield "quantile-response-projected", study(MEDIAN, RESPONSE, radius, method=BOUNDED)
    for name in LAWS[1:]:
        yield f"quantile-{name}-response-all", study(law(name, tau=[0.3, 0.9]), RESPONSE, SGD, method=every)
    made = study({"kind": "quantile", "law": "student_t", "df": [1.0, 2.5]}, RESPONSE, SGD, method=PLAIN)
    yield "quantile-cauchy-response", made
    for name in LAWS:
        problem = law(name, tau=0.3, location=-1.0, scale=2.5)
        yield f"quantile-{name}-laplace", study(problem, LAPLACE, SGD, method=BOUNDED, points=3)
    made = study(MEDIAN, LAPLACE, SGD, method=[*BOUNDED, *transcript(1, 2)], points=3)
    yield "quantile-laplace-tr-sn", made
    yield "quantile-gaussian", study(MEDIAN, GAUSSIAN, SGD, method=BOUNDED)
    yield "quantile-none", study(MEDIAN, NONE, SGD, method=BOUNDED)
    bit = {**RESPONSE, "sampling": "private_bit"}
    for name in LAWS[:5]:
        problem = law(name, tau=0.3, location=0.2, scale=1.5)
        yield f"quantile-{name}-bit", study(problem, bit, SGD, method=PLAIN)
    yield "quantile-bit-all", study(MEDIAN, bit, SGD, method=every)
    halves = {**RESPONSE, "sampling": "private_bit_32"}
    problem = law("normal", tau=0.3, location=0.2, scale=1.5)
    yield "quantile-normal-bit-32", study(problem, halves, SGD, method=PLAIN)
    yield "quantile-bit-32-all", study(MEDIAN, halves, SGD, method=every)
    batches = {"kind": "minibatch_sgd", "batch_size": 7}
    yield "minibatch-bit", study(MEDIAN, bit, batches, method=PLAIN)
    yield "minibatch-response", study(MEDIAN, RESPONSE, batches, method=BOUNDED)
    yield "minibatch-laplace", study(MEDIAN, LAPLACE, batches, method=BOUNDED)
    central = {**batches, "noise": "batch"}
    yield "minibatch-laplace-batch", study(MEDIAN, LAPLACE, central, method=BOUNDED)
    yield "minibatch-none", study(MEDIAN, NONE, batches, method=[*PLAIN, *SN])
    split = {"kind": "budget_split", "perturbations": 5}
    perturbed = [*PLAIN, {"kind": "PB"}]
    yield "perturbed-response", study(MEDIAN, RESPONSE, split, method=perturbed)
    yield "perturbed-response-sn", study(MEDIAN, RESPONSE, split, method=[*perturbed, *SN, *transcript(2)])
    yield "perturbed-laplace", study(MEDIAN, LAPLACE, split, method=perturbed)
    yield "perturbed-none", study(MEDIAN, NONE, split, method=perturbed)


def coefficients(d):
    return [(-1) ** j / (j + 1) for j in range(d)]


def linear(d, **settings):
    return {"kind": "linear_regression", "coefficients": coefficients(d), **settings}


def logistic(d, **settings):
    return {"kind": "logistic_regression", "coefficients": coefficients(d), **settings}


def vectors():
    median = {"kind": "quantile_regression"}
    slow = {"kind": "ldp_sgd", "gamma": 0.6, "c": 0.4}
    followed = {"method": [], "points": 5, "level": 0.9}
    yield "regression-laplace", study(median, LAPLACE, SGD, method=PLAIN, points=3)
    yield "regression-laplace-sn", study(median, LAPLACE, SGD, method=BOUNDED)
    yield "regression-laplace-tr1", study(median, LAPLACE, SGD, method=transcript(1))
    made = study({**median, "tau": [0.5, 0.9]}, LAPLACE, SGD, method=[*BOUNDED, *transcript(1, 2)])
    yield "regression-laplace-all", made
    made = study({**median, "covariates": "uniform"}, LAPLACE, SGD, method=BOUNDED)
    yield "regression-uniform-laplace", made
    general = {
        **median,
        "tau": 0.8,
        "coefficients": [1.0, -2.0],
        "covariates": "uniform",
        "bound": 0.5,
        "errors": "student_t",
        "df": 4.0,
        "error_scale": 2.0,
    }
    yield "regression-d2-laplace", study(general, LAPLACE, SGD, method=BOUNDED)
    yield "regression-d2-laplace-all", study(general, LAPLACE, SGD, method=[*BOUNDED, *transcript(1, 2)])
    wide = {**median, "coefficients": coefficients(9), "errors": "laplace"}
    yield "regression-d9-laplace", study(wide, LAPLACE, SGD, method=BOUNDED)
    yield "regression-gaussian", study(median, GAUSSIAN, SGD, method=BOUNDED)
    yield "regression-none", study(median, NONE, SGD, method=BOUNDED)
    batches = {"kind": "minibatch_sgd", "batch_size": 5, "theta0": 0.3}
    for noise in ("record", "batch"):
        made = study(median, LAPLACE, {**batches, "noise": noise}, method=BOUNDED)
        yield f"minibatch-regression-{noise}", made
    split = {"kind": "budget_split", "perturbations": 4}
    yield "perturbed-regression", study(median, LAPLACE, split, method=[*ONE_EACH, {"kind": "PB"}])
    for d in (2, 5, 10, 20):
        for name, problem in (("linear", linear(d)), ("logistic", logistic(d))):
            yield f"{name}-d{d}", study(problem, GAUSSIAN, slow, **followed)
            if d in (5, 10):
                every = [*BOUNDED, *transcript(1, 2)] if d == 5 else [*BOUNDED, *transcript(1)]
                yield f"{name}-d{d}-sn", study(problem, GAUSSIAN, slow, method=BOUNDED)
                yield f"{name}-d{d}-all", study(problem, GAUSSIAN, slow, method=every)
    # A vector of one coordinate has the polynomials of a scalar.
    every = [*BOUNDED, *transcript(1, 2, 3)]
    yield "linear-d1-all", study(linear(1), GAUSSIAN, slow, method=every)
    made = study(linear(2), LAPLACE, slow, method=[*BOUNDED, *transcript(1)], points=3)
    yield "linear-d2-laplace-tr1-sn", made
    yield "linear-d2-tr2", study(linear(2), GAUSSIAN, slow, method=transcript(2))
    budgets = {
        "law": {"kind": "gaussian", "mu_min": 1.0, "mu": 2.0},
        "list": {"kind": "gaussian", "budgets": [[1.0, 2.0, 0.5]]},
    }
    for name, mechanism in budgets.items():
        yield f"linear-d2-budget-{name}", study(linear(2), mechanism, slow, method=BOUNDED, points=3)
    yield "linear-d5-budget-law", study(linear(5), budgets["law"], slow, **followed)
    yield "linear-clip", study(linear(3, bounding="clip", clip=1.5), GAUSSIAN, slow, method=BOUNDED, points=3)
    yield "linear-laplace", study(linear(2, huber=0.7), LAPLACE, slow, method=BOUNDED)
    yield "linear-none", study(linear(2), NONE, slow, method=BOUNDED)
    radius = {**slow, "radius": 0.5, "theta0": 0.2}
    yield "linear-projected", study(linear(3), GAUSSIAN, radius, method=BOUNDED, points=3)
    split = {"kind": "budget_split", "perturbations": 3, "gamma": 0.6}
    yield "perturbed-linear", study(linear(2), GAUSSIAN, split, method=[*ONE_EACH, {"kind": "PB"}])
    central = {"kind": "minibatch_sgd", "batch_size": 4, "noise": "batch"}
    yield "minibatch-linear", study(linear(3), GAUSSIAN, central, method=BOUNDED)
    made = study(logistic(2, bounding="clip", clip=0.8), LAPLACE, slow, method=BOUNDED, points=3)
    yield "logistic-clip", made
    yield "logistic-one", study(logistic(1, covariates="one"), GAUSSIAN, slow, method=BOUNDED, points=3)
    quadratic = {"kind": "quadratic", "curvatures": [[0.3, 1.0]], "minimiser": [[-1.0, 1.0]]}
    yield "quadratic", study(quadratic, GAUSSIAN, slow, method=[*BOUNDED, *transcript(1)], points=3)


def least_squares(d, **settings):
    return {"kind": "least_squares", "d": d, "sigma": 0.5, **settings}


def regressions():
    clipped = {"kind": "clipped_gaussian", "clip": [1.0, 4.0], "mu": 1.0}
    tail = {"kind": "tail_sgd", "eta": [0.01, 0.1]}
    decaying = {"kind": "ldp_sgd", "gamma": 0.6, "c": 0.5}
    for mechanism_name, mechanism in (("none", NONE), ("clipped", clipped)):
        for name, algorithm in (("tail", tail), ("sgd", decaying)):
            made = study(least_squares(3), mechanism, algorithm, method=BOUNDED, points=4)
            yield f"least-squares-{name}-{mechanism_name}", made
    # Steps so long that replicates diverge, some before n = 300 and all before 1001.
    wild = {"kind": "ldp_sgd", "gamma": 0.51, "c": 40.0}
    made = study(least_squares(3), NONE, wild, method=BOUNDED, points=4, n=[20, 300, 1001])
    yield "least-squares-diverged", made
    for design, errors in (("uniform", "laplace"), ("rademacher", "uniform"), ("laplace", "rademacher")):
        problem = least_squares(2, design=design, errors=errors, kappa=4.0)
        yield f"least-squares-{design}", study(problem, NONE, decaying, method=BOUNDED, points=3)
    for d in (3, 5, 10, 20):
        problem, size = least_squares(d, kappa=2.0), {"n": 4000, "points": 2}
        adaptive = {"kind": "dp_ambssgd", "epsilon": 100.0, "iterations": 4, "infeasible_is": "warned"}
        yield f"adaptive-d{d}", study(problem, None, adaptive, **size)
        moments = {"kind": "sufficient_statistics", "epsilon": 5.0}
        yield f"moments-d{d}", study(problem, None, moments, **size)
        yield f"ols-d{d}", study(problem, None, {"kind": "ols"}, **size)
        yield f"tail-d{d}", study(problem, NONE, {"kind": "tail_sgd"}, **size)
    size = {"n": [4000, 4003], "points": 3}
    fixed = {"kind": "dp_mbssgd", "epsilon": 50.0, "iterations": 4, "infeasible_is": "warned"}
    yield "fixed-clipping", study(least_squares(3), None, fixed, **size)
    yield "fixed-clipping-d10", study(least_squares(10), None, fixed, **size)
    rules = {
        "kind": "dp_ambssgd",
        "rule": ["corrected", "printed"],
        "accounting": "paper",
        "epsilon": 100.0,
        "iterations": 4,
        "domain": [16.0, 64.0],
        "infeasible_is": "warned",
    }
    yield "adaptive-rules", study(least_squares(3), None, rules, **size)
    one = {"kind": "dp_ssgd", "epsilon": 0.01, "step_rule": ["practical", "printed"]}
    yield "one-by-one", study(least_squares(3), None, one, n=4000, points=3)
    file = {"kind": "least_squares", "file": RECORDS["least_squares"], "target": "y"}
    size = {"n": [60, 97], "points": 2}
    yield "file-tail", study(file, NONE, {"kind": "tail_sgd", "eta": 0.1}, **size)
    yield "file-ols", study(file, None, {"kind": "ols"}, **size)
    yield "file-moments", study(file, None, {**moments, "epsilon": 50.0}, **size)


def nonconvex(d, **settings):
    return {"kind": "nonconvex_logistic", "d": d, "penalty": 0.5, **settings}


def epochs(problem, algorithm, **more):
    return study(problem, None, algorithm, **{"n": 30, "points": 5, "level": 0.9, **more})


def finite_sums():
    base = {"epsilon": 4.0, "epochs": 4.0}
    tree = {"kind": "dp_nsgd", **base}
    reduced = {"kind": "dp_nsgd_reduced", **base}
    every = {
        "tree-fixed": {**tree, "order": "fixed"},
        "tree-reshuffled": {**tree, "order": "reshuffle"},
        "independent-fixed": {**tree, "noise": "independent", "order": "fixed"},
        "independent-reshuffled": {**tree, "noise": "independent", "order": "reshuffle"},
        "plain-fixed": {**tree, "noise": "none", "order": "fixed"},
        "plain-reshuffled": {**tree, "noise": "none", "order": "reshuffle"},
        "reduced-fixed": {**reduced, "order": "fixed"},
        "reduced-reshuffled": {**reduced, "order": "reshuffle"},
        "full": {"kind": "dp_gd", **base},
        "subsets": {"kind": "dp_sgd", **base, "batch_size": 6},
    }
    for name, algorithm in every.items():
        yield f"epochs-{name}", epochs(nonconvex(3), algorithm)
    for d in (5, 10, 20, 40):
        both = {"kind": ["dp_nsgd", "dp_nsgd_reduced"], "order": "fixed", **base}
        yield f"epochs-d{d}", epochs(nonconvex(d), both)
    both = {"kind": ["dp_nsgd", "dp_nsgd_reduced"], "epsilon": 8.0}
    chosen = {**both, "parameters": ["theorem", "balanced"], "order": ["fixed", "reshuffle"]}
    yield "epochs-chosen", epochs(nonconvex(3, direction="axis"), chosen, n=[24, 50])
    calibrated = {**both, "epochs": 5.0, "batch_size": 4, "calibration": ["exact", "whole_tree", "printed"]}
    yield "epochs-calibrated", epochs(nonconvex(3), calibrated)
    ten = {
        "independent": {**tree, "noise": "independent"},
        "plain": {**tree, "noise": "none"},
        "full": every["full"],
        "subsets": every["subsets"],
    }
    for name, algorithm in ten.items():
        yield f"epochs-d10-{name}", epochs(nonconvex(10), algorithm)
    others = {
        "convex": nonconvex(3, penalty=0.0),
        "sigmoid": {"kind": "sigmoid_loss", "d": 4},
        "robust": {"kind": "robust_regression", "d": 4},
    }
    for name, problem in others.items():
        yield f"epochs-{name}", epochs(problem, every["tree-fixed"])
    files = {
        "binary": {"kind": "nonconvex_logistic", "file": RECORDS["nonconvex_logistic"], "target": "y"},
        "real": {
            "kind": "robust_regression",
            "file": RECORDS["robust_regression"],
            "target": "y",
            "features": [["a", "c"]],
        },
    }
    for name, problem in files.items():
        yield f"epochs-file-{name}", epochs(problem, every["tree-reshuffled"], n=[40, 97])


# Interval methods that came after 0.1.0, with every setting that makes another formula.
ARENA = [
    *ONE_EACH,
    {"kind": "TRC", "degree": [1, 2], "variance": ["known", "residual"], "small_run": [True, False]},
    {"kind": "NOL", "block_c": [0.5, 1.0], "quantile": ["normal", "t"]},
    {"kind": "OBM", "block_c": [0.5, 1.0]},
    {"kind": "EBS", "block_rule": ["half", "third"], "block_c": [0.1, 1.0]},
    {"kind": "EBS", "block_rule": ["3n^0.75", "20"], "quantile": ["normal", "t"]},
    {"kind": "LUG", "block_rule": ["half", "n^0.75"]},
    {"kind": "LUG", "base": "BM", "weight": 0.3, "pieces": 2},
    {"kind": "BM", "quantile": "t"},
    {"kind": "SUF", "share": [0.3, 0.5], "base": ["TRC", "oracle", "NOL", "OBM"]},
    {"kind": "CHB", "B": [1, 5], "multiplier": ["uniform", "rademacher"]},
    {"kind": "ACS", "t_opt": [100, 1000], "base": ["TRC", "oracle", "BM", "TR"]},
    {"kind": "PAR", "K": [2, 4]},
    {"kind": "HULC"},
]
REGIONS = [
    {"kind": "TRC", "variance": ["known", "residual"]},
    {"kind": "joint", "base": ["TRC", "oracle"]},
    {"kind": "joint", "base": "BM", "quantile": ["chi2", "F"], "M": 7},
    {"kind": ["NOL", "EBS", "CHB", "PAR"]},
    {"kind": "OBM"},
    {"kind": "SUF", "base": "BM"},
]


def arena():
    yield "arena", study({"kind": "quantile", "tau": 0.9}, RESPONSE, SGD, method=ARENA)
    yield "arena-none", study(MEDIAN, NONE, SGD, method=ARENA)
    batches = {"kind": "minibatch_sgd", "rounds": [50, 90], "c": 2.0}
    yield "arena-rounds", study(MEDIAN, RESPONSE, batches, method=ARENA)
    for d in (2, 4):
        problem = {"kind": "quantile_regression", "coefficients": [[1.0, -1.0, 0.5, 2.0][:d]]}
        yield f"arena-d{d}", study(problem, LAPLACE, SGD, method=REGIONS)


RANGE = {"range": [-6.3, 9.7]}
ONE_SHOT = ["thresholds", "grr", "oue", "hrr", "haar", "tree"]
LIMITS = [{"kind": "inversion", "limits": ["outer", "line"]}, {"kind": "fieller"}]


def counts(protocol, **problem):
    made = study({"kind": "quantile", "tau": 0.9, **problem}, None, None, method=LIMITS, n=[300, 5000])
    del made["algorithm"]
    return made | {"protocol": {"epsilon": 1.0, **RANGE, **protocol}}


def protocols():
    budgets = {"epsilon": [0.5, 4.0]}
    yield "one-shot", counts({"kind": ONE_SHOT, "k": 16, **budgets})
    yield "rounds", counts({"kind": "rounds", "rounds": [3, 5], **budgets})
    deployed = {
        "epsilon": 1.0,
        "answer_below": 0.9,
        "answer_above": 0.6,
        "liars": 0.05,
        "liars_push": ["down", "up"],
    }
    yield "deployed", counts({"kind": ["rounds", "haar", "grr"], **deployed})
    yield "answers", counts({"kind": [*ONE_SHOT, "rounds"], "epsilon": 1.0, "answers": 3})
    rule = {"kind": ONE_SHOT, **budgets}
    for name in ("exponential", "bimodal"):
        yield f"rule-{name}", counts(rule, law=name)
    quartiles = {"kind": "quantiles", "taus": [[0.25, 0.5, 0.75]]}
    for sampling in ("data", "private_bit"):
        cells = {"kind": "cells", "epsilon": [0.5, 2.0], "sampling": sampling}
        yield f"cells-{sampling}", study(quartiles, cells, SGD, method=BOUNDED)
        batches = {"kind": "minibatch_sgd", "rounds": [7, 30], "c": 2.0}
        yield f"cells-rounds-{sampling}", study(quartiles, cells, batches, method=ONE_EACH)
    answering = {"kind": "deployed_response", "epsilon": 1.0, "answer_below": 0.8, "liars": 0.1}
    yield "deployed-sgd", study(MEDIAN, answering, SGD, method=BOUNDED)


GROUPS = {
    "scalars": scalars, "vectors": vectors, "regressions": regressions, "finite_sums": finite_sums,
    "arena": arena, "protocols": protocols,
}  # fmt: skip

FURTHER = ("arena", "protocols")
"""Groups whose methods have columns beyond those of version 0.1.0."""

FAST = {
    "quantile-response", "quantile-response-all", "quantile-response-horizons", "quantile-normal-bit",
    "minibatch-laplace", "perturbed-response", "linear-d2", "linear-d2-laplace-tr1-sn", "adaptive-d3",
    "moments-d3", "arena", "one-shot", "rounds",
}  # fmt: skip
"""Compiled cases. tests/golden/test_runs.py compiles the kernels of finite sums."""

UNCOMPILED = {
    "regression-d2-laplace", "least-squares-diverged", "cells-private_bit", "epochs-tree-reshuffled",
    "epochs-full",
}  # fmt: skip
"""Cases that also run as plain Python. Other tests compile a kernel of each of these kinds."""

THOROUGH = UNCOMPILED | {
    "quantile-response-few", "quantile-laplace-bit", "quantile-normal-bit-32", "linear-d2-budget-law",
    "logistic-clip", "least-squares-tail-clipped",
}  # fmt: skip
"""Compiled as well, with a second case of some kinds; the others are slow: long to compile, or like these."""

CASES = {group: dict(cases()) for group, cases in GROUPS.items()}
