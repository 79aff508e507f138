"""Studies: reading, expanding, writing, flags; what a study asks for and does not get is named."""

import math
import tomllib
from pathlib import Path
from typing import Any

import pytest

import ldpflow as lf
from ldpflow.errors import Caution, InputError
from ldpflow.run import Run
from ldpflow.study import Study, bundled_studies, load_study
from tests.cli.conftest import ldpflow  # noqa: F401
from tests.studies import BASE, changed, small


def test_a_setting_goes_to_the_kinds_that_have_it() -> None:
    mapping = changed(mechanism={"kind": ["randomized_response", "none"], "epsilon": [0.5, 1]})
    mapping["method"] = [{"kind": ["BB", "BM"], "beta": [0.7, 0.8]}]
    study = Study.from_mapping(mapping)
    kinds = [plan.simulator.mechanism.kind for plan in study.plans()]
    assert sorted(kinds) == ["none"] * 2 + ["randomized_response"] * 4
    assert [cell.method.kind for cell in study.plans()[0].cells[::2]] == ["BB", "BB", "BM"] * 2


def test_duplicates_are_merged() -> None:
    once = Study.from_mapping(BASE)
    twice = changed(grid__n=[1e3, 1000, 100_000], problem__tau=[0.5, 0.9, 0.5])
    twice["method"] = [*BASE["method"], {"kind": "BM"}, {"kind": "BB", "beta": 0.75, "B": 200}]
    assert Study.from_mapping(twice).plans() == once.plans()


def test_minus_zero_is_zero() -> None:
    studies = [Study.from_mapping(changed(algorithm__theta0=zero)) for zero in (0, 0.0, -0.0)]
    assert len({study.plans()[0].simulator.key for study in studies}) == 1


def marked(name: str) -> Any:
    return pytest.param(name, marks=pytest.mark.thorough if name.startswith("momentum") else ())


@pytest.mark.parametrize("source", ["base", *map(marked, bundled_studies())])
def test_the_resolved_study_reads_back(source: str) -> None:
    study = Study.from_mapping(BASE) if source == "base" else load_study(source)
    again = Study.from_mapping(tomllib.loads(study.to_toml()))
    assert again == study
    assert again.hash() == study.hash()
    assert study.name == source
    if source == "base":  # the plans of bundled studies take a minute
        assert again.plans() == study.plans() == Study.from_mapping(study.settings()).plans()


def test_bundled_files_say_question_command_and_time() -> None:
    folder = Path(__file__).parents[2] / "workflows"
    names = [file.stem for file in folder.rglob("*.toml")]
    assert sorted(names) == sorted(bundled_studies()), "a name stands for one file, in any folder"
    for file in folder.glob("*/*.toml"):
        name = file.stem
        question, command, *others = file.read_text(encoding="utf-8").splitlines()
        assert question.startswith("# ") and "?" in question, name
        assert command.startswith("# Command: ldpflow sweep"), name
        assert any(line.startswith("# Time: ") for line in others), name


def test_gamma_beyond_beta_warns_and_runs() -> None:
    study = Study.from_mapping(changed(algorithm__gamma=[0.7, 0.8]))
    assert len(study.warnings()) == 3
    assert all("gamma < beta" in warning for warning in study.warnings())


def test_flags_replace() -> None:
    numbers = {"n": ["1e4", "2_000"], "epsilon": ["0.25"], "beta": 0.8, "B": "1e3", "replicates": "1e3"}
    study = Study.from_mapping(BASE).replace(numbers | {"seed": "11", "tau": None, "level": []})
    assert study.n == (2000, 10_000)
    assert (study.seed, study.replicates) == (11, 1000)
    assert [plan.simulator.mechanism.epsilon for plan in study.plans()] == [0.25, 0.25]  # type: ignore[attr-defined]
    assert study.method[0].axes["beta"] == (0.8,)
    assert study.method[0].axes["B"] == (1000,)
    assert study.level == (0.9, 0.95)


def test_method_flag_keeps_settings_and_adds_defaults() -> None:
    study = Study.from_mapping(BASE).replace({"method": ["oracle", "BB"]})
    assert [entry.kind for entry in study.method] == ["oracle", "BB"]
    assert study.method[1].axes["B"] == (200,)
    added = Study.from_mapping(changed(method={"kind": "SN"})).replace({"beta": "0.9", "method": "BB"})
    assert added.method[0].axes["beta"] == (0.9,)


@pytest.mark.parametrize(
    ("flags", "field", "said"),
    [
        ({"epsilon": "x"}, "mechanism.epsilon", "'x'"),
        ({"n": "9" * 5000}, "grid.n", "integer"),
        ({"method": "SN", "beta": 0.7}, "method.beta", "SN"),
        ({"seed": "1.5"}, "seed", "integer"),
        ({"epsilno": 1}, "epsilno", "'epsilon'"),
        ({"method": "ACS"}, "method.t_opt", "missing"),
    ],
)
def test_refused_flags(flags: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        Study.from_mapping(BASE).replace(flags)
    assert caught.value.field == field
    assert said in str(caught.value)
    with pytest.raises(InputError, match=r"mechanism.epsilon.*mechanism none"):
        Study.from_mapping(changed(mechanism={"kind": "none"})).replace({"epsilon": 1})


def test_reading_files(tmp_path: Any) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(load_study("quickstart").to_toml().replace('name = "quickstart"\n', ""))
    assert load_study(str(file)).name == "mine"
    file.write_text("d = 2020-01-01")
    for bad in (str(file), str(tmp_path / "no.toml"), str(tmp_path) + "/", "a\0.toml"):
        with pytest.raises(InputError):
            load_study(bad)


UPPER = changed(
    problem__tau=0.9, mechanism__epsilon=1, algorithm={"kind": "ldp_sgd"}, grid={"n": [300, 100, 1000]},
)  # fmt: skip


@pytest.mark.parametrize(("kind", "rule"), [("EBS", "half"), ("EBS", "3n^0.75"), ("LUG", "half")])
@pytest.mark.parametrize("n", [10**4, 10**6])
def test_batches_shorter_than_the_memory_of_a_path_are_warned_of(kind, rule, n):
    chosen = UPPER | {"grid": {"n": n}, "method": [{"kind": kind, "block_rule": rule}]}
    found = [text for text in Study.from_mapping(chosen).warnings() if text.startswith(kind)]
    # Memory n^gamma/(c G), with G the density at the .9 quantile.
    density = math.exp(-0.5 * 1.2815515655446004**2) / math.sqrt(2 * math.pi)
    memory = n**0.51 / density
    length = {"half": {10**4: 128, 10**6: 4096}, "3n^0.75": {10**4: 3000, 10**6: 94869}}[rule][n]
    assert len(found) == (length < 4 * memory)
    if found:
        assert f"{length:,} steps" in found[0] and f"about {memory:,.0f}" in found[0]


SPLIT = [{"kind": "ldp_sgd"}, {"kind": "budget_split", "perturbations": 4}]


def test_a_method_that_makes_no_cell_is_named_with_the_reason():
    study = Study.from_mapping(changed(algorithm=SPLIT, method=[{"kind": "PB"}, {"kind": "SN"}]))
    assert study.left_out() == [
        "PB makes no interval with ldp_sgd: it needs the perturbed paths of budget_split"
    ]
    both = Study.from_mapping(
        changed(
            problem={"kind": "quantile"},
            protocol={"kind": "thresholds", "epsilon": 1.0, "range": [-5.0, 5.0]},
            method=[{"kind": "inversion"}, {"kind": "SN"}],
            trajectory={"points": 3},
        )
    )
    assert both.left_out() == [
        "inversion makes no interval with ldp_sgd: it takes the histogram of a one-shot protocol, not the "
        "path of an algorithm",
        "SN makes no interval with thresholds: it takes the path of an algorithm, not the histogram of a "
        "one-shot protocol",
        "trajectory: there are no steps to follow with thresholds",
    ]


def test_every_way_to_a_run_says_it(ldpflow, tmp_path):  # noqa: F811
    methods = [lf.SelfNormalization(), {"kind": "PB"}]
    study = small(methods=methods, replicates=4)
    with pytest.warns(Caution, match="PB makes no interval"):
        run = lf.sweep(study, tmp_path / "run", executor="serial")
    assert isinstance(run, Run) and run.cautions[0].startswith("PB makes no interval")
    (tmp_path / "s.toml").write_text(study.to_toml())
    again = ldpflow("sweep", tmp_path / "s.toml", "--out", tmp_path / "run", "--engine", "serial")
    assert again.err.splitlines()[0].startswith("warning: PB makes no interval with ldp_sgd")
    assert again.err.count("PB makes no interval") == 1
    for command in ("summary", "explain"):
        assert "PB makes no interval" in ldpflow(command, tmp_path / "run").out
    assert "PB makes no interval" in run._repr_html_()


@pytest.mark.parametrize(
    ("table", "kind", "field"),
    [
        ("mechanism", "randomized_response", "mechanism.epsilon"),
        ("mechanism", "laplace", "mechanism.epsilon"),
        ("mechanism", "gaussian", "mechanism.mu"),
        ("protocol", "thresholds", "protocol.epsilon"),
        ("algorithm", "dp_nsgd", "algorithm.epsilon"),
    ],
)
def test_a_study_says_its_privacy_budget(table, kind, field):
    mapping = changed(**{table: {"kind": kind}})
    with pytest.raises(InputError, match="is missing; expected a number") as refused:
        Study.from_mapping(mapping)
    assert refused.value.field == field
    with pytest.raises(InputError, match=r"mechanism\.epsilon"):
        small(mechanism=lf.RandomizedResponse())


def test_what_has_no_budget_or_a_list_of_them_needs_none():
    assert lf.Gaussian.missing_settings({"budgets": ([1.0, 2.0],)}) == []
    assert lf.NoMechanism.missing_settings({}) == []
    assert Study.from_mapping(changed(mechanism={"kind": "none"})).plans()
