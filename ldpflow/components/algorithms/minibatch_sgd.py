"""Mini-batch SGD (Dette and Graw, Remark 2.1): each step uses s records.

    theta_i = theta_{i-1} - eta_i (private mean of g(X, theta_{i-1}) over the i-th batch of s records)

A study gives the size s of a batch, or the number T of batches (rounds). With T batches, s = floor(n/T) at
each n.

With ``noise = "record"`` the mechanism randomises the gradient of each record before the mean is taken. This
is local privacy. The scale of Laplace noise is Delta/eps, which the paper misprints as Delta eps. With
``noise = "batch"`` a curator sums the raw gradients, adds the noise of the mechanism once and divides by s
(Song, Chaudhuri and Sarwate, 2013). This is central privacy, eps-DP or mu-GDP. With mechanism ``none`` both
settings are mini-batch SGD without privacy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from ldpflow.components.algorithms.algorithm import BatchSize, CoordinateSteps, add_matrices
from ldpflow.components.algorithms.ldp_sgd import put_in_order
from ldpflow.components.mechanisms import Mechanism, PrivacyStatement
from ldpflow.components.mechanisms.clipped_gaussian import ClippedGaussian
from ldpflow.components.mechanisms.gaussian import Gaussian
from ldpflow.components.problems.problem import Matrix, Problem
from ldpflow.errors import InputError
from ldpflow.numerics import register_array, step_sizes
from ldpflow.numerics.streams import CHUNK, LANES, STRIDE
from ldpflow.settings import Parameters, Setting

BATCH_SIZE = 10
CENTRAL = {"none": "none", "eps-LDP": "eps-DP (central)", "mu-GDP (local)": "mu-GDP (central)"}
"""Privacy notion with one noise on the sum over a batch, by the notion of the mechanism."""


class MinibatchSgd(CoordinateSteps):
    """Mini-batch SGD, non-private, local or central.

    Parameters
    ----------
    batch_size : int >= 1
        Records s in a batch, 10 by default. n users make floor(n/s) steps.
    rounds : int >= 1, optional
        Batches T, in place of ``batch_size``. A batch has floor(n/T) of the n users, and the users that are
        left over are not asked. Each n has a path of its own.
    noise : str
        ``record``: the mechanism randomises the gradient of each record (local privacy). ``batch``: the
        mechanism, laplace or gaussian, adds one noise to the sum over a batch (central privacy).
    """

    cites: ClassVar = ("dette2024", "song2013")
    kind: Literal["minibatch_sgd"] = "minibatch_sgd"
    batch_size: BatchSize | None = None
    rounds: Annotated[int, Field(ge=1, le=10**9), Setting("rounds", logarithmic=True)] | None = None
    noise: Literal["record", "batch"] = "record"

    @model_validator(mode="before")
    @classmethod
    def with_default(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and given.get("batch_size") is None and given.get("rounds") is None:
            return {**given, "batch_size": BATCH_SIZE}
        return given

    @model_validator(mode="after")
    def check_batches(self) -> Self:
        if self.batch_size is not None and self.rounds is not None:
            raise ValueError("give batch_size or rounds, not both")
        return self

    @classmethod
    def complete_axes(cls, axes: Mapping[str, tuple[Any, ...]]) -> Mapping[str, tuple[Any, ...]]:
        """Add the default batch size if a table gives neither batch_size nor rounds."""
        given = axes if "rounds" in axes else {"batch_size": (BATCH_SIZE,), **axes}
        return {name: given[name] for name in cls.model_fields if name in given}

    def key_settings(self) -> dict[str, Any]:
        """Leave out a batch size that is the default, or that follows from rounds and n."""
        found = super().key_settings()
        if self.rounds is not None or self.batch_size == BATCH_SIZE:
            found.pop("batch_size", None)
        return found

    def unsuitable(self, problem: Problem, mechanism: Mechanism) -> str | None:
        varies = isinstance(mechanism, Gaussian) and (mechanism.budgets or mechanism.mu_min) is not None
        clips = isinstance(mechanism, ClippedGaussian)  # it would clip the sum
        others = mechanism.privacy().notion not in CENTRAL
        if self.noise == "batch" and (varies or clips or others or mechanism.reads_bit()):
            return "noise = 'batch' adds one noise to a sum: use none, laplace or gaussian with one budget"
        return super().unsuitable(problem, mechanism)

    def depends_on_horizon(self) -> bool:
        return self.rounds is not None

    def with_users(self, horizon: int | None) -> Self:
        if self.rounds is None:
            return self
        assert horizon is not None  # depends_on_horizon() is true
        if horizon < self.rounds:
            hint = "A round asks at least one user."
            raise InputError("grid.n", horizon, f"at least {self.rounds:,}, the rounds", hint)
        return self.model_copy(update={"batch_size": horizon // self.rounds})

    def records_per_step(self) -> int:
        assert self.batch_size is not None  # with_users fills it in
        return self.batch_size

    def steps(self, n: int, horizon: int | None = None) -> int:
        made = n // self.records_per_step()
        return made if self.rounds is None else min(made, self.rounds)

    def kernel_parameters(self, horizon: int | None) -> Parameters:
        return {
            "c": self.c,
            "gamma": self.gamma,
            "theta0": self.theta0,
            "batch_size": float(self.records_per_step()),
            "once": 1.0 if self.noise == "batch" else 0.0,
            **self.coordinate_parameters(),
        }

    def step_covariance(self, problem: Problem, mechanism: Mechanism) -> Matrix:
        s = self.records_per_step()
        data, noise = problem.gradient_covariance(), mechanism.noise_covariance(problem)
        return add_matrices(data, noise, 1.0 / s, 1.0 / s**2 if self.noise == "batch" else 1.0 / s)

    def privacy(self, mechanism: Mechanism) -> PrivacyStatement:
        statement = mechanism.privacy()
        if self.noise == "batch" and statement.notion != "none":
            # A record enters one sum. The sensitivity of the sum is that of one gradient.
            return replace(statement, notion=CENTRAL[statement.notion], unit="record (replacement)")
        return statement


def recursion(kernel, users, noises, problem, mechanism, settings, record):  # type: ignore[no-untyped-def]
    """Run mini-batch SGD for LANES replicates (see one_pass). ``record.times`` counts steps.

    A step draws s records, and the noise s times or once.
    """
    c, gamma, s, once = settings.c, settings.gamma, int(settings.batch_size), settings.once > 0.0
    times, marks, centre = record.times, record.marks, record.centre
    total, sums, tile, counts = record.total, record.sums, record.tile, record.counts
    data = np.empty(kernel.DATA_PLANES * STRIDE)
    noise = np.empty(kernel.NOISE_PLANES * STRIDE)
    eta = np.empty(CHUNK)
    theta = register_array(kernel.STATE)
    g = register_array(kernel.STATE)
    mean = register_array(kernel.STATE)
    theta[:] = settings.theta0
    if kernel.BY_COORDINATE:
        for j in range(kernel.D):
            theta[j * LANES : (j + 1) * LANES] = settings.theta0 + settings.offsets[j]
    kept = 0
    taken = CHUNK
    drawn = CHUNK
    i = 0
    t = 0
    while t < times.shape[0]:
        if i % CHUNK == 0:
            step_sizes(i + 1, c, gamma, eta)
        eta_i = eta[i % CHUNK]
        i += 1
        step = float(i)
        mean[:] = 0.0
        for _ in range(s):
            if taken == CHUNK:
                kernel.draw_data(*users, data)
                taken = 0
            if not once and drawn == CHUNK:
                kernel.draw_noise(*noises, noise)
                drawn = 0
            for lane in range(LANES):
                kernel.gradient(g, theta, data, taken * LANES + lane, lane, problem)
                if not once:
                    kernel.randomise(g, noise, drawn * LANES + lane, lane, mechanism, counts)
                for j in range(kernel.D):
                    mean[j * LANES + lane] += g[j * LANES + lane]
            taken += 1
            if not once:
                drawn += 1
        if once and drawn == CHUNK:
            kernel.draw_noise(*noises, noise)
            drawn = 0
        for lane in range(LANES):
            if once:
                kernel.randomise(mean, noise, drawn * LANES + lane, lane, mechanism, counts)
            for j in range(kernel.D):
                mean[j * LANES + lane] /= s
            kernel.keep_step(tile, centre, theta, mean, kept, lane)
            for j in range(kernel.D):
                if kernel.BY_COORDINATE:
                    theta[j * LANES + lane] -= eta_i * settings.factors[j] * mean[j * LANES + lane]
                else:
                    theta[j * LANES + lane] -= eta_i * mean[j * LANES + lane]
            if kernel.ORDERED:
                put_in_order(kernel, theta, lane)
            kernel.add_iterate(total, centre, sums, theta, step, lane)
        ends = i == times[t] and marks[t] >= 0
        kept = kernel.end_step(sums, tile, kept, ends)
        if once:
            drawn += 1
        if i == times[t]:
            kernel.keep_path(record, theta, t)
            t += 1
        kept = kernel.restart(sums, i, kept)
