"""What a sweep says that it waits for: Ray, kernels, the summary; and how far it says it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ldpflow.cli.sweep import done_so_far
from ldpflow.engine import run_study
from ldpflow.engine.batching import Batches, Missing, cut
from ldpflow.engine.waiting import Kernels
from ldpflow.study import Study
from tests.studies import changed

RESPONSE = {"kind": "randomized_response", "epsilon": 1.0}


def small(**changes: Any) -> Study:
    given = {
        "problem": {"kind": "quantile", "tau": [0.5, 0.9]},
        "mechanism": [
            {"kind": "randomized_response", "epsilon": [0.5, 1.0]},
            {"kind": "laplace", "epsilon": 1.0},
        ],
        "algorithm": {"kind": "ldp_sgd"},
        "grid": {"n": 200},
        "method": [{"kind": "BM"}],
        "replicates": 20,
    }
    return Study.from_mapping(changed(**(given | changes)))


def batches_of(study: Study) -> Batches:
    return cut([[Missing(p.simulator, 0, study.replicates, p.cells) for p in study.plans()]], 7, 1)


def test_kernels_are_counted_and_named() -> None:
    """Six paths, two kernels: tau and epsilon are numbers to a kernel."""
    batches = batches_of(small())
    now = [0]
    kernels = Kernels(batches, lambda: now[0])
    assert kernels.total == 2 and kernels.waiting() == ""
    first, *rest = batches
    kernels.submitted(first)
    assert kernels.waiting() == "", "it is loaded, or runs"
    now[0] = 1
    assert kernels.waiting().startswith("compiling kernel 1 of 2 (quantile, ")
    assert kernels.waiting().endswith(", ldp_sgd), 1 more to come")
    for batch in rest:
        kernels.submitted(batch)
    assert kernels.waiting().endswith(", ldp_sgd), 1 more to come")
    now[0] = 2
    assert kernels.waiting().endswith(", ldp_sgd) and another")
    kernels.returned(first)
    assert kernels.waiting().startswith("compiling kernel 2 of 2 (quantile, ")
    for batch in rest:
        kernels.returned(batch)
    assert kernels.waiting() == ""


def test_kernels_that_differ_have_different_names() -> None:
    """The data law, the way of sampling and the dimension make kernels of their own."""
    laws = small(problem={"kind": "quantile", "law": ["normal", "laplace"]}, mechanism=RESPONSE)
    names = [Kernels(batches_of(laws)).of(batch)[1] for batch in batches_of(laws)]
    assert set(names) == {
        "quantile, normal, randomized_response, ldp_sgd",
        "quantile, laplace, randomized_response, ldp_sgd",
    }
    sampled = small(mechanism=RESPONSE | {"sampling": ["data", "private_bit"]})
    names = [Kernels(batches_of(sampled)).of(batch)[1] for batch in batches_of(sampled)]
    assert {"private_bit" in name for name in names} == {True, False}
    plane = small(
        problem={"kind": "linear_regression", "coefficients": [1.0, 2.0]},
        mechanism={"kind": "gaussian", "mu": 1.0},
    )
    (name,) = {Kernels(batches_of(plane)).of(batch)[1] for batch in batches_of(plane)}
    assert name == "linear_regression, gaussian, ldp_sgd, d = 2"


def test_where_other_processes_compile_the_first_batch_is_waited_for() -> None:
    batches = batches_of(small(mechanism={"kind": "laplace", "epsilon": 1.0}))
    kernels = Kernels(batches)
    first = next(iter(batches))
    kernels.submitted(first)
    assert kernels.waiting() == "first batch with kernel 1 of 1 (quantile, normal, laplace, ldp_sgd)"
    kernels.returned(first)
    assert kernels.waiting() == ""


def test_a_sweep_says_what_it_waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ldpflow.engine.threads.ThreadExecutor.compiling", None)
    heard: list[str] = []
    study = small(mechanism={"kind": "randomized_response", "epsilon": 1.0})
    result = run_study(study, tmp_path / "run", engine="serial", on_phase=heard.append)
    assert heard[0] == "first batch with kernel 1 of 1 (quantile, normal, randomized_response, ldp_sgd)"
    assert heard[-1] == "summarising the rows" and "" in heard
    assert (result.paths, result.complete_paths) == (2, 2)
    assert (result.done_replicates, result.wanted_replicates) == (40, 40)


def test_a_sweep_that_was_stopped_says_what_is_done(tmp_path: Path) -> None:
    """After one of two paths: not that no replicate of every cell is there."""
    done: list[Any] = []
    study = small(mechanism={"kind": "randomized_response", "epsilon": 1.0})
    result = run_study(
        study,
        tmp_path / "run",
        engine="serial",
        on_event=done.append,
        should_stop=lambda: "enough" if done else None,
    )
    assert result.stopped == "enough" and 0 < result.done_replicates <= 40 == result.wanted_replicates
    said = done_so_far(study, result)
    assert said.startswith(f"{result.done_replicates} of 40 replicates (") and "of 2 paths complete" in said
