"""A sweep as the server of forks begins, so that they find the compiler and the kernels loaded."""

from tempfile import TemporaryDirectory

from tests.faults.killed_sweeps import sweep
from tests.faults.run_machine import tables

with TemporaryDirectory() as folder:
    sweep(f"{folder}/run", tables([0.5], [1.0], replicates=8), "serial")
