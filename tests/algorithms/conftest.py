"""Kernels of algorithms over a fixed data set, without a compiler."""

from __future__ import annotations

import pytest

from tests.kernels import uncompiled


@pytest.fixture
def plain(monkeypatch):
    """They run as plain Python in this test."""
    monkeypatch.setattr(
        "ldpflow.simulators.finite_sum_kernel.finite_sum_kernel", uncompiled.finite_sum_kernel
    )
