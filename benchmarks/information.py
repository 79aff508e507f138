"""Times of other programs on the quantile problem, without a target."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.designs import GAMMA, SEED, TAU, C, cells, kernel, quantile
from benchmarks.effort import Effort
from benchmarks.measurement import Measurement, Skipped
from benchmarks.peers import vectorised_quantile
from benchmarks.timing import cpu_seconds

UNIT = "ns per step and replicate"
REPETITIONS = 5


def nanoseconds(name: str, what: str, work: Callable[[], object], units: float) -> list[Measurement]:
    """A row without a target."""
    work()
    values = [1e9 * cpu_seconds(work) / units for _ in range(REPETITIONS)]
    return [Measurement(name, what, UNIT, values, None, "lower")]


def lockstep_row(effort: Effort) -> list[Measurement]:
    """Time of ldpflow, for comparison with the other programs."""
    work, units = kernel(quantile(), cells(effort.steps, "BB", "BM"))
    return nanoseconds("ldpflow", "ldpflow, one core", work, units)


def numpy_row(effort: Effort) -> list[Measurement]:
    """Time of NumPy, which makes one step of all replicates at a time."""
    replicates, n = 500, effort.steps // 100
    path = quantile()
    p = 1.0 / (1.0 + np.exp(-path.mechanism.epsilon))  # type: ignore[attr-defined]
    rng = np.random.default_rng(SEED)
    truth = path.problem.truth()[0]
    return nanoseconds(
        "numpy",
        f"NumPy, vectorised over {replicates} replicates",
        lambda: vectorised_quantile(rng, replicates, n, TAU, p, C, GAMMA, truth),
        n * replicates,
    )


def jax_row(effort: Effort) -> list[Measurement]:
    """Time of JAX on the processor, with lax.scan over steps in double precision."""
    try:
        import jax
    except ImportError:
        raise Skipped("JAX is not installed") from None
    import jax.numpy as jnp

    replicates, n = 512, effort.steps // 100
    path = quantile()
    p = 1.0 / (1.0 + np.exp(-path.mechanism.epsilon))  # type: ignore[attr-defined]
    truth = path.problem.truth()[0]

    def step(carry, i):  # type: ignore[no-untyped-def]
        theta, total, key = carry
        key, for_data, for_noise = jax.random.split(key, 3)
        bit = jax.random.normal(for_data, (replicates,)) <= theta
        report = bit == (jax.random.uniform(for_noise, (replicates,)) < p)
        gradient = (report - (1.0 - p)) / (2.0 * p - 1.0) - TAU
        theta = theta - C * i**-GAMMA * gradient
        return (theta, total + theta - truth, key), None

    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        start = (jnp.zeros(replicates), jnp.zeros(replicates), jax.random.key(SEED))
        run = jax.jit(lambda: jax.lax.scan(step, start, jnp.arange(1.0, n + 1.0))[0])
        # JAX computes in threads of its own, so the time of the process is taken.
        import time

        run()[1].block_until_ready()
        values = []
        for _ in range(REPETITIONS):
            before = time.process_time()
            run()[1].block_until_ready()
            values.append(1e9 * (time.process_time() - before) / (n * replicates))
    what = f"JAX {jax.__version__}, lax.scan over {replicates} replicates, CPU time of all threads"
    return [Measurement("jax", what, UNIT, values, None, "lower")]


def run_r(script: str, *words: object) -> dict[str, Any]:
    """Run an R script of this folder and read its JSON.

    Raises
    ------
    Skipped
        If R or an R package is missing.
    """
    program = shutil.which("Rscript")
    if program is None:
        raise Skipped("Rscript is not on the PATH")
    command = [program, "--vanilla", str(Path(__file__).with_name(script)), *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        message = (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
        raise (Skipped if "is not installed" in message else RuntimeError)(f"R: {message}")
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


def r_row(effort: Effort) -> list[Measurement]:
    """Time of a plain loop in R, byte-compiled, as a user would write it."""
    answer = run_r("peers.R", "loop", effort.steps, REPETITIONS)
    what = f"R {answer['version']}, plain loop, variates drawn in bulk beforehand"
    return [Measurement("r", what, UNIT, answer["ns"], None, "lower")]


def sgdinference_row(effort: Effort) -> list[Measurement]:
    """Time of the R package SGDinference (C++): quantile regression on an intercept and x, not private."""
    answer = run_r("peers.R", "SGDinference", effort.steps, REPETITIONS)
    what = f"R package SGDinference {answer['version']}, sgdi_qr with one regressor, not private"
    return [Measurement("sgdinference", what, UNIT, answer["ns"], None, "lower")]
