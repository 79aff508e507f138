"""Asymptotic confidence sequences (ACS) and intervals from parallel runs (PAR, HULC), by the formulas.

Sources: Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas (2024), "Time-uniform central limit theory and
asymptotic confidence sequences"; Zhu, Lou, Wei & Wu (2024), "High confidence level inference is almost
free using parallel stochastic optimization"; Kuchibhotla, Balakrishnan & Wasserman (2024), "The HulC".
"""

import math
import statistics

from scipy import optimize, stats


def margin(t, alpha, t_opt):
    """m_t: the interval after t users is the centre -+ sigma m_t.

    rho^2 = (y - 1)/t_opt, y > 1 with y - ln y = 1 + 2 ln(1/alpha).
    """
    right = 1 + 2 * math.log(1 / alpha)
    y = optimize.brentq(lambda y: y - math.log(y) - right, 1.0, 4 * right, xtol=1e-15, rtol=1e-15)
    rho2 = (y - 1) / t_opt
    inside = 2 * (t * rho2 + 1) / (t**2 * rho2)
    return math.sqrt(inside * math.log(math.sqrt(t * rho2 + 1) / alpha))


def student(values, level):
    K = len(values)
    mean = math.fsum(values) / K
    s = statistics.stdev(values.tolist())
    half = stats.t.ppf(0.5 + level / 2, K - 1) * s / math.sqrt(K)
    return mean - half, mean + half


def hull_size(level):
    """B* = ceil(log2(2/alpha)) and the probability p of taking B* - 1 estimates."""
    alpha = round(1 - level, 12)
    B = 1
    while 2.0 ** (1 - B) > alpha:
        B += 1
    miss, miss_less = 2.0 ** (1 - B), 2.0 ** (2 - B)
    return B, (alpha - miss) / (miss_less - miss)


def hull(values):
    return min(values), statistics.median(values), max(values)
