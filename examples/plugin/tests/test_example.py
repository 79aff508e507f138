"""Compare the example's components with literal computations, and sweep all of them on Ray."""

import math
from pathlib import Path

import ldpflow_example as example
import numpy as np
from scipy.stats import t as student

import ldpflow as lf
from ldpflow.testing import draws

STUDY = Path(__file__).parents[1] / "study.toml"  # the study lies beside the folder of tests


def literal_path(simulator, count):
    """All iterates of replicate 3, computed from the formulas."""
    drawn = draws(simulator, seed=7, replicate=3, count=count)
    theta, path = 0.0, []
    epsilon, answers = simulator.mechanism.epsilon, simulator.mechanism.answers
    for i, (x, laplace) in enumerate(zip(drawn.data[:, 0], drawn.noise, strict=True), 1):
        if simulator.problem.kind == "capped_mean":
            g, sensitivity = theta - min(x, 2.0), 2.0
        else:
            g, sensitivity = (0.5 if x <= theta else -0.5), 1.0
        g += np.mean(laplace) * sensitivity * answers / epsilon
        theta -= (i + 10.0) ** -0.51 * g
        path.append(theta)
    return np.array(path)


def test_paths_and_intervals_are_the_literal_ones():
    study = lf.Study.load(str(STUDY)).replace(n=[500])
    method = example.LateBatches(skipped=0.2, batches=16)
    for simulator in study.simulators():
        path = literal_path(simulator, 500)
        record = lf.simulate(simulator, seed=7, replicates=[3], n=[500], methods=[method])
        found = method.intervals(record, 500, [0.9])
        means = path[100:].reshape(16, 25).mean(axis=1)
        assert abs(found.estimate[0, 0] - means.mean()) < 1e-12
        half = student.ppf(0.95, 15) * means.std(ddof=1) / 4.0
        assert abs(found.upper[0, 0, 0] - means.mean() - half) < 1e-12
        drift = (means[-1] - means[0]) / (math.sqrt(2.0) * means.std(ddof=1))
        assert abs(found.diagnosis["drift"][0, 0] - drift) < 1e-9


def test_true_values():
    assert abs(example.CappedMean(cap=2.0).truth()[0] - (1 - math.exp(-2.0))) < 1e-15
    median = lf.Quantile(tau=0.5, law="triangular", shape=0.3).truth()[0]
    assert abs(median - (1 - math.sqrt(0.5 * 0.7))) < 1e-15


def test_a_sweep_on_ray_gives_the_rows_of_a_serial_one(tmp_path):
    study = lf.Study.load(str(STUDY)).replace(n=[1e3], replicates=100)
    run = lf.sweep(study, tmp_path / "ray", executor="ray", num_cpus=2)
    serial = lf.sweep(study, tmp_path / "serial", executor="serial")
    summary = run.summary()
    assert summary.equals(serial.summary())
    assert set(summary["problem"].to_pylist()) == {"capped_mean", "quantile"}
    assert set(summary["algorithm"].to_pylist()) == {"shifted_sgd"}
    late = run.summary(where="method == 'late_batches'")
    assert np.isfinite(late["drift_median"].to_pylist()).all()
    # At a true coverage of 0.9 and 100 replicates, 0.6 is ten standard errors away.
    assert min(run.summary(where="method == 'oracle' and epsilon == 4")["coverage"].to_pylist()) > 0.6
