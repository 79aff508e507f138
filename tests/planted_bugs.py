"""Plant each bug of planted_bugs.toml in a copy of the project, and run the fast tests, which must fail.

    python -m tests.planted_bugs [NUMBER ...]

The tests that a bug names run first, then all fast tests. The exit code is 1 if a bug is not caught.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BUGS: list[dict[str, Any]] = tomllib.loads((ROOT / "tests" / "planted_bugs.toml").read_text())["bug"]
LEFT_OUT = (".git", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".venv", "site")


def is_caught(project: Path, tests: list[str]) -> bool:
    """Whether a test of the copy fails."""
    # test_planted_bugs.py fails for every planted bug, so it is left out.
    places = "--ignore=tests/test_planted_bugs.py"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", places, *tests]
    environment = {**os.environ, "PYTHONPATH": str(project)}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    assert done.returncode in (0, 1, 2), done.stdout + done.stderr
    return done.returncode != 0


def plant(project: Path, bug: dict[str, Any]) -> str:
    """Replace the lines of a bug. Return the former text of the file."""
    file = project / bug["file"]
    text = file.read_text()
    assert text.count(bug["old"]) == 1, bug
    file.write_text(text.replace(bug["old"], bug["new"]))
    return text


def main() -> None:
    numbers = [int(word) for word in sys.argv[1:]] or list(range(len(BUGS)))
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        shutil.copytree(ROOT, project, ignore=shutil.ignore_patterns(*LEFT_OUT))
        for number in numbers:
            bug, start = BUGS[number], time.monotonic()
            text = plant(project, bug)
            caught = is_caught(project, bug["tests"].split()) or is_caught(project, [])
            (project / bug["file"]).write_text(text)
            missed += not caught
            seconds = time.monotonic() - start
            print(
                f"{number:3} {'caught' if caught else 'MISSED'} {seconds:5.0f} s  {bug['what']}", flush=True
            )
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
