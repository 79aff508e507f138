"""Law of a column of data: a quadratic spline for its quantile function.

    Q(u) = Q_j + d (s_j + d r_j),   d = u - p_j,   r_j = (s_{j+1} - s_j) / (2 (p_{j+1} - p_j))

for u in the cell (p_j, p_{j+1}), with Q_j = Q(p_j) and s_j = Q'(p_j). Q' is continuous and positive, and
linear in each cell. So the density 1/Q' is continuous, and the distribution function needs one square root.
N is the number of values. Each octave of min(p, 1 - p) from 1/2 down to 2^-floor(log2(N/8)) has 16 equal
cells. So the exponent of a uniform number and four bits of its mantissa give its cell.

The sparsities s_j are differences of two means of the sorted column, divided by 2h. One mean is over the
values at levels between p_j - 2h and p_j, and the other over those between p_j and p_j + 2h. Here

    h = t min(1, (N t)^(-1/5)) / 2,   t = min(p_j, 1 - p_j).

Additions, multiplications, divisions and correctly rounded roots in a fixed order make the table, so it has
equal bits on every machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

from ldpflow.components.problems.tables import FIELDS, DataColumn, check_digest, read_column
from ldpflow.components.problems.transform import Transform, forward
from ldpflow.errors import InputError
from ldpflow.numerics import constants

Floats = NDArray[np.float64]

CELLS = 16  # per octave of min(p, 1 - p)
MOST_TIED, MOST_RECORDS = 4096, 2**20  # different values, and records, of a column with ties = "keep"
SMALLEST = 100  # fewest values that determine a law


@dataclass(frozen=True)
class ColumnLaw:
    """Smooth law of a column of N = ``size`` values.

    ``sparsities`` are s_j, ``median`` is Q(1/2), and ``spacing`` is from :func:`lattice_spacing`. ``dropped``
    is the number of records without a value, which do not count in N.
    """

    size: int
    sparsities: tuple[float, ...] = field(repr=False)
    median: float
    spacing: float = 0.0
    dropped: int = 0

    def text(self) -> str:
        """Numbers N and ``dropped``, and spacing, median and s_j in hexadecimal."""
        numbers = (self.spacing, self.median, *self.sparsities)
        return " ".join([str(self.size), str(self.dropped), *(value.hex() for value in numbers)])

    @classmethod
    def of_text(cls, text: str) -> ColumnLaw:
        size, dropped, *numbers = text.split()
        spacing, median, *sparsities = map(float.fromhex, numbers)
        law = cls(int(size), tuple(sparsities), median, spacing, int(dropped))
        finite = all(map(math.isfinite, (spacing, median, *sparsities)))
        if not finite or min(law.size - SMALLEST, law.dropped, *sparsities) < 0 or 0.0 in sparsities:
            raise ValueError("the numbers are not those of a law of a column")
        if law.size > 10**12 or len(sparsities) != len(law.p):
            raise ValueError(f"a law of {size} values has {len(law.p)} sparsities, not {len(sparsities)}")
        return law

    @property
    def p(self) -> Floats:
        return knots(self.size)

    @cached_property
    def s(self) -> Floats:
        return np.array(self.sparsities)

    @cached_property
    def q(self) -> Floats:
        steps = np.diff(self.p) * (self.s[:-1] + self.s[1:]) / 2
        below = np.concatenate([[0.0], np.cumsum(steps)])
        return np.asarray(below - below[len(below) // 2] + self.median)

    @cached_property
    def r(self) -> Floats:
        return 0.5 * (np.diff(self.s) / np.diff(self.p))

    def cell(self, u: Floats) -> NDArray[np.intp]:
        found = np.searchsorted(self.p, u, side="right") - 1
        return np.clip(found, 0, len(self.p) - 2)

    def quantiles(self, u: Floats) -> Floats:
        """Q(u) for u in [0, 1]. For u > 1/2 it is expanded around the cell's upper knot, as in kernels."""
        j = self.cell(np.minimum(u, 1.0 - u))
        d = np.minimum(u, 1.0 - u) - self.p[j]
        k = len(self.p) - 2 - j
        lower = self.q[j] + d * (self.s[j] + d * self.r[j])
        upper = self.q[k + 1] - d * (self.s[k + 1] - d * self.r[k])
        return np.asarray(np.where(u > 0.5, upper, lower))

    def quantile(self, t: Any) -> float:
        return float(self.quantiles(np.array([float(t)]))[0])

    def sampling_table(self) -> Floats:
        from ldpflow.numerics.distributions import HALF, WIDTHS, cell_edges

        t = cell_edges()
        table = np.zeros((2 * HALF, WIDTHS["empirical"]))
        # Cells of the lower half go up from u = t, and cells of the upper half go down from u = 1 - t.
        j = self.cell(t)
        d = t - self.p[j]
        below = (self.q[j] + d * (self.s[j] + d * self.r[j]), self.s[j] + 2.0 * d * self.r[j], self.r[j])
        j = len(self.p) - 2 - j
        d = t - (1.0 - self.p[j + 1])
        q, s, r = self.q[j + 1], self.s[j + 1], self.r[j]
        above = (q - d * (s - d * r), -(s - 2.0 * d * r), r)
        table[:HALF, :3] = np.column_stack(below)
        table[HALF:, :3] = np.column_stack(above)
        return table.reshape(-1)

    def cdf_values(self, x: Floats) -> Floats:
        """F(x) for an array x. 0 below the range, and 1 above it."""
        x = np.clip(x, self.q[0], self.q[-1])
        j = np.clip(np.searchsorted(self.q, x, side="right") - 1, 0, len(self.q) - 2)
        d = x - self.q[j]
        s = self.s[j]
        return self.p[j] + 2.0 * d / (s + np.sqrt(s * s + 4.0 * d * self.r[j]))

    def sparsity(self, tau: float) -> float:
        j = int(self.cell(np.array([tau]))[0])
        return float(self.s[j] + (tau - self.p[j]) * (2.0 * self.r[j]))

    def slope(self, tau: float) -> float:
        """f'(Q(tau)) = -Q"(tau)/Q'(tau)^3 for the density f. At a knot Q" is the mean of both cells."""
        j = int(self.cell(np.array([tau]))[0])
        bend = self.r[j] if tau > self.p[j] else 0.5 * (self.r[j - 1] + self.r[j])
        return float(-2.0 * bend / self.sparsity(tau) ** 3)


@dataclass(frozen=True)
class Records:
    """Law of a record that is drawn with replacement from a column. It has no density.

    ``values`` are the different values in increasing order, ``counts`` their numbers of records. Fixed noise
    of width ``jitter`` is added to each record (None: no noise). Then ``transform`` is applied.
    """

    values: tuple[float, ...] = field(repr=False)
    counts: tuple[int, ...] = field(repr=False)
    dropped: int = 0
    jitter: float | None = None
    transform: Transform = None
    spacing: ClassVar[float] = 0.0

    @classmethod
    def of_column(cls, column: DataColumn, jitter: float | None, transform: Transform) -> Records:
        values, counts = np.unique(column.values, return_counts=True)
        if len(values) > MOST_TIED or len(column.values) > MOST_RECORDS:
            hint = f"It has {len(values):,} values in {len(column.values):,} records."
            allowed = f"a column of at most {MOST_TIED:,} values and {MOST_RECORDS:,} records"
            raise InputError("problem.ties", "keep", allowed, hint)
        return cls(tuple(values.tolist()), tuple(counts.tolist()), column.dropped, jitter, transform)

    def text(self) -> str:
        """Number ``dropped``, then each value in hexadecimal with its count."""
        pairs = zip(self.values, self.counts, strict=True)
        return " ".join([str(self.dropped), *(f"{value.hex()} {count}" for value, count in pairs)])

    @classmethod
    def of_text(cls, text: str, jitter: float | None, transform: Transform) -> Records:
        dropped, *pairs = text.split()
        values, counts = tuple(map(float.fromhex, pairs[::2])), tuple(map(int, pairs[1::2]))
        rising = all(a < b for a, b in pairwise(values)) and all(map(math.isfinite, values))
        fits = 1 <= len(values) == len(counts) <= MOST_TIED and 0 < sum(counts) <= MOST_RECORDS
        if not (rising and fits and min(*counts, int(dropped)) >= 0):
            raise ValueError("the numbers are not those of the values of a column")
        return cls(values, counts, int(dropped), jitter, transform)

    @property
    def size(self) -> int:
        return sum(self.counts)

    @cached_property
    def records(self) -> Floats:
        x = np.repeat(np.array(self.values), self.counts)
        return forward(self.transform, np.sort(x if self.jitter is None else add_jitter(x, self.jitter)))

    def quantile(self, t: Any) -> float:
        at = math.ceil(float(t) * self.size) - 1
        return float(self.records[min(max(at, 0), self.size - 1)])

    def cdf_values(self, x: Floats) -> Floats:
        return np.asarray(np.searchsorted(self.records, x, side="right") / self.size)

    def sparsity(self, tau: float) -> float:
        return math.nan

    slope = sparsity

    def sampling_table(self) -> Floats:
        return self.records


@lru_cache(maxsize=64)
def knots(size: int) -> Floats:
    """Knots p_j from 0 to 1 of the law of a column of ``size`` values."""
    octaves = max(2, (size // 8).bit_length() - 1)  # floor(log2(size / 8))
    low = [2.0**e * (1.0 + k / CELLS) for e in range(-octaves, -1) for k in range(CELLS)]
    half = np.array([0.0, *low, 0.5])
    return np.concatenate([half, 1.0 - half[:-1][::-1]])


@lru_cache(maxsize=64)
def knot_bandwidths(size: int) -> Floats:
    inner = knots(size)[1:-1]
    return bandwidth(np.minimum(inner, 1.0 - inner), size)


def bandwidth(t: Floats, size: int) -> Floats:
    """h = t min(1, (N t)^(-1/5)) / 2. The root is correctly rounded."""
    with constants.workdps(40):
        roots = [float(mp.root(mpf(value), 5)) for value in (size * t).tolist()]
    return np.asarray(np.minimum(0.5 * t / np.array(roots), 0.5 * t))


def column_law(values: Floats, counts: NDArray[np.int64] | None = None, dropped: int = 0) -> ColumnLaw:
    """Law of finite values that are not all equal. With ``counts`` of records, values must be sorted."""
    if counts is None:
        x = np.sort(np.asarray(values, dtype=np.float64) + 0.0)
        before: NDArray[np.int64] = np.arange(len(x) + 1)
        prefix = np.concatenate([[0.0], np.cumsum(x)])
    else:
        x, counts = values[counts > 0], counts[counts > 0]
        before = np.concatenate([[0], np.cumsum(counts)])
        prefix = np.concatenate([[0.0], np.cumsum(counts * x)])
    size = int(before[-1])
    p = knots(size)

    def integral(u: Floats) -> Floats:
        t = u * size
        i = np.minimum(np.searchsorted(before, t, side="right") - 1, len(x) - 1)
        return np.asarray((prefix[i] + (t - before[i]) * x[i]) / size)

    inner, h = p[1:-1], knot_bandwidths(size)
    right = np.minimum(inner + 2.0 * h, 1.0)
    left = np.maximum(inner - 2.0 * h, 0.0)
    middle = integral(inner)
    above = (integral(right) - middle) / (right - inner)
    below = (middle - integral(left)) / (inner - left)
    s = np.empty(len(p))
    s[1:-1] = (above - below) / (2.0 * h)
    s[0], s[-1] = s[1], s[-2]
    s = np.maximum(s, 1e-9 * (x[-1] - x[0]))
    halves = np.searchsorted(before, [(size - 1) // 2, size // 2], side="right") - 1
    median = float((x[halves[0]] + x[halves[1]]) / 2)
    spacing = 0.0 if counts is not None else lattice_spacing(x)
    return ColumnLaw(size, tuple(s.tolist()), median, spacing, dropped)


def add_jitter(values: Floats, width: float) -> Floats:
    """Sort the values and add width (u - 1/2), which spreads ties evenly.

    For the i-th value u is the fractional part of i times the golden ratio.
    """
    x = np.sort(np.asarray(values, dtype=np.float64) + 0.0)
    turns = np.arange(len(x), dtype=np.uint64) * np.uint64(11400714819323198485)
    u = (turns >> np.uint64(12)).astype(np.float64) * 2.0**-52
    return np.asarray(x + width * (u - 0.5))


def lattice_spacing(values: Floats) -> float:
    """Spacing of sorted values on a lattice: all gaps are multiples of it, up to a relative error of 1e-9.

    0 if there is no such spacing, or if fewer than half of the values are tied.
    """
    different, counts = np.unique(values, return_counts=True)
    if len(different) < 2 or counts[counts > 1].sum() < 0.5 * len(values):
        return 0.0
    gaps = np.diff(different)
    total = different[-1] - different[0]
    spacing = total / np.round(total / gaps.min())
    times = gaps / spacing
    rounding = 4.0 * np.finfo(float).eps * np.abs(different).max() / spacing
    return float(spacing) if (np.abs(times - np.round(times)) <= 1e-9 * times + rounding).all() else 0.0


def share_of_one_value(values: Floats, tau: float) -> tuple[float, float, float]:
    """The tau-quantile, the share of records with this value, and 2h, the share that the law smooths."""
    x = np.sort(values)
    value = float(x[min(int(tau * len(x)), len(x) - 1)])
    t = np.array([min(tau, 1.0 - tau)])
    return value, float(np.mean(x == value)), float(2.0 * bandwidth(t, len(x))[0])


class Atom(NamedTuple):
    """Value that many records share. It is the quantile of every level in (below, below + share]."""

    value: float
    share: float
    below: float


NEIGHBOURS = 2  # on each side
ATOM_SHARE, ATOM_COUNT, ATOM_RATIO = 0.005, 20, 3.0


def atoms(column: DataColumn) -> tuple[Atom, ...]:
    """Values with more records than a rounded continuous law gives, in increasing order.

    An atom has at least .5% of the records, at least 20 records, and at least three times the median count of
    its neighbours. Its neighbours are the two nearest other values on each side.
    """
    values, counts = np.unique(column.values, return_counts=True)
    size = len(column.values)
    below = (np.cumsum(counts) - counts) / size
    found = []
    for i in np.flatnonzero(counts >= max(ATOM_COUNT, ATOM_SHARE * size)):
        others = np.r_[counts[max(i - NEIGHBOURS, 0) : i], counts[i + 1 : i + 1 + NEIGHBOURS]]
        if counts[i] >= ATOM_RATIO * np.median(others):
            found.append(Atom(float(values[i]), float(counts[i] / size), float(below[i])))
    return tuple(found)


def jitter_width(column: DataColumn, value: float) -> float:
    """Distance from a value to the nearest other atom. Without another atom it is the lattice spacing."""
    gaps = [abs(atom.value - value) for atom in atoms(column) if atom.value != value]
    return min(gaps, default=lattice_spacing(np.sort(column.values)))


# Values beyond a quantile, on the side with fewer values.
FEWEST_BEYOND = 20  # with fewer the quantile is refused
LAW_FROM = 50  # with fewer its density is rough


def load_column(
    file: str, column: str | None = None, sha256: str | None = None, **options: Any
) -> DataColumn:
    """Read a column with at least SMALLEST values. ``options`` are those of :func:`read_column`.

    A column is kept in memory under the digest of its file. A file is refused if its digest differs from
    ``sha256``, or if the file changes while it is read.
    """
    return read_once(check_digest(file, sha256, options.get("fields", FIELDS)[0]), file, column, **options)


@lru_cache(maxsize=2)
def read_once(digest: str, file: str, column: str | None, **options: Any) -> DataColumn:
    found = read_column(file, column, **options)
    of_file, of_column = options.get("fields", FIELDS)
    check_digest(file, digest, of_file)
    if len(found.values) < SMALLEST:
        hint = f"It has {len(found.values):,}."
        raise InputError(of_column, found.name, f"at least {SMALLEST} values", hint)
    return replace(found, sha256=digest)


def jittered_values(column: DataColumn, jitter: float | None) -> NDArray[np.float64]:
    return column.values if jitter is None else add_jitter(column.values, jitter)


@lru_cache(maxsize=16)
def law_of_column(column: DataColumn, jitter: float | None, transform: Transform = None) -> ColumnLaw:
    """Law of T(X + noise) for a record X, with T = ``transform``."""
    return column_law(forward(transform, jittered_values(column, jitter)), dropped=column.dropped)


def check_level(
    column: DataColumn, jitter: float | None, tau: float, field: str = "problem.tau", atoms: bool = False
) -> None:
    """Refuse a quantile with too few values beyond it, or, unless ``atoms``, one that many records share."""
    size = len(column.values)
    tail = min(tau, 1.0 - tau)
    if size * tail < FEWEST_BEYOND * (1 - 1e-12):
        allowed = f"a level with at least {FEWEST_BEYOND} values beyond it"
        hint = f"The column has {size:,} values: the {tau:g} quantile needs {-(-FEWEST_BEYOND // tail):,.0f}."
        raise InputError(field, tau, allowed, hint)
    value, share, smoothed = share_of_one_value(jittered_values(column, jitter), tau)
    if share > smoothed and not atoms:
        hint = f"The {tau:g} quantile is a value that {share:.0%} of the records have."
        if jitter is None and (width := jitter_width(column, value)):
            hint += f" jitter = {width:g} adds noise of that width to every value."
        raise InputError(field, tau, "a level where values differ", hint)
