"""Predictions against the paper's number, their own inverse and a simulation."""

from __future__ import annotations

import math

import pytest

from ldpflow.errors import InputError
from ldpflow.practice.planning import check_predictions
from ldpflow.practice.planning.rows import Goal, completed, study_rows
from ldpflow.study import Study
from tests.studies import changed


def predict(study, length=None):
    """Rows of the plan of a study."""
    return completed(study_rows(study), Goal(None if length is None else length / 2))


def study(**paths):
    return Study.from_mapping(changed(grid={"n": [1e6], "level": 0.9}, **paths))


def test_the_papers_oracle_length():
    rows = predict(study())
    (row,) = (r for r in rows if r.settings["tau"] == 0.5 and r.settings["epsilon"] == 1.0)
    assert 2 * row.half_width == pytest.approx(0.008922, abs=5e-7)
    assert row.standard_error == pytest.approx(2.7121e-3, abs=5e-8)
    assert row.n_needed is None and row.epsilon_needed is None


def length_at(n, epsilon, tau=0.5, **paths):
    (row,) = predict(
        study(
            problem={"kind": "quantile", "tau": tau},
            mechanism={"kind": "randomized_response", "epsilon": epsilon},
            **paths,
        ).replace({"n": n})
    )
    return 2 * row.half_width


def test_n_and_epsilon_for_a_length_are_the_smallest():
    for row in predict(study(), 0.01):
        tau, epsilon = row.settings["tau"], row.settings["epsilon"]
        assert row.n_needed is not None and row.epsilon_needed is not None
        assert length_at(row.n_needed, epsilon, tau) <= 0.01 < length_at(row.n_needed - 1, epsilon, tau)
        assert length_at(10**6, row.epsilon_needed, tau) <= 0.01
        assert length_at(10**6, row.epsilon_needed * 0.99, tau) > 0.01


def test_users_of_mini_batches():
    minibatch = {"kind": "minibatch_sgd", "batch_size": 10}
    (row, *_) = predict(study(algorithm=minibatch), 0.01)
    assert row.n_needed is not None and row.n_needed % 10 == 0


def test_no_budget_is_enough_or_there_is_none():
    assert predict(study(), 1e-6)[0].epsilon_needed == math.inf
    assert predict(study(mechanism={"kind": "none"}), 0.01)[0].epsilon_needed is None


@pytest.mark.parametrize("length", [0.0, -1.0, math.nan, math.inf])
def test_refused(length):
    with pytest.raises(InputError, match="half_width"):
        predict(study(), length)


def test_prediction_against_simulation():
    """A well-behaved case; each comparison fails with probability 6e-5 if all is well."""
    mapping = changed(
        problem={"kind": "quantile", "tau": 0.5},
        mechanism={"kind": "randomized_response", "epsilon": 3},
        grid={"n": 2e4, "level": 0.9},
        method=[{"kind": "SN"}],
        replicates=256,
    )
    rows = check_predictions(Study.from_mapping(mapping).replace(seed=3))
    assert [row["method"] for row in rows] == ["SN", "oracle"]
    for row in rows:
        assert abs(row["empirical_se"] - row["predicted_se"]) < 4 * row["empirical_se_mcse"]
    assert rows[1]["length_mean"] == pytest.approx(rows[1]["predicted_length"], rel=1e-12)
