"""One side of benchmarks.kernel_baseline: a process that prepares and runs kernels and times them.

    PYTHONPATH=CHECKOUT python -P benchmarks/kernel_worker.py

It imports the ldpflow of PYTHONPATH and nothing else of a checkout. So one version of this file measures two
versions of ldpflow. Requests and answers are lines of JSON. ``{"prepare": study}`` compiles a kernel or loads
it from the cache. ``{"run": true}`` runs all lanes. ``{"where": true}`` returns the file of the measured
package.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

Work = tuple[Callable[[], object], Callable[[], object], int]
"""Callables that prepare and run a kernel, and its number of steps times replicates."""


def piece_of_work(mapping: Mapping[str, Any]) -> Work:
    """Work of a study with one path. All names of ldpflow that this file uses are here.

    Older layouts, without a package `numerics` or `kernels`, can be measured too.
    """
    from ldpflow.study import Study

    if importlib.util.find_spec("ldpflow.numerics") is None:
        from ldpflow.random.lockstep import LANES
    else:
        from ldpflow.numerics.streams import LANES

    study = Study.from_mapping(mapping)
    (plan,) = study.plans()
    if hasattr(plan, "simulator"):
        simulator, request = plan.simulator, plan.request()
        return (
            lambda: simulator.prepare(request),
            lambda: simulator.run(study.seed, range(LANES), request),
            simulator.cost(request, LANES).steps,
        )
    if importlib.util.find_spec("ldpflow.kernels") is None:
        from ldpflow.algorithms.kernels import kernel_of, run_path
        from ldpflow.simulate import Recording
    else:
        from ldpflow.simulators.batch import Recording

        from ldpflow.simulators.one_pass import kernel_of, run_path

    wanted = Recording.of(plan.path, plan.cells, plan.checkpoints)

    def prepare() -> object:
        return kernel_of(plan.path, tuple(wanted.sums))

    def run() -> object:
        return run_path(plan.path, study.seed, range(LANES), wanted.times, wanted.marked, wanted.sums)

    return prepare, run, wanted.times[-1] * LANES


def prepared(mapping: Mapping[str, Any]) -> tuple[Callable[[], object], dict[str, Any]]:
    """Prepare a kernel. Return a callable that runs it, and an answer with ``ready`` and ``steps``.

    ``ready`` has the CPU seconds to compile or load the kernel, with what its first run compiles or loads.
    Importing the compiler and the package is not included.
    """
    import llvmlite.binding
    import numba

    del llvmlite, numba
    prepare, run, steps = piece_of_work(mapping)
    preparing, first, second = (cpu_seconds(work) for work in (prepare, run, run))
    return run, {"ready": preparing + max(first - second, 0.0), "steps": steps}


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time of this process."""
    before = time.process_time()
    work()
    return time.process_time() - before


def main() -> None:
    """Answer requests until there are no more."""
    run: Callable[[], object] | None = None
    for line in sys.stdin:
        request = json.loads(line)
        if "prepare" in request:
            run, answer = prepared(request["prepare"])
        elif "run" in request:
            assert run is not None, "prepare comes first"
            before = time.thread_time()
            run()
            answer = {"cpu": time.thread_time() - before}
        else:
            import ldpflow

            answer = {"file": ldpflow.__file__, "version": ldpflow.__version__}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
