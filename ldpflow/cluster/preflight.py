"""Whether a submitted study can work, asked on the head before anything is computed.

    python -m ldpflow.cluster.preflight OUT [PROBE]

in the folder that holds ``study.toml``. Prints one line that :mod:`ldpflow.cluster.jobs` reads:
that all is well, or what is not.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Sequence

from ldpflow.errors import InputError, StorageError

PASSED = "ldpflow: the cluster is ready"
REFUSED = "ldpflow: refused "


def check(out: str, probe: str | None = None, study: str = "study.toml") -> None:
    """Do all that a sweep does before its first batch.

    Parameters
    ----------
    out : str
        The run, as this machine calls it.
    probe : str, optional
        A file that the submitting machine has put into it.
    study : str
        The study's file.

    Raises
    ------
    InputError
        If the place is not the one that was meant, cannot be written to, is in use, or holds
        another study.
    """
    from ldpflow.engine.growth import usable_parts
    from ldpflow.store import RunLock, RunStore
    from ldpflow.study import load_study

    chosen = load_study(study)
    try:
        store = RunStore(out)
        if probe is not None and store.read(f"tmp/{probe}") is None:
            raise InputError(
                "out",
                out,
                "a place that the head of the cluster has too",
                f"On {socket.gethostname()} it is another folder. Give an object store "
                "(s3://bucket/run, gs://bucket/run), a folder that both machines share, or "
                f"file://{store.base} for one of the head alone.",
            )
        with store.named_errors(), RunLock(store, "ldpflow submit"):
            usable_parts(store, chosen)
    except (StorageError, InputError) as error:
        if "://" not in out or out.startswith("file://") or about_the_study(error):
            raise
        reason = error.reason if isinstance(error, StorageError) else error.hint
        raise InputError(
            "out",
            out,
            "an object store that the machines of the cluster may read and write",
            f"On {socket.gethostname()}: {reason} Give the machines a role that may (cluster.yaml "
            "says where), or start Ray with credentials in its environment; those of the machine "
            "that submits are not sent.",
        ) from error


def about_the_study(error: StorageError | InputError) -> bool:
    """Whether a message is about what the run holds rather than where it is."""
    return isinstance(error, InputError) and (error.field != "out" or "no other sweep" in error.allowed)


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0, or 2 after a line with what is wrong."""
    out, probe = [*arguments, None][:2]
    assert out is not None
    try:
        check(out, probe)
    except InputError as error:
        value = error.value if isinstance(error.value, str | int | float) else str(error.value)
        refusal = (error.field, value, error.allowed, error.hint)
        print(REFUSED + json.dumps(refusal), flush=True)
        return 2
    except StorageError as error:
        refusal = ("out", out, "a place that can be used now", error.reason)
        print(REFUSED + json.dumps(refusal), flush=True)
        return 2
    print(f"{PASSED} ({socket.gethostname()})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
