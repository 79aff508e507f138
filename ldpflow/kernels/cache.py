"""The cache of compiled kernels: one file per kernel on the node's own disk.

Numba's disk cache knows a function by its file: it misses whenever a kernel is built by specialising
functions, and serves stale code when a function that it calls changes in another file. So compiled code is
kept under a key of our own: the digest of everything that went into the kernel (.specialise), what compiled
it, and the processor. One process compiles a kernel while the others wait for it; what is compiled is
loaded without a lock.
"""

from __future__ import annotations

import errno
import gc
import hashlib
import os
import pickle
import secrets
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from ldpflow.errors import InputError
from ldpflow.kernels.specialise import Case, Specialised, specialised

__all__ = [
    "KernelCache",
    "cache_folder",
    "check_private",
    "compiled",
    "counts",
    "read_private",
    "write_private",
]

INLINING_MODULES = ("forms", "inlining", "pipeline", "syntax")

counts = {"hits": 0, "misses": 0, "compiling": 0}
"""Kernels of this process that were loaded, that were compiled, and that are being compiled now."""


@cache
def cache_folder() -> Path:
    """Folder of compiled kernels: $LDPFLOW_CACHE_DIR, or a private folder of the node's own disk.

    What lies there is machine code that this process runs.

    Raises
    ------
    InputError
        Naming LDPFLOW_CACHE_DIR, if another user could write to the folder or put another in its place,
        or if it cannot be written to.
    """
    base = os.environ.get("LDPFLOW_CACHE_DIR")
    root = Path(base) if base else Path(tempfile.gettempdir()) / f"ldpflow-{os.getuid()}"
    try:
        root = root.absolute()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for above in root.parent.resolve(), *root.parent.resolve().parents:
            check_private(above, above=True)
        folder = root / "kernels"
        check_private(root)
        folder.mkdir(mode=0o700, exist_ok=True)
        check_private(folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
    except OSError as error:
        reason = f"{error.strerror or error}."
        raise InputError("LDPFLOW_CACHE_DIR", str(root), "a folder that can be written to", reason) from None
    return folder


def check_private(folder: Path, above: bool = False) -> None:
    """Refuse a folder that others may change; ``above`` the cache the system's own and sticky ones will do.

    Raises
    ------
    InputError
        Naming LDPFLOW_CACHE_DIR.
    """
    found = os.lstat(folder)
    allowed = "a folder that only you can write to, in folders that no other user can rename"
    if not stat.S_ISDIR(found.st_mode):
        raise InputError("LDPFLOW_CACHE_DIR", str(folder), allowed, "It is a link or a file.")
    if found.st_uid not in ((os.getuid(), 0) if above else (os.getuid(),)):
        raise InputError("LDPFLOW_CACHE_DIR", str(folder), allowed, "It belongs to another user.")
    if found.st_mode & 0o022 and not (above and found.st_mode & stat.S_ISVTX):
        mode = f"Its mode is {stat.S_IMODE(found.st_mode):o}: others could choose what runs."
        raise InputError("LDPFLOW_CACHE_DIR", str(folder), allowed, mode)


def read_private(file: Path) -> bytes | None:
    """A file of the cache; None where there is none, or one that this user alone did not write."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return None
        raise
    with open(descriptor, "rb") as source:
        found = os.fstat(descriptor)
        private = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
        return source.read() if private else None


def write_private(file: Path, content: bytes) -> None:
    """A file of the cache, whole or not at all."""
    temporary = file.with_name(f"{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(os.open(temporary, flags, 0o600), "wb") as target:
        target.write(content)
    os.replace(temporary, file)


@cache
def inlining_digest() -> str:
    """Digest of the modules that make one function of a kernel: what they change must be compiled again."""
    files = (Path(__file__).with_name(f"{name}.py") for name in INLINING_MODULES)
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


class Lock:
    """Exclusive lock on a file, released by the operating system if the process dies."""

    def __init__(self, file: Path) -> None:
        self.path = file

    def __enter__(self) -> None:
        import fcntl

        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
        self.file = open(os.open(self.path, flags, 0o600), "a")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *exception: object) -> None:
        self.file.close()


class KernelCache:
    """Cache of one kernel, with the methods that a Numba dispatcher calls to load and save compiled code.

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

        compilers = (sys.version, numba.__version__, llvmlite.__version__, inlining_digest())
        key = repr((self.digest, compilers, context.codegen().magic_tuple()))
        return cache_folder() / f"{self.name}-{hashlib.sha256(key.encode()).hexdigest()[:40]}.bin"

    def find(self, context: Any) -> bool:
        """Whether there is a compiled kernel, not damaged; it is kept for :meth:`load_overload`."""
        content = read_private(self.file(context))
        if content is not None and hashlib.sha256(content[32:]).digest() == content[:32]:
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
        write_private(self.file(result.target_context), hashlib.sha256(content).digest() + content)


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


@contextmanager
def without_collections() -> Iterator[None]:
    """No search for cycles of objects, of which a compiler makes many: a tenth of its time."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()


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

    def attempt(plain: Any, **options: Any) -> Any:
        kernel: Any = njit(  # type: ignore[call-overload]
            error_model="numpy", nogil=True, no_cfunc_wrapper=True, **options
        )(plain)
        kernel._cache = store
        kernel.compile(types)
        kernel.disable_compile()
        return kernel

    def made() -> Any:
        from numba.core.errors import NumbaError

        from ldpflow.kernels.pipeline import KernelCompiler

        try:
            return attempt(entry.whole(), pipeline_class=KernelCompiler)
        except NumbaError:
            # Each function by itself: an error of its source names its own file and line.
            return attempt(entry.plain())

    context = cpu_target.target_context
    with without_collections():
        if store.find(context):
            kernel = attempt(entry.outline())
        else:
            counts["compiling"] += 1
            try:
                with Lock(store.file(context).with_suffix(".lock")):
                    kernel = attempt(entry.outline()) if store.find(context) else made()
            finally:
                counts["compiling"] -= 1
    counts["hits"] += sum(kernel.stats.cache_hits.values())
    counts["misses"] += sum(kernel.stats.cache_misses.values())
    KERNELS[entry.digest, signature] = kernel
    return kernel
