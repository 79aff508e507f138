"""An empty cache of kernels for one test, and how many kernels were loaded and compiled."""

import pytest

from ldpflow.numerics import kernels


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """$LDPFLOW_CACHE_DIR, not made yet; no kernel is loaded."""
    monkeypatch.setenv("LDPFLOW_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernels, "KERNELS", {})
    kernels.cache_folder.cache_clear()
    yield tmp_path / "cache"
    kernels.cache_folder.cache_clear()


def loads() -> tuple[int, int]:
    """Kernels of this process that were loaded from the cache, and that were compiled."""
    stats = [kernel.stats for kernel in kernels.KERNELS.values()]
    return sum(sum(s.cache_hits.values()) for s in stats), sum(sum(s.cache_misses.values()) for s in stats)
