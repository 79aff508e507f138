"""Studies as Ray jobs, submitted over HTTP to the head of a cluster; ``ray job`` follows and stops them.

What travels is the study as a file, the sources of its plug-ins, and this package. The head runs

    python -m ldpflow.engine.jobs OUT [PROBE]

in the folder with ``study.toml``, which prints one line that :class:`Jobs` reads: that the study can work
there, or what is wrong. Then it runs ``ldpflow sweep --address auto``.
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
from contextlib import contextmanager, suppress
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


def check(out: str, probe: str | None = None, study: str = "study.toml") -> None:
    """Do all that a sweep does before its first batch, and look for a file of the submitting machine."""
    from ldpflow.engine.run import usable_parts
    from ldpflow.store.files import RunLock
    from ldpflow.store.run_store import RunStore
    from ldpflow.study import load_study

    chosen = load_study(study)
    try:
        store = RunStore(out)
        if probe is not None and store.read(f"tmp/{probe}") is None:
            hint = (
                f"On {socket.gethostname()} it is another folder. Give an object store (s3://bucket/run, "
                f"gs://bucket/run), a folder that both machines share, or file://{store.base} for one of the "
                "head alone."
            )
            raise InputError("out", out, "a place that the head of the cluster has too", hint)
        with store.named_errors(), RunLock(store, "ldpflow submit"):
            usable_parts(store, chosen)
    except StorageError as failure:
        hint = f"On {socket.gethostname()}: {failure.reason}.{ROLE * ('://' in out)}"
        raise InputError("out", out, "a place that the head of the cluster can use now", hint) from failure
    except InputError as failure:
        if "://" not in out or failure.field != "out" or "no other sweep" in failure.allowed:
            raise
        hint = f"On {socket.gethostname()}: {failure.hint.rstrip('.')}.{ROLE}"
        raise InputError("out", out, failure.allowed, hint) from failure


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0, or 2 after a line with what is wrong."""
    try:
        check(*arguments)
    except InputError as error:
        refusal = (error.field, error.value, error.allowed, error.hint)
        print(REFUSED + json.dumps(refusal, default=str), flush=True)
        return 2
    print(f"{PASSED} ({socket.gethostname()})", flush=True)
    return 0


def write_study(study: Study, folder: str) -> None:
    """Write a study and its plug-ins to an empty folder, from which ``ldpflow sweep study.toml`` runs."""
    settings = study.settings()
    named: dict[str, list[str]] = {}
    for plugin in plugins_of(study.components()):
        if plugin.module.startswith(MAIN):
            raise InputError(
                "plugins", plugin.module.removeprefix(f"{MAIN}."), "components in a file of their own",
                "What a notebook or a script defines cannot travel to a cluster: write it to a file.",
            )  # fmt: skip
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
CHECK_SECONDS = 300.0  # until the cluster's side has looked: footers of a large run take a while
POLL_SECONDS = 0.5
ANSWER_SECONDS = 30.0  # for a connection and for each silence of the server; four times that for an answer
ANSWER_BYTES = 2**26
NOISY = ("ray", "ray.dashboard.modules.dashboard_sdk", "ray.dashboard.modules.job.sdk")
HEAD = "the head of a Ray cluster"
ROLE = (
    " Give the machines a role that may use it (cluster.yaml says where), or start Ray with credentials in "
    "its environment; those of the machine that submits are not sent."
)
TUNNEL = (
    "Is the cluster up, and the tunnel to its head open (ray dashboard cluster.yaml, or "
    "ssh -N -L 8265:127.0.0.1:8265 HEAD)?"
)
TOKEN = (
    "Its token is in ~/.ray/auth_token on its machines; here it is read from the same file, or "
    "from the one that RAY_AUTH_TOKEN_PATH names."
)


def cluster_address(address: str | None) -> str:
    """The given address, RAY_API_SERVER_ADDRESS, or the end of a tunnel. Drivers' addresses are refused."""
    chosen = address or os.environ.get("RAY_API_SERVER_ADDRESS") or DEFAULT_ADDRESS
    parts = urlsplit(chosen)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        hint = "Drivers' addresses (auto, HOST:6379) are for ldpflow sweep on a machine of the cluster."
        allowed = "http://HEAD:8265, where the dashboard of the cluster listens"
        raise InputError("address", chosen, allowed, hint)
    return chosen.rstrip("/")


class Jobs:
    """The jobs of the cluster at an address (:func:`cluster_address`).

    A cluster that does not answer, or has another token, Ray or Python, is refused.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        # A token that is there is used, whatever the version of Ray does by default; and Ray lets
        # this variable win over the argument.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ["RAY_API_SERVER_ADDRESS"] = address
        try:
            from ray.job_submission import JobSubmissionClient

            for name in NOISY:
                logging.getLogger(name).setLevel(logging.WARNING)
            with self.named_errors():
                self.client: Any = limited_client(JobSubmissionClient)(address)
        except (ImportError, AttributeError) as error:
            raise MissingExtra("cluster", ["Ray's client of jobs"]) from error
        with self.named_errors():
            self.check_versions()

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """Turn what Ray says into a message about the address."""
        from ray.exceptions import AuthenticationError

        try:
            yield
        except AuthenticationError as error:
            says = str(error).splitlines()[0].partition(". Ensure")[0].rstrip(".")
            allowed = "a cluster whose token is known here"
            raise InputError("address", self.address, allowed, f"{says}. {TOKEN}") from error
        except OSError as error:
            says = str(error).rstrip(".")
            if "timed out" in says or isinstance(error, TimeoutError):
                says = f"It has not answered within {ANSWER_SECONDS:g} s"
            raise InputError("address", self.address, HEAD, f"{says}. {TUNNEL}") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            says = "What answers there is no head of Ray, or of another version."
            raise InputError("address", self.address, HEAD, says) from error
        except RuntimeError as error:
            text = str(error)
            if "ray[default]" in text:
                raise MissingExtra("cluster", ["Ray's client of jobs"]) from error
            raise LdpflowError(f"{self.address}: {text}") from error

    def check_versions(self) -> None:
        """Refuse a cluster with another Ray or another Python."""
        import ray

        answer = self.client._do_request("GET", "/api/v0/cluster_metadata")
        if answer.status_code != 200:
            raise LdpflowError(f"{self.address}: {answer.status_code} {answer.text[:200]}")
        there = answer.json()["data"]
        ours = {"Ray": ray.__version__, "Python": "{}.{}".format(*sys.version_info)}
        python = ".".join(str(there["pythonVersion"]).split(".")[:2])
        theirs = {"Ray": there["rayVersion"], "Python": python}
        wrong = [name for name in ours if ours[name] != theirs[name]]
        if wrong:
            says = ", ".join(f"{name} {theirs[name]} there and {ours[name]} here" for name in wrong)
            hint = f"{says}: install the cluster's versions here, or these there (cluster.yaml)."
            raise InputError("address", self.address, "a cluster with this machine's Ray and Python", hint)

    def submit(self, study: Study, out: str, options: Sequence[str] = ()) -> str:
        """Submit a study, and wait until :func:`check` has passed on the head. Returns the job's id.

        ``out``: an object store's address, a folder that this machine and the head share, or one of the head
        itself (``file://``). ``options``: of ``ldpflow sweep``.
        """
        with tempfile.TemporaryDirectory() as folder, probe_file(out) as here:
            write_study(study, folder)
            sweep = ["sweep", "study.toml", "--address", "auto", "--out", here[0], *options]
            with self.named_errors():
                job: str = self.client.submit_job(
                    entrypoint=f"python -m ldpflow.engine.jobs {shlex.join(here)} && "
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
        """Return when :func:`check` has passed on the head; raise what it says otherwise."""
        deadline = time.monotonic() + CHECK_SECONDS
        while time.monotonic() < deadline:
            with self.named_errors():
                state = self.client.get_job_info(job)  # before the output, complete if the job is over
                lines = self.client.get_job_logs(job).splitlines()
            for line in lines:
                if line.startswith(PASSED):
                    return
                if line.startswith(REFUSED):
                    raise InputError(*json.loads(line.removeprefix(REFUSED)))
            if state.status.is_terminal():
                raise LdpflowError(f"{job} ended before it began: {state.message}\n" + "\n".join(lines[-20:]))
            time.sleep(POLL_SECONDS)
        raise LdpflowError(f"{job} has not begun within {CHECK_SECONDS:g} s; see ray job logs {job}")


def limited_client(client: type[Any]) -> type[Any]:
    """Ray's client of jobs with limits on the time and the size of an answer.

    Ray's client has none: every call goes through ``_do_request``, which passes ``timeout`` and ``hooks`` on
    to ``requests.request``, and no public argument of the client reaches that call.
    """

    class Limited(client):  # type: ignore[misc]
        def _do_request(self, method: str, endpoint: str, **options: Any) -> Any:
            hooks = {"response": limit_answer}
            return super()._do_request(method, endpoint, timeout=ANSWER_SECONDS, hooks=hooks, **options)

    return Limited


def limit_answer(answer: Any, **options: Any) -> None:
    """Read an answer; refuse one that is too long, takes too long or is cut."""
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


@contextmanager
def probe_file(out: str) -> Iterator[tuple[str, ...]]:
    """Arguments of :func:`check`: the place as the head calls it; in a folder, a file that the head must see.

    Only a look from both sides tells whether a folder of this machine is the head's too.
    """
    if "://" in out:
        yield (out,)
        return
    folder = Path(out).absolute()
    probe = folder / "tmp" / f"probe-{secrets.token_hex(8)}"
    try:
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe.touch()
    except OSError as error:
        allowed = "a place that can be written to from here and from the head"
        hint = f"{error.strerror}. For a folder of the head alone say file://{folder}"
        raise InputError("out", out, allowed, hint) from error
    try:
        yield str(folder), probe.name
    finally:
        probe.unlink(missing_ok=True)
        with suppress(OSError):  # other files are in them
            probe.parent.rmdir()
            folder.rmdir()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
