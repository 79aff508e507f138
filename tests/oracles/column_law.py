"""The law of a column, literally: every knot by a loop over the sorted values."""

import math
from statistics import NormalDist

import numpy as np
from mpmath import mp


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
    return p, *integrated(x, p, s)[1:]


def integrated(x, p, s):
    """Median, sparsities at all knots, and quantiles there, of sorted values and the inner sparsities."""
    s = [max(v, 1e-9 * (x[-1] - x[0])) for v in (s[0], *s, s[-1])]
    q = [0.0]
    for j in range(len(p) - 1):
        q.append(q[-1] + (p[j + 1] - p[j]) * (s[j] + s[j + 1]) / 2)
    half = q[len(q) // 2]
    median = (x[(len(x) - 1) // 2] + x[len(x) // 2]) / 2
    return median, s, [value - half + median for value in q]


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
        with mp.workdps(60):
            return float(mp.root(value, 5))

    p = table(values)[0]
    s = []
    for level in p[1:-1]:
        t = min(level, 1.0 - level)
        h = min(0.5 * t / fifth_root(size * t), 0.5 * t)
        right, left = min(level + 2.0 * h, 1.0), max(level - 2.0 * h, 0.0)
        above = (integral(right) - integral(level)) / (right - level)
        below = (integral(level) - integral(left)) / (level - left)
        s.append((above - below) / (2.0 * h))
    return integrated(x, p, s)
