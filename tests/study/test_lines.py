"""Messages about a study file name the file and the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldpflow.errors import InputError
from ldpflow.study import load_study
from ldpflow.study.stored import line_of

TEXT = """# a study
name = "mine"
seed = 1

[problem]
kind = "quantile"
tau = 1.5

[mechanism]
kind = "laplace"
epsilon = 1.0

[[method]]
kind = "SN"

[grid]
n = 100
"""


@pytest.mark.parametrize(
    ("field", "line"),
    [("problem.tau", 7), ("seed", 3), ("mechanism.mu", 9), ("method.kind", 14), ("grid.n", 17), ("x", None)],
)
def test_the_line_of_a_setting_or_of_its_table(field: str, line: int | None) -> None:
    assert line_of(TEXT, field) == line


def test_an_inline_table_is_its_line() -> None:
    assert line_of('seed = 1\nproblem = { kind = "quantile", tau = 2 }\n', "problem.tau") == 2


def test_a_refused_study_file_is_named_with_the_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(TEXT)
    with pytest.raises(InputError, match=r"^problem\.tau: 1\.5 is not allowed.* In .*mine\.toml, line 7\.$"):
        load_study(str(file))
