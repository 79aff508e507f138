"""The transcript of a replicate of a run."""

from __future__ import annotations

import os
import re

from ldpflow.engine.replay import planned_path
from ldpflow.errors import InputError
from ldpflow.store import RunStore
from ldpflow.study.stored import needed_study
from ldpflow.transcripts.writing import write_transcript


def stored_transcript(
    run: str | os.PathLike[str],
    path_key: str,
    replicate: int,
    file: str | os.PathLike[str],
    n: int | None = None,
) -> int:
    """Write what the users of a stored replicate were asked and answered.

    Parameters
    ----------
    run : path or URI
    path_key : str
        With or without the p of the folder's name.
    replicate : int
    file : path
        Parquet by its name, else CSV with the settings in FILE.toml.
    n : int, optional
        Users; the largest n of the path unless given.

    Returns
    -------
    int
        Rows of the file.

    Raises
    ------
    InputError
        If the run has no such path, or the path no transcript of local reports.
    """
    if not re.fullmatch("p?[0-9a-f]{16}", path_key):
        raise InputError("path", path_key, "a path key as in the folder names: p and 16 hex digits")
    store = RunStore(run)
    with store.named_errors():
        study = needed_study(store)
    plan, _ = planned_path(study, path_key.removeprefix("p"))
    if plan is None:
        keys = ", ".join(f"p{plan.simulator.key}" for plan in study.plans()[:5])
        raise InputError("path", path_key, "a path of the run", f"It has: {keys}.")
    if "protocol" in plan.simulator.parts():
        kind = plan.simulator.parts()["protocol"].kind
        hint = "Reports of rounds of thresholds and of one-shot protocols cannot be analysed in this version."
        raise InputError("path", f"{path_key} (protocol {kind})", "a path of SGD", hint)
    users = n if n is not None else max([cell.n for cell in plan.cells], default=0)
    if users < 1:
        raise InputError("n", n, "a number of users: the path has no cells")
    methods = dict.fromkeys(
        cell.method
        for cell in plan.cells
        if cell.method.kind != "PB" and not cell.method.reads_truth() and cell.method.runs(cell.level) == 1
    )
    levels = dict.fromkeys(cell.level for cell in plan.cells)
    return write_transcript(
        plan.simulator, study.seed, replicate, users, file, tuple(methods), tuple(levels) or (0.9,)
    )
