"""Methods that estimate the variance of the average, from batches, blocks or self-normalisation.

thetabar is the average of the iterates and n the number of steps. V estimates Sigma in
sqrt(n) (thetabar - theta*) -> N(0, Sigma). The interval is thetabar -+ z sqrt(V/n), with a normal quantile z.
Options with Student's t instead need the degrees of freedom of V. S(i) is the sum of the first i iterates.

**BM**, batch means with increasing batches (Chen, Lee, Tong and Zhang, 2020)

    e_k = floor(((k + 1)/(M + 1))^(1/(1 - gamma)) n), k = 0..M;  batch 0 is discarded
    V = (1/M) sum_k n_k (X_k - Xbar)^2

Batch k of M ends at step e_k. X_k is its mean, n_k = e_k - e_{k-1} its length, and Xbar the mean over
e_0 + 1..n. Dette and Graw do not state M, but floor(n^(1/4)) reproduces their Table 2. The option of
Student's t takes V M/(M - 1) and M - 1 degrees of freedom.

**EBS**, equal batches (Singh, Shukla and Vats, 2025)

    b = smallest power of two >= c n^beta, at least 2;  a = floor(n/b), r = n - a b
    r <= 1:  V = b/(a - 1) sum_k (X_k - thetabar)^2
    r >= 2:  V = b/a sum_k (X_k - thetabar)^2 + (sum of the last r iterates - r thetabar)^2 / n

beta is (gamma + 1)/2 ("half") or (2 gamma + 1)/3 ("third"). X_k is the mean of batch k. The last formula is
the authors' adjustment for the last r iterates, which fill no batch. A path remembers about
n^gamma/(c_step G) steps, with c_step the step constant and G the slope of the mean gradient at theta*. With
the default c = .1 of the authors, batches may be shorter than that. The rule 3n^0.75 makes longer batches.
Student's t with a - 1 degrees of freedom is our option.

**NOL**, non-overlapping increasing blocks (Zhu, Chen and Wu, 2023)

    a_k = floor(c k^(2/(1 - gamma))), k = 1, 2, ...;  block k = a_k, ..., a_(k+1) - 1
    V = n^-1 sum_k (S(e_k) - S(e_(k-1)) - L_k m)^2,   m = S(n)/n

e_k is the last step of block k and L_k its length. Step 1 starts the first block. Starts a_k that are 0 or
repeated are dropped. The last block ends at n, complete or not. The option of Student's t is ours. Block sums
are nearly independent with variance L_k Sigma. So E V = Sigma (1 - 1/nu) with nu = n^2 / sum L_k^2, and
Satterthwaite's degrees of freedom are nu - 1. The option takes V nu/(nu - 1) and Student's t with nu - 1
degrees of freedom.

**OBM**, fully online overlapping blocks (Zhu, Chen and Wu, 2023), with the blocks of NOL. At step i of the
block that starts at a, W_i = S(i) - S(a - 1) and l_i = i - a + 1. With m = S(n)/n

    V = sum_i (W_i - l_i m)^2 / sum_i l_i = (Q - 2 P m + q m^2)/v
    Q = sum W^2,  P = sum l W,  q = sum l^2,  v = sum l

Q and P follow from three sums over all steps so far, T0 = sum S(i), T1 = sum i S(i) and T2 = sum S(i)^2, at
the ends of the blocks. A block of L steps after step b, with base = S(b), changes them by dT0, dT1 and dT2:

    Q += dT2 - 2 base dT0 + L base^2,   P += dT1 - b dT0 - base L(L + 1)/2

**LUG**, lugsail (Vats and Flegal, 2022): a variance overcorrected on purpose

    V_L = (V_b - kappa V_(b/r))/(1 - kappa)

V_b is the estimate from batches of length b. A bias -C/b of V_b becomes (kappa r - 1)/(1 - kappa) C/b. With
the usual r = 3 and kappa = 1/2 this is C/b. For EBS, V_(b/r) is EBS with batches of floor(b/r). For BM every
batch is cut into r pieces, and V_(b/r) is the formula of BM on the pieces. If V_L is negative, the interval
is undefined.

**SN**, self-normalisation or random scaling (Liu, Hu, Ding, Jiang and Kong, 2023; Lee, Liao, Seo and Shin,
2022)

    V = n^-2 sum_i i^2 (thetabar_i - thetabar_n)^2,   interval thetabar_n -+ cv sqrt(V/n)
    sum_i i^2 (thetabar_i - thetabar_n)^2 = sum S(i)^2 - 2 thetabar_n sum i S(i) + thetabar_n^2 sum i^2

thetabar_i is the average of the first i iterates. The sums are of theta_i - theta*, so little is lost to
cancellation. The critical value cv of level .95 is 6.7473. The value 6.811 in the papers has a simulation
error.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from mpmath import matrix, mpf
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ldpflow.components.algorithms import Algorithm
from ldpflow.components.intervals.interval import (
    BASE,
    BLOCK_C,
    Array,
    Batches,
    BatchFactor,
    BatchRule,
    Intervals,
    MethodAround,
    PathIntervalMethod,
    Quantile,
    Variance,
    VarianceMethod,
    average,
    in_order,
    symmetric_limits,
    undefined_intervals,
)
from ldpflow.components.intervals.record import PathRecord, PathSource
from ldpflow.numerics import constants
from ldpflow.settings import Setting


@lru_cache(maxsize=256)
def asymptotic_covariance(path: PathSource) -> tuple[tuple[float, ...], ...]:
    """Sigma = G^-1 S G^-T, by rows (Polyak and Ruppert; Dette and Graw, Theorem 3.1).

    G is the derivative of the mean gradient at theta*, and S is the covariance of the private gradient there.
    All entries are NaN if G is not known.
    """
    with constants.workdps(40):
        curvature = path.problem.curvature()
        d = len(curvature)
        if any(math.isnan(value) for row in curvature for value in row):
            return ((math.nan,) * d,) * d
        inverse = matrix(curvature) ** -1
        covariance = matrix(path.algorithm.step_covariance(path.problem, path.randomiser))
        sigma = inverse * covariance * inverse.T
        return tuple(tuple(float(sigma[j, k]) for k in range(d)) for j in range(d))


def asymptotic_variances(path: PathSource) -> tuple[float, ...]:
    """Diagonal of Sigma, length d."""
    return tuple(row[j] for j, row in enumerate(asymptotic_covariance(path)))


class Oracle(VarianceMethod):
    """Interval around the average with the true asymptotic variance, which is unknown for real data."""

    kind: Literal["oracle"] = "oracle"
    title = "the true asymptotic variance: a yardstick, not a method for data"
    undefined_where = "the variance of the limit law is not known"

    def reads_truth(self) -> bool:
        return True

    def estimate_variance(self, record: PathRecord, steps: int) -> Variance:
        variances = np.array(asymptotic_variances(record.source))[:, None]
        return Variance(np.broadcast_to(variances, (len(variances), len(record.replicates))))


class SelfNormalization(PathIntervalMethod):
    """Self-normalised interval. It has no standard error."""

    kind: Literal["SN"] = "SN"
    cites = ("liu2023", "lee2022")
    title = "self-normalisation (Liu, Hu, Ding, Jiang and Kong, 2023)"
    undefined_where = "there are fewer than two steps"
    around_average = True

    def running_sums(self, dimension: int) -> tuple[str, ...]:
        return ("self_normalization",)

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        steps = record.steps(n)
        estimate = average(record, steps)
        if steps < 2:
            return undefined_intervals(estimate, levels)
        weighted, squared = record.running("self_normalization", steps)
        mean = record.sum_at(steps) / steps
        # The sum of i^2 as an integer, rounded once.
        squares = float(steps * (steps + 1) * (2 * steps + 1) // 6)
        v = squared - 2.0 * mean * weighted + mean * mean * squares
        scale = np.sqrt(np.maximum(v, 0.0)) / steps / np.sqrt(float(steps))
        critical = [constants.self_normalization_critical_value(level) for level in levels]
        return Intervals(estimate, None, *symmetric_limits(estimate, critical, scale))


class BlockVariance(VarianceMethod):
    """Base class of variances from blocks of the path."""

    @abstractmethod
    def ends(self, steps: int, gamma: float) -> NDArray[np.int64]:
        """Increasing steps: the one before the first block, then the last step of every block."""

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        ends = np.unique(self.ends(steps, algorithm.step_exponent()))
        return ends[ends > 0]

    def steps_read(self) -> tuple[str, ...]:
        return ("step_exponent",)


class BatchMeans(BlockVariance):
    """Batch-means interval."""

    kind: Literal["BM"] = "BM"
    cites = ("chen2020",)
    title = "batch means with increasing batches (Chen, Lee, Tong and Zhang, 2020)"
    undefined_where = "there are fewer than two batches, or the batches' means are equal"

    M: Batches | None = None
    quantile: Quantile | None = None

    def batches(self, steps: int) -> int:
        return self.M if self.M is not None else constants.floor_power(steps, 0.25)

    def ends(self, steps: int, gamma: float) -> NDArray[np.int64]:
        return np.array(batch_ends(steps, gamma, self.batches(steps)), dtype=np.int64)

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        return 1 + self.batches(steps)

    def estimate_variance(self, record: PathRecord, steps: int) -> Variance | None:
        ends = self.ends(steps, record.algorithm.step_exponent())
        lengths = np.diff(ends)
        if len(lengths) < 2 or (lengths < 1).any():
            return None
        value = batch_variance(record, ends)
        if self.quantile != "t":
            return Variance(value)
        degrees = float(len(lengths) - 1)
        return Variance(value * (len(lengths) / degrees), degrees)


def batch_variance(record: PathRecord, ends: NDArray[np.int64]) -> Array:
    """V = (1/M) sum_k n_k (X_k - Xbar)^2, shape (d, R). ``ends`` are e_0, ..., e_M."""
    sums = record.sums_at(ends)
    mean = (sums[-1] - sums[0]) / (int(ends[-1]) - int(ends[0]))
    lengths = np.diff(ends)[:, None, None]
    deviations = (sums[1:] - sums[:-1]) / lengths - mean
    return in_order(lengths * (deviations * deviations)) / len(lengths)


@lru_cache(maxsize=256)
def batch_ends(steps: int, gamma: float, m: int) -> tuple[int, ...]:
    """e_0, ..., e_m, from gamma as a decimal number. A value within 1e-9 of an integer is rounded to it."""
    with constants.workdps(40):
        power = 1 / (1 - mpf(repr(gamma)))
        return tuple(constants.safe_floor((mpf(k + 1) / (m + 1)) ** power * steps) for k in range(m + 1))


class EqualBatches(BlockVariance):
    """Interval with the variance of equal batches."""

    kind: Literal["EBS"] = "EBS"
    cites = ("singh2025",)
    title = "equal batches (Singh, Shukla and Vats, 2025)"
    undefined_where = "there are fewer than two batches, or the estimated variance is not positive"

    block_rule: BatchRule = "half"
    block_c: BatchFactor | None = None
    quantile: Quantile = "normal"

    @model_validator(mode="after")
    def factor_of_a_rule(self) -> EqualBatches:
        if self.block_c is not None and self.block_rule not in ("half", "third"):
            raise ValueError(f"block_c is a factor of the rules half and third, not of {self.block_rule}")
        return self

    def size(self, steps: int, gamma: float) -> int:
        """Batch length b."""
        return batch_size(steps, gamma, self.block_rule, self.block_c)

    def ends(self, steps: int, gamma: float) -> NDArray[np.int64]:
        return equal_ends(steps, self.size(steps, gamma))

    def steps_read(self) -> tuple[str, ...]:
        return ("step_exponent",) if self.block_rule in ("half", "third") else ()

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        return steps // self.size(steps, algorithm.step_exponent()) + 1

    def unsuitable_at(self, source: PathSource, n: int) -> str | None:
        """Warning if batches are shorter than 4 n^gamma/(c G) steps.

        c G is the product of step constant and curvature, the smallest of all coordinates.
        """
        steps, gamma = source.steps(n), source.algorithm.step_exponent()
        own = [row[j] for j, row in enumerate(source.problem.curvature())]
        factors = source.algorithm.step_factors() or (1.0,) * len(own)
        curvature = min(factor * value for factor, value in zip(factors, own, strict=True))
        if not (gamma > 0.0 and curvature > 0.0):
            return None
        memory = float(steps) ** gamma / (source.algorithm.step_constant() * curvature)
        length = self.size(steps, gamma)
        if not length < 4.0 * memory:
            return None
        return (
            f"EBS, {self.block_rule}: batches of {length:,} steps at n = {n:,}, where a path remembers about "
            f"{memory:,.0f}; expect intervals that are too short (block_rule makes batches longer)"
        )

    def estimate_variance(self, record: PathRecord, steps: int) -> Variance | None:
        size = self.size(steps, record.algorithm.step_exponent())
        count = steps // size
        if count < 2:
            return None
        value = equal_batch_variance(record, steps, size)
        return Variance(value, float(count - 1) if self.quantile == "t" else math.inf)


@lru_cache(maxsize=1024)
def batch_size(steps: int, gamma: float, rule: str, c: float | None) -> int:
    """Batch length b >= 1. gamma and c are read as decimal numbers."""
    if rule in ("half", "third"):
        with constants.workdps(40):
            g = mpf(repr(gamma))
            beta = (g + 1) / 2 if rule == "half" else (2 * g + 1) / 3
            wanted = mpf(repr(0.1 if c is None else c)) * mpf(steps) ** beta
            wanted = constants.near_integer(wanted) or wanted
            size = 2
            while size < wanted:
                size *= 2
            return size
    power = re.fullmatch(r"(\d*)n\^(.*)", rule)
    if power is None:
        return int(rule)
    return int(power[1] or 1) * constants.floor_power(steps, float(power[2]))


def equal_ends(steps: int, size: int) -> NDArray[np.int64]:
    """0, the ends of full batches, and ``steps``."""
    return np.append(np.arange(0, steps, size, dtype=np.int64), steps)


def equal_batch_variance(record: PathRecord, steps: int, size: int) -> Array:
    """V of EBS with batches of ``size`` <= steps/2, shape (d, R)."""
    count, rest = divmod(steps, size)
    sums = record.sums_at(np.arange(count + 1, dtype=np.int64) * size)
    last = record.sum_at(steps)
    mean = last / float(steps)
    deviations = (sums[1:] - sums[:-1]) - float(size) * mean
    squares = in_order(deviations * deviations) / float(size)
    if rest <= 1:
        return squares / float(count - 1)
    left_over = (last - sums[-1]) - float(rest) * mean
    return np.asarray(squares / float(count) + left_over * left_over / float(steps))


class IncreasingBlocks(BlockVariance):
    """Base class of methods whose blocks grow along the path."""

    undefined_where = "there are fewer than two blocks, or the estimated variance is not positive"

    block_c: Annotated[float, Field(ge=1e-3, le=1e9), BLOCK_C] = 1.0

    def ends(self, steps: int, gamma: float) -> NDArray[np.int64]:
        starts = block_starts(steps, gamma, self.block_c)
        return np.array([*(start - 1 for start in starts), steps], dtype=np.int64)

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        return len(block_starts(steps, algorithm.step_exponent(), self.block_c))


@lru_cache(maxsize=256)
def block_starts(steps: int, gamma: float, c: float) -> tuple[int, ...]:
    """Starts of blocks in 1, ..., steps. gamma and c are read as decimal numbers."""
    starts = [1]
    with constants.workdps(40):
        power = 2 / (1 - mpf(repr(gamma)))
        scale = mpf(repr(c))
        k = 1
        while (start := constants.safe_floor(scale * mpf(k) ** power)) <= steps:
            if start > starts[-1]:
                starts.append(start)
            k += 1
    return tuple(starts)


class NonoverlappingBlocks(IncreasingBlocks):
    """Interval with the variance of non-overlapping increasing blocks."""

    kind: Literal["NOL"] = "NOL"
    cites = ("zhu2023",)
    title = "non-overlapping increasing blocks (Zhu, Chen and Wu, 2023)"

    quantile: Quantile = "normal"

    def estimate_variance(self, record: PathRecord, steps: int) -> Variance | None:
        ends = self.ends(steps, record.algorithm.step_exponent())
        if len(ends) < 3:
            return None
        sums = record.sums_at(ends)
        lengths = np.diff(ends).astype(np.float64)[:, None, None]
        deviations = (sums[1:] - sums[:-1]) - lengths * (sums[-1] / float(steps))
        value = in_order(deviations * deviations) / float(steps)
        if self.quantile == "normal":
            return Variance(value)
        nu = steps**2 / sum(length * length for length in np.diff(ends).tolist())
        return Variance(value * (nu / (nu - 1.0)), nu - 1.0) if nu >= 2.0 else None


class OverlappingBlocks(IncreasingBlocks):
    """Interval with the variance of overlapping blocks."""

    kind: Literal["OBM"] = "OBM"
    cites = ("zhu2023",)
    title = "overlapping increasing blocks, online (Zhu, Chen and Wu, 2023)"

    def running_sums(self, dimension: int) -> tuple[str, ...]:
        return ("prefix_total", "self_normalization")

    def marked_times(self, steps: int, algorithm: Algorithm, dimension: int) -> tuple[int, ...]:
        return tuple(self.times(steps, algorithm).tolist())

    def estimate_variance(self, record: PathRecord, steps: int) -> Variance | None:
        ends = self.ends(steps, record.algorithm.step_exponent())
        if len(ends) < 3:
            return None
        sums = record.sums_at(ends)
        base, mean = sums[:-1], sums[-1] / float(steps)
        lengths = np.diff(ends).astype(np.float64)[:, None, None]
        before = ends[:-1].astype(np.float64)[:, None, None]
        total, weighted, squared = (
            np.diff(record.running_at(name, ends[1:])[:, place], axis=0, prepend=0.0)
            for name, place in (("prefix_total", 0), ("self_normalization", 0), ("self_normalization", 1))
        )
        triangle = lengths * (lengths + 1.0) / 2.0
        squares = in_order(squared - 2.0 * base * total + lengths * (base * base))
        products = in_order(weighted - before * total - base * triangle)
        whole = np.diff(ends).tolist()
        q = sum(length * (length + 1) * (2 * length + 1) // 6 for length in whole)
        v = sum(length * (length + 1) // 2 for length in whole)
        variance = squares - 2.0 * products * mean + float(q) * (mean * mean)
        return Variance(np.maximum(variance, 0.0) / float(v))


class Lugsail(MethodAround, VarianceMethod):
    """Interval with the lugsail variance of equal batches or of batch means."""

    kind: Literal["LUG"] = "LUG"
    cites = ("vats2022",)
    title = "lugsail: a variance overcorrected on purpose (Vats and Flegal, 2022)"
    undefined_where = "there are fewer than two batches, or the estimated variance is not positive"

    PASSED_ON = ("M", "block_rule", "block_c")

    base: Annotated[Literal["EBS", "BM"], BASE] = "EBS"
    pieces: Annotated[int, Field(ge=2, le=1000), Setting("count", "number r of pieces of a batch in LUG")] = 3
    weight: Annotated[
        float, Field(ge=0, lt=1), Setting("1", "weight kappa of the shorter batches in LUG")
    ] = 0.5
    block_rule: BatchRule | None = None
    block_c: BatchFactor | None = None
    M: Batches | None = None

    def cut(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """e_0, and e_(k-1) + floor(j n_k/r) for every batch k and j = 1, ..., r."""
        parts = np.arange(1, self.pieces + 1, dtype=np.int64)
        inner = ends[:-1, None] + parts * np.diff(ends)[:, None] // self.pieces
        return np.concatenate([ends[:1], inner.reshape(-1)])

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        base: Any = self.base_method()
        gamma = algorithm.step_exponent()
        if isinstance(base, BatchMeans):
            cut = self.cut(base.ends(steps, gamma))
            return np.unique(cut[cut > 0])
        ends, short = base.times(steps, algorithm), base.size(steps, gamma) // self.pieces
        return np.union1d(ends, equal_ends(steps, short)[1:]) if short else ends

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        base: Any = self.base_method()
        if isinstance(base, BatchMeans):
            return 1 + self.pieces * base.batches(steps)
        size: int = base.size(steps, algorithm.step_exponent())
        return steps // size + 1 + (steps // (size // self.pieces) if size >= self.pieces else 0)

    def estimate_variance(self, record: PathRecord, steps: int) -> Variance | None:
        base: Any = self.base_method()
        gamma = record.algorithm.step_exponent()
        if isinstance(base, EqualBatches):
            size = base.size(steps, gamma)
            if size < self.pieces or steps // size < 2:
                return None
            long = equal_batch_variance(record, steps, size)
            short = equal_batch_variance(record, steps, size // self.pieces)
        else:
            ends = base.ends(steps, gamma)
            lengths = np.diff(ends)
            if len(lengths) < 2 or (lengths < self.pieces).any():
                return None
            long, short = batch_variance(record, ends), batch_variance(record, self.cut(ends))
        return Variance((long - self.weight * short) / (1.0 - self.weight))
