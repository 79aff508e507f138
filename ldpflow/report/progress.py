"""What the last sweep of a run has left undone, in a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ldpflow.store.run_store import RunStore
from ldpflow.study.stored import stored_study


def progress(
    store: RunStore,
    sessions: Sequence[Mapping[str, Any]],
    summary: pa.Table,
    read_followed: Callable[[], pa.Table],
    live: bool = False,
) -> str:
    """Replicates of all paths, started or not, whether they may miss a target, and how to continue.

    Nothing for a whole run. A ``live`` page follows the sweep, which is not to be continued.
    """
    last = sessions[-1] if sessions else {"ended": ""}
    running = last.get("ended") is None
    if not running and not last.get("stopped") and not last.get("failed_batches"):
        return ""
    from ldpflow.engine.run import count_finished, progress_text  # loads Numba

    text = "Running, or interrupted" if running else "Not finished"
    study = stored_study(store)
    if study is not None:
        counts = count_finished(study, summary, read_followed(), bool(last.get("precision")))
        if 0 < counts["wanted_replicates"] <= counts["done_replicates"] and not live:
            return ""
        text += f": {progress_text(counts).rstrip(',')}"
    if live:
        return f"{text}."
    command = re.sub(r" --fresh(?!\S)", "", command_of(last))  # which would start over
    again = command if command.startswith("ldpflow sweep ") else "the same call as before"
    return f"{text}. To continue{' it, if it does not run' if running else ''}: {again}"


def command_of(session: Mapping[str, Any]) -> str:
    """The command of a session, without the path of the program; that of a Python script as it was."""
    command = str(session.get("command", ""))
    program, _, rest = command.partition(" ")
    return f"ldpflow {rest}" if program.endswith(("ldpflow", "ldpflow/__main__.py")) else command
