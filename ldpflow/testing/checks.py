"""Checks of a plug-in, to run before a long sweep.

Simulations check the true value, the unbiasedness of the private gradient and the sensitivity that scales
the noise of a mechanism. Other checks look at shapes and bits. The rows of a replicate must have equal bits
if it runs alone, beside other replicates, and in another process. A comparison with a simulated mean fails
for a correct component about once in ten thousand times.

A check is a function of a component. It returns a remark or None, and raises :class:`Wrong` if it fails.
"""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from mpmath import mpf
from numpy.typing import NDArray

from ldpflow.components.algorithms import Algorithm
from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.intervals import IntervalMethod
from ldpflow.components.intervals.counts import Fieller, Inversion
from ldpflow.components.intervals.variance import Oracle
from ldpflow.components.mechanisms import Mechanism
from ldpflow.components.mechanisms.none import NoMechanism
from ldpflow.components.problems import Problem
from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.quantile import Quantile
from ldpflow.components.problems.standard_laws import DataLaw
from ldpflow.errors import InputError, LdpflowError
from ldpflow.numerics import constants
from ldpflow.numerics.constants import normal_quantile
from ldpflow.numerics.distributions import TABLE_SAMPLERS
from ldpflow.numerics.kernels import part_of
from ldpflow.numerics.samplers import SAMPLERS
from ldpflow.numerics.streams import CHUNK, LANES, PLANE, lane_states
from ldpflow.practice.audit.distinguishing import claim_of
from ldpflow.settings import Settings
from ldpflow.simulators.counts import Counts
from ldpflow.simulators.one_pass import OnePass, run_path, table_of
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.simulators.simulator import Cell, by_runs
from ldpflow.study.plugins import components_of, load_plugin, place_of_error

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Draws:
    """Standard variates of the first users of one replicate.

    Parameters
    ----------
    data : ndarray, shape (count, variates of the problem)
        Row i makes the record of user i.
    noise : ndarray, shape (count, variates of the mechanism)
        Row i has the variates with which the mechanism randomises the i-th gradient.
    """

    data: Array
    noise: Array


def draws(simulator: Any, seed: int, replicate: int, count: int) -> Draws:
    """Draw the standard variates that a one-pass simulator uses in one replicate, in the order of the users.

    Parameters
    ----------
    simulator : Simulator
        Combination of a problem, a mechanism and a one-pass algorithm.
    seed : int
        Seed of the study.
    replicate : int
        Number of the replicate, from 0.
    count : int
        Number of users.
    """
    data = planes(seed, "data", simulator.data_key(), replicate, simulator.problem.variates(), count)
    return Draws(data, noise_draws(simulator, seed, replicate, count))


def noise_draws(simulator: Any, seed: int, replicate: int, count: int) -> Array:
    variates = simulator.mechanism.variates(simulator.problem)
    own = [v for v in variates if v.role is None]
    columns = [planes(seed, "mechanism", simulator.key, replicate, own, count)]
    for variate in variates[len(own) :]:
        if variate.role == "position":
            columns.append(np.arange(float(count))[:, None])
        else:
            columns.append(planes(seed, variate.role, simulator.public_key(), replicate, [variate], count))
    return np.concatenate(columns, axis=1)


def plane(state: Any, variate: Variate) -> Array:
    """Draw the next CHUNK values of a variate. Kernels draw a plane: CHUNK values for each of LANES lanes."""
    own = None if variate.law is None else variate.law.own
    parts = () if variate.law is None else variate.law.components
    out = np.empty(PLANE)
    if variate.name in TABLE_SAMPLERS:
        TABLE_SAMPLERS[variate.name](state, table_of(variate), out)
    else:
        base = "uniform" if parts else variate.name if own is None else own.base
        SAMPLERS[base](state, variate.parameter, out)
    drawn = out.reshape(CHUNK, LANES)[:, 0]
    if parts:  # a mixture draws a value of each component, and a uniform variate selects one
        values = [part.law.location + part.law.scale * plane(state, part.law.variate) for part in parts]
        ends = np.cumsum([part.weight for part in parts]) / sum(part.weight for part in parts)
        return np.choose(np.searchsorted(ends[:-1], drawn, side="right"), values)
    if own is None:
        return drawn
    sample = part_of(own, "sample")
    return np.array([sample(z, variate.parameter) for z in drawn.tolist()])


def planes(
    seed: int, role: str | None, key: str, replicate: int, variates: Sequence[Variate], count: int
) -> Array:
    """Draw the first ``count`` values of each variate, shape (count, len(variates))."""
    assert role is not None
    state = lane_states(seed, role, key, [replicate])
    chunks = []
    for _ in range(-(-count // CHUNK)):
        columns = [plane(state, variate) for variate in variates]
        chunks.append(np.stack(columns, axis=1) if columns else np.empty((CHUNK, 0)))
    return np.concatenate(chunks)[:count]


STEPS = 1000
SEED = 20240520
ERROR_RATE = 1e-4
LEVELS = (0.5, 0.9, 0.99)

Check = Callable[[Any], str | None]


class Wrong(LdpflowError):
    """Failure of a check."""


def path_of(
    problem: Problem | None = None, mechanism: Mechanism | None = None, algorithm: Algorithm | None = None
) -> Any:
    simple = problem or Quantile()
    chosen = algorithm or LdpSgd()
    return OnePass(simple, mechanism or NoMechanism(), chosen.resolved(simple, None))


def quantile_of(law: DataLaw) -> Quantile:
    return Quantile(law=law.kind, shape=getattr(law, "shape", None))


def with_others(component: Any) -> tuple[Any, list[IntervalMethod]]:
    if component.group == "method":
        return path_of(), [component]
    if component.group == "protocol":
        simulator = Counts(Quantile(), component, max(STEPS, component.least_users()))
        return simulator, [method for method in (Inversion(), Fieller()) if method.applies(simulator)]
    if component.group == "law":
        component = quantile_of(component)
    return path_of(**{component.group: component}), []


def rows_of(component: Any, numbers: range) -> list[dict[str, Any]]:
    """Simulate the rows of the replicates with these numbers."""
    simulator, methods = with_others(component)
    users = (STEPS // 2, STEPS) if simulator.horizon is None else (simulator.horizon,)
    cells = [Cell(n, m, level) for n in users for m in methods or [Oracle()] for level in LEVELS]
    rows: list[dict[str, Any]] = []
    for group in by_runs(cells).values():
        batch = Batch(simulator, SEED, numbers.start, numbers.stop, group)
        rows += simulate(batch).rows.to_pylist()
    return rows


def bits(rows: list[dict[str, Any]]) -> str:
    return hashlib.sha256(repr(rows).encode()).hexdigest()  # the text of a float determines its bits


def runs(component: Any) -> str:
    rows = rows_of(component, range(8))
    failed = sum(row["status"] == "diverged" for row in rows)
    if failed:
        raise Wrong(f"{failed} of {len(rows)} rows diverged within {STEPS} users")
    return f"{STEPS} users, 8 replicates"


def lanes_agree(component: Any) -> None:
    alone = rows_of(component, range(5, 6))
    among = [row for row in rows_of(component, range(LANES)) if row["replicate"] == 5]
    if bits(alone) != bits(among):
        advice = "; sum by ldpflow.components.intervals.in_order(terms), not by NumPy"
        method = isinstance(component, IntervalMethod)
        raise Wrong(f"a replicate's rows depend on which others run beside it{advice if method else ''}")


def gradients(problem: Problem, mechanism: Mechanism, point: tuple[float, ...]) -> Array:
    """Simulate private gradients at one point, shape (users, d). Each of LANES replicates has STEPS users.

    There are fewer users if d > 10, since a transcript keeps d^2 numbers in each step.
    """
    stays = {"c_factors": (0.0,) * len(point), "theta0_offsets": point}  # no step moves theta
    simulator = OnePass(problem, mechanism, LdpSgd().model_copy(update=stays))
    found = transcript(simulator, min(STEPS, 10 * STEPS // len(point)))[1]
    return np.asarray(found.transpose(0, 2, 1).reshape(-1, problem.dimension))


def transcript(simulator: Any, steps: int) -> Array:
    """Simulate theta_(i-1) and the private gradient at it, i = 1, ..., steps: shape (2, steps, d, LANES)."""
    times = range(1, steps + 1)
    sums = run_path(simulator, SEED, range(LANES), times, times, ("transcript_linear",)).running_sums
    found = np.asarray(sums["transcript_linear"][:2])
    # The kernel keeps sums over steps. They start again after each power of two.
    starts = [i for i in range(1, steps) if i & (i - 1)]
    found[:, starts] -= found[:, [i - 1 for i in starts]].copy()
    return found


def near(sample: Array, what: str) -> str:
    """Test at the error rate ERROR_RATE that the means of all coordinates of a sample are 0."""
    count, d = sample.shape
    mean = sample.mean(axis=0)
    error = sample.std(axis=0, ddof=1) / math.sqrt(count)
    wrong = np.abs(mean) > normal_quantile(1 - ERROR_RATE / (2 * d)) * error + 1e-12
    if wrong.any():
        j = int(np.argmax(np.abs(mean) / np.maximum(error, 1e-300)))
        raise Wrong(f"{what} in coordinate {j}: {mean[j]:.4g} with a standard error of {error[j]:.2g}")
    return f"{count:,} users"


DRAWS = 8000
TAUS = (0.1, 0.3, 0.5, 0.7, 0.9)


def truth_of(problem: Problem) -> tuple[float, ...]:
    truth = problem.truth()
    if len(truth) != problem.dimension or not all(isinstance(v, (int, float)) for v in truth):
        raise Wrong(f"truth() is {truth!r}; it has to be {problem.dimension} numbers")
    return tuple(map(float, truth))


def problem_shapes(problem: Problem) -> None:
    d = len(truth_of(problem))
    for name in ("curvature", "gradient_covariance"):
        matrix = np.array(getattr(problem, name)(), dtype=float)
        if matrix.shape != (d, d):
            raise Wrong(f"{name}() has shape {matrix.shape}; it has to be {(d, d)}")


def true_value(problem: Problem) -> str:
    return near(gradients(problem, NoMechanism(), truth_of(problem)), "E g(X, theta*) is not 0")


def gradient_covariance(problem: Problem) -> str:
    g = gradients(problem, NoMechanism(), truth_of(problem))
    expected = np.array(problem.gradient_covariance(), dtype=float)
    d = g.shape[1]
    centred = g - g.mean(axis=0)
    products = (centred[:, :, None] * centred[:, None, :]).reshape(-1, d * d) - expected.reshape(-1)
    return near(products, "the covariance of g is not S")


def sensitivity(problem: Problem) -> str:
    worst = {"l1": 0.0, "l2": 0.0}
    for scale in (0.0, 1.0, -3.0):
        g = gradients(problem, NoMechanism(), tuple(v + scale for v in truth_of(problem)))
        apart = g - g[::-1]
        worst["l1"] = max(worst["l1"], float(np.abs(apart).sum(axis=1).max()))
        worst["l2"] = max(worst["l2"], float(np.sqrt((apart**2).sum(axis=1)).max()))
    for name, found in worst.items():
        claimed = float(getattr(problem, f"{name}_sensitivity")())
        if found > claimed * (1 + 1e-9):
            raise Wrong(f"two gradients are {found:.6g} apart, {name}_sensitivity() says {claimed:.6g}")
    return f"at most {worst['l1']:.4g} (L1) and {worst['l2']:.4g} (L2) seen"


def mechanism_runs(mechanism: Mechanism) -> str:
    reason = mechanism.unsuitable(Quantile())
    if reason is not None:
        raise Wrong(f"the median is refused: {reason}")
    return runs(mechanism)


def noise_at(mechanism: Mechanism, point: float) -> Array:
    """Simulate the noise that a mechanism adds to the gradient of the median, shape (users, 1)."""
    private, bare = (gradients(Quantile(), other, (point,)) for other in (mechanism, NoMechanism()))
    return private - bare


def unbiased(mechanism: Mechanism) -> str:
    for point in (0.0, 1.0, -0.5):
        noise = noise_at(mechanism, point)
        near(noise, f"E[A(g) - g] at {point}")
    return f"at three points, {len(noise):,} users each"


def noise_covariance(mechanism: Mechanism) -> str:
    problem = Quantile()
    squares = noise_at(mechanism, *problem.truth()) ** 2 - float(mechanism.noise_covariance(problem)[0][0])
    return near(squares, "Var(A(g) | g) - claimed")


def statement(mechanism: Mechanism) -> str:
    found = mechanism.privacy()
    if not found.notion or not found.unit:
        raise Wrong(f"privacy() is {found}; notion and unit have to be named")
    if found.notion != "none":
        claim_of(found)
    return f"{found.notion}, unit: {found.unit}"


def declared_steps(algorithm: Algorithm) -> str:
    if not algorithm.has_intervals:
        return "not compared: the algorithm makes too few steps for intervals"
    gamma, c = algorithm.step_exponent(), algorithm.step_constant()
    if math.isnan(gamma) and math.isnan(c):
        return "not declared: no method or prediction reads them"
    realised = step_sizes_of(path_of(algorithm=algorithm))
    if np.isnan(realised).any():
        if math.isnan(c):
            return "not compared: the recursion keeps no transcript (kernel.keep_step)"
        raise Wrong("kernel.keep_step() has to get theta_(i-1) and its private gradient in every step")
    last = len(realised)
    if math.isnan(c):
        half = last // 2
        found = math.log(realised[half - 1] / realised[last - 1]) / math.log(last / half)
        if not abs(found - gamma) < 0.1:
            raise Wrong(f"steps {half} to {last} fall like i^-{found:.3g}, step_exponent() is {gamma:g}")
        return f"they fall like i^-{gamma:g}; their sizes are not declared, so TR and TRC are left out"
    declared = c * np.arange(1.0, last + 1) ** -gamma
    wrong = np.abs(realised - declared) > 1e-6 * declared
    if wrong.any():
        i = int(np.argmax(wrong))
        raise Wrong(
            f"step {i + 1} has size {realised[i]:.6g}; step_constant() and step_exponent() declare "
            f"{c:g} i^-{gamma:g} = {declared[i]:.6g}. If steps have another size, let step_constant() return "
            "math.nan"
        )
    return f"{c:g} i^-{gamma:g} in {last} steps"


def step_sizes_of(simulator: Any) -> Array:
    """Median over replicates of the step sizes (theta_(i-1) - theta_i)/gradient. NaN without a transcript."""
    theta, gradient = transcript(simulator, STEPS // simulator.algorithm.records_per_step())[:, :, 0]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmedian((theta[:-1] - theta[1:]) / gradient[:-1], axis=1))


def method_times(method: Any) -> str:
    """Check that times increase and lie within the run. Their number must not exceed count_times()."""
    algorithm = LdpSgd()
    asked = {
        "times()": np.asarray(method.times(STEPS, algorithm)),
        "level_times()": np.asarray(method.level_times(STEPS, algorithm, [0.9])),
    }
    most = method.count_times(STEPS, algorithm)
    for name, found in asked.items():
        if found.ndim != 1 or not np.issubdtype(found.dtype, np.integer) or not len(found):
            raise Wrong(f"{name} has to be a vector of integers, and is {found.dtype} of shape {found.shape}")
        if (np.diff(found) <= 0).any() or found[0] < 1 or found[-1] > STEPS:
            raise Wrong(f"{name} has to increase within 1, ..., {STEPS}: {found[:5]} ... {found[-1]}")
        if most < len(found):
            raise Wrong(f"count_times() says at most {most}, {name} has {len(found)}")
    return f"{len(asked['level_times()'])} times"


def law_base(law: DataLaw) -> str:
    if law.base not in SAMPLERS:
        raise Wrong(f"base is {law.base!r}; it has to be one of {', '.join(SAMPLERS)}")
    return str(law.base)


def law_functions(law: DataLaw) -> str:
    with constants.workdps(40):
        for tau in TAUS:
            z = mpf(law.quantile(mpf(tau)))
            if abs(law.cdf(z) - tau) > 1e-12:
                raise Wrong(f"cdf(quantile({tau})) is {float(law.cdf(z)):.6g}")
            h = mpf("1e-12") * max(abs(z), mpf(1))
            slope = (law.cdf(z + h) - law.cdf(z - h)) / (2 * h)
            if abs(law.density(z) - slope) > 1e-6 * abs(slope):
                found, claimed = float(slope), float(law.density(z))
                raise Wrong(
                    f"the cdf's slope at its {tau} quantile is {found:.6g}, density() is {claimed:.6g}"
                )
    return f"at {len(TAUS)} quantiles"


def law_draws(law: DataLaw) -> str:
    problem = quantile_of(law)
    values = np.sort(planes(SEED, "data", problem.data_key(), 0, problem.variates(), DRAWS)[:, 0])
    expected = problem.data_law().cdf_values(values)
    ranks = np.arange(1, DRAWS + 1) / DRAWS
    distance = float(max((ranks - expected).max(), (expected - ranks).max() + 1 / DRAWS))
    # Kolmogorov's statistic. Its bound is that of Dvoretzky, Kiefer, Wolfowitz and Massart.
    if distance > math.sqrt(math.log(2 / ERROR_RATE) / (2 * DRAWS)):
        raise Wrong(f"the distribution of {DRAWS:,} draws is {distance:.3g} away from cdf()")
    return f"{DRAWS:,} draws"


CHECKS: dict[str, tuple[tuple[str, Check], ...]] = {
    "problem": (
        ("shapes", problem_shapes),
        ("runs", runs),
        ("true value: E g(X, theta*) = 0", true_value),
        ("covariance of the gradient", gradient_covariance),
        ("sensitivity", sensitivity),
    ),
    "mechanism": (
        ("runs", mechanism_runs),
        ("unbiased: E[A(g) | g] = g", unbiased),
        ("covariance of the noise", noise_covariance),
        ("privacy statement", statement),
    ),
    "law": (
        ("base", law_base),
        ("cdf, density and quantile agree", law_functions),
        ("runs", runs),
        ("draws have the law", law_draws),
    ),
    "method": (("times", method_times), ("runs", runs)),
    "algorithm": (("runs", runs), ("declared steps are the realised ones", declared_steps)),
    "protocol": (("runs", runs),),
}
"""Checks by group of the component, in the order in which they run."""


def checks_of(component: Any) -> dict[str, Check]:
    return dict(CHECKS[component.group]) | {"same bits for one replicate and for many": lanes_agree}


@dataclass(frozen=True)
class ComponentFinding:
    """Finding of one check of a component.

    Parameters
    ----------
    component : str
        Name of the class.
    check : str
        Name of the check.
    passed : bool
        Whether the component passed the check.
    detail : str
        Remark of the check, or the reason why it failed.
    """

    component: str
    check: str
    passed: bool
    detail: str = ""

    def __str__(self) -> str:
        verdict = "ok" if self.passed else "WRONG"
        return f"{verdict:5}  {self.component}: {self.check}" + (f": {self.detail}" if self.detail else "")


def check_plugin(source: str) -> list[ComponentFinding]:
    """Check each component that a plug-in registers, with its default settings.

    Parameters
    ----------
    source : str
        Path of a ``.py`` file, or the name of a module.

    Returns
    -------
    list of ComponentFinding
        Findings in the order of the checks. A check that raises an exception counts as failed.

    Raises
    ------
    InputError
        If the plug-in cannot be imported, or registers no component.
    """
    kinds = components_of(load_plugin(source))
    if not kinds:
        raise InputError("plugins", source, "a plug-in that registers components", "Use lf.register.")
    return [finding for kind in kinds for finding in check_component(kind, source)]


def check_component(kind: type[Settings], source: str) -> Iterator[ComponentFinding]:
    """Run the checks of a component. Stop if it cannot be made, or if its rows cannot be simulated."""
    made: list[Any] = []
    yield find(kind, "default settings", lambda: made.append(default_of(kind)))
    for component in made:
        for name, check in checks_of(component).items():
            yield (found := find(kind, name, partial(check, component)))
            if name == "runs" and not found.passed:
                return
        yield find(kind, "same bits in another process", partial(processes_agree, source, component))


def find(kind: type[Settings], name: str, check: Callable[[], str | None]) -> ComponentFinding:
    try:
        return ComponentFinding(kind.__name__, name, True, check() or "")
    except Exception as error:
        return ComponentFinding(kind.__name__, name, False, one_message(error))


def one_message(error: Exception) -> str:
    text = " ".join(str(error).split())[:300]
    if isinstance(error, LdpflowError):
        return text
    return f"{type(error).__name__}: {text}{place_of_error(error)}"


def default_of(kind: type[Settings]) -> Any:
    """Make a component with its default settings. Settings without a default get the value of its example."""
    return kind.model_validate(dict(kind.example))


def processes_agree(source: str, component: Any) -> None:
    code = "import sys; from ldpflow.testing import checks; print(checks.digest_of(*sys.argv[1:]))"
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), *sys.path]))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, source, type(component).__name__],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    if done.returncode:
        raise Wrong(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it could not be run")
    if done.stdout.split()[-1] != bits(rows_of(component, range(8))):
        raise Wrong("it computed other rows: something depends on the process, the time or a library")


def digest_of(source: str, name: str) -> str:
    kinds = {kind.__name__: kind for kind in components_of(load_plugin(source))}
    return bits(rows_of(default_of(kinds[name]), range(8)))
