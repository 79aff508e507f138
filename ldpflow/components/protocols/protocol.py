"""Base classes of protocols for quantiles.

F is the distribution function of the values of the users, and F^ its unbiased estimate.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ldpflow.components.mechanisms.mechanism import EPSILON, PrivacyStatement
from ldpflow.numerics import Deferred, constants
from ldpflow.settings import Setting, Settings

Array = NDArray[np.float64]

BIN_COUNTS = (4, 8, 16, 32, 64, 128, 256, 512)
MOST_BINS = 1024
FAN_OUT = 4  # children of a node of ``tree``


class Budget(NamedTuple):
    """Epsilon of one answer, and functions of this epsilon that formulas and kernels read."""

    epsilon: float
    odds: float  # e^eps
    excess: float  # e^eps - 1
    keep: float  # p = e^eps/(1 + e^eps), the probability of the true answer in randomised response
    flip: float  # 1 - p
    gap: float  # 2p - 1 = tanh(eps/2)
    inflation: float  # c = 1/(2p - 1)
    noise: float  # v = c^2 - 1 = 4 e^eps/(e^eps - 1)^2
    answers: float  # a, the number of answers of every user to one question

    def bit_variance(self, share: float) -> float:
        """S = F(1 - F) + v/(4a), the variance per user of a debiased bit that is 1 with probability F."""
        return share * (1.0 - share) + 0.25 * self.noise / self.answers


@lru_cache(maxsize=4096)
def budget(epsilon: float, answers: int = 1) -> Budget:
    """Constants of one answer, if ``answers`` answers share the budget epsilon > 0 evenly."""
    with constants.workdps(constants.DIGITS):
        eps = mpf(epsilon) / answers
        half = mp.tanh(eps / 2)
        return Budget(
            epsilon=float(eps),
            odds=float(mp.exp(eps)),
            excess=float(mp.expm1(eps)),
            keep=float(1 / (1 + mp.exp(-eps))),
            flip=float(1 / (1 + mp.exp(eps))),
            gap=float(half),
            inflation=float(1 / half),
            noise=float(1 / mp.sinh(eps / 2) ** 2),
            answers=float(answers),
        )


class Protocol(Settings):
    """A protocol for quantiles of a law on a public range. A user answers one question under eps-LDP.

    Parameters
    ----------
    epsilon : float in [1e-6, 30]
        Budget of one user.
    range : (float, float)
        Public range [L, U]. A value outside is replaced by the nearer end.
    answer_below : float in (0, 1]
        Probability that a user with a value at most the quantile answers.
    answer_above : float in (0, 1]
        Probability that a user with a value above the quantile answers. If it differs from ``answer_below``,
        the quantile of the responders is estimated, which differs from that of the population.
    liars : float in [0, 1)
        Share of the responders whose report does not depend on their value.
    liars_push : str
        ``down`` or ``up``: the direction in which liars move the estimated quantile, as far as a report can.
    answers : int in [1, 64]
        Number of independent answers of a user to one question, each with epsilon/answers. One answer gives
        the smallest variance.
    """

    group: ClassVar[str] = "protocol"
    example: ClassVar = {"range": (-4.0, 4.0)}

    family: ClassVar[str] = "counts"
    """Name of the simulator class that runs the protocol."""

    carries_privacy: ClassVar[bool] = True

    epsilon: Annotated[float, Field(ge=1e-6, le=30), EPSILON] = 1.0
    range: tuple[float, float]
    answer_below: Annotated[float, Field(gt=0, le=1), Setting("share")] = 1.0
    answer_above: Annotated[float, Field(gt=0, le=1), Setting("share")] = 1.0
    liars: Annotated[float, Field(ge=0, lt=1), Setting("share")] = 0.0
    liars_push: Literal["down", "up"] = "down"
    answers: Annotated[int, Field(ge=1, le=64)] = 1

    @model_validator(mode="after")
    def check_range(self) -> Self:
        if not self.range[0] < self.range[1]:
            raise ValueError("range = [L, U] needs L < U")
        return self

    def budget(self) -> Budget:
        return budget(self.epsilon, self.answers)

    def privacy(self) -> PrivacyStatement:
        """Guarantee of all answers of a user together."""
        return PrivacyStatement("eps-LDP", epsilon=self.epsilon)

    @abstractmethod
    def interaction_rounds(self) -> int:
        """Number of rounds. Questions of a round may depend on the answers of earlier rounds."""

    def least_users(self) -> int:
        """Fewest users of a run."""
        return 1

    def bits(self, n: int) -> float:
        """Bits that each of n users sends."""
        return float(self.answers)

    def responders(self, cdf: Array, tau: float) -> Array:
        """Distribution function of the responders' values, from that of the population."""
        if self.answer_below == self.answer_above:
            return cdf
        below = self.answer_below * np.minimum(cdf, tau)
        above = self.answer_above * np.maximum(cdf - tau, 0.0)
        return (below + above) / self.answer_probability(tau)

    def answer_probability(self, tau: float) -> float:
        if self.answer_below == self.answer_above:
            return self.answer_below
        return self.answer_below * tau + self.answer_above * (1.0 - tau)


class OneShot(Protocol):
    """Protocol of one round: no question depends on an answer, and F^ is linear in the counts.

    Parameters
    ----------
    k : int, optional
        Number of bins. The default is chosen by a rule from n, epsilon, the range and ``scale_guess``.
    scale_guess : float > 0, optional
        Public guess of the scale of the law, by default (U - L)/16. Only the default number of bins depends
        on it.
    """

    k: Annotated[int, Field(ge=4, le=MOST_BINS)] | None = None
    scale_guess: Annotated[float, Field(gt=0)] | None = None

    bin_base: ClassVar[int] = 1
    """The number of bins must be a power of this number. 1 allows every number."""

    public_coin: ClassVar[bool] = True
    """Whether a public coin draws a question for every user."""

    signs: ClassVar[bool] = False
    """Whether reports 1 and 0 are counted as signs +1 and -1."""

    draw: ClassVar[Deferred]
    fold: ClassVar[Deferred]
    spread: ClassVar[Deferred]
    """``draw_NAME``, ``fold_NAME`` and ``spread_NAME`` of ldpflow.components.protocols.histogram_counts."""

    @model_validator(mode="after")
    def check_bins(self) -> Self:
        if self.k is not None and not is_power(self.k, self.bin_base):
            raise ValueError(f"k must be a power of {self.bin_base} for {self.kind}")
        return self

    def interaction_rounds(self) -> int:
        return 1

    def bins(self, n: int) -> int:
        """Number of bins for n users: the setting k, or the number that the rule chooses.

        The rule minimises w^4/(64 s^2) + 2 pi s^2 V_k/n over the powers of two from 4 to 512 that are powers
        of ``bin_base``. For a law of scale s the first term is the square of the worst bias inside a bin of
        width w. The second is the variance of an estimated median, with V_k of :meth:`middle_variance`.
        """
        if self.k is not None:
            return self.k
        low, high = self.range
        s = (high - low) / 16.0 if self.scale_guess is None else self.scale_guess

        def loss(k: int) -> float:
            width = (high - low) / k
            bias = width * width * width * width / (64.0 * s * s)
            return bias + 2.0 * math.pi * s * s * self.middle_variance(k) / n

        return min((k for k in BIN_COUNTS if is_power(k, self.bin_base)), key=loss)

    def reports(self, k: int) -> int:
        """Number of possible reports, if a report is a number."""
        return 2

    def widths(self, k: int) -> tuple[int, ...]:
        """Number of bits of a report, for each question. Empty if a report is a number."""
        return ()

    def questions(self, k: int) -> int:
        """Number of counts of a collection: bits of all questions, or k - 1 if a report is a number."""
        return sum(self.widths(k)) or k - 1

    def bits(self, n: int) -> float:
        """Mean number of bits that each of n users sends."""
        k = self.bins(n)
        if widths := self.widths(k):
            return self.answers * sum(widths) / len(widths)
        return self.answers * math.log2(self.reports(k))

    def edges(self, k: int) -> Array:
        """t_m = L + (U - L) m/k, m = 0..k."""
        low, high = self.range
        return low + (high - low) * np.arange(k + 1) / k

    def middle_variance(self, k: int) -> float:
        """n Var F^ at the middle edge, if values are uniform on the range.

        The default is for k - 1 questions with one bit for an answer.
        """
        return (k - 1) * self.budget().bit_variance(0.5)

    @abstractmethod
    def design(self, cdf: Array, target: int) -> Any:
        """Numbers that the kernel functions ``draw`` and ``spread`` read.

        ``cdf``, shape (k + 1,), is the distribution function of the responders at the edges. ``target`` is
        the number (1..k-1) of the inner edge at which liars change F^ most.
        """

    def raises_cdf(self) -> bool:
        """Whether liars raise F^, which lowers the quantile."""
        return self.liars_push == "down"


def is_power(value: int, base: int) -> bool:
    """Whether a number of bins is a power of the base. Base 1 allows every number."""
    return base == 1 or value in [base**exponent for exponent in range(11)]
