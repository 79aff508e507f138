"""Measures against the numbers that simsum (Stata) and rsimsum (R) print for their own examples.

Their data sets are not ours to ship. What those packages print is enough all the same: from the number
of replicates, mean, empirical SE, model SE and its MCSE we make data with exactly these moments,
normal-like estimates (kurtosis 3) and standard errors that do not go with them, as the formulas of
Table 6 of Morris et al. suppose. Everything else that is printed must come out.

Sources: simsum 2.3.1 (White), log of its test script, 22 September 2025, example ``check`` (100
replicates, truth 0); rsimsum (Gasparini), README, example ``MIsim`` (1,000 replicates, truth 0.5).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.oracles.rows_in_cells import summarise
from tests.results.test_measures import rows

PRINTED = {
    "simsum": {
        "count": 100, "truth": 0.0, "mean": -0.0119478, "bias": (-0.0119478, 0.02102),
        "empirical_se": (0.2101996, 0.0149382), "mse": (0.0438848, None), "model_se": (0.2058237, 0.0014974),
        "relative_error_model_se": (-0.02081764, 0.06995112),
    },
    "rsimsum": {
        "count": 1000, "truth": 0.5, "mean": 0.5168, "bias": (0.0168, 0.0048),
        "empirical_se": (0.1511, 0.0034), "mse": (0.0231, None), "model_se": (0.1471, 0.0005),
        "relative_error_model_se": (-0.026594, 0.022049),
    },
}  # fmt: skip

# What the last printed digit of an input leaves open, carried to the output: relative to 7 digits, and
# to 4 decimals of numbers around 0.15 (0.03% each; the MCSE of model_se has one digit, and a small part
# in what follows from it).
OPEN = {"simsum": (3e-7, 3e-4), "rsimsum": (7e-5, 1e-3)}


def data_like(printed: dict) -> tuple[np.ndarray, np.ndarray]:
    """Estimates and standard errors with the printed moments, crossed, so that they do not covary."""
    count = printed["count"]
    large, small = math.sqrt(1 + math.sqrt(8)), math.sqrt((4 - math.sqrt(8)) / 4)
    pattern = np.array([large, -large, *[small, -small] * 4])
    np.testing.assert_allclose([np.mean(pattern**2), np.mean(pattern**4)], [1.0, 3.0])
    spread = printed["empirical_se"][0] * math.sqrt((count - 1) / count)
    estimate = printed["mean"] + spread * np.tile(pattern, count // 10)
    model_se, mcse = printed["model_se"]
    # MCSE of model SE: sqrt(var(se^2) / (4 R)) / model_se.
    deviation = 2 * mcse * model_se * math.sqrt(count - 1)
    sides = np.repeat(np.where(np.arange(count // 10) % 2, 1.0, -1.0), 10)
    return estimate, np.sqrt(model_se**2 + deviation * sides)


@pytest.mark.parametrize("name", PRINTED)
def test_moments_as_other_packages_print_them(name):
    printed, (digits, relative) = PRINTED[name], OPEN[name]
    estimate, se = data_like(printed)
    (found,) = summarise(rows(estimate, se, truth=printed["truth"])).to_pylist()
    for measure in ("bias", "empirical_se", "mse", "model_se", "relative_error_model_se"):
        value, mcse = printed[measure]
        # A difference of two printed numbers keeps their absolute error, not their relative one.
        tolerance = relative if measure == "relative_error_model_se" else digits
        assert found[measure] == pytest.approx(value, abs=max(tolerance, digits)), measure
        if mcse is not None:
            slack = digits
            if measure in ("relative_error_model_se", "empirical_se"):
                # They print the first-order formula, for normal estimates; ours leaves one replicate out,
                # which is larger by 2 to 3 / R of it. So is what 4 printed decimals leave open.
                slack = 3 / printed["count"] * mcse + (5e-4 if digits > 1e-6 else 0.0)
                assert found[f"{measure}_mcse"] > mcse - (5e-4 if digits > 1e-6 else 0.0)
            assert found[f"{measure}_mcse"] == pytest.approx(mcse, abs=slack), measure
