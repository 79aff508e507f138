"""Memory does not grow with the transcript."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, resource, sys
from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.mechanisms.randomized_response import RandomizedResponse
from ldpflow.components.problems.quantile import Quantile
from ldpflow.simulators.one_pass import OnePass
from ldpflow.practice.transcripts.analysis import analyse
from ldpflow.practice.transcripts.collection import read_settings
from ldpflow.practice.transcripts.writing import write_transcript

file, rows = sys.argv[1], int(sys.argv[2])
if sys.argv[3] == "write":
    path = OnePass(Quantile(tau=0.9), RandomizedResponse(epsilon=1.0), LdpSgd(c=2.0))
    write_transcript(path, 1, 0, rows, file)
else:
    analysis = analyse(file, read_settings(file + ".toml") if file.endswith("csv") else None)
    assert analysis.users == rows and analysis.reported() is not None
    print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
"""


def run(*arguments):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_ten_million_rows(tmp_path, kind):
    """Peak of a process, MiB: 10^7 rows take at most 100 more than 10^5; the Parquet file has 120."""
    peaks = {}
    for rows in (10**5, 10**7):
        file = tmp_path / f"{rows}.{kind}"
        run(file, rows, "write")
        peaks[rows] = json.loads(run(file, rows, "read"))
    assert peaks[10**7] < peaks[10**5] + 100
