"""Base class of mechanisms: local randomisers of a gradient, with their privacy guarantee."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from ldpflow.columns import Column
from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.problem import Matrix, Problem
from ldpflow.errors import InputError
from ldpflow.settings import Parameters, Setting, Settings

EPSILON = Setting("nats", symbol="ε", title="privacy budget", logarithmic=True, asked=True)
CLIPPED = Column(
    "clipped", "double", "share", "share of clipped gradients since the previous checkpoint", running=True
)
THRESHOLD = Column("threshold", "double", "unit of the gradient", "clipping threshold in use")
MU = Setting(symbol="μ", asked=True)
DELTA = Setting(symbol="δ")


@dataclass(frozen=True)
class PrivacyStatement:
    """Privacy guarantee of a mechanism or a transcript.

    Parameters
    ----------
    notion : str
        ``eps-LDP``, ``eps-DP (central)``, ... or ``none``.
    unit : str
        The change that the guarantee hides: the replacement of one record. A record is all that one user
        contributes. Central notions have ``record (replacement)``.
    epsilon, mu, delta : float, optional
        Parameters of the notion. They are for the reports of a user who answers.
    reports : int >= 1
        Reports of a record, which share epsilon equally.
    answer_rates : pair of floats in [0, 1]
        Probabilities that a user answers, for a value up to the quantile that the study estimates, and for
        a value above it. If the two differ, a missing answer reveals something that epsilon does not count.

    Raises
    ------
    InputError
        If the notion names a missing parameter, or a value is impossible.
    """

    notion: str
    unit: str = "record"
    epsilon: float | None = None
    mu: float | None = None
    delta: float | None = None
    reports: int = 1
    answer_rates: tuple[float, float] = (1.0, 1.0)

    def __post_init__(self) -> None:
        for word, name in (("eps", "epsilon"), ("mu", "mu"), ("delta", "delta")):
            if re.search(rf"\b{word}\b", self.notion) and getattr(self, name) is None:
                hint = f'Write: PrivacyStatement("{self.notion}", {name}=...).'
                raise InputError("privacy_notion", self.notion, "a notion with its parameters", hint)
        pure = self.epsilon is not None and self.mu is None and not self.delta
        if self.reports < 1 or (self.reports > 1 and not pure):
            raise InputError("reports", self.reports, "1, or a whole number of reports that share epsilon")
        rates = self.answer_rates
        if not all(0 <= rate <= 1 for rate in rates) or (rates != (1.0, 1.0) and not pure):
            allowed = "(1, 1), or two numbers in [0, 1] where epsilon is the only parameter"
            raise InputError("answer_rates", rates, allowed)


class Mechanism(Settings):
    """A local randomiser A of a gradient g. E[A(g) | g] = g without clipping, liars and drop-out.

    The module of a mechanism also has the kernel function ``randomise(g, noise, at, lane, mechanism,
    counts)``. It replaces g by A(g) (see ldpflow.simulators.one_pass).
    """

    group: ClassVar[str] = "mechanism"

    measures: ClassVar[tuple[Column, ...]] = ()
    """Columns that ``randomise`` counts. ``counts[k * LANES + lane]`` has the count of column k."""

    def unsuitable(self, problem: Problem) -> str | None:
        """Why the mechanism cannot randomise the gradient of the problem. None if it can."""
        return None

    def replaces_data(self) -> bool:
        """Whether reports are drawn from their law given theta, without records.

        If so, the kernel calls ``bit_probability`` of the problem in place of ``gradient``, and
        ``randomise_probability`` of the mechanism in place of ``randomise``.
        """
        return False

    def reads_bit(self) -> bool:
        """Whether ``randomise`` reads only the sign of a gradient, which ``gradient_bit`` computes."""
        return False

    @abstractmethod
    def variates(self, problem: Problem) -> tuple[Variate, ...]:
        """Standard variates with which one gradient is randomised.

        The kernel's array ``noise`` has a part, called plane, for each variate, in this order.
        """

    @abstractmethod
    def kernel_parameters(self, problem: Problem) -> Parameters:
        """Numbers that ``randomise`` reads by name from its argument ``mechanism``."""

    @abstractmethod
    def noise_covariance(self, problem: Problem) -> Matrix:
        """S_LDP, the d x d covariance of A(g) given g."""

    @abstractmethod
    def privacy(self) -> PrivacyStatement:
        """The guarantee for one record that is used once."""
