"""References and the methods paragraph: complete for what is bundled, true to the run."""

import re
from typing import Literal

import pyarrow as pa
import pytest

from ldpflow.components.intervals import INTERVAL_METHODS, IntervalMethod
from ldpflow.results import references as module
from ldpflow.results.design import RunDesign
from ldpflow.results.references import (
    TITLES,
    bibtex,
    cites_of,
    kinds_without_reference,
    references,
    references_of,
    study_paragraph,
)
from ldpflow.study import GROUPS

STUDY = {
    "name": "small",
    "seed": 7,
    "replicates": 64,
    "problem": {"kind": "quantile", "law": "lognormal", "tau": [0.5, 0.9], "location": 0.0, "shape": 0.8},
    "mechanism": [{"kind": "randomized_response", "epsilon": 1.0}],
    "algorithm": {"kind": ["ldp_sgd", "tail_sgd"], "gamma": 0.51, "theta0": 0.0},
    "grid": {"n": [1_000, 10_000], "level": 0.9, "independent_n": False},
    "method": [
        {"kind": "BB", "beta": [0.6, 0.75], "B": 500},
        {"kind": "TR", "degree": 2},
        {"kind": "BM", "quantile": "t"},
    ],
}


NO_ROWS = pa.table({"replicates": pa.array([], pa.int64())})


def paragraph(study, summary=NO_ROWS, sessions=()):
    return study_paragraph(RunDesign(study), summary, sessions)


def test_every_bundled_kind_has_references_and_every_entry_is_used():
    used = set()
    for table in TITLES:
        for kind, cls in GROUPS[table].items():
            if cls.__module__.partition(".")[0] == "ldpflow":
                assert cites_of(table, kind) is not None, f"say which papers {kind} follows in `cites`, or ()"
                used |= {*cites_of(table, kind)}
    assert references().keys() == used | {"morris2019"}


def test_a_component_names_its_papers_itself(monkeypatch):
    class Halves:
        runs = IntervalMethod.runs
        cites = ("chen2020", "@misc{doe2026,\n  author = {Doe, Jo},\n  year = {2026},\n}")

    monkeypatch.setitem(module.GROUPS["method"], "halves", Halves)
    study = {**STUDY, "method": [{"kind": "halves"}]}
    assert kinds_without_reference(study) == []
    assert kinds_without_reference({"method": [{"kind": "thirds"}]}) == ["thirds"]
    assert list(references_of(study))[-2:] == ["chen2020", "doe2026"]
    assert "@misc{doe2026," in bibtex(study)
    text = paragraph(study)
    assert "halves: Chen et al., 2020, Doe, 2026)." in text and "methods these" not in text
    text = paragraph(STUDY | {"method": [{"kind": "BB"}, {"kind": "thirds"}]})
    assert "Of mechanisms, algorithms and methods these follow published work (randomized_response: " in text
    assert "tail_sgd: Jain et al., 2018). No publication is named for thirds. " in text


def test_references_follow_the_kinds_of_the_study():
    assert list(references_of(STUDY)) == [
        "morris2019", "dette2024", "warner1965", "jain2018", "frees1990", "ni2026", "fieller1954", "chen2020"
    ]  # fmt: skip
    text = bibtex(STUDY)
    keys = re.findall(r"^@\w+\{(\w+),$", text, re.MULTILINE)
    assert keys == ["ldpflow", *references_of(STUDY)]


def test_the_paragraph_says_design_seed_streams_replicates_error_and_versions():
    shares = {"failures": [0, 3], "coverage_mcse": [0.03, 0.05]}
    summary = pa.table({"n": [1_000, 10_000], "replicates": [64, 80], **shares})
    precision = {"target_mcse": 0.01, "target_length": None, "min_replicates": 256, "max_replicates": 100_000}
    versions = {"ldpflow": "1.2.3", "python": "3.12.1", "numpy": "2.1.0", "numba": "0.61.0"}
    session = {"versions": versions, "machine": {"processor": "Some Processor"}, "precision": precision}
    text = paragraph(STUDY, summary, [session])
    for words in (
        "problem quantile (law = lognormal, tau = 0.5 and 0.9, shape = 0.8)",
        "ldp_sgd and tail_sgd (gamma = 0.51)",
        "interval methods BB (beta = 0.6 and 0.75), TR (degree = 2) and BM (quantile = t)",
        "with a full factorial design: ",
        "n = 1,000 and 10,000 users; nominal level 0.9",
        "2 cells had 64 to 80 independent replicates",
        "at most 0.05 ",
        "3 of 144 intervals were undefined or diverged",
        "ldp_sgd and BB: Dette and Graw, 2024;",
        "TR is ldpflow's own",
        "All n of a replicate lay on one path",
        "at most 0.01, path by path and judged at numbers fixed in advance, from 256 to at most 100,000.",
        "The seed was 7.",
        "ldpflow 1.2.3 (Python 3.12.1; numpy 2.1.0, numba 0.61.0) on Some Processor.",
    ):
        assert words in text, words


@pytest.mark.parametrize(
    ("horizon", "words"),
    [([1_000, 10_000], "Every n had users and paths"), ([None, 10_000], "Where an algo")],
)
def test_the_paragraph_says_whether_n_share_a_path(horizon, words):
    columns = {"horizon": pa.array(horizon, pa.int64()), "coverage_mcse": [0.1, 0.1]}
    summary = pa.table({"n": [1_000, 10_000], "replicates": [9, 9], "failures": [0, 0], **columns})
    assert words in paragraph(STUDY, summary)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": [{"kind": ["PAR", "HULC"]}]}, "A row of PAR and HULC is made of several replicates"),
        ({"problem": {"kind": "linear_regression", "coefficients": [1.0, 0.5]}}, "coefficients = (1, 0.5)"),
        ({"algorithm": {"kind": "of_a_plugin", "speed": 3}}, "of_a_plugin (speed = 3)"),
        ({"method": []}, "Every path had 64 independent replicates."),
    ],
)
def test_what_the_paragraph_says_of_other_studies(changes, words):
    assert words in paragraph(STUDY | changes) and words not in paragraph(STUDY | {"replicates": 9})
    assert "nominal level" not in paragraph(STUDY | {"method": []})


def test_settings_of_an_own_method_are_named_and_those_that_vary(monkeypatch):
    """Of ldpflow's own methods those at their default only if another entry has another value."""

    class Own(IntervalMethod):
        kind: Literal["wbatch"] = "wbatch"
        batches: int = 20

    monkeypatch.setitem(INTERVAL_METHODS, "wbatch", Own)
    methods = [{"kind": "wbatch", "batches": 20}, {"kind": "BB", "B": 500}, {"kind": "BB", "B": 1000}]
    assert "methods wbatch (batches = 20) and BB;" in paragraph(STUDY | {"method": methods[:2]})
    found = "methods wbatch (batches = 20), BB (B = 500) and BB (B = 1,000);"
    assert found in paragraph(STUDY | {"method": methods})
