"""The law of a column, literally: every knot by a loop over the sorted values."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np


def example_column(size=1000):
    """A skewed column with ties and no random number: lognormal(7.6, .6) at midpoints, rounded to tens."""
    normal = NormalDist()
    return np.array(
        [10.0 * round(math.exp(7.6 + 0.6 * normal.inv_cdf((i + 0.5) / size)) / 10) for i in range(size)]
    )


def mean_quantile(x, a, b):
    """Mean over (a, b) of the step function that is x_(i) on ((i - 1)/N, i/N), by summing its steps."""
    size = len(x)
    pieces = [
        (min(b, (i + 1) / size) - max(a, i / size)) * x[i]
        for i in range(size)
        if i / size < b and (i + 1) / size > a
    ]
    return math.fsum(pieces) / (b - a)


def table(values):
    """Knots, sparsities and quantiles of the law of a column."""
    x = sorted(values)
    size = len(x)
    octaves = max(2, math.floor(math.log2(size / 8)))
    p = sorted(
        {0.0, 0.5, 1.0}
        | {2.0**-e * (1 + k / 16) for e in range(2, octaves + 1) for k in range(16)}
        | {1 - 2.0**-e * (1 + k / 16) for e in range(2, octaves + 1) for k in range(16)}
    )
    s = []
    for level in p[1:-1]:
        t = min(level, 1 - level)
        h = 0.5 * t * min(1.0, (size * t) ** -0.2)
        above = mean_quantile(x, level, min(level + 2 * h, 1.0))
        below = mean_quantile(x, max(level - 2 * h, 0.0), level)
        s.append((above - below) / (2 * h))
    s = [max(v, 1e-9 * (x[-1] - x[0])) for v in (s[0], *s, s[-1])]
    q = [0.0]
    for j in range(len(p) - 1):
        q.append(q[-1] + (p[j + 1] - p[j]) * (s[j] + s[j + 1]) / 2)
    half = p.index(0.5)
    median = (x[(size - 1) // 2] + x[size // 2]) / 2
    return p, s, [value - q[half] + median for value in q]


def quantile(law, u):
    """Q(u): the integral of the piecewise linear sparsity from the cell's lower knot."""
    p, s, q = law
    j = max(i for i in range(len(p) - 1) if p[i] <= u)
    here = s[j] + (s[j + 1] - s[j]) * (u - p[j]) / (p[j + 1] - p[j])
    return q[j] + (u - p[j]) * (s[j] + here) / 2


def bits(values):
    """Median, sparsities and quantiles by plain Python floats in the order that the definition fixes."""
    x = sorted(values)
    size = len(x)
    prefix = [0.0]
    for value in x:
        prefix.append(prefix[-1] + value)

    def integral(u):
        i = min(math.floor(u * size), size - 1)
        return (prefix[i] + (u * size - i) * x[i]) / size

    def fifth_root(value):
        """Correctly rounded: the double whose fifth power is nearest, in integers."""
        guess = value**0.2
        near = [math.nextafter(guess, 0.0), guess, math.nextafter(guess, math.inf)]
        while True:
            # Halfway points between neighbours, compared in exact fractions.
            low, here, high = map(Fraction, near)
            down, up = ((low + here) / 2) ** 5, ((here + high) / 2) ** 5
            if down <= Fraction(value) <= up:
                return near[1]
            towards = -math.inf if Fraction(value) < down else math.inf
            near = [math.nextafter(v, towards) for v in near]

    p = table(values)[0]
    s = []
    for level in p[1:-1]:
        t = min(level, 1.0 - level)
        h = min(0.5 * t / fifth_root(size * t), 0.5 * t)
        right, left = min(level + 2.0 * h, 1.0), max(level - 2.0 * h, 0.0)
        above = (integral(right) - integral(level)) / (right - level)
        below = (integral(level) - integral(left)) / (level - left)
        s.append((above - below) / (2.0 * h))
    s = [max(v, 1e-9 * (x[-1] - x[0])) for v in (s[0], *s, s[-1])]
    q = [0.0]
    for j in range(len(p) - 1):
        q.append(q[-1] + (p[j + 1] - p[j]) * (s[j] + s[j + 1]) / 2)
    half = q[len(q) // 2]
    median = (x[(size - 1) // 2] + x[size // 2]) / 2
    return median, s, [value - half + median for value in q]
