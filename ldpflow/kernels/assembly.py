"""Making the kernel of a one-pass path: its recursion with a gradient, a randomiser and running sums.

Each of them is a plain function in the file of its component (ldpflow.problems, .mechanisms,
.algorithms, or a plug-in's); what all kernels share stands in .one_pass and .running_sums. The case says
which of them go together, and which numbers are known beforehand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ldpflow.algorithms import budget_split
from ldpflow.kernels import module, one_pass, private_bit, running_sums
from ldpflow.kernels.drawing import drawing
from ldpflow.kernels.functions import check_parameters, layout_of, part_of, size_of
from ldpflow.kernels.module import compiled
from ldpflow.kernels.running_sums import PERTURBED
from ldpflow.kernels.specialise import Case, Part
from ldpflow.problems import file_rows, tables
from ldpflow.problems.laws import Variate
from ldpflow.random.lockstep import LANES

Function = Callable[..., Any]

INLINED_FROM = 5
"""Coordinates from which on functions are so long that they are inlined on demand only: a call inside the
loop over the lanes would not be vectorised."""

PROBLEM_PARTS = ("gradient", "residual", "feature", "square_norm")
"""Kernel functions of a problem that recursions call, where its module has them."""


def private_gradient(path: Any, perturbed: bool) -> dict[str, Any]:
    """The parts that make A(g(X_i, theta_{i-1})), or draw it directly (see Mechanism)."""
    problem, mechanism = path.problem, path.randomiser
    if not path.mechanism.replaces_data():
        parts = {name: part_of(problem, name, False) for name in PROBLEM_PARTS}
        if path.mechanism.reads_bit():
            parts["gradient"] = part_of(problem, "gradient_bit", False) or parts["gradient"]
        parts["randomise"] = part_of(mechanism, "randomise")
        check_parameters(parts["randomise"], "randomise")
        if parts["gradient"] is not None:
            check_parameters(parts["gradient"], "gradient")
        if perturbed:
            parts |= {"answer": parts["randomise"], "randomise": budget_split.randomise}
        return {name: part for name, part in parts.items() if part is not None}
    from ldpflow.random import distributions

    law = problem.bit_law()
    shaped = "shape" in problem.kernel_parameters()
    parts = {"cdf": getattr(distributions, f"cdf_{law}"), "SHAPED": shaped}
    third = sys.modules[type(mechanism).__module__].THIRD_DERIVATIVES.get(law)
    # A projection made twice would cost more than is won.
    if third is None or path.algorithm.kind != "ldp_sgd" or path.algorithm.projects():
        return parts | {
            "gradient": part_of(problem, "bit_probability"),
            "randomise": part_of(mechanism, "randomise_probability"),
        }
    (variate,) = mechanism.variates(problem)
    return parts | {
        "HALVES": variate.name == "uniform_32",
        "THIRD_DERIVATIVE": third,
        "expansion": getattr(distributions, f"expansion_{law}"),
        "recursion": Part(private_bit.recursion, inlining="written"),
        "walk": private_bit.walk,
        "anchor": private_bit.anchor,
        "stride": private_bit.stride,
        "judge": private_bit.judge,
    }


def kernel_case(path: Any, sums: tuple[str, ...], perturbed: bool = False) -> Case:
    """Case of the kernel of such paths that keeps these sums."""
    d = path.problem.dimension
    inlining = "inlined" if d >= INLINED_FROM else "called"
    sums = tuple(name for name in sums if name != PERTURBED)  # no sum along the path
    recursion = part_of(path.algorithm, "recursion")
    check_parameters(recursion, "recursion")
    data = path.data_variates()
    noise = noise_variates(path, perturbed)
    layouts = {
        "problem": layout_of(path.problem.kernel_parameters()),
        "mechanism": layout_of(path.randomiser.kernel_parameters(path.problem)),
        "settings": layout_of(path.algorithm.kernel_parameters(path.horizon)),
    }
    values: dict[str, Any] = {
        "D": d,
        "STATE": d * LANES,
        "EXTRAS": len(path.measures()) * LANES,
        "COUNTS": len(path.randomiser.measures) * LANES,
        "PROBLEM_SIZE": size_of(layouts["problem"]),
        "MECHANISM_SIZE": size_of(layouts["mechanism"]),
        "PROJECTED": path.algorithm.projects(),
        "BY_COORDINATE": path.algorithm.by_coordinate(),
        "ORDERED": d > 1 and path.problem.levels() is not None,
        "DATA_PLANES": len(data),
        "NOISE_PLANES": len(noise),
        "draw_data": data_part(path, data, inlining),
        "draw_noise": drawing(noise, inlining),
        # Written into each other, not called: that compiles sooner, and is optimised as one.
        "add_iterate": Part(one_pass.add_iterate, inlining="written"),
        "keep_path": Part(one_pass.keep_path, inlining="written"),
        "recursion": Part(recursion, inlining="written"),
        **running_sums.parts(sums, d),
        **private_gradient(path, perturbed),
    }
    unrolled = frozenset({"D"}) | running_sums.UNROLLED
    return Case(tuple(values.items()), tuple(layouts.items()), unrolled, inlining)


def data_part(path: Any, data: tuple[Variate, ...], inlining: str) -> Any:
    """Function that fills the planes of records: variates, or a file's rows in order or with replacement."""
    if not path.problem.stored_records():
        return drawing(data, inlining)
    return file_rows.draw_rows if path.problem.with_replacement() else tables.draw_data


@lru_cache(maxsize=1024)
def one_pass_kernel(path: Any, sums: tuple[str, ...], perturbed: bool = False) -> Callable[..., None]:
    """The compiled kernel of a path, or of a perturbed one."""
    return compiled(one_pass.run, kernel_case(path, sums, perturbed), one_pass.SIGNATURE)


@lru_cache(maxsize=1024)
def kernel_digest(path: Any, sums: tuple[str, ...], perturbed: bool = False) -> str:
    """Digest of a path's kernel: paths with the same digest run the same compiled code."""
    return module.kernel_digest(one_pass.run, kernel_case(path, sums, perturbed))


def noise_variates(path: Any, perturbed: bool) -> tuple[Variate, ...]:
    """Standard variates beside those of the record that one step takes."""
    variates = path.randomiser.variates(path.problem)
    return (*variates, budget_split.WEIGHT) if perturbed else variates
