"""Asymptotic confidence sequence, ACS: intervals that hold at every n at once, in the limit.

    rho^2 = (y - 1)/t_opt with y > 1 the root of y - ln y = 1 + 2 ln(1/alpha)
    m_t = sqrt(2 (t rho^2 + 1)/(t^2 rho^2) ln(sqrt(t rho^2 + 1)/alpha));   centre -+ sqrt(V) m_n

Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), for averaged SGD Xie, Jin, Liang and Zhang (2024).
Centre and V are those of any method with a standard error: half widths are its se times sqrt(n) m_n. The
sequence is tightest at t_opt, which has to be chosen before looking; there it is sqrt(y)/z times as long
as the interval for one n. It protects against looking early and often, and not against bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

from mpmath import mp, mpf
from pydantic import Field

from ldpflow import constants
from ldpflow.intervals.interval import Intervals, symmetric
from ldpflow.intervals.record import PathRecord
from ldpflow.intervals.shared_settings import BASE
from ldpflow.intervals.wrapped import Wrapped, base_of
from ldpflow.settings import Setting

__all__ = ["ConfidenceSequence", "mixture_variance", "width_factor"]


class ConfidenceSequence(Wrapped):
    """One interval of a sequence that is valid at every n.

    Parameters
    ----------
    t_opt : int, optional
        Users at which the sequence is tightest; fixed before looking. The smallest n of a study unless
        given.
    base : str
        The method that gives centre and standard error, whose settings may be given as well.
    """

    title: ClassVar[str] = "asymptotic confidence sequence, valid at every n (Waudby-Smith et al., 2024)"

    kind: Literal["ACS"] = "ACS"
    t_opt: (
        Annotated[
            int,
            Field(ge=1, le=10**12),
            Setting("users", "n at which a confidence sequence is tightest", logarithmic=True),
        ]
        | None
    ) = None
    base: Annotated[str, base_of("TRC", "oracle", "BM", "EBS", "NOL", "OBM", "TR"), BASE] = "TRC"

    @classmethod
    def grid_defaults(cls, users: tuple[int, ...]) -> dict[str, int]:
        return {"t_opt": users[0]}

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        if self.t_opt is None:
            raise ValueError("t_opt must be given outside a study: it has to be chosen before looking")
        base, se = self.of_base(record, n, levels)
        widths = [width_factor(n, self.t_opt, level) * se for level in levels]
        limits = symmetric(base.estimate, widths)
        return Intervals(base.estimate, base.se, *limits, base.diagnosis)


@lru_cache(maxsize=1024)
def mixture_variance(level: float) -> float:
    """rho^2 t_opt = y - 1, correctly rounded; the level is the decimal that was typed."""
    with constants.workdps(40):
        alpha = 1 - mpf(repr(level))
        return float(-mp.lambertw(-(alpha**2) / mp.e, -1).real - 1)


@lru_cache(maxsize=4096)
def width_factor(n: int, t_opt: int, level: float) -> float:
    """sqrt(n) m_n, which depends on n/t_opt and the level alone."""
    with constants.workdps(40):
        alpha = 1 - mpf(repr(level))
        y = -mp.lambertw(-(alpha**2) / mp.e, -1).real
        x = mpf(n) / t_opt * (y - 1)
        return float(mp.sqrt(2 * (x + 1) / x * mp.log(mp.sqrt(x + 1) / alpha)))
