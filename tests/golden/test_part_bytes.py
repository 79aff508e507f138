"""A part with fixed rows and metadata has the bytes that it had, as long as the schema's version stays."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from tests.golden.make import HERE, part_results

STORED = json.loads((HERE / "parts.json").read_text())

pytestmark = pytest.mark.skipif(
    pa.__version__ != STORED["pyarrow"],
    reason=f"bytes of Parquet files depend on pyarrow; these are of {STORED['pyarrow']}",
)


def test_bytes_of_a_part(tmp_path):
    assert part_results(tmp_path) == STORED
