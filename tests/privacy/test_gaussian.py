"""Conversions of Gaussian DP against the specification's table and each other (A2), and A9."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from ldpflow.errors import InputError
from ldpflow.numerics import accounting

TABLE = {  # mu: eps at delta 1e-3, 1e-5, 1e-6, total variation
    0.5: (1.352276, 1.993091, 2.254085, 0.19741),
    1.0: (3.138671, 4.377178, 4.886554, 0.38292),
    2.0: (7.581280, 9.997256, 10.997151, 0.68269),
    3.0: (13.088179, 16.675494, 18.163446, 0.86639),
}


@pytest.mark.parametrize("mu", TABLE)
def test_table(mu):
    *epsilons, variation = TABLE[mu]
    for delta, epsilon in zip((1e-3, 1e-5, 1e-6), epsilons, strict=True):
        assert accounting.epsilon_of(delta, mu) == pytest.approx(epsilon, abs=1e-6)
        assert accounting.delta_of(accounting.epsilon_of(delta, mu), mu) == pytest.approx(delta, rel=1e-9)
        assert accounting.mu_of(accounting.epsilon_of(delta, mu), delta) == pytest.approx(mu, rel=1e-9)
    assert accounting.delta_of(0.0, mu) == pytest.approx(variation, abs=1e-5)
    assert accounting.epsilon_of(variation + 0.01, mu) == 0.0


def test_single_values():
    assert accounting.delta_of(1.0, 1.0) == pytest.approx(0.1269367375, abs=1e-10)
    for epsilon, delta, mu in ((1, 1e-5, 0.26805), (1, 1e-3, 0.38840), (3, 1e-5, 0.71912)):
        assert accounting.mu_of(epsilon, delta) == pytest.approx(mu, abs=1e-5)
    for epsilon, mu in ((0.5, 0.62389), (1, 1.23204), (2, 2.35796), (3, 3.34068)):
        assert accounting.mu_of_pure(epsilon) == pytest.approx(mu, abs=1e-5)
        assert accounting.pure_of_mu(accounting.mu_of_pure(epsilon)) == pytest.approx(epsilon, rel=1e-12)
    assert accounting.zcdp_of(2.0) == 2.0


def test_the_bridge_is_valid_and_tight():
    """min over t of f_eps(t) - G_mu(t) is 0, where f_eps is randomised response's own trade-off."""
    for epsilon in (0.3, 1.0, 4.0):
        mu = accounting.mu_of_pure(epsilon)
        t = np.linspace(1e-6, 1 - 1e-6, 20_001)
        pure = np.maximum.reduce([0 * t, 1 - np.exp(epsilon) * t, np.exp(-epsilon) * (1 - t)])
        gaussian = special.ndtr(special.ndtri(1 - t) - mu)
        assert (pure - gaussian).min() > -1e-9
        assert (pure - gaussian).min() < 1e-4


def test_bad_input_is_named():
    for call in (
        lambda: accounting.delta_of(1.0, 0.0),
        lambda: accounting.mu_of_pure(-1.0),
        lambda: accounting.pure_of_mu(float("inf")),
    ):
        with pytest.raises(InputError):
            call()
    with pytest.raises(InputError, match="delta"):
        accounting.epsilon_of(1.0, 1.0)
