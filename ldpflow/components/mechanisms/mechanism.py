"""Base class of mechanisms: local randomisers of a gradient, with their privacy guarantee."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from ldpflow.columns import Column
from ldpflow.components.problems import Problem
from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.problem import Matrix
from ldpflow.errors import InputError
from ldpflow.settings import Parameters, Setting, Settings

EPSILON = Setting("nats", symbol="ε", title="privacy budget", logarithmic=True, asked=True)
CLIPPED = Column(
    "clipped", "double", "share", "share of clipped gradients since the checkpoint before", running=True
)
THRESHOLD = Column("threshold", "double", "unit of the gradient", "clipping threshold in use")
MU = Setting(symbol="μ", asked=True)
DELTA = Setting(symbol="δ")


@dataclass(frozen=True)
class PrivacyStatement:
    """Privacy guarantee of a mechanism or transcript.

    Parameters
    ----------
    notion : str
        ``eps-LDP``, ``eps-DP (central)``, ... or ``none``.
    unit : str
        Whose change is hidden: one record, which is one user's whole contribution. In all notions here
        neighbouring inputs differ by the replacement of one record; central ones say so in the unit.
    epsilon, mu, delta : float or None
        Parameters of the notion; None where it has none. They are about what a user sends who answers.
    reports : int >= 1
        Reports of a record that share epsilon equally.
    answer_rates : pair of floats in [0, 1]
        Probabilities that a user answers whose value lies below or above a point. Where they differ, no
        answer says something about the value too, which epsilon does not count.

    Raises
    ------
    InputError
        If the notion names a parameter that is not given, or what is given is impossible.
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
                raise InputError(
                    "privacy_notion", self.notion, "a notion with its parameters",
                    f'Write: PrivacyStatement("{self.notion}", {name}=...).',
                )  # fmt: skip
        pure = self.epsilon is not None and self.mu is None and not self.delta
        if self.reports < 1 or (self.reports > 1 and not pure):
            raise InputError("reports", self.reports, "1, or a whole number of reports that share epsilon")
        if not all(0 <= rate <= 1 for rate in self.answer_rates):
            raise InputError("answer_rates", self.answer_rates, "two numbers in [0, 1]")
        if self.answer_rates != (1.0, 1.0) and not pure:
            raise InputError(
                "answer_rates", self.answer_rates, "(1, 1), or a notion whose parameter is epsilon"
            )


class Mechanism(Settings):
    """A randomiser A with E[A(g) | X] = g.

    The module that defines a mechanism also holds its kernel function ``randomise(g, noise, at, lane,
    mechanism, counts)``, which changes g in place (see ldpflow.simulators.one_pass_kernel).
    """

    group: ClassVar[str] = "mechanism"

    cites: ClassVar[tuple[str, ...]] = ()
    """Papers that it follows, by their keys in ldpflow/results/references.bib, or whole BibTeX entries."""

    measures: ClassVar[tuple[Column, ...]] = ()
    """Columns that ``randomise`` counts: the k-th in ``counts[k * LANES + lane]``."""

    def unsuitable(self, problem: Problem) -> str | None:
        """Reason why this mechanism cannot be applied to the problem's gradient, or None."""
        return None

    def replaces_data(self) -> bool:
        """Whether what the algorithm sees is drawn directly, given theta, and no record is.

        Then the problem's ``bit_probability`` stands in for its gradient, and this module's
        ``randomise_probability`` for its ``randomise``.
        """
        return False

    def reads_bit(self) -> bool:
        """Whether all that ``randomise`` reads of a gradient is whether it is positive.

        Then a problem's ``gradient_bit``, where it has one, stands in for its ``gradient``: the
        comparison with theta need not pass through the gradient's values on its way to the report.
        """
        return False

    @abstractmethod
    def variates(self, problem: Problem) -> tuple[Variate, ...]:
        """Standard variates that one application takes, in the order of their planes."""

    @abstractmethod
    def kernel_parameters(self, problem: Problem) -> Parameters:
        """Numbers that ``randomise`` reads by name from its argument ``mechanism``."""

    @abstractmethod
    def noise_covariance(self, problem: Problem) -> Matrix:
        """S_LDP, the covariance of A(g) given g, d x d."""

    @abstractmethod
    def privacy(self) -> PrivacyStatement:
        """The guarantee for one record, each record being used once."""
