"""Study files as text: whatever is in them, a study or one refusal, and no waiting."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ldpflow.errors import InputError
from ldpflow.study import Study, load_study
from tests.studies import BASE

TEXT = Study.from_mapping(BASE).to_toml()
LINES = TEXT.splitlines()
ODD = [
    "1e400", "-1e400", "nan", "-inf", "1e9999999", "9" * 30, "0x7fffffffffffffffff", "[]", "[[]]",
    "{}", "''", '"\u202e\u0661"', '"\\u0000"', "1979-05-27", "true", "[1, 'a', []]", "٣",
    "[" + "1.5, " * 3000 + "2.5]", "[" * 200 + "]" * 200,
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A valid file with lines doubled, dropped, swapped, cut, or given odd values."""
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        key = lines[at].partition("=")[0]
        change = draw(st.integers(0, 5))
        if change == 0:
            lines.insert(at, lines[at])  # a duplicate key or table
        elif change == 1:
            lines.insert(draw(st.integers(0, len(lines))), lines.pop(at))
        elif change == 2:
            lines[at] = lines[at][: draw(st.integers(0, len(lines[at])))]
        elif change == 3:
            lines[at] = f"{key} = {draw(st.sampled_from(ODD))}"
        elif change == 4:
            lines[at] = f"{draw(st.text(max_size=5))}{lines[at]}"
        else:
            lines[at] = f"{key} = {draw(st.one_of(st.integers(), st.floats(), st.booleans()))}"
        if not lines:
            lines = [""]
    return "\n".join(lines)


@settings(
    max_examples=100,
    deadline=3000,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(mutated())
def test_no_text_raises_anything_else(tmp_path: Path, text: str) -> None:
    file = tmp_path / "study.toml"
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        study = load_study(str(file))
    except InputError as error:
        assert error.field and str(error)
    else:
        assert Study.from_mapping(study.settings()) == study


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (TEXT.replace("seed = 7", "seed = 7\nseed = 8"), "TOML"),
        (TEXT + "\n[grid]\nn = 5\n", "TOML"),
        (TEXT.replace('name = "base"', 'name = "\u00e9tude"'), "name"),
        (TEXT.replace("seed = 7", "s\u00e9ed = 7"), "TOML"),
        (TEXT.replace("seed = 7", '"s\u00e9ed" = 7'), "s\u00e9ed"),
    ],
)
def test_refused(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "study.toml").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        load_study(str(tmp_path / "study.toml"))


def test_not_even_text(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_bytes(b"\xff\xfe\x00n")
    with pytest.raises(InputError, match="TOML"):
        load_study(str(tmp_path / "study.toml"))


def test_a_thousand_million_cells_are_refused_at_once(tmp_path: Path) -> None:
    axis = ", ".join(str(0.5001 + i / 3000) for i in range(1000))
    text = TEXT.replace("gamma = 0.6", f"gamma = [{axis}]\nc = [{axis}]")
    text = text.replace("c = 1.0\n", "").replace("tau = [0.5, 0.9]", f"tau = [{axis}]")
    (tmp_path / "study.toml").write_text(text)
    started = time.process_time()
    with pytest.raises(InputError, match="at most 100,000 cells") as caught:
        load_study(str(tmp_path / "study.toml"))
    assert time.process_time() - started < 2
    assert caught.value.field == "study"
