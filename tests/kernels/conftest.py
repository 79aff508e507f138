"""An empty cache of kernels for one test."""

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
