"""Settings of methods that follow from a study's n, and warnings about them."""

from __future__ import annotations

import math

import pytest

from ldpflow.components.intervals.transcript import TranscriptCovariance
from ldpflow.study import Study

STUDY = {
    "name": "settings",
    "replicates": 10,
    "problem": {"kind": "quantile", "tau": 0.9},
    "mechanism": {"kind": "randomized_response", "epsilon": 1},
    "algorithm": {"kind": "ldp_sgd"},
    "grid": {"n": [300, 100, 1000]},
    "method": [{"kind": "ACS", "base": "oracle"}],
}


def test_a_sequence_is_tightest_at_the_smallest_n():
    study = Study.from_mapping(STUDY)
    assert study.settings()["method"][0]["t_opt"] == [100]
    given = STUDY | {"method": [{"kind": "ACS", "t_opt": [300, 1000]}]}
    assert Study.from_mapping(given).settings()["method"][0]["t_opt"] == [300, 1000]
    # What was filled in stays when the study is read again, whatever n it has then.
    again = Study.from_toml(study.to_toml())
    assert again == study
    assert again.replace(n=[50, 100]).settings()["method"][0]["t_opt"] == [100]


@pytest.mark.parametrize(("kind", "rule"), [("EBS", "half"), ("EBS", "3n^0.75"), ("LUG", "half")])
@pytest.mark.parametrize("n", [10**4, 10**6])
def test_batches_shorter_than_the_memory_of_a_path_are_warned_of(kind, rule, n):
    chosen = STUDY | {"grid": {"n": n}, "method": [{"kind": kind, "block_rule": rule}]}
    found = [text for text in Study.from_mapping(chosen).warnings() if text.startswith(kind)]
    # Memory n^gamma/(c G), with G the density at the .9 quantile.
    density = math.exp(-0.5 * 1.2815515655446004**2) / math.sqrt(2 * math.pi)
    memory = n**0.51 / density
    length = {"half": {10**4: 128, 10**6: 4096}, "3n^0.75": {10**4: 3000, 10**6: 94869}}[rule][n]
    assert len(found) == (length < 4 * memory)
    if found:
        assert f"{length:,} steps" in found[0] and f"about {memory:,.0f}" in found[0]


def test_trc_says_when_what_is_missing_is_bias():
    row = {"level": 0.9, "coverage": 0.82, "coverage_mcse": 0.006, "bias_effect": -0.075}
    assert any("average's bias" in text for text in TranscriptCovariance.cautions(row))
    for other in ({"bias_effect": -0.02}, {"coverage": 0.89}, {"coverage": None}):
        assert not TranscriptCovariance.cautions(row | other)
