"""Explaining a run whose paths do not arrive: predicted start and step bias beside the measured bias."""

import math
import re
from dataclasses import replace

import pytest

from ldpflow.components.algorithms.minibatch_sgd import MinibatchSgd
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.components.intervals.transcript import TranscriptRegression
from ldpflow.components.intervals.variance import BatchMeans
from ldpflow.engine.run import run_study
from ldpflow.results.arrival import Arrival
from ldpflow.results.explanation import AGAINST_STEPS, PredictedBias, explain, predicted_biases
from ldpflow.results.summary import stored_paths
from ldpflow.simulators.approach import approach
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from tests.studies import changed, quantile_path


def arrival(bias, start, steps, k=60.0):
    return Arrival(k, 1.0, bias, start, steps, 1.0)


def beside(found, measured, empirical_se=1.0):
    """A prediction and a row of a summary with this bias; the oracle's standard error is 1."""
    return PredictedBias(found, {"bias": measured, "empirical_se": empirical_se})


@pytest.mark.parametrize("size", [1, 16])
def test_the_noise_of_a_path_is_that_of_one_report(size):
    """Randomised response adds e^eps / (e^eps - 1)^2 to the variance; a batch of s divides the sum by s."""
    (simulator,) = quantile_path(tau=0.9).replace(algorithm=MinibatchSgd(batch_size=size)).simulators()
    path = approach(simulator, 1600)
    noise = math.exp(1.0) / (math.exp(1.0) - 1.0) ** 2
    assert (path.records, path.steps) == (size, 1600 // size)
    assert path.noise == pytest.approx(noise) and path.variance() == pytest.approx((0.09 + noise) / size)


@pytest.mark.parametrize(
    ("found", "measured", "source"),
    [
        (arrival(-10.6, -10.6, 0.0), -10.5, "start"), (arrival(3.0, 0.5, 2.5), 2.0, "steps"),
        (arrival(3.0, 0.5, 2.5), 1.4, None), (arrival(3.0, 0.5, 2.5), 6.1, None),
        (arrival(3.0, 0.5, 2.5), -3.0, None), (arrival(0.0, 0.0, 0.0), 0.0, None),
    ],
)  # fmt: skip
def test_source_of_a_bias(found, measured, source):
    assert beside(found, measured).source() == source


def test_sentence():
    text = beside(arrival(-10.6, -10.64, 0.04, k=2.568), -10.58).sentence()
    for words in ("2.6 relaxation times", "-10.64 (start)", "+0.04 (steps)", "-10.58"):
        assert words in text
    large = beside(arrival(3.0, 0.5, 2.5), 2.0, 2.0).sentence()
    for words in ("Steps too large", "60.0 relaxation", "+0.25 (start)", "+1.25 (steps)", "measured +1.00."):
        assert words in large
    assert beside(arrival(0.05, 0.0, 0.05), 0.1).sentence() == ""


def test_advice_against_steps_that_are_too_large():
    """A spread without a bias is named where coverage has a gap, which the spread explains."""
    for bias, advice in (
        (0.6, f"Take {AGAINST_STEPS}."),
        (0.05, "1.50 times that of the oracle. Take smaller steps"),
    ):
        for sign in (1, -1):
            found = replace(arrival(sign * bias, 0.0, sign * bias), sd_ratio=1.5)
            assert advice in beside(found, sign * bias).sentence()
            assert (beside(found, sign * bias).sentence(gap=False) == "") == (bias < 0.5)


def test_a_nearer_start_is_advised_where_the_start_makes_the_bias():
    for start, steps, measured, near in ((-3.0, 0.1, -2.9, 1), (0.0, 0.0, 2.0, 0), (-3.0, 0.1, 2.0, 0)):
        text = beside(arrival(start + steps, start, steps, k=5.0), measured).sentence()
        assert "Take a larger n" in text and ("nearer to the true value" in text) == near


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    """128 replicates of normal laws with the default steps, n = 20,000: these are too small, or too large."""
    study = changed(
        seed=5, replicates=128, algorithm__gamma=0.51, mechanism__epsilon=1,
        method=[{"kind": ["oracle", "TR"]}],
        problem={"kind": "quantile", "tau": 0.9, "scale": [31.4, 0.5]},
        grid={"n": [20_000], "level": [0.9]},
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("lost")
    run_study(Study.from_mapping(study), folder, engine="serial")
    return RunStore(folder)


def test_predicted_and_measured_bias_agree(lost):
    """The measured bias has a standard error of 1/sqrt(128) SE times sd_ratio: 4 of them either way."""
    rows = lost.read_summary().to_pylist()
    found = predicted_biases(rows, stored_paths(lost.replicates, damaged="refuse"))
    assert [one is None for one in found] == [row["method"] == "TR" for row in rows]
    ((row, one),) = ((row, one) for row, one in zip(rows, found, strict=True) if one and row["scale"] == 31.4)
    slack = 4 * row["empirical_se"] / math.sqrt(128) / one.arrival.standard_error
    assert abs(one.measured - one.arrival.bias) < slack + 0.03 * abs(one.arrival.bias)
    assert one.source() == "start"


@pytest.mark.parametrize(("kind", "said"), [(None, 0), (BatchMeans, 2), (TranscriptRegression, 0)])
def test_methods_of_plugins_are_around_the_average_if_their_class_says_so(lost, monkeypatch, kind, said):
    if kind is not None:
        monkeypatch.setitem(INTERVAL_METHODS, "own", kind)
    rows = [row | {"method": "own"} for row in lost.read_summary().to_pylist() if row["method"] != "oracle"]
    found = predicted_biases(rows, stored_paths(lost.replicates, damaged="refuse"))
    assert len(found) - found.count(None) == said


def test_explain_names_a_spread_where_coverage_has_a_gap(lost, monkeypatch):
    monkeypatch.setattr(PredictedBias, "sentence", lambda self, gap: f"gap is {gap}")
    rows = explain(lost, lost.read_summary()).to_pylist()
    found = {(row["cause_class"] != "no gap beyond noise", "gap is True" in row["explanation"])
             for row in rows if "gap is" in row["explanation"]}  # fmt: skip
    assert found <= {(True, True), (False, False)} and found


def test_explain_names_start_and_steps(lost):
    summary = lost.read_summary()
    texts = explain(lost, summary)["explanation"].to_pylist()
    for row, text in zip(summary.to_pylist(), texts, strict=True):
        if row["method"] == "TR":
            assert "predicted bias of the average" not in text
        elif row["scale"] == 31.4:
            assert re.search("mainly bias of .* SE from the start:", text)
            assert "Not arrived: 1.5 relaxation times. The predicted bias" in text
        else:
            assert "Steps too large" in text and re.search("mainly bias of .* SE from the steps:", text)
