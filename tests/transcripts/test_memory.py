"""Memory does not grow with the transcript."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ldpflow as lf
from ldpflow.practice.transcripts.writing import write_transcript
from ldpflow.simulators.one_pass import OnePass

PROGRAM = """
import resource, sys
from ldpflow.cli import main
assert main(["analyse", sys.argv[1], "--format", "json"]) == 0
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_ten_million_rows(tmp_path, kind):
    """Peak of a process, MiB: 10^7 rows take at most 100 more than 10^5; the Parquet file has 120."""
    path = OnePass(lf.Quantile(tau=0.9), lf.RandomizedResponse(epsilon=1.0), lf.LdpSgd(c=2.0))
    peaks = []
    for rows in (10**5, 10**7):
        file = tmp_path / f"{rows}.{kind}"
        write_transcript(path, 1, 0, rows, file)
        done = subprocess.run([sys.executable, "-c", PROGRAM, file], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        peaks.append(float(done.stderr.split()[-1]))
    assert peaks[1] < peaks[0] + 100
