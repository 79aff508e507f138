"""Lower bounds of a privacy parameter from how often an event happens on two neighbouring inputs.

If an event has probability p on one input and q on a neighbour, then

    eps-DP            =>  p <= e^eps q
    (eps, delta)-DP   =>  p <= e^eps q + delta
    mu-GDP            =>  Phi^-1(p) - Phi^-1(q) <= mu

so that every event gives a lower bound of the parameter. p and q are replaced by one-sided
Clopper-Pearson limits, each at half of what confidence leaves over: the bound then exceeds the true
parameter with probability 1 - confidence at most, whatever the mechanism (Jagielski, Ullman and Oprea,
2020, Auditing differentially private machine learning; for GDP Nasr and others, 2023, Tight auditing of
differentially private machine learning).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ldpflow.errors import InputError
from ldpflow.mechanisms import PrivacyStatement

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Claim:
    """A privacy parameter that is claimed, and the notion it belongs to.

    Parameters
    ----------
    notion : str
        ``pure`` (eps-DP), ``approximate`` ((eps, delta)-DP) or ``gaussian`` (mu-GDP).
    value : float
        epsilon or mu.
    delta : float
        0 but for ``approximate``.
    """

    notion: Literal["pure", "approximate", "gaussian"]
    value: float
    delta: float = 0.0

    @property
    def parameter(self) -> str:
        """``epsilon`` or ``mu``."""
        return "mu" if self.notion == "gaussian" else "epsilon"


def claim_of(statement: PrivacyStatement) -> Claim:
    """The claim that a privacy statement makes.

    Raises
    ------
    InputError
        If it claims nothing that a test could contradict.
    """
    if statement.notion != "none":
        if statement.mu is not None:
            return Claim("gaussian", statement.mu)
        if statement.epsilon is not None and statement.delta:
            return Claim("approximate", statement.epsilon, statement.delta)
        if statement.epsilon is not None:
            return Claim("pure", statement.epsilon)
    raise InputError("privacy_notion", statement.notion, "a notion with epsilon or mu")


@dataclass(frozen=True)
class Counts:
    """Counts of an event, or of each of several, on two neighbouring inputs.

    Parameters
    ----------
    first, second : int or ndarray of int
        Outputs on either input for which the event happened.
    of_first, of_second : int
        Outputs on either input.
    """

    first: Any
    of_first: int
    second: Any
    of_second: int


def lower_limit(count: Any, trials: int, error: float) -> Floats:
    """One-sided Clopper-Pearson limit: below the probability but for a share ``error`` of samples."""
    from scipy import special

    count = np.asarray(count, dtype=np.float64)
    safe = np.maximum(count, 1.0)
    return np.where(count > 0, special.betaincinv(safe, trials - safe + 1.0, error), 0.0)


def upper_limit(count: Any, trials: int, error: float) -> Floats:
    """One-sided Clopper-Pearson limit: above the probability but for a share ``error`` of samples."""
    return 1.0 - lower_limit(trials - np.asarray(count, dtype=np.float64), trials, error)


def lower_bounds(counts: Counts, claim: Claim, confidence: float) -> Floats:
    """Lower bounds of the true parameter, each wrong with probability 1 - confidence at most.

    The events must have been chosen without looking at these outputs. The claim's notion (and delta) is
    used, not its value; -inf where an event gives no bound.
    """
    from scipy import special

    error = (1.0 - confidence) / 2.0
    p = lower_limit(counts.first, counts.of_first, error)
    q = upper_limit(counts.second, counts.of_second, error)
    with np.errstate(divide="ignore", invalid="ignore"):
        if claim.notion == "gaussian":
            bound = special.ndtri(p) - special.ndtri(q)
        else:
            bound = np.log(p - claim.delta) - np.log(q)
    return np.where(np.isnan(bound), -math.inf, bound)


def lower_bound(counts: Counts, claim: Claim, confidence: float) -> float:
    """The bound from one event, at least 0: no parameter is negative."""
    return max(0.0, float(lower_bounds(counts, claim, confidence)))
