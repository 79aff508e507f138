"""Making a kernel: one algorithm's recursion with one problem's gradient and one mechanism.

Each of them is plain Python in its own file, and so is what all kernels share (see .one_pass). Their
sources are put into one module, the variates that problem and mechanism ask for become the calls that
draw them, and the whole is compiled with the signature written out (see ldpflow.kernels.cache).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ldpflow.algorithms import budget_split
from ldpflow.kernels import one_pass, running_sums
from ldpflow.kernels.running_sums import PERTURBED, RUNNING_SUMS, TILE
from ldpflow.kernels.sources import copied, drawing, entry, module_of, module_source
from ldpflow.kernels.unrolling import unrolled, written_out
from ldpflow.problems.laws import Variate
from ldpflow.problems.tables import draw_data
from ldpflow.random.lockstep import LANES

__all__ = ["kernel_source", "noise_variates"]

Function = Callable[..., Any]

IMPORTS = "from ldpflow.kernels.one_pass import Record\n"


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


def private_gradient(path: Any, perturbed: bool) -> list[str]:
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
def kernel_source(path: Any, sums: tuple[str, ...], perturbed: bool = False) -> str:
    """The module that runs this kind of path, or a perturbed one, and keeps the sums asked for.

    Read once per process: a source that is edited meanwhile must not be mixed with the loaded code.
    """
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
                running_sums.keep_step,
                one_pass.add_iterate,
                one_pass.keep_path,
                modules[0].recursion,
            )
        ),
        unrolled(entry(one_pass.kernel, one_pass.SIGNATURE), d),
    )
    return "\n\n".join(made)


def noise_variates(path: Any, perturbed: bool) -> tuple[Variate, ...]:
    """Standard variates beside those of the record that one step takes."""
    variates = path.randomiser.variates(path.problem)
    return (*variates, budget_split.WEIGHT) if perturbed else variates
