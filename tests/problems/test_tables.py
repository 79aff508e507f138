"""Records from files: what is read, and what is refused with which words."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from ldpflow.components.problems.nonconvex_logistic import NonconvexLogistic
from ldpflow.errors import InputError
from ldpflow.study import Study

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
    again = NonconvexLogistic.model_validate(problem.key_settings())
    assert again == problem and hash(again) == hash(problem)
    # What a problem keeps of its file is no setting: equal before it is read, and after.
    assert again.records[1].tolist() == y.tolist()
    assert again == problem and hash(again) == hash(problem)
    assert problem != NonconvexLogistic(**problem.key_settings() | {"bound": 3.0})


@pytest.mark.parametrize(
    ("change", "settings", "field", "words"),
    [
        ({"y": [0, 1, 2, 0]}, {}, "problem.target", "It has 3."),
        ({"a": [1.0, None, 2.0, 3.0]}, {}, "problem.file", "the first in record 2"),
        ({"b": ["x", "1", "2", "3"]}, {}, "problem.file", "'b' has text that is no number, in record 1."),
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


def test_a_study_of_a_file_has_at_most_its_records(tmp_path):
    problem = {"kind": "robust_regression", "file": written(tmp_path, TABLE, ".csv"), "target": "y"}
    algorithm = {"kind": "dp_nsgd", "epsilon": 2.0, "epochs": 3.0}
    study = {"name": "file", "problem": problem, "algorithm": algorithm, "trajectory": {"points": 4}}
    assert Study.from_mapping(study | {"grid": {"n": 4}}).plans()
    with pytest.raises(InputError, match="at most 4, the records of"):
        Study.from_mapping(study | {"grid": {"n": 5}})
    synthetic = {"kind": "robust_regression", "d": 100}
    with pytest.raises(InputError, match="MiB"):
        Study.from_mapping(study | {"problem": synthetic, "grid": {"n": 10**6}})
