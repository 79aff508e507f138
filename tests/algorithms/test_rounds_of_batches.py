"""Mini-batch SGD in T rounds: n users in T batches of floor(n/T), the axis `rounds` of a study."""

import pytest

from ldpflow.components.algorithms.minibatch_sgd import MinibatchSgd
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.practice.transcripts.writing import write_transcript
from ldpflow.simulators.approach import limit_law
from ldpflow.simulators.families import Described, description, simulator_from_settings
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from tests import draws
from tests.kernels import uncompiled
from tests.oracles import cells as oracle

N = (100, 203)
STUDY = {
    "name": "rounds",
    "seed": 3,
    "replicates": 4,
    "problem": {"kind": "quantiles", "taus": [[0.3, 0.8]]},
    "mechanism": {"kind": "cells", "epsilon": 1.3},
    "algorithm": {"kind": "minibatch_sgd", "rounds": [7, 30], "c": 0.7},
    "grid": {"n": list(N), "level": 0.9},
    "method": [{"kind": "oracle"}],
}


def changed(**algorithm):
    return STUDY | {"algorithm": {"kind": "minibatch_sgd", **algorithm}}


def simulators(study=STUDY):
    return [plan.simulator for plan in Study.from_mapping(study).plans()]


def test_paths_are_the_literal_recursion_on_the_users_of_complete_rounds(tmp_path, monkeypatch):
    uncompiled.use(monkeypatch)
    study = Study.from_mapping(STUDY)
    run_study(study, tmp_path / "run", engine="serial")
    store, paths = RunStore(tmp_path / "run"), {f"p{s.key}": s for s in simulators()}
    for row in store.replicates.read(damaged="refuse").to_pylist():
        simulator, r = paths[row["path"]], row["replicate"]
        rounds, size = simulator.algorithm.rounds, simulator.horizon // simulator.algorithm.rounds
        values = draws.data(simulator, 3, r, rounds * size)[:, 0]
        uniforms = draws.noise(simulator, 3, r, rounds * size)[:, 0]
        made = oracle.path(values, uniforms, (0.3, 0.8), 1.3, 0.7, 0.51, 0.0, size)
        assert len(made) == rounds == simulator.steps(simulator.horizon)  # 203 users: 30 steps, not 33
        assert row["estimate"] == pytest.approx(made.mean(axis=0)[row["coordinate"]], abs=1e-12)
    summary = store.read_summary().to_pylist()
    assert {(row["n"], row["rounds"], row["batch_size"]) for row in summary} == {
        (n, rounds, n // rounds) for n in N for rounds in (7, 30)
    }
    for row in summary:
        # The oracle's intervals have the length that the summary compares with: T steps, not floor(n/s).
        assert row["length_relative"] == pytest.approx(1.0, rel=1e-12)


def test_a_stored_path_is_restored():
    simulator = simulators()[-1]
    again = simulator_from_settings(simulator.settings())
    assert again == simulator and again.key == simulator.key
    described = Described(simulator.settings(), description(simulator))
    assert limit_law(described) == limit_law(simulator)


def test_without_rounds_settings_and_law_are_as_before():
    assert MinibatchSgd(batch_size=3).key_settings() == {"kind": "minibatch_sgd", "batch_size": 3}
    for default in (MinibatchSgd(), MinibatchSgd(batch_size=10)):
        assert default.batch_size == 10 and default.key_settings() == {"kind": "minibatch_sgd"}
    assert "c = 1.0\nbatch_size = 10\nnoise =" in Study.from_mapping(changed()).to_toml()
    (simulator,) = simulators(changed(batch_size=3))
    assert simulator.horizon is None
    assert set(description(simulator)["limit_law"]) == {"variances", "users_per_step"}


@pytest.mark.thorough
def test_a_transcript_has_the_users_of_complete_rounds(tmp_path):
    bits = {"problem": {"kind": "quantile"}, "mechanism": {"kind": "randomized_response", "epsilon": 1.0}}
    simulator = simulators(changed(rounds=30) | bits)[-1]
    assert write_transcript(simulator, 3, 0, 203, tmp_path / "t.parquet") == 180


@pytest.mark.parametrize(
    ("field", "algorithm"),
    [
        ("algorithm", {"rounds": 7, "batch_size": 10}),
        ("grid.n", {"rounds": 101}),
        ("algorithm.rounds", {"rounds": 0}),
    ],
)
def test_refused(field, algorithm):
    with pytest.raises(InputError) as error:
        Study.from_mapping(changed(**algorithm)).plans()
    assert error.value.field == field
