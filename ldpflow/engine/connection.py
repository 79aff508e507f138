"""Starting a Ray on this machine, or joining a cluster as one of its drivers."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import Any

from ldpflow.engine.choice import ray_addresses
from ldpflow.errors import InputError, LdpflowError, address_limit

__all__ = ["connect", "unreachable"]

# One thread per task: the replicates are the parallelism.
THREADS = {
    name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
}

# A machine that is gone without a word is noticed within a minute; Ray's own settings take seven.
KEEPALIVE = {
    "RAY_grpc_client_keepalive_time_ms": "30000",
    "RAY_grpc_client_keepalive_timeout_ms": "30000",
}

CONNECT_SECONDS = 10.0

ADDRESSES = "auto or HOST:6379, on a machine of the cluster"
FROM_OUTSIDE = "From any other machine: ldpflow submit STUDY --address http://HEAD:8265 --out ..."


def connect(address: str | None, num_cpus: int | None, verbose: bool, nice: int | None = None) -> None:
    """Start or join Ray.

    Parameters
    ----------
    address : str or None
        Of the cluster, as for ``ray.init``; None starts a Ray that ends with this process.
    num_cpus : int or None
        Cores of the Ray that is started.
    verbose : bool
        Let Ray's own log lines through.
    nice : int, optional
        Niceness of the workers of the Ray that is started; Ray's own is 15.

    Raises
    ------
    InputError
        Naming ``address``, if there is no such cluster, its Ray or Python is another version, its
        token is another one, or the address is one of Ray Client. A Ray Client's connection is the
        life of all its work, and Ray advises jobs for work that lasts.
    """
    import ray
    from ray.exceptions import AuthenticationError

    logging: dict[str, Any] = {"log_to_driver": verbose}
    if not verbose:
        logging["logging_level"] = "ERROR"
    if address is None:
        if (limit := address_limit()) < (least := ray_addresses()):
            allowed = f"`engine` threads with a limit of {limit / 2**30:.1f} GiB of addresses (ulimit -v)"
            raise InputError("engine", "ray", allowed, f"Ray needs {least / 2**30:.1f} GiB here.")
        os.environ.update(THREADS)
        if nice is not None:
            os.environ["RAY_worker_niceness"] = str(nice)
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # Without "local" Ray would join whatever cluster this machine happens to run.
        options: dict[str, Any] = {
            "address": "local",
            "num_cpus": num_cpus,
            "include_dashboard": False,
        }
    else:
        check_address(address)
        for name, value in KEEPALIVE.items():
            os.environ.setdefault(name, value)
        options = {"address": address, "runtime_env": {"env_vars": THREADS}}
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(**options, **logging)
    except AuthenticationError as error:
        raise InputError(
            "address",
            address,
            "a cluster that knows this machine's token",
            f"{str(error).splitlines()[0]} Set RAY_AUTH_TOKEN_PATH to the file with the cluster's "
            "token; a machine of the cluster has it in ~/.ray/auth_token.",
        ) from error
    except (ConnectionError, RuntimeError, ValueError) as error:
        if address is None:
            raise LdpflowError(f"Ray could not be started on this machine: {error}") from error
        hint = f"{error}. If it is there, its token or version may be another one. {FROM_OUTSIDE}"
        raise InputError("address", address, ADDRESSES, hint) from error
    if before is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)  # Ray puts its own in the place of the caller's


def check_address(address: str) -> None:
    """Refuse addresses that a driver cannot use."""
    for name, value in (("address", address), ("RAY_ADDRESS", os.environ.get("RAY_ADDRESS", ""))):
        if name == "RAY_ADDRESS" and address != "auto":
            continue  # Ray reads it for auto alone
        if value.startswith("ray://"):
            why = "A Ray Client's work ends when its connection does."
        elif "://" in value:
            why = "That is not where drivers connect."
        else:
            continue
        raise InputError(name, value, ADDRESSES, f"{why} {FROM_OUTSIDE}")
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and (reason := unreachable(host.strip("[]"), int(port))) is not None:
        # Ray itself would try for minutes.
        raise InputError("address", address, ADDRESSES, f"{reason}. {FROM_OUTSIDE}")


def unreachable(host: str, port: int) -> str | None:
    """Reason why a host and port do not answer, or None."""
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError as error:
        return error.strerror or str(error)
    return None
