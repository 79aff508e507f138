"""One reader of TOML and JSON: size, depth, kind of file and encoding are refused at once, in one message."""

import os
import time
import tracemalloc
from pathlib import Path

import pytest

import ldpflow as lf
from ldpflow.documents import LARGEST, parse_json, parse_toml, read_text
from ldpflow.errors import InputError
from ldpflow.store.run_store import RunStore
from tests.cli.conftest import ldpflow  # noqa: F401
from tests.studies import small

DEEP = {
    "dotted": ".".join(["a"] * 200_000) + " = 1",
    "dotted table": "[" + ".".join(["a"] * 200_000) + "]",
    "quoted": ".".join(['"a b"'] * 50_000) + " = 1",
    "lists": "a = " + "[" * 50_000 + "]" * 50_000,
    "tables": "a = " + "{a = " * 50_000 + "1" + "}" * 50_000,
    "many tables": "\n".join("[" + ".".join(["abc"] * 60) + f".k{n}]" for n in range(4000)),
    "digits": "a = " + "9" * 500_000,
    "large": "a = 1 # " + "x" * LARGEST,
}  # fmt: skip


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_toml_that_is_large_or_deep(text):
    before = time.process_time()
    try:
        parse_toml(text, "settings")
    except InputError as error:
        assert error.field == "settings" and len(str(error)) < 500
    else:
        assert text is DEEP["many tables"]
    assert time.process_time() - before < 5


@pytest.mark.parametrize("text", ["[" * 50_000, '{"a": ' * 200 + "1" + "}" * 200, b"[" * (LARGEST + 1)])
def test_json_that_is_large_deep_or_broken_is_a_value_error(text):
    with pytest.raises(ValueError):
        parse_json(text)


def test_a_file_that_is_no_text_of_limited_size_is_refused_before_it_is_read(tmp_path):
    (tmp_path / "text.toml").write_bytes(b'a = "\xff"')
    os.mkfifo(tmp_path / "pipe.toml")
    with open(tmp_path / "sparse.toml", "wb") as file:
        file.truncate(2**30)
    files = {
        "UTF-8": tmp_path / "text.toml", "regular file": tmp_path / "pipe.toml",
        "at most": tmp_path / "sparse.toml", "is not a regular file": Path("/dev/zero"),
        "No such file": tmp_path / "none.toml",
    }  # fmt: skip
    tracemalloc.start()
    for said, file in files.items():
        with pytest.raises(InputError, match=said) as refused:
            read_text(file, "settings")
        assert refused.value.field == "settings"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * LARGEST


# Files of a run


@pytest.fixture(scope="module")
def swept(tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("swept") / "run"
    study = small(methods=[lf.BatchMeans(), lf.SelfNormalization()], n=[100, 200])
    lf.sweep(study, run, executor="serial")
    return run


@pytest.fixture
def restored(swept):
    """The run, whose study.toml and provenance.json are put back after the test."""
    kept = {name: (swept / name).read_bytes() for name in ("study.toml", "provenance.json")}
    yield swept
    for name, content in kept.items():
        (swept / name).unlink(missing_ok=True)
        (swept / name).write_bytes(content)


def test_a_study_cut_anywhere_is_refused(restored):
    lines = (restored / "study.toml").read_bytes().splitlines(keepends=True)
    cuts = [lines[:count] for count in range(len(lines))]
    others = [[*lines[:4], *lines[5:]], [*lines, b"# more\n"]]
    for text in [b"".join(lines)[:-1], *map(b"".join, [*cuts, *others])]:
        (restored / "study.toml").write_bytes(text)
        with pytest.raises(InputError, match=r"study\.toml"):
            RunStore(restored).read_study()
        with pytest.raises(InputError, match=r"study\.toml"):
            lf.Study.load(restored / "study.toml")


@pytest.mark.parametrize("line", ["cite", "summary", "explain", "replay --replicate 0", "check"])
def test_a_command_on_a_run_whose_study_was_cut(line, restored, ldpflow):  # noqa: F811
    name, *more = line.split()
    whole = (restored / "study.toml").read_text()
    old = whole.rpartition("# SHA-256")[0]
    for text in (old, old.partition("[[method]]")[0], "", whole.replace("seed = 0", "seed = 1")):
        (restored / "study.toml").write_text(text)
        done = ldpflow(name, restored, *more)
        said = "\n".join(done.out.splitlines()[:-1]) if name == "check" else done.err.strip()
        assert done.code == (1 if name == "check" else 2) and "study.toml" in said, done
        assert said.count("\n") == 0 and ("version before 0.3" in said) == ("# SHA-256" not in text)


def test_a_sweep_with_its_study_writes_it_again(restored):
    study = lf.Study.load(restored / "study.toml")
    (restored / "study.toml").write_bytes(b"")
    lf.sweep(study, restored, executor="serial")
    assert lf.open_run(restored).study == study
