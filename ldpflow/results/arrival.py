"""Arrival of a path: bias of its average from start and steps at finite n, predicted without simulation.

**LDP-SGD on a quantile.** The prediction, a Gaussian closure, takes theta_i as N(m_i, v_i). Let F be the
distribution function of a record, Z standard normal, eta the size of a step, k the variance that the
mechanism adds to a gradient of range 1, q = E F(m + sqrt(v) Z), and H = E Z F(m + sqrt(v) Z)/sqrt(v), which
is E F'(m + sqrt(v) Z). Then

    m <- m - eta (q - tau)        v <- v - 2 eta H v + eta^2 (q (1 - q) + k)

The steps up to i = 400 are taken one by one. Later steps are joined: each stretch ends at 1.015 times the i
of its start, and m shrinks there by the factor exp(-H sum eta) of a linear q (exponential Euler). The
variance of the sum of the iterates adds up their covariances v_i exp(-sum H eta). Iterates are in relaxation
units y = G (theta - theta*), with the density G at the quantile theta*. So the step sizes are G c i^-gamma,
and their sum is the number of relaxation times. Bias and standard deviation of the average are in standard
errors of the oracle.

The closure is ours and has no proof. In 432 simulated cells (four laws, scales 1e-2 to 1e3, tau .5 to .99,
eps .5 to 2, n = 1e5, 150 replicates) the predicted coverage is within .06 of the simulated one in 90% of the
cells. If noise moves iterates far into a tail, the predicted standard deviation is up to 20 times too small.
In these cells both the predicted and the simulated coverage are small. Each of several quantiles is predicted
by itself: the prediction ignores that their iterates are sorted.

**Other problems.** Only the bias from the start is predicted. For a linear mean gradient G (theta - theta*)
the mean of theta_i - theta* is exp(-G s_i)(theta0 - theta*) with s_i = sum_{j <= i} eta_j, up to terms of
higher order in the steps. Along an eigenvector of G with eigenvalue lambda, the bias of the average is
mean_i exp(-lambda s_i) times the component of theta0 - theta*.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.components.intervals.variance import asymptotic_variances
from ldpflow.components.problems.laws import Law
from ldpflow.numerics import bits_of, constants, float_of, register_array
from ldpflow.numerics.kernels import compile_kernel
from ldpflow.numerics.specialise import Case
from ldpflow.simulators.approach import Approach, approach, declares_decay
from ldpflow.simulators.one_pass import OnePass
from ldpflow.simulators.simulator import Simulator

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LATTICE = 1.5
"""Largest :func:`lattice_ratio` that has no effect on averages."""

VERDICTS = ("arrived", "doubtful", "not_arrived", "steps_too_large")

EXACT, RATIO = 400, 1.015  # number of steps that are taken one by one, and ratio of the later grid
NODES = 200
MERGED = 1e-5  # distance of two paths, in standard deviations, at which they count as one
SMOOTH = 1e-6  # largest difference of quadratures with 9 and 7 nodes for an F that counts as smooth
NARROW = 1e-6

# The table of F has CELLS equal cells in each octave of 1 + FINE |y|.
CELLS = 64
OCTAVES = 44
FINE = 64.0
HALF = CELLS * OCTAVES
SHIFT = np.uint64(46)  # 52 bits of the mantissa less the 6 bits that number a cell
REST = np.uint64((1 << 46) - 1)
UP = np.uint64(6)
ONE = np.uint64(0x3FF0000000000000)
BASE = np.uint64(1023 * CELLS)
FIRST, SECOND = np.uint64(0), np.uint64(HALF)
ROW1, ROW2, ROW3 = np.uint64(1), np.uint64(2), np.uint64(3)
TWO = np.uint64(2)
FARTHEST = 2.0**OCTAVES * (1.0 - 2.0**-20)

SIGNATURE = (
    "void(float64[::1], float64[::1], float64[:, ::1], int64[::1], float64[::1], float64, float64, float64, "
    "float64, float64, float64, int64[::1], float64[:, ::1])"
)


@lru_cache
def follow_kernel() -> Callable[..., None]:
    return compile_kernel(follow, Case(), SIGNATURE)


def tabulate(cdf: Callable[[Floats], Floats]) -> Floats:
    """Table of a distribution function of y: in every cell the cubic through four points.

    A cell has four coefficients, lowest power of t first, with t from 0 to 1 along the cell. The cells of
    y >= 0 come first, then those of y < 0, both outwards from 0.
    """
    k = np.arange(HALF + 1)
    edge = (2.0 ** (k // CELLS) * (1.0 + (k % CELLS) / CELLS) - 1.0) / FINE
    width = np.diff(edge)
    table = np.empty((2 * HALF, 4))
    for side, sign in ((0, 1.0), (HALF, -1.0)):
        points = [cdf(sign * (edge[:-1] + width * t)) for t in (0.0, 1 / 3, 2 / 3)]
        f0, f1, f2 = points
        f3 = np.append(f0[1:], cdf(np.array([sign * edge[-1]])))
        cells = table[side : side + HALF]
        cells[:, 0] = f0
        cells[:, 1] = (-11 * f0 + 18 * f1 - 9 * f2 + 2 * f3) / 2
        cells[:, 2] = (18 * f0 - 45 * f1 + 36 * f2 - 9 * f3) / 2
        cells[:, 3] = (-9 * f0 + 27 * f1 - 27 * f2 + 9 * f3) / 2
    return table.reshape(-1)


@lru_cache
def equal_probability(count: int = NODES) -> Floats:
    """Normal quantiles at the midpoints of ``count`` equal parts of (0, 1), scaled to variance 1."""
    nodes = np.array([NormalDist().inv_cdf((i + 0.5) / count) for i in range(count)])
    result: Floats = nodes / math.sqrt(np.mean(nodes * nodes))
    return result


@lru_cache
def few_nodes() -> Floats:
    """Gauss-Hermite rules with 9 and 7 nodes, shape (5, 16).

    The rows are the nodes, the weights of the first rule for E F and for E Z F, and those of the second rule.
    """
    rules = [np.polynomial.hermite_e.hermegauss(count) for count in (9, 7)]
    table = np.zeros((5, 16))
    for place, rows, (nodes, weights) in ((0, (1, 2), rules[0]), (9, (3, 4), rules[1])):
        part = slice(place, place + len(nodes))
        table[0, part] = nodes
        table[rows[0], part] = weights / weights.sum()
        table[rows[1], part] = nodes * weights / weights.sum()
    return table


def value(y, table):  # type: ignore[no-untyped-def]
    bits = bits_of(min(1.0 + FINE * abs(y), FARTHEST))
    # Unsigned indices need no test for negative values.
    row = ((bits >> SHIFT) - BASE + (SECOND if y < 0.0 else FIRST)) << TWO
    t = float_of(((bits & REST) << UP) | ONE) - 1.0
    return table[row] + t * (table[row + ROW1] + t * (table[row + ROW2] + t * table[row + ROW3]))


def moments(m, v, nodes, few, table):  # type: ignore[no-untyped-def]
    """q = E F(m + sqrt(v) Z) and H = E Z F(m + sqrt(v) Z)/sqrt(v) >= 0."""
    sd = max(math.sqrt(v), NARROW)
    values = register_array(16)
    for k in range(16):
        values[k] = value(m + sd * few[0, k], table)
    q = 0.0
    first = 0.0
    rough = 0.0
    rougher = 0.0
    for k in range(16):
        q += few[1, k] * values[k]
        first += few[2, k] * values[k]
        rough += few[3, k] * values[k]
        rougher += few[4, k] * values[k]
    if abs(q - rough) + abs(first - rougher) > SMOOTH:
        q = 0.0
        first = 0.0
        for k in range(nodes.shape[0]):
            f = value(m + sd * nodes[k], table)
            q += f
            first += nodes[k] * f
        q /= nodes.shape[0]
        first /= nodes.shape[0]
    return q, max(first / sd, 0.0)


def power_sum(i, j, gamma):  # type: ignore[no-untyped-def]
    """Sum of k^-gamma over k = i + 1 .. j, by an integral if i >= EXACT. For i < EXACT j must be i + 1."""
    if i < EXACT:
        return float(j) ** -gamma
    power = 1.0 - gamma
    return ((j + 0.5) ** power - (i + 0.5) ** power) / power


@lru_cache(maxsize=32)
def grid(gamma: float, last: int) -> tuple[Integers, Floats]:
    """Last steps j of stretches of steps, and the sum of k^-gamma in each stretch.

    The stretches begin at step 1 and reach ``last`` or a later step.
    """
    ends = list(range(EXACT + 1))
    while ends[-1] < last:
        ends.append(max(ends[-1] + 1, int(ends[-1] * RATIO)))
    sums = [power_sum(i, j, gamma) for i, j in itertools.pairwise(ends)]
    return np.array(ends[1:], dtype=np.int64), np.array(sums)


def step(i, j, ds, run, tau, noise, records, q, h):  # type: ignore[no-untyped-def]
    """State after steps i + 1 .. j, whose sizes add up to ``ds``, from the state ``run`` after step i.

    A state is m, v, the sum of the m_i, the variance of the sum of the iterates, and twice the covariance of
    this sum with the next iterate. ``q`` and ``h`` are the :func:`moments` of the state after step i.
    """
    m, v, total, square, carried = run
    width = float(j - i)
    drift = q - tau
    s = (q * (1.0 - q) + noise) / records
    eta = ds / width
    a = h * ds
    # mean_decay is the mean of exp(-x) over 0 < x < a.
    lost = -np.expm1(-a)
    decay = 1.0 - lost
    mean_decay = lost / a if a > 1e-12 else 1.0
    square += width * mean_decay * (width * v + carried)
    carried = decay * carried + width * v * (1.0 + decay)
    if i < EXACT:
        m -= eta * drift
        least = eta * eta * s
        v = max(v - 2.0 * eta * h * v + least, 1e-3 * least)
        total += m
    else:
        before = m
        m -= drift * ds * mean_decay
        v = v * decay * decay + eta * s * ds * mean_decay * 0.5 * (1.0 + decay)
        total += width * 0.5 * (before + m)
    return m, v, total, square, carried


def follow(table, nodes, few, ends, sums, tau, noise, c, gamma, start, records, times, out):  # type: ignore[no-untyped-def]
    """Run the closure from ``start`` and from theta*, in relaxation units, up to the steps ``times``, sorted.

    ``table`` is a result of :func:`tabulate`, ``ends`` and ``sums`` are a result of :func:`grid`. ``c`` is
    the step constant times G, and ``start`` is (theta0 - theta*) G. A row of ``out`` is for one of the
    ``times``. It gets the bias of the average of a path from ``start``, the same for a path from theta*, the
    standard deviation of the average, and the mean and the variance of the last iterate.
    """
    here = (start, 0.0, 0.0, 0.0, 0.0)
    other = (0.0, 0.0, 0.0, 0.0, 0.0)
    behind = 0.0
    together = False
    i = 0
    done = 0
    for k in range(ends.shape[0]):
        j = ends[k]
        ds = c * sums[k]
        q, h = moments(here[0], here[1], nodes, few, table)
        p, g = q, h
        if not together:
            p, g = moments(other[0], other[1], nodes, few, table)
        while done < times.shape[0] and times[done] <= j:
            n = times[done]
            within = ds if n == j else c * power_sum(i, n, gamma)
            end = step(i, n, within, here, tau, noise, records, q, h)
            if not together:
                behind = end[2] - step(i, n, within, other, tau, noise, records, p, g)[2]
            out[done, 0] = end[2] / n
            out[done, 1] = (end[2] - behind) / n
            out[done, 2] = math.sqrt(end[3]) / n
            out[done, 3] = end[0]
            out[done, 4] = end[1]
            done += 1
        if done == times.shape[0]:
            break
        here = step(i, j, ds, here, tau, noise, records, q, h)
        if not together:
            other = step(i, j, ds, other, tau, noise, records, p, g)
            behind = here[2] - other[2]
            apart = abs(here[0] - other[0])
            together = apart <= MERGED * math.sqrt(here[1]) and abs(here[1] - other[1]) <= MERGED * here[1]
        i = j


@dataclass(frozen=True)
class Arrival:
    """Predicted arrival of one path after a number of steps.

    ``relaxation_times`` is K = G sum eta_i. ``standard_error`` is that of the oracle, sqrt(S/steps)/G, with
    the variance S of a gradient. Biases of the average and its standard deviation (``sd_ratio``) are in
    standard errors of the oracle. ``bias_steps`` is the bias of a path that starts at theta*, and
    ``bias_start`` is the rest of ``bias``.
    """

    relaxation_times: float
    standard_error: float
    bias: float
    bias_start: float
    bias_steps: float
    sd_ratio: float

    def coverage(self, level: float) -> float:
        normal = NormalDist()
        z = normal.inv_cdf(0.5 + level / 2)
        if not (math.isfinite(self.bias) and self.sd_ratio > 0):
            return 0.0
        return normal.cdf((z - self.bias) / self.sd_ratio) - normal.cdf((-z - self.bias) / self.sd_ratio)

    @property
    def verdict(self) -> str:
        """The first of these that applies, for K relaxation times, the bias b and w = ``sd_ratio``.

        ``arrived``: |b| <= .1, K >= 25 and .9 <= w <= 1.1. ``doubtful``: |b| <= .5, K >= 15 and w <= 1.25.
        ``not_arrived``: K < 15, or |``bias_start``| exceeds .5 and is at least |``bias_steps``|.
        ``steps_too_large``: all others.
        """
        k, bias, start = self.relaxation_times, abs(self.bias), abs(self.bias_start)
        if bias <= 0.1 and k >= 25 and 0.9 <= self.sd_ratio <= 1.1:
            return "arrived"
        if bias <= 0.5 and k >= 15 and self.sd_ratio <= 1.25:
            return "doubtful"
        if k < 15 or (start > 0.5 and start >= abs(self.bias_steps)):
            return "not_arrived"
        return "steps_too_large"

    def describe(self) -> str:
        k, bias = self.relaxation_times, abs(self.bias)
        text = f"{k:,.{0 if k >= 10 else 1}f} relaxation times, {bias:.2f} oracle SE of bias"
        source = "start" if abs(self.bias_start) >= abs(self.bias_steps) else "steps"
        text += f", mostly from the {source}" if bias > 0.1 else ""
        return text + (f", a spread of {self.sd_ratio:.2f} oracle SE" if self.sd_ratio > 1.1 else "")

    @property
    def refused(self) -> bool:
        """Whether a length would mislead: the verdict is neither ``arrived`` nor ``doubtful``."""
        return self.verdict not in ("arrived", "doubtful")


@lru_cache
def feasible_n(law: Law, tau: float, noise: float) -> float:
    """Fewest users for which some step sizes give K >= 25 and a bias from the steps of at most .1 SE.

    To first order in the steps it is (25 |f'| / (.4 G^2))^2 S, with the slope f' of the density at the
    quantile and S = tau (1 - tau) + noise. It depends neither on c and gamma nor on units, and is 0 at a
    mode. With fewer users an interval around the average may still cover: a bias of .2 SE costs a 95%
    interval half a point.
    """
    ratio = abs(law.slope_at_quantile(tau)) / law.density_at_quantile(tau) ** 2
    return (25.0 * ratio / 0.4) ** 2 * (tau * (1.0 - tau) + noise)


def follow_path(case: Approach, times: Sequence[int]) -> Floats:
    """Result of :func:`follow` for the steps ``times``, sorted: a row for each, in relaxation units."""
    truth, density, table = relaxation_units(case.law, case.tau)
    settings = (case.noise, case.c * density, case.gamma, (case.theta0 - truth) * density)
    ends, sums = grid(case.gamma, times[-1])
    out = np.empty((len(times), 5))
    follow_kernel()(
        table, equal_probability(), few_nodes(), ends, sums, case.tau, *settings,
        float(case.records), np.array(times), out,
    )  # fmt: skip
    return out


def predict_arrivals(cases: Sequence[Approach]) -> list[Arrival]:
    return list(map(predict_arrival, cases))


def predict_arrival(case: Approach) -> Arrival:
    _, density, _ = relaxation_units(case.law, case.tau)
    bias, from_truth, sd, _, _ = follow_path(case, [case.steps])[0].tolist()
    error = math.sqrt(case.variance() / case.steps)
    return Arrival(
        relaxation_times=density * case.c * constants.sum_of_powers(1, case.steps, case.gamma),
        standard_error=error / density,
        bias=bias / error,
        bias_start=(bias - from_truth) / error,
        bias_steps=from_truth / error,
        sd_ratio=sd / error,
    )


@lru_cache(maxsize=32)  # a table has 180 kB
def relaxation_units(law: Law, tau: float) -> tuple[float, float, Floats]:
    """The tau-quantile, the density at this quantile, and the table of F in relaxation units."""
    truth, density = law.quantile(tau), law.density_at_quantile(tau)
    return truth, density, tabulate(lambda y: law.cdf_values(truth + y / density))


def linear_arrivals(path: Any, n: int) -> tuple[Arrival, ...] | None:
    """Arrival of every coordinate without the bias from steps.

    ``relaxation_times`` is the number in the slowest direction. None if the steps do not decay, the algorithm
    has no intervals, or the curvature is not known.
    """
    if not isinstance(path, OnePass) or not declares_decay(path) or not path.algorithm.has_intervals:
        return None
    curvature, steps = np.array(path.problem.curvature()), path.steps(n)
    if not np.isfinite(curvature).all():
        return None
    c, gamma = path.algorithm.step_constant(), path.algorithm.step_exponent()
    eigenvalues, vectors = np.linalg.eigh(curvature)
    left = np.array([mean_decay(float(v) * c, gamma, steps) for v in eigenvalues])
    distance = np.array(path.algorithm.start(path.dimension)) - path.truth()
    bias = vectors @ (left * (vectors.T @ distance))
    errors = [math.sqrt(variance / steps) for variance in asymptotic_variances(path)]
    slowest = float(eigenvalues[0]) * c * constants.sum_of_powers(1, steps, gamma)
    return tuple(
        Arrival(slowest, error, b / error, b / error, bias_steps=0.0, sd_ratio=1.0)
        for error, b in zip(errors, bias.tolist(), strict=True)
    )


def mean_decay(rate: float, gamma: float, steps: int) -> float:
    """(1/n) sum_{i <= n} exp(-rate sum_{j <= i} j^-gamma) for n = ``steps``, on the :func:`grid`."""
    count = np.searchsorted(grid(gamma, steps)[0], steps) + 1
    ends, sums = (values[:count].copy() for values in grid(gamma, steps))
    if ends[-1] > steps:
        ends[-1], sums[-1] = steps, power_sum(ends[-2], steps, gamma)
    a = rate * sums
    some = np.maximum(a, 1e-12)
    # A stretch of several steps has the mean of exp(-x) over 0 < x < a.
    decay = np.where(ends <= EXACT, np.exp(-a), -np.expm1(-some) / some)
    passed = np.cumsum(a) - a
    return float(np.sum(np.diff(ends, prepend=0) * np.exp(-passed) * decay) / steps)


def predict_simulators(
    wanted: Sequence[tuple[Simulator[Any, Any], int]],
) -> list[tuple[Arrival, ...] | None]:
    """Arrival of each simulator after its number of users: one for each coordinate of theta.

    None if nothing is predicted for the simulator.
    """
    found: list[tuple[Arrival, ...] | None] = []
    for simulator, n in wanted:
        # A simulator whose plug-in is not loaded has no dimension.
        cases = [approach(simulator, n, k) for k in range(getattr(simulator, "dimension", 1))]
        quantiles = [predict_arrival(case) for case in cases if case is not None]
        found.append(tuple(quantiles) if len(quantiles) == len(cases) else linear_arrivals(simulator, n))
    return found


def lattice_ratio(case: Approach) -> float:
    """Spacing of the lattice of a column, in standard deviations of the last iterates. 0 without a lattice.

    The law that is made from a column of values smooths ties, but values of real users are tied. Ratios up to
    1.5 make no difference. At a ratio of 7 the standard deviation of the average is .39 of that in theory.
    """
    table = case.law.table
    if table is None or table.spacing == 0.0:
        return 0.0
    density = case.law.density_at_quantile(case.tau)
    eta = case.c * case.steps**-case.gamma
    return table.spacing / math.sqrt(eta * case.variance() / (2.0 * density))
