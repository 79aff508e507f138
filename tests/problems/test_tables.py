"""Records from files: what is read, and what is refused with which words."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from ldpflow.algorithms.dp_nsgd import DpNsgd
from ldpflow.errors import InputError
from ldpflow.problems.nonconvex_logistic import NonconvexLogistic
from ldpflow.problems.robust_regression import RobustRegression
from ldpflow.simulate_erm import simulate_erm

TABLE = {"a": [3.0, 0.0, -1.0, 1e200], "b": [4, 0, 1, 0], "y": [0, 1, 1, 0]}


def written(tmp_path, table, suffix):
    file = tmp_path / f"data{suffix}"
    write = pq.write_table if suffix == ".parquet" else pa.csv.write_csv
    write(pa.table(table), file)
    return str(file)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_rows_are_scaled_to_the_bound(tmp_path, suffix):
    problem = NonconvexLogistic(file=written(tmp_path, TABLE, suffix), target="y", bound=2.0)
    x, y = problem.records
    assert problem.dimension == 2
    assert x == pytest.approx(np.array([[1.2, 1.6], [0, 0], [-(2**0.5), 2**0.5], [2, 0]]))
    assert y.tolist() == [-1, 1, 1, -1]
    assert NonconvexLogistic.model_validate(problem.key_settings()) == problem


@pytest.mark.parametrize(
    ("change", "settings", "field", "words"),
    [
        ({"y": [0, 1, 2, 0]}, {}, "problem.target", "It has 3: 0, 1, 2."),
        ({"a": [1.0, None, 2.0, 3.0]}, {}, "problem.file", "the first in record 2"),
        ({"b": ["x", "1", "2", "3"]}, {}, "problem.file", "The column 'b' holds string"),
        ({}, {"target": "z"}, "problem.target", "It has: a, b, y."),
        ({}, {"features": ("a", "c")}, "problem.features", "'c'"),
        ({}, {"sha256": "0" * 64}, "problem.file", "It has changed."),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path, change, settings, field, words):
    file = written(tmp_path, TABLE | change, ".parquet")
    with pytest.raises(InputError) as caught:
        _ = NonconvexLogistic(**{"file": file, "target": "y"} | settings).records
    assert caught.value.field == field
    assert words in str(caught.value)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        NonconvexLogistic(file=str(tmp_path / "none.csv"), target="y")
    bad = tmp_path / "bad.parquet"
    bad.write_text("no parquet")
    with pytest.raises(InputError, match="Parquet"):
        NonconvexLogistic(file=str(bad), target="y")


def test_a_run_on_a_file_says_its_privacy(tmp_path):
    rng = np.random.default_rng(0)
    table = {f"x{j}": rng.normal(size=60) for j in range(4)} | {"y": rng.normal(size=60)}
    problem = RobustRegression(file=written(tmp_path, table, ".csv"), target="y")
    algorithm = DpNsgd(epsilon=2.0, delta=1e-5, epochs=3)
    plan, rows = simulate_erm(problem, algorithm, 50, seed=0, replicates=range(3), points=4)
    assert set(rows["privacy_notion"].to_pylist()) == {"(eps, delta)-DP (central)"}
    assert set(rows["privacy_unit"].to_pylist()) == {"record (replacement)"}
    assert set(rows["epsilon"].to_pylist()) == {2.0} and set(rows["delta"].to_pylist()) == {1e-5}
    assert rows.num_rows == 3 * (5 + 1) and plan.steps == 150
    _, again = simulate_erm(problem, algorithm, 50, seed=0, replicates=[2], points=4)
    # A replicate's rows do not depend on who else is computed.
    assert again.equals(rows.slice(12, 6))
    with pytest.raises(InputError, match="at most 60"):
        simulate_erm(problem, algorithm, 61, seed=0, replicates=[0])
    with pytest.raises(InputError, match="MiB"):
        simulate_erm(RobustRegression(d=100), algorithm, 10**6, seed=0, replicates=[0])
