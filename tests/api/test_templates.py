"""What ``ldpflow new`` writes works as it is, and ``ldpflow check-plugin`` finds what is wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ldpflow.errors import InputError
from ldpflow.testing import check_plugin
from ldpflow.testing.writing import KINDS, write_component

ROOT = Path(__file__).parents[2]


SLOW = ("problem", "law", "algorithm", "mechanism")


def run_pytest(folder, *arguments, path=""):
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{path}"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *arguments],
        capture_output=True, text=True, env=environment, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


@pytest.mark.system
def test_the_tests_of_the_example_need_pytest_alone():
    example = ROOT / "examples" / "plugin"
    assert "2 passed" in run_pytest(ROOT, example / "tests", "-k", "literal or true_values", path=example)


@pytest.mark.system
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else ()) for kind in KINDS]
)
def test_a_component_and_its_test_pass_as_written(kind, tmp_path):
    _, test = write_component(kind, f"first_{kind}", str(tmp_path))
    assert f"{3 if kind == 'law' else 2} passed" in run_pytest(tmp_path, test)
    with pytest.raises(InputError, match="exists"):
        write_component(kind, f"first_{kind}", str(tmp_path))


@pytest.mark.parametrize(
    ("kind", "name", "field"),
    [("problem", "A b", "name"), ("problem", "quantile", "name"), ("thing", "x", "kind")],
)
def test_refused(tmp_path, kind, name, field):
    with pytest.raises(InputError) as caught:
        write_component(kind, name, str(tmp_path))
    assert caught.value.field == field


WRONG = {
    "truth": ("return (self.scale / 2.0,)", "return (self.scale / 2.1,)", "true value"),
    "covariance": ("self.scale**2 / 12.0", "self.scale**2 / 10.0", "covariance"),
    "sensitivity": ("return self.scale\n\n    def l2", "return self.scale / 2\n\n    def l2", "sens"),
}


@pytest.mark.system
@pytest.mark.parametrize(
    "mistake", [pytest.param(m, marks=pytest.mark.slow if m != "sensitivity" else ()) for m in WRONG]
)
def test_mistakes_are_found(mistake, tmp_path):
    right, wrong, check = WRONG[mistake]
    code, _ = write_component("problem", f"wrong_{mistake}", str(tmp_path))
    text = code.read_text()
    assert right in text
    code.write_text(text.replace(right, wrong, 1))
    found = [finding for finding in check_plugin(str(code)) if not finding.passed]
    assert found and check in found[0].check


@pytest.mark.slow
def test_a_biased_mechanism_and_bits_that_depend_on_the_batch_are_found(tmp_path):
    code, _ = write_component("mechanism", "biased", str(tmp_path))
    code.write_text(code.read_text().replace("* noise[j * STRIDE + at]", "* (noise[j * STRIDE + at] + 0.1)"))
    assert "unbiased" in next(f for f in check_plugin(str(code)) if not f.passed).check
    code, _ = write_component("method", "unordered", str(tmp_path))
    ordered = "np.sqrt(in_order(deviations**2) / (self.batches - 1) / self.batches)"
    assert ordered in code.read_text()
    code.write_text(code.read_text().replace(ordered, "means.std(axis=0, ddof=1) / np.sqrt(self.batches)"))
    found = next(f for f in check_plugin(str(code)) if not f.passed)
    assert "same bits" in found.check and "ldpflow.components.intervals.in_order" in found.detail


def test_a_plugin_with_a_missing_method_is_one_message(tmp_path):
    (tmp_path / "incomplete.py").write_text(
        "from typing import Literal\nimport ldpflow as lf\n\n@lf.register\nclass Half(lf.Problem):\n"
        '    """Half a problem."""\n    kind: Literal["half"] = "half"\n'
    )
    with pytest.raises(InputError, match=r"incomplete.py: Half(.|\n)*truth"):
        check_plugin(str(tmp_path / "incomplete.py"))
    (tmp_path / "broken.py").write_text("x = 1\nraise RuntimeError('not today')\n")
    with pytest.raises(InputError, match="RuntimeError in line 2: not today"):
        check_plugin(str(tmp_path / "broken.py"))
