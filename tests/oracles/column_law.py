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


def knots(size):
    """0, 1/2, 1, and 16 points in every octave of the distance to 0 and to 1 down to 2^-floor(log2(N/8))."""
    octaves = max(2, math.floor(math.log2(size / 8)))
    low = [2.0**-e * (1 + k / 16) for e in range(2, octaves + 1) for k in range(16)]
    return sorted({0.0, 0.5, 1.0, *low, *(1 - p for p in low)})


def quantile(law, u):
    p, s, q, _ = law
    j = max(i for i in range(len(p) - 1) if p[i] <= u)
    here = s[j] + (s[j + 1] - s[j]) * (u - p[j]) / (p[j + 1] - p[j])
    return q[j] + (u - p[j]) * (s[j] + here) / 2


def table(values):
    """Knots, sparsities, quantiles and median, in plain Python floats and the order of the definition."""
    x = sorted(values)
    size = len(x)
    prefix = [0.0]
    for value in x:
        prefix.append(prefix[-1] + value)

    def integral(u):
        """Integral over (0, u) of the step function that is x_(i) on ((i - 1)/N, i/N)."""
        i = min(math.floor(u * size), size - 1)
        return (prefix[i] + (u * size - i) * x[i]) / size

    def fifth_root(value):
        with mp.workdps(60):
            return float(mp.root(value, 5))

    p = knots(size)
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
    median = (x[(size - 1) // 2] + x[size // 2]) / 2
    return p, s, [value - q[len(q) // 2] + median for value in q], median
