"""Studies as Ray jobs, submitted over HTTP to the head of a cluster. ``ray job`` follows and stops them.

A job brings the study as a file, the sources of its plug-ins and this package to the head. The head first
runs

    python -m ldpflow.engine.jobs OUT

in the folder of ``study.toml``. The command prints one line, which :class:`Jobs` reads. The line says that
the sweep can start, or why it cannot. The head then runs ``ldpflow sweep study.toml --address auto``.
"""

from __future__ import annotations

import io
import json
import logging
import os
import secrets
import shlex
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import ldpflow
from ldpflow.errors import InputError, LdpflowError, MissingExtra, StorageError
from ldpflow.study import Study
from ldpflow.study.plugins import FILE_MODULE, MAIN, plugins_of
from ldpflow.study.reading import toml_text

PASSED = "ldpflow: the cluster is ready"
REFUSED = "ldpflow: refused "


def check(out: str, study: str = "study.toml") -> None:
    """Run the checks that a sweep makes before its first batch. This function runs on the head."""
    from ldpflow.engine.run import usable_parts
    from ldpflow.store.files import RunLock
    from ldpflow.store.run_store import RunStore
    from ldpflow.study import load_study

    chosen, role = load_study(study), "" if out.startswith("file:") else ROLE
    try:
        store = RunStore(out)
        with store.named_errors(), RunLock(store, "ldpflow submit"):
            usable_parts(store, chosen)
    except StorageError as failure:
        hint = f"On {socket.gethostname()}: {failure.reason}.{role}"
        raise InputError("out", out, "a place that the head of the cluster can use now", hint) from failure
    except InputError as failure:
        if failure.field != "out" or "no other sweep" in failure.allowed:
            raise
        hint = f"On {socket.gethostname()}: {failure.hint.rstrip('.') or failure.allowed}.{role}"
        raise InputError("out", out, failure.allowed, hint) from failure


def main(arguments: Sequence[str]) -> int:
    """Run :func:`check` and print its result as one line. Returns the exit code, 0 or 2."""
    try:
        check(*arguments)
    except InputError as error:
        refusal = (error.field, error.value, error.allowed, error.hint)
        print(REFUSED + json.dumps(refusal, default=str), flush=True)
        return 2
    print(f"{PASSED} ({socket.gethostname()})", flush=True)
    return 0


def write_study(study: Study, folder: str) -> None:
    """Write a study and its plug-ins to an empty folder, in which ``ldpflow sweep study.toml`` works."""
    settings = study.settings()
    named: dict[str, list[str]] = {}
    for plugin in plugins_of(study.components()):
        if plugin.module.startswith(MAIN):
            name = plugin.module.removeprefix(f"{MAIN}.")
            raise InputError("plugins", name, "a component in a file, not in a notebook or a script")
        for path, text in plugin.files:
            file = Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        if plugin.module.startswith(FILE_MODULE):
            named.setdefault("files", []).append(plugin.files[0][0])
        else:
            named.setdefault("modules", []).append(plugin.module)
    if named:
        settings["plugins"] = settings["plugins"] | named
    Path(folder, "study.toml").write_text(toml_text(settings), encoding="utf-8")


DEFAULT_ADDRESS = "http://127.0.0.1:8265"
CHECK_SECONDS = 300.0  # for the checks on the head, which read the footers of all parts
POLL_SECONDS = 0.5
ANSWER_SECONDS = 30.0  # for a connection and each pause in an answer; a whole answer may take 4 times as long
ANSWER_BYTES = 2**26
NOISY = ("ray", "ray.dashboard.modules.dashboard_sdk", "ray.dashboard.modules.job.sdk")
HEAD = "the head of a Ray cluster"
ROLE = (
    " Give the machines a role that may use this place (see cluster.yaml), or start Ray with credentials in "
    "its environment. The credentials of the submitting machine are not sent."
)
TUNNEL = (
    "Is the cluster up, and the tunnel to its head open (ray dashboard cluster.yaml, or "
    "ssh -N -L 8265:127.0.0.1:8265 HEAD)?"
)
TOKEN = (
    "The cluster's machines have its token in ~/.ray/auth_token. Copy it to the same file here, or to the "
    "file that RAY_AUTH_TOKEN_PATH names."
)


def cluster_address(address: str | None) -> str:
    """HTTP address of the head: the given one, else RAY_API_SERVER_ADDRESS, else DEFAULT_ADDRESS.

    Refuses other addresses, such as those of drivers (``auto`` and ``HOST:6379``).
    """
    chosen = address or os.environ.get("RAY_API_SERVER_ADDRESS") or DEFAULT_ADDRESS
    parts = urlsplit(chosen)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError("address", chosen, "http://HEAD:8265, where the dashboard of the cluster listens")
    return chosen.rstrip("/")


class Jobs:
    """Client of the jobs of a cluster, whose ``address`` is from :func:`cluster_address`."""

    def __init__(self, address: str) -> None:
        self.address = address
        # Some versions of Ray use no token by default.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        # Ray prefers this variable to the argument of its client.
        os.environ["RAY_API_SERVER_ADDRESS"] = address
        try:
            from ray.job_submission import JobSubmissionClient

            for name in NOISY:
                logging.getLogger(name).setLevel(logging.WARNING)
            with self.named_errors():
                self.client: Any = limited_client(JobSubmissionClient)(address)
        except (ImportError, AttributeError) as error:
            raise MissingExtra("cluster", ["Ray's client of jobs"]) from error

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        from ray.exceptions import AuthenticationError

        try:
            yield
        except AuthenticationError as error:
            says = str(error).splitlines()[0].partition(". Ensure")[0].rstrip(".")
            allowed = "a cluster whose token this machine has"
            raise InputError("address", self.address, allowed, f"{says}. {TOKEN}") from error
        except OSError as error:
            says = str(error).rstrip(".")
            if "timed out" in says or isinstance(error, TimeoutError):
                says = f"It has not answered within {ANSWER_SECONDS:g} s"
            raise InputError("address", self.address, HEAD, f"{says}. {TUNNEL}") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            says = "The server there is no head of Ray, or has another version of Ray."
            raise InputError("address", self.address, HEAD, says) from error
        except RuntimeError as error:
            text = str(error)
            if "ray[default]" in text:
                raise MissingExtra("cluster", ["Ray's client of jobs"]) from error
            raise LdpflowError(f"{self.address}: {text}") from error

    def submit(self, study: Study, out: str, options: Sequence[str] = ()) -> str:
        """Submit a study, and wait until :func:`check` has passed on the head. Returns the job's id.

        ``out`` is an address of an object store, or ``file:///FOLDER`` for a folder of the head. ``options``
        are further arguments of ``ldpflow sweep``.
        """
        if "://" not in out:
            hint = f"For a folder of the head, shared or not, give file://{os.path.abspath(out)}"
            raise InputError("out", out, "an s3://, gs:// or file:// address", hint)
        with tempfile.TemporaryDirectory() as folder:
            write_study(study, folder)
            sweep = ["sweep", "study.toml", "--address", "auto", "--out", out, *options]
            with self.named_errors():
                job: str = self.client.submit_job(
                    entrypoint=f"python -m ldpflow.engine.jobs {shlex.quote(out)} && "
                    f"exec python -m ldpflow {shlex.join(sweep)}",
                    submission_id=f"ldpflow-{study.name}-{secrets.token_hex(4)}",
                    runtime_env={
                        "working_dir": folder,
                        "py_modules": [str(Path(ldpflow.__file__).parent)],
                        "excludes": ["__pycache__"],
                    },
                )
            self.await_checks(job)
        return job

    def await_checks(self, job: str) -> None:
        """Wait until :func:`check` has passed on the head, or raise its error."""
        deadline = time.monotonic() + CHECK_SECONDS
        while time.monotonic() < deadline:
            with self.named_errors():
                # The state is read first. If the job has ended, the output that is read then is complete.
                state = self.client.get_job_info(job)
                lines = self.client.get_job_logs(job).splitlines()
            for line in lines:
                if line.startswith(PASSED):
                    return
                if line.startswith(REFUSED):
                    raise InputError(*json.loads(line.removeprefix(REFUSED)))
            if state.status.is_terminal():
                raise LdpflowError(f"{job} ended without a sweep: {state.message}\n" + "\n".join(lines[-20:]))
            time.sleep(POLL_SECONDS)
        raise LdpflowError(f"{job} has not begun within {CHECK_SECONDS:g} s; see ray job logs {job}")


def limited_client(client: type[Any]) -> type[Any]:
    """Make a class of Ray's job client with limits on the time and the size of an answer.

    Ray's client has no limits and no public argument for them. All its calls go through ``_do_request``,
    which passes ``timeout`` and ``hooks`` to ``requests.request``.
    """

    class Limited(client):  # type: ignore[misc]
        def _do_request(self, method: str, endpoint: str, **options: Any) -> Any:
            hooks = {"response": limit_answer}
            return super()._do_request(method, endpoint, timeout=ANSWER_SECONDS, hooks=hooks, **options)

    return Limited


def limit_answer(answer: Any, **options: Any) -> None:
    """Read an answer. Refuses an answer that is too long, takes too long or is incomplete."""
    from urllib3.exceptions import HTTPError

    end, body = time.monotonic() + 4 * ANSWER_SECONDS, bytearray()
    try:
        while chunk := answer.raw.read1(2**16, decode_content=True):
            body += chunk
            if len(body) > ANSWER_BYTES:
                raise ConnectionError(f"Its answer is longer than {ANSWER_BYTES:,} bytes")
            if time.monotonic() > end:
                raise TimeoutError
    except HTTPError as error:
        raise ConnectionError(str(error)) from error
    answer.raw = io.BytesIO(body)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
