"""Sentence on the replicates that the last sweep of a run has left undone."""

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
    """Count finished replicates, say whether they may miss a target, and how to continue the sweep.

    Empty for a complete run. A ``live`` page does not say how to continue: its sweep runs.
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
    command = re.sub(r" --fresh(?!\S)", "", command_of(last))  # --fresh would start over
    again = command if command.startswith("ldpflow sweep ") else "the same call as before"
    return f"{text}. To continue{' it, if it does not run' if running else ''}: {again}"


def command_of(session: Mapping[str, Any]) -> str:
    """Command of a session. The path of the program ``ldpflow`` is shortened."""
    command = str(session.get("command", ""))
    program, _, rest = command.partition(" ")
    return f"ldpflow {rest}" if program.endswith(("ldpflow", "ldpflow/__main__.py")) else command
