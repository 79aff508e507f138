"""Kernels of this process: how many were loaded from the cache, and how many compiled."""

from ldpflow.numerics import kernels


def loads() -> tuple[int, int]:
    stats = [kernel.stats for kernel in kernels.KERNELS.values()]
    return sum(sum(s.cache_hits.values()) for s in stats), sum(sum(s.cache_misses.values()) for s in stats)
