"""What Python users give by mistake: one error that names the field, never Python's own."""

from __future__ import annotations

import pathlib
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ldpflow as lf
from ldpflow.settings import InputModel
from tests.studies import small

pytestmark = pytest.mark.filterwarnings("ignore::ldpflow.Caution")


def study(**changes):
    return small(**{"methods": lf.Oracle(), "replicates": 4} | changes)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return lf.sweep(study(), tmp_path_factory.mktemp("refused") / "run", executor="serial")


def refused(call, field, *said):
    with pytest.raises(lf.InputError) as caught:
        call()
    assert caught.value.field == field, str(caught.value)
    assert all(text in str(caught.value) for text in said), str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("make", "field", "said"),
    [
        (lambda: lf.LdpSgd(0.6), "algorithm", "by name, as in LdpSgd(theta0=..., gamma=..., c=..., "),
        (lambda: lf.Oracle(1, 2), "method", "no settings"),
        (lambda: lf.Quantile(tau=2), "problem.tau", "a number in (0, 1)"),
        (lambda: lf.MixturePart(weight=-1), "MixturePart.weight", "a number in (0, 1e+06]"),
        (lambda: lf.BlockBootstrap(B=[10, 20], beta=None), "method.beta", "is missing"),
        (lambda: lf.LdpSgd(theta0=[0.0, (1.0, 2.0)]), "algorithm.theta0", "a finite number"),
        (lambda: lf.LdpSgd(gama=[0.6]), "algorithm.gama", "Did you mean 'gamma'?"),
        (lambda: lf.QuantileRegression(coefficients=[1.0]), "problem.coefficients", "2 to 64 values"),
    ],
)
def test_a_value_that_a_class_refuses_names_the_setting(make, field, said):
    refused(make, field, said)


@pytest.mark.parametrize("value", ["1e0", b"1", True])
def test_a_text_is_no_number_in_any_setting(value):
    refused(lambda: lf.RandomizedResponse(epsilon=value), "mechanism.epsilon", "expected a number in")
    refused(lambda: lf.BlockBootstrap(B=value), "method.B", "expected an integer in")
    refused(lambda: lf.QuantileRegression(coefficients=(1.0, value)), "problem.coefficients")
    refused(lambda: study(n=value), "grid.n")
    refused(lambda: study(mechanism=lf.RandomizedResponse(epsilon=[value])), "mechanism.epsilon")


@pytest.mark.parametrize(
    "series", [np.array, pd.Series, pl.Series, lambda values: pa.chunked_array([values])],
    ids=["numpy", "pandas", "polars", "arrow"],
)  # fmt: skip
def test_arrays_are_axes_in_every_setting(series):
    expected = study(problem=lf.Quantile(tau=[0.25, 0.5, 0.75]))
    tau, n = series([0.25, 0.5, 0.75]), series([100, 200])
    assert study(problem=lf.Quantile(tau=tau, df=None)) == expected == study().replace(tau=tau)
    assert study().replace({"problem.tau": tau}) == expected
    many = study(n=[100, 200], methods=lf.BlockBootstrap(B=[100, 200], beta=0.75))
    method = lf.BlockBootstrap(B=n, beta=np.float64(0.75))
    assert study(n=n, methods=method) == many == study(methods=method).replace(n=range(100, 300, 100))


def test_scalars_of_numpy_are_scalars():
    assert lf.Quantile(tau=np.array(0.5)) == lf.Quantile(tau=0.5)
    given = {"replicates": np.int64(4), "seed": np.int32(1), "independent_n": np.bool_(True)}
    given |= {"level": np.float64(0.8), "trajectory": {"first": np.int64(20)}}
    assert study(**given) == study(seed=1, independent_n=True, level=0.8, trajectory={"first": 20})


def test_a_table_that_is_a_setting_may_stand_beside_lists():
    class Part(InputModel):
        a: float = 1.0

    class WithPart(lf.LdpSgd):
        part: Part = Part()

    assert WithPart(part={"a": 2.0}, gamma=[0.6, 0.7]).values["part"] == {"a": 2.0}
    refused(lambda: WithPart(part=[Part(), {"b": 2.0}]), "algorithm.part")


def test_an_array_is_one_vector_and_a_matrix_an_axis():
    law, values = lf.QuantileRegression, ((1.0, 2.0), (0.0, 1.0))
    assert law(coefficients=np.array(values[0])) == law(coefficients=values[0])
    found = study(mechanism=lf.Laplace(epsilon=1.0), problem=law(coefficients=np.array(values)))
    assert found.problem[0].axes["coefficients"] == values


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"methods": []}, "method", ""),
        ({"problem": lf.Quantile(law=["normal", "gamma"], shape=[2.0])}, "problem", "shape must be given"),
        ({"problem": lf.Laplace(epsilon=[1.0])}, "problem", "a problem, as in ldpflow.Quantile"),
        ({"problem": lf.Quantile}, "problem", "a problem, as in ldpflow.Quantile"),
        ({"mechanism": []}, "mechanism", ""),
        ({"algorithm": None}, "algorithm", ""),
        ({"algorithm": lf.Thresholds(range=(0.0, 1.0))}, "algorithm", ""),
        ({"trajectory": {"frist": 3}}, "trajectory.frist", ""),
        ({"monitor": 3}, "monitor", ""),
        ({"plugins": "absent.py"}, "plugins", "absent.py"),
        ({"n": {}}, "grid.n", ""),
    ],
)
def test_errors_about_a_study_speak_python(changes, field, said):
    text = refused(lambda: study(**changes), field, said)
    assert "[[" not in text and "table [" not in text, text


def test_a_study_is_a_path_too(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(study().to_toml())
    assert lf.Study.load(file) == study() == lf.Study.load(str(file))
    absent = pathlib.Path("absent.toml")
    refused(lambda: lf.sweep(absent, tmp_path / "run"), "study", "absent.toml", "No such file")
    for wrong in (3, None, ["quickstart"], lf.Quantile()):
        refused(lambda wrong=wrong: lf.sweep(wrong, tmp_path / "run"), "study", "a study, the name of")
        refused(lambda wrong=wrong: lf.Study.from_toml(wrong), "study")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("target_mcse", "0.5%"), ("target_mcse", True), ("min_replicates", 300.5), ("max_replicates", [300]),
        ("max_time", [3]), ("max_memory", {}), ("num_cpus", "2"), ("num_cpus", 0), ("nice", 20),
        ("retries", -1), ("address", 3), ("executor", 3),
    ],
)  # fmt: skip
def test_options_of_a_sweep(tmp_path, option, value):
    target = {"target_mcse": 0.2} if option.endswith("_replicates") else {}
    options = {"executor": "serial", **target, option: value}
    said = refused(lambda: lf.sweep(study(), tmp_path / "run", **options), option)
    assert said.startswith(f"{option}: {value!r} is not allowed; expected ")
    assert not (tmp_path / "run").exists()


def test_an_unknown_option_is_one_message_with_all_names():
    said = refused(lambda: lf.sweep(study(), excutor="ray"), "excutor", "Did you mean 'executor'", "max_time")
    assert ", executor, " in said
    refused(lambda: lf.plan("quickstart", epsilo=1), "epsilo", "Did you mean 'epsilon'")
    refused(lf.plan, "study", "study is missing; expected one of a study", "`pilot` and `bounds`")
    assert "Threads, or cores" in lf.sweep.__doc__ and "seconds above 0" in lf.sweep.__doc__


def test_numbers_of_numpy_are_options_of_a_sweep(tmp_path):
    options = {"num_cpus": np.int64(1), "target_mcse": np.float64(0.25), "max_replicates": np.int64(256)}
    assert lf.sweep(study(), tmp_path / "run", executor="serial", **options).summary().num_rows == 1
    refused(lambda: lf.sweep(study(), 3), "out", "3")
    refused(lambda: lf.open_run(3), "out", "3")


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda run: run.replay(3), "path"),  # meant as a replicate
        (lambda run: run.replay(replicate=0, last="3"), "last"),
        (lambda run: run.replay(replicate=0.5), "replicate"),
        (lambda run: run.summary(where=3), "where"),
        (lambda run: run.summary(sort=3), "sort"),
        (lambda run: run.summary(columns=[3]), "columns"),
        (lambda run: run.plot("coverage", where=3), "where"),
        (lambda run: run.report(3.5), "file"),
        (lambda run: run.check("x"), "recompute"),
        (lambda run: run.study.replace(3), "values"),
    ],
)
def test_methods_of_a_run(run, call, field):
    refused(lambda: call(run), field)


@pytest.mark.parametrize("name", ["summary", "rows", "explain", "plot"])
def test_a_condition_that_nothing_meets_is_refused_with_what_there_is(run, name):
    where = "n == 7 and method == 'BB'"
    call = partial(getattr(run, name), *["coverage"] * (name == "plot"))
    refused(lambda: call(where=where), "where", where, "n has 100", "method has 'oracle'")


def test_settings_that_no_row_has_are_refused_with_what_there_is(run):
    refused(lambda: run.rows(n=7), "n", "7", "n has 100")
    refused(lambda: run.rows(epsilonn=1.0), "epsilonn")
    refused(lambda: run.summary("n < 7"), "where", "n has 100")
    refused(lambda: run.summary(columns=["length"]), "columns", "Did you mean 'length_mean'?")
    assert run.rows(n=100.0).num_rows == 4
