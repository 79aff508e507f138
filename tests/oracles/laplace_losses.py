"""Privacy losses of Laplace noise, by quadrature.

Noise of scale 1 on values that lie ``shift`` apart has the loss clip(shift - 2x, -shift, shift) with x from
the noise: an atom at either end and a density between them.
"""

import math

from scipy import integrate


def delta_of_one(shift, at):
    """The least delta at which one report is (at, delta)-DP."""
    if at >= shift:
        return 0.0
    if at <= -shift:
        return -math.expm1(at)
    return -math.expm1((at - shift) / 2.0)


def delta(shifts, at):
    """The least delta of several reports together: the mean over the first one's loss."""
    first, *rest = shifts
    if not rest:
        return delta_of_one(first, at)
    kinks = [at - rest[0], at + rest[0]] if len(rest) == 1 else []

    def term(loss):
        return 0.25 * math.exp((loss - first) / 2.0) * delta(rest, at - loss)

    inside = [kink for kink in kinks if -first < kink < first]
    between, _ = integrate.quad(term, -first, first, points=inside or None, epsabs=1e-12)
    return 0.5 * delta(rest, at - first) + 0.5 * math.exp(-first) * delta(rest, at + first) + between


def renyi(shift, order):
    """Renyi divergence of an order, by integration over outputs."""

    def term(x):
        return 0.5 * math.exp(-order * abs(x) - (1.0 - order) * abs(x - shift))

    far = 60.0 + shift
    total, _ = integrate.quad(term, -far, far, points=[0.0, shift], epsabs=1e-14, limit=200)
    return math.log(total) / (order - 1.0)
