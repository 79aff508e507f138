"""Unit and neighbouring relation of a summary's rows: named where something is private, null elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from ldpflow.results.explanation import without_oracle
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
    given = {"problem": {"kind": "logistic_regression"}, "algorithm": {"kind": "ldp_sgd"}}
    cells: dict[str, Any] = {"mechanism": {"kind": "gaussian", "mu": 1.0}, "method": [{"kind": "SN"}]}
    known = Study.from_mapping(changed(**given, **cells)).plans()[0].simulator
    assert without_oracle(known) == []
    clipped = given | {"problem": {"kind": "logistic_regression", "bounding": "clip", "clip": 0.5}}
    (sentence,) = without_oracle(Study.from_mapping(changed(**clipped, **cells)).plans()[0].simulator)
    assert "the curvature of logistic_regression" in sentence
