"""Methods that take the standard error of another one, which is a plug-in's."""

import pickle
from functools import partial

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.study.plugins import plugins_of
from tests.studies import forget_plugins, small

METHOD = '''
from typing import ClassVar, Literal
import ldpflow as lf
from ldpflow.columns import Column

@lf.register
class Half(lf.BatchMeans):
    """Batch means with half of their standard error."""
    kind: Literal["half"] = "half"
    diagnostics: ClassVar = (Column("halved", "double", "1", "a number"),)

    def intervals(self, record, n, levels):
        found = super().intervals(record, n, levels)
        se = None if NONE else found.se / 2
        return lf.Intervals(found.estimate, se, found.lower, found.upper, {"halved": found.se})

NONE = False
'''


@pytest.fixture
def half(tmp_path):
    """The file of a method that can be a base, loaded."""
    file = tmp_path / "half.py"
    file.write_text(METHOD)
    lf.load_plugin(str(file))
    return file


KINDS = pytest.mark.parametrize(
    "around", [lf.SuffixAverage, partial(lf.ConfidenceSequence, t_opt=300)], ids=["SUF", "ACS"]
)


@KINDS
def test_half_of_the_standard_error(around, half, tmp_path):
    asked = small(methods=[around(base="BM", M=7), around(base="half", M=7)])
    assert [plugin.name for plugin in plugins_of(asked.components())] == ["half"]
    run = lf.sweep(asked, tmp_path / "run", executor="serial")
    known, own = (run.rows(base=base)["se"].to_numpy() for base in ("BM", "half"))
    assert np.array_equal(own, known / 2) and np.isfinite(own).all()
    assert run.replay(replicate=3).equal


def test_the_base_travels_with_its_source(half):
    method = lf.SuffixAverage(base="half", M=7)
    bytes_sent = pickle.dumps(method)
    half.unlink()
    forget_plugins("half")
    with pytest.raises(lf.InputError, match="method.base: 'half' is not allowed; expected one of 'TRC'"):
        lf.SuffixAverage(base="half")
    arrived = pickle.loads(bytes_sent)
    assert arrived.base_method().kind == "half" and arrived.base_method().M == 7


@KINDS
def test_a_base_needs_a_standard_error_of_one_path(around, tmp_path):
    file = tmp_path / "no_se.py"
    file.write_text(METHOD.replace("NONE = False", "NONE = True"))
    lf.load_plugin(str(file))
    with pytest.raises(lf.LdpflowError, match="half has no standard error"):
        lf.sweep(small(methods=around(base="half")), tmp_path / "run", executor="serial")
    file = tmp_path / "in_runs.py"
    of_runs = "    def runs(self, level):\n        return 3\n\n    kind:"
    file.write_text(METHOD.replace('"half"', '"runs"').replace("    kind:", of_runs))
    lf.load_plugin(str(file))
    with pytest.raises(lf.InputError, match="runs makes a row of several replicates"):
        around(base="runs")
