"""Measures for people who look before the end: coverage at every n, and where a length is reached.

The rows of a replicate at several n share a path, so that a replicate can be followed over them:

* ``coverage_all_n``: the share of replicates whose interval covers at every n from ``first_n`` on. It falls
  as more n are looked at.
* Stopping at a target length: N is the first n, from ``first_n`` on, at which the interval is defined and
  shorter than the target; how often, where, and how often the interval covers there.

Columns of n come in increasing order throughout.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpflow.results.measures import rate

__all__ = ["Looks", "coverage_at_every_n", "coverage_at_stop"]

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Looks:
    """What is seen of R replicates at G numbers of users.

    Parameters
    ----------
    n : ndarray of int64, shape (G,)
        Increasing.
    covered : ndarray of bool, shape (R, G)
        Whether the interval holds the truth; False where there is none.
    defined : ndarray of bool, shape (R, G)
        Whether there is an interval: status ok.
    short : ndarray of bool, shape (R, G)
        Whether there is one and it is shorter than the target.
    """

    n: NDArray[np.int64]
    covered: Flags
    defined: Flags
    short: Flags

    def since(self, first_n: int, last_n: int) -> Looks:
        """The looks at first_n <= n <= last_n."""
        wanted = (self.n >= first_n) & (self.n <= last_n)
        return Looks(self.n[wanted], self.covered[:, wanted], self.defined[:, wanted], self.short[:, wanted])


def coverage_at_every_n(looks: Looks) -> dict[str, float]:
    """Coverage at all n at once, over replicates that are defined at all of them, and over all.

    Nothing without a look; ``looks`` is how many there are.
    """
    if looks.n.size == 0:
        return {}
    whole: Flags = np.asarray(looks.defined.all(axis=1))
    everywhere = int((looks.covered & looks.defined).all(axis=1).sum())
    result = {"looks": float(len(looks.n))}
    result |= rate("coverage_all_n_failures_as_misses", everywhere, looks.defined.shape[0])
    if (count := int(whole.sum())) > 0:
        result |= rate("coverage_all_n", everywhere, count)
    return result


def coverage_at_stop(looks: Looks) -> dict[str, float]:
    """Where replicates stop, and how often the interval covers there.

    ``stopped_share`` is over all replicates; the rest over those that have stopped.
    """
    if looks.n.size == 0:
        return {}
    below = looks.short & looks.defined
    stopped: Flags = np.asarray(below.any(axis=1))
    count = int(stopped.sum())
    result = rate("stopped_share", count, looks.defined.shape[0])
    if count == 0:
        return result
    first = below.argmax(axis=1)[stopped]
    hits = looks.covered[stopped, first]
    result |= rate("coverage_at_stop", int(hits.sum()), count)
    ends = looks.n[first].astype(np.float64)
    result["stop_n_mean"] = float(ends.sum()) / count
    result["stop_n_median"] = float(np.median(ends))
    return result
