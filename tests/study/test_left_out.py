"""What a study asks for and does not get is named; a privacy budget is never assumed."""

from __future__ import annotations

import pytest

import ldpflow as lf
from ldpflow.errors import Caution, InputError
from ldpflow.run import Run
from ldpflow.study import Study
from tests.cli.conftest import ldpflow  # noqa: F401
from tests.studies import changed, small

SPLIT = [{"kind": "ldp_sgd"}, {"kind": "budget_split", "perturbations": 4}]


def test_a_method_that_makes_no_cell_is_named_with_the_reason():
    study = Study.from_mapping(changed(algorithm=SPLIT, method=[{"kind": "PB"}, {"kind": "SN"}]))
    assert study.left_out() == ["PB is left out with ldp_sgd: it takes the perturbed paths of budget_split"]
    both = Study.from_mapping(
        changed(
            problem={"kind": "quantile"},
            protocol={"kind": "thresholds", "epsilon": 1.0, "range": [-5.0, 5.0]},
            method=[{"kind": "inversion"}, {"kind": "SN"}],
            trajectory={"points": 3},
        )
    )
    assert both.left_out() == [
        "inversion is left out with ldp_sgd: it takes the histogram of a one-shot protocol, not the path of "
        "an algorithm",
        "SN is left out with thresholds: it takes the path of an algorithm, not the histogram of a one-shot "
        "protocol",
        "trajectory: none of thresholds, which makes no steps to follow",
    ]


def test_replicates_that_are_left_over_are_named():
    study = Study.from_mapping(changed(grid__level=0.9, method=[{"kind": "PAR", "K": 8}]))
    assert study.left_out() == ["PAR, level 0.9: a row is made of 8 replicates; the last 4 of 100 make none"]
    assert Study.from_mapping(changed()).left_out() == []


def test_every_way_to_a_run_says_it(ldpflow, tmp_path):  # noqa: F811
    methods = [lf.SelfNormalization(), {"kind": "PB"}]
    study = small(methods=methods, replicates=4)
    with pytest.warns(Caution, match="PB makes no interval"):
        run = lf.sweep(study, tmp_path / "run", executor="serial")
    assert isinstance(run, Run) and run.cautions[0].startswith("PB makes no interval")
    (tmp_path / "s.toml").write_text(study.to_toml())
    again = ldpflow("sweep", tmp_path / "s.toml", "--out", tmp_path / "run", "--engine", "serial")
    assert again.err.splitlines()[0].startswith("warning: PB makes no interval in this study")
    assert again.err.count("PB makes no interval") == 1
    for command in ("summary", "explain"):
        assert "PB makes no interval" in ldpflow(command, tmp_path / "run").out
    assert "PB makes no interval" in run._repr_html_()


@pytest.mark.parametrize(
    ("table", "kind", "field"),
    [
        ("mechanism", "randomized_response", "mechanism.epsilon"),
        ("mechanism", "laplace", "mechanism.epsilon"),
        ("mechanism", "gaussian", "mechanism.mu"),
        ("protocol", "thresholds", "protocol.epsilon"),
        ("algorithm", "dp_nsgd", "algorithm.epsilon"),
    ],
)
def test_a_study_says_its_privacy_budget(table, kind, field):
    mapping = changed(**{table: {"kind": kind}})
    with pytest.raises(InputError, match="is missing; expected a number") as refused:
        Study.from_mapping(mapping)
    assert refused.value.field == field


def test_what_has_no_budget_or_a_list_of_them_needs_none():
    assert lf.Gaussian.missing_settings({"budgets": ([1.0, 2.0],)}) == []
    assert lf.NoMechanism.missing_settings({}) == []
    assert Study.from_mapping(changed(mechanism={"kind": "none"})).plans()
