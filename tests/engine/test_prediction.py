"""The prediction of a dry run: its shape, and (slow) how near it comes."""

from __future__ import annotations

import time

import pytest

from ldpflow.engine.prediction import predict
from ldpflow.engine.run import run_study
from ldpflow.study import load_study


def test_cost_scales_with_replicates_and_cores(monkeypatch):
    monkeypatch.setattr("ldpflow.engine.prediction.CALIBRATION_SECONDS", 0.2)
    plans = load_study("quickstart").replace({"n": [2000]}).plans()
    small = predict(plans, 64, 1, "serial")
    large = predict(plans, 640, 1, "serial")
    assert large.steps == 10 * small.steps == 10 * 3 * 64 * 2000
    # The same calibration twice, on a machine that may be busy.
    assert 2.0 < large.kernel_seconds / small.kernel_seconds < 50.0
    assert len(small.nanoseconds) == 3
    assert predict(plans, 640, 2, "ray").wall_seconds > 6.0


@pytest.mark.slow
def test_prediction_within_a_factor_of_one_and_a_half(tmp_path):
    study = load_study("quickstart").replace({"replicates": 1000})
    run_study(study.replace({"replicates": 32}), tmp_path / "warm", engine="serial")
    ratios = []
    for attempt in range(3):
        expected = predict(study.plans(), 1000, 1, "serial").wall_seconds
        # CPU time, which is the wall time of an idle machine: this one may have other work.
        started = time.process_time()
        run_study(study, tmp_path / str(attempt), engine="serial")
        ratios.append((time.process_time() - started) / expected)
    assert 1 / 1.5 < sorted(ratios)[1] < 1.5
