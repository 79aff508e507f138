"""The help of every command: whole at 80 columns, each option explained."""

import pytest
import typer.main
from typer.testing import CliRunner

from ldpflow.cli import app

COMMAND = typer.main.get_command(app)


EVERY = {(): COMMAND} | {(name,): command for name, command in COMMAND.commands.items()}
"""Every command and their group with its words on the command line."""


@pytest.mark.parametrize("words", EVERY, ids=lambda words: " ".join(words) or "ldpflow")
def test_help_is_whole_and_explains_every_option(words):
    for width in ("80", "120"):
        shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": width, "TERMINAL_WIDTH": width})
        assert shown.exit_code == 0 and "…" not in shown.output
        assert max(map(len, shown.output.splitlines())) <= int(width)
    assert EVERY[words].help and [p.name for p in EVERY[words].params if not p.help] == []
