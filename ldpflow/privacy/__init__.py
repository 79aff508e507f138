"""Privacy accounting: what a guarantee means in another notion, and what several make together."""

from ldpflow.privacy.comparison import at_equal_mu
from ldpflow.privacy.gaussian import (
    composed,
    delta_of,
    epsilon_of,
    mu_of,
    mu_of_pure,
    pure_of_mu,
    trade_off,
    transcript,
    zcdp_of,
)

__all__ = [
    "at_equal_mu",
    "composed",
    "delta_of",
    "epsilon_of",
    "mu_of",
    "mu_of_pure",
    "pure_of_mu",
    "trade_off",
    "transcript",
    "zcdp_of",
]
