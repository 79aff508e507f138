"""Unit and neighbouring relation of a summary's rows: named where something is private, null elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from ldpflow.results.explanation import no_oracle
from ldpflow.study import Study
from tests.studies import changed


def columns(**changes: Any) -> dict[str, Any]:
    """Parameters of the first path of a study."""
    return Study.from_mapping(changed(**changes)).plans()[0].simulator.columns()


BATCHES = {"kind": "minibatch_sgd", "batch_size": 10, "noise": "batch"}
LAPLACE = {"kind": "laplace", "epsilon": 1.0}


@pytest.mark.parametrize(
    ("changes", "notion", "unit"),
    [
        ({"problem": {"kind": "quantile"}}, "eps-LDP", "record"),
        ({"mechanism": {"kind": "none"}}, "none", None),
        ({"algorithm": BATCHES, "mechanism": LAPLACE}, "eps-DP (central)", "record (replacement)"),
    ],
)
def test_every_private_row_names_the_neighbouring_relation(
    changes: dict[str, Any], notion: str, unit: str | None
) -> None:
    found = columns(**changes)
    relation = None if unit is None else "replacement of one record"
    assert (found["privacy_notion"], found["privacy_unit"], found["neighbouring"]) == (notion, unit, relation)


def test_a_missing_oracle_has_a_reason() -> None:
    study = changed(
        problem={"kind": "logistic_regression", "bounding": "clip", "clip": 0.5},
        algorithm={"kind": "ldp_sgd"},
        mechanism={"kind": "gaussian", "mu": 1.0},
        method=[{"kind": "SN"}],
    )
    assert "the curvature of logistic_regression" in no_oracle(Study.from_mapping(study).plans()[0].simulator)
