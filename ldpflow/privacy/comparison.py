"""Mechanisms side by side at equal mu: never at equal letters."""

from __future__ import annotations

from typing import Any

from ldpflow import constants
from ldpflow.mechanisms import MECHANISMS
from ldpflow.privacy.gaussian import pure_of_mu
from ldpflow.problems import Problem


def at_equal_mu(problem: Problem, mu: float) -> list[dict[str, Any]]:
    """Every mechanism that suits the problem, with the budget that makes it mu-GDP.

    Parameters
    ----------
    problem : Problem
    mu : float > 0
        eps-DP mechanisms get eps = log(Phi(mu/2)/Phi(-mu/2)), the largest that implies mu-GDP.

    Returns
    -------
    list of dict
        mechanism; privacy_notion of its own; epsilon (None for Gaussian); mu; noise_variance, the
        privacy noise added to the first coordinate of one gradient, in its units squared;
        asymptotic_variance, the first diagonal entry of G^-1 (S + S_noise) G^-1 (per step of LDP-SGD).
    """
    rows = []
    epsilon = pure_of_mu(mu)
    for kind in ("gaussian", "laplace", "randomized_response"):
        settings: dict[str, Any] = {"mu": mu} if kind == "gaussian" else {"epsilon": epsilon}
        mechanism = MECHANISMS[kind](**settings)
        if mechanism.unsuitable(problem) is not None:
            continue
        noise = mechanism.noise_covariance(problem)
        score = problem.gradient_covariance()
        inverse = constants.inverse(problem.curvature())
        d = problem.dimension
        sigma = sum(
            inverse[0][i] * (score[i][j] + noise[i][j]) * inverse[0][j] for i in range(d) for j in range(d)
        )
        rows.append(
            {
                "mechanism": kind,
                "privacy_notion": mechanism.privacy().notion,
                "epsilon": settings.get("epsilon"),
                "mu": mu,
                "noise_variance": noise[0][0],
                "asymptotic_variance": sigma,
            }
        )
    return rows
