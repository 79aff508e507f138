"""Limits of a sweep on systems that cannot measure what is limited."""

from __future__ import annotations

import sys

import pytest

from ldpflow.engine.loop import limits, memory_in_use
from ldpflow.errors import InputError


def test_memory_cannot_be_limited_where_it_cannot_be_measured(monkeypatch, tmp_path):
    assert memory_in_use() > 10_000_000
    monkeypatch.setattr(sys.modules["ldpflow.engine.loop"], "PROCESSES", tmp_path)
    assert memory_in_use() == 0
    with pytest.raises(InputError, match="max_memory"):
        limits(max_bytes=10**9)
    assert limits(max_seconds=100.0)() is None
