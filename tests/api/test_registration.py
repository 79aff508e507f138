"""A class of one's own when it is registered: kind, names of columns, kernel functions."""

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field, create_model

import ldpflow as lf
from ldpflow.columns import Column, Summary
from ldpflow.components.mechanisms import PrivacyStatement
from ldpflow.practice.audit.given_gradient import GivenGradient
from ldpflow.results.columns import PATH_COLUMNS
from ldpflow.results.summary import names_of_summary
from ldpflow.results.trajectories import SUMMARY
from ldpflow.settings import Setting
from ldpflow.store.schema import RESERVED
from ldpflow.study.plugins import FILE_MODULE, REGISTRIES, check_columns

SHARED = {"epsilon", "mu", "delta", "gamma", "c", "batch_size"}
"""Columns of the summary that are settings of bundled components."""


def method(kind="own", setting=None, declared=int, diagnostics=(), annotated=None):
    fields = {"kind": (Literal[annotated or kind], kind)}
    if setting is not None:
        fields[setting] = (Annotated[declared, Field(ge=1), Setting("1", "number of batches")], 20)
    made = create_model("Mine", __base__=lf.SelfNormalization, __doc__="A method.", **fields)
    made.diagnostics = diagnostics
    return made


@pytest.mark.parametrize(
    ("setting", "column", "summary"),
    [
        *((name, "fine", "also_fine") for name in ("n", "path", "coverage", "length_q05", "tau")),
        (None, "estimate", "fine"),
        (None, "fine", "coverage"),
        (None, "epsilon", "fine"),
        (None, "fine", "beta"),
    ],
)
def test_no_setting_diagnostic_or_summary_has_the_name_of_another_column(setting, column, summary):
    declared = Column(column, "double", "1", "a number", summaries=(Summary(summary, "its median"),))
    with pytest.raises(lf.InputError) as caught:
        lf.register(method(setting=setting, diagnostics=(declared,)))
    taken = next(name for name in (setting, column, summary) if name not in (None, "fine"))
    assert caught.value.field == f"test_registration.py: Mine.{taken}"
    assert "own" not in REGISTRIES["method"]


def test_names_that_agree_with_a_bundled_method_are_allowed_and_others_refused():
    lf.register(method("first", "B"))  # BB's B is an integer too
    with pytest.raises(lf.InputError, match=r"Mine.B: .*and this is a double setting"):
        lf.register(method("third", "B", float))
    twice = Column("twice", "double", summaries=(Summary("same", "a"), Summary("same", "b")))
    with pytest.raises(lf.InputError, match="this is a summary"):
        lf.register(method("third", diagnostics=(twice,)))
    with pytest.raises(lf.InputError, match=r"Mine.kind: 'tbatch' is not allowed.*'shape'"):
        lf.register(method("tbatch", annotated="shape"))


def test_no_bundled_component_has_a_reserved_name_and_none_is_forgotten():
    for group, kinds in REGISTRIES.items():
        for kind in kinds.values():
            check_columns(kind, group)
    columns = {column.name for column in PATH_COLUMNS} | {*SUMMARY.names, "theory_bound", "theory_limit"}
    assert (columns | names_of_summary(())) - SHARED <= RESERVED


MECHANISM = '''
from typing import Literal
import ldpflow as lf

@lf.register
class {name}(lf.NoMechanism):
    """Nothing is changed."""
    kind: Literal["{name}"] = "{name}"

{function}
'''


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("def randomise(g, noise, at, lane, mech, counts): g[lane] = mech.flip", "Do not rename `mechanism`"),
        ("def randomise(g, noise, at, lane, mechanism): pass", "lane, mechanism, counts"),
    ],
)
def test_a_kernel_function_with_other_parameters_is_refused_before_it_is_compiled(function, said, tmp_path):
    file = tmp_path / "wrong_kernel.py"
    file.write_text(MECHANISM.format(name="WrongKernel", function=function))
    with pytest.raises(lf.InputError) as caught:
        lf.load_plugin(str(file))
    assert caught.value.field == "wrong_kernel.py: randomise" and said in str(caught.value)
    assert "WrongKernel" not in REGISTRIES["mechanism"]
    other_names = "def randomise(g, a, i, k, mechanism, c): pass"
    file.write_text(MECHANISM.format(name="WrongKernel", function=other_names))
    lf.load_plugin(str(file))
    assert "WrongKernel" in REGISTRIES["mechanism"]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("pass", "nothing_there.py' is not allowed.*@lf.register"),
        ("kind = 'mine'", "line 4: Field 'kind' .* require a type annotation"),
        ("size: type(lf) = 3", "Error in line 4: Unable to generate pydantic-core schema for <class"),
    ],
)
def test_a_file_without_a_component_or_with_a_setting_of_no_type_is_one_message(tmp_path, setting, said):
    file = tmp_path / "nothing_there.py"
    file.write_text(f"import ldpflow as lf\n\n\nclass Mine(lf.SelfNormalization):\n    {setting}\n")
    with pytest.raises(lf.InputError, match=said) as caught:
        lf.load_plugin(str(file))
    assert "http" not in str(caught.value)


def test_a_notion_needs_its_parameter():
    with pytest.raises(lf.InputError, match=r"epsilon=\.\.\."):
        PrivacyStatement("eps-LDP")
    with pytest.raises(lf.InputError, match=r"mu=\.\.\."):
        PrivacyStatement("mu-GDP (local)", epsilon=1.0)
    assert PrivacyStatement("none").epsilon is None


def test_a_mechanism_may_read_settings_of_the_problem_in_an_audit():
    problem = lf.Quantile(tau=0.9)
    stand_in = GivenGradient(values=(0.5,), original=problem)
    assert stand_in.tau == 0.9 and stand_in.kernel_parameters() == {"values": (0.5,)}
    assert stand_in.key_settings() == GivenGradient(values=(0.5,)).key_settings()
    assert stand_in != GivenGradient(values=(0.5,), original=lf.Quantile(tau=0.5))
    with pytest.raises(AttributeError):
        GivenGradient(values=(0.5,)).tau  # noqa: B018


def test_an_edit_of_the_same_second_and_size_is_read(tmp_path, monkeypatch):
    """Python would take the bytecode that it kept of the file before."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    text, found = (Path(__file__).parent / "plugin_method.py").read_text(), []
    for value in ("2.0", "3.0"):
        (tmp_path / "edited_at_once.py").write_text(text.replace("FACTOR = 2.0", f"FACTOR = {value}"))
        os.utime(tmp_path / "edited_at_once.py", (1e9, 1e9))
        found.append(lf.load_plugin(str(tmp_path / "edited_at_once.py")).FACTOR)
        del sys.modules[f"{FILE_MODULE}edited_at_once"]
    assert found == [2.0, 3.0]
