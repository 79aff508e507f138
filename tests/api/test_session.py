"""A whole session in Python, as a person in a notebook types it: serial and on Ray."""

from __future__ import annotations

import pyarrow as pa
import pytest

import ldpflow as lf


@pytest.mark.parametrize("executor", ["serial", "ray"])
def test_a_session(executor, tmp_path, request, monkeypatch):
    if executor == "ray":
        request.getfixturevalue("ray_session")
    monkeypatch.chdir(tmp_path)
    study = lf.Study(
        problem=lf.Quantile(tau=[0.5, 0.9]),
        mechanism=lf.RandomizedResponse(epsilon=[0.5, 1.0]),
        algorithm=lf.LdpSgd(gamma=0.51),
        methods=[lf.BlockBootstrap(beta=[0.65, 0.75]), lf.SelfNormalization(), lf.TranscriptRegression()],
        n=[1e3, 2e3],
        replicates=40,
        seed=1,
        name="mine",
    )
    assert lf.Study.load("paper-table1").replace(n=[1e6]).n == (1_000_000,)
    run = lf.sweep(study, "runs/mine", executor=executor, progress=True)
    chosen = run.summary(where="method == 'BB' and n == 2000")
    assert isinstance(chosen, pa.Table) and chosen.num_rows == 8
    assert run.rows(method="BB", n=2_000).num_rows == 8 * 40
    assert run.trajectories().num_rows == 0
    assert run.compare("method", baseline="SN").num_rows > 0
    assert all(run.explain()["explanation"].to_pylist())
    assert not run.verify("dette-graw").passed
    chart = run.plot("coverage", x="n")
    assert chart._repr_mimebundle_()  # what a notebook shows of it
    assert (tmp_path / run.report("report.html")).stat().st_size > 10_000
    path = run.summary()["path"][0].as_py()
    assert run.replay(path=path, replicate=17).equal
    assert run.check().passed
    assert run.study == study
    assert run.provenance[-1]["seed"] == 1
    bundle = run._repr_mimebundle_()
    assert "<table>" in bundle["text/html"] and bundle["text/html"] == run._repr_html_()
    assert bundle["text/plain"] == repr(run)
    again = lf.open_run(tmp_path / "runs" / "mine")
    assert again.summary().equals(run.summary())
    method = lf.TranscriptRegression()
    record = lf.simulate(study.simulators()[0], seed=1, replicates=range(32), n=[1e3, 1e4], methods=[method])
    found = method.intervals(record, 10_000, [0.9])
    assert found.lower.shape == (1, 1, 32)
    stored = run.rows(method="TR", n=1000, path=path).sort_by("replicate")["estimate"].to_pylist()[:32]
    assert method.intervals(record, 1000, [0.9]).estimate[0].tolist() == stored


def test_values_that_a_class_refuses_are_input_errors_that_name_the_setting():
    for make, field, said in (
        (lambda: lf.Quantile(tau=2), "problem.tau", "a number in (0, 1)"),
        (lambda: lf.RandomizedResponse(epsilon="x"), "mechanism.epsilon", "a number"),
        (lambda: lf.LdpSgd(gama=0.6), "algorithm.gama", "Did you mean 'gamma'?"),
        (lambda: lf.BlockBootstrap(beta=1.5), "method.beta", "(0, 1)"),
        (lambda: lf.Quantile(law="nromal"), "problem.law", "Did you mean 'normal'?"),
        (lambda: lf.Quantile(law="gamma"), "problem", "shape must be given"),
        (lambda: lf.MixturePart(weight=-1), "MixturePart.weight", "a number in (0, 1e+06]"),
    ):
        with pytest.raises(lf.InputError) as caught:
            make()
        assert caught.value.field == field and said in str(caught.value)


def test_an_interrupt_carries_how_the_sweep_ended(tmp_path, monkeypatch):
    study = lf.Study(
        problem=lf.Quantile(), mechanism=lf.RandomizedResponse(epsilon=1.0), algorithm=lf.LdpSgd(),
        methods=lf.Oracle(), n=100_000, replicates=20_000,
    )  # fmt: skip
    monkeypatch.setattr("ldpflow.engine.loop.Interrupts.__call__", lambda self: "SIGINT received")
    with pytest.raises(KeyboardInterrupt, match="what had finished is in") as caught:
        lf.sweep(study, tmp_path / "run", executor="serial")
    assert isinstance(caught.value, lf.SweepInterrupted)
    assert caught.value.result.finished_replicates < 20_000
