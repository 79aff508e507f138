"""The cache of compiled kernels: one file per kernel on the node's own disk.

Numba's disk cache knows a function by its file: it misses whenever a kernel is built by specialising
functions, and serves stale code when a function that it calls changes in another file. So compiled code is
kept under a key of our own: the digest of everything that went into the kernel (.specialise), what compiled
it, and the processor. One process compiles a kernel while the others wait for it; what is compiled is
loaded without a lock.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from ldpflow.errors import LdpflowError
from ldpflow.kernels.specialise import Case, Specialised, specialised

__all__ = ["KernelCache", "cache_folder", "compiled", "counts"]

counts = {"hits": 0, "misses": 0}
"""Kernels of this process that were loaded, and that were compiled."""


@cache
def cache_folder() -> Path:
    """Folder of compiled kernels: $LDPFLOW_CACHE_DIR, or a private folder of the node's own disk.

    Raises
    ------
    LdpflowError
        If the folder exists but belongs to another user, who could then choose what runs.
    """
    base = os.environ.get("LDPFLOW_CACHE_DIR")
    root = Path(base) if base else Path(tempfile.gettempdir()) / f"ldpflow-{os.getuid()}"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if root.stat().st_uid != os.getuid():
        raise LdpflowError(f"{root} belongs to another user; set LDPFLOW_CACHE_DIR to a folder of your own")
    folder = root / "kernels"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


class Lock:
    """Exclusive lock on a file, released by the operating system if the process dies."""

    def __init__(self, file: Path) -> None:
        self.path = file

    def __enter__(self) -> None:
        import fcntl

        self.file = open(self.path, "a")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *exception: object) -> None:
        self.file.close()


class KernelCache:
    """What a Numba dispatcher asks for compiled code, and gives it to.

    Parameters
    ----------
    name : str
        Name of the kernel's entry, for the file name.
    digest : str
        Of everything that the kernel is made of.

    Notes
    -----
    ``CompileResult._reduce`` and ``_rebuild`` are private to Numba; tests/kernels/test_cache.py pins them.
    """

    def __init__(self, name: str, digest: str) -> None:
        self.name = name
        self.digest = digest
        self.found: bytes | None = None

    cache_path = property(lambda self: str(cache_folder()))

    def file(self, context: Any) -> Path:
        """The kernel's file for this version of Numba and this processor."""
        import llvmlite
        import numba

        compilers = (sys.version, numba.__version__, llvmlite.__version__)
        key = repr((self.digest, compilers, context.codegen().magic_tuple()))
        return cache_folder() / f"{self.name}-{hashlib.sha256(key.encode()).hexdigest()[:40]}.bin"

    def find(self, context: Any) -> bool:
        """Whether there is a compiled kernel, not damaged; it is kept for :meth:`load_overload`."""
        try:
            content = self.file(context).read_bytes()
        except FileNotFoundError:
            return False
        if hashlib.sha256(content[32:]).digest() == content[:32]:
            self.found = content[32:]
        return self.found is not None

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled kernel that was found, or None."""
        from numba.core.compiler import CompileResult

        context.refresh()
        return None if self.found is None else CompileResult._rebuild(context, *pickle.loads(self.found))

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a compiled kernel; whole or not at all."""
        from numba.core.serialize import dumps

        content = dumps(result._reduce())
        file = self.file(result.target_context)
        temporary = file.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(hashlib.sha256(content).digest() + content)
        os.replace(temporary, file)


def compiled(function: Callable[..., Any], case: Case, signature: Any) -> Callable[..., None]:
    """The kernel whose entry is ``function``: loaded from the cache, or compiled.

    Parameters
    ----------
    function : callable
        The function that Python calls.
    case : Case
    signature : str or numba.core.typing.Signature
        Its types, in Numba's words or as Numba's types.
    """
    kernel: Callable[..., None] = loaded(specialised(function, case, "called"), signature)
    return kernel


KERNELS: dict[tuple[str, Any], Any] = {}


def loaded(entry: Specialised, signature: Any) -> Any:
    """The compiled entry; the same code is loaded once per process."""
    known = KERNELS.get((entry.digest, signature))
    if known is not None:
        return known
    from numba import njit
    from numba.core import sigutils
    from numba.core.registry import cpu_target

    store = KernelCache(
        entry.function.__name__, hashlib.sha256(f"{entry.digest}{signature}".encode()).hexdigest()
    )
    types, _ = sigutils.normalize_signature(signature)

    def attempt(plain: Any) -> Any:
        kernel: Any = njit(error_model="numpy", nogil=True, no_cfunc_wrapper=True)(plain)  # type: ignore[call-overload]
        kernel._cache = store
        kernel.compile(types)
        kernel.disable_compile()
        return kernel

    context = cpu_target.target_context
    if store.find(context):
        kernel = attempt(entry.outline())
    else:
        with Lock(store.file(context).with_suffix(".lock")):
            kernel = attempt(entry.outline() if store.find(context) else entry.plain())
    counts["hits"] += sum(kernel.stats.cache_hits.values())
    counts["misses"] += sum(kernel.stats.cache_misses.values())
    KERNELS[entry.digest, signature] = kernel
    return kernel
