"""Making a kernel: one algorithm's recursion with one problem's gradient and one mechanism.

Each of them is plain Python in its own file, and so is what all kernels share (see .one_pass). Their
sources are put into one module, the variates that problem and mechanism ask for become the calls that
draw them, and the whole is compiled with the signature written out (see ldpflow.compiled).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.algorithms import budget_split, erm_kernels, one_pass, running_sums
from ldpflow.algorithms.erm import ErmAlgorithm
from ldpflow.algorithms.running_sums import PERTURBED, RUNNING_SUMS, TILE
from ldpflow.algorithms.sources import copied, drawing, entry, module_of, module_source, roles_of
from ldpflow.algorithms.unrolling import unrolled, written_out
from ldpflow.compiled import compiled
from ldpflow.path import Path, PathRecord
from ldpflow.problems.erm import ErmProblem
from ldpflow.problems.laws import Variate
from ldpflow.problems.tables import draw_data
from ldpflow.random.lockstep import LANES

__all__ = ["count_of", "kernel_of", "kernel_source", "run_path"]

Function = Callable[..., Any]

IMPORTS = "from ldpflow.algorithms.one_pass import Record\n"


def accumulating(names: Sequence[str], dimension: int) -> str:
    """Source of what keeps the running sums that are asked for."""
    calls: dict[str, list[str]] = {"transcript": [], "after": []}
    after: list[Function] = []
    tiled: list[Function] = [running_sums.add_plane, running_sums.add_product]
    start = 0
    cleared = []
    for name in names:
        needed = RUNNING_SUMS[name]
        part = getattr(running_sums, needed.function)
        (after if needed.moment == "after" else tiled).append(part)
        arguments = "total, i, lane" if needed.moment == "after" else "tile"
        end = start + needed.count(dimension)
        own = f"sums[{start} * D * LANES : {end} * D * LANES]"
        calls[needed.moment].append(f"    {needed.function}({own}, {arguments})")
        if needed.moment == "transcript":
            cleared.append(f"    {own} = 0.0")
        start = end
    bodies = {moment: "\n".join(lines) or "    pass" for moment, lines in calls.items()}
    tiled_source = inlined(
        *tiled,
        f"def accumulate(sums, tile):\n{bodies['transcript']}\n",
        "def clear(sums):\n" + ("\n".join(cleared) or "    pass") + "\n",
        running_sums.end_step,
        running_sums.restart,
    )
    after_source = inlined(*after, f"def after_step(sums, total, i, lane):\n{bodies['after']}\n")
    # The loops of a tile over the coordinates stay loops: those over the lanes are innermost.
    return unrolled(after_source, dimension) + "\n" + written_out(tiled_source, "TILE", TILE)


def inlined(*functions: str | Function) -> str:
    """Sources of functions that become part of where they are called."""
    return "\n".join(
        f"@inlined\n{f}" if isinstance(f, str) else copied(f, decorator="inlined") for f in functions
    )


NOTHING = {
    name: f"def {name}({arguments}):\n    pass\n"
    for name, arguments in {
        "prepare_chunk": "anchors, theta, problem, mechanism",
        "prepare_step": "g, theta, noise, k, anchors, problem, mechanism",
        "gradient": "g, theta, data, at, lane, parameters",
        "randomise": "g, noise, at, lane, parameters",
    }.items()
}


def private_gradient(path: Path, perturbed: bool) -> list[str]:
    """Sources that make A(g(X_i, theta_{i-1})), or draw it directly (see Mechanism)."""
    problem, mechanism = module_of(path.problem), module_of(path.randomiser)
    if not path.mechanism.replaces_data():
        gradient = problem.gradient
        if path.mechanism.reads_bit():
            gradient = getattr(problem, "gradient_bit", gradient)
        own = {name: getattr(problem, name) for name in path.algorithm.problem_parts()}
        answer = {"randomise": mechanism.randomise}
        if perturbed:
            answer = {"answer": mechanism.randomise, "randomise": budget_split.randomise}
        return named({"gradient": gradient, **answer, **own})
    law = path.problem.bit_law()
    imports = f"from ldpflow.random.distributions import cdf_{law} as cdf\n"
    third = mechanism.THIRD_DERIVATIVES.get(law)
    if third is None or path.algorithm.kind != "ldp_sgd":
        parts = {
            "gradient": problem.bit_probability,
            "randomise": mechanism.randomise_probability,
        }
        return [imports, *named(parts)]
    imports += (
        f"from ldpflow.random.distributions import density_{law} as density\n"
        f"from ldpflow.random.distributions import slope_{law} as slope\n"
        f"THIRD_DERIVATIVE = {third!r}\n"
    )
    parts = {
        "prepare_chunk": mechanism.anchor_private_bit,
        "prepare_step": mechanism.draw_private_bit,
    }
    return [imports, *named(parts)]


def named(parts: dict[str, Callable[..., None]]) -> list[str]:
    """Sources of functions under the names that a recursion calls; the others do nothing."""
    sources = {name: "@jit\n" + nothing for name, nothing in NOTHING.items()}
    for name, part in parts.items():
        sources.pop(name, None)  # each after those that it calls
        sources[name] = copied(part, name)
    return list(sources.values())


@lru_cache(maxsize=1024)
def kernel_source(path: Path, sums: tuple[str, ...], perturbed: bool = False) -> str:
    """The module that runs this kind of path, or a perturbed one, and keeps the sums asked for.

    Read once per process: a source that is edited meanwhile must not be mixed with the loaded code.
    """
    if isinstance(path.algorithm, ErmAlgorithm) and isinstance(path.problem, ErmProblem):
        return erm_kernels.kernel_source(path.problem, path.algorithm)
    d = path.problem.dimension
    sums = tuple(name for name in sums if name != PERTURBED)  # no sum along the path
    data = path.data_variates()
    noise = noise_variates(path, perturbed)
    modules = [module_of(x) for x in (path.algorithm, path.problem, path.randomiser)]
    transcript = any(RUNNING_SUMS[name].moment == "transcript" for name in sums)
    pairs = d * (d + 1) // 2
    constants = {
        "D": d,
        "STATE": d * LANES,
        "SUMS": sum(RUNNING_SUMS[name].count(d) for name in sums) * d * LANES,
        "EXTRAS": len(path.measured()) * LANES,
        "TILE": TILE,
        "TILE_SIZE": 2 * d * TILE * LANES if transcript else 0,
        "PAIRS": pairs,
        "PRODUCTS": TILE * pairs * LANES,
        "ANCHORS": 4 * LANES,
        "PROBLEM_SIZE": len(path.problem.kernel_parameters()),
        "MECHANISM_SIZE": len(path.randomiser.kernel_parameters(path.problem)),
        "PROJECTED": int(path.algorithm.projects()),
        "DATA_PLANES": len(data),
        "NOISE_PLANES": len(noise),
    }
    parts = [
        copied(draw_data) if path.problem.stored_records() else drawing("draw_data", data),
        drawing("draw_noise", noise),
        *private_gradient(path, perturbed),
        copied(modules[0].project) if path.algorithm.projects() else "",
    ]
    made = (
        unrolled(module_source(modules, constants, parts, IMPORTS), d),
        accumulating(sums, d),
        # Written into each other, not called: that compiles sooner, and is optimised as one.
        *(
            unrolled(copied(part, decorator="written"), d)
            for part in (
                running_sums.keep_step, one_pass.add_iterate, one_pass.keep_path, modules[0].recursion
            )
        ),
        unrolled(entry(one_pass.kernel, one_pass.SIGNATURE), d),
    )
    return "\n\n".join(made)


def kernel_of(path: Path, sums: tuple[str, ...], perturbed: bool = False) -> Callable[..., None]:
    """The compiled kernel; the first call of a process compiles it or loads it from the cache."""
    if isinstance(path.problem, ErmProblem):
        erm_kernels.prepare(path.problem)
    if PERTURBED in sums:
        kernel_of(path, (), perturbed=True)
    return compiled(kernel_source(path, sums, perturbed), "kernel")


def noise_variates(path: Path, perturbed: bool) -> tuple[Variate, ...]:
    """Standard variates beside those of the record that one step takes."""
    variates = path.randomiser.variates(path.problem)
    return (*variates, budget_split.WEIGHT) if perturbed else variates


def noise_states(
    path: Path, key: str, seed: int, replicates: Sequence[int]
) -> NDArray[np.uint64]:
    """States of the streams that the mechanism draws from, one role after the other."""
    from ldpflow.random.streams import lane_states

    states = []
    for role in roles_of(path.randomiser.variates(path.problem)):
        if role is None:
            states.append(lane_states(seed, "mechanism", key, replicates))
        elif role == "position":
            states.append(np.zeros(4 * LANES, dtype=np.uint64))
        else:
            states.append(lane_states(seed, role, path.public_key(), replicates))
    return np.concatenate(states)


def data_states(path: Path, seed: int, replicates: Sequence[int]) -> NDArray[np.uint64]:
    """States of the data streams; for stored records every lane's random order of them (a shuffle)."""
    from ldpflow.random.orders import draw_order
    from ldpflow.random.streams import lane_states

    state = lane_states(seed, "data", path.data_key(), replicates)
    if not path.problem.stored_records():
        return state
    count = path.problem.stored_records()
    order = np.empty(count * LANES, dtype=np.int64)
    draw_order(order, state, 0, count)
    # The number of records taken so far, then the order.
    return np.concatenate([np.zeros(1, np.uint64), order.astype(np.uint64)])


def data_parameters(path: Path) -> NDArray[np.float64]:
    """Parameters of the samplers; for stored records their table, row by row."""
    if path.problem.stored_records():
        return path.problem.table().reshape(-1)
    return np.array([v.parameter for v in path.data_variates()])


def count_of(path: Path, name: str) -> int:
    """How many numbers per coordinate a path keeps under the name of a running sum."""
    if name == PERTURBED:
        return path.algorithm.perturbed_paths()
    return RUNNING_SUMS[name].count(path.problem.dimension)


def run_path(
    path: Path,
    seed: int,
    replicates: Sequence[int],
    times: Sequence[int],
    marked: Sequence[int] = (),
    sums: Sequence[str] = (),
    perturbation: int = 0,
) -> PathRecord:
    """Run the path of up to LANES replicates and keep its record.

    Parameters
    ----------
    path : Path
    seed : int
        The study's seed.
    replicates : sequence of int
        At most LANES indices.
    times : sequence of int
        Sorted, distinct step indices to record, the last one being the length of the run.
    marked : sequence of int
        Those of ``times`` at which the running sums are kept too.
    sums : sequence of str
        Names in :data:`ldpflow.algorithms.running_sums.RUNNING_SUMS`, or PERTURBED.
    perturbation : int
        k for the k-th perturbed path: the same users, a stream of its own; 0 for the path itself.
    """
    if isinstance(path.algorithm, ErmAlgorithm):
        return erm_kernels.run_epochs(path, seed, replicates, times)
    if PERTURBED in sums:
        own = [name for name in sums if name != PERTURBED]
        record = run_path(path, seed, replicates, times, marked, own)
        beside = [
            run_path(path, seed, replicates, marked, perturbation=k).prefix_sums
            for k in range(1, path.algorithm.perturbed_paths() + 1)
        ]
        return replace(
            record,
            running_sums=record.running_sums | {PERTURBED: np.stack(beside)},
            marked_times=np.asarray(marked, dtype=np.int64),
        )
    perturbed = perturbation > 0
    kernel = kernel_of(path, tuple(sums), perturbed)
    mechanism = path.randomiser
    mechanism_key = f"{path.key}/perturbed={perturbation}" if perturbed else path.key
    d = path.problem.dimension
    count = sum(RUNNING_SUMS[name].count(d) for name in sums)
    grid = np.asarray(times, dtype=np.int64)
    rows = np.full(len(grid), -1, dtype=np.int64)
    marks = np.asarray(marked if sums else (), dtype=np.int64)
    rows[np.searchsorted(grid, marks)] = np.arange(len(marks))
    prefix_sums = np.empty((len(grid), d * LANES))
    iterates = np.empty((len(grid), d * LANES))
    extras = np.full((len(grid), len(path.measured()) * LANES), np.nan)
    kept = np.empty((len(marks), count * d * LANES))
    origin = np.array(path.problem.truth())
    kernel(
        data_states(path, seed, replicates),
        noise_states(path, mechanism_key, seed, replicates),
        data_parameters(path),
        np.array([v.parameter for v in noise_variates(path, perturbed)]),
        np.array(path.problem.kernel_parameters(), dtype=np.float64),
        np.array(mechanism.kernel_parameters(path.problem), dtype=np.float64),
        np.array(path.algorithm.kernel_parameters(path.horizon)),
        origin,
        grid,
        rows,
        prefix_sums,
        iterates,
        kept,
        extras,
    )
    lanes = len(replicates)
    shaped = kept.reshape(len(marks), count, d, LANES)[..., :lanes].transpose(1, 0, 2, 3)
    by_name = {}
    start = 0
    for name in sums:
        end = start + RUNNING_SUMS[name].count(d)
        by_name[name] = shaped[start:end]
        start = end
    return PathRecord(
        path=path,
        seed=seed,
        replicates=np.asarray(replicates, dtype=np.int64),
        times=grid,
        origin=origin,
        prefix_sums=prefix_sums.reshape(len(grid), d, LANES)[..., :lanes],
        iterates=iterates.reshape(len(grid), d, LANES)[..., :lanes],
        running_sums=by_name,
        marked_times=marks,
        extras={
            name: extras[:, k * LANES : k * LANES + lanes] for k, name in enumerate(path.measured())
        },
    )
