"""Kernel of a one-pass algorithm, without its recursion.

Python calls :func:`run`. It copies parameters to where they stay in registers, makes the
record of the path, and calls ``kernel.recursion(users, noises, problem, mechanism, settings, record)``:

    users, noises       states and parameters, for ``kernel.draw_data(*users, data)`` and ``draw_noise``
    problem, mechanism  for ``kernel.gradient`` and ``kernel.randomise``
    settings            the algorithm's kernel_parameters
    record              a :class:`Record`

After step i a recursion calls ``kernel.add_iterate`` in every lane, and where i is ``record.times[t]``
``kernel.keep_path``; one whose private gradients may be summed up calls ``keep_step``, ``end_step`` and
``restart`` of :mod:`ldpflow.numerics.running_sums` too. Arrays are flat over (coordinate, lane). It takes
what its loops use out of the record first: with a record in the loop over the lanes, a kernel takes up to
twice the time. Each function is plain Python in the file of its component.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mpmath import mpf
from numpy.typing import NDArray

from ldpflow.components.algorithms import budget_split
from ldpflow.components.problems import file_rows, tables
from ldpflow.components.problems.laws import Variate
from ldpflow.numerics import fill_uniform, private_bit, register_array, running_sums
from ldpflow.numerics.kernel_functions import check_parameters, layout_of, part_of, size_of
from ldpflow.numerics.kernels import cache_folder, compile_kernel, read_private, write_private
from ldpflow.numerics.running_sums import PERTURBED
from ldpflow.numerics.specialise import Case, KernelPart
from ldpflow.numerics.streams import LANES, PLANE, STRIDE

SIGNATURE = (
    "void(uint64[::1], uint64[::1], float64[::1], float64[::1], float64[::1], float64[::1], "
    "float64[::1], float64[::1], int64[::1], int64[::1], float64[:, ::1], float64[:, ::1], "
    "float64[:, ::1], float64[:, ::1])"
)


class KernelRecord(NamedTuple):
    """State of a running path, and its record at ``times``.

    prefix_sums[t] = S(times[t]) = sum_{i <= times[t]} (theta_i - centre), iterates[t] = theta_{times[t]};
    where marks[t] >= 0 the running sums go to running_sums[marks[t]]. Measures go to extras[t].
    """

    times: Any
    marks: Any
    centre: Any
    total: Any
    sums: Any
    tile: Any
    counts: Any
    prefix_sums: Any
    iterates: Any
    running_sums: Any
    extras: Any


def run(  # type: ignore[no-untyped-def]
    kernel,
    data_state,
    noise_state,
    data_parameters,
    noise_parameters,
    problem_parameters,
    mechanism_parameters,
    settings,
    origin,
    times,
    marks,
    prefix_sums,
    iterates,
    running_sums,
    extras,
):
    """Run LANES replicates in lockstep and record them at ``times``."""
    # Copies that the compiler knows to be its own: they stay in registers. Not copied as slices: a
    # copy that tests for overlap would make it believe that other arrays may point into these.
    problem = register_array(kernel.PROBLEM_SIZE)
    mechanism = register_array(kernel.MECHANISM_SIZE)
    centre = register_array(kernel.D)
    for s in range(kernel.PROBLEM_SIZE):
        problem[s] = problem_parameters[s]
    for s in range(kernel.MECHANISM_SIZE):
        mechanism[s] = mechanism_parameters[s]
    for j in range(kernel.D):
        centre[j] = origin[j]
    total = register_array(kernel.STATE)
    sums = register_array(kernel.SUMS)
    tile = register_array(kernel.TILE_SIZE)
    counts = register_array(kernel.COUNTS)
    total[:] = 0.0
    sums[:] = 0.0
    counts[:] = 0.0
    users = (data_state, data_parameters)
    noises = (noise_state, noise_parameters)
    record = KernelRecord(
        times, marks, centre, total, sums, tile, counts, prefix_sums, iterates, running_sums, extras
    )
    kernel.recursion(users, noises, problem, mechanism, settings, record)


def add_iterate(kernel, total, centre, sums, theta, step, lane):  # type: ignore[no-untyped-def]
    """S(i) = S(i-1) + theta_i, around the centre, and the sums that follow S; i = ``step``, a float."""
    for j in range(kernel.D):
        total[j * LANES + lane] += theta[j * LANES + lane] - centre[j]
    kernel.after_step(sums, total, step, lane)


def keep_path(kernel, record, theta, t):  # type: ignore[no-untyped-def]
    """Record the path at the t-th time."""
    for s in range(kernel.STATE):
        record.prefix_sums[t, s] = record.total[s]
        record.iterates[t, s] = theta[s]
    if record.marks[t] >= 0:
        for s in range(kernel.SUMS):
            record.running_sums[record.marks[t], s] = record.sums[s]


Floats = NDArray[np.float64]


def roles_of(variates: Sequence[Variate]) -> list[str | None]:
    """Roles of the streams that variates need: None (the component's own), then the others."""
    return list(dict.fromkeys([None, *(v.role for v in variates)]))


def draw_part(variates: Sequence[Variate], inlining: str = "called") -> KernelPart:
    """Kernel part that fills one plane per variate, each from the stream of its role."""
    roles = roles_of(variates)
    kinds = [(sampler_of(variate), variate.role) for variate in variates]
    # One loop draws neighbours of equal kind that have no tables.
    firsts = [
        v for v, variate in enumerate(variates) if v == 0 or kinds[v] != kinds[v - 1] or is_tabulated(variate)
    ]
    places = np.cumsum([len(variates), *(len(table_of(variate)) for variate in variates)]).tolist()
    values = {
        "GROUPS": len(firsts),
        "FIRST": tuple(firsts),
        "LAST": (*firsts, len(variates))[1:],
        "ROLES": tuple(roles.index(variates[v].role) for v in firsts),
        "samplers": tuple(kinds[v][0] for v in firsts),
        "TABULATED": tuple(is_tabulated(variates[v]) for v in firsts),
        "STARTS": tuple(places[v] for v in firsts),
        "ENDS": tuple(places[v + 1] for v in firsts),
    }
    return KernelPart(draw, Case(tuple(values.items()), unrolled=frozenset({"GROUPS"})), inlining)


def drawing_parameters(variates: Sequence[Variate]) -> Floats:
    """Argument ``parameters`` of :func:`draw`: a number of every variate, then the tables."""
    tables = map(table_of, variates)
    return np.concatenate([[v.parameter for v in variates], *tables], dtype=np.float64)


def draw(kernel, state, parameters, planes):  # type: ignore[no-untyped-def]
    """Fill the planes; ``state`` has 4 LANES words per role."""
    for g in range(kernel.GROUPS):
        states = state[kernel.ROLES[g] * 4 * LANES : (kernel.ROLES[g] + 1) * 4 * LANES]
        for v in range(kernel.FIRST[g], kernel.LAST[g]):
            plane = planes[v * STRIDE : (v + 1) * STRIDE]
            if kernel.TABULATED[g]:
                kernel.samplers[g](states, parameters[kernel.STARTS[g] : kernel.ENDS[g]], plane)
            else:
                kernel.samplers[g](states, parameters[v], plane)


def is_tabulated(variate: Variate) -> bool:
    return variate.name in ("gamma", "empirical", "records", "mixture")


def sampler_of(variate: Variate) -> object:
    """Function or kernel part that fills a plane."""
    from ldpflow.numerics.distributions import TABLE_SAMPLERS
    from ldpflow.numerics.samplers import SAMPLERS

    if variate.name in SAMPLERS:
        return SAMPLERS[variate.name]
    if variate.name in TABLE_SAMPLERS:
        return TABLE_SAMPLERS[variate.name]
    if variate.law is not None and variate.law.own is not None:
        own = variate.law.own
        values = {"fill_base": SAMPLERS[own.base], "sample": part_of(own, "sample")}
        return KernelPart(fill_own, Case(tuple(values.items())))
    assert variate.law is not None
    parts = [part.law.variate for part in variate.law.components]
    starts = np.cumsum([0, *(3 + len(numbers_of(part)) for part in parts)]).tolist()
    values = {
        "COMPONENTS": len(parts),
        "samplers": tuple(sampler_of(part) for part in parts),
        "TABULATED": tuple(is_tabulated(part) for part in parts),
        "STARTS": tuple(starts[:-1]),
        "ENDS": tuple(starts[1:]),
    }
    return KernelPart(draw_mixture, Case(tuple(values.items()), unrolled=frozenset({"COMPONENTS"})))


def fill_own(kernel, state, parameter, out):  # type: ignore[no-untyped-def]
    """Draw from a plug-in's law: its function maps a draw of its base to Z."""
    kernel.fill_base(state, 0.0, out)
    for i in range(PLANE):
        out[i] = kernel.sample(out[i], parameter)


def table_of(variate: Variate) -> Floats:
    """Table of a variate's sampler, empty if it takes one number."""
    law = variate.law
    if variate.name == "gamma":
        return gamma_table(variate.parameter)
    if law is None or not is_tabulated(variate):
        return np.empty(0)
    if law.table is not None:
        return law.table.sampling_table()
    total = sum(mpf(part.weight) for part in law.components)
    parts: list[Any] = []
    below = mpf(0)
    for part in law.components:
        below += mpf(part.weight)
        parts.append([float(below / total), part.law.location, part.law.scale])
        parts.append(numbers_of(part.law.variate))
    return np.concatenate(parts)


def numbers_of(variate: Variate) -> Floats:
    """Table of a component of a mixture, or its one number."""
    return table_of(variate) if is_tabulated(variate) else np.array([variate.parameter])


def draw_mixture(kernel, state, table, out):  # type: ignore[no-untyped-def]
    """Draw a mixture: a uniform selects the component. All are drawn, so draws have fixed positions.

    ``table`` holds for every component the sum of the weights up to it, its location and scale, and what
    its sampler takes.
    """
    which = np.empty(PLANE)
    drawn = np.empty(PLANE)
    fill_uniform(state, 0.0, which)
    below = 0.0
    for k in range(kernel.COMPONENTS):
        start = kernel.STARTS[k]
        if kernel.TABULATED[k]:
            kernel.samplers[k](state, table[kernel.STARTS[k] + 3 : kernel.ENDS[k]], drawn)
        else:
            kernel.samplers[k](state, table[kernel.STARTS[k] + 3], drawn)
        upto = table[start]
        location = table[start + 1]
        scale = table[start + 2]
        for i in range(PLANE):
            x = location + scale * drawn[i]
            out[i] = x if (which[i] >= below) & (which[i] < upto) else out[i]
        below = upto


@lru_cache(maxsize=16)
def gamma_table(shape: float) -> Floats:
    """Table of a gamma law, stored in the kernel cache since it takes seconds to compute."""
    from ldpflow.numerics import distributions as made

    source = hashlib.sha256(Path(made.__file__).read_bytes()).hexdigest()
    name = hashlib.sha256(f"{shape.hex()}/{source}".encode()).hexdigest()[:40]
    file = cache_folder() / f"gamma-{name}.bin"
    content = read_private(file)
    if content is not None and hashlib.sha256(content[32:]).digest() == content[:32]:
        return np.frombuffer(content[32:], dtype=np.float64)
    table = made.gamma_table(shape)
    write_private(file, hashlib.sha256(table.tobytes()).digest() + table.tobytes())
    return table


Function = Callable[..., Any]

INLINED_FROM = 5
"""Coordinates from which on functions are so long that they are inlined on demand only: a call inside the
loop over the lanes would not be vectorised."""

PROBLEM_PARTS = ("gradient", "residual", "feature", "square_norm")
"""Kernel functions of a problem that recursions call, if its module has them."""


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
    from ldpflow.numerics import distributions

    law = problem.bit_law()
    shaped = "shape" in problem.kernel_parameters()
    parts = {"cdf": getattr(distributions, f"cdf_{law}"), "SHAPED": shaped}
    third = getattr(sys.modules[type(mechanism).__module__], "THIRD_DERIVATIVES", {}).get(law)
    # A second projection would cost more than the expansion saves.
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
        "recursion": KernelPart(private_bit.recursion, inlining="written"),
        "walk": private_bit.walk,
        "anchor": private_bit.anchor,
        "stride": private_bit.stride,
        "judge": private_bit.judge,
    }


def kernel_case(path: Any, sums: tuple[str, ...], perturbed: bool = False) -> Case:
    d = path.problem.dimension
    inlining = "inlined" if d >= INLINED_FROM else "called"
    sums = tuple(name for name in sums if name != PERTURBED)  # no sum along the path
    recursion = part_of(path.algorithm, "recursion")
    check_parameters(recursion, "recursion")
    data = path.data_variates()
    noise = noise_variates(path, perturbed)
    draw_data: Any = file_rows.draw_rows if path.problem.with_replacement() else tables.draw_data
    if not path.problem.stored_records():
        draw_data = draw_part(data, inlining)
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
        "draw_data": draw_data,
        "draw_noise": draw_part(noise, inlining),
        # Written into each other, not called: that compiles sooner, and is optimised as one.
        "add_iterate": KernelPart(add_iterate, inlining="written"),
        "keep_path": KernelPart(keep_path, inlining="written"),
        "recursion": KernelPart(recursion, inlining="written"),
        **running_sums.parts(sums, d),
        **private_gradient(path, perturbed),
    }
    unrolled = frozenset({"D"}) | running_sums.UNROLLED
    return Case(tuple(values.items()), tuple(layouts.items()), unrolled, inlining)


@lru_cache(maxsize=1024)
def one_pass_kernel(path: Any, sums: tuple[str, ...], perturbed: bool = False) -> Callable[..., None]:
    """The compiled kernel of a path, or of a perturbed one."""
    return compile_kernel(run, kernel_case(path, sums, perturbed), SIGNATURE)


def noise_variates(path: Any, perturbed: bool) -> tuple[Variate, ...]:
    """Standard variates of one step, without those of the record."""
    variates = path.randomiser.variates(path.problem)
    return (*variates, budget_split.WEIGHT) if perturbed else variates
