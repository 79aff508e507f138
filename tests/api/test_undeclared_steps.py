"""Nothing is computed from step sizes that an algorithm does not declare, or declares wrongly."""

import math

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.results.arrival import linear_arrivals
from ldpflow.simulators.approach import approach
from ldpflow.testing import checks
from ldpflow.testing.checks import Wrong, declared_steps
from ldpflow.testing.writing import write_component
from tests.kernels import uncompiled

DECLARATION = '''    def step_constant(self):
        """NaN: clipped steps are not c i^(-gamma). Without this method steps are declared as c i^(-gamma)."""
        return math.nan

'''


@pytest.fixture(autouse=True)
def plain_kernels(monkeypatch):
    uncompiled.use(monkeypatch)
    monkeypatch.setattr(checks, "STEPS", 300)


@pytest.fixture(scope="module")
def clipped(tmp_path_factory):
    code, _ = write_component("algorithm", "clipped_steps", str(tmp_path_factory.mktemp("clipped")))
    return lf.load_plugin(str(code)).ClippedSteps()


def test_the_scaffold_declares_no_size_and_is_left_out(clipped):
    assert math.isnan(clipped.step_constant())
    assert "not declared" in declared_steps(clipped)
    methods = [{"kind": kind} for kind in ("TR", "TR-BM", "TRC", "BM", "EBS")]
    study = lf.Study(
        problem=lf.Quantile(), mechanism=lf.NoMechanism(), algorithm=clipped, n=[1000], methods=methods
    )
    lines = study.left_out()
    assert [line.split()[0] for line in lines] == ["TR", "TR-BM", "TRC"]
    assert "step sizes that clipped_steps does not declare (step_constant)" in lines[0]
    assert {cell.method.kind for cell in study.plans()[0].cells} == {"BM", "EBS"}
    simulator = study.simulators()[0]
    assert approach(simulator, 1000) is None and linear_arrivals(simulator, 1000) is None
    record = lf.simulate(simulator, 1, range(3), [200], [lf.TranscriptRegression()])
    assert np.isnan(lf.TranscriptRegression().intervals(record, 200, [0.9]).lower).all()
    with pytest.raises(lf.InputError, match="TR: it is computed from step sizes"):
        study.replace(methods=lf.TranscriptRegression()).plans()


def test_steps_that_are_declared_wrongly_are_found(tmp_path):
    code, _ = write_component("algorithm", "wrong_steps", str(tmp_path))
    assert DECLARATION in code.read_text()
    code.write_text(code.read_text().replace(DECLARATION, ""))
    algorithm = lf.load_plugin(str(code)).WrongSteps()
    with pytest.raises(Wrong, match=r"step 1 has size 0.5; .* = 1\. .*return math.nan"):
        declared_steps(algorithm)
    assert "1 i^-0.51 in 299 steps" in declared_steps(algorithm.model_copy(update={"largest": 10.0}))


@pytest.mark.parametrize("algorithm", [lf.LdpSgd(c=3.0, gamma=0.7), lf.MinibatchSgd(), lf.TailSgd(eta=0.1)])
def test_bundled_algorithms_step_as_they_declare(algorithm):
    assert "i^-" in declared_steps(algorithm)


def test_methods_name_what_they_read_of_the_steps():
    paths = {k: m for k, m in INTERVAL_METHODS.items() if issubclass(m, lf.PathIntervalMethod)}
    read = {kind: method(**method.example).steps_read() for kind, method in paths.items()}
    sizes, exponent = ("step_exponent", "step_constant"), ("step_exponent",)
    assert {k for k, names in read.items() if names == sizes} == {"TR", "TR-BM", "TRC", "SUF", "ACS", "joint"}
    assert {k for k, names in read.items() if names == exponent} == {"BM", "NOL", "OBM", "EBS", "LUG"}
    assert lf.EqualBatches(block_rule="3n^0.75").steps_read() == ()
