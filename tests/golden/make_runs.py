"""``python -m tests.golden.make_runs`` makes the stored runs of run-v1, with the ldpflow that is imported.

They are of version 0.1.0 and stay as they are. What says where they were made is taken out of their
provenance, which stays a valid one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

from tests.golden import adapter
from tests.golden.canonical import table_hash
from tests.golden.make import HERE

__all__ = ["RUNS", "RUN_NAMES", "run_results", "sums_of_bits"]

RUNS = HERE / "run-v1"
RUN_NAMES = ("one-pass", "finite-sum")


def sums_of_bits():
    """Hash of what the C library and SciPy return here for the functions that a diagnosis takes.

    Between seed and row there is none of them; the summary's diagnosis and theory's lines use them, and
    their last bits depend on version and processor.
    """
    import hashlib
    import math

    import numpy as np
    from scipy.special import ndtr

    x = np.arange(-400, 401) / 64.0
    values = [*ndtr(x).tolist(), float(np.sum(ndtr(x))), float(np.var(x * x))]
    values += [f(float(v)) for f in (math.exp, math.tanh) for v in x]
    values += [f(float(v)) for f in (math.log, math.sqrt) for v in x[401:]]
    values += [float(v) ** p for p in (0.3, 0.51, -0.6, 1.5) for v in x[401:]]
    return hashlib.sha256(" ".join(map(float.hex, values)).encode()).hexdigest()


def run_results(run):
    """Hashes of the rows of a run, and the columns that they are over."""
    found = {}
    for kind, table in adapter.read_run(run)._asdict().items():
        columns = table.column_names
        found[kind] = {
            "count": table.num_rows,
            "columns": columns,
            "sha256": table_hash(table, columns),
        }
    return found


def without_place(run, command):
    """Take the command line's paths and the machine's name out of the provenance."""
    file = run / "provenance.json"
    (session,) = json.loads(file.read_text())
    session["command"] = command
    session["machine"] |= {"host": "golden", "platform": "Linux", "processor": "x86-64"}
    session["machine"] |= {"cores": 1, "cores_usable": 1}
    file.write_text(json.dumps([session], indent=2) + "\n")


def main():
    """Make the runs and runs.json."""
    results = {"sums_of_bits": sums_of_bits()}
    for name in RUN_NAMES:
        run = RUNS / name
        shutil.rmtree(run, ignore_errors=True)
        arguments = ["sweep", f"{name}.toml", "--out", name, "--engine", "serial", "--quiet"]
        subprocess.run([sys.executable, "-m", "ldpflow", *arguments], cwd=RUNS, check=True)
        without_place(run, " ".join(["ldpflow", *arguments]))
        results[name] = run_results(run)
    (HERE / "runs.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
